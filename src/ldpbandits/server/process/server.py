"""Runs the application in uvicorn, on a socket that already listens."""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import cast

import uvicorn

from ldpbandits.errors import DatabaseError
from ldpbandits.server.api.app import application
from ldpbandits.server.api.origins import only_for
from ldpbandits.server.api.path_prefix import below
from ldpbandits.server.process.connections import Connection, Connections
from ldpbandits.server.process.front_door import DEFAULT, FrontDoor
from ldpbandits.server.service import Service

OTHER_FILES = 100
"""Open files other than connections: the database, exports, and those of Python."""

_log = logging.getLogger(__name__)


class Server(uvicorn.Server):
    """A server that stops on SIGINT and SIGTERM, or when asked, after the requests under way have been answered."""

    def __init__(
        self, service: Service, front_door: FrontDoor = DEFAULT, *, prefix: str = "", origins: Sequence[str] = ()
    ) -> None:
        """Serve this service with these limits, below a path prefix, to pages of these origins or of any.

        There is no access log, which would have addresses.
        """
        self._service = service
        self.when_ready: Callable[[], None] = lambda: None
        """Called once, when the server accepts requests."""
        self.when_stopping: Callable[[], None] = lambda: None
        """Called once, when the server begins to stop."""
        self.connections = Connections(front_door, service.meters)
        super().__init__(
            uvicorn.Config(
                only_for(origins, below(prefix, application(service, front_door, prefix))),
                http=cast("type[asyncio.Protocol]", partial(Connection, connections=self.connections)),
                ws="none",
                log_config=None,  # the process that starts the server configures logging
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=front_door.stop_seconds,
            )
        )

    def serve_on(self, listener: socket.socket) -> None:
        """Serve on a listening socket until stopped; raise DatabaseError when only a restart helps."""
        gc.collect()
        gc.freeze()  # the objects loaded so far stay: the garbage collector need not scan them again
        gc.set_threshold(20_000)  # requests leave almost no cycles
        sys.setswitchinterval(0.001)  # a report in a thread must not block the event loop for Python's 5 ms at a time
        self.connections.most = max(1, _files(self.connections.most + OTHER_FILES) - OTHER_FILES)
        self.run(sockets=[listener])
        if self._service.lost is not None:
            raise DatabaseError(f"{self._service.lost}: restart the server")

    def stop(self) -> None:
        """Ask the server to stop; safe in another thread."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept requests, then call `when_ready`."""
        await super().startup(sockets)
        if self.started:
            self.when_ready()

    async def on_tick(self, counter: int) -> bool:
        """Sweep the connections; uvicorn calls this ten times a second."""
        self.connections.close_overdue(asyncio.get_running_loop().time())
        return await super().on_tick(counter) or self._service.lost is not None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, and wait for all other replies."""
        self.when_stopping()
        self._service.ending.set()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on a signal, and return: uvicorn would raise the signal again at the end."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        before |= _ignore_hangup()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _ignore_hangup() -> "dict[signal.Signals, signal._HANDLER]":
    """Ignore SIGHUP, which replaces workers: there are none. Closing a terminal still ends the server."""
    hang_up = getattr(signal, "SIGHUP", None)
    if hang_up is None or signal.getsignal(hang_up) is not signal.SIG_DFL or os.isatty(0):
        return {}
    warning = "SIGHUP replaces workers, but this server is one process: restart it instead"
    return {hang_up: signal.signal(hang_up, lambda *_: _log.warning(warning, extra={"event": "renewal"}))}


def exit_timer(seconds: float) -> threading.Timer:
    """Return a timer that ends this process unless it is cancelled: a database may hang for hours.

    No acknowledged response is lost by that, at any moment.
    """

    def end() -> None:
        _log.error("the store did not close within %g s: the server exits", seconds, extra={"event": "kill"})
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    return timer


def _files(wanted: int) -> int:
    """Return the number of files that may be open, at most `wanted`; raise the soft limit where possible.

    The system does not accept a connection beyond its limit, and reports no error.
    """
    try:
        import resource  # noqa: PLC0415 - there is none on Windows, and no such limit
    except ImportError:
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        warning = "the system allows %d open files (ulimit -n): there will be no more than %d connections"
        _log.warning(warning, allowed, allowed - OTHER_FILES)
    return allowed
