"""A transport that sends what is written in one turn of the event loop in one piece."""

import asyncio
from typing import Any


class CoalescingTransport:
    """A transport that sends in one piece what is written in one turn of the event loop.

    uvicorn writes head and body one after the other, and each write is a call to the system and wakes the reader. For
    replies as small as ours that is much of the work.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        """Write to this transport."""
        self._transport = transport
        self._loop = loop
        self._waiting: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Send this soon."""
        if not self._waiting:
            self._loop.call_soon(self.flush)
        self._waiting.append(data)

    def close(self) -> None:
        """Send what is left, and close."""
        self.flush()
        self._transport.close()

    def flush(self) -> None:
        """Send what is left now, unless the client has left.

        uvicorn tells only the last of the requests that a client has sent ahead that it is gone: the replies to the
        others are still written, and the transport would raise.
        """
        waiting, self._waiting = self._waiting, []
        if waiting and not self._transport.is_closing():
            self._transport.write(b"".join(waiting))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the rest is the transport's
        """Return what the transport itself has."""
        return getattr(self._transport, name)
