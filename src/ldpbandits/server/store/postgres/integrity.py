"""Reads a PostgreSQL database for the integrity check, as one snapshot, while workers count or from a copy."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from ldpbandits.errors import DatabaseError
from ldpbandits.server.store import DELETED, CellTotal
from ldpbandits.server.store.integrity import Dump, NonceCount
from ldpbandits.server.store.postgres.connection import display_name, first_line, rows_of
from ldpbandits.server.store.postgres.schema import check_current
from ldpbandits.server.store.postgres.slots import Slots, read_experiments
from ldpbandits.server.store.sql import NONCE_COUNTS, NUMBERING_GAPS, find_missing_rows

_TALLIES = (
    "SELECT experiment, arm, cell, sum(pulls)::bigint, sum(total)::bigint, sum(read)::bigint FROM cells"
    " GROUP BY experiment, arm, cell"
)
_SHUT = (
    "SELECT id FROM experiments LEFT JOIN gates ON experiment = id"
    " GROUP BY id, status HAVING NOT coalesce(bool_and(open = (status <> 'closed')), false)"
)
_RESPONSES = (
    "SELECT experiment, id, arm, value, cell FROM responses WHERE experiment NOT IN"  # noqa: S608 - ours
    f" (SELECT id FROM experiments WHERE name LIKE '{DELETED}%')"
)
_AT_ONCE = 10_000


@contextmanager
def open_postgres_dump(url: str) -> Iterator[Dump]:
    """Yield the dump; raise DatabaseError when it cannot be read, or is not of this version."""
    try:
        with psycopg.connect(url) as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            check_current(connection)
            numbers = [number for (number,) in connection.execute("SELECT id FROM experiments").fetchall()]
            yield Dump(
                read_experiments(connection, numbers, Slots()),
                tallies=(CellTotal(*row) for row in connection.execute(_TALLIES).fetchall()),
                responses=_responses(connection),
                nonces=[NonceCount(*row) for row in connection.execute(NONCE_COUNTS).fetchall()],
                faults=_faults(connection),
            )
    except psycopg.Error as error:
        raise DatabaseError(f"the database {display_name(url)} cannot be read: {first_line(error)}") from None


def _responses(connection: Connection[TupleRow]) -> Iterator[Any]:
    """Yield the responses in chunks: there may be more than memory holds."""
    with connection.cursor(name="responses") as cursor:
        cursor.itersize = _AT_ONCE
        yield from cursor.execute(_RESPONSES)


def _faults(connection: Connection[TupleRow]) -> list[str]:
    """Check the invariants that the tables' own constraints cannot express."""
    faults = [
        f"experiment {experiment}: the numbers of its arms have gaps"
        for (experiment,) in connection.execute(NUMBERING_GAPS).fetchall()
    ]
    faults += [
        f"experiment {experiment}: its gates contradict its status"
        for (experiment,) in connection.execute(_SHUT).fetchall()
    ]
    return [*faults, *find_missing_rows(rows_of(connection))]
