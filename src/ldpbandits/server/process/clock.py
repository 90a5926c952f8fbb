"""When has a ticket expired for good? A clock that leaps ahead is not believed at once.

A nonce may be removed only when its ticket can never be counted again. The store sees to that, whatever the clock says:
it refuses every ticket that expires up to `forgotten`, the last second of which nonces were removed. So the server's
time must never be before that second, or it would hand out tickets that nobody counts. This is what makes a clock that
is years ahead harmful: tickets of those years are answered, expire and are forgotten, and when the clock is right again
the server's time stands still for all these years.

So nonces are removed by a time that no clock can push ahead: the time of the wall clock as it was believed last, and
what has passed since on a clock that nobody sets. A leap ahead is believed when it has stood for a day; a leap back at
once. To remove later than needed is always right: it costs memory only, and a nonce that is there is found. At most a
day's nonces are kept in vain.
"""

import logging
import sys
import time
from collections.abc import Callable

CLOCK_TOLERANCE_S = 60.0
"""Seconds by which clocks may differ, since they are set in small steps too."""

LEAP_CONFIRMATION_S = 86_400.0
"""A leap ahead must have stood for so many seconds. Until then somebody may set the clock right."""

START_CONFIRMATION_S = 600.0
"""The same for the first time that is seen: machines start with a wrong clock, and set it within minutes."""

_DAY_S = 86_400
_log = logging.getLogger(__name__)


def elapsed() -> float:
    """Return seconds of a clock that nobody sets; where the system has one that goes on while it sleeps, of that."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


class Clock:
    """A wall clock, and what to believe of it. Without a steady clock beside it, as in simulated time, all of it."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] | None = None) -> None:
        """Look at these; the machine's own wall clock has the machine's own steady clock beside it."""
        self._wall = wall
        self._steady = elapsed if steady is None and wall is time.time else steady
        self._believed: float | None = None
        """The wall clock less the steady one, as it was believed last."""
        self._seen: tuple[float, float] | None = None
        """The same of a leap that is not believed yet, and the steady second from which on it has stood."""
        self._is_behind = False

    def settled(self, forgotten: int) -> int:
        """Return the last second of which tickets have expired for good; say in the log, once, what is wrong.

        Those that expired up to `forgotten` have, by what the store promises.
        """
        wall = self._wall()
        self._compare(wall, forgotten)
        if self._steady is not None:
            steady = self._steady()
            self._look(wall - steady, steady)
            wall = 0 if self._believed is None else min(wall, self._believed + steady)
        return max(int(wall), forgotten)

    def _look(self, offset: float, steady: float) -> None:
        """Believe the wall clock, or begin to watch a leap, or wait on."""
        if self._believed is not None and offset <= self._believed + CLOCK_TOLERANCE_S:
            self._believed, self._seen = offset, None
        elif self._seen is None or abs(offset - self._seen[0]) > CLOCK_TOLERANCE_S:
            self._seen = (offset, steady)
            if self._believed is not None:
                told = "the clock has leapt ahead by %.1f days: that is believed when it has stood for a day"
                _log.warning(f"{told}, and until then used tickets are remembered", (offset - self._believed) / _DAY_S)
        elif steady - self._seen[1] >= (START_CONFIRMATION_S if self._believed is None else LEAP_CONFIRMATION_S):
            self._believed, self._seen = offset, None

    def _compare(self, wall: float, forgotten: int) -> None:
        is_behind = wall + CLOCK_TOLERANCE_S < forgotten
        if is_behind and not self._is_behind:
            told = "the clock is %.1f days behind the last tickets that were forgotten: it was wrong then, or is now"
            _log.warning(f"{told}; until it gets there the server's time stands still", (forgotten - wall) / _DAY_S)
        self._is_behind = is_behind
