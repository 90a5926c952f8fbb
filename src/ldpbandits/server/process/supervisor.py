"""Several processes on one machine: each is started again when it dies, all stop with the one that started them.

uvicorn has a supervisor too, and it is well kept; it does not fit here. It starts a worker that dies at once again at
once, for ever; its workers outlive a parent that is killed; and it runs uvicorn's own `Server`, not one that ends the
streams of the console and writes what it has before it stops. What is below is what is left once uvicorn serves.
"""

import logging
import os
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from time import monotonic
from typing import TypeAlias

from ldpbandits.errors import LDPBanditsError
from ldpbandits.server.process.sockets import Listeners

STEADY_UPTIME_S = 30.0
"""Seconds after which a worker that dies has not died at once."""

FIRST_RESTART_DELAY_S, LONGEST_RESTART_DELAY_S = 0.5, 30.0
"""Before a worker that died at once is started again, doubled each time."""

CONNECTION_WAIT_S = 1.0
"""Seconds that connections are left waiting for a worker that is to be started again; beyond that others get them."""

READY_TIMEOUT_S = 60.0
"""Seconds that a new worker has to be ready when it is to take the place of another."""

_READY = b"ready"
_SPAWN = get_context("spawn")  # a new interpreter: no lock, thread or connection of the parent is copied into it
_log = logging.getLogger(__name__)


class Tie:
    """What ties a worker to its parent: the worker says that it is ready, and notices that the parent is gone.

    A pipe does both. The parent alone holds its other end, so that the worker reads its end when the parent is gone,
    however it went; there is no other way that every system has.
    """

    def __init__(self, pipe: Connection) -> None:
        """Take the worker's end."""
        self._pipe = pipe

    def ready(self) -> None:
        """Tell the parent that requests are answered from now on."""
        with suppress(OSError):
            self._pipe.send_bytes(_READY)

    def when_alone(self, stop: Callable[[], None], seconds: float) -> None:
        """Call `stop` when the parent is gone; a worker that is still there so many seconds later ends at once."""
        ended = threading.Event()

        def watch() -> None:
            with suppress(EOFError, OSError):
                self._pipe.recv_bytes()
            stop()
            ended.wait(seconds)
            os._exit(1)

        threading.Thread(target=watch, name="parent", daemon=True).start()


Work: TypeAlias = Callable[[socket.socket, Tie], None]
"""Serves on a socket, on which it is the first to listen perhaps, until told to stop, by SIGTERM or by the tie. It is
pickled: a function of a module."""


