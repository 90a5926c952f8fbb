"""The shape of a PostgreSQL database, as a list of named steps. A step that has been released is never edited.

- `gates` has a row for each experiment and slot. A worker counts under its own slot, with the lock of that row; who
  closes an experiment takes all of them. So the status is looked at under a lock: read in the snapshot of the statement
  alone, an experiment that was closed meanwhile would still be counted for.
- `cells` holds the tallies by slot. A worker adds to its own slot, so that workers do not wait for each other, and the
  tally of an arm is the sum over slots.
- `nonces` is cut into days by expiry. A day that is over is dropped, which costs nothing; and a range that was dropped
  cannot be inserted into. There is no default partition, on purpose.
- `changes` has a row for each change by an experimenter, under the next version. Its key makes a change that was
  checked against an older version fail.
- `events` and `pending` hold, for each worker, what happened there in all. Written as absolute numbers, they may be
  written twice.
"""

import re
from collections.abc import Sequence
from itertools import chain

from psycopg import Connection
from psycopg.rows import TupleRow

from ldpbandits.errors import DatabaseError
from ldpbandits.server.store import listed, other_shape

SLOTS = 16
"""As many workers count without waiting for each other; more share slots, and are still right."""

SETUP_LOCK = 0x6C647062_00000001
"""Held, for a transaction or a session, by who sets something up: CREATE ... IF NOT EXISTS by eight at once fails."""

SLOT_LOCK = 0x6C647062
"""With the number of a slot: held by the session of the worker that has this slot."""

MIGRATIONS: Sequence[tuple[str, Sequence[str]]] = (
    (
        "0001 experiments, arms, gates, cells, responses, nonces, keys, workers",
        (
            """
            CREATE TABLE experiments (
                id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                name text NOT NULL CONSTRAINT name_taken UNIQUE,
                curator text NOT NULL,
                rule text NOT NULL,
                settings text NOT NULL,
                ticket_lifetime bigint NOT NULL,
                default_reward double precision NOT NULL,
                created_at bigint NOT NULL,
                status text NOT NULL CHECK (status IN ('running', 'paused', 'shipped', 'closed')),
                shipped integer
            )
            """,
            """
            CREATE TABLE arms (
                experiment integer NOT NULL REFERENCES experiments ON DELETE CASCADE,
                number integer NOT NULL,
                name text NOT NULL,
                retired boolean NOT NULL DEFAULT false,
                PRIMARY KEY (experiment, number),
                CONSTRAINT arm_taken UNIQUE (experiment, name)
            )
            """,
            """
            CREATE TABLE gates (
                experiment integer NOT NULL REFERENCES experiments ON DELETE CASCADE,
                slot smallint NOT NULL,
                open boolean NOT NULL DEFAULT true,
                PRIMARY KEY (experiment, slot)
            )
            """,
            # Half of a page is left free: a row that is updated a thousand times a second finds room beside itself.
            """
            CREATE TABLE cells (
                experiment integer NOT NULL,
                slot smallint NOT NULL,
                arm integer NOT NULL,
                cell integer NOT NULL,
                pulls bigint NOT NULL,
                total bigint NOT NULL,
                read bigint NOT NULL,
                PRIMARY KEY (experiment, slot, arm, cell),
                FOREIGN KEY (experiment, arm) REFERENCES arms ON DELETE CASCADE
            ) WITH (fillfactor = 50)
            """,
            "CREATE SEQUENCE response_numbers CACHE 1000",  # each worker takes a thousand: numbers have gaps
            """
            CREATE TABLE responses (
                id bigint NOT NULL DEFAULT nextval('response_numbers'),
                experiment integer NOT NULL,
                arm integer NOT NULL,
                cell integer NOT NULL,
                value bigint NOT NULL,
                PRIMARY KEY (experiment, id)
            )
            """,
            # `batch` tells a response that a repeated statement finds counted from one that somebody sent before.
            """
            CREATE TABLE nonces (
                expires_at bigint NOT NULL,
                value bigint NOT NULL,
                experiment integer NOT NULL,
                arm integer NOT NULL,
                cell integer NOT NULL,
                batch integer NOT NULL,
                nonce bytea NOT NULL,
                PRIMARY KEY (expires_at, nonce)
            ) PARTITION BY RANGE (expires_at)
            """,
            "CREATE TABLE days (first bigint PRIMARY KEY)",
            "CREATE TABLE forgotten (before bigint NOT NULL)",
            "INSERT INTO forgotten VALUES (0)",
            "CREATE TABLE identity (identity bytea NOT NULL)",
            "CREATE TABLE keys (hash bytea PRIMARY KEY, role text NOT NULL, valid_until bigint)",
            """
            CREATE TABLE secrets (
                id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                secret bytea NOT NULL,
                valid_until bigint
            )
            """,
            """
            CREATE TABLE changes (
                version bigint CONSTRAINT behind PRIMARY KEY,
                experiment integer,
                token bytea NOT NULL
            )
            """,
            "CREATE TABLE notes (name bytea PRIMARY KEY, note bytea NOT NULL, until bigint NOT NULL)",
            """
            CREATE TABLE workers (
                id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                version bigint NOT NULL,
                seen_at timestamptz NOT NULL DEFAULT clock_timestamp()
            )
            """,
            """
            CREATE TABLE events (
                experiment integer NOT NULL,
                worker integer NOT NULL,
                arm integer NOT NULL,
                kind text NOT NULL,
                count bigint NOT NULL,
                PRIMARY KEY (experiment, worker, arm, kind)
            ) WITH (fillfactor = 50)
            """,
            """
            CREATE TABLE pending (
                experiment integer NOT NULL,
                worker integer NOT NULL,
                arm integer NOT NULL,
                count bigint NOT NULL,
                until bigint NOT NULL,
                PRIMARY KEY (experiment, worker, arm)
            ) WITH (fillfactor = 50)
            """,
        ),
    ),
)


