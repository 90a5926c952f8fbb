"""An experimenter's questions: one deadline, bounded replies, the server's sentence, a key that goes nowhere else."""

import traceback
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest
from tests.admin.conftest import Saying, reply
from tests.server.running import Running

from ldpbandits import Admin, OutputError, ParameterError, ServerError
from ldpbandits.admin import http

KEY = "admin-secret-key"
Says = Callable[..., Saying]


def asking(server: Saying, prefix: str = "", timeout: float = 20.0) -> Admin:
    """Return who asks it."""
    return Admin(f"http://127.0.0.1:{server.port}{prefix}", KEY, timeout=timeout)


def refusal(admin: Admin) -> ServerError:
    """Return what comes of asking for the list."""
    with pytest.raises(ServerError) as caught:
        admin.list()
    assert KEY not in "".join(traceback.format_exception(caught.value))
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_server_behind_a_prefix_is_asked_there(saying: Says) -> None:
    """The path of the URL stands before each path, and the key in its header."""
    server = saying(reply(b"[]"))
    assert asking(server, "/agents/one/").list() == ()
    (heard,) = server.heard
    assert heard.startswith(b"GET /agents/one/v1/experiments HTTP/1.1\r\n")
    assert f"\r\nAuthorization: Bearer {KEY}\r\n".encode() in heard


