"""How a worker looks at what the others do, on a connection of its own, and says what happened at itself."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from ldpbandits.server.process.clock import elapsed
from ldpbandits.server.store import FRESH_FOR_S, Mark, News, Pending
from ldpbandits.server.store.postgres import peer_updates
from ldpbandits.server.store.postgres.account import Account
from ldpbandits.server.store.postgres.connection import LOST, Link, errors_of_a_store
from ldpbandits.server.store.postgres.nonces import floor
from ldpbandits.server.store.postgres.slots import Slots

ACKNOWLEDGE_GRACE_S = 1.0
"""A worker counts as alive for this long after `FRESH_FOR_S`: a crash of the database may lose its last heartbeats."""

_WORKERS = "SELECT id, version, seen_at::text FROM workers"


class Looker:
    """The part of a store that another thread uses than the one that writes."""

    def __init__(self, url: str, slots: Slots, on_new_number: Callable[[int], None]) -> None:
        """Look there; `on_new_number` is told the number under which this worker is listed from now on."""
        self.account = Account()
        self.forgotten = 0
        """The last second of which nonces may be gone, as the last look has found it."""
        self.identity: bytes | None = None
        """That of the database, as it was when this worker began."""
        self.link = Link(url, self._prepare)
        self._slots = slots
        self._on_new_number = on_new_number
        self._settled: list[Pending] | None = None
        self._seen: tuple[int, bytes] | None = None
        """The last change that was seen, and its token."""
        self._signs: dict[int, tuple[str, float]] = {}
        """The last sign of life of each worker, and when it was first seen, by a clock that nobody sets."""
        self._era = self._looks = 0

    def _prepare(self, connection: Connection[TupleRow]) -> None:
        connection.execute("SET statement_timeout = '5s'")
        connection.execute("SET synchronous_commit = off")  # a sign of life need not outlive the database
        self.account.tell_all_again()  # and so the rest, too, may be lost in a crash, which ends all connections
        self._era += 1  # the same: numbers of transactions that are lost are given again

    def register(self, connection: Connection[TupleRow], version: int) -> list[Pending]:
        """Be one of the workers, under a new number; return what was pending under the one before."""
        worker = peer_updates.register(connection, version)
        settled = self.account.settle(worker)
        self._on_new_number(worker)
        return settled

    def close(self) -> None:
        """Let go of the connection."""
        self.link.close()

    def refresh(self, version: int, in_use: set[int], followed: Mapping[int, Mark]) -> News:
        """Say that this worker lives and what happened at it, then return what has changed since this version.

        It says so *before* it looks. Whoever changes something afterwards waits for this worker; and what was changed
        before, it sees. The other way round, it could take an old state for fresh while nobody waits for it.
        """
        with errors_of_a_store():
            try:
                return self._refresh(self.link.connection(), version, in_use, followed)
            except LOST:
                self.link.close()
                raise

    def _refresh(
        self, connection: Connection[TupleRow], version: int, in_use: set[int], followed: Mapping[int, Mark]
    ) -> News:
        while not self._tell(connection, version):
            self._settled = self.register(connection, version)
            self._era += 1  # what we have told is that of another worker now
        self.forgotten = floor(connection)
        peer_updates.check_identity(connection, self.identity)
        self._seen = peer_updates.last_change(connection, self._seen)
        self._alive(connection.execute(_WORKERS).fetchall())
        marks = {number: mark for number, mark in followed.items() if mark.era == self._era}
        since = min(marks.values()).place if marks else None  # some is read again that is known: that does no harm
        asked = peer_updates.Asked(self.account.worker, version, in_use, set(marks), since)
        self._looks += 1
        found = peer_updates.read_news(connection, asked, self._slots, partial(Mark, self._era, self._looks))
        for number, stored in found.experiments.items():
            if stored is None:
                self._slots.forget(number)
                self.account.forget(number)
        settled, self._settled = self._settled, None  # only now: an error above must not lose it
        return replace(found, given_up=settled)

    def _tell(self, connection: Connection[TupleRow], version: int) -> bool:
        """Say that this worker lives, and what is new of it; False when the others took it for dead."""
        pending, events = self.account.untold()
        with connection.transaction():
            if not peer_updates.beat(connection, self.account.worker, version):
                return False
            peer_updates.tell(connection, self.account.worker, pending, events)
        self.account.told(pending, events)
        return True

    def knows(self, version: int) -> None:
        """Say that this worker has taken over this version."""
        with errors_of_a_store():
            peer_updates.beat(self.link.connection(), self.account.worker, version)

    def is_acknowledged(self, version: int) -> bool:
        """Tell whether every worker knows this version, but for those that hand out no arms until they look again."""
        rows = self.link.rows(_WORKERS)
        versions = {worker: known for worker, known, _ in rows}
        return all(versions.get(worker, -1) >= version for worker in self._alive(rows))

    def _alive(self, rows: list[Any]) -> set[int]:
        """Return who has given a new sign of life of late.

        How long ago that was our own clock tells: the database's may be set, or be another one's after a standby took
        over. Who was listed and is not any more was taken for dead, perhaps by such a clock, and will come back.
        """
        now, before = elapsed(), self._signs
        listed = {
            worker: before[worker] if before.get(worker, ("",))[0] == sign else (sign, now) for worker, _, sign in rows
        }
        signs = before | listed
        alive = {
            worker
            for worker, (sign, since) in signs.items()
            if sign != peer_updates.LEFT and since + FRESH_FOR_S + ACKNOWLEDGE_GRACE_S >= now
        }
        self._signs = {worker: sign for worker, sign in signs.items() if worker in listed or worker in alive}
        return alive

    def put_note(self, name: bytes, note: bytes, until: int) -> None:
        """Write a note, in place of one of this name."""
        sql = (
            "INSERT INTO notes VALUES (%s, %s, %s)"
            " ON CONFLICT (name) DO UPDATE SET note = excluded.note, until = excluded.until RETURNING 1"
        )
        self.link.rows(sql, (name, note, until))

    def find_note(self, name: bytes) -> bytes | None:
        """Read a note."""
        rows = self.link.rows("SELECT note FROM notes WHERE name = %s", (name,))
        return rows[0][0] if rows else None

    def find_notes(self, start: bytes, now: int) -> dict[bytes, bytes]:
        """Read the notes whose names start so and that have not ended."""
        sql = "SELECT name, note FROM notes WHERE starts_with(encode(name, 'hex'), %s) AND until > %s"
        return dict(self.link.rows(sql, (start.hex(), now)))

    def take_note(self, name: bytes) -> bytes | None:
        """Delete a note, and say what it was."""
        rows = self.link.rows("DELETE FROM notes WHERE name = %s RETURNING note", (name,))
        return rows[0][0] if rows else None
