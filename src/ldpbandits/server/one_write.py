"""Replies leave in one piece each, at the end of a turn of the event loop.

uvicorn writes head and body one after the other, and each write is a call to the system and wakes the reader. For
replies as small as ours that is much of the work.
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class _Joined:
    """A transport that sends in one piece what is written in one turn of the event loop."""

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
    """uvicorn's HTTP, with joined writes."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take over a connection."""
        super().connection_made(cast("asyncio.Transport", _Joined(transport, self.loop)))
