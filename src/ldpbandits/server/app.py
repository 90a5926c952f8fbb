"""The server as an ASGI application: routes from the table of operations, and what is done while it runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ldpbandits.server.committer import Unavailable
from ldpbandits.server.endpoint import HEADERS, Endpoint, problem
from ldpbandits.server.openapi import openapi
from ldpbandits.server.operations import OPERATIONS
from ldpbandits.server.service import Service

FORGET_EVERY = 60.0


def application(service: Service) -> Starlette:
    """Make the application; it closes the service when it ends."""
    page = msgspec.json.encode(openapi(OPERATIONS))

    async def show_openapi(_: Request) -> Response:
        return Response(page, headers=dict(HEADERS), media_type="application/json")

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        keeper = asyncio.create_task(_keep_forgetting(service))
        yield
        keeper.cancel()
        with suppress(asyncio.CancelledError):
            await keeper
        service.close()

    routes = [
        Route(_route(operation.path), Endpoint(service, operation), methods=[operation.method])
        for operation in OPERATIONS
    ]
    routes.append(Route("/openapi.json", show_openapi))
    routes.append(Route("/{path:path}", _preflight, methods=["OPTIONS"]))
    return Starlette(
        routes=routes, exception_handlers={HTTPException: _http_problem, Exception: _broken}, lifespan=lifespan
    )


def _route(path: str) -> str:
    """Write a path for the router: arms are whole numbers."""
    return path.replace("{arm}", "{arm:int}")


async def _preflight(_: Request) -> Response:
    """Tell a browser that any page may take part.

    That is safe: keys travel in a header that no browser adds by itself, and there are no cookies.
    """
    allowed = {
        "Access-Control-Allow-Methods": "GET, POST",
        "Access-Control-Allow-Headers": "Authorization, Content-Type",
        "Access-Control-Max-Age": "86400",
    }
    return Response(status_code=204, headers={**HEADERS, **allowed})


async def _http_problem(_: Request, error: Exception) -> Response:
    """What the router itself refuses."""
    if not isinstance(error, HTTPException):
        raise error
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "refused")
    body = problem(code, f"{error.detail.lower()}: see /openapi.json")
    return Response(body, error.status_code, {**HEADERS, **(error.headers or {})}, media_type="application/json")


async def _broken(_: Request, __: Exception) -> Response:
    body = problem("internal", "the server has failed at this; that is a bug")
    return Response(body, 500, dict(HEADERS), media_type="application/json")


async def _keep_forgetting(service: Service) -> None:
    while True:
        with suppress(Unavailable):  # a full disk: there will be another time
            await service.forget()
        await asyncio.sleep(FORGET_EVERY)
