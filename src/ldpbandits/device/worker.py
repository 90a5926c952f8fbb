"""A thread for whatever may wait for a disk or a lock, so that an event loop does not."""

from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar
from weakref import finalize

from ldpbandits.errors import LedgerError

T = TypeVar("T")

CLOSED = "the ledger cannot be used: this client is closed"


class Worker:
    """Does one job after the other, in the order in which they come. It has no thread before the first.

    The thread is a daemon: a program that ends does not wait for a ledger that somebody has locked. It ends when it is
    told to, or when nobody has the worker any more: who could not even open a ledger may not think of closing.
    """

    def __init__(self) -> None:
        """Wait for jobs."""
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._is_stopped = False
        finalize(self, self._jobs.put, None).atexit = False

    def submit(self, job: Callable[[], T]) -> "Future[T]":
        """Do this when all that came before is done. A job that is cancelled before its turn is not done."""
        future: Future[T] = Future()
        if self._is_stopped:
            future.set_exception(LedgerError(CLOSED))
            return future
        self._jobs.put((future, job))
        if self._thread is None:
            self._thread = Thread(target=_work, args=(self._jobs,), name="ldpbandits-ledger", daemon=True)
            self._thread.start()
        return future

    def stop(self) -> None:
        """Let the thread end when all is done that has come so far."""
        self._is_stopped = True
        self._jobs.put(None)


def _work(jobs: "SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]") -> None:
    while (item := jobs.get()) is not None:
        future, job = item
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(job())
            except BaseException as error:  # noqa: BLE001 - whoever waits for the job gets it
                future.set_exception(error)
        del item, future, job  # a reward may be in it, until it is privatised
