"""How many requests a second a key may make.

A key may use the requests of some seconds at once; then they come back at its rate. For each key one number is kept:
the moment up to which its requests so far would have filled the time at that rate.
"""

from collections.abc import Callable
from time import monotonic

from ldpbandits.server.front_door import FrontDoor
from ldpbandits.server.keys import Role

MOST_KEYS = 1000
"""Only keys that hold are counted, and there are few; keys of the past are forgotten together."""

ROUNDING = 1e-9


class Rates:
    """The rates of the front door, by key; 0 is no limit."""

    def __init__(self, limits: FrontDoor, now: Callable[[], float] = monotonic) -> None:
        """Start with every key rested."""
        self._rates = {
            Role.ADMIN: limits.admin_rate,
            Role.VIEWER: limits.viewer_rate,
            Role.CLIENT: limits.client_rate,
        }
        self._burst = limits.rate_burst
        self._now = now
        self._filled: dict[bytes, float] = {}

    def wait(self, hashed: bytes, role: Role) -> float:
        """Return 0 and count a request by the key of this hash, or return in how many seconds it may ask again."""
        rate = self._rates[role]
        if not rate:
            return 0.0
        now = self._now()
        filled = max(now, self._filled.get(hashed, now)) + 1 / rate
        # A key that may ask once in ten seconds may ask once.
        over = filled - now - max(self._burst, 1 / rate)
        if over > ROUNDING:
            return over
        if len(self._filled) >= MOST_KEYS and hashed not in self._filled:
            self._filled.clear()
        self._filled[hashed] = filled
        return 0.0
