"""In-memory metrics of a running server: durations, queue lengths and failures.

Only the event loop updates them, so there are no locks; an update takes a fraction of a microsecond, beside the hundred
of a decision. `/metrics` shows them in the format of Prometheus.
"""

import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from math import inf
from time import monotonic

from ldpbandits.net import without_controls

LATENCY_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BATCH_SIZE_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)

REFUSAL_LOG_INTERVAL_S = 10.0
"""Minimum seconds between two log lines about the same reason."""

_log = logging.getLogger(__name__)


class Histogram:
    """Counts of values by upper bound, and the sum of all values."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        """Start with empty buckets of these bounds."""
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Values above the previous bound and up to this one; the last count is above all bounds."""
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Add a value to its bucket."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Meters:
    """The counts of one server since its start."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        """Start all counts at 0."""
        self._now = now
        self.latency: dict[str, Histogram] = {}
        """Seconds from the last byte of a request to its reply, by operation."""
        self.replies: Counter[tuple[str, int]] = Counter()
        """Replies by operation and HTTP status."""
        self.commit_seconds = Histogram(LATENCY_BUCKETS_S)
        self.batch = Histogram(BATCH_SIZE_BUCKETS)
        """Responses in each commit."""
        self.queue = Histogram(BATCH_SIZE_BUCKETS)
        """Responses in the queue when a commit began."""
        self.unavailable: Counter[str] = Counter(dict.fromkeys(("connections", "store", "streams"), 0))
        """Replies with status 503, by reason."""
        self.closed: Counter[str] = Counter({"connections": 0})
        """Connections that the server closed because of a limit, by limit."""
        self.open_connections: Callable[[], int] = lambda: 0
        self._logged_at: dict[str, float] = {}
        self._unlogged: Counter[str] = Counter()

    def of(self, operation: str) -> Histogram:
        """Return the latency histogram of this operation."""
        return self.latency.setdefault(operation, Histogram(LATENCY_BUCKETS_S))

    def committed(self, batch: int, waiting: int, seconds: float) -> None:
        """Count a commit, whether it succeeded or not."""
        self.batch.observe(batch)
        self.queue.observe(waiting)
        self.commit_seconds.observe(seconds)

    def refuse(self, reason: str, why: str) -> None:
        """Count a 503 reply. For each reason, log the first, then one line in `REFUSAL_LOG_INTERVAL_S`."""
        self.unavailable[reason] += 1
        now = self._now()
        if now < self._logged_at.get(reason, -inf) + REFUSAL_LOG_INTERVAL_S:
            self._unlogged[reason] += 1
            return
        self._logged_at[reason] = now
        before = self._unlogged.pop(reason, 0)
        more = f" ({before} more since the last line on this)" if before else ""
        line = without_controls(why.partition("\n")[0])  # later lines may quote a row of a table
        _log.warning("503, %s: %s%s", reason, line, more, extra={"event": "unavailable"})
