"""What workers on one PostgreSQL tell each other: that they live, what they know, what is pending at each."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from psycopg import Connection
from psycopg.rows import TupleRow

from ldpbandits.server.store import Event, Mark, News, Pending, Replaced
from ldpbandits.server.store.postgres.account import EventKey
from ldpbandits.server.store.postgres.connection import DURABLE
from ldpbandits.server.store.postgres.counting import NOTE, array, noted
from ldpbandits.server.store.postgres.nonces import SET_LOCK_TIMEOUT
from ldpbandits.server.store.postgres.reading import SINCE, read_experiments, read_totals
from ldpbandits.server.store.postgres.schema import SETUP_LOCK
from ldpbandits.server.store.postgres.slots import Slots

_EVENTS = "SELECT experiment, arm, kind, sum(count)::bigint FROM events{} GROUP BY experiment, arm, kind"
_PENDING = "SELECT experiment, arm, sum(count)::bigint, max(until) FROM pending{} GROUP BY experiment, arm"
_WHOLE = " WHERE experiment = ANY(%s) AND worker <> %s"
_OF_ARMS = (
    " JOIN unnest(%s::integer[], %s::integer[]) AS asked (experiment, arm) USING (experiment, arm) WHERE worker <> %s"
)
_CHANGED_ARMS = " UNION ".join(
    f"SELECT experiment, arm FROM {table} WHERE experiment = ANY(%s) AND worker <> %s AND {SINCE}"  # noqa: S608 - ours
    for table in ("events", "pending")
)
_MOMENT = "SELECT pg_snapshot_xmin(pg_current_snapshot())::xid::text"
_TELL_PENDING = (
    "INSERT INTO pending SELECT experiment, %s, arm, count, until"
    " FROM unnest(%s::integer[], %s::integer[], %s::bigint[], %s::bigint[]) AS told (experiment, arm, count, until)"
    " ON CONFLICT (experiment, worker, arm) DO UPDATE SET count = excluded.count, until = excluded.until"
)
_DEAD = (
    "SELECT id FROM workers WHERE seen_at < clock_timestamp() - make_interval(secs => %s)"
    " AND NOT EXISTS (SELECT FROM pending WHERE worker = id AND until > %s AND count <> 0)"
    # Whoever is about to say something is waited for, and then not dead; whoever comes later is not listed, and starts
    # anew.
    " FOR UPDATE"
)
_SETTLE = (
    "INSERT INTO events SELECT experiment, 0, arm, %s, sum(count) FROM pending WHERE worker = ANY(%s)"
    " GROUP BY experiment, arm HAVING sum(count) <> 0"
    " ON CONFLICT (experiment, worker, arm, kind) DO UPDATE SET count = events.count + excluded.count"
)
_KEEP = (
    "INSERT INTO events SELECT experiment, 0, arm, kind, sum(count) FROM events WHERE worker = ANY(%s)"
    " GROUP BY experiment, arm, kind"
    " ON CONFLICT (experiment, worker, arm, kind) DO UPDATE SET count = events.count + excluded.count"
)
_TIDY = (
    "DELETE FROM pending WHERE NOT EXISTS (SELECT FROM experiments WHERE id = experiment)",
    "DELETE FROM events WHERE experiment <> 0 AND NOT EXISTS (SELECT FROM experiments WHERE id = experiment)",
)


LEFT = "-infinity"
"""The sign of life of a worker that has stopped in order."""


def register(connection: Connection[TupleRow], version: int) -> int:
    """Add a worker that knows this version; return its number, which nobody else ever gets, also after a crash."""
    with connection.transaction():
        connection.execute("SET LOCAL synchronous_commit TO DEFAULT")
        connection.execute(DURABLE.format(is_local="true"))
        sql = "INSERT INTO workers (version) VALUES (%s) RETURNING id"
        ((worker,),) = connection.execute(sql, (version,)).fetchall()
    return int(worker)


def beat(connection: Connection[TupleRow], worker: int, version: int) -> bool:
    """Say that a worker lives and what it knows; False when it was taken for dead, and is not listed."""
    sql = "UPDATE workers SET seen_at = clock_timestamp(), version = %s WHERE id = %s"
    return connection.execute(sql, (version, worker)).rowcount == 1


def leave(connection: Connection[TupleRow], worker: int) -> None:
    """Say that a worker hands out no more arms: nobody waits for it."""
    connection.execute("UPDATE workers SET seen_at = %s WHERE id = %s", (LEFT, worker))


def tell(
    connection: Connection[TupleRow], worker: int, pending: Sequence[Pending], events: Mapping[EventKey, int]
) -> None:
    """Say what is pending at a worker and what has happened there; in one transaction, so that it adds up."""
    if pending:
        connection.execute(_TELL_PENDING, (worker, *map(array, zip(*pending, strict=True))))
    if events:
        connection.execute(NOTE, noted(worker, events))


def check_identity(connection: Connection[TupleRow], identity: bytes | None) -> None:
    """Raise `Replaced` when the database has another identity: tickets that this worker knows are not for it.

    Somebody has restored a backup while workers ran. Its changes may all be those that they have seen.
    """
    if connection.execute("SELECT identity FROM identity").fetchone() != (identity,):
        raise Replaced("the database is another one than this worker has begun with")


def last_change(connection: Connection[TupleRow], seen: tuple[int, bytes] | None) -> tuple[int, bytes] | None:
    """Return the last change, by version and token; raise `Replaced` when one that was seen is there no more.

    A standby that was promoted may lack the last changes, and a database that is restored has those of its day. Others
    then make other changes under the same versions, which this worker would take for known: a pause that all have
    acknowledged would not hold here.
    """
    sql = "SELECT version, token FROM changes WHERE version >= %s ORDER BY version"
    found = connection.execute(f"{sql} DESC LIMIT 1", (0,)).fetchone()
    if seen is not None and connection.execute(f"{sql} LIMIT 1", seen[:1]).fetchone() != seen:
        raise Replaced("the database has lost a change that this worker has seen, as one that went back in time")
    return found


class Asked(NamedTuple):
    """What a worker asks for when it looks."""

    worker: int
    version: int
    in_use: set[int]
    followed: set[int]
    """Of these it knows what there was at the moment `since`."""
    since: str | None


def read_news(connection: Connection[TupleRow], asked: Asked, slots: Slots, mark: Callable[[str], Mark]) -> News:
    """Read what other workers did, all as of one moment, of which the news has a mark.

    A moment is the number of the first transaction that had not ended yet: what all before it did was seen, and each
    row says by which it was written. So of thousands of arms those few are read that are other than at an earlier one.
    """
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        sql = "SELECT version, experiment FROM changes WHERE version > %s ORDER BY version"
        changes = connection.execute(sql, (asked.version,)).fetchall()
        numbers = sorted({number for _, number in changes if number is not None})
        changed = read_experiments(connection, numbers) if numbers else []
        followed = sorted(asked.in_use & asked.followed - {*numbers})
        whole = sorted(asked.in_use - {*followed})
        totals = read_totals(connection, sorted({*whole, *numbers}))
        events = connection.execute(_EVENTS.format(_WHOLE), (whole, asked.worker)).fetchall()
        pending = connection.execute(_PENDING.format(_WHOLE), (whole, asked.worker)).fetchall()
        arms: list[tuple[int, int]] = []
        if followed:
            values = (followed, asked.worker, asked.since)
            arms = connection.execute(_CHANGED_ARMS, values * 2).fetchall()
            totals += read_totals(connection, followed, asked.since)
        if arms:
            those = (*map(array, zip(*arms, strict=True)), asked.worker)
            events += connection.execute(_EVENTS.format(_OF_ARMS), those).fetchall()
            pending += connection.execute(_PENDING.format(_OF_ARMS), those).fetchall()
        ((moment,),) = connection.execute(_MOMENT).fetchall()
    return News(
        version=max([asked.version, *(change for change, _ in changes)]),
        experiments=dict.fromkeys(numbers) | {stored.number: stored for stored in changed},
        keys_changed=any(number is None for _, number in changes),
        totals=slots.take(totals),
        events=[Event(*row) for row in events],
        pending=[Pending(*row) for row in pending],
        whole=whole,
        arms=arms,
        mark=mark(moment),
    )


def settle(connection: Connection[TupleRow], now: int, kind: str, dead_after: float) -> None:
    """Settle what workers left that were not seen for so many seconds and of whose tickets none can come any more.

    What a worker has told of an experiment that was deleted meanwhile is removed, too.
    """
    connection.execute(SET_LOCK_TIMEOUT)
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (SETUP_LOCK,))
    dead = [worker for (worker,) in connection.execute(_DEAD, (dead_after, now)).fetchall()]
    if dead:
        connection.execute(_SETTLE, (kind, dead))
        connection.execute(_KEEP, (dead,))
        connection.execute("DELETE FROM pending WHERE worker = ANY(%s)", (dead,))
        connection.execute("DELETE FROM events WHERE worker = ANY(%s)", (dead,))
        connection.execute("DELETE FROM workers WHERE id = ANY(%s)", (dead,))
    for sql in _TIDY:
        connection.execute(sql)
