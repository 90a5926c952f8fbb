"""Enforces the limits of connections: their number, their sizes, and the time that each may keep the server waiting.

No server for Python applications has all of these limits. uvicorn has an idle timeout, and a cap on connections that
answers 503 to everybody, so that a thousand silent connections are an outage; its cap on headers is for h11, its slower
parser. hypercorn (0.18) parses by h11 only and has no cap on connections; granian (2.8) bounds the head in time and
size, but neither the body nor the connections. This is therefore uvicorn's own protocol class with a count of
bytes, a deadline and a place in a queue. None of them needs a timer: a sweep checks the deadlines a few times a second.

A connection waits for its client until a request is complete, and while its reply is not read. Above the cap, the
connection that has waited longest is closed: a client that sends one byte at a time loses its connection first, and a
connection whose request is being answered stays open. When all are being answered, a new connection gets a 503.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from enum import Enum, auto
from math import inf
from typing import Any, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from ldpbandits.server.api.endpoint import HEADERS, problem
from ldpbandits.server.process.front_door import FrontDoor
from ldpbandits.server.process.meters import Meters
from ldpbandits.spec.protocol import Code

BODY_BYTES_PER_FRAME = 64
"""Bytes of a body that allow one byte of chunk framing, which is small where chunks are large."""

LARGEST_PIPELINE = 100
"""Requests that a client may send before the first of them is answered. Few clients send any; a request takes a
hundred times more memory than bytes, and a quarter of a megabyte is read at a time."""

FRAMING = (b"content-length", b"transfer-encoding")

LINGER_TIMEOUT_S = 1.0
LARGEST_DRAIN_BYTES = 1024 * 1024
"""Seconds and bytes for which input is read and dropped after the last reply: closing a connection with unread input
resets it, and the reply may be lost."""


class Stage(Enum):
    """The part of a request that a connection expects next."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()
    NOTHING = auto()
    """The request is complete, and is being answered."""
    CLOSING = auto()
    """Further input is read and dropped."""


class Connections:
    """The open connections of a process, and those that wait for their clients, ordered by waiting time."""

    def __init__(self, limits: FrontDoor, meters: Meters) -> None:
        self.limits = limits
        self.meters = meters
        self.most = limits.connections
        """The cap; below the limit where the system allows fewer open files."""
        self.open: set[Connection] = set()
        self.waiting: OrderedDict[Connection, None] = OrderedDict()
        """Connections that wait for their clients, the longest wait first; closing connections come before all."""
        self.closed = meters.closed
        meters.open_connections = self.open.__len__
        self._swept_at = -inf
        self._sweep_interval = (
            min(limits.head_seconds, limits.body_seconds, limits.idle_seconds, limits.stall_seconds) / 10
        )

    def admit(self, newcomer: "Connection") -> bool:
        """Add a connection and close the longest waiting ones above the cap; return whether there is room."""
        self.open.add(newcomer)
        while len(self.open) > self.most and self.waiting:
            oldest, _ = self.waiting.popitem(last=False)
            self.open.discard(oldest)
            self.closed["connections"] += not oldest.is_closing
            oldest.transport.abort()
        return len(self.open) <= self.most

    def forget(self, gone: "Connection") -> None:
        """Remove a connection that is closed."""
        self.open.discard(gone)
        self.waiting.pop(gone, None)

    def close_overdue(self, now: float) -> None:
        """Close the connections whose deadline has passed; called a few times a second."""
        if now >= self._swept_at + self._sweep_interval:
            self._swept_at = now
            for connection in list(self.open):
                connection.close_overdue(now)


class CoalescingTransport:
    """A transport that sends all writes of one turn of the event loop in one system call.

    uvicorn writes head and body one after the other, and each write is a call to the system and wakes the reader. For
    replies as small as ours that is much of the work.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        """Wrap this transport of the event loop."""
        self._transport = transport
        self._loop = loop
        self._waiting: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Send this at the end of the turn."""
        if not self._waiting:
            self._loop.call_soon(self.flush)
        self._waiting.append(data)

    def close(self) -> None:
        """Send the buffered writes, and close the transport."""
        self.flush()
        self._transport.close()

    def flush(self) -> None:
        """Send the buffered writes now, unless the connection is closing.

        uvicorn reports a disconnect only to the last one of pipelined requests: the replies to the others are still
        written, and the transport would raise.
        """
        waiting, self._waiting = self._waiting, []
        if waiting and not self._transport.is_closing():
            self._transport.write(b"".join(waiting))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the rest is the transport's
        """Return an attribute of the wrapped transport."""
        return getattr(self._transport, name)


class _DroppedHeaders(list[tuple[bytes, bytes]]):
    """A list that drops the trailer headers after a body."""

    def append(self, _: tuple[bytes, bytes]) -> None:
        pass


