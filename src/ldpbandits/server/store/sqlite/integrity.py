"""Reads a SQLite database for the integrity check, as one snapshot, while its server runs or from a copy."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ldpbandits.errors import DatabaseError
from ldpbandits.server.store import DELETED, CellTotal, StoredExperiment
from ldpbandits.server.store.integrity import Dump, NonceCount
from ldpbandits.server.store.sql import NONCE_COUNTS, NUMBERING_GAPS, find_missing_rows, read_experiments
from ldpbandits.server.store.sqlite.file import open_read_only
from ldpbandits.server.store.sqlite.schema import check_current
from ldpbandits.server.store.sqlite.store import TOTALS

_BEING_DELETED = f"(SELECT id FROM experiments WHERE name LIKE '{DELETED}%')"  # noqa: S608 - ours
_RESPONSES = f"SELECT experiment, id, arm, value, cell FROM responses WHERE experiment NOT IN {_BEING_DELETED}"  # noqa: S608


@contextmanager
def open_sqlite_dump(path: Path) -> Iterator[Dump]:
    """Yield the dump; raise DatabaseError when the file is not a database of ours, of this version."""
    with closing(open_read_only(path)) as connection:
        try:
            connection.execute("BEGIN")  # all reads see one snapshot, whatever is counted meanwhile
            check_current(connection)
        except sqlite3.Error as error:
            raise DatabaseError(f"the database {path} cannot be read: {error}") from None
        reader = _Reader(connection)
        reader.check_file()
        yield Dump(
            reader.experiments(),
            tallies=(CellTotal(*row) for row in reader.rows("the tallies", TOTALS)),
            responses=reader.rows("the responses", _RESPONSES),
            nonces=[NonceCount(*row) for row in reader.rows("the nonces", NONCE_COUNTS)],
            faults=reader.faults,
        )


class _Reader:
    """Reads rows until an error, which it records as damage."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.faults: list[str] = []

    def rows(self, what: str, sql: str) -> Iterator[Any]:
        """Yield rows until one cannot be read."""
        try:
            yield from self._connection.execute(sql)
        except sqlite3.Error as error:
            self.faults.append(f"{what}: they cannot be read completely: {error}")

    def check_file(self) -> None:
        """Run SQLite's integrity check of every page, and check the invariants that its tables cannot express."""
        for (line,) in self.rows("the pages of the file", "PRAGMA integrity_check"):
            if line != "ok":
                self.faults.append(f"the file: {line}")
        for table, _, parent, _ in self.rows("the links between tables", "PRAGMA foreign_key_check"):
            self.faults.append(f"a row of {table}: it refers to a missing row of {parent}")
        for (experiment,) in self.rows("the arms", NUMBERING_GAPS):
            self.faults.append(f"experiment {experiment}: the numbers of its arms have gaps")
        self.faults += find_missing_rows(lambda sql, _=(): list(self.rows(f"the rows of {sql.split()[-1]}", sql)))

    def experiments(self) -> list[StoredExperiment]:
        """Return the experiments, or none when one of them cannot be read."""

        def rows(sql: str, values: Sequence[object] = ()) -> list[Any]:
            return self._connection.execute(sql, values).fetchall()

        try:
            return read_experiments(rows, [CellTotal(*row) for row in rows(f"{TOTALS} ORDER BY cell")])
        except sqlite3.Error as error:
            self.faults.append(f"the experiments cannot be read: {error}")
            return []
