"""The schema of a PostgreSQL database, as a list of named migrations. A released migration is never edited.

- `gates` has a row for each experiment and slot. A worker counts under its own slot, with the lock of that row; closing
  an experiment locks all of them. The status is read under this lock: read in the snapshot of the statement alone, an
  experiment that was closed meanwhile would still count responses.
- `cells` holds the tallies by slot. A worker adds to its own slot, so that workers do not wait for each other, and the
  tally of an arm is the sum over slots.
- `nonces` holds used tickets as two hashes, as in `store.nonces`. It is partitioned into days by expiry. Dropping an
  expired day is cheap, and a dropped range accepts no rows. There is no default partition, on purpose.
- `changes` has a row for each change by an experimenter, under the next version. Its key makes a change that was
  checked against an older version fail.
- `change_log` has a line for each change by an experimenter, written in the transaction of the change. It names an
  experiment, not its number: the line outlives the experiment. Verdicts and
  jumps of the traffic have lines, too.
- `webhook` is one row: a hash of the receiver's URL, the last line of the log sent, the end of the sender's lease.
- `keys` names by `role` a role that all share, or the holder of a key of its own, who is a row of `holders`.
- `key_uses` has the day of the last use of each holder and role, and no more exact time.
- `events` and `pending` hold the totals of each worker as absolute values, so that writing them is idempotent.
"""

import re
from itertools import chain

from psycopg import Connection
from psycopg.rows import TupleRow

from ldpbandits.server.store.postgres.connection import rows_of
from ldpbandits.server.store.sql import (
    Migrations,
    check_all_applied,
    check_columns,
    check_ours,
    group_columns,
    read_applied,
)

SLOTS = 16
"""Workers that count without waiting for each other; more workers share slots, and count correctly."""

SETUP_LOCK = 0x6C647062_00000001
"""Advisory lock of every set-up, for a transaction or a session: concurrent CREATE ... IF NOT EXISTS fail."""

SLOT_LOCK = 0x6C647062
"""Advisory lock, with the number of a slot, of the session of the worker that leases this slot."""

MIGRATIONS: Migrations = (
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
    (
        "0002 nonces as hashes without a time, acceptances",
        (
            "CREATE TEMPORARY TABLE old_nonces ON COMMIT DROP AS SELECT * FROM nonces",
            "DROP TABLE nonces",
            """
            CREATE TABLE nonces (
                expires_at bigint NOT NULL,
                id bytea NOT NULL,
                experiment integer NOT NULL,
                batch integer NOT NULL,
                accepted boolean NOT NULL,
                commitment bytea,
                PRIMARY KEY (expires_at, id)
            ) PARTITION BY RANGE (expires_at)
            """,
            # The last tickets of a day are kept with those of the next day's first second.
            """
            INSERT INTO days SELECT DISTINCT rounded - rounded % 86400
            FROM (SELECT (expires_at + 3599) / 3600 * 3600 AS rounded FROM old_nonces) AS tickets
            ON CONFLICT DO NOTHING
            """,
            """
            DO $$
            DECLARE start bigint;
            BEGIN
                FOR start IN SELECT first FROM days LOOP
                    EXECUTE format(
                        'CREATE TABLE nonces_%s PARTITION OF nonces FOR VALUES FROM (%s) TO (%s)',
                        start, start, start + 86400
                    );
                END LOOP;
            END $$
            """,
            """
            INSERT INTO nonces (expires_at, id, experiment, batch, accepted, commitment)
            SELECT (expires_at + 3599) / 3600 * 3600,
                substring(sha256(nonce || convert_to(expires_at::text, 'UTF8')) FOR 16), experiment, batch, false,
                substring(sha256(nonce || convert_to(value || ' ' || cell, 'UTF8')) FOR 16)
            FROM old_nonces
            """,
            "ALTER TABLE pending ADD COLUMN accepted bigint NOT NULL DEFAULT 0",
            # Earlier, a ticket that was handed out counted as accepted.
            """
            INSERT INTO cells
            SELECT experiment, 0, arm, -1, sum(count), sum(count), 0 FROM events
            WHERE kind = 'missing' GROUP BY experiment, arm HAVING sum(count) > 0
            """,
        ),
    ),
    (
        "0003 a log of changes",
        (
            """
            CREATE TABLE change_log (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                at bigint NOT NULL,
                who text NOT NULL,
                what text NOT NULL,
                experiment text,
                detail text NOT NULL
            )
            """,
            "CREATE INDEX change_log_of_experiment ON change_log (experiment, id)",
        ),
    ),
    (
        "0004 holders of keys, days of use",
        (
            """
            CREATE TABLE holders (
                name text PRIMARY KEY,
                role text NOT NULL,
                experiments text NOT NULL,
                added_at bigint NOT NULL
            )
            """,
            "CREATE TABLE key_uses (name text PRIMARY KEY, day bigint NOT NULL)",
        ),
    ),
    (
        "0005 metadata of experiments, moments of stops",
        (
            "ALTER TABLE experiments ADD COLUMN metadata text NOT NULL DEFAULT '{}'",
            "ALTER TABLE experiments ADD COLUMN stopped_at bigint",
        ),
    ),
    (
        "0006 webhooks",
        (
            "CREATE TABLE webhook (receiver text PRIMARY KEY, sent bigint NOT NULL, lease bigint NOT NULL)",
            "INSERT INTO webhook VALUES ('', 0, 0)",
        ),
    ),
)


def migrate(connection: Connection[TupleRow], identity: bytes) -> None:
    """Apply the missing migrations in one transaction; a new database gets this identity."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (SETUP_LOCK,))
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
        tables = [name for (name,) in rows]
        check_ours(tables)
        if not tables:
            connection.execute("CREATE TABLE migrations (name text PRIMARY KEY, applied_at timestamptz NOT NULL)")
        applied = read_applied(rows_of(connection), MIGRATIONS)
        for name, statements in MIGRATIONS:
            if name not in applied:
                for statement in statements:
                    connection.execute(statement)
                connection.execute("INSERT INTO migrations VALUES (%s, now())", (name,))
        _check_schema(connection)
        connection.execute("INSERT INTO identity SELECT %s WHERE NOT EXISTS (SELECT FROM identity)", (identity,))


def check_current(connection: Connection[TupleRow]) -> None:
    """Raise DatabaseError unless exactly the known migrations are applied, and the tables have their columns."""
    check_all_applied(rows_of(connection), MIGRATIONS)
    _check_schema(connection)


def _check_schema(connection: Connection[TupleRow]) -> None:
    """Raise DatabaseError when a table lacks a column of the migrations, whatever the database says it has applied."""
    sql = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()"
    found = group_columns(rows_of(connection)(f"{sql} ORDER BY ordinal_position"))
    check_columns(found, _made_columns(), may_have_more=True)


def _made_columns() -> dict[str, list[str]]:
    """Return the columns of each table by the migrations: the first word of each line of its definition."""
    made: dict[str, list[str]] = {}
    for statement in chain.from_iterable(statements for _, statements in MIGRATIONS):
        for table, definition in re.findall(r"CREATE TABLE (\w+) \((.*)\)", statement, re.DOTALL):
            made[table] = sorted(set(re.findall(r"(?:^|,)\s*([a-z_]+) ", definition)))
        for table, column in re.findall(r"ALTER TABLE (\w+) ADD COLUMN (\w+)", statement):
            made.setdefault(table, []).append(column)
    return made
