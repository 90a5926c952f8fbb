"""Updates that workers on one PostgreSQL database exchange: heartbeats, applied versions, events, open tickets."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from psycopg import Connection
from psycopg.rows import TupleRow

from ldpbandits.server.store import Event, Mark, PeerUpdates, Pending, Replaced
from ldpbandits.server.store.postgres.account import EventKey
from ldpbandits.server.store.postgres.connection import DURABLE
from ldpbandits.server.store.postgres.counting import NOTE, array, event_parameters
from ldpbandits.server.store.postgres.nonces import SET_LOCK_TIMEOUT
from ldpbandits.server.store.postgres.schema import SETUP_LOCK
from ldpbandits.server.store.postgres.slots import SINCE, Slots, read_experiments, read_totals

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
_PUBLISH_PENDING = (
    "INSERT INTO pending SELECT experiment, %s, arm, count, until, accepted"
    " FROM unnest(%s::integer[], %s::integer[], %s::bigint[], %s::bigint[], %s::bigint[])"
    " AS told (experiment, arm, count, until, accepted) ON CONFLICT (experiment, worker, arm)"
    " DO UPDATE SET count = excluded.count, until = excluded.until, accepted = excluded.accepted"
)
_DEAD = (
    "SELECT id FROM workers WHERE seen_at < clock_timestamp() - make_interval(secs => %s)"
    " AND NOT EXISTS (SELECT FROM pending WHERE worker = id AND until > %s AND (count, accepted) <> (0, 0))"
    # The lock waits for a worker that is sending a heartbeat, which is then not dead; a worker that comes later is not
    # listed, and registers again.
    " FOR UPDATE"
)
_SETTLE = (
    "INSERT INTO events SELECT experiment, 0, arm, kind, sum(number) FROM pending"
    " CROSS JOIN LATERAL (VALUES (%s, accepted), (%s, count - accepted)) AS gone (kind, number)"
    " WHERE worker = ANY(%s) GROUP BY experiment, arm, kind HAVING sum(number) <> 0"
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


STOPPED_AT = "-infinity"
"""The heartbeat of a worker that has stopped in order."""


def register(connection: Connection[TupleRow], version: int) -> int:
    """Register a worker that knows this version; return its number, which is unique even after a crash."""
    with connection.transaction():
        connection.execute("SET LOCAL synchronous_commit TO DEFAULT")
        connection.execute(DURABLE.format(is_local="true"))
        sql = "INSERT INTO workers (version) VALUES (%s) RETURNING id"
        ((worker,),) = connection.execute(sql, (version,)).fetchall()
    return int(worker)


def send_heartbeat(connection: Connection[TupleRow], worker: int, version: int) -> bool:
    """Write a worker's heartbeat and version; return False when it was taken for dead, and is not listed."""
    sql = "UPDATE workers SET seen_at = clock_timestamp(), version = %s WHERE id = %s"
    return connection.execute(sql, (version, worker)).rowcount == 1


def leave(connection: Connection[TupleRow], worker: int) -> None:
    """Publish that a worker assigns no more arms, so that no change waits for it."""
    connection.execute("UPDATE workers SET seen_at = %s WHERE id = %s", (STOPPED_AT, worker))


def publish(
    connection: Connection[TupleRow], worker: int, pending: Sequence[Pending], events: Mapping[EventKey, int]
) -> None:
    """Publish a worker's open tickets and events; in one transaction, so that the totals agree."""
    if pending:
        connection.execute(_PUBLISH_PENDING, (worker, *map(array, zip(*pending, strict=True))))
    if events:
        connection.execute(NOTE, event_parameters(worker, events))


def check_identity(connection: Connection[TupleRow], identity: bytes | None) -> None:
    """Raise `Replaced` when the database has another identity: its tickets are not those that this worker knows.

    This happens when a backup is restored while workers run. Its versions may all be known to them.
    """
    if connection.execute("SELECT identity FROM identity").fetchone() != (identity,):
        raise Replaced("the database was replaced while this worker ran")


