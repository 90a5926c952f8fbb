"""What an experimenter changes in PostgreSQL. Each is a transaction of the caller, under the next version."""

from collections.abc import Sequence
from typing import TypeAlias

from psycopg import Connection
from psycopg.rows import TupleRow

from ldpbandits.server.store import DELETED, ERASED_ROWS, CellTotal, Definition, Status
from ldpbandits.server.store.postgres.schema import SLOTS

Place: TypeAlias = tuple[int, bytes, int]
"""How far a deletion has come: the key of the last nonce, which is an expiry and itself, and the last response.

Each piece goes on from there: a scan from the front would pass all rows that are deleted and not vacuumed yet.
"""

FIRST: Place = (-1, b"", 0)
_LAST_NONCE = ((1 << 63) - 1, b"")
"""A place after all nonces."""

_NEXT_NONCE = (
    "SELECT expires_at, nonce FROM nonces WHERE (expires_at, nonce) > (%s, %s)"
    " ORDER BY expires_at, nonce OFFSET %s LIMIT 1"
)
_ERASE_NONCES = (
    "DELETE FROM nonces WHERE experiment = %s AND (expires_at, nonce) > (%s, %s) AND (expires_at, nonce) <= (%s, %s)"
)
_NEXT_RESPONSE = "SELECT id FROM responses WHERE experiment = %s AND id > %s ORDER BY id OFFSET %s LIMIT 1"
_ERASE_RESPONSES = "DELETE FROM responses WHERE experiment = %s AND id > %s AND id <= %s"


def begin(connection: Connection[TupleRow], version: int, experiment: int | None, token: bytes) -> None:
    """Take a version. Whoever is first has it: the others wait for it to commit, and fail."""
    connection.execute("INSERT INTO changes VALUES (%s, %s, %s)", (version, experiment, token))


def is_made(connection: Connection[TupleRow], token: bytes) -> bool:
    """Tell whether a change was made whose answer was lost.

    Its transaction may still be under way: the lock waits for it. The update changes nothing but is a write: with a
    synchronous standby its commit, and so the answer, waits until the change is there, too.
    """
    connection.execute("LOCK TABLE changes IN SHARE ROW EXCLUSIVE MODE")
    return connection.execute("UPDATE changes SET token = token WHERE token = %s", (token,)).rowcount == 1


def create(
    connection: Connection[TupleRow],
    number: int,
    definition: Definition,
    arms: Sequence[str],
    known: Sequence[CellTotal],
) -> None:
    """Write an experiment, its arms and gates, and what is known beforehand as what the first slot has counted."""
    connection.execute(
        "INSERT INTO experiments OVERRIDING SYSTEM VALUE VALUES (%s, %s, %s, %s, %s, %s, %s, %s, 'running')",
        (
            number,
            definition.name,
            definition.curator,
            definition.rule,
            definition.settings,
            definition.ticket_lifetime,
            definition.default_reward,
            definition.created_at,
        ),
    )
    connection.cursor().executemany(
        "INSERT INTO arms VALUES (%s, %s, %s)", [(number, arm, name) for arm, name in enumerate(arms)]
    )
    connection.execute("INSERT INTO gates SELECT %s, generate_series(0, %s)", (number, SLOTS - 1))
    rows = [(number, 0, *cell[1:]) for cell in known]
    connection.cursor().executemany("INSERT INTO cells VALUES (%s, %s, %s, %s, %s, %s, %s)", rows)


def add_arm(connection: Connection[TupleRow], experiment: int, name: str) -> None:
    """Write an arm whose number is how many there are."""
    connection.execute(
        "INSERT INTO arms SELECT %(of)s, count(*), %(name)s FROM arms WHERE experiment = %(of)s",
        {"of": experiment, "name": name},
    )


def retire_arm(connection: Connection[TupleRow], experiment: int, arm: int) -> None:
    """Write that an arm is retired."""
    connection.execute("UPDATE arms SET retired = true WHERE experiment = %s AND number = %s", (experiment, arm))


def set_status(connection: Connection[TupleRow], experiment: int, status: Status, shipped: int | None) -> None:
    """Write the status. To close, wait for all who count now: once this has committed, nobody counts any more."""
    sql = "UPDATE experiments SET status = %s, shipped = %s WHERE id = %s"
    connection.execute(sql, (status, shipped, experiment))
    if status == "closed":
        _lock_gates(connection, experiment)
        connection.execute("UPDATE gates SET open = false WHERE experiment = %s", (experiment,))


def hide(connection: Connection[TupleRow], experiment: int) -> None:
    """Begin to delete an experiment: nobody finds it or counts for it any more, and its name is free."""
    set_status(connection, experiment, "closed", None)
    connection.execute("UPDATE experiments SET name = %s WHERE id = %s", (f"{DELETED}{experiment}", experiment))
    for table in ("cells", "events", "pending"):
        connection.execute(f"DELETE FROM {table} WHERE experiment = %s", (experiment,))  # noqa: S608 - ours


def hidden(connection: Connection[TupleRow]) -> list[int]:
    """Return the experiments of which a deletion has left something."""
    sql = "SELECT id FROM experiments WHERE name LIKE %s"
    return [number for (number,) in connection.execute(sql, (f"{DELETED}%",)).fetchall()]


def erase(connection: Connection[TupleRow], experiment: int, place: Place) -> Place | None:
    """Remove some of its nonces after this place, or some responses; return the place to go on from, if any.

    The vacuum of PostgreSQL writes over them later.
    """
    connection.execute("SET LOCAL enable_seqscan = off")  # it is guessed from expiries alone how many rows are between
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


def _lock_gates(connection: Connection[TupleRow], experiment: int) -> None:
    sql = "SELECT slot FROM gates WHERE experiment = %s ORDER BY slot FOR UPDATE"
    connection.execute(sql, (experiment,)).fetchall()


def rotate_key(connection: Connection[TupleRow], role: str, hashed: bytes, now: int, grace: int) -> None:
    """Cut short the keys of a role, remove all that have ended, and write the new one."""
    connection.execute("UPDATE keys SET valid_until = least(valid_until, %s) WHERE role = %s", (now + grace, role))
    connection.execute("DELETE FROM keys WHERE valid_until <= %s", (now,))
    connection.execute("INSERT INTO keys VALUES (%s, %s, NULL)", (hashed, role))


def rotate_secret(connection: Connection[TupleRow], secret: bytes, now: int, grace: int) -> None:
    """Cut short the secrets, remove all that have ended, and write the new one."""
    connection.execute("UPDATE secrets SET valid_until = least(valid_until, %s)", (now + grace,))
    connection.execute("DELETE FROM secrets WHERE valid_until <= %s", (now,))
    connection.execute("INSERT INTO secrets (secret) VALUES (%s)", (secret,))
