"""A browser, as far as the console is concerned: it keeps the cookie, fills in forms, and lives behind a prefix."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

from starlette.applications import Starlette
from tests.server.inprocess import Reply, ask

from ldpbandits.server.api.app import application
from ldpbandits.server.service import Service

HOST = "bandits.example"
KEYS = {role: f"{role}-key-of-this-test" for role in ("admin", "viewer", "client")}
ENVIRONMENT = {f"LDPBANDITS_{role.upper()}_KEY": key for role, key in KEYS.items()}
HEADLINE: dict[str, Any] = {
    "name": "headline",
    "arms": ["blue", "green"],
    "curator": {"mechanism": "bernoulli", "epsilon": 1},
    "goal": "earn",
}


@dataclass
class Browser:
    """It is where `url` is; requests go to the application without the prefix, as a proxy sends them."""

    app: Starlette
    scheme: str = "http"
    prefix: str = ""
    cookies: dict[str, str] = field(default_factory=dict)
    url: str = ""
    page: str = ""
    set_cookie: str = ""

    def __post_init__(self) -> None:
        """Begin at the console's address."""
        self.url = self.url or f"{self.origin}{self.prefix}/console"

    @property
    def origin(self) -> str:
        """Where pages come from."""
        return f"{self.scheme}://{HOST}"

    async def send(self, method: str, where: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Reply:
        """Send one request to an address that is relative to this page; follow nothing."""
        parts = urlsplit(urljoin(self.url, where))
        assert parts.netloc == HOST
        assert parts.path.startswith(f"{self.prefix}/"), parts.path
        sent = {"Host": HOST, **(headers or {})}
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        path = parts.path.removeprefix(self.prefix) + (f"?{parts.query}" if parts.query else "")
        reply = await ask(self.app, method, path, body, headers=sent)
        if "set-cookie" in reply.headers:
            self.set_cookie = reply.headers["set-cookie"]
            name, _, value = self.set_cookie.split(";")[0].partition("=")
            self.cookies = {name: value} if value else {}
        return reply

    async def visit(self, where: str = "") -> Reply:
        """Go to a page, and on to where it leads."""
        return await self._follow(await self.send("GET", where), where)

    async def submit(self, where: str, fields: Mapping[str, str], headers: Mapping[str, str] | None = None) -> Reply:
        """Send a form of this page, with the token that it has."""
        token = {} if self.csrf is None else {"csrf": self.csrf}
        sent = {"Origin": self.origin, "Content-Type": "application/x-www-form-urlencoded", **(headers or {})}
        reply = await self.send("POST", where, urlencode({**token, **fields}).encode(), sent)
        return await self._follow(reply, where)

    async def sign_in(self, role: str) -> Reply:
        """Show the key of this role."""
        await self.visit(f"{self.origin}{self.prefix}/console")
        return await self.submit("sign-in", {"key": KEYS[role]})

    @property
    def csrf(self) -> str | None:
        """The token of the forms of this page."""
        found = re.search(r'name="csrf" value="([^"]*)"', self.page)
        return None if found is None else found[1]

    async def _follow(self, reply: Reply, where: str) -> Reply:
        self.url = urljoin(self.url, where)
        while reply.status == 303:
            where = reply.headers["location"]
            assert not where.startswith(("/", "http")), "ways are relative"
            reply = await self.send("GET", where)
            self.url = urljoin(self.url, where)
        self.page = reply.body.decode()
        return reply


def browser(service: Service, *, scheme: str = "http", prefix: str = "") -> Browser:
    """Return a new browser before an application of this service."""
    return Browser(application(service), scheme, prefix)


class Elements(HTMLParser):
    """The elements of a page, each with its attributes."""

    def __init__(self, page: str) -> None:
        """Read a page."""
        super().__init__()
        self.all: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element."""
        self.all.append((tag, dict(attrs)))

    def values(self, *names: str) -> list[str]:
        """Return the values of attributes of these names."""
        return [value for _, attributes in self.all for name, value in attributes.items() if name in names and value]


def text(page: str) -> str:
    """Return what a page says, without its marks."""
    words = re.sub(r"<[^>]*>", " ", re.sub(r"(?s)<(style|script).*?</\1>", " ", page))
    return " ".join(unescape(words).split())
