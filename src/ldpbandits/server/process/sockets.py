"""Sockets of a server: TCP and Unix sockets on which it listens, and that of systemd (Type=notify)."""

import errno
import logging
import os
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeVar

from ldpbandits.checks import brief
from ldpbandits.errors import ParameterError

T = TypeVar("T")
_log = logging.getLogger(__name__)

LISTEN_BACKLOG = 2048
"""Connections that may wait to be accepted."""


ORPHAN_STOP_TIMEOUT_S, RETRY_INTERVAL_S = 10.0, 0.1
"""Seconds for which workers whose parent was killed may still listen, until they notice it. A start retries to listen
for that long, at this interval."""

HAS_REUSE_PORT = sys.platform == "linux"
"""On Linux, sockets at one port (SO_REUSEPORT) get equal shares of its connections; elsewhere the last may get all."""


class AddressInUse(ParameterError):  # noqa: N818 - as what it is a kind of
    """Another process listens at this address."""


def listening(host: str, port: int, *, reuse_port: bool = False) -> socket.socket:
    """Return a socket that listens there; with `reuse_port` other processes of this user may listen there too."""
    if not 0 <= port <= 65535:  # noqa: PLR2004 - the largest port
        raise ParameterError(f"port must be from 0 to 65535, got {port}")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(
            (address[0], address[1]), family=family, backlog=LISTEN_BACKLOG, reuse_port=reuse_port
        )
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while ")[0]  # Python repeats the address
        kind = AddressInUse if error.errno == errno.EADDRINUSE else ParameterError
        raise kind(f"cannot listen on {host}:{port}: {reason}") from None
    except UnicodeError:
        raise ParameterError(f"cannot listen on {brief(host)}: unknown host") from None


def retry_until_orphans_stop(listen: Callable[[], T]) -> T:
    """Retry to listen until the workers of a killed server have stopped; raise after `ORPHAN_STOP_TIMEOUT_S`."""
    until = monotonic() + ORPHAN_STOP_TIMEOUT_S
    is_logged = False
    while True:
        try:
            return listen()
        except AddressInUse as error:
            if monotonic() >= until:
                raise
            if not is_logged:
                _log.warning("%s; trying again for %g s", error, ORPHAN_STOP_TIMEOUT_S, extra={"event": "listening"})
                is_logged = True
            sleep(RETRY_INTERVAL_S)


@contextmanager
def unix_listening(path: Path, mode: int, workers: int = 1) -> Iterator[socket.socket]:
    """Yield a Unix socket that listens at a path, which is removed in the end; `mode` limits who may connect.

    A stale socket, as after a crash, is replaced; one on which a process listens is not, nor is any other file.
    """
    if workers == 1:
        _remove_stale(path)
    else:
        retry_until_orphans_stop(partial(_remove_stale, path))
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as listener:
        try:
            listener.bind(os.fspath(path))
            path.chmod(mode)  # before `listen`: until then no client can connect
            ours = path.stat()
            listener.listen(LISTEN_BACKLOG)
        except OSError as error:
            raise ParameterError(f"cannot listen on {path}: {error.strerror or error}") from None
        try:
            yield listener
        finally:
            with suppress(OSError):
                if os.path.samestat(path.stat(), ours):  # another server may have taken its place
                    path.unlink()


def _remove_stale(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ParameterError(f"cannot listen on {path}: it exists, and is not a socket")
        with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
            probe.settimeout(1)
            probe.connect(os.fspath(path))
    except FileNotFoundError:
        return
    except ConnectionRefusedError:
        path.unlink(missing_ok=True)
        return
    except OSError as error:  # a full queue means a live server, too
        raise ParameterError(f"cannot listen on {path}: {error.strerror or error}") from None
    raise AddressInUse(f"cannot listen on {path}: another server listens there")


class Listeners:
    """A socket for each of several workers at one address, so that the kernel shares out connections evenly.

    With one socket for all, the worker that wakes first accepts the connections: of 128 connections the fuller of two
    workers gets 66 to 75 %, and 52 to 54 % with a socket for each (benchmarks/balance.py). The parent holds all of them
    open too, so that connections that wait for a worker that has died are accepted by its successor.

    All but the first listen when their worker is ready, so that no connection waits for a worker that never is.
    """

    def __init__(self, count: int, first: socket.socket, again: Callable[[], socket.socket] | None = None) -> None:
        """Start with one socket; `again` opens others at its address. Without it all workers share the first."""
        self.count = count
        self._again = again
        self._sockets = {0: first}

    def __getitem__(self, place: int) -> socket.socket:
        """Return the socket of a worker, or open a new one."""
        if self._again is None:
            return self._sockets[0]
        if place not in self._sockets:
            self._sockets[place] = self._again()
        return self._sockets[place]

    def drop(self, place: int) -> None:
        """Close the socket of a worker that restarts later: new connections go to the others."""
        others = [each for number, each in self._sockets.items() if number != place]
        if place in self._sockets and any(map(_listens, others)):  # the last one keeps the address ours
            self._sockets.pop(place).close()

    def close(self) -> None:
        """Close the sockets of all workers."""
        for each in self._sockets.values():
            each.close()


def open_listeners(host: str, port: int, count: int) -> Listeners:
    """Return sockets for `count` workers at this address.

    A killed server of one process frees its address at once; workers do when they notice that their parent was killed.
    """
    if count == 1:
        return Listeners(count, listening(host, port))
    alone = retry_until_orphans_stop(partial(listening, host, port))
    if not HAS_REUSE_PORT:
        return Listeners(count, alone)
    with alone:  # a socket with SO_REUSEPORT would not fail on a port that is in use
        port = alone.getsockname()[1]
    first = listening(host, port, reuse_port=True)
    return Listeners(count, first, partial(_beside, first.family, first.getsockname()))


def _beside(family: int, address: tuple[Any, ...]) -> socket.socket:
    """Return another socket at our address; it gets no connections until it listens."""
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            made.setsockopt(socket.SOL_SOCKET, option, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)  # as the first one is
        made.bind(address)
    except BaseException:
        made.close()
        raise
    return made


def _listens(made: socket.socket) -> bool:
    """Tell whether a socket listens, in any process."""
    return bool(made.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def url_of(listener: socket.socket, prefix: str = "") -> str | None:
    """Return the URL of a listening socket; None for a Unix socket, which has no URL."""
    if listener.family == socket.AF_UNIX:
        return None
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}{prefix}" if ":" in host else f"http://{host}:{port}{prefix}"


def notify_systemd(state: str) -> None:
    """Send a state such as READY=1 to systemd's socket, if there is one; ignore errors."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
        notifier.connect("\0" + address[1:] if address[0] == "@" else address)
        notifier.sendall(state.encode())
