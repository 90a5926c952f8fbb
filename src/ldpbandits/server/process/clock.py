"""The clock that decides when a ticket has expired for good: it does not trust a jump ahead at once.

A nonce may be removed only when its ticket can never be counted again. The store enforces that, whatever the clock
says: it refuses every ticket that expires up to `forgotten`, the last second whose nonces were removed. The server's
time must never be before that second, or it would issue tickets that no store counts. That makes a clock that is years
ahead harmful: tickets of those years are answered, expire and are forgotten, and once the clock is corrected the
server's time stands still for all these years.

Nonces are therefore removed by a time that no clock adjustment can push ahead: the last trusted time of the wall clock
plus the time that has passed since on a monotonic clock. A jump ahead is trusted after a day, a jump back at once.
Removing late is always safe: it costs memory only, and a stored nonce is found. At most a day's nonces are kept in
vain.
"""

import logging
import sys
import time
from collections.abc import Callable

CLOCK_TOLERANCE_S = 60.0
"""Seconds by which clocks may differ, because clocks are also adjusted in small steps."""

LEAP_CONFIRMATION_S = 86_400.0
"""Seconds after which a jump ahead is trusted. Until then an operator may correct the clock."""

START_CONFIRMATION_S = 600.0
"""Seconds after which the first reading is trusted: machines boot with a wrong clock, and set it within minutes."""

_DAY_S = 86_400
_log = logging.getLogger(__name__)


def elapsed() -> float:
    """Return the seconds of a monotonic clock, including the machine's sleep where the system can."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


class Clock:
    """A wall clock that is checked against a monotonic one; simulated time has none, and is always trusted."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] | None = None) -> None:
        """Read these clocks; the machine's wall clock is checked against its monotonic one."""
        self._wall = wall
        self._steady = elapsed if steady is None and wall is time.time else steady
        self._trusted: float | None = None
        """The last trusted difference between the wall clock and the monotonic one."""
        self._candidate: tuple[float, float] | None = None
        """The difference after a jump that is not trusted yet, and the monotonic second in which it was first seen."""
        self._is_behind = False

    def last_expired(self, forgotten: int) -> int:
        """Return the last second whose tickets have expired for good; log a wrong clock once.

        The store guarantees it for tickets that expired up to `forgotten`.
        """
        wall = self._wall()
        self._compare(wall, forgotten)
        if self._steady is not None:
            steady = self._steady()
            self._check_jump(wall - steady, steady)
            wall = 0 if self._trusted is None else min(wall, self._trusted + steady)
        return max(int(wall), forgotten)

    def _check_jump(self, offset: float, steady: float) -> None:
        """Trust the wall clock, or begin to watch a jump, or go on waiting."""
        if self._trusted is not None and offset <= self._trusted + CLOCK_TOLERANCE_S:
            self._trusted, self._candidate = offset, None
        elif self._candidate is None or abs(offset - self._candidate[0]) > CLOCK_TOLERANCE_S:
            self._candidate = (offset, steady)
            if self._trusted is not None:
                warning = "the clock jumped ahead by %.1f days: the server trusts it after a day"
                _log.warning(f"{warning}, and keeps used nonces until then", (offset - self._trusted) / _DAY_S)
        elif steady - self._candidate[1] >= (START_CONFIRMATION_S if self._trusted is None else LEAP_CONFIRMATION_S):
            self._trusted, self._candidate = offset, None

    def _compare(self, wall: float, forgotten: int) -> None:
        is_behind = wall + CLOCK_TOLERANCE_S < forgotten
        if is_behind and not self._is_behind:
            warning = "the clock is %.1f days behind the last removed nonces: it was wrong then, or is wrong now"
            _log.warning(f"{warning}; until it gets there the server's time stands still", (forgotten - wall) / _DAY_S)
        self._is_behind = is_behind
