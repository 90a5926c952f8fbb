"""The supervisor of several worker processes: it restarts a worker that dies, and all workers stop with it.

uvicorn has a well-kept supervisor too, but it does not fit here. It restarts a crash-looping worker at once, for ever;
its workers outlive a parent that is killed; and it runs uvicorn's own `Server`, not one that ends the streams of the
console and writes its pending events before it stops.
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
from ldpbandits.server.process.title import set_title

STEADY_UPTIME_S = 30.0
"""Seconds after which a death of a worker no longer counts as a crash at start."""

FIRST_RESTART_DELAY_S, LONGEST_RESTART_DELAY_S = 0.5, 30.0
"""Seconds before a worker that crashed at start is restarted; the delay doubles each time."""

CONNECTION_WAIT_S = 1.0
"""Seconds that connections wait for a worker to restart; after a longer delay others get them."""

READY_TIMEOUT_S = 60.0
"""Seconds within which a replacement of a running worker must be ready."""

_READY = b"ready"
_SPAWN = get_context("spawn")  # a new interpreter: no lock, thread or connection of the parent is copied into it
_log = logging.getLogger(__name__)


class Tie:
    """A pipe between a worker and its parent: the worker reports that it is ready, and notices the parent's death.

    The parent alone holds the other end, so the worker reads end-of-file when the parent has died, however it died. No
    other way works on every system.
    """

    def __init__(self, pipe: Connection) -> None:
        """Wrap the worker's end of the pipe."""
        self._pipe = pipe

    def ready(self) -> None:
        """Report to the parent that this worker answers requests."""
        with suppress(OSError):
            self._pipe.send_bytes(_READY)

    def watch_parent(self, stop: Callable[[], None], seconds: float) -> None:
        """Call `stop` when the parent has died; exit if the worker still runs `seconds` later."""
        ended = threading.Event()

        def watch() -> None:
            with suppress(EOFError, OSError):
                self._pipe.recv_bytes()
            stop()
            ended.wait(seconds)
            os._exit(1)

        threading.Thread(target=watch, name="parent", daemon=True).start()


Work: TypeAlias = Callable[[socket.socket, Tie], None]
"""Serves on a socket, on which it may be the first to listen, until stopped by SIGTERM or by the tie. It is pickled, so
it must be a function of a module."""


def _begin(place: int, work: Work, listener: socket.socket, pipe: Connection) -> None:
    """Run `work` in a new worker process."""
    set_title(f"w{place}")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process: the parent stops the workers
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        work(listener, Tie(pipe))
    except LDPBanditsError as error:
        _log.error("a worker exits: %s", error)
        sys.exit(1)
    except Exception:  # noqa: BLE001 - every error is logged in one line
        _log.exception("a worker has failed")
        sys.exit(1)


@dataclass(eq=False)
class _Worker:
    """A worker process and its place."""

    place: int
    process: SpawnProcess
    pipe: Connection
    since: float = field(default_factory=monotonic)
    is_ready: bool = False