@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 200 OK\r\n", reply(b"[]")[:-2] + b"["])
def test_a_server_that_drips_is_left_at_the_deadline(saying: Says, says: bytes) -> None:
    """One deadline holds for the whole exchange: in its head, between, and in its body."""
    endless = says.replace(b"Content-Length: 2", b"Content-Length: 9999")
    server, start = saying(endless, drips=True), monotonic()
    error = refusal(asking(server, timeout=0.3))
    assert (error.status, error.code) == (0, "unreachable")
    assert str(error) == f"the server at 127.0.0.1:{server.port} cannot be reached: timed out"
    assert monotonic() - start < 60  # it drips for ever


def test_a_reply_that_is_too_large_is_refused_while_it_arrives(saying: Says, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would go on for ever: no more of it is read than may be."""
    monkeypatch.setattr(http, "MAX_REPLY_BYTES", 1000)
    endless = b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 5000
    error = refusal(asking(saying(endless, drips=True)))
    assert (error.code, str(error)) == ("unreadable", "the server's reply has more than 1000 bytes")


def test_a_reply_that_is_broken_off_is_no_reply(saying: Says) -> None:
    """Half a list is not taken for a list."""
    server = saying(reply(b"[]   ")[:-3])
    assert refusal(asking(server)).code == "unreachable"


def test_a_refusal_is_the_servers_sentence(saying: Says) -> None:
    """With its status and code; what it would do to a terminal is left out."""
    says = rb'{"code": "closed", "message": "it is \u001b[2Jclosed\nfor good"}'
    error = refusal(asking(saying(reply(says, "409 Conflict"))))
    assert (error.status, error.code) == (409, "closed")
    assert str(error) == "the server refuses (409): it is ?[2Jclosed?for good"


def test_a_wrong_key_is_said_so(server: Running) -> None:
    """By a real server."""
    error = refusal(Admin(server.url, KEY))
    assert (error.status, error.code, str(error)) == (401, "unauthorized", "the server does not know this key")


def test_a_server_that_is_not_there_cannot_be_reached() -> None:
    """Port 9 has nobody."""
    error = refusal(Admin("http://127.0.0.1:9", KEY))
    assert (error.status, error.code) == (0, "unreachable")
    assert str(error) == "the server at 127.0.0.1:9 cannot be reached: Connection refused"


@pytest.mark.parametrize("body", [b"<html>", b"", b"[" * 100_000, b"null", b'{"message": 3}'])
def test_what_is_no_agent_server_is_said_so(saying: Says, body: bytes) -> None:
    """Whatever its status."""
    for status in ("200 OK", "404 Not Found"):
        if (body, status) != (b'{"message": 3}', "200 OK"):
            error = refusal(asking(saying(reply(body, status))))
            assert (error.code, "is not from an agent server: check the URL." in str(error)) == ("unreadable", True)


def test_a_key_follows_no_redirect(saying: Says) -> None:
    """The place that a server points to is told, and not asked."""
    other = saying(reply(b"[]"))
    moved = reply(b"", "301 Moved", f"Location: http://127.0.0.1:{other.port}/")
    error = refusal(asking(saying(moved)))
    assert f"It points to 'http://127.0.0.1:{other.port}/'" in str(error)
    assert other.heard == []


@pytest.mark.parametrize(
    "url",
    [
        "",
        "agent.example",
        "ftp://x",
        "http://",
        "http://a:b@x",
        "http://x/?a=1",
        "http://x/#a",
        "http://x:a",
        "http://[x",
    ],
)
def test_a_url_that_cannot_be_one_is_refused(url: str) -> None:
    """Before anything is sent."""
    with pytest.raises(ParameterError, match=r"^a server's URL looks like https://agent.example, got '"):
        Admin(url, KEY)


@pytest.mark.parametrize("key", ["", "two\nlines", "schlüssel"])
def test_a_key_that_cannot_be_one_is_refused_without_showing_it(key: str) -> None:
    """It is text in a header."""
    with pytest.raises(
        ParameterError, match=r"^a key must not be empty, and is made of ASCII letters, digits and signs$"
    ):
        Admin("http://x", key)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
def test_a_timeout_is_finite(timeout: float) -> None:
    """And above 0."""
    with pytest.raises(ParameterError, match="a timeout must be finite and > 0"):
        Admin("http://x", KEY, timeout=timeout)


def test_the_key_is_shown_nowhere() -> None:
    """Not in what a notebook prints."""
    assert repr(Admin("http://127.0.0.1:9", KEY)) == "Admin('http://127.0.0.1:9')"


def test_what_is_no_json_is_not_sent() -> None:
    """A number that is none is refused here, in one line."""
    with pytest.raises(ParameterError, match="this cannot be sent as JSON"):
        Admin("http://127.0.0.1:9", KEY).create("x", ["a"], epsilon=float("nan"))


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CSV = b"response_number,arm,response\n1,0,1.0\n"
WHOLE = CHUNKED + b"%x\r\n" % len(CSV) + CSV + b"\r\n0\r\n\r\n"


def test_an_export_is_there_when_it_is_whole(saying: Says, tmp_path: Path) -> None:
    """It says how many responses it holds."""
    assert asking(saying(WHOLE)).export("x", tmp_path / "x.csv") == 1
    assert (tmp_path / "x.csv").read_bytes() == CSV


@pytest.mark.parametrize(
    ("says", "told"),
    [
        (WHOLE[:-5], "cannot be reached"),
        (WHOLE[:-15], "cannot be reached"),
        (reply(CSV)[:-3], "the reply was truncated"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + CSV, "has no length"),
        (reply(b'{"code": "not_found", "message": "no such"}', "404 Not Found"), r"refuses \(404\): no such"),
        (reply(b"[]", "202 Accepted"), "the server answers 202"),
    ],
)
def test_an_export_that_is_broken_off_leaves_no_file(saying: Says, tmp_path: Path, says: bytes, told: str) -> None:
    """What was there before stays, and nothing else is left."""
    (tmp_path / "x.csv").write_bytes(b"old")
    with pytest.raises(ServerError, match=told):
        asking(saying(says)).export("x", tmp_path / "x.csv")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("x.csv", b"old")]


def test_an_export_that_stands_still_is_left(saying: Says, tmp_path: Path) -> None:
    """Each piece must come within the timeout, however long the whole takes."""
    with pytest.raises(ServerError, match="timed out"):
        asking(saying(WHOLE[:-5] + b"5\r\n", drips=True), timeout=0.3).export("x", tmp_path / "x.csv")
    assert list(tmp_path.iterdir()) == []


def test_an_export_that_cannot_be_written_says_so(saying: Says, tmp_path: Path) -> None:
    """And not that the server is to blame."""
    with pytest.raises(OutputError, match="cannot be written: Not a directory"):
        asking(saying(WHOLE)).export("x", Path("/dev/null/x.csv"))
    assert list(tmp_path.iterdir()) == []
