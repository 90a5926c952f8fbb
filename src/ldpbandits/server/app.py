"""The server as an ASGI application: routes from the table of operations, and what is done while it runs."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, request_response

from ldpbandits.server.console.application import Console
from ldpbandits.server.http import HEADERS, Endpoint, Methods, problem
from ldpbandits.server.openapi import openapi
from ldpbandits.server.operations import OPERATIONS
from ldpbandits.server.service import Service
from ldpbandits.server.stopping import stop_separated
from ldpbandits.server.store import Unavailable
from ldpbandits.spec.protocol import Code

FORGET_EVERY = 60.0
WRITE_EVENTS_EVERY = 2.0
LOOK_EVERY = 2.0
_log = logging.getLogger(__name__)


def application(service: Service) -> Starlette:
    """Make the application; it closes the service when it ends."""
    page = msgspec.json.encode(openapi(OPERATIONS))

    async def show_openapi(_: Request) -> Response:
        return Response(page, headers=dict(HEADERS), media_type="application/json")

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        chores = [
            asyncio.create_task(_repeat(service.forget, FORGET_EVERY)),
            asyncio.create_task(_repeat(service.write_events, WRITE_EVENTS_EVERY)),
            asyncio.create_task(_repeat(partial(stop_separated, service), LOOK_EVERY)),
        ]
        try:
            yield
        finally:
            for chore in chores:
                chore.cancel()
            await asyncio.gather(*chores, return_exceptions=True)
            service.close()

    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = Endpoint(service, operation)
    paths["/openapi.json"] = {"GET": request_response(show_openapi)}
    routes = [Route(path, Methods(methods)) for path, methods in paths.items()]
    console = Console(service)
    routes += [Route("/console", console), Route("/console/{rest:path}", console)]  # last: devices never ask for them
    app = Starlette(
        routes=routes,
        exception_handlers={HTTPException: _http_problem, Exception: _broken},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # a path has one spelling
    return app


async def _http_problem(_: Request, error: Exception) -> Response:
    """What the router itself refuses."""
    if not isinstance(error, HTTPException):
        raise error
    code = {404: Code.NOT_FOUND, 405: Code.METHOD_NOT_ALLOWED}.get(error.status_code, Code.REFUSED)
    body = problem(code, f"{error.detail.lower()}: see /openapi.json")
    return Response(body, error.status_code, {**HEADERS, **(error.headers or {})}, media_type="application/json")


async def _broken(_: Request, __: Exception) -> Response:
    body = problem(Code.INTERNAL, "the server has failed at this; that is a bug")
    return Response(body, 500, dict(HEADERS), media_type="application/json")


async def _repeat(chore: Callable[[], Awaitable[None]], seconds: float) -> None:
    while True:
        try:
            await chore()
        except Unavailable:
            pass  # a full disk: there will be another time
        except Exception:  # noqa: BLE001 - whatever it is, nonces must not pile up for ever
            _log.exception("something could not be done that is done from time to time; there will be another try")
        await asyncio.sleep(seconds)
