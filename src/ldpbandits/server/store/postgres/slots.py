"""Totals by slot: the responses that each worker has counted. The total of a cell is the sum over the slots."""

from collections.abc import Iterable
from threading import Lock
from typing import NamedTuple, TypeAlias

from psycopg import Connection
from psycopg.rows import TupleRow

from ldpbandits.server.store import CellTotal, StoredExperiment
from ldpbandits.server.store import sql as shared
from ldpbandits.server.store.postgres.connection import rows_of

_TOTALS = "SELECT experiment, slot, arm, cell, pulls, total, read FROM cells WHERE experiment = ANY(%s)"

SINCE = "age(xmin) <= age(%s::xid)"
"""True for rows written by this transaction or a later one, and for some that are two billion transactions older."""

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


def read_totals(connection: Connection[TupleRow], experiments: list[int], since: str | None = None) -> list[SlotTotal]:
    """Read the totals of all cells of these experiments by slot, or only of those changed after `since`."""
    if since is None:
        found = connection.execute(_TOTALS, (experiments,))
    else:
        found = connection.execute(f"{_TOTALS} AND {SINCE}", (experiments, since))
    return [SlotTotal(*row) for row in found.fetchall()]


def read_experiments(
    connection: Connection[TupleRow], numbers: list[int], slots: Slots | None = None
) -> list[StoredExperiment]:
    """Read these experiments with their arms and totals. `slots` records the totals, which the caller applies."""
    found = read_totals(connection, numbers)
    if slots is not None:
        slots.take(found)
    totals = sorted(Slots().take(found))
    return shared.read_experiments(rows_of(connection), totals, "{} = ANY(?)", (numbers,))
