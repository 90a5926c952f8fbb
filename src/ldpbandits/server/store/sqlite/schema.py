"""The schema of a SQLite database, as a list of named migrations. A released one is never edited: add another.

- A response is a permanent row of `responses`: experiment, arm, value, cell. No time, no address, no sender. Its key
  starts with the experiment, so that an export reads no other rows; a separate index would cost more.
- Its nonce is a row of `nonces` until its ticket has expired. The key starts with the expiry, so that new
  rows go to the end of the table and old ones are removed from its front.
- `cells` holds each arm's tally, by cell. A response, its nonce and the tally change in one transaction or not at all.
- `events` counts assigned arms, missing answers, rejected responses and the like. It may lag by a moment.
- `identity` is one row: random bytes that are part of the signature of this database's tickets.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from time import time

from ldpbandits.errors import DatabaseError
from ldpbandits.server.store import join_columns, unknown_schema

MIGRATIONS: Sequence[tuple[str, Sequence[str]]] = (
    (
        "0001 experiments, arms, responses, nonces, keys",
        (
            """
            CREATE TABLE experiments (
                id INTEGER PRIMARY KEY,
                name TEXT NOT NULL UNIQUE,
                curator TEXT NOT NULL,
                rule TEXT NOT NULL,
                ticket_lifetime INTEGER NOT NULL,
                default_reward REAL NOT NULL,
                status TEXT NOT NULL CHECK (status IN ('running', 'paused', 'closed')),
                created_at INTEGER NOT NULL
            )
            """,
            """
            CREATE TABLE arms (
                experiment INTEGER NOT NULL REFERENCES experiments (id),
                number INTEGER NOT NULL,
                name TEXT NOT NULL,
                retired INTEGER NOT NULL DEFAULT 0,
                pulls INTEGER NOT NULL DEFAULT 0,
                total INTEGER NOT NULL DEFAULT 0 CHECK (typeof(total) = 'integer'),
                PRIMARY KEY (experiment, number),
                UNIQUE (experiment, name)
            ) WITHOUT ROWID
            """,
            """
            CREATE TABLE responses (
                id INTEGER PRIMARY KEY,
                experiment INTEGER NOT NULL,
                arm INTEGER NOT NULL,
                value INTEGER NOT NULL
            )
            """,
            """
            CREATE TABLE nonces (
                expires_at INTEGER NOT NULL,
                nonce BLOB NOT NULL,
                response INTEGER NOT NULL,
                PRIMARY KEY (expires_at, nonce)
            ) WITHOUT ROWID
            """,
            "CREATE TABLE forgotten (before INTEGER NOT NULL)",
            "INSERT INTO forgotten VALUES (0)",
            "CREATE TABLE keys (hash BLOB PRIMARY KEY, role TEXT NOT NULL, valid_until INTEGER) WITHOUT ROWID",
            "CREATE TABLE secrets (id INTEGER PRIMARY KEY AUTOINCREMENT, secret BLOB NOT NULL, valid_until INTEGER)",
        ),
    ),
    (
        "0002 a tally for each kind of responses",
        (
            """
            CREATE TABLE cells (
                experiment INTEGER NOT NULL,
                arm INTEGER NOT NULL,
                cell INTEGER NOT NULL,
                pulls INTEGER NOT NULL,
                total INTEGER NOT NULL CHECK (typeof(total) = 'integer'),
                read INTEGER NOT NULL CHECK (typeof(read) = 'integer'),
                PRIMARY KEY (experiment, arm, cell),
                FOREIGN KEY (experiment, arm) REFERENCES arms (experiment, number)
            ) WITHOUT ROWID
            """,
            "INSERT INTO cells SELECT experiment, number, 0, pulls, total, 0 FROM arms WHERE pulls > 0",
            "ALTER TABLE arms DROP COLUMN pulls",
            "ALTER TABLE arms DROP COLUMN total",
            "ALTER TABLE responses ADD COLUMN cell INTEGER NOT NULL DEFAULT 0",
        ),
    ),
    (
        "0003 settings, shipped experiments, events",
        (
            # Tickets hold numbers of experiments: that of a deleted one must not be reused, hence AUTOINCREMENT.
            """
            CREATE TABLE new_experiments (
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                name TEXT NOT NULL UNIQUE,
                curator TEXT NOT NULL,
                rule TEXT NOT NULL,
                settings TEXT NOT NULL,
                ticket_lifetime INTEGER NOT NULL,
                default_reward REAL NOT NULL,
                status TEXT NOT NULL CHECK (status IN ('running', 'paused', 'shipped', 'closed')),
                shipped INTEGER,
                created_at INTEGER NOT NULL
            )
            """,
            """
            INSERT INTO new_experiments
            SELECT id, name, curator, rule, json_object('report_after', min(300, 0.9 * ticket_lifetime)),
                ticket_lifetime, default_reward, status, NULL, created_at
            FROM experiments
            """,
            "DROP TABLE experiments",
            "ALTER TABLE new_experiments RENAME TO experiments",
            """
            CREATE TABLE events (
                experiment INTEGER NOT NULL,
                arm INTEGER NOT NULL,
                kind TEXT NOT NULL,
                count INTEGER NOT NULL,
                PRIMARY KEY (experiment, arm, kind)
            ) WITHOUT ROWID
            """,
            # Earlier decisions were not counted: there was at least one for each response.
            "INSERT INTO events SELECT experiment, arm, 'decision', sum(pulls) FROM cells GROUP BY experiment, arm",
        ),
    ),
    (
        "0004 what tells this database from others",
        (
            "CREATE TABLE identity (value BLOB NOT NULL CHECK (length(value) = 16))",
            "INSERT INTO identity VALUES (randomblob(16))",
        ),
    ),
    (
        "0005 responses in the order of their experiments",
        (
            """
            CREATE TABLE new_responses (
                id INTEGER NOT NULL,
                experiment INTEGER NOT NULL,
                arm INTEGER NOT NULL,
                value INTEGER NOT NULL,
                cell INTEGER NOT NULL,
                PRIMARY KEY (experiment, id)
            ) WITHOUT ROWID
            """,
            "INSERT INTO new_responses SELECT id, experiment, arm, value, cell FROM responses",
            "DROP TABLE responses",
            "ALTER TABLE new_responses RENAME TO responses",
        ),
    ),
)


def migrate(connection: sqlite3.Connection, migrations: Sequence[tuple[str, Sequence[str]]] = MIGRATIONS) -> None:
    """Apply the missing migrations, each in a transaction of its own."""
    check_ours(connection)
    connection.execute("CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, applied_at INTEGER NOT NULL)")
    applied = {name for (name,) in connection.execute("SELECT name FROM migrations")}
    unknown = applied - {name for name, _ in migrations}
    if unknown:
        raise DatabaseError(f"the database is from a newer version: it has the migration '{min(unknown)}'")
    for name, statements in migrations:
        if name in applied:
            continue
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in statements:
                connection.execute(statement)
            connection.execute("INSERT INTO migrations VALUES (?, ?)", (name, int(time())))
        except BaseException as error:
            connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorname == "SQLITE_ERROR":
                raise unknown_schema(str(error)) from None  # the statement does not fit the tables; the disk works
            raise
        connection.execute("COMMIT")
    check_schema(connection, migrations)


def check_schema(connection: sqlite3.Connection, migrations: Sequence[tuple[str, Sequence[str]]] = MIGRATIONS) -> None:
    """Raise DatabaseError when the tables differ from these migrations', whatever the database says it has applied."""
    with closing(sqlite3.connect(":memory:")) as made:
        for _, statements in migrations:
            for statement in statements:
                made.execute(statement)
        due = _columns(made)
    found = _columns(connection)
    for table, columns in due.items():
        if found.get(table) != columns:
            raise unknown_schema(
                f"table {table} has the columns {join_columns(found.get(table))}, not {join_columns(columns)}"
            )