class _Body:
    """Passes the parser's events of one body to the connection that has read the head; drops later events."""

    def __init__(self, connection: "Connection") -> None:
        self._connection: Connection | None = connection

    def on_body(self, body: bytes) -> None:
        if self._connection is not None:
            self._connection.on_body(body)

    def on_message_complete(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.on_message_complete()


class _HeadTooLarge(Exception):  # noqa: N818 - it stays between the parser and us
    """Raised when the head of a request is too large."""


class _TooManyPipelined(Exception):  # noqa: N818 - as above
    """Raised when a client pipelines too many requests."""


class Connection(HttpToolsProtocol):
    """uvicorn's HTTP protocol, with one write per reply and the limits of `FrontDoor`."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        connections: Connections,
    ) -> None:
        """Join these connections when connected."""
        super().__init__(config, server_state, app_state, _loop)
        self._all = connections
        self._limits = connections.limits
        self._stage = Stage.IDLE
        self._received = 0
        """Bytes received of the head, or of the framing around a body: chunk headers and trailers."""
        self._unanswered = 0
        """Requests whose head is complete and whose reply is not; several only when they are pipelined."""
        self._deadline = self.loop.time() + self._limits.head_seconds
        """The time by which the client must have sent the expected part."""
        self._stalled = inf
        """The time at which a client that reads nothing is disconnected; infinite while it reads."""
        self._unread = 0
        self._has_asked = False
        self._framing = b""
        """The headers that delimit the body of a request that asks for a protocol upgrade."""

    @property
    def is_closing(self) -> bool:
        """Tell whether the last reply is written."""
        return self._stage is Stage.CLOSING

    @property
    def _is_last_in(self) -> bool:
        """Tell whether the last request of this connection is complete; an upgrade request is the last."""
        return bool(self._framing) and self._stage is Stage.NOTHING

    @property
    def _is_at_work(self) -> bool:
        """Tell whether a complete request is being answered."""
        return self._unanswered > (self._stage is Stage.BODY)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wrap the transport in a `CoalescingTransport`, and refuse the connection when there is no room."""
        super().connection_made(cast("asyncio.Transport", CoalescingTransport(transport, self.loop)))
        if self._all.admit(self):
            self._all.waiting[self] = None
        else:
            self._all.meters.refuse("connections", f"all {self._all.most} connections are being answered")
            self._refuse(503, Code.RETRY, "too many requests are under way; retry", "connections")

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove this connection from the open ones."""
        super().connection_lost(exc)
        self._all.forget(self)

    def data_received(self, data: bytes) -> None:
        """Parse the input, within the limits of sizes."""
        self._received += len(data)
        if self._stage is Stage.CLOSING or self._is_last_in:
            if self._received > LARGEST_DRAIN_BYTES:
                self.transport.abort()
            return
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self.cycle.keep_alive = False  # the upgrade is ignored: it is answered in HTTP/1.1, then closed
            if self._framing:
                self._read_body(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._end_reading(error)
        else:
            if self._stage is Stage.HEAD and self._received > self._limits.header_bytes:
                self._refuse_head()
            elif self._stage is Stage.BODY and self._received > self._limits.header_bytes:
                self._check_framing()

    def _end_reading(self, error: httptools.HttpParserError) -> None:
        """Refuse the input that the parser rejected, unless the last request is complete."""
        if isinstance(error.__context__, _HeadTooLarge):
            self._refuse_head()
        elif isinstance(error.__context__, _TooManyPipelined):
            self._all.closed["sent_ahead"] += 1
            self.transport.abort()
        elif not self._is_last_in:
            self._refuse(400, Code.REFUSED, "malformed HTTP/1.1 request", "malformed")

    def on_message_begin(self) -> None:
        """Start the deadline of the head at the first byte of a request."""
        super().on_message_begin()
        self._has_asked = True
        self._stage = Stage.HEAD
        self._deadline = self.loop.time() + self._limits.head_seconds
        if self in self._all.waiting:
            self._all.waiting.move_to_end(self)

    def on_headers_complete(self) -> None:
        """The head of a request is in."""
        # Only now is it known how much of what came with it is the head; mostly there is no need to ask.
        if self._received > self._limits.header_bytes and self._head_size() > self._limits.header_bytes:
            raise _HeadTooLarge
        if self._unanswered > LARGEST_PIPELINE:
            raise _TooManyPipelined
        super().on_headers_complete()  # an invalid URL raises here, before a request counts as unanswered
        if self.parser.should_upgrade():
            self._framing = b"".join(b"%s: %s\r\n" % each for each in self.headers if each[0] in FRAMING)
        self._stage = Stage.BODY
        self._received = 0
        self._unanswered += 1
        self._deadline = self.loop.time() + self._limits.body_seconds
        self.headers = _DroppedHeaders()

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body on, and subtract it from the bytes of framing."""
        super().on_body(body)
        if self._unanswered:
            self._received -= len(body) + len(body) // BODY_BYTES_PER_FRAME

    def on_message_complete(self) -> None:
        """Note that a request is complete."""
        if self._framing and self.parser.should_upgrade():
            return  # the parser takes the body for the upgraded protocol
        super().on_message_complete()
        self._received = 0
        if self._unanswered:
            self._stage = Stage.NOTHING
            self._all.waiting.pop(self, None)
        else:
            self._wait_for_the_next()

    def on_response_complete(self) -> None:
        """Note that a reply is complete, perhaps before its request is. uvicorn would start a timer here."""
        self.server_state.total_requests += 1
        self._unanswered -= 1
        if self.transport.is_closing():
            self._close()
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            task = self.loop.create_task(cycle.run_asgi(app))
            task.add_done_callback(self.tasks.discard)
            self.tasks.add(task)
        if not self._unanswered:
            if self._stage is Stage.NOTHING:
                self._wait_for_the_next()
            self._all.waiting[self] = None

    def _wait_for_the_next(self) -> None:
        self._stage = Stage.IDLE
        self._deadline = self.loop.time() + self._limits.idle_seconds

    def pause_writing(self) -> None:
        """Start the stall deadline: the client reads more slowly than we write."""
        super().pause_writing()
        self._unread = self.transport.get_write_buffer_size()
        self._stalled = self.loop.time() + self._limits.stall_seconds
        self._all.waiting[self] = None

    def resume_writing(self) -> None:
        """Clear the stall deadline: the client has read."""
        super().resume_writing()
        self._stalled = inf
        if self._is_at_work:
            self._all.waiting.pop(self, None)

    def shutdown(self) -> None:
        """Finish complete requests; close the connection if its request is incomplete."""
        if self._is_at_work:
            super().shutdown()
        else:
            self.transport.close()

    def close_overdue(self, now: float) -> None:
        """Close this connection if its deadline has passed."""
        if self._stalled < inf and self._unread != (left := self.transport.get_write_buffer_size()):
            self._unread, self._stalled = left, now + self._limits.stall_seconds
        if now >= self._stalled:
            self._all.closed["stall_seconds"] += 1
            self.transport.abort()
        elif now < self._deadline or self._is_at_work or self.flow.read_paused:
            return
        elif self._stage is Stage.CLOSING:
            self.transport.abort()
        elif self._stage is Stage.IDLE:
            self._all.closed["idle_seconds" if self._has_asked else "head_seconds"] += 1
            self._close()
        else:
            which = "head_seconds" if self._stage is Stage.HEAD else "body_seconds"
            message = f"the request was not complete in time: {which} is {getattr(self._limits, which):g}"
            self._refuse(408, Code.RETRY, message, which)

    def _read_body(self, start: bytes) -> None:
        """Read the body of a request that asks for a protocol upgrade with a parser of its own."""
        head = b"POST / HTTP/1.1\r\n%s\r\n" % self._framing
        self.parser = httptools.HttpRequestParser(_Body(self))
        self._received = -len(head)  # these bytes are not the client's
        self.data_received(head + start)

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)

    def _check_framing(self) -> None:
        """Refuse bodies with too much framing; stop reading once the reply is complete."""
        if self._unanswered:
            most = f"{self._limits.header_bytes} bytes, and 1 more for {BODY_BYTES_PER_FRAME} of it"
            message = f"the framing of a body has at most {most}"
            self._refuse(413, Code.TOO_LARGE, message, "header_bytes")
        elif self._received > LARGEST_DRAIN_BYTES:
            self._all.closed["body_seconds"] += 1
            self.transport.abort()

    def _refuse_head(self) -> None:
        message = f"a request line and its headers have at most {self._limits.header_bytes} bytes"
        self._refuse(431, Code.TOO_LARGE, message, "header_bytes")

    def _refuse(self, status: int, code: Code, message: str, reason: str) -> None:
        """Write a refusal, unless a reply is being written, and read no more."""
        self._all.closed[reason] += 1
        if self._is_at_work or (self._unanswered and self.cycle.response_started):
            self.transport.abort()
            return
        self.transport.write(_reply(status, problem(code, message), {"Retry-After": "1"} if status == 503 else {}))  # noqa: PLR2004 - the HTTP status
        cast("CoalescingTransport", self.transport).flush()
        if self._unanswered:  # the application's read of the body ends
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._unanswered = self._received = 0
        self._stage = Stage.CLOSING
        self._deadline = self.loop.time() + LINGER_TIMEOUT_S
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self._close_first()
        else:
            self.transport.close()

    def _close(self) -> None:
        """Close once the client has read the reply, or after `stall_seconds`."""
        self._stage = Stage.CLOSING
        self._unanswered = 0
        self._deadline = self.loop.time() + self._limits.stall_seconds
        self._close_first()
        self.transport.close()

    def _close_first(self) -> None:
        """Make this connection the first to be closed above the cap."""
        if self in self._all.open:
            self._all.waiting[self] = None
            self._all.waiting.move_to_end(self, last=False)


def _reply(status: int, body: bytes, more: Mapping[str, str]) -> bytes:
    reason = {400: "Bad Request", 408: "Request Timeout", 413: "Content Too Large", 503: "Service Unavailable"}
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"}
    lines = [f"{name}: {value}\r\n" for name, value in {**headers, **HEADERS, **more}.items()]
    phrase = reason.get(status, "Request Header Fields Too Large")
    return f"HTTP/1.1 {status} {phrase}\r\n{''.join(lines)}\r\n".encode() + body
