"""A transport that coalesces the writes of one turn of the event loop."""

import asyncio
from typing import Any


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

        Of pipelined requests, uvicorn reports a disconnect only to the last one: the replies to the others are still
        written, and the transport would raise.
        """
        waiting, self._waiting = self._waiting, []
        if waiting and not self._transport.is_closing():
            self._transport.write(b"".join(waiting))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the rest is the transport's
        """Return an attribute of the wrapped transport."""
        return getattr(self._transport, name)
