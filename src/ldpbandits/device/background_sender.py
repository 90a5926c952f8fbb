"""A thread that sends the responses that are due, so that an app need not think of them."""

from collections.abc import Callable
from contextlib import suppress
from threading import Condition, Thread

from ldpbandits.errors import LDPBanditsError

MIN_PAUSE_S = 0.05
"""The shortest pause between two rounds, and the first that doubles while a round leaves something due."""

MAX_PAUSE_S = 300.0
"""The longest pause between two rounds: clocks are set, and computers sleep."""


class BackgroundSender:
    """Works in rounds: one when it is woken, one whenever a response is due. The first `wake` starts its thread.

    `send_due` sends what is due now, and ends soon once the client is closed. `seconds_until_due` tells how long it is
    until there is more to do, or None when no pull is open.
    """

    def __init__(self, send_due: Callable[[], object], seconds_until_due: Callable[[], float | None]) -> None:
        """Remember what a round does; `wake` starts the thread."""
        self._send_due, self._seconds_until_due = send_due, seconds_until_due
        self._wakeup = Condition()
        self._thread: Thread | None = None
        self._is_woken = self._is_closed = False

    def wake(self) -> None:
        """Start a round: there may be something new to do."""
        with self._wakeup:
            self._is_woken = True
            if self._thread is None and not self._is_closed:
                thread = Thread(target=self._run, name="ldpbandits", daemon=True)
                with suppress(RuntimeError):  # no more threads, as when the interpreter ends: the exit sends
                    thread.start()
                    self._thread = thread
            self._wakeup.notify()

    def stop(self) -> None:
        """Let the thread end after the round that it is in."""
        with self._wakeup:
            self._is_closed = True
            self._wakeup.notify()

    def join(self, timeout: float) -> None:
        """Wait at most `timeout` seconds until the thread has ended."""
        if self._thread is not None:
            self._thread.join(max(timeout, 0))

    def after_fork(self) -> None:
        """Start anew in a child process: the thread, and the holder of the lock, are in the parent."""
        self._wakeup = Condition()
        self._thread = None

    def _run(self) -> None:
        rounds_overdue = 0
        while not self._is_closed:
            self._is_woken = False
            wait: float | None = MAX_PAUSE_S
            with suppress(LDPBanditsError):  # the ledger may be locked or the disk full: the next round may do better
                self._send_due()
            with suppress(LDPBanditsError):
                wait = self._seconds_until_due()
            rounds_overdue = 0 if wait is None or wait > 0 else min(rounds_overdue + 1, 20)
            with self._wakeup:  # not held while the ledger is read: a caller of wake or stop does not wait for that
                if not self._has_to_go_on():
                    self._wakeup.wait(pause_after(wait, rounds_overdue))

    def _has_to_go_on(self) -> bool:
        return self._is_closed or self._is_woken


def pause_after(wait: float | None, rounds_overdue: int) -> float | None:
    """Return the pause after a round, in seconds, if there is more to do in `wait` seconds; None: until woken.

    A response that is due right after a round could not be written down. Each time this happens in a row, the pause
    doubles: otherwise the agent would get the same response again and again without a pause.
    """
    return None if wait is None else min(MAX_PAUSE_S, max(wait, MIN_PAUSE_S * 2**rounds_overdue))
