"""`allowed_origins`: the pages that may use the API in a browser, by default those of any site."""

from pathlib import Path

import pytest
from tests.server.inprocess import Reply, ask
from tests.server.local import ADMIN, NEW, E, Local

from ldpbandits.cli import main
from ldpbandits.errors import ParameterError
from ldpbandits.server.api.origins import check_origins, only_for

OURS, OTHER = "https://shop.example", "https://other.example"
ALLOW = "access-control-allow-origin"


def send(local: Local, method: str, path: str, origin: str | None) -> Reply:
    """Send a request of a page of this origin to the API that is for ours."""
    headers = {} if origin is None else {"Origin": origin}
    app = only_for([OURS, "https://www.shop.example"], local.app)
    reply: Reply = local.do(ask(app, method, path, key=ADMIN, headers=headers))
    return reply


@pytest.mark.parametrize(
    "path", [E, f"{E}/offer", f"{E}/responses.csv", "/v1/experiments/none", "/none", "/openapi.json"]
)
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
def test_pages_of_other_sites_read_nothing(local: Local, method: str, path: str) -> None:
    """Replies and refusals name the origin of the request or none, and caches keep them apart."""
    for origin, expected in ((OURS, OURS), (OTHER, None), (f"{OURS}.evil.example", None), ("null", None), (None, None)):
        reply = send(local, method, path, origin)
        assert reply.headers.get(ALLOW) == expected
        is_open = ALLOW in local.do(ask(local.app, method, path, key=ADMIN)).headers
        assert (reply.headers.get("vary") == "Origin") == is_open


def test_programs_are_answered_as_before(local: Local) -> None:
    """It is for browsers: a program without an origin gets the same reply."""
    assert send(local, "GET", E, None).body == local("GET", E).body
    assert send(local, "GET", E, OTHER).status == 200


def test_without_origins_every_page_may_read(local: Local) -> None:
    """The application is the same, with nothing around it."""
    assert only_for((), local.app) is local.app
    assert local("GET", E).headers[ALLOW] == "*"
    assert NEW["name"] == "headline"


@pytest.mark.parametrize(
    "origin",
    ["*", "shop.example", "https://shop.example/", "https://Shop.example", "https://a b", "ftp://a", "null", ""],
)
def test_an_origin_is_as_a_browser_sends_it(origin: str) -> None:
    """Anything else would allow nobody, or look as if it allowed more than it does."""
    with pytest.raises(ParameterError, match=r"allowed_origins are like https://example\.org"):
        check_origins([OURS, origin])
    assert check_origins([OURS, "http://localhost:3000", "http://[::1]:80"])[0] == OURS


def test_a_server_does_not_start_with_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, and no database is left behind."""
    monkeypatch.chdir(tmp_path)
    assert main(["serve", "--allowed-origins", "https://shop.example/"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not list(tmp_path.iterdir())
