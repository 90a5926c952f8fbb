"""Changes by experimenters in PostgreSQL. Each is a transaction of the caller, under the next version."""

from collections.abc import Sequence
from dataclasses import astuple
from typing import TypeAlias

from psycopg import Connection
from psycopg.rows import TupleRow

from ldpbandits.server.store import DELETED, ERASED_ROWS, CellTotal, Definition, Event, Status, dropped_cell
from ldpbandits.server.store.postgres.connection import execute
from ldpbandits.server.store.postgres.schema import SLOTS
from ldpbandits.server.store.postgres.slots import SlotTotal
from ldpbandits.server.store.sql import SET_STATUS, status_row
from ldpbandits.spec.messages import Change

Place: TypeAlias = tuple[int, bytes, int]
"""The cursor of a deletion: the key of the last nonce (its expiry and itself), and the last response.

Each step continues there: a scan from the front would pass all rows that are deleted and not vacuumed yet.
"""

FIRST: Place = (-1, b"", 0)
_LAST_NONCE = ((1 << 63) - 1, b"")
"""A cursor after all nonces."""

_NEXT_NONCE = (
    "SELECT expires_at, id FROM nonces WHERE (expires_at, id) > (%s, %s) ORDER BY expires_at, id OFFSET %s LIMIT 1"
)
_ERASE_NONCES = (
    "DELETE FROM nonces WHERE experiment = %s AND (expires_at, id) > (%s, %s) AND (expires_at, id) <= (%s, %s)"
)
_NEXT_RESPONSE = "SELECT id FROM responses WHERE experiment = %s AND id > %s ORDER BY id OFFSET %s LIMIT 1"
_DROP = f"""
WITH gone AS (
    DELETE FROM responses WHERE experiment = %s AND id IN
    (SELECT id FROM responses WHERE experiment = %s ORDER BY id LIMIT {ERASED_ROWS} FOR UPDATE SKIP LOCKED)
    RETURNING experiment, arm, cell, value
),
added AS (
    INSERT INTO cells AS known (experiment, slot, arm, cell, pulls, total, read)
    SELECT experiment, 0, arm, {dropped_cell(0)} - cell, count(*), sum(value), 0 FROM gone
    GROUP BY experiment, arm, cell ORDER BY arm, cell
    ON CONFLICT (experiment, slot, arm, cell) DO UPDATE SET
        pulls = known.pulls + excluded.pulls, total = known.total + excluded.total
    RETURNING experiment, slot, arm, cell, pulls, total, read
)
SELECT (SELECT count(*) FROM gone), added.* FROM added
"""  # noqa: S608 - ours
_ADD_EVENT = (
    "INSERT INTO events (experiment, worker, arm, kind, count) VALUES (%s, 0, %s, %s, %s)"
    " ON CONFLICT (experiment, worker, arm, kind) DO UPDATE SET count = events.count + excluded.count"
)
_ERASE_RESPONSES = "DELETE FROM responses WHERE experiment = %s AND id > %s AND id <= %s"


def claim_version(connection: Connection[TupleRow], version: int, experiment: int | None, token: bytes) -> None:
    """Claim a version. The first claim wins: others wait for its commit, and fail."""
    connection.execute("INSERT INTO changes VALUES (%s, %s, %s)", (version, experiment, token))


def is_committed(connection: Connection[TupleRow], token: bytes) -> bool:
    """Tell whether a change was committed whose reply was lost.

    Its transaction may still run: the lock waits for it. The update changes nothing but is a write: with a synchronous
    standby its commit, and so the answer, waits until the standby has the change.
    """
    connection.execute("LOCK TABLE changes IN SHARE ROW EXCLUSIVE MODE")
    return connection.execute("UPDATE changes SET token = token WHERE token = %s", (token,)).rowcount == 1


