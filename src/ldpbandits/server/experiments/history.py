"""History of an experiment: the totals of its arms by number of responses.

Times are not stored, on purpose. A trail has at most 200 moments: when it is full, every other one is dropped, and
moments are twice as far apart from then on. It is in memory only. After a restart the first request for the history
replays the earlier responses in the order in which they were counted.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple, TypeAlias

from ldpbandits.agent.inference.estimates import Estimate
from ldpbandits.server.store import CellTotal, StoredResponse

MOST_MOMENTS = 200
"""Moments of a history, the present one included."""

MOST_RIVALS = 16
"""Arms of which a moment has the totals by rival, for the evidence; of more, pairs would take too much memory."""

Known: TypeAlias = dict[tuple[int, tuple[CellTotal, ...]], Estimate]
"""Cached estimates of an arm, by the totals of its cells."""

KnownEvidence: TypeAlias = dict[tuple[tuple[int, ...], tuple[CellTotal, ...]], float]
"""Cached evidence for a leader against its rivals, by these arms and the totals of all cells."""


class Moment(NamedTuple):
    """The totals of all arms by level, and by rival of few arms, without empty ones, after `responses` responses."""

    responses: int
    cells: tuple[CellTotal, ...]

    def by_arm(self) -> dict[int, tuple[CellTotal, ...]]:
        """Return the cells of each arm that has any."""
        found: dict[int, tuple[CellTotal, ...]] = {}
        for cell in self.cells:
            found[cell.arm] = (*found.get(cell.arm, ()), cell)
        return found

    def beside(self, known: Sequence[CellTotal]) -> "Moment":
        """Return the moment plus known totals of the same cells in the same order."""
        cells = tuple(
            more._replace(pulls=cell.pulls + more.pulls, total=cell.total + more.total, read=cell.read + more.read)
            for cell, more in zip(self.cells, known, strict=True)
        )
        return Moment(self.responses + sum(cell.pulls for cell in known), tuple(cell for cell in cells if cell.pulls))


class Trail:
    """The moments of one experiment, in order. Only the event loop uses it."""

    def __init__(self, start: Moment, unread: int = 0) -> None:
        """Start with the totals of this moment; the store has `unread` responses that were counted before it."""
        self.kept = [start]
        self.spacing = 1
        """The minimum number of responses between two moments."""
        self.due = start.responses + 1
        """The number of responses at which the next moment is added."""
        self.unread = unread
        self.reading = asyncio.Lock()
        """Held by the request that replays the unread responses, so that it is done once."""
        self.estimates: Known = {}
        """Cached estimates of the moments that were last shown."""
        self.evidence: KnownEvidence = {}

    def add(self, moment: Moment) -> None:
        """Add a moment that is later than all others; drop every other one once there is no room for the present."""
        self.kept.append(moment)
        while len(self.kept) >= MOST_MOMENTS:
            self.spacing *= 2
            self.kept = list(spaced(self.kept, self.spacing))
        self.due = (self.kept[-1].responses // self.spacing + 1) * self.spacing

    def recall(self, earlier: "Trail") -> None:
        """Prepend the replayed moments: no response is unread any more."""
        *self.kept, last = earlier.kept + self.kept
        self.spacing = max(self.spacing, earlier.spacing)
        self.unread = 0
        self.add(last)

    def start_from(self, known: Sequence[CellTotal]) -> None:
        """Add the totals of a warm start to each moment, cell by cell."""
        self.kept = [moment.beside(known) for moment in self.kept]

    def moments(self, now: Moment, most: int) -> list[Moment]:
        """Return at most `most` moments, of which this is the last. Those before it stay the same for long."""
        spacing, kept = self.spacing, self.kept
        while len(kept) >= most:
            spacing *= 2
            kept = list(spaced(self.kept, spacing))
        return [*(moment for moment in kept if moment.responses < now.responses), now]

    def at(self, responses: float) -> Moment:
        """Return the last moment with at most this many responses, or else the first."""
        place = bisect_right(self.kept, responses, key=lambda moment: moment.responses)
        return self.kept[max(place - 1, 0)]


def spaced(moments: Sequence[Moment], spacing: int) -> Iterator[Moment]:
    """Yield the first moment, and the first one at or after each multiple of the spacing."""
    last = None
    for moment in moments:
        if moment.responses // spacing != last:
            yield moment
            last = moment.responses // spacing


def replay(
    pieces: Iterable[Sequence[StoredResponse]], count: int, end: Moment, levels: int, read_of: Callable[[int], int]
) -> Trail:
    """Return the trail of the first `count` responses; after the last of them the totals are those of `end`.

    Moments are by the cells of `end`: of all cells, or of the levels of a menu of `levels` epsilons. `read_of` is the
    rule's own reading of a value, both in units. The difference between these totals and the sums of the
    responses is the warm start, a part of every moment.
    """
    pulls = {(cell.arm, cell.cell): 0 for cell in end.cells}
    totals, reads = pulls.copy(), pulls.copy()

    def sums(responses: int) -> Moment:
        cells = (CellTotal(0, *place, pulls[place], totals[place], reads[place]) for place in pulls)
        return Moment(responses, tuple(cells))

    trail = Trail(sums(0))
    for number, (_, arm, value, cell) in enumerate(islice(chain.from_iterable(pieces), count), 1):
        place = (arm, cell) if (arm, cell) in pulls else (arm, cell % levels)
        pulls[place] += 1
        totals[place] += value
        reads[place] += read_of(value)
        if trail.due <= number < count:
            trail.add(sums(number))
    read = sums(0).cells
    known = tuple(
        cell._replace(pulls=cell.pulls - summed.pulls, total=cell.total - summed.total, read=cell.read - summed.read)
        for cell, summed in zip(end.cells, read, strict=True)
    )
    trail.start_from(known)
    return trail
