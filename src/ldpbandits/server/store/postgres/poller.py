"""Polls the updates of other workers and publishes this worker's own, on a connection of its own."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from ldpbandits.server.process.clock import elapsed
from ldpbandits.server.store import FRESH_FOR_S, Mark, PeerUpdates, Pending
from ldpbandits.server.store.postgres import peer_updates
from ldpbandits.server.store.postgres.account import Account
from ldpbandits.server.store.postgres.connection import LOST, Link, translate_errors
from ldpbandits.server.store.postgres.nonces import floor
from ldpbandits.server.store.postgres.slots import Slots

ACKNOWLEDGE_GRACE_S = 1.0
"""A worker counts as alive for this long after `FRESH_FOR_S`: a crash of the database may lose its last heartbeats."""

_WORKERS = "SELECT id, version, seen_at::text FROM workers"


class Poller:
    """The part of a store that the polling thread uses, beside the thread that writes."""

    def __init__(self, url: str, slots: Slots, on_new_number: Callable[[int], None]) -> None:
        """Poll this database; call `on_new_number` with each new number of this worker."""
        self.account = Account()
        self.forgotten = 0
        """The last second whose nonces may be deleted, as of the last poll."""
        self.identity: bytes | None = None
        """The identity of the database when this worker started."""
        self.link = Link(url, self._prepare)
        self._slots = slots
        self._on_new_number = on_new_number
        self._settled_tickets: list[Pending] | None = None
        self._last_change: tuple[int, bytes] | None = None
        """The version of the last change that was seen, and its token."""
        self._heartbeats: dict[int, tuple[str, float]] = {}
        """The last heartbeat of each worker, and when it was first seen by the monotonic clock."""
        self._epoch = self._polls = 0

    def _prepare(self, connection: Connection[TupleRow]) -> None:
        connection.execute("SET statement_timeout = '5s'")
        connection.execute("SET synchronous_commit = off")  # a heartbeat need not survive a crash of the database
        self.account.republish_all()  # the other updates may be lost in a crash, too, which ends all connections
        self._epoch += 1  # after a crash, numbers of lost transactions are assigned again

    def register(self, connection: Connection[TupleRow], version: int) -> list[Pending]:
        """Register this worker under a new number; return the open tickets of the one before."""
        worker = peer_updates.register(connection, version)
        settled = self.account.settle(worker)
        self._on_new_number(worker)
        return settled

    def close(self) -> None:
        """Close the connection of the poll."""
        self.link.close()

    def refresh(self, version: int, in_use: set[int], followed: Mapping[int, Mark]) -> PeerUpdates:
        """Publish a heartbeat and this worker's updates, then return the changes since this version.

        The heartbeat comes *before* the read. A later change waits for this worker, and the read sees an earlier one.
        The other way round, the worker could take an old state for fresh while no change waits for it.
        """
        with translate_errors():
            try:
                return self._refresh(self.link.connection(), version, in_use, followed)
            except LOST:
                self.link.close()
                raise

    def _refresh(
        self, connection: Connection[TupleRow], version: int, in_use: set[int], followed: Mapping[int, Mark]
    ) -> PeerUpdates:
        while not self._publish(connection, version):
            self._settled_tickets = self.register(connection, version)
            self._epoch += 1  # the updates published so far belong to another number now
        self.forgotten = floor(connection)
        peer_updates.check_identity(connection, self.identity)
        self._last_change = peer_updates.last_change(connection, self._last_change)
        self._live_workers(connection.execute(_WORKERS).fetchall())
        marks = {number: mark for number, mark in followed.items() if mark.epoch == self._epoch}
        since = min(marks.values()).snapshot if marks else None  # reading some known rows again does no harm
        request = peer_updates.PollRequest(self.account.worker, version, in_use, set(marks), since)
        self._polls += 1
        updates = peer_updates.read_peer_updates(
            connection, request, self._slots, partial(Mark, self._epoch, self._polls)
        )
        for number, stored in updates.experiments.items():
            if stored is None:
                self._slots.forget(number)
                self.account.forget(number)
        settled, self._settled_tickets = self._settled_tickets, None  # only now: an error above must not lose it
        return replace(updates, settled=settled)

    def _publish(self, connection: Connection[TupleRow], version: int) -> bool:
        """Publish a heartbeat and the unpublished updates; return False when the peers took this worker for dead."""
        pending, events = self.account.list_unpublished()
        with connection.transaction():
            if not peer_updates.send_heartbeat(connection, self.account.worker, version):
                return False
            peer_updates.publish(connection, self.account.worker, pending, events)
        self.account.mark_published(pending, events)
        return True

    def acknowledge(self, version: int) -> None:
        """Publish that this worker has applied this version."""
        with translate_errors():
            peer_updates.send_heartbeat(self.link.connection(), self.account.worker, version)

    def is_acknowledged(self, version: int) -> bool:
        """Tell whether every worker that may assign arms before its next poll has applied this version."""
        rows = self.link.rows(_WORKERS)
        versions = {worker: known for worker, known, _ in rows}
        return all(versions.get(worker, -1) >= version for worker in self._live_workers(rows))

    def _live_workers(self, rows: list[Any]) -> set[int]:
        """Return the workers whose heartbeat changed recently.

        Our own monotonic clock measures its age: the database's clock may be set, or change with a failover. A worker
        that is no longer listed was taken for dead, perhaps by such a clock, and will register again.
        """
        now, before = elapsed(), self._heartbeats
        listed = {
            worker: before[worker] if before.get(worker, ("",))[0] == sign else (sign, now) for worker, _, sign in rows
        }
        signs = before | listed
        alive = {
            worker
            for worker, (sign, since) in signs.items()
            if sign != peer_updates.STOPPED_AT and since + FRESH_FOR_S + ACKNOWLEDGE_GRACE_S >= now
        }
        self._heartbeats = {worker: sign for worker, sign in signs.items() if worker in listed or worker in alive}
        return alive

    def put_note(self, name: bytes, note: bytes, until: int) -> None:
        """Write a note, and replace one of the same name."""
        sql = (
            "INSERT INTO notes VALUES (%s, %s, %s)"
            " ON CONFLICT (name) DO UPDATE SET note = excluded.note, until = excluded.until RETURNING 1"
        )
        self.link.rows(sql, (name, note, until))

    def find_note(self, name: bytes) -> bytes | None:
        """Read the note of this name."""
        rows = self.link.rows("SELECT note FROM notes WHERE name = %s", (name,))
        return rows[0][0] if rows else None

    def find_notes(self, start: bytes, now: int) -> dict[bytes, bytes]:
        """Read the notes whose names begin with `start` and that have not expired."""
        sql = "SELECT name, note FROM notes WHERE starts_with(encode(name, 'hex'), %s) AND until > %s"
        return dict(self.link.rows(sql, (start.hex(), now)))

    def take_note(self, name: bytes) -> bytes | None:
        """Delete the note of this name and return it."""
        rows = self.link.rows("DELETE FROM notes WHERE name = %s RETURNING note", (name,))
        return rows[0][0] if rows else None
