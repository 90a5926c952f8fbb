"""Run the application in uvicorn, on a socket that already listens."""

import asyncio
import gc
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ldpbandits.server.app import application
from ldpbandits.server.service import Service


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


class _OneWrite(HttpToolsProtocol):
    """uvicorn's HTTP, with one write a reply."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Put the joining transport before the connection's own."""
        super().connection_made(cast("asyncio.Transport", _Joined(transport, self.loop)))


class Server(uvicorn.Server):
    """A server that stops on SIGINT and SIGTERM, or when asked, after the requests under way have been answered."""

    def __init__(self, service: Service) -> None:
        """Serve this; no access log: it would hold addresses."""
        super().__init__(
            uvicorn.Config(
                application(service),
                http=_OneWrite,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=10,
            )
        )

    def serve_on(self, listener: socket.socket) -> None:
        """Serve on a socket that listens, until told to stop; the caller waits."""
        gc.collect()
        gc.freeze()  # what is there now stays: the garbage collector need not look at it again
        gc.set_threshold(20_000)  # and requests leave next to nothing for it
        self.run(sockets=[listener])

    def stop(self) -> None:
        """Stop soon; may be called from another thread."""
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on a signal, and return: uvicorn would raise the signal anew when all is done."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
