"""JSON over HTTP on asyncio's streams, with the limits of `Http`: one deadline for an exchange, and replies of 1 MiB.

`http.client` writes the requests, so that those of both clients are the same to the byte, and reads heads of replies.
"""

import asyncio
import ssl
from asyncio import IncompleteReadError, StreamReader, StreamWriter, open_connection
from contextlib import suppress
from http.client import HTTP_PORT, HTTPS_PORT, HTTPConnection, HTTPException, HTTPResponse
from io import BytesIO
from socket import SOCK_STREAM
from types import SimpleNamespace

from ldpbandits.device.exchange import Message, Reply
from ldpbandits.device.http import LARGEST_REPLY, read_reply, reason, written
from ldpbandits.errors import ServerError
from ldpbandits.timely import Place, bearer

LARGEST_HEAD = 1 << 16
MOST_PARTS = 1000
"""A reply of more lines or chunks than this is broken off: to put them together would keep the event loop busy."""

_FAILURES = (OSError, HTTPException, EOFError, ValueError)
"""How an exchange fails. ValueError: a line too long, a size that is no number, a host name that cannot be one."""


class AsyncHttp:
    """One connection to one server, on which requests take turns."""

    def __init__(self, url: str, key: str, timeout: float) -> None:
        """Check the URL and the key; the connection is made when there is something to send."""
        self._place, self._key, self._timeout = Place.of(url), bearer(key), timeout
        self._context: ssl.SSLContext | None = None
        self._streams: tuple[StreamReader, StreamWriter] | None = None
        self._lock = asyncio.Lock()
        self._is_closed = False

    async def post(self, path: str, message: Message, *, with_key: bool = True, patience: float | None = None) -> Reply:
        """Send a message and return the reply; a refusal is raised.

        It takes as long as the timeout at the most, or as `patience` if that is less, in seconds. When it is cancelled,
        the connection is given up: what comes next on it is no reply to the next request.
        """
        seconds = self._timeout if patience is None else min(patience, self._timeout)
        request = self._written(path, *written(message, self._key if with_key else {}))
        moment = asyncio.get_running_loop().time() + seconds
        try:
            async with asyncio.timeout_at(moment), self._lock:
                await asyncio.sleep(0)  # where there is no time left, this is the end
                status, body = await self._ask(request, moment)
        except TimeoutError:
            raise ServerError("the server cannot be reached: timed out") from None
        return read_reply(status, body)

    def hang_up(self) -> None:
        """Give up the connection, whatever is under way on it."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    def shut(self) -> None:
        """Give up the connection, for good."""
        self._is_closed = True
        self.hang_up()

    async def close(self, patience: float) -> None:
        """Close the connection, for good. A request that is under way is broken off, and has so many seconds to end."""
        streams = self._streams
        self.shut()
        with suppress(OSError):  # a TimeoutError is one
            async with asyncio.timeout(patience), self._lock:
                if streams is not None:
                    await streams[1].wait_closed()

    async def _ask(self, request: bytes, moment: float) -> tuple[int, bytes]:
        """Send a request; send it again when a connection that was open turns out to be dead, as `Http` does."""
        if self._streams is not None and (self._streams[0].at_eof() or self._streams[1].is_closing()):
            self.hang_up()
        was_open = self._streams is not None
        try:
            return await self._exchange(request, moment)
        except _FAILURES as error:
            if not was_open:
                raise ServerError(f"the server cannot be reached: {reason(error)}") from None
        try:
            return await self._exchange(request, moment)
        except _FAILURES as error:
            raise ServerError(f"the server cannot be reached: {reason(error)}") from None

    async def _exchange(self, request: bytes, moment: float) -> tuple[int, bytes]:
        if self._is_closed:
            raise ConnectionAbortedError("this client is closed")
        try:
            if self._streams is None:
                self._streams = await self._connect(moment)
            reader, writer = self._streams
            writer.write(request)
            await writer.drain()
            head = await _head(reader)
            body, is_whole = await _body(reader, head)
        except BaseException:
            self.hang_up()
            raise
        if head.will_close or not is_whole:
            self.hang_up()
        return head.status, bytes(body[:LARGEST_REPLY])

    async def _connect(self, moment: float) -> tuple[StreamReader, StreamWriter]:
        """Connect to the first address of the host that answers; each has its part of the time until the moment."""
        loop, host = asyncio.get_running_loop(), self._place.host
        if self._place.is_secure and self._context is None:
            self._context = await asyncio.to_thread(_trusted)  # it reads a file of certificates
        name = host if self._place.is_secure else None
        failure = OSError("the host has no address")
        addresses = await loop.getaddrinfo(host, self._place.port, type=SOCK_STREAM)
        for number, (*_, address) in enumerate(addresses):
            try:
                async with asyncio.timeout((moment - loop.time()) / (len(addresses) - number)):
                    return await open_connection(
                        *address[:2], ssl=self._context, server_hostname=name, limit=LARGEST_HEAD
                    )
            except OSError as error:  # a TimeoutError is one
                failure = error
        raise failure

    def _written(self, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        """Return the bytes of a request, as `http.client` would send them."""
        sent = bytearray()
        connection = HTTPConnection(self._place.host, self._place.port)
        connection.default_port = HTTPS_PORT if self._place.is_secure else HTTP_PORT
        connection.sock = SimpleNamespace(sendall=sent.extend, close=lambda: None)
        connection.request("POST", self._place.prefix + path, body, headers)
        return bytes(sent)


def _trusted() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])  # as http.client does
    return context


async def _head(reader: StreamReader) -> HTTPResponse:
    """Read the status and the headers of a reply."""
    raw = BytesIO(await _lines(reader))
    head = HTTPResponse(SimpleNamespace(makefile=lambda _: raw), method="POST")  # type: ignore[arg-type]
    head.begin()
    return head


async def _lines(reader: StreamReader) -> bytes:
    """Read until a blank line, or the end. That the server is ready for more (100) is no reply yet."""
    raw, status = bytearray(), b""
    for _ in range(MOST_PARTS):
        line = await reader.readline()
        raw += line
        status = status or line
        if len(raw) > LARGEST_HEAD:
            break
        if line in {b"\r\n", b"\n", b""}:
            if not line or status.split()[1:2] != [b"100"]:
                return bytes(raw)
            status = b""
    raise HTTPException("the head of the reply is too long")


async def _body(reader: StreamReader, head: HTTPResponse) -> tuple[bytes | bytearray, bool]:
    """Read the body of a reply, up to a byte more than the largest; tell whether that is the whole of it."""
    if head.chunked:
        return await _chunks(reader)
    length = LARGEST_REPLY + 1 if head.length is None else min(head.length, LARGEST_REPLY + 1)
    try:
        return await reader.readexactly(length), length == head.length
    except IncompleteReadError as error:  # the server has hung up
        return error.partial, head.length is None


async def _chunks(reader: StreamReader) -> tuple[bytearray, bool]:
    body = bytearray()
    for _ in range(MOST_PARTS):
        size = int((await reader.readline()).partition(b";")[0], 16)
        if size < 0:
            raise HTTPException("a part of the reply has a size below zero")
        try:
            body += await reader.readexactly(min(size, LARGEST_REPLY + 1 - len(body)))
        except IncompleteReadError as error:
            return body + error.partial, False
        if len(body) > LARGEST_REPLY:
            return body, False
        is_end = (await reader.readline()) in {b"\r\n", b"\n"}
        if size == 0:
            return body, is_end
    raise HTTPException("the reply has too many parts")
