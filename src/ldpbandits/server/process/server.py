"""Run the application in uvicorn, on a socket that already listens."""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import cast

import uvicorn

from ldpbandits.errors import DatabaseError
from ldpbandits.server.api.app import application
from ldpbandits.server.api.path_prefix import below
from ldpbandits.server.process.connections import Connection, Connections
from ldpbandits.server.process.front_door import DEFAULT, FrontDoor
from ldpbandits.server.service import Service

OTHER_FILES = 100
"""Open files beside connections: the database, exports, and what Python needs."""

_log = logging.getLogger(__name__)


class Server(uvicorn.Server):
    """A server that stops on SIGINT and SIGTERM, or when asked, after the requests under way have been answered."""

    def __init__(self, service: Service, front_door: FrontDoor = DEFAULT, *, prefix: str = "") -> None:
        """Serve this behind these limits, below a path prefix; no access log: it has addresses."""
        self._service = service
        self.when_ready: Callable[[], None] = lambda: None
        """Called once, when requests are answered."""
        self.when_stopping: Callable[[], None] = lambda: None
        """Called once, when it is about to stop."""
        self.connections = Connections(front_door, service.meters)
        super().__init__(
            uvicorn.Config(
                below(prefix, application(service, front_door, prefix)),
                http=cast("type[asyncio.Protocol]", partial(Connection, connections=self.connections)),
                ws="none",
                log_config=None,  # who starts a process says how it logs
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=front_door.stop_seconds,
            )
        )

    def serve_on(self, listener: socket.socket) -> None:
        """Serve on a socket that listens, until told to stop; raise DatabaseError when only a new start helps."""
        gc.collect()
        gc.freeze()  # what is there now stays: the garbage collector need not look at it again
        gc.set_threshold(20_000)  # and requests leave next to nothing for it
        sys.setswitchinterval(0.001)  # a report in a thread is to hold up nobody for Python's 5 ms at a time
        self.connections.most = max(1, _files(self.connections.most + OTHER_FILES) - OTHER_FILES)
        self.run(sockets=[listener])
        if self._service.lost is not None:
            raise DatabaseError(f"{self._service.lost}: the server must be started again")

    def stop(self) -> None:
        """Stop soon; may be called from another thread."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and tell that it has begun."""
        await super().startup(sockets)
        if self.started:
            self.when_ready()

    async def on_tick(self, counter: int) -> bool:
        """Look at the connections; uvicorn calls this ten times a second."""
        self.connections.look(asyncio.get_running_loop().time())
        return await super().on_tick(counter) or self._service.lost is not None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End replies that would go on for ever, and wait for all others."""
        self.when_stopping()
        self._service.ending.set()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on a signal, and return: uvicorn would raise the signal anew when all is done."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        before |= _told_to_renew()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _told_to_renew() -> "dict[signal.Signals, signal._HANDLER]":
    """Go on when told to renew the workers: there are none. A terminal that is closed ends the server, as ever."""
    hang_up = getattr(signal, "SIGHUP", None)
    if hang_up is None or signal.getsignal(hang_up) is not signal.SIG_DFL or os.isatty(0):
        return {}
    told = "SIGHUP replaces workers, and this is one process: to renew it, restart it"
    return {hang_up: signal.signal(hang_up, lambda *_: _log.warning(told, extra={"event": "renewal"}))}


def end_of_patience(seconds: float) -> threading.Timer:
    """Return a timer that ends this process, unless it is cancelled: a database may hang, and for hours.

    Nothing that was acknowledged is lost by that, at any moment.
    """

    def end() -> None:
        _log.error("the store has not let go for %g s: the server ends without it", seconds, extra={"event": "kill"})
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    return timer


def _files(wanted: int) -> int:
    """Return how many files may be open, at most as many as are wanted; raise the limit where that is up to us.

    A connection beyond the system's limit is not accepted, and nobody is told why.
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
        told = "the system allows %d open files (ulimit -n): there will be no more than %d connections"
        _log.warning(told, allowed, allowed - OTHER_FILES)
    return allowed
