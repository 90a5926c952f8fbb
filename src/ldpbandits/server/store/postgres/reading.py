"""Reads experiments and their totals from PostgreSQL."""

from collections import defaultdict
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from ldpbandits.server.store import DELETED, CellTotal, Definition, StoredArm, StoredExperiment
from ldpbandits.server.store.postgres.slots import Slots, SlotTotal

_EXPERIMENTS = (
    "SELECT id, status, shipped, name, curator, rule, settings, ticket_lifetime, default_reward, created_at"  # noqa: S608
    f" FROM experiments WHERE id = ANY(%s) AND name NOT LIKE '{DELETED}%%' ORDER BY id"
)
_ARMS = "SELECT experiment, number, name, retired FROM arms WHERE experiment = ANY(%s) ORDER BY number"
_CELLS = "SELECT experiment, slot, arm, cell, pulls, total, read FROM cells WHERE experiment = ANY(%s)"


SINCE = "age(xmin) <= age(%s::xid)"
"""True for rows written by this transaction or a later one, and for some that are two billion transactions older."""


def read_totals(connection: Connection[TupleRow], experiments: list[int], since: str | None = None) -> list[SlotTotal]:
    """Read the totals of all cells of these experiments by slot, or only of those changed after `since`."""
    if since is None:
        found = connection.execute(_CELLS, (experiments,))
    else:
        found = connection.execute(f"{_CELLS} AND {SINCE}", (experiments, since))
    return [SlotTotal(*row) for row in found.fetchall()]


def read_experiments(
    connection: Connection[TupleRow], numbers: list[int], slots: Slots | None = None
) -> list[StoredExperiment]:
    """Read these experiments with their arms and totals. `slots` records the totals, which the caller applies."""
    found = read_totals(connection, numbers)
    if slots is not None:
        slots.take(found)
    sums: dict[tuple[int, int, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in found:
        for place, number in enumerate(row[4:]):
            sums[row.experiment, row.arm, row.cell][place] += number
    cells: dict[tuple[int, int], list[CellTotal]] = defaultdict(list)
    for key, (pulls, total, read) in sorted(sums.items()):
        cells[key[:2]].append(CellTotal(*key, pulls, total, read))
    arms: dict[int, list[StoredArm]] = defaultdict(list)
    for experiment, number, name, retired in connection.execute(_ARMS, (numbers,)).fetchall():
        arms[experiment].append(StoredArm(name, retired, tuple(cells[experiment, number])))
    rows: list[Any] = connection.execute(_EXPERIMENTS, (numbers,)).fetchall()
    return [
        StoredExperiment(number, Definition(*definition), status, tuple(arms[number]), shipped)
        for number, status, shipped, *definition in rows
    ]
