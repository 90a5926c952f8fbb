"""Sign-in by a proxy in front: off by default, by a name with a secret beside it, and nothing without."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from starlette.datastructures import Headers
from tests.server.both import NOW, Server
from tests.server.console.browsing import Browser
from tests.server.inprocess import Reply, ask
from tests.server.local import ADMIN, NEW, E
from tests.server.several import Workers

from ldpbandits.cli import main
from ldpbandits.errors import ParameterError
from ldpbandits.server.console.sessions import Sessions
from ldpbandits.server.keys import Role
from ldpbandits.server.proxy_sign_in import PROXY_SECRET_VARIABLE, SECRET_HEADER, ProxySignIn

SECRET = "a secret of the proxy and of nobody else".replace(" ", "-")
USER = "X-Forwarded-User"


@dataclass
class ProxiedBrowser(Browser):
    """A browser behind a proxy that adds headers to each request."""

    added: dict[str, str] = field(default_factory=dict)

    async def send(self, method: str, where: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Reply:
        """Send one request, with what the proxy adds."""
        return await super().send(method, where, body, {**(headers or {}), **self.added})


class Proxied:
    """Somebody behind a proxy that sends who it is, with its secret or another."""

    def __init__(self, server: Server, name: str | None, secret: str | None = SECRET) -> None:
        """Be this person."""
        self._server, self.browser = server, ProxiedBrowser(server.app)
        self.be(name, secret)

    def be(self, name: str | None, secret: str | None = SECRET) -> None:
        """Be somebody else at the proxy."""
        given = {USER: name, SECRET_HEADER: secret}
        self.browser.added = {key: value for key, value in given.items() if value is not None}

    def visit(self, where: str) -> Reply:
        """Go to a page of the console."""
        self.browser.url = "http://bandits.example/console/"
        reply: Reply = self._server.do(self.browser.visit(where))
        return reply

    def submit(self, where: str, fields: dict[str, str]) -> Reply:
        """Send a form."""
        reply: Reply = self._server.do(self.browser.submit(where, fields))
        return reply

    def enter(self) -> Reply:
        """Use the button that continues as this person."""
        self.visit("sign-in")
        self.submit("sign-in", {"proxied": "yes"})
        return self.visit("./")


@pytest.fixture
def proxied(server: Server) -> Server:
    """A server on each store behind a proxy, with an experiment and a few people."""
    assert server("POST", "/v1/experiments", NEW).status == 201
    server.service.proxy = ProxySignIn.of(USER, "none", {PROXY_SECRET_VARIABLE: SECRET})
    for name, role, experiments in (
        ("anna@example.org", "admin", []),
        ("ben@example.org", "editor", ["headline"]),
        ("carl@example.org", "viewer", []),
    ):
        assert server("POST", "/v1/keys", {"name": name, "role": role, "experiments": experiments}).status == 201
    return server


def test_people_enter_by_the_name_that_the_proxy_sends(proxied: Server) -> None:
    """With the rights of their name, in the log under it; a name is the same in any case of letters."""
    ben = Proxied(proxied, "Ben@Example.org")
    assert "Continue as ben@example.org" in ben.visit("sign-in").body.decode()
    assert ">ben@example.org</span>" in ben.enter().body.decode()
    assert ben.visit("experiments/headline/pause").status == 200
    assert ben.submit("pause", {}).status in {200, 303}
    line = proxied("GET", f"{E}/log").json[0]
    assert (line["who"], line["what"], line["at"]) == ("ben@example.org", "pause", NOW)
    assert ben.visit("keys").status == 403
    assert Proxied(proxied, "anna@example.org").enter().status == 200
    days = {each["name"]: each["last_used"] for each in proxied("GET", "/v1/keys").json}
    assert days["ben@example.org"] == "1970-01-12"
    assert days["carl@example.org"] is None


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("anna@example.org", None),
        ("anna@example.org", ""),
        ("anna@example.org", SECRET[:-1]),
        ("anna@example.org", "x" * len(SECRET)),
        ("anna@example.org", "\xe9" * len(SECRET)),
        (None, SECRET),
        ("", SECRET),
        ("admin", SECRET),
        ("server", SECRET),
        ("anna@example.org, eve", SECRET),
        ("eve@example.org", SECRET),
    ],
)
def test_nobody_enters_without_the_secret_or_a_name(proxied: Server, name: str | None, secret: str | None) -> None:
    """Nor under a name of the server's own, nor one to whom nobody gave a right."""
    eve = Proxied(proxied, name, secret)
    eve.visit("sign-in")
    refused = eve.submit("sign-in", {"proxied": "yes"})
    assert refused.status == 403
    assert eve.browser.cookies == {}
    assert "Sign in" in eve.visit("./").body.decode()


