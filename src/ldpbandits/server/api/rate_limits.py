"""Rate limits of keys, in requests a second; the client key's limit counts decisions, of which a batch has many.

The limit is a token bucket: a key may use the requests of some seconds at once; then they come back at its rate. One
number is stored for each key: the time up to which its requests so far would have filled the time at that rate.

All devices share the client key, so its rate bounds their total load and cannot be fair: a device that asks more often
than the others gets more of it. Fairness would need to identify clients, and this server must not.
"""

from collections.abc import Callable
from time import monotonic

from ldpbandits.server.keys import Role
from ldpbandits.server.process.front_door import FrontDoor

MOST_KEYS = 1000
"""Keys whose state is stored. Only valid keys are counted, and there are few; beyond that all are reset."""

ROUNDING = 1e-9


class RateLimits:
    """The rate limits of the front door, by key; 0 is no limit."""

    def __init__(self, limits: FrontDoor, now: Callable[[], float] = monotonic) -> None:
        """Start with a full burst for every key."""
        self._rates = {
            Role.ADMIN: limits.admin_rate,
            Role.EDITOR: limits.admin_rate,
            Role.VIEWER: limits.viewer_rate,
            Role.CLIENT: limits.client_rate,
        }
        self._burst = limits.rate_burst
        self._now = now
        self._filled: dict[bytes, float] = {}

    def wait(self, hashed: bytes, role: Role, requests: int = 1, charged: int = 0) -> float:
        """Return 0 and charge the key of this hash, or return the seconds until it may retry.

        `requests` are asked for at once, and `charged` of them were charged before.
        """
        rate = self._rates[role]
        if not rate:
            return 0.0
        now = self._now()
        filled = max(now, self._filled.get(hashed, now)) + (requests - charged) / rate
        # A rate below one request per burst still allows one, and a full burst allows a batch that exceeds it.
        over = filled - now - max(self._burst, requests / rate)
        if over > ROUNDING:
            return over
        if len(self._filled) >= MOST_KEYS and hashed not in self._filled:
            self._filled.clear()
        self._filled[hashed] = filled
        return 0.0
