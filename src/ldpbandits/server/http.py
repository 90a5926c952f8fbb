"""HTTP: a request becomes an operation, and what the service says becomes a reply. It logs no request.

It speaks ASGI itself: beside all that a framework does for a request, handing out an arm is a small thing.
"""

import asyncio
from typing import Any, cast

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ldpbandits.server.keys import Role
from ldpbandits.server.messages import Problem
from ldpbandits.server.operations import Operation, Text
from ldpbandits.server.reading import Reader
from ldpbandits.server.refusals import Refusal
from ldpbandits.server.service import Service
from ldpbandits.server.store import Unavailable
from ldpbandits.spec.protocol import Code

HEADERS = {"Access-Control-Allow-Origin": "*"}
"""Pages of any origin may read what the server says."""

_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
_encode = msgspec.json.Encoder().encode


def problem(code: str, message: str) -> bytes:
    """Return the body of a refusal, as JSON."""
    return _encode(Problem(code, message))


class Endpoint:
    """An ASGI application for one operation."""

    def __init__(self, service: Service, operation: Operation) -> None:
        """Prepare to read the messages of this operation."""
        self._service = service
        self._operation = operation
        self._reader = None if operation.body is None else Reader(operation.body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request: the reply of the operation, or the refusal."""
        status, headers = self._operation.status, _HEADERS
        try:
            result = await self._result(scope, receive)
        except Refusal as refusal:
            status, body = refusal.status, problem(refusal.code, refusal.message)
            if status == 401:  # noqa: PLR2004 - the HTTP status
                headers = [*headers, (b"www-authenticate", b"Bearer")]
        except Unavailable:
            told = Refusal.unavailable()
            status, body = told.status, problem(told.code, told.message)
            headers = [*headers, (b"retry-after", b"1")]
        else:
            if isinstance(result, Text):
                await StreamingResponse(result.pieces, headers=HEADERS, media_type=result.media_type)(
                    scope, receive, send
                )
                return
            body = _encode(result)
        length, json = (b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")
        await send({"type": "http.response.start", "status": status, "headers": [length, json, *headers]})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _result(self, scope: Scope, receive: Receive) -> Any:  # noqa: ANN401 - any message
        operation, service = self._operation, self._service
        if operation.role is not None:
            _check_key(service, operation.role, scope["headers"])
        # A message of which nothing is required may be left out.
        body = None if self._reader is None else self._reader.read(await _body(receive, operation.largest) or b"{}")
        if operation.is_change:
            async with service.changing:
                return await operation.run(service, scope["path_params"], body)
        return await operation.run(service, scope["path_params"], body)


def _check_key(service: Service, needed: Role, headers: list[tuple[bytes, bytes]]) -> None:
    header = next((value for name, value in headers if name == b"authorization"), b"")
    role = service.role(header[7:]) if header[:7].lower() == b"bearer " else None
    if role is None:
        service.reject(Code.UNAUTHORIZED)
        raise Refusal(401, Code.UNAUTHORIZED, "a valid key is needed: Authorization: Bearer KEY")
    if not role.may(needed):
        service.reject(Code.FORBIDDEN)
        raise Refusal(403, Code.FORBIDDEN, f"this needs the {needed.value} key")


async def _body(receive: Receive, largest: int) -> bytes:
    body: bytes = b""
    while True:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, Code.MALFORMED, "the request was broken off")
        body += message.get("body", b"")
        if len(body) > largest:
            raise Refusal(413, Code.TOO_LARGE, f"a body has at most {largest} bytes")
        if not message.get("more_body", False):
            return body


class Methods:
    """What may be done at one path. The router's own way knows one method a path when it says which are allowed."""

    def __init__(self, methods: dict[str, ASGIApp]) -> None:
        """Take what answers to each method."""
        self._methods = methods | ({"HEAD": methods["GET"]} if "GET" in methods else {})
        self._allow = ", ".join(sorted([*self._methods, "OPTIONS"]))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or say which methods there are."""
        endpoint = self._methods.get(scope["method"])
        if endpoint is not None:
            await endpoint(scope, receive, send)
        elif scope["method"] == "OPTIONS":
            await _preflight(self._allow)(scope, receive, send)
        else:
            raise HTTPException(405, headers={"Allow": self._allow})


def _preflight(allow: str) -> Response:
    """Tell a browser that any page may take part.

    That is safe: keys travel in a header that no browser adds by itself, and there are no cookies.
    """
    allowed = {
        "Allow": allow,
        "Access-Control-Allow-Methods": "GET, POST",
        "Access-Control-Allow-Headers": "Authorization, Content-Type",
        "Access-Control-Max-Age": "86400",
    }
    return Response(status_code=204, headers={**HEADERS, **allowed})


class _Joined:
    """A transport that sends in one piece what is written in one turn of the event loop.

    uvicorn writes head and body one after the other, and each write is a call to the system and wakes the reader. For
    replies as small as ours that is much of the work.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._waiting: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the rest is the transport's
        return getattr(self._transport, name)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._transport.write(b"".join(waiting))


class OneWrite(HttpToolsProtocol):
    """uvicorn's HTTP, with one write a reply."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Put the joining transport before the connection's own."""
        super().connection_made(cast("asyncio.Transport", _Joined(transport, self.loop)))