def test_a_header_that_comes_twice_names_nobody(proxied: Server) -> None:
    """A client may have sent one of them, which a proxy left there."""
    assert proxied.service.proxy is not None
    secret, name = (SECRET_HEADER.encode(), SECRET.encode()), (USER.lower().encode(), b"anna")
    assert proxied.service.proxy.name(Headers(raw=[secret, name])) == "anna"
    for raw in ([secret, name, name], [secret, secret, name], [name], [secret]):
        assert proxied.service.proxy.name(Headers(raw=raw)) is None


def test_a_session_is_that_of_the_person_at_the_proxy(proxied: Server) -> None:
    """It does nothing for another person, without the secret, or once the right is taken."""
    anna = Proxied(proxied, "anna@example.org")
    assert "New experiment" in anna.enter().body.decode()
    for name, secret in (("carl@example.org", SECRET), ("anna@example.org", None), (None, None)):
        anna.be(name, secret)
        assert "Sign in" in anna.visit("./").body.decode()
    anna.be("anna@example.org")
    assert "New experiment" in anna.visit("./").body.decode()
    assert proxied("DELETE", "/v1/keys/anna@example.org").status == 200
    assert "Sign in" in anna.visit("./").body.decode()


def test_a_default_role_is_that_of_every_other_name(proxied: Server) -> None:
    """A name with a key of its own has the rights of that."""
    proxied.service.proxy = ProxySignIn.of(USER, "viewer", {PROXY_SECRET_VARIABLE: SECRET})
    eve = Proxied(proxied, "eve@example.org")
    assert ">eve@example.org</span>" in eve.enter().body.decode()
    assert eve.visit("experiments/headline/pause").status == 403
    proxied.service.keys.write_uses(NOW)
    assert "eve@example.org" not in proxied.service._store.key_uses()
    assert "New experiment" in Proxied(proxied, "anna@example.org").enter().body.decode()


def test_it_is_off_by_default(server: Server) -> None:
    """The header means nothing then; keys open the console with and without a proxy."""
    assert server.service.proxy is None
    anna = Proxied(server, "anna@example.org")
    assert "Continue as" not in anna.visit("sign-in").body.decode()
    assert anna.submit("sign-in", {"proxied": "yes"}).status == 403
    assert anna.submit("sign-in", {"key": ADMIN}).status in {200, 303}


def test_the_api_takes_keys_only(proxied: Server) -> None:
    """A name in a header is nobody's key."""
    headers = {USER: "anna@example.org", SECRET_HEADER: SECRET}
    assert proxied.do(ask(proxied.app, "GET", "/v1/experiments", headers=headers)).status == 401


@pytest.mark.parametrize(
    ("header", "secret", "told"),
    [
        ("", SECRET, "is set without proxy_user_header"),
        (USER, "", "needs a secret of at least 32"),
        (USER, "short", "needs a secret of at least 32"),
        (USER, "x" * 31 + " ", "needs a secret of at least 32"),
        ("X User", SECRET, "proxy_user_header is a header"),
        ("Authorization", SECRET, "proxy_user_header is a header"),
        (SECRET_HEADER, SECRET, "proxy_user_header is a header"),
    ],
)
def test_it_is_refused_without_a_secret(header: str, secret: str, told: str) -> None:
    """In one line, which does not quote it."""
    with pytest.raises(ParameterError, match=told) as refused:
        ProxySignIn.of(header, "none", {PROXY_SECRET_VARIABLE: secret} if secret else {})
    assert not secret or secret not in str(refused.value)


def test_a_server_does_not_start_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And leaves no database behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(PROXY_SECRET_VARIABLE, raising=False)
    assert main(["serve", "--proxy-user-header", USER]) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert PROXY_SECRET_VARIABLE in printed
    assert not list(tmp_path.iterdir())


def test_the_secret_is_shown_nowhere() -> None:
    """Not even by a repr."""
    made = ProxySignIn.of(USER, "admin", {PROXY_SECRET_VARIABLE: SECRET})
    assert made is not None
    assert (made.default_role, SECRET in repr(made)) == (Role.ADMIN, False)


def test_a_session_of_the_proxy_holds_at_every_worker(workers: Workers) -> None:
    """Workers share it in the database, as those of keys."""

    async def play() -> None:
        for worker in workers.all:
            worker.proxy = ProxySignIn.of(USER, "viewer", {PROXY_SECRET_VARIABLE: SECRET})
        one, two = map(Sessions, workers.all)
        token = await one.open_for("eve@example.org", "http://x")
        assert token is not None
        found = await two.find(token)
        assert found is not None
        assert (found.name, found.role) == ("eve@example.org", Role.VIEWER)

    asyncio.run(play())
