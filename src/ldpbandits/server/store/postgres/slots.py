"""Totals by slot: the responses that each worker has counted. The total of a cell is the sum over the slots."""

from collections.abc import Iterable
from threading import Lock
from typing import NamedTuple, TypeAlias

from ldpbandits.server.store import CellTotal

Place: TypeAlias = tuple[int, int, int]
"""Experiment, arm and cell."""


class SlotTotal(NamedTuple):
    """The totals of one slot of a cell."""

    experiment: int
    slot: int
    arm: int
    cell: int
    pulls: int
    total: int
    read: int


class Slots:
    """The known totals by cell and slot; both the counting and the polling thread add to them.

    Pulls only grow, so of two readings of a slot the one with more pulls is the later, whichever arrives first.
    """

    def __init__(self) -> None:
        """Start without any totals."""
        self._known: dict[Place, dict[int, SlotTotal]] = {}
        self._lock = Lock()

    def take(self, rows: Iterable[SlotTotal]) -> list[CellTotal]:
        """Apply the rows that have grown; return the new totals of their cells."""
        changed: dict[Place, None] = {}
        with self._lock:
            for row in rows:
                place = (row.experiment, row.arm, row.cell)
                slots = self._known.setdefault(place, {})
                known = slots.get(row.slot)
                if known is None or known.pulls < row.pulls:
                    slots[row.slot] = row
                    changed[place] = None
            return [self._total(place) for place in changed]

    def forget(self, experiment: int) -> None:
        """Drop the totals of a deleted experiment."""
        with self._lock:
            self._known = {place: slots for place, slots in self._known.items() if place[0] != experiment}

    def _total(self, place: Place) -> CellTotal:
        slots = self._known[place].values()
        return CellTotal(
            *place, sum(slot.pulls for slot in slots), sum(slot.total for slot in slots), sum(s.read for s in slots)
        )