def _begin(work: Work, listener: socket.socket, pipe: Connection) -> None:
    """Be a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process: the parent tells us when to stop
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        work(listener, Tie(pipe))
    except LDPBanditsError as error:
        _log.error("a worker cannot go on: %s", error)
        sys.exit(1)
    except Exception:  # noqa: BLE001 - whatever it is, it is told in one line
        _log.exception("a worker has failed")
        sys.exit(1)


@dataclass(eq=False)
class _Worker:
    """A process in one of the places."""

    place: int
    process: SpawnProcess
    pipe: Connection
    since: float = field(default_factory=monotonic)
    is_ready: bool = False


class Workers:
    """Keeps so many workers running, one in each place, until it is told to stop."""

    def __init__(self, work: Work, listeners: Listeners, patience: float) -> None:
        """Have a worker on each of these sockets; when told to stop, they have `patience` seconds for it."""
        self._work, self._listeners, self._patience = work, listeners, patience
        self._workers: dict[int, _Worker] = {}
        self._leaving: list[_Worker] = []
        """They were told to stop, as others take their places."""
        self._coming: _Worker | None = None
        """It will take the place of another once it is ready."""
        self._renewed: deque[int] = deque()
        """The places that are to be renewed."""
        self._deaths = dict.fromkeys(range(listeners.count), 0)
        """How often in a row the worker of a place died at once."""
        self._due: dict[int, float] = {}
        self._was_ready = False
        self.on_ready: Callable[[], None] = lambda: None

    def run(self, begin: Callable[[], None] = lambda: None) -> None:
        """Work until SIGTERM or SIGINT; SIGHUP replaces one worker after the other, without a gap.

        `begin` is called first, when a signal already leads to an orderly stop.
        """
        with _signals() as (wake, caught):
            begin()
            self._due = dict.fromkeys(self._deaths, monotonic())
            while not {signal.SIGTERM, signal.SIGINT} & set(caught):
                if signal.SIGHUP in caught:
                    caught.remove(signal.SIGHUP)
                    _log.info("every worker is replaced, one after the other", extra={"event": "renewal"})
                    self._renewed = deque(self._deaths)
                self._start_due()
                self._renew_next()
                self._await_news(wake)
                self._take_note()
            self._stop(wake, caught)

    def _everybody(self) -> list[_Worker]:
        return [*self._workers.values(), *self._leaving, *([self._coming] if self._coming else [])]

    def _start(self, place: int) -> _Worker:
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(
            target=_begin, args=(self._work, self._listeners[place], theirs), name=f"worker {place}", daemon=True
        )
        process.start()
        theirs.close()  # now the worker alone has it
        return _Worker(place, process, ours)

    def _start_due(self) -> None:
        now = monotonic()
        for place in [place for place, when in self._due.items() if when <= now]:
            del self._due[place]
            try:
                self._workers[place] = self._start(place)
            except OSError as error:  # no memory, no process, no file is left: those who live are needed all the more
                pause = self._put_off(place, 0.0)
                told = "worker %d cannot be started: %s; another try in %.1f s"
                _log.error(told, place, error.strerror or error, pause, extra={"event": "worker_died"})

    def _renew_next(self) -> None:
        coming = self._coming
        if coming is not None and coming.since + READY_TIMEOUT_S < monotonic():
            self._give_up_renewal("was not ready in time")
            coming.process.kill()
            self._leaving.append(coming)
        while self._renewed and self._coming is None and not self._leaving:
            place = self._renewed.popleft()
            if place in self._workers:  # else it is about to be a new one anyway
                try:
                    self._coming = self._start(place)
                except OSError as error:
                    self._give_up_renewal(f"cannot be started: {error.strerror or error}")

    def _give_up_renewal(self, why: str) -> None:
        _log.error("a new worker %s: the others stay as they are", why, extra={"event": "renewal"})
        self._coming = None
        self._renewed.clear()

    def _await_news(self, wake: socket.socket) -> None:
        """Wait for a signal, a worker that is ready, one that ends, or the time to start one."""
        workers = self._everybody()
        pipes = [worker.pipe for worker in workers if not worker.is_ready]
        times = [*self._due.values(), *([self._coming.since + READY_TIMEOUT_S] if self._coming else [])]
        timeout = max(0.0, min(times) - monotonic()) if times else None
        wait([wake, *pipes, *(worker.process.sentinel for worker in workers)], timeout)
        with suppress(BlockingIOError):
            wake.recv(4096)

    def _take_note(self) -> None:
        for worker in self._everybody():
            if not worker.is_ready and _is_ready(worker.pipe):
                worker.is_ready = True
                if worker is self._coming:
                    self._replace(worker)
            if worker.process.exitcode is not None:
                self._bury(worker)
        ready = sum(worker.is_ready for worker in self._workers.values())
        if not self._was_ready and ready == self._listeners.count:
            self._was_ready = True
            self.on_ready()

    def _replace(self, worker: _Worker) -> None:
        """Let a new worker take its place; the one before it finishes what it has begun."""
        old, self._coming = self._workers.get(worker.place), None
        self._due.pop(worker.place, None)
        self._workers[worker.place] = worker
        if old is not None:
            old.process.terminate()
            self._leaving.append(old)

    def _bury(self, worker: _Worker) -> None:
        worker.process.join()
        worker.pipe.close()
        if worker in self._leaving:
            self._leaving.remove(worker)
            return
        if worker is self._coming:
            self._give_up_renewal("did not start")
            return
        if self._workers.get(worker.place) is not worker:
            return
        del self._workers[worker.place]
        lived = monotonic() - worker.since
        pause = self._put_off(worker.place, lived)
        _log.error(
            "worker %d (process %d) %s after %.1f s; another is started in %.1f s",
            worker.place,
            worker.process.pid,
            _end(worker.process.exitcode),
            lived,
            pause,
            extra={"event": "worker_died"},
        )

    def _put_off(self, place: int, lived: float) -> float:
        """Plan the next worker of a place after one that lived so long; return the pause until then."""
        deaths = self._deaths[place] = 0 if lived > STEADY_UPTIME_S else self._deaths[place] + 1
        pause = (
            min(LONGEST_RESTART_DELAY_S, FIRST_RESTART_DELAY_S * 2 ** min(deaths - 1, 100)) if deaths else 0.0
        )  # a float has an end
        self._due[place] = monotonic() + pause
        if pause > CONNECTION_WAIT_S:
            self._listeners.drop(place)
        return pause

    def _stop(self, wake: socket.socket, caught: list[int]) -> None:
        """Tell all to stop; kill those that have not after a while, or when told once more."""
        until, told = monotonic() + self._patience, len(caught)
        for worker in self._everybody():
            worker.process.terminate()
        while workers := [worker for worker in self._everybody() if worker.process.exitcode is None]:
            left = until - monotonic()
            if left <= 0 or len(caught) > told:
                _log.error("%d workers have not stopped in time, and are killed", len(workers), extra={"event": "kill"})
                for worker in workers:
                    worker.process.kill()
            wait([wake, *(worker.process.sentinel for worker in workers)], max(left, 0.05))
            with suppress(BlockingIOError):
                wake.recv(4096)
        for worker in self._everybody():
            worker.process.join()
            worker.pipe.close()


def _is_ready(pipe: Connection) -> bool:
    try:
        return pipe.poll() and pipe.recv_bytes() == _READY
    except (EOFError, OSError):  # it has ended
        return False


def _end(code: int | None) -> str:
    if code is not None and code < 0:
        names = {each.value: each.name for each in signal.Signals}  # some have none
        return f"was ended by {names.get(-code, f'signal {-code}')}"
    return f"ended by itself with exit code {code}"


@contextmanager
def _signals() -> Iterator[tuple[socket.socket, list[int]]]:
    """Yield a socket that can be read when a signal has come, and the list in which it then is."""
    caught: list[int] = []
    wake, told = socket.socketpair()
    wake.settimeout(0)
    told.settimeout(0)
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.signal(number, lambda number, _: caught.append(number)) for number in numbers}
    fd = signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
    try:
        yield wake, caught
    finally:
        signal.set_wakeup_fd(fd)
        for number, handler in before.items():
            signal.signal(number, handler)
        wake.close()
        told.close()
