"""Reads experiments from a SQLite database."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Protocol

from ldpbandits.server.store import DELETED, CellTotal, Definition, Status, StoredArm, StoredExperiment

_EXPERIMENTS = (
    "SELECT id, status, shipped, name, curator, rule, settings, ticket_lifetime, default_reward, created_at"
    " FROM experiments"
)
_ARMS = "SELECT name, retired FROM arms WHERE experiment = ? ORDER BY number"
CELLS = "SELECT experiment, arm, cell, pulls, total, read FROM cells WHERE experiment = ?"


class Rows(Protocol):
    """A function that returns all rows of a query."""

    def __call__(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """Run the query and return its rows."""


def read_experiments(rows: Rows) -> list[StoredExperiment]:
    """Read every experiment with its arms, in the order in which they were created."""
    found = rows(f"{_EXPERIMENTS} WHERE name NOT LIKE ? ORDER BY id", (f"{DELETED}%",))
    return [_experiment(rows, *row) for row in found]


def read_experiment(rows: Rows, number: int) -> StoredExperiment:
    """Read one experiment by its number."""
    (row,) = rows(f"{_EXPERIMENTS} WHERE id = ?", (number,))
    return _experiment(rows, *row)


def _experiment(
    rows: Rows,
    number: int,
    status: Status,
    shipped: int | None,
    *definition: Any,  # noqa: ANN401 - columns
) -> StoredExperiment:
    cells = defaultdict(list)
    for row in rows(f"{CELLS} ORDER BY cell", (number,)):
        cells[row[1]].append(CellTotal(*row))
    arms = enumerate(rows(_ARMS, (number,)))
    stored = tuple(StoredArm(name, bool(retired), tuple(cells[arm])) for arm, (name, retired) in arms)
    return StoredExperiment(number, Definition(*definition), status, stored, shipped)
