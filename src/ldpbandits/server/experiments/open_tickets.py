"""Tickets that are out, as counts: how many of each arm expire in which stretch of time.

+1 when one is handed out, -1 when it is answered. Which tickets they are is not kept: sums are all that a rule and a
report need, they are small, and those that expire together leave together. Where several workers share a store, a
ticket may be answered elsewhere than where it was handed out: counts may be negative, and their sum over all workers is
right.
"""

from collections import Counter
from math import inf

from ldpbandits.types import Arm

STRETCHES_PER_LIFETIME = 3600
"""A lifetime has so many stretches at most, of a second or more; a ticket counts as out until its stretch is over."""


class OpenTickets:
    """Counts by arm and by the second in which a stretch ends. It belongs to the event loop."""

    def __init__(self, lifetime: int) -> None:
        """Start with none; tickets live for so many seconds."""
        self._width = max(1, lifetime // STRETCHES_PER_LIFETIME)
        self._stretches: dict[int, Counter[Arm]] = {}
        self._first: float = inf
        """No stretch ends before."""
        self.counts: Counter[Arm] = Counter()
        """By arm, over all stretches."""
        self.touched: set[Arm] = set()
        """Arms whose counts changed since somebody last cleared it."""

    @property
    def total(self) -> int:
        """How many tickets are out; of one of several workers it may be negative."""
        return self.counts.total()

    @property
    def until(self) -> int:
        """The second in which the last of them expires; 0 where there is none."""
        return max(self._stretches, default=0)

    def has(self, arm: Arm, expires_at: int) -> bool:
        """Tell whether a ticket of this arm that expires then is out."""
        stretch = self._stretches.get(self._end(expires_at))
        return stretch is not None and stretch[arm] > 0

    def change(self, arm: Arm, expires_at: int, by: int) -> None:
        """So many more tickets of this arm that expire then are out."""
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
        """Drop all whose stretch is over; return how many of each arm, which may be negative."""
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
