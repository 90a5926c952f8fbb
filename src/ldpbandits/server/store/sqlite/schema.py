"""The schema of a SQLite database, as a list of named migrations. A released one is never edited: add another.

- A response is a permanent row of `responses`: experiment, arm, value, cell. No time, no address, no sender. Its key
  starts with the experiment, so that an export reads no other rows; a separate index would cost more.
- A used ticket is a row of `nonces` until it has expired: two hashes, as in `store.nonces`. The key starts with the
  hour, so that old rows are removed from the front of the table.
- `cells` holds each arm's tally, by cell, and its acceptances. A response, its nonce and the tally change in one
  transaction or not at all.
- `events` counts assigned arms, missing answers, rejected responses and the like. It may lag by a moment.
- `change_log` has a line for each change by an experimenter, written in the transaction of the change. It names an
  experiment, not its number: the line outlives the experiment. Verdicts and
  jumps of the traffic have lines, too.
- `webhook` is one row: a hash of the receiver's URL, the last line of the log sent, the end of the sender's lease.
- `keys` names by `role` a role that all share, or the holder of a key of its own, who is a row of `holders`.
- `key_uses` has the day of the last use of each holder and role, and no more exact time.
- `identity` is one row: random bytes that are part of the signature of this database's tickets.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from time import time
from typing import Any

from ldpbandits.errors import DatabaseError
from ldpbandits.server.store.nonces import hash_id, hash_response, rounded_expiry
from ldpbandits.server.store.sql import (
    Migrations,
    check_all_applied,
    check_columns,
    check_ours,
    group_columns,
    read_applied,
    unknown_schema,
)

MIGRATIONS: Migrations = (
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
    (
        "0006 nonces as hashes without a time, acceptances",
        (
            """
            CREATE TABLE new_nonces (
                expires_at INTEGER NOT NULL,
                id BLOB NOT NULL,
                experiment INTEGER NOT NULL,
                commitment BLOB,
                accepted INTEGER NOT NULL,
                PRIMARY KEY (expires_at, id)
            ) WITHOUT ROWID
            """,
            """
            INSERT INTO new_nonces
            SELECT rounded_expiry(expires_at), hash_id(nonce, expires_at), experiment,
                hash_response(nonce, value, cell), 0
            FROM nonces JOIN responses ON responses.id = nonces.response
            """,
            "DROP TABLE nonces",
            "ALTER TABLE new_nonces RENAME TO nonces",
            # Earlier, a ticket that was handed out counted as accepted.
            """
            INSERT INTO cells
            SELECT experiment, arm, -1, count, count, 0 FROM events WHERE kind = 'missing' AND count > 0
            """,
        ),
    ),
    (
        "0007 a log of changes",
        (
            """
            CREATE TABLE change_log (
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                at INTEGER NOT NULL,
                who TEXT NOT NULL,
                what TEXT NOT NULL,
                experiment TEXT,
                detail TEXT NOT NULL
            )
            """,
            "CREATE INDEX change_log_of_experiment ON change_log (experiment, id)",
        ),
    ),
    (
        "0008 holders of keys, days of use",
        (
            """
            CREATE TABLE holders (
                name TEXT PRIMARY KEY,
                role TEXT NOT NULL,
                experiments TEXT NOT NULL,
                added_at INTEGER NOT NULL
            ) WITHOUT ROWID
            """,
            "CREATE TABLE key_uses (name TEXT PRIMARY KEY, day INTEGER NOT NULL) WITHOUT ROWID",
        ),
    ),
    (
        "0009 metadata of experiments, moments of stops",
        (
            "ALTER TABLE experiments ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}'",
            "ALTER TABLE experiments ADD COLUMN stopped_at INTEGER",
        ),
    ),
    (
        "0010 webhooks",
        (
            "CREATE TABLE webhook (receiver TEXT PRIMARY KEY, sent INTEGER NOT NULL, lease INTEGER NOT NULL)",
            "INSERT INTO webhook VALUES ('', 0, 0)",
        ),
    ),
)


_FUNCTIONS = (rounded_expiry, hash_id, hash_response)
"""Python functions that migrations call by their names."""


def migrate(connection: sqlite3.Connection, migrations: Migrations = MIGRATIONS) -> None:
    """Apply the missing migrations, each in a transaction of its own."""
    check_tables(connection)
    _add_functions(connection)
    connection.execute("CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, applied_at INTEGER NOT NULL)")
    applied = read_applied(partial(_rows, connection), migrations)
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
    _check_schema(connection, migrations)


def _add_functions(connection: sqlite3.Connection) -> None:
    for function in _FUNCTIONS:
        connection.create_function(function.__name__, function.__code__.co_argcount, function, deterministic=True)


def check_current(connection: sqlite3.Connection) -> None:
    """Raise DatabaseError unless exactly the known migrations are applied, and the tables are theirs."""
    check_all_applied(partial(_rows, connection), MIGRATIONS)
    _check_schema(connection, MIGRATIONS)


def check_tables(connection: sqlite3.Connection, *, may_be_empty: bool = True) -> None:
    """Raise DatabaseError when the database is another program's; an empty one may become ours."""
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    if not tables and not may_be_empty:
        raise DatabaseError("the database is not an agent server's: it is empty")
    check_ours(tables)


def _check_schema(connection: sqlite3.Connection, migrations: Migrations) -> None:
    """Raise DatabaseError when the tables differ from these migrations', whatever the database says it has applied."""
    with closing(sqlite3.connect(":memory:")) as made:
        _add_functions(made)
        for _, statements in migrations:
            for statement in statements:
                made.execute(statement)
        check_columns(_columns(connection), _columns(made), may_have_more=False)


def _columns(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """Return the columns of each table, in order."""
    return group_columns(
        connection.execute(
            "SELECT t.name, c.name FROM sqlite_master AS t, pragma_table_info(t.name) AS c WHERE t.type = 'table'"
            " ORDER BY t.name, c.cid"
        )
    )


def _rows(connection: sqlite3.Connection, sql: str, values: Sequence[object] = ()) -> list[Any]:
    return connection.execute(sql, values).fetchall()
