"""A request to a page, and its authentication: by its cookie, and for forms by token and origin (CSRF).

A form of somebody else's page brings the cookie along at most when it is of the same site, never the session's token
for forms, and always tells its own origin.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.requests import Request

from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.experiments.commands import Commands
from ldpbandits.server.keys import Holder, Role
from ldpbandits.server.service import Service
from ldpbandits.spec.protocol import Code

if TYPE_CHECKING:
    from ldpbandits.server.console.live import Line, Live, Snapshot
    from ldpbandits.server.console.sessions import Session, Sessions

ROOT = b"/console/"
FOLLOWS = "ldpbandits-follows"
"""The header of a page that asks for itself again because there is something new to see."""


@dataclass(frozen=True)
class Visit:
    """A request of somebody who may make it, and what there is to answer it with."""

    service: Service
    sessions: "Sessions"
    live: "Live"
    request: Request
    session: "Session | None"
    form: Mapping[str, str]

    @property
    def home(self) -> str:
        """The way from this page up to the console's own folder; all that we link to is below it."""
        raw: bytes = self.request.scope.get("raw_path") or self.request.scope["path"].encode()
        if not raw.startswith(ROOT):
            return "../" * (raw.count(b"/") - 1) + "console/"
        return "../" * raw.removeprefix(ROOT).count(b"/") or "./"

    @property
    def name(self) -> str:
        """The experiment of this page."""
        return str(self.request.path_params["name"])

    async def snapshot(self, name: str | None = None) -> "Snapshot":
        """Return a snapshot of an experiment, by default that of this page."""
        return await self.live.snapshot(name or self.name, follows=FOLLOWS in self.request.headers)

    async def line(self, name: str) -> "Line":
        """Return the content of an experiment's line in the list."""
        return await self.live.line(name, follows=FOLLOWS in self.request.headers)

    @property
    def holder(self) -> Holder | None:
        """Who is signed in; None when nobody is."""
        return None if self.session is None else self.sessions.holder(self.session)

    @property
    def proxied(self) -> str | None:
        """The name that the proxy in front sends; None where there is no such proxy, or nobody is signed in at it."""
        proxy = self.service.proxy
        return None if proxy is None else proxy.name(self.request.headers)

    @property
    def commands(self) -> Commands:
        """The commands of the visitor, who has a session."""
        if self.holder is None:
            raise Refusal(403, Code.FORBIDDEN, "the key of this session has ended: sign in again")
        return self.service.commands.of(self.holder)

    @property
    def may_change(self) -> bool:
        """Tell whether the visitor may change the experiment of this page, or create one where it is of none."""
        if self.holder is None:
            return False
        name = self.request.path_params.get("name")
        return self.holder.role.may(Role.EDITOR) if name is None else self.holder.may_change(str(name))

    @property
    def is_admin(self) -> bool:
        """Tell whether the visitor may change everything."""
        return self.holder is not None and self.holder.role is Role.ADMIN


def cookie_name(request: Request) -> str:
    """Return the name of our cookie; browsers tell the servers of one machine apart by name only, not by port."""
    _, port = request.scope.get("server") or ("", None)
    return f"ldpbandits-{port}" if port else "ldpbandits"


def check_origin(request: Request, session: "Session | None") -> str:
    """Return the origin of a form; refuse one that is not from a page of ours.

    Browsers say `Sec-Fetch-Site` wherever it can be trusted. Once somebody is signed in, the origin is the one at which
    they did; before that, it is the host that is asked, unless a proxy hides it.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin", "")
    parts = urlsplit(origin)
    is_ours = parts.scheme in {"http", "https"} and bool(parts.netloc) and site in {None, "same-origin"}
    if session is not None:
        is_ours = is_ours and origin == session.origin
    elif site is None:
        is_ours = is_ours and parts.netloc == request.headers.get("host")
    if not is_ours:
        raise Refusal(403, Code.FORBIDDEN, "this form was not sent from a page of this console")
    return origin
