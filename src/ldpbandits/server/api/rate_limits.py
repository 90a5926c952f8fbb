"""How many requests a second a key may make. That of the client key is a rate of decisions: a batch has many.

A key may use the requests of some seconds at once; then they come back at its rate. For each key one number is kept:
the moment up to which its requests so far would have filled the time at that rate.

All devices share the client key, so its rate bounds what they take of the server together and cannot be fair: whoever
asks more often than the others gets more of it. Fairness would need to know who asks, and this server is to know
nobody.
"""

from collections.abc import Callable
from time import monotonic

from ldpbandits.server.keys import Role
from ldpbandits.server.process.front_door import FrontDoor

MOST_KEYS = 1000
"""Only keys that hold are counted, and there are few; keys of the past are forgotten together."""

ROUNDING = 1e-9


class RateLimits:
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

    def wait(self, hashed: bytes, role: Role, requests: int = 1, charged: int = 0) -> float:
        """Return 0 and charge the key of this hash, or return in how many seconds it may ask again.

        `requests` are asked for at once, and `charged` of them were charged before.
        """
        rate = self._rates[role]
        if not rate:
            return 0.0
        now = self._now()
        filled = max(now, self._filled.get(hashed, now)) + (requests - charged) / rate
        # A key that may ask once in ten seconds may ask once, and a rested key for a batch that exceeds its burst.
        over = filled - now - max(self._burst, requests / rate)
        if over > ROUNDING:
            return over
        if len(self._filled) >= MOST_KEYS and hashed not in self._filled:
            self._filled.clear()
        self._filled[hashed] = filled
        return 0.0
