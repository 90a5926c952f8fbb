"""Run the application in uvicorn, on a socket that already listens."""

import gc
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from ldpbandits.server.app import application
from ldpbandits.server.http import OneWrite
from ldpbandits.server.service import Service


class Server(uvicorn.Server):
    """A server that stops on SIGINT and SIGTERM, or when asked, after the requests under way have been answered."""

    def __init__(self, service: Service) -> None:
        """Serve this; no access log: it would hold addresses."""
        self._service = service
        super().__init__(
            uvicorn.Config(
                application(service),
                http=OneWrite,
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

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End replies that would go on for ever, and wait for all others."""
        self._service.ending.set()
        await super().shutdown(sockets)

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
