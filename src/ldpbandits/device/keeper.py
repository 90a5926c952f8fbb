"""A thread that sends what is due, so that an app need not think of it."""

from collections.abc import Callable
from contextlib import suppress
from threading import Condition, Thread

from ldpbandits.errors import LDPBanditsError

SHORTEST_SLEEP = 0.05
LONGEST_SLEEP = 300.0
"""The thread looks at least this often, in seconds: clocks are set, and computers sleep."""


class Pace:
    """How long to pause between two rounds of sending."""

    def __init__(self) -> None:
        """Start with a round that is not overdue."""
        self._overdue = 0

    def pause(self, wait: float | None) -> float | None:
        """Return for how long to pause after a round, if there is more to do in `wait` seconds; None: until woken.

        What is due right after a round could not be written down. Each time this happens in a row, the pause doubles:
        otherwise the agent would get the same response again and again without a pause.
        """
        self._overdue = 0 if wait is None or wait > 0 else min(self._overdue + 1, 20)
        return None if wait is None else min(LONGEST_SLEEP, max(wait, SHORTEST_SLEEP * 2**self._overdue))


class Keeper:
    """Works in rounds: one when it is woken, one whenever something is due. It has no thread before it is first woken.

    `work` does what is due now, and ends soon once the client is closed. `until_due` tells how many seconds it is until
    there is more to do, or None when nothing is open.
    """

    def __init__(self, work: Callable[[], object], until_due: Callable[[], float | None]) -> None:
        """Remember what to do; `wake` starts the thread."""
        self._work, self._until_due = work, until_due
        self._news = Condition()
        self._thread: Thread | None = None
        self._is_woken = self._is_closed = False

    def wake(self) -> None:
        """Say that there may be something new to do."""
        with self._news:
            self._is_woken = True
            if self._thread is None and not self._is_closed:
                thread = Thread(target=self._run, name="ldpbandits", daemon=True)
                with suppress(RuntimeError):  # no more threads, as when the interpreter ends: whoever leaves sends
                    thread.start()
                    self._thread = thread
            self._news.notify()

    def stop(self) -> None:
        """Let the thread end after the round that it is in."""
        with self._news:
            self._is_closed = True
            self._news.notify()

    def join(self, patience: float) -> None:
        """Wait until the thread has ended, for so many seconds at the most."""
        if self._thread is not None:
            self._thread.join(max(patience, 0))

    def after_fork(self) -> None:
        """Start anew in a child process: the thread, and whoever held the lock, are in the parent."""
        self._news = Condition()
        self._thread = None

    def _run(self) -> None:
        pace = Pace()
        while not self._is_closed:
            self._is_woken = False
            with suppress(LDPBanditsError):  # the ledger may be locked or the disk full: the next round may do better
                self._work()
            pause = pace.pause(self._seconds_until_due())
            with self._news:  # not held while the ledger is read: who wakes or stops the thread does not wait for that
                if not self._is_called():
                    self._news.wait(pause)

    def _is_called(self) -> bool:
        return self._is_closed or self._is_woken

    def _seconds_until_due(self) -> float | None:
        try:
            return self._until_due()
        except LDPBanditsError:  # as above
            return LONGEST_SLEEP