def _columns(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """Return the columns of each table, in order."""
    rows = connection.execute(
        "SELECT t.name, c.name FROM sqlite_master AS t, pragma_table_info(t.name) AS c WHERE t.type = 'table'"
        " ORDER BY t.name, c.cid"
    )
    columns: dict[str, list[str]] = {}
    for table, column in rows:
        columns.setdefault(table, []).append(column)
    return columns


def check_ours(connection: sqlite3.Connection, *, may_be_empty: bool = True) -> None:
    """Raise DatabaseError when the database is another program's; an empty one may become ours."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables and not may_be_empty:
        raise DatabaseError("the database is not an agent server's: it is empty")
    if tables and "migrations" not in tables:
        raise DatabaseError(f"the database is not an agent server's: it has a table '{min(tables)}'")


def check_current(connection: sqlite3.Connection) -> None:
    """Raise DatabaseError unless exactly the known migrations are applied."""
    applied = {name for (name,) in connection.execute("SELECT name FROM migrations")}
    known = {name for name, _ in MIGRATIONS}
    if applied - known:
        raise DatabaseError(f"the database is from a newer version: it has the migration '{min(applied - known)}'")
    if known - applied:
        raise DatabaseError("the database is from an older version: start the server on it once, or restore it")
    check_schema(connection)
