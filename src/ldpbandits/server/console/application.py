"""The console as an ASGI application: a table of pages and their roles, and the error page."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send

from ldpbandits.server.api.rate_limits import RateLimits
from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.console import about, actions, create, describe, keys, pages
from ldpbandits.server.console.forms import check_csrf, read_form
from ldpbandits.server.console.live import Live
from ldpbandits.server.console.replies import page
from ldpbandits.server.console.sessions import Session, Sessions
from ldpbandits.server.console.visits import Visit, check_origin, cookie_name
from ldpbandits.server.experiments.limits import LARGEST_BODY_BYTES, LARGEST_EXPERIMENT_BYTES
from ldpbandits.server.keys import Role
from ldpbandits.server.service import Service
from ldpbandits.server.store import Unavailable
from ldpbandits.spec.protocol import Code

Handler: TypeAlias = Callable[[Visit], Awaitable[Response]]
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Page:
    """A page of the console, and the role that it needs; None: no session is needed."""

    method: Literal["GET", "POST"]
    path: str
    handler: Handler
    role: Role | None = Role.VIEWER

    @property
    def leads_in(self) -> bool:
        """Tell whether a visitor without a session is redirected to sign in: a stream or a form is refused instead."""
        return self.method == "GET" and self.handler is not pages.events


ONE = "/console/experiments/{name}"
PAGES = (
    Page("GET", "/docs", pages.interface, None),
    Page("GET", "/about/{name}", about.show, None),
    Page("GET", "/console", pages.root, None),
    Page("GET", "/console/static/{file:path}", pages.static_file, None),
    Page("GET", "/console/sign-in", pages.sign_in_page, None),
    Page("POST", "/console/sign-in", pages.sign_in, None),
    Page("GET", "/console/enter/{token}", pages.enter, None),
    Page("POST", "/console/sign-out", pages.sign_out),
    Page("GET", "/console/", pages.experiments),
    Page("GET", "/console/events", pages.events),
    Page("GET", "/console/log", pages.changes),
    Page("GET", "/console/keys", keys.show, Role.ADMIN),
    Page("POST", "/console/keys", keys.add, Role.ADMIN),
    Page("GET", "/console/keys/{key}/remove", keys.confirm, Role.ADMIN),
    Page("POST", "/console/keys/{key}/remove", keys.remove, Role.ADMIN),
    Page("GET", "/console/new", create.show, Role.EDITOR),
    Page("POST", "/console/new", create.submit, Role.EDITOR),
    Page("GET", "/console/epsilon", create.epsilon, Role.EDITOR),
    Page("GET", ONE, pages.experiment),
    Page("GET", f"{ONE}/events", pages.events),
    Page("GET", f"{ONE}/history.json", pages.history),
    Page("GET", f"{ONE}/responses.csv", pages.responses),
    Page("GET", f"{ONE}/tallies.json", pages.tallies),
    Page("GET", f"{ONE}/report.html", pages.report_file),
    Page("GET", f"{ONE}/papers.zip", pages.papers),
    Page("GET", f"{ONE}/log", pages.changes),
    Page("GET", f"{ONE}/describe", describe.show, Role.EDITOR),
    Page("POST", f"{ONE}/describe", describe.submit, Role.EDITOR),
    Page("GET", f"{ONE}/{{action}}", actions.confirm, Role.EDITOR),
    Page("POST", f"{ONE}/{{action}}", actions.act, Role.EDITOR),
)


class Console:
    """Serves all paths below /console and /about, and /docs. It accepts its own cookies, and no other keys."""

    def __init__(self, service: Service, rates: RateLimits) -> None:
        """Serve the experiments of this service within the rate limits of the keys; start without sessions."""
        self._service = service
        self._rates = rates
        self._sessions = Sessions(service)
        self._live = Live(service, self._sessions)
        self._router = Router([Route(page.path, self._endpoint(page), methods=[page.method]) for page in PAGES])
        self._router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of a browser."""
        begun = False

        async def note(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._router(scope, receive, note)
        except Exception as error:
            if begun:
                raise
            await self._sorry(Request(scope, receive), error)(scope, receive, send)

    def _endpoint(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            visit = await self._visit(request)
            if page.role is not None and visit.session is None and page.leads_in:
                return pages.to_sign_in(visit)
            _check_role(page.role, visit.session)
            self._check_rate(visit.session)
            if visit.holder is not None:
                self._service.keys.note_use(visit.holder)
            if "name" in request.path_params:
                await self._service.refresh(visit.name)
            if page.method == "POST":
                session = None if page.role is None else visit.session
                check_origin(request, session)
                largest = LARGEST_BODY_BYTES if session is None else LARGEST_EXPERIMENT_BYTES
                visit = await self._visit(request, await read_form(request, largest))
                _check_role(page.role, visit.session)  # it takes time to read a form: it may be over by now
                if session is not None:
                    check_csrf(visit.form, session)
            return await page.handler(visit)

        return endpoint

    def _check_rate(self, session: Session | None) -> None:
        """Refuse a session above its key's rate limit; requests of a page count as requests of the key."""
        seconds = 0.0 if session is None else self._rates.wait(session.key, session.role)
        if seconds:
            raise Refusal.too_fast(seconds)

    async def _visit(self, request: Request, form: dict[str, str] | None = None) -> Visit:
        session = await self._sessions.find(request.cookies.get(cookie_name(request), ""))
        visit = self._visit_of(request, session, form or {})
        if session is not None and session.name and visit.proxied != session.name:  # somebody else is at the proxy now
            return self._visit_of(request, None, form or {})
        return visit

    def _visit_of(self, request: Request, session: Session | None, form: dict[str, str]) -> Visit:
        return Visit(self._service, self._sessions, self._live, request, session, form)

    def _sorry(self, request: Request, error: Exception) -> Response:
        """Show a refusal as a page."""
        match error:
            case Refusal():
                status, sentence = error.status, error.message
                if status == 503:  # noqa: PLR2004 - the HTTP status
                    self._service.meters.refuse("streams", sentence)
            case Unavailable():
                self._service.meters.refuse("store", str(error))
                status, sentence = (
                    503,
                    "the database cannot be written now: check whether the change was made, and try again",
                )
            case HTTPException():
                status = error.status_code
                sentence = "page not found" if status == 404 else error.detail.lower()  # noqa: PLR2004 - HTTP
            case _:
                _log.error("a console page failed", exc_info=error)
                status, sentence = 500, "internal server error: this is a bug"
        # Only this worker's sessions are checked here: the store may be the fault.
        session = self._sessions.known(request.cookies.get(cookie_name(request), ""))
        return page(self._visit_of(request, session, {}), "error.html", status, sentence=sentence)


_LACKS = {
    Role.VIEWER: "the viewer key lets you see everything and change nothing",
    Role.EDITOR: "this page needs the admin key",
}


def _check_role(needed: Role | None, session: Session | None) -> None:
    """Refuse a session without this role."""
    if needed is not None and session is None:
        raise Refusal(401, Code.UNAUTHORIZED, "you are not signed in, or your session has ended")
    if needed is not None and session is not None and not session.role.may(needed):
        raise Refusal(403, Code.FORBIDDEN, _LACKS[session.role])