def last_change(connection: Connection[TupleRow], seen: tuple[int, bytes] | None) -> tuple[int, bytes] | None:
    """Return the last change, by version and token; raise `Replaced` when a change that was seen is missing.

    A promoted standby may lack the last changes, and a restored database has those of its day. Other workers then make
    other changes under the same versions, which this worker would take for known: a pause that all have acknowledged
    would not hold here.
    """
    sql = "SELECT version, token FROM changes WHERE version >= %s ORDER BY version"
    found = connection.execute(f"{sql} DESC LIMIT 1", (0,)).fetchone()
    if seen is not None and connection.execute(f"{sql} LIMIT 1", seen[:1]).fetchone() != seen:
        raise Replaced("the database lost a change that this worker has seen, as after a restore or a failover")
    return found


class PollRequest(NamedTuple):
    """The request of a poll: the experiments in use, and which of them are known up to a snapshot."""

    worker: int
    version: int
    in_use: set[int]
    followed: set[int]
    """The experiments whose state at the snapshot `since` is known."""
    since: str | None


def read_peer_updates(
    connection: Connection[TupleRow], request: PollRequest, slots: Slots, mark: Callable[[str], Mark]
) -> PeerUpdates:
    """Read the updates of other workers in one snapshot, whose mark the result has.

    A snapshot is named by its first running transaction: it sees all transactions before that one, and each row has
    the transaction that wrote it (xmin). Only arms that were written later are read, a few of thousands.
    """
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        sql = "SELECT version, experiment FROM changes WHERE version > %s ORDER BY version"
        changes = connection.execute(sql, (request.version,)).fetchall()
        numbers = sorted({number for _, number in changes if number is not None})
        changed = read_experiments(connection, numbers) if numbers else []
        followed = sorted(request.in_use & request.followed - {*numbers})
        whole = sorted(request.in_use - {*followed})
        totals = read_totals(connection, sorted({*whole, *numbers}))
        events = connection.execute(_EVENTS.format(_WHOLE), (whole, request.worker)).fetchall()
        pending = connection.execute(_PENDING.format(_WHOLE), (whole, request.worker)).fetchall()
        arms: list[tuple[int, int]] = []
        if followed:
            values = (followed, request.worker, request.since)
            arms = connection.execute(_CHANGED_ARMS, values * 2).fetchall()
            totals += read_totals(connection, followed, request.since)
        if arms:
            those = (*map(array, zip(*arms, strict=True)), request.worker)
            events += connection.execute(_EVENTS.format(_OF_ARMS), those).fetchall()
            pending += connection.execute(_PENDING.format(_OF_ARMS), those).fetchall()
        ((moment,),) = connection.execute(_MOMENT).fetchall()
    return PeerUpdates(
        version=max([request.version, *(change for change, _ in changes)]),
        experiments=dict.fromkeys(numbers) | {stored.number: stored for stored in changed},
        keys_changed=any(number is None for _, number in changes),
        totals=slots.take(totals),
        events=[Event(*row) for row in events],
        pending=[Pending(*row) for row in pending],
        whole=whole,
        arms=arms,
        mark=mark(moment),
    )


def settle(connection: Connection[TupleRow], now: int, kinds: tuple[str, str], dead_after: float) -> None:
    """Settle workers without a heartbeat for `dead_after` seconds whose tickets have all expired.

    `kinds` are those of the events of accepted tickets and of others. Updates of experiments that were deleted
    meanwhile are removed, too.
    """
    connection.execute(SET_LOCK_TIMEOUT)
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (SETUP_LOCK,))
    dead = [worker for (worker,) in connection.execute(_DEAD, (dead_after, now)).fetchall()]
    if dead:
        connection.execute(_SETTLE, (*kinds, dead))
        connection.execute(_KEEP, (dead,))
        connection.execute("DELETE FROM pending WHERE worker = ANY(%s)", (dead,))
        connection.execute("DELETE FROM events WHERE worker = ANY(%s)", (dead,))
        connection.execute("DELETE FROM workers WHERE id = ANY(%s)", (dead,))
    for sql in _TIDY:
        connection.execute(sql)
