"""The days of the table of nonces: made ahead, and dropped when no ticket of theirs can come any more."""

from collections.abc import Iterable

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from ldpbandits.server.store.postgres.schema import SETUP_LOCK

DAY_S = 86_400
RETENTION_S = DAY_S
"""A day is dropped so many seconds after its end: workers' clocks may differ, and the last one counts too."""


SET_LOCK_TIMEOUT = "SET LOCAL lock_timeout = '1s'"
"""Responses wait while we do: there will be another try."""


class Days:
    """Partitions of `width` seconds each. All is done under one lock, in transactions of the caller."""

    def __init__(self, width: int = DAY_S, kept: int = RETENTION_S) -> None:
        """Tests have shorter days."""
        self._width, self._kept = width, kept

    def make(self, connection: Connection[TupleRow], expiries: Iterable[int]) -> None:
        """Make the days of these expiries that are missing, but none that was dropped.

        A day is made beside the table and then attached: to make it as a part of the table at once would take a lock
        that excludes all others. A backup that reads the table for hours would hold it up, and it everybody who counts.
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
        """Drop the first day if it ended long enough ago; return the last second that is forgotten, if it did.

        The database's clock must agree: a worker whose clock is years ahead drops nothing.
        """
        connection.execute(SET_LOCK_TIMEOUT)  # whoever counts now goes first
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
    """Return the last second of which nonces may be gone."""
    ((before,),) = connection.execute("SELECT before FROM forgotten").fetchall()
    return int(before)


def _name(first: int) -> sql.Identifier:
    return sql.Identifier(f"nonces_{first}")
