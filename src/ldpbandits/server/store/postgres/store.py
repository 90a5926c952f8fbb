"""A store for many workers: one PostgreSQL database, in which each response is counted exactly once.

Each worker has two connections: one that writes, used by the thread of its committer, and one that polls the updates of
other workers every half second, so that a slow commit delays no update. A third, opened when needed, is shared by
exports and sizes.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from os import urandom
from threading import Lock
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.errors import LockNotAvailable
from psycopg.rows import TupleRow

from ldpbandits.errors import DatabaseError
from ldpbandits.server.store import (
    ERASED_ROWS,
    Answer,
    CellTotal,
    Definition,
    Event,
    Mark,
    Outcome,
    PeerUpdates,
    Pending,
    Status,
    StoredExperiment,
    StoredResponse,
    StoreSizes,
    Unavailable,
)
from ldpbandits.server.store.postgres import changes, peer_updates
from ldpbandits.server.store.postgres.connection import (
    Link,
    check_server,
    check_sessions,
    display_name,
    execute,
    first_line,
    translate_errors,
)
from ldpbandits.server.store.postgres.nonces import DAY_S, Days, floor
from ldpbandits.server.store.postgres.poller import Poller
from ldpbandits.server.store.postgres.retry import RETRY_DEADLINE_S, Counting
from ldpbandits.server.store.postgres.schema import SETUP_LOCK, migrate
from ldpbandits.server.store.postgres.slots import Slots, read_experiments
from ldpbandits.server.store.sql import Execute, SqlStore, log_change, read_pages
from ldpbandits.spec.messages import Change

_log = logging.getLogger(__name__)

HEARTBEAT_TIMEOUT_S = 60.0
"""Seconds without a heartbeat after which another worker settles a worker's open tickets."""


def _pass(_: str) -> None:
    """Do nothing at a failpoint."""


