"""HTTP endpoints: they turn a request into an operation, and its result into a reply. They log no request.

They speak ASGI themselves: a framework would take longer than the decision itself.
"""

from collections.abc import Iterable
from hashlib import sha256
from time import perf_counter
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ldpbandits.checks import brief
from ldpbandits.server.api.messages import Batch, Problem
from ldpbandits.server.api.operation import Operation, Text
from ldpbandits.server.api.rate_limits import RateLimits
from ldpbandits.server.api.reader import Reader
from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.experiments.offers import EncodedOffer
from ldpbandits.server.keys import SERVER, Holder, Role
from ldpbandits.server.service import Service
from ldpbandits.server.single_flight import Paced
from ldpbandits.server.store import Unavailable
from ldpbandits.spec.protocol import Code

HEADERS = {"Access-Control-Allow-Origin": "*"}
"""Headers that let pages of any origin read replies."""

_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
_NOT_MODIFIED = 304
LONGEST_NUMBER_DIGITS = 15
_encode = msgspec.json.Encoder().encode


def problem(code: str, message: str) -> bytes:
    """Return the body of a refusal, as JSON."""
    return _encode(Problem(code, message))


class Endpoint:
    """An ASGI application for one operation."""

    def __init__(self, service: Service, operation: Operation, rates: RateLimits) -> None:
        """Prepare to parse the messages of this operation, and to measure its latency."""
        self._service = service
        self._operation = operation
        self._rates = rates
        self._reader = None if operation.body is None else Reader(operation.body)
        self._latency = service.meters.of(operation.name)
        self._paced = Paced(lambda: operation.run(service, {}, None)) if operation.is_paced else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request: the reply of the operation, or the refusal."""
        status, headers = self._operation.status, _HEADERS
        start, body, message = perf_counter(), b"", None
        try:
            caller = None
            if self._operation.role is not None:
                caller = await self._check_key(self._operation.role, scope["headers"])
            if self._reader is not None:
                body = await _body(receive, self._operation.largest)
                start = perf_counter()  # after the body: a slow client does not count as a slow operation
                message = self._reader.read(body or b"{}")  # a message of which nothing is required may be left out
            if caller is not None and caller.role is Role.CLIENT and isinstance(message, Batch):
                self._charge(caller, int(message.count), charged=1)  # its rate is one of decisions
            result = await self._result(scope, message, SERVER if caller is None else caller)
        except Refusal as refusal:
            status, body, headers = _refused(refusal)
        except Unavailable as error:
            self._service.meters.refuse("store", str(error))
            status, body, headers = _refused(Refusal.unavailable())
        else:
            if isinstance(result, Text):
                self._note(status, start)
                await StreamingResponse(result.pieces, headers=HEADERS, media_type=result.media_type)(
                    scope, receive, send
                )
                return
            if isinstance(result, EncodedOffer):
                body, headers = result.body, [*_HEADERS, *result.headers]
                if result.is_known(dict(scope["headers"])):
                    status, body = _NOT_MODIFIED, b""
            else:
                body = _encode(result)
        length, json = (b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")
        headers = headers if status == _NOT_MODIFIED else [length, json, *headers]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
        self._note(status, start)

    async def _result(self, scope: Scope, message: object, caller: Holder) -> Any:  # noqa: ANN401 - any message
        operation, service = self._operation, self._service
        if self._paced is not None:
            return await self._paced()
        if service.peers is not None and "name" in scope["path_params"]:
            await service.refresh(scope["path_params"]["name"])
        if operation.is_change:
            commands = service.commands.of(caller)
            return await service.change(lambda: operation.run(commands, scope["path_params"], message))
        values = scope["path_params"]
        if operation.query:
            values = {**values, **_query(scope["query_string"], operation.query)}
        return await operation.run(service, values, message)

    async def _check_key(self, needed: Role, headers: list[tuple[bytes, bytes]]) -> Holder:
        """Return the holder of the key; refuse a key without the right, or above its rate."""
        service = self._service
        await service.refresh_keys()
        header = next((value for name, value in headers if name == b"authorization"), b"")
        key = header[7:] if header[:7].lower() == b"bearer " else b""  # an empty key is nobody's
        hashed = sha256(key).digest()  # the lookup is by hash: how long it takes says nothing about the key
        holder = service.keys.holder(hashed, service.now)
        if holder is None and await service.poll_unknown():
            holder = service.keys.holder(hashed, service.now)
        if holder is None:
            service.reject(Code.UNAUTHORIZED)
            raise Refusal(401, Code.UNAUTHORIZED, "a valid key is needed: Authorization: Bearer KEY")
        if not holder.role.may(needed):
            service.reject(Code.FORBIDDEN)
            rights = "the admin key, or that of an editor" if needed is Role.EDITOR else f"the {needed.value} key"
            raise Refusal(403, Code.FORBIDDEN, f"this needs {rights}")
        self._charge(holder)
        service.keys.note_use(holder)
        return holder

    def _charge(self, caller: Holder, requests: int = 1, charged: int = 0) -> None:
        """Refuse a key that exceeds its rate limit."""
        seconds = self._rates.wait(caller.key, caller.role, requests, charged)
        if seconds:
            raise Refusal.too_fast(seconds)

    def _note(self, status: int, start: float) -> None:
        self._latency.observe(perf_counter() - start)
        self._service.meters.replies[self._operation.name, status] += 1


def _query(text: bytes, names: Iterable[str]) -> dict[str, int | None]:
    """Parse the whole numbers of a query; other parameters are ignored."""
    given = dict(parse_qsl(text.decode("ascii", "replace"), keep_blank_values=True))
    for name in names:
        number = given.get(name, "1")
        if not (number.isascii() and number.isdigit() and len(number) <= LONGEST_NUMBER_DIGITS and int(number)):
            raise Refusal(400, Code.MALFORMED, f"{name} must be a whole number from 1 on, got {brief(number)}")
    return {name: int(given[name]) if name in given else None for name in names}


def _refused(refusal: Refusal) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
    """Return status, body and headers of a refusal."""
    headers = _HEADERS
    if refusal.status == 401:  # noqa: PLR2004 - the HTTP status
        headers = [*headers, (b"www-authenticate", b"Bearer")]
    if refusal.retry_after is not None:
        headers = [*headers, (b"retry-after", b"%d" % refusal.retry_after)]
    return refusal.status, problem(refusal.code, refusal.message), headers


async def _body(receive: Receive, largest: int) -> bytes:
    body: bytes = b""
    while True:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, Code.MALFORMED, "the request ended before its body was complete")
        body += message.get("body", b"")
        if len(body) > largest:
            raise Refusal(413, Code.TOO_LARGE, f"a body has at most {largest} bytes")
        if not message.get("more_body", False):
            return body


class Methods:
    """The methods of one path; the router's own route would list one method as allowed."""

    def __init__(self, methods: dict[str, ASGIApp]) -> None:
        """Map each method to its endpoint."""
        self._methods = methods | ({"HEAD": methods["GET"]} if "GET" in methods else {})
        self._allow = ", ".join(sorted([*self._methods, "OPTIONS"]))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Dispatch a request by its method, or refuse it with the allowed methods."""
        endpoint = self._methods.get(scope["method"])
        if endpoint is not None:
            await endpoint(scope, receive, send)
        elif scope["method"] == "OPTIONS":
            await _preflight(self._allow)(scope, receive, send)
        else:
            raise HTTPException(405, headers={"Allow": self._allow})


def _preflight(allow: str) -> Response:
    """Answer a CORS preflight: pages of any origin may send requests.

    That is safe: keys travel in a header that no browser adds by itself, and there are no cookies.
    """
    allowed = {
        "Allow": allow,
        "Access-Control-Allow-Methods": allow,
        "Access-Control-Allow-Headers": "Authorization, Content-Type",
        "Access-Control-Max-Age": "86400",
    }
    return Response(status_code=204, headers={**HEADERS, **allowed})