class Workers:
    """Supervises one worker in each place until it is stopped."""

    def __init__(self, work: Work, listeners: Listeners, patience: float) -> None:
        """Run a worker on each of these sockets; stopping workers have `patience` seconds before they are killed."""
        self._work, self._listeners, self._patience = work, listeners, patience
        self._workers: dict[int, _Worker] = {}
        self._leaving: list[_Worker] = []
        """Workers that are stopping because others have replaced them."""
        self._replacement: _Worker | None = None
        """The worker that will replace another once it is ready."""
        self._to_replace: deque[int] = deque()
        """The places whose workers are to be replaced."""
        self._deaths = dict.fromkeys(range(listeners.count), 0)
        """Consecutive crashes at start, by place."""
        self._due: dict[int, float] = {}
        self._was_ready = False
        self.on_ready: Callable[[], None] = lambda: None

    def run(self, begin: Callable[[], None] = lambda: None) -> None:
        """Supervise until SIGTERM or SIGINT; SIGHUP replaces one worker after the other, without a gap.

        `begin` is called first, when a signal already leads to an orderly stop.
        """
        with _signals() as (wake, caught):
            begin()
            self._due = dict.fromkeys(self._deaths, monotonic())
            while not {signal.SIGTERM, signal.SIGINT} & set(caught):
                if signal.SIGHUP in caught:
                    caught.remove(signal.SIGHUP)
                    _log.info("replacing every worker, one after the other", extra={"event": "renewal"})
                    self._to_replace = deque(self._deaths)
                self._start_due()
                self._replace_next()
                self._wait_for_events(wake)
                self._handle_events()
            self._stop(wake, caught)

    def _all_workers(self) -> list[_Worker]:
        return [*self._workers.values(), *self._leaving, *([self._replacement] if self._replacement else [])]

    def _start(self, place: int) -> _Worker:
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(
            target=_begin,
            args=(place, self._work, self._listeners[place], theirs),
            name=f"worker {place}",
            daemon=True,
        )
        process.start()
        theirs.close()  # only the worker holds it now
        return _Worker(place, process, ours)

    def _start_due(self) -> None:
        now = monotonic()
        for place in [place for place, when in self._due.items() if when <= now]:
            del self._due[place]
            try:
                self._workers[place] = self._start(place)
            except OSError as error:  # memory, processes or files ran out: the running workers go on
                pause = self._schedule_restart(place, 0.0)
                told = "worker %d cannot be started: %s; next try in %.1f s"
                _log.error(told, place, error.strerror or error, pause, extra={"event": "worker_died"})

    def _replace_next(self) -> None:
        replacement = self._replacement
        if replacement is not None and replacement.since + READY_TIMEOUT_S < monotonic():
            self._cancel_replacement("was not ready in time")
            replacement.process.kill()
            self._leaving.append(replacement)
        while self._to_replace and self._replacement is None and not self._leaving:
            place = self._to_replace.popleft()
            if place in self._workers:  # a missing worker is restarted anyway
                try:
                    self._replacement = self._start(place)
                except OSError as error:
                    self._cancel_replacement(f"cannot be started: {error.strerror or error}")

    def _cancel_replacement(self, why: str) -> None:
        _log.error("a new worker %s: the other workers go on", why, extra={"event": "renewal"})
        self._replacement = None
        self._to_replace.clear()

    def _wait_for_events(self, wake: socket.socket) -> None:
        """Wait for a signal, a worker that becomes ready or ends, or the next restart."""
        workers = self._all_workers()
        pipes = [worker.pipe for worker in workers if not worker.is_ready]
        times = [*self._due.values(), *([self._replacement.since + READY_TIMEOUT_S] if self._replacement else [])]
        timeout = max(0.0, min(times) - monotonic()) if times else None
        wait([wake, *pipes, *(worker.process.sentinel for worker in workers)], timeout)
        with suppress(BlockingIOError):
            wake.recv(4096)

    def _handle_events(self) -> None:
        for worker in self._all_workers():
            if not worker.is_ready and _is_ready(worker.pipe):
                worker.is_ready = True
                if worker is self._replacement:
                    self._replace(worker)
            if worker.process.exitcode is not None:
                self._handle_exit(worker)
        ready = sum(worker.is_ready for worker in self._workers.values())
        if not self._was_ready and ready == self._listeners.count:
            self._was_ready = True
            self.on_ready()

    def _replace(self, worker: _Worker) -> None:
        """Put a ready worker in its place; its predecessor finishes its requests."""
        old, self._replacement = self._workers.get(worker.place), None
        self._due.pop(worker.place, None)
        self._workers[worker.place] = worker
        if old is not None:
            old.process.terminate()
            self._leaving.append(old)

    def _handle_exit(self, worker: _Worker) -> None:
        worker.process.join()
        worker.pipe.close()
        if worker in self._leaving:
            self._leaving.remove(worker)
            return
        if worker is self._replacement:
            self._cancel_replacement("did not start")
            return
        if self._workers.get(worker.place) is not worker:
            return
        del self._workers[worker.place]
        lived = monotonic() - worker.since
        pause = self._schedule_restart(worker.place, lived)
        _log.error(
            "worker %d (process %d) %s after %.1f s; it is restarted in %.1f s",
            worker.place,
            worker.process.pid,
            _end(worker.process.exitcode),
            lived,
            pause,
            extra={"event": "worker_died"},
        )

    def _schedule_restart(self, place: int, lived: float) -> float:
        """Schedule the restart of a worker that lived `lived` seconds; return the delay."""
        deaths = self._deaths[place] = 0 if lived > STEADY_UPTIME_S else self._deaths[place] + 1
        pause = (
            min(LONGEST_RESTART_DELAY_S, FIRST_RESTART_DELAY_S * 2 ** min(deaths - 1, 100)) if deaths else 0.0
        )  # a float has an end
        self._due[place] = monotonic() + pause
        if pause > CONNECTION_WAIT_S:
            self._listeners.drop(place)
        return pause

    def _stop(self, wake: socket.socket, caught: list[int]) -> None:
        """Stop all workers; kill those that still run after the timeout, or at a second signal."""
        until, told = monotonic() + self._patience, len(caught)
        for worker in self._all_workers():
            worker.process.terminate()
        while workers := [worker for worker in self._all_workers() if worker.process.exitcode is None]:
            left = until - monotonic()
            if left <= 0 or len(caught) > told:
                _log.error("killing %d workers that did not stop in time", len(workers), extra={"event": "kill"})
                for worker in workers:
                    worker.process.kill()
            wait([wake, *(worker.process.sentinel for worker in workers)], max(left, 0.05))
            with suppress(BlockingIOError):
                wake.recv(4096)
        for worker in self._all_workers():
            worker.process.join()
            worker.pipe.close()


def _is_ready(pipe: Connection) -> bool:
    try:
        return pipe.poll() and pipe.recv_bytes() == _READY
    except (EOFError, OSError):  # the worker has ended
        return False


def _end(code: int | None) -> str:
    if code is not None and code < 0:
        names = {each.value: each.name for each in signal.Signals}  # some have none
        return f"was ended by {names.get(-code, f'signal {-code}')}"
    return f"ended by itself with exit code {code}"


@contextmanager
def _signals() -> Iterator[tuple[socket.socket, list[int]]]:
    """Yield a socket that becomes readable at a signal, and the list of caught signals."""
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
