"""The schema of a PostgreSQL database, as a list of named migrations. A released migration is never edited.

- `gates` has a row for each experiment and slot. A worker counts under its own slot, with the lock of that row; closing
  an experiment locks all of them. So the status is read under a lock: read in the snapshot of the statement alone, an
  experiment that was closed meanwhile would still count responses.
- `cells` holds the tallies by slot. A worker adds to its own slot, so that workers do not wait for each other, and the
  tally of an arm is the sum over slots.
- `nonces` is partitioned into days by expiry. Dropping an expired day is cheap, and a dropped range accepts no rows.
  There is no default partition, on purpose.
- `changes` has a row for each change by an experimenter, under the next version. Its key makes a change that was
  checked against an older version fail.
- `events` and `pending` hold the totals of each worker as absolute values, so that writing them is idempotent.
"""

import re
from collections.abc import Sequence
from itertools import chain

from psycopg import Connection
from psycopg.rows import TupleRow

from ldpbandits.errors import DatabaseError
from ldpbandits.server.store import join_columns, unknown_schema

SLOTS = 16
"""Workers that count without waiting for each other; more workers share slots, and count correctly."""

SETUP_LOCK = 0x6C647062_00000001
"""Advisory lock of every set-up, for a transaction or a session: concurrent CREATE ... IF NOT EXISTS fail."""

SLOT_LOCK = 0x6C647062
"""Advisory lock, with the number of a slot, of the session of the worker that leases this slot."""

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
            # Half of each page is left free for the new versions of rows that are updated a thousand times a second.
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
            "CREATE SEQUENCE response_numbers CACHE 1000",  # each worker caches a thousand: numbers have gaps
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
            # `batch` distinguishes a response that a retried statement has counted from one that was sent before.
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
    """Apply the missing migrations in one transaction; a new database gets this identity."""
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
        check_schema(connection)
        connection.execute("INSERT INTO identity SELECT %s WHERE NOT EXISTS (SELECT FROM identity)", (identity,))


def check_current(connection: Connection[TupleRow]) -> None:
    """Raise DatabaseError unless exactly the known migrations are applied."""
    if len(_applied(connection)) < len(MIGRATIONS):
        raise DatabaseError("the database is from an older version: start the server on it once")
    check_schema(connection)


def check_schema(connection: Connection[TupleRow]) -> None:
    """Raise DatabaseError when a table lacks a column of the migrations, whatever the database says it has applied."""
    sql = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()"
    found: dict[str, list[str]] = {}
    for table, column in connection.execute(f"{sql} ORDER BY ordinal_position").fetchall():
        found.setdefault(table, []).append(column)
    for table, columns in _made_columns().items():
        if not columns <= set(found.get(table, ())):
            told = f"{join_columns(found.get(table))}, not {join_columns(sorted(columns))}"
            raise unknown_schema(f"table {table} has the columns {told}")


def _made_columns() -> dict[str, set[str]]:
    """Return the columns of each table by the migrations: the first word of each line of its definition."""
    made: dict[str, set[str]] = {}
    for statement in chain.from_iterable(statements for _, statements in MIGRATIONS):
        for table, definition in re.findall(r"CREATE TABLE (\w+) \((.*)\)", statement, re.DOTALL):
            made[table] = set(re.findall(r"(?:^|,)\s*([a-z_]+) ", definition))
        for table, column in re.findall(r"ALTER TABLE (\w+) ADD COLUMN (\w+)", statement):
            made.setdefault(table, set()).add(column)
    return made


def _applied(connection: Connection[TupleRow]) -> set[str]:
    """Return the applied migrations; raise DatabaseError when one of them is unknown."""
    applied = {name for (name,) in connection.execute("SELECT name FROM migrations").fetchall()}
    unknown = applied - {name for name, _ in MIGRATIONS}
    if unknown:
        raise DatabaseError(f"the database is from a newer version: it has the migration '{min(unknown)}'")
    return applied
