"""A store for many workers: one PostgreSQL database, in which each response is counted exactly once.

Each worker has two connections: one that writes, used by the thread of its committer, and one by which it looks every
half second at what the others did, so that a commit that takes its time holds up no news. A third, once it is needed,
is for exports and the like, which take turns.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from os import urandom
from threading import Lock

import psycopg
from psycopg import Connection
from psycopg.errors import LockNotAvailable
from psycopg.rows import TupleRow

from ldpbandits.errors import DatabaseError
from ldpbandits.server.store import (
    Answer,
    CellTotal,
    Definition,
    Event,
    Mark,
    News,
    Outcome,
    Pending,
    Status,
    StoredExperiment,
    StoredKey,
    StoredResponse,
    StoredSecret,
    StoreSizes,
    Unavailable,
)
from ldpbandits.server.store.postgres import changes, peer_updates
from ldpbandits.server.store.postgres.connection import (
    Link,
    check_apart,
    check_server,
    errors_of_a_store,
    first_line,
    named,
)
from ldpbandits.server.store.postgres.nonces import DAY_S, Days, floor
from ldpbandits.server.store.postgres.poller import Looker
from ldpbandits.server.store.postgres.reading import read_experiments
from ldpbandits.server.store.postgres.retry import RETRY_DEADLINE_S, Counting
from ldpbandits.server.store.postgres.schema import SETUP_LOCK, migrate
from ldpbandits.server.store.postgres.slots import Slots

_log = logging.getLogger(__name__)

HEARTBEAT_TIMEOUT_S = 60.0
"""What a worker that was not seen for so many seconds has left behind is settled by another."""


def _pass(_: str) -> None:
    """Do nothing at a failpoint."""


class PostgresStore:
    """A `SharedStore`. Tests give a `failpoint` that is told where in a change the store is, and shorter days."""

    counting: type[Counting] = Counting
    """How it counts; tests have ways that are wrong."""

    def __init__(
        self,
        url: str,
        *,
        failpoint: Callable[[str], None] = _pass,
        patience: float = RETRY_DEADLINE_S,
        days: Days | None = None,
        ahead: int = 2,
    ) -> None:
        """Open the database, and set it up if it is empty; raise DatabaseError when it cannot be, or is not ours."""
        self.name = named(url)
        self._url, self._failpoint = url, failpoint
        self._days, self._ahead, self._slots = days or Days(), ahead, Slots()
        self._counting = self.counting(url, self._slots, self._days, failpoint, patience)
        self._writer = self._counting.link
        self._looker = Looker(url, self._slots, self._counting.note_under)
        self._reader, self._reading = Link(url), Lock()
        self._left: dict[int, changes.Place | None] = {}
        """Of experiments that are being deleted: how far that has come; None when nothing is left."""
        self.version = self.basis = 0
        try:
            connection = self._writer.connection()
            check_server(connection)
            check_apart(connection, self._looker.link.connection())
            migrate(connection, urandom(16))
            self._counting.forgotten = floor(connection)
            ((self.identity,),) = connection.execute("SELECT identity FROM identity").fetchall()
            self._looker.identity = self.identity
            ((self.version,),) = connection.execute("SELECT coalesce(max(version), 0) FROM changes").fetchall()
            self.basis = self.version
            self._counting.learn_experiments()
            self._looker.register(connection, self.version)
        except (psycopg.Error, Unavailable) as error:
            self.close()
            raise DatabaseError(f"the database {self.name} cannot be opened: {first_line(error)}") from None
        except BaseException:
            self.close()
            raise

    @property
    def worker(self) -> int:
        """The number under which this worker is listed."""
        return self._looker.account.worker

    @property
    def forgotten(self) -> int:
        """The last second of which nonces may be gone, as far as this worker knows; the days know it in any case."""
        return max(self._counting.forgotten, self._looker.forgotten)

    def check(self) -> None:
        """Write, and wait until it is durable."""
        with self._writer.transaction() as connection:
            connection.execute("UPDATE workers SET seen_at = seen_at WHERE id = %s", (self._counting.notes.worker,))

    def close(self) -> None:
        """Let go of the connections; nobody waits any more for this worker."""
        with suppress(psycopg.Error, Unavailable):
            if self._counting.notes.worker:
                peer_updates.leave(self._writer.connection(), self._counting.notes.worker)
        self._writer.close()
        self._looker.close()
        with self._reading:
            self._reader.close()

    # Reading

    def experiments(self) -> list[StoredExperiment]:
        """Read every experiment with its arms."""
        with errors_of_a_store():
            connection = self._writer.connection()
            numbers = [number for (number,) in connection.execute("SELECT id FROM experiments").fetchall()]
            return read_experiments(connection, numbers, self._slots)

    def events(self) -> list[Event]:
        """Add up what happened at all workers."""
        sql = "SELECT experiment, arm, kind, sum(count)::bigint FROM events GROUP BY experiment, arm, kind"
        return [Event(*row) for row in self._writer.rows(f"{sql} HAVING sum(count) <> 0")]

    def export(self, experiment: int, rows: int) -> Iterator[Sequence[StoredResponse]]:
        """Read piece by piece; a piece sees what was committed when it was asked for.

        All exports share a connection, in turns: however many there are, they do not use up those of the database.
        """
        last = 0
        sql = "SELECT id, arm, value, cell FROM responses WHERE experiment = %s AND id > %s ORDER BY id LIMIT %s"
        while True:
            with self._reading:
                piece = self._reader.rows(sql, (experiment, last, rows))
            if not piece:
                return
            last = piece[-1][0]
            yield [StoredResponse(*row) for row in piece]

    def sizes(self) -> StoreSizes:
        """Ask how large the database is; log and disk are those of its machine, which has ways of its own to tell."""
        with self._reading:
            ((size,),) = self._reader.rows("SELECT pg_database_size(current_database())")
        return StoreSizes(database=int(size))

    # Changes by experimenters

    @contextmanager
    def _change(self, experiment: int | None) -> Iterator[Connection[TupleRow]]:
        """Change something under the next version; raise `Behind` when others have changed something since.

        If the connection is lost while it commits, the change's token says whether it did.
        """
        token, is_ready = urandom(16), False
        try:
            with self._writer.transaction() as connection:
                changes.begin(connection, self.basis + 1, experiment, token)
                yield connection
                self._failpoint("before commit")
                is_ready = True
        except Unavailable:
            if not is_ready or not self._is_made(token):
                raise
        self.basis += 1

    def _is_made(self, token: bytes) -> bool:
        with self._writer.transaction() as connection:
            return changes.is_made(connection, token)

    def create(self, definition: Definition, arms: Sequence[str], known: Sequence[CellTotal] = ()) -> StoredExperiment:
        """Write the experiment and return it as it is read."""
        ((number,),) = self._writer.rows("SELECT nextval(pg_get_serial_sequence('experiments', 'id'))")
        with self._change(number) as connection:
            changes.create(connection, number, definition, arms, known)
            (made,) = read_experiments(connection, [number], self._slots)
        self._counting.last_experiment = max(self._counting.last_experiment, number)
        return made

    def add_arm(self, experiment: int, name: str) -> None:
        """Write an arm under the next number."""
        with self._change(experiment) as connection:
            changes.add_arm(connection, experiment, name)

    def retire_arm(self, experiment: int, arm: int) -> None:
        """Write that the arm is retired."""
        with self._change(experiment) as connection:
            changes.retire_arm(connection, experiment, arm)

    def set_status(self, experiment: int, status: Status, shipped: int | None = None) -> None:
        """Write the status; once a close returns, nobody counts any more."""
        with self._change(experiment) as connection:
            changes.set_status(connection, experiment, status, shipped)

    def delete(self, experiment: int) -> bool:
        """Remove its rows: the first call is a change that all workers take over, the others go on from there."""
        if experiment in self._left:
            return self._left[experiment] is not None and self._erase(experiment)
        with self._change(experiment) as connection:
            changes.hide(connection, experiment)
            place = changes.erase(connection, experiment, changes.FIRST)
        self._slots.forget(experiment)
        self._left[experiment] = place
        return place is not None

    def _erase(self, experiment: int) -> bool:
        """Remove some of what is left of an experiment; tell whether there is more."""
        with self._writer.transaction() as connection:
            place = changes.erase(connection, experiment, self._left.get(experiment) or changes.FIRST)
            self._failpoint("before commit")
        self._left[experiment] = place
        return place is not None

    # Counting

    def count(self, answers: Sequence[Answer], events: Sequence[Event] = ()) -> tuple[list[Outcome], list[CellTotal]]:
        """Count in one statement; while the outcome is not known, send the same again, until patience ends."""
        return self._counting.count(answers, events)

    def forget(self, now: int, most: int) -> int:  # noqa: ARG002 - a day goes at once, whatever is in it
        """Drop the first day, if it may be; make those to come. Go on with deletions, of workers that died as well."""
        with self._writer.transaction() as connection:
            left = changes.hidden(connection)
        if left:
            self._erase(left[0])
            return 1
        last = self._drop_first(now)
        if last is not None:
            self._counting.forgotten = last
            return 1
        if now <= self.forgotten:  # a clock that is not believed yet: its days would be those of 1970
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
                return None  # somebody reads it, as for a backup; there will be another try
            raise
        return last

    # Keys and secrets

    def keys(self) -> list[StoredKey]:
        """Read the hashes of all keys."""
        return [StoredKey(*row) for row in self._writer.rows("SELECT hash, role, valid_until FROM keys")]

    def rotate_key(self, role: str, hashed: bytes, now: int, grace: int) -> None:
        """Write a new key, and when those before it end."""
        with self._change(None) as connection:
            changes.rotate_key(connection, role, hashed, now, grace)

    def secrets(self) -> list[StoredSecret]:
        """Read all secrets."""
        return [StoredSecret(*row) for row in self._writer.rows("SELECT id, secret, valid_until FROM secrets")]

    def rotate_secret(self, secret: bytes, now: int, grace: int) -> None:
        """Write a new secret, and when those before it end."""
        with self._change(None) as connection:
            changes.rotate_secret(connection, secret, now, grace)

    def prune(self, now: int) -> None:
        """Remove the keys and secrets that have ended; who still knows them knows when they end."""
        with self._writer.transaction() as connection:
            connection.execute("DELETE FROM keys WHERE valid_until <= %s", (now,))
            connection.execute("DELETE FROM secrets WHERE valid_until <= %s", (now,))
            self._failpoint("before commit")

    # Other workers

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Be the only worker that starts: first keys are made once.

        The lock has a connection of its own, in whose transaction nothing else happens: whoever vanishes now does not
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

    def tell(self, pending: Sequence[Pending], events: Sequence[Event]) -> None:
        """Take note of it; it is written by the next look, and by the one after when that one fails."""
        self._looker.account.add(pending, events)

    def refresh(self, in_use: Collection[int], followed: Mapping[int, Mark]) -> News:
        """Say that this worker lives and what happened at it, and return what has changed since `version`."""
        return self._looker.refresh(self.version, set(in_use), followed)

    def knows(self, version: int) -> None:
        """Say that this worker has taken over this version."""
        self.version = max(self.version, version)
        self._looker.knows(self.version)

    def is_acknowledged(self, version: int) -> bool:
        """Tell whether all workers that hand out arms have taken over this version."""
        return self._looker.is_acknowledged(version)

    def put_note(self, name: bytes, note: bytes, until: int) -> None:
        """Write a note."""
        self._looker.put_note(name, note, until)

    def find_note(self, name: bytes) -> bytes | None:
        """Read a note."""
        return self._looker.find_note(name)

    def find_notes(self, start: bytes, now: int) -> dict[bytes, bytes]:
        """Read the notes whose names start so."""
        return self._looker.find_notes(start, now)

    def take_note(self, name: bytes) -> bytes | None:
        """Delete a note, and say what it was."""
        return self._looker.take_note(name)

    def settle(self, now: int, kind: str) -> None:
        """Settle what dead workers left: what was pending there and has expired counts as events of this kind."""
        with self._writer.transaction() as connection:
            peer_updates.settle(connection, now, kind, HEARTBEAT_TIMEOUT_S)
            connection.execute("DELETE FROM notes WHERE until <= %s", (now,))
