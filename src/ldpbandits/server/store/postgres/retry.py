"""Retries a batch whose outcome is unknown; counting is idempotent, so each response counts once."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from os import urandom
from time import monotonic, sleep
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.errors import CheckViolation
from psycopg.rows import TupleRow

from ldpbandits.server.store import Answer, CellTotal, Event, Outcome, Unavailable
from ldpbandits.server.store.nonces import rounded_expiry
from ldpbandits.server.store.postgres.account import EventKey
from ldpbandits.server.store.postgres.connection import LOST, Link, first_line
from ldpbandits.server.store.postgres.counting import (
    COUNT,
    COUNT_AND_NOTE,
    NOTE,
    Batch,
    event_parameters,
    find_used,
)
from ldpbandits.server.store.postgres.nonces import Days, floor
from ldpbandits.server.store.postgres.schema import SLOT_LOCK, SLOTS
from ldpbandits.server.store.postgres.slots import Slots, SlotTotal, read_totals

RETRY_DEADLINE_S = 8.0
"""Seconds for which a batch is retried while the database cannot be reached, as during a failover."""

FIRST_RETRY_DELAY_S, LONGEST_RETRY_DELAY_S = 0.02, 0.5


@dataclass
class Notes:
    """The event totals that the counting thread has written under a worker's number."""

    worker: int
    written: Counter[EventKey] = field(default_factory=Counter)


class Counting:
    """The part of a store that counts responses, on the connection that writes."""

    def __init__(self, url: str, slots: Slots, days: Days, failpoint: Callable[[str], None], patience: float) -> None:
        """Count into a slot that this worker leases; `slots` receives the new totals."""
        self.link, self.slot, self._slots = Link(url, self._lease), 0, slots
        self._days, self._failpoint, self._patience = days, failpoint, patience
        self.forgotten = self.last_experiment = 0
        """The last second whose nonces may be deleted, and the number of the last experiment, as far as known."""
        self.notes = Notes(0)
        self._unwritten: Counter[EventKey] = Counter()
        """Events that are not written yet: the peers took this worker for dead, and it has not registered again."""
        self._failed = False

    def _lease(self, connection: Connection[TupleRow]) -> None:
        """Lease a free slot for the duration of this session; if none is free, share one."""
        for slot in range(SLOTS):
            ((is_ours,),) = connection.execute("SELECT pg_try_advisory_lock(%s, %s)", (SLOT_LOCK, slot)).fetchall()
            if is_ours:
                self.slot = slot
                return
        self.slot = urandom(1)[0] % SLOTS

    def set_worker(self, worker: int) -> None:
        """Write events under a new number of this worker from now on."""
        self.notes = Notes(worker)

    def read_last_experiment(self) -> None:
        """Read the number of the last experiment."""
        ((last,),) = self.link.rows("SELECT coalesce(max(id), 0) FROM experiments")
        self.last_experiment = max(self.last_experiment, last)

    def count(self, answers: Sequence[Answer], events: Sequence[Event] = ()) -> tuple[list[Outcome], list[CellTotal]]:
        """Count in one statement; while the outcome is unknown, retry the same batch until the deadline."""
        if answers and max(answer.ticket.experiment for answer in answers) > self.last_experiment:
            self._check_experiments(answers)
        notes, times = self.notes, Counter(self._unwritten)
        times.update({event[:3]: event.times for event in events})
        happened = {key: notes.written[key] + count for key, count in times.items()}
        batch = Batch(answers, self.forgotten)
        give_up = monotonic() + (0 if self._failed else self._patience)
        pause, self._failed = FIRST_RETRY_DELAY_S, True
        while True:
            try:
                result, are_noted = self._try_to_count(batch, notes.worker, happened)
                break
            except CheckViolation:
                batch = self._create_days(batch, answers, give_up)
            except LOST as error:
                self.link.close()
                if monotonic() + pause >= give_up:
                    raise Unavailable(first_line(error)) from error
                sleep(pause)
                pause = min(2 * pause, LONGEST_RETRY_DELAY_S)
            except psycopg.Error as error:
                self._failed = False  # the database answers: it refuses this batch only
                raise Unavailable(first_line(error)) from error
        self._failed = False
        if are_noted:
            notes.written.update(times)
        self._unwritten = Counter() if are_noted else times
        return result

    def _check_experiments(self, answers: Sequence[Answer]) -> None:
        """Raise when the experiment of a response never existed; another worker may have created it."""
        self.read_last_experiment()
        for answer in answers:
            if answer.ticket.experiment > self.last_experiment:
                raise Unavailable(f"experiment {answer.ticket.experiment} does not exist")

    def _create_days(self, batch: Batch, answers: Sequence[Answer], give_up: float) -> Batch:
        """Create the partitions that a batch needs, and leave out tickets whose partitions were dropped."""
        while True:
            try:
                with self.link.transaction() as connection:
                    self._days.make(connection, [rounded_expiry(answer.ticket.expires_at) for answer in batch.given])
                    self.forgotten = floor(connection)
                break
            except Unavailable:  # another worker creates partitions, or the database is away
                if monotonic() >= give_up:
                    raise
                sleep(FIRST_RETRY_DELAY_S)
        again = Batch(answers, self.forgotten)
        again.number = batch.number  # an earlier attempt may have counted
        return again

    def _try_to_count(
        self, batch: Batch, worker: int, happened: dict[EventKey, int]
    ) -> tuple[tuple[list[Outcome], list[CellTotal]], bool]:
        """Return the outcomes and the new totals, and whether the events are written: this worker is listed."""
        connection = self.link.connection()
        self.link.is_doubtful = False
        self._failpoint("before commit")
        rows, are_noted = self._send(connection, batch, worker, happened)
        self._failpoint("after commit")
        if self.link.is_doubtful:
            raise psycopg.OperationalError("the standby has not confirmed a commit")
        left = [row[0] - 1 for row in rows if row[0] is not None and row[0] > 0]
        answered = {-row[0] - 1 for row in rows if row[0] is not None and row[0] < 0}
        added = [SlotTotal(row[1], self.slot, *row[2:]) for row in rows if row[0] is None]
        left_out = find_used(connection, batch, left) if left else {}
        if any(each is not None and each.batch == batch.number for each in left_out.values()):
            # An earlier attempt has counted, perhaps under another slot: read the totals of its arms only. This worker
            # may not know an arm yet that another has just added.
            arms = {batch.given[place].ticket[:2] for place in left}
            totals = read_totals(connection, sorted({experiment for experiment, _ in arms}))
            added = [row for row in totals if (row.experiment, row.arm) in arms]
        return (batch.outcomes(left_out, answered), self._slots.take(added)), are_noted

    def _send(
        self, connection: Connection[TupleRow], batch: Batch, worker: int, happened: dict[EventKey, int]
    ) -> tuple[list[Any], bool]:
        events = event_parameters(worker, happened) if happened else {}
        if not batch.given:
            return [], not events or connection.execute(NOTE, events).rowcount > 0
        values = batch.parameters() | {"slot": self.slot} | events
        rows = connection.execute(COUNT_AND_NOTE if events else COUNT, values, prepare=True).fetchall()
        told = [row for row in rows if row[0] != 0]
        return told, not events or len(told) < len(rows)
