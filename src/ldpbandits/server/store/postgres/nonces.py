"""Daily partitions of the table of nonces: created ahead, and dropped when their tickets have expired."""

from collections.abc import Iterable

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from ldpbandits.server.store.postgres.schema import SETUP_LOCK

DAY_S = 86_400
RETENTION_S = DAY_S
"""Seconds from the end of a day until its partition is dropped: workers' clocks may differ, and the last one counts."""


SET_LOCK_TIMEOUT = "SET LOCAL lock_timeout = '1s'"
"""Responses wait while this statement waits for its lock; it fails instead, and is retried later."""


class Days:
    """Partitions of `width` seconds each. The caller's transaction takes one lock for every change of them."""

    def __init__(self, width: int = DAY_S, kept: int = RETENTION_S) -> None:
        """Set the width and the retention; tests have shorter days."""
        self._width, self._kept = width, kept

    def make(self, connection: Connection[TupleRow], expiries: Iterable[int]) -> None:
        """Create the missing partitions of these expiries, but none that was dropped.

        A partition is created beside the table and then attached: to create it as a part of the table would take an
        exclusive lock. A backup that reads the table for hours would block that lock, and the lock every count.
        """
        connection.execute(SET_LOCK_TIMEOUT)
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (SETUP_LOCK,))
        known = {first for (first,) in connection.execute("SELECT first FROM days").fetchall()}
        forgotten = floor(connection)
        wanted = {second - second % self._width for second in expiries}
        for first in sorted(first for first in wanted - known if first + self._width - 1 > forgotten):
            name, last = _name(first), first + self._width
            connection.execute(sql.SQL("CREATE TABLE {} (LIKE nonces INCLUDING ALL)").format(name))
            connection.execute(
                sql.SQL("ALTER TABLE nonces ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})").format(
                    name, sql.Literal(first), sql.Literal(last)
                )
            )
            connection.execute("INSERT INTO days VALUES (%s)", (first,))

    def drop_first(self, connection: Connection[TupleRow], now: int) -> int | None:
        """Drop the first day if it ended `RETENTION_S` ago; return the last forgotten second, or None.

        The database's clock must agree: a worker whose clock is years ahead drops nothing.
        """
        connection.execute(SET_LOCK_TIMEOUT)  # running counts go first
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (SETUP_LOCK,))
        row = connection.execute(
            "SELECT min(first) FROM days HAVING min(first) <= least(%s, extract(epoch FROM clock_timestamp())) - %s",
            (now, self._width - 1 + self._kept),
        ).fetchone()
        if row is None:
            return None
        (first,) = row
        last = first + self._width - 1
        connection.execute(sql.SQL("DROP TABLE {}").format(_name(first)))
        connection.execute("DELETE FROM days WHERE first = %s", (first,))
        connection.execute("UPDATE forgotten SET before = greatest(before, %s)", (last,))
        return int(last)


def floor(connection: Connection[TupleRow]) -> int:
    """Return the last second whose nonces may be deleted."""
    ((before,),) = connection.execute("SELECT before FROM forgotten").fetchall()
    return int(before)


def _name(first: int) -> sql.Identifier:
    return sql.Identifier(f"nonces_{first}")
