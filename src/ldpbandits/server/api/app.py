"""The server as an ASGI application: routes from the table of operations, and background tasks."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, request_response
from starlette.types import ASGIApp, Receive, Scope, Send

from ldpbandits.server.api.endpoint import HEADERS, Endpoint, Methods, problem
from ldpbandits.server.api.openapi import openapi
from ldpbandits.server.api.operations import OPERATIONS
from ldpbandits.server.api.rate_limits import RateLimits
from ldpbandits.server.console.application import Console
from ldpbandits.server.experiments.stopping import stop_decided, watch_traffic
from ldpbandits.server.peers.peers import PEER_POLL_INTERVAL_S
from ldpbandits.server.process.front_door import DEFAULT, FrontDoor
from ldpbandits.server.process.metrics import publish_metrics
from ldpbandits.server.service import Service
from ldpbandits.server.store import Unavailable
from ldpbandits.spec.protocol import ACCEPTANCES, DECISIONS, OFFER, RESPONSES, Code

FORGET_INTERVAL_S = 60.0
WRITE_EVENTS_INTERVAL_S = 2.0
STOPPING_INTERVAL_S = 2.0
WEBHOOKS_INTERVAL_S = 2.0
PUBLISH_METRICS_INTERVAL_S = 5.0
_log = logging.getLogger(__name__)


_BEFORE = DECISIONS.split("{name}")[0]


class Application(Starlette):
    """Starlette's routes, and a fast path around them for the requests of devices.

    Its middleware and routing take as long as the rest of a decision; the fast path needs none of it.
    """

    def shorten(self, paths: Mapping[str, Mapping[str, ASGIApp]]) -> None:
        """Serve the requests of devices by the endpoints of these paths and methods."""
        self._fixed = {("POST", path): paths[path]["POST"] for path in (RESPONSES, ACCEPTANCES)}
        self._named = {
            (method, path.removeprefix(f"{_BEFORE}{{name}}")): paths[path][method]
            for method, path in (("POST", DECISIONS), ("GET", OFFER))
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, by the fast path if possible."""
        endpoint = self._short(scope)
        if endpoint is None:
            await super().__call__(scope, receive, send)
            return
        try:
            await endpoint(scope, receive, send)
        except Exception:
            with suppress(RuntimeError):  # a reply was already begun
                await _broken()(scope, receive, send)
            raise  # so that it is logged, as with all other requests

    def _short(self, scope: Scope) -> ASGIApp | None:
        """Return the endpoint of the fast path, or None."""
        if scope["type"] != "http" or scope.get("root_path"):
            return None
        method, path = scope["method"], scope["path"]
        endpoint = self._fixed.get((method, path))
        if endpoint is not None:
            scope["path_params"] = {}
        elif path.startswith(_BEFORE):
            name, slash, verb = path[len(_BEFORE) :].partition("/")
            endpoint = self._named.get((method, slash + verb)) if name else None
            scope["path_params"] = {"name": name}
        return endpoint


def application(service: Service, front_door: FrontDoor = DEFAULT, prefix: str = "") -> Starlette:
    """Build the application, which closes the service when it ends; `prefix` precedes its paths outside."""
    rates, service.offer_max_age = RateLimits(front_door), front_door.offer_max_age
    page = msgspec.json.encode(openapi(OPERATIONS, prefix))

    async def show_openapi(_: Request) -> Response:
        return Response(page, headers=dict(HEADERS), media_type="application/json")

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(_repeat(*each)) for each in _background_tasks(service)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            service.close()

    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = Endpoint(service, operation, rates)
    paths["/openapi.json"] = {"GET": request_response(show_openapi)}
    routes = [Route(path, Methods(methods)) for path, methods in paths.items()]
    console = Console(service, rates)
    pages = ("/console", "/console/{rest:path}", "/docs", "/about/{name}")
    routes += [Route(path, console) for path in pages]  # last: devices never ask for them
    app = Application(
        routes=routes,
        exception_handlers={HTTPException: partial(_http_problem, prefix), Exception: _fail},
        lifespan=lifespan,
    )
    app.shorten(paths)
    app.router.redirect_slashes = False  # a path has one spelling
    return app


async def _http_problem(prefix: str, _: Request, error: Exception) -> Response:
    """Translate the router's own refusals."""
    if not isinstance(error, HTTPException):
        raise error
    code = {404: Code.NOT_FOUND, 405: Code.METHOD_NOT_ALLOWED}.get(error.status_code, Code.REFUSED)
    body = problem(code, f"{error.detail.lower()}: see {prefix}/docs")
    return Response(body, error.status_code, {**HEADERS, **(error.headers or {})}, media_type="application/json")


async def _fail(_: Request, __: Exception) -> Response:
    return _broken()


def _broken() -> Response:
    body = problem(Code.INTERNAL, "internal server error: this is a bug")
    return Response(body, 500, dict(HEADERS), media_type="application/json")


def _background_tasks(service: Service) -> list[tuple[str, Callable[[], Awaitable[None]], float]]:
    """Return the name, the work and the interval in seconds of each background task."""
    tasks: list[tuple[str, Callable[[], Awaitable[None]], float]] = [
        ("forget", service.forget, FORGET_INTERVAL_S),
        ("write_events", service.write_events, WRITE_EVENTS_INTERVAL_S),
        ("stop_decided", partial(stop_decided, service), STOPPING_INTERVAL_S),
        ("watch_traffic", partial(watch_traffic, service), STOPPING_INTERVAL_S),
    ]
    if service.webhooks is not None:
        tasks.append(("webhooks", service.webhooks.deliver, WEBHOOKS_INTERVAL_S))
    if service.peers is not None:
        tasks.append(("poll", service.peers.poll, PEER_POLL_INTERVAL_S))
        tasks.append(("publish_metrics", partial(publish_metrics, service), PUBLISH_METRICS_INTERVAL_S))
    return tasks


async def _repeat(name: str, work: Callable[[], Awaitable[None]], seconds: float) -> None:
    while True:
        try:
            await work()
        except Unavailable:
            pass  # a full disk: the next run retries
        except Exception:  # noqa: BLE001 - whatever it is, nonces must not pile up for ever
            _log.exception("background task %s failed; next try in %g s", name, seconds)
        await asyncio.sleep(seconds)
