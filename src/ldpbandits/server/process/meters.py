"""What the server measures of itself while it runs: how long things take, how many wait, and what it could not do.

All of it is told in the event loop, one thing at a time, so there are no locks; and taking note of something costs a
fraction of a microsecond, beside the hundred that a decision takes. `/metrics` shows it in the words of Prometheus.
"""

import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from math import inf
from time import monotonic

from ldpbandits.checks import without_controls

LATENCY_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BATCH_SIZE_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)

REFUSAL_LOG_INTERVAL_S = 10.0
"""Seconds between two lines of the log on the same trouble."""

_log = logging.getLogger(__name__)


class Histogram:
    """How many values were at most each of these bounds, and the sum of all."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        """Start empty."""
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Those above the bound before and up to their own; the last are above all bounds."""
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Meters:
    """The counts of one server since its start."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        """Start at 0."""
        self._now = now
        self.latency: dict[str, Histogram] = {}
        """By operation: seconds from the last byte of a request to its reply."""
        self.replies: Counter[tuple[str, int]] = Counter()
        """By operation and status."""
        self.commit_seconds = Histogram(LATENCY_BUCKETS_S)
        self.batch = Histogram(BATCH_SIZE_BUCKETS)
        """Responses in a commit."""
        self.queue = Histogram(BATCH_SIZE_BUCKETS)
        """Responses that waited when a commit began."""
        self.unavailable: Counter[str] = Counter(dict.fromkeys(("connections", "store", "streams"), 0))
        """Replies that say 503, by reason."""
        self.closed: Counter[str] = Counter({"connections": 0})
        """Connections that were closed against their clients' will, by the limit that was reached."""
        self.open_connections: Callable[[], int] = lambda: 0
        self._said: dict[str, float] = {}
        self._unsaid: Counter[str] = Counter()

    def of(self, operation: str) -> Histogram:
        """Return where the time that this operation takes is to be told."""
        return self.latency.setdefault(operation, Histogram(LATENCY_BUCKETS_S))

    def committed(self, batch: int, waiting: int, seconds: float) -> None:
        """Count a commit, whether it succeeded or not."""
        self.batch.observe(batch)
        self.queue.observe(waiting)
        self.commit_seconds.observe(seconds)

    def refuse(self, reason: str, why: str, times: int = 1) -> None:
        """Count replies that say 503. The first, and then one line in ten seconds for each reason, goes to the log."""
        self.unavailable[reason] += times
        now = self._now()
        if now < self._said.get(reason, -inf) + REFUSAL_LOG_INTERVAL_S:
            self._unsaid[reason] += times
            return
        self._said[reason] = now
        before = self._unsaid.pop(reason, 0)
        more = f" ({before} more since the last line on this)" if before else ""
        line = without_controls(why.partition("\n")[0])  # what follows the first line may be a row of a table
        _log.warning("503, %s: %s%s", reason, line, more, extra={"event": "unavailable"})
