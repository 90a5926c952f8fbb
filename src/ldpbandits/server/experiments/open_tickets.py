"""Open tickets, as counts by arm and by time of expiry.

A decision adds 1, an answer subtracts 1. Single tickets are not stored: rules and reports need sums only, which are
small, and tickets that expire together are removed together. Where several workers share a store, a ticket may be
answered at another worker than issued it: counts may be negative, and their sum over all workers is right.
"""

from collections import Counter
from math import inf

from ldpbandits.types import Arm

STRETCHES_PER_LIFETIME = 3600
"""Stretches of a ticket's lifetime, of a second or more each; a ticket counts as open until its stretch ends."""


class OpenTickets:
    """Counts by arm and by the second in which a stretch ends. Only the event loop uses it."""

    def __init__(self, lifetime: int) -> None:
        """Start without tickets; tickets expire after `lifetime` seconds."""
        self._width = max(1, lifetime // STRETCHES_PER_LIFETIME)
        self._stretches: dict[int, Counter[Arm]] = {}
        self._first: float = inf
        """The earliest end of a stretch."""
        self.counts: Counter[Arm] = Counter()
        """Open tickets by arm, over all stretches."""
        self.touched: set[Arm] = set()
        """Arms whose counts changed since this set was last cleared."""

    @property
    def total(self) -> int:
        """The number of open tickets; at one of several workers it may be negative."""
        return self.counts.total()

    @property
    def until(self) -> int:
        """The second in which the last open ticket expires; 0 without open tickets."""
        return max(self._stretches, default=0)

    def has(self, arm: Arm, expires_at: int) -> bool:
        """Tell whether a ticket of this arm with this expiry is open."""
        stretch = self._stretches.get(self._end(expires_at))
        return stretch is not None and stretch[arm] > 0

    def change(self, arm: Arm, expires_at: int, by: int) -> None:
        """Add `by` open tickets of this arm with this expiry."""
        end = self._end(expires_at)
        stretch = self._stretches.get(end)
        if stretch is None:
            stretch = self._stretches[end] = Counter()
            self._first = min(self._first, end)
        stretch[arm] += by
        self.counts[arm] += by
        self.touched.add(arm)
        if not stretch[arm]:
            del stretch[arm]
            if not stretch:
                del self._stretches[end]

    def expire(self, now: float) -> Counter[Arm]:
        """Remove the tickets whose stretch has ended; return their counts by arm, which may be negative."""
        gone: Counter[Arm] = Counter()
        if now < self._first:
            return gone
        for end in [end for end in self._stretches if end <= now]:
            for arm, count in self._stretches.pop(end).items():
                gone[arm] += count
                self.counts[arm] -= count
                self.touched.add(arm)
        self._first = min(self._stretches, default=inf)
        return gone

    def _end(self, expires_at: int) -> int:
        """Return the end of the stretch: the first multiple of its width that is no earlier."""
        return expires_at + -expires_at % self._width