class PostgresStore(SqlStore):
    """A `SharedStore`. Tests give a `failpoint`, which is called at named points of a change, and shorter days."""

    counting: type[Counting] = Counting
    """The class that counts; tests replace it with wrong ones."""

    def __init__(
        self,
        url: str,
        *,
        failpoint: Callable[[str], None] = _pass,
        patience: float = RETRY_DEADLINE_S,
        days: Days | None = None,
        ahead: int = 2,
    ) -> None:
        """Open the database, and create its tables if it is empty; raise DatabaseError if that fails."""
        self.name = display_name(url)
        self._url, self._failpoint = url, failpoint
        self._days, self._ahead, self._slots = days or Days(), ahead, Slots()
        self._counting = self.counting(url, self._slots, self._days, failpoint, patience)
        self._writer = self._counting.link
        self._poller = Poller(url, self._slots, self._counting.set_worker)
        self._reader, self._reading = Link(url), Lock()
        self._deletions: dict[int, changes.Place | None] = {}
        """The cursors of running deletions, by experiment; None when nothing is left."""
        self.version = self.basis = 0
        try:
            connection = self._writer.connection()
            check_server(connection)
            check_sessions(connection, self._poller.link.connection())
            migrate(connection, urandom(16))
            self._counting.forgotten = floor(connection)
            ((self.identity,),) = connection.execute("SELECT identity FROM identity").fetchall()
            self._poller.identity = self.identity
            ((self.version,),) = connection.execute("SELECT coalesce(max(version), 0) FROM changes").fetchall()
            self.basis = self.version
            self._counting.read_last_experiment()
            self._poller.register(connection, self.version)
        except (psycopg.Error, Unavailable) as error:
            self.close()
            raise DatabaseError(f"the database {self.name} cannot be opened: {first_line(error)}") from None
        except BaseException:
            self.close()
            raise

    @property
    def worker(self) -> int:
        """The number of this worker in the table of workers."""
        return self._poller.account.worker

    @property
    def forgotten(self) -> int:
        """The last second whose nonces may be deleted, as far as this worker knows; the partitions enforce it."""
        return max(self._counting.forgotten, self._poller.forgotten)

    def check(self) -> None:
        """Write a row unchanged, and wait until it is durable."""
        with self._writer.transaction() as connection:
            connection.execute("UPDATE workers SET seen_at = seen_at WHERE id = %s", (self._counting.notes.worker,))

    def close(self) -> None:
        """Close the connections; no change waits for this worker any more."""
        with suppress(psycopg.Error, Unavailable):
            if self._counting.notes.worker:
                peer_updates.leave(self._writer.connection(), self._counting.notes.worker)
        self._writer.close()
        self._poller.close()
        with self._reading:
            self._reader.close()

    # Reading

    def experiments(self) -> list[StoredExperiment]:
        """Read every experiment with its arms."""
        with translate_errors():
            connection = self._writer.connection()
            numbers = [number for (number,) in connection.execute("SELECT id FROM experiments").fetchall()]
            return read_experiments(connection, numbers, self._slots)

    def _rows(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        return self._writer.rows(sql.replace("?", "%s"), values)

    def _read(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """Return the rows of a query on the connection that exports and sizes share, one at a time."""
        with self._reading:
            return self._reader.rows(sql.replace("?", "%s"), values)

    def export(self, experiment: int, rows: int) -> Iterator[Sequence[StoredResponse]]:
        """Read in chunks; a chunk sees what was committed when it was requested.

        All exports take turns on one connection, so that many of them do not use up those of the database.
        """
        return read_pages(self._read, experiment, rows)

    def sizes(self) -> StoreSizes:
        """Return the size of the database; the machine that runs it reports its log and its disk."""
        ((size,),) = self._read("SELECT pg_database_size(current_database())")
        return StoreSizes(database=int(size))

    # Changes by experimenters

    @contextmanager
    def _transaction(self) -> Iterator[Execute]:
        with self._writer.transaction() as connection:
            yield partial(execute, connection)
            self._failpoint("before commit")

    @contextmanager
    def _change(self, experiment: int | None, log: Change | None) -> Iterator[Execute]:
        with self._versioned(experiment, log) as connection:
            yield partial(execute, connection)

    @contextmanager
    def _versioned(self, experiment: int | None, log: Change | None) -> Iterator[Connection[TupleRow]]:
        """Make and log a change under the next version; raise `Behind` when another worker has changed something since.

        If the connection is lost during the commit, the change's token shows whether it succeeded.
        """
        token, is_ready = urandom(16), False
        try:
            with self._writer.transaction() as connection:
                changes.claim_version(connection, self.basis + 1, experiment, token)
                yield connection
                log_change(partial(execute, connection), log)
                self._failpoint("before commit")
                is_ready = True
        except Unavailable:
            if not is_ready or not self._is_committed(token):
                raise
        self.basis += 1

    def _is_committed(self, token: bytes) -> bool:
        with self._writer.transaction() as connection:
            return changes.is_committed(connection, token)

    def create(
        self,
        definition: Definition,
        arms: Sequence[str],
        known: Sequence[CellTotal] = (),
        *,
        metadata: str = "{}",
        log: Change | None = None,
    ) -> StoredExperiment:
        """Insert the experiment and return it as it is read."""
        ((number,),) = self._writer.rows("SELECT nextval(pg_get_serial_sequence('experiments', 'id'))")
        with self._versioned(number, log) as connection:
            changes.create(connection, number, definition, arms, known, metadata=metadata)
            (made,) = read_experiments(connection, [number], self._slots)
        self._counting.last_experiment = max(self._counting.last_experiment, number)
        return made

    def set_status(
        self, experiment: int, status: Status, shipped: int | None = None, *, log: Change | None = None
    ) -> None:
        """Write the status; once a close returns, no worker counts any more."""
        with self._versioned(experiment, log) as connection:
            changes.set_status(connection, experiment, status, shipped, log)

    def add_events(self, experiment: int, events: Sequence[Event], *, log: Change | None = None) -> None:
        """Add to the counts that belong to no worker; all workers apply that as a change."""
        with self._versioned(experiment, log) as connection:
            changes.add_events(connection, events)

    def delete(self, experiment: int, *, log: Change | None = None) -> bool:
        """Delete its rows: the first call is a change that all workers apply, later calls continue from the cursor."""
        if experiment in self._deletions:
            return self._deletions[experiment] is not None and self._erase(experiment)
        with self._versioned(experiment, log) as connection:
            changes.hide(connection, experiment)
            place = changes.erase(connection, experiment, changes.FIRST)
        self._slots.forget(experiment)
        self._deletions[experiment] = place
        return place is not None

    def _erase(self, experiment: int) -> bool:
        """Delete some remaining rows of an experiment; return whether there are more."""
        with self._writer.transaction() as connection:
            place = changes.erase(connection, experiment, self._deletions.get(experiment) or changes.FIRST)
            self._failpoint("before commit")
        self._deletions[experiment] = place
        return place is not None

    def drop_responses(self, experiment: int) -> tuple[bool, list[CellTotal]]:
        """Delete some rows in one statement; two workers that do so at once delete different ones."""
        with self._writer.transaction() as connection:
            dropped, totals = changes.drop_responses(connection, experiment)
            self._failpoint("before commit")
        return dropped == ERASED_ROWS, self._slots.take(totals)

    # Counting

    def count(self, answers: Sequence[Answer], events: Sequence[Event] = ()) -> tuple[list[Outcome], list[CellTotal]]:
        """Count in one statement; while the outcome is unknown, retry the same batch until the deadline."""
        return self._counting.count(answers, events)

    def forget(self, now: int, most: int) -> int:  # noqa: ARG002 - a day goes at once, whatever is in it
        """Drop the first partition if it has expired; create the next ones. Continue unfinished deletions."""
        with self._writer.transaction() as connection:
            left = changes.list_hidden(connection)
        if left:
            self._erase(left[0])
            return 1
        last = self._drop_first(now)
        if last is not None:
            self._counting.forgotten = last
            return 1
        if now <= self.forgotten:  # the clock is not trusted yet: its days would be those of 1970
            return 0
        with self._writer.transaction() as connection:
            self._days.make(connection, [now + day * DAY_S for day in range(self._ahead)])
        return 0

    def _drop_first(self, now: int) -> int | None:
        try:
            with self._writer.transaction() as connection:
                last = self._days.drop_first(connection, now)
                self._failpoint("before commit")
        except Unavailable as error:
            if isinstance(error.__cause__, LockNotAvailable):
                return None  # a reader such as a backup has a lock; the next call retries
            raise
        return last

    # Other workers

    @contextmanager
    def startup_lock(self) -> Iterator[None]:
        """Let one worker start at a time, so that the first keys are created once.

        The lock has a connection of its own, whose transaction does nothing else: a worker that vanishes now does not
        keep the others from starting.
        """
        link = Link(self._url)
        try:
            with link.transaction() as connection:
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (SETUP_LOCK,))
                ((self.version,),) = self._writer.rows("SELECT coalesce(max(version), 0) FROM changes")
                self.basis = self.version
                yield
        finally:
            link.close()

    def queue_updates(self, pending: Sequence[Pending], events: Sequence[Event]) -> None:
        """Queue these updates; the next poll publishes them, and retries those of a failed one."""
        self._poller.account.add(pending, events)

    def refresh(self, in_use: Collection[int], followed: Mapping[int, Mark]) -> PeerUpdates:
        """Publish a heartbeat and this worker's updates, and return the changes since `version`."""
        return self._poller.refresh(self.version, set(in_use), followed)

    def acknowledge(self, version: int) -> None:
        """Publish that this worker has applied this version."""
        self.version = max(self.version, version)
        self._poller.acknowledge(self.version)

    def is_acknowledged(self, version: int) -> bool:
        """Tell whether all workers that assign arms have applied this version."""
        return self._poller.is_acknowledged(version)

    def put_note(self, name: bytes, note: bytes, until: int) -> None:
        """Write a note that all workers can read."""
        self._poller.put_note(name, note, until)

    def find_note(self, name: bytes) -> bytes | None:
        """Read the note of this name."""
        return self._poller.find_note(name)

    def find_notes(self, start: bytes, now: int) -> dict[bytes, bytes]:
        """Read the notes whose names begin with `start`."""
        return self._poller.find_notes(start, now)

    def take_note(self, name: bytes) -> bytes | None:
        """Delete the note of this name and return it."""
        return self._poller.take_note(name)

    def settle(self, now: int, missing: str, unaccepted: str) -> None:
        """Settle dead workers: their expired open tickets become events, of one kind if accepted, else of the other."""
        with self._writer.transaction() as connection:
            peer_updates.settle(connection, now, (missing, unaccepted), HEARTBEAT_TIMEOUT_S)
            connection.execute("DELETE FROM notes WHERE until <= %s", (now,))