def create(  # noqa: PLR0913 - what an experiment is made of
    connection: Connection[TupleRow],
    number: int,
    definition: Definition,
    arms: Sequence[str],
    known: Sequence[CellTotal],
    *,
    metadata: str,
) -> None:
    """Insert an experiment, its arms and gates, and the known totals as those of the first slot."""
    connection.execute(
        "INSERT INTO experiments OVERRIDING SYSTEM VALUE VALUES (%s, %s, %s, %s, %s, %s, %s, %s, 'running')",
        (number, *astuple(definition)),
    )
    connection.execute("UPDATE experiments SET metadata = %s WHERE id = %s", (metadata, number))
    connection.cursor().executemany(
        "INSERT INTO arms VALUES (%s, %s, %s)", [(number, arm, name) for arm, name in enumerate(arms)]
    )
    connection.execute("INSERT INTO gates SELECT %s, generate_series(0, %s)", (number, SLOTS - 1))
    rows = [(number, 0, *cell[1:]) for cell in known]
    connection.cursor().executemany("INSERT INTO cells VALUES (%s, %s, %s, %s, %s, %s, %s)", rows)


def set_status(
    connection: Connection[TupleRow], experiment: int, status: Status, shipped: int | None, log: Change | None = None
) -> None:
    """Write the status. A close waits for running counts: after its commit no worker counts any more."""
    execute(connection, SET_STATUS, status_row(experiment, status, shipped, log))
    if status == "closed":
        _lock_gates(connection, experiment)
        connection.execute("UPDATE gates SET open = false WHERE experiment = %s", (experiment,))


def add_events(connection: Connection[TupleRow], events: Sequence[Event]) -> None:
    """Add events under worker 0, which every worker reads."""
    connection.cursor().executemany(_ADD_EVENT, events)


def hide(connection: Connection[TupleRow], experiment: int) -> None:
    """Begin to delete an experiment: no worker finds it or counts for it any more, and its name is free."""
    set_status(connection, experiment, "closed", None)
    connection.execute("UPDATE experiments SET name = %s WHERE id = %s", (f"{DELETED}{experiment}", experiment))
    for table in ("cells", "events", "pending"):
        connection.execute(f"DELETE FROM {table} WHERE experiment = %s", (experiment,))  # noqa: S608 - ours


def list_hidden(connection: Connection[TupleRow]) -> list[int]:
    """Return the experiments whose deletion has not ended."""
    sql = "SELECT id FROM experiments WHERE name LIKE %s"
    return [number for (number,) in connection.execute(sql, (f"{DELETED}%",)).fetchall()]


def erase(connection: Connection[TupleRow], experiment: int, place: Place) -> Place | None:
    """Delete some of its nonces after this cursor, or some responses; return the next cursor, or None at the end.

    PostgreSQL's vacuum overwrites them later.
    """
    connection.execute("SET LOCAL enable_seqscan = off")  # the planner misjudges the rows between two expiries
    *nonce, response = place
    if tuple(nonce) != _LAST_NONCE:
        expiry, last_nonce = connection.execute(_NEXT_NONCE, (*nonce, ERASED_ROWS - 1)).fetchone() or _LAST_NONCE
        connection.execute(_ERASE_NONCES, (experiment, *nonce, expiry, last_nonce))
        if (expiry, last_nonce) != _LAST_NONCE:
            return expiry, last_nonce, 0
    row = connection.execute(_NEXT_RESPONSE, (experiment, response, ERASED_ROWS - 1)).fetchone()
    if row is not None:
        connection.execute(_ERASE_RESPONSES, (experiment, response, *row))
        return *_LAST_NONCE, row[0]
    connection.execute("DELETE FROM responses WHERE experiment = %s", (experiment,))
    connection.execute("DELETE FROM experiments WHERE id = %s", (experiment,))
    return None


def drop_responses(connection: Connection[TupleRow], experiment: int) -> tuple[int, list[SlotTotal]]:
    """Delete the first responses; return their number, and the new totals of the cells of what was dropped."""
    rows = connection.execute(_DROP, (experiment, experiment)).fetchall()
    return (rows[0][0] if rows else 0), [SlotTotal(*row[1:]) for row in rows]


def _lock_gates(connection: Connection[TupleRow], experiment: int) -> None:
    sql = "SELECT slot FROM gates WHERE experiment = %s ORDER BY slot FOR UPDATE"
    connection.execute(sql, (experiment,)).fetchall()