def migrate(connection: Connection[TupleRow], identity: bytes) -> None:
    """Apply the steps that the database has not seen, all in one transaction; a new one gets this identity."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (SETUP_LOCK,))
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
        tables = {name for (name,) in rows}
        if tables and "migrations" not in tables:
            raise DatabaseError(f"the database is not an agent server's: it has a table '{min(tables)}'")
        if not tables:
            connection.execute("CREATE TABLE migrations (name text PRIMARY KEY, applied_at timestamptz NOT NULL)")
        applied = _applied(connection)
        for name, statements in MIGRATIONS:
            if name not in applied:
                for statement in statements:
                    connection.execute(statement)
                connection.execute("INSERT INTO migrations VALUES (%s, now())", (name,))
        check_shape(connection)
        connection.execute("INSERT INTO identity SELECT %s WHERE NOT EXISTS (SELECT FROM identity)", (identity,))


def check_current(connection: Connection[TupleRow]) -> None:
    """Raise DatabaseError when the database has not seen exactly the steps that there are."""
    if len(_applied(connection)) < len(MIGRATIONS):
        raise DatabaseError("the database is from an older version: start the server on it once")
    check_shape(connection)


def check_shape(connection: Connection[TupleRow]) -> None:
    """Raise DatabaseError when a table lacks a column that the steps make, whatever steps it says it has seen."""
    sql = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()"
    found: dict[str, list[str]] = {}
    for table, column in connection.execute(f"{sql} ORDER BY ordinal_position").fetchall():
        found.setdefault(table, []).append(column)
    for table, columns in _made_columns().items():
        if not columns <= set(found.get(table, ())):
            told = f"{listed(found.get(table))}, not {listed(sorted(columns))}"
            raise other_shape(f"table {table} has the columns {told}")


def _made_columns() -> dict[str, set[str]]:
    """Return the columns of each table as the steps make them: the first word of each line of its definition."""
    made: dict[str, set[str]] = {}
    for statement in chain.from_iterable(statements for _, statements in MIGRATIONS):
        for table, definition in re.findall(r"CREATE TABLE (\w+) \((.*)\)", statement, re.DOTALL):
            made[table] = set(re.findall(r"(?:^|,)\s*([a-z_]+) ", definition))
        for table, column in re.findall(r"ALTER TABLE (\w+) ADD COLUMN (\w+)", statement):
            made.setdefault(table, set()).add(column)
    return made


def _applied(connection: Connection[TupleRow]) -> set[str]:
    """Return the steps that the database has seen; raise DatabaseError when there are any that we do not know."""
    applied = {name for (name,) in connection.execute("SELECT name FROM migrations").fetchall()}
    unknown = applied - {name for name, _ in MIGRATIONS}
    if unknown:
        raise DatabaseError(f"the database is from a newer version: it has seen '{min(unknown)}'")
    return applied
