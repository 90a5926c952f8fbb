"""A background thread that sends due responses, and retries with exponential backoff."""

from collections.abc import Callable
from contextlib import suppress
from threading import Condition, Thread

from ldpbandits.errors import LDPBanditsError

MIN_PAUSE_S = 0.05
"""Shortest pause between two rounds, and the first of the backoff while a round leaves responses due."""

MAX_PAUSE_S = 300.0
"""Longest pause between two rounds: clocks are set, and computers sleep."""


class BackgroundSender:
    """A thread that works in rounds: one after each `wake`, one whenever a response is due. `wake` starts the thread.

    `send_due` sends all due responses, and returns soon once the client is closed. `seconds_until_due` returns the
    seconds until the next response is due, or None when no pull is open.
    """

    def __init__(self, send_due: Callable[[], object], seconds_until_due: Callable[[], float | None]) -> None:
        self._send_due, self._seconds_until_due = send_due, seconds_until_due
        self._wakeup = Condition()
        self._thread: Thread | None = None
        self._is_woken = self._is_closed = False

    def wake(self) -> None:
        """Start a round: a response may be due."""
        with self._wakeup:
            self._is_woken = True
            if self._thread is None and not self._is_closed:
                thread = Thread(target=self._run, name="ldpbandits", daemon=True)
                with suppress(RuntimeError):  # no more threads, as when the interpreter exits: the exit handler sends
                    thread.start()
                    self._thread = thread
            self._wakeup.notify()

    def stop(self) -> None:
        """Let the thread end after its current round."""
        with self._wakeup:
            self._is_closed = True
            self._wakeup.notify()

    def join(self, timeout: float) -> None:
        """Wait at most `timeout` seconds until the thread has ended."""
        if self._thread is not None:
            self._thread.join(max(timeout, 0))

    def after_fork(self) -> None:
        """Reset in a child process: the thread, and the holder of the lock, are in the parent."""
        self._wakeup = Condition()
        self._thread = None

    def _run(self) -> None:
        rounds_overdue = 0
        while not self._is_closed:
            self._is_woken = False
            wait: float | None = MAX_PAUSE_S
            with suppress(LDPBanditsError):  # the ledger may be locked or the disk full: the next round retries
                self._send_due()
            with suppress(LDPBanditsError):
                wait = self._seconds_until_due()
            rounds_overdue = 0 if wait is None or wait > 0 else min(rounds_overdue + 1, 20)
            with self._wakeup:  # not held while the ledger is read: callers of wake and stop do not wait for that
                if not self._is_interrupted():
                    self._wakeup.wait(pause_after(wait, rounds_overdue))

    def _is_interrupted(self) -> bool:
        return self._is_closed or self._is_woken


def pause_after(wait: float | None, rounds_overdue: int) -> float | None:
    """Return the seconds to pause after a round, if a response is due in `wait` seconds; None: until the next `wake`.

    A response that is still due right after a round could not be recorded as sent. The pause doubles with each such
    round (`rounds_overdue`): otherwise the agent would get the same response again and again without a pause.
    """
    return None if wait is None else min(MAX_PAUSE_S, max(wait, MIN_PAUSE_S * 2**rounds_overdue))
