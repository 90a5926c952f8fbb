"""Counting with patience: a batch whose outcome is not known is sent again, and counts once."""

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
from ldpbandits.server.store.postgres.account import EventKey
from ldpbandits.server.store.postgres.connection import LOST, Link, first_line
from ldpbandits.server.store.postgres.counting import COUNT, COUNT_AND_NOTE, NOTE, Batch, Used, find, noted
from ldpbandits.server.store.postgres.nonces import Days, floor
from ldpbandits.server.store.postgres.reading import read_totals
from ldpbandits.server.store.postgres.schema import SLOT_LOCK, SLOTS
from ldpbandits.server.store.postgres.slots import Slots, SlotTotal

RETRY_DEADLINE_S = 8.0
"""Seconds for which a batch is tried again while the database cannot be reached, as when another takes over."""

FIRST_RETRY_DELAY_S, LONGEST_RETRY_DELAY_S = 0.02, 0.5


@dataclass
class Notes:
    """How often each thing has happened, as far as it was noted by the thread that counts, under a worker's number."""

    worker: int
    written: Counter[EventKey] = field(default_factory=Counter)


class Counting:
    """The part of a store that counts, on the connection that writes."""

    def __init__(self, url: str, slots: Slots, days: Days, failpoint: Callable[[str], None], patience: float) -> None:
        """Count there, into a slot of one's own; `slots` is told what was counted."""
        self.link, self.slot, self._slots = Link(url, self._lease), 0, slots
        self._days, self._failpoint, self._patience = days, failpoint, patience
        self.forgotten = self.last_experiment = 0
        """The last second of which nonces may be gone, and the last experiment that there was, as far as is known."""
        self.notes = Notes(0)
        self._owed: Counter[EventKey] = Counter()
        """What happened and is not noted yet: the others took this worker for dead, and it has not noticed."""
        self._failed = False

    def _lease(self, connection: Connection[TupleRow]) -> None:
        """Take a slot that no other worker has, for as long as this session lasts; if there is none, share one."""
        for slot in range(SLOTS):
            ((is_ours,),) = connection.execute("SELECT pg_try_advisory_lock(%s, %s)", (SLOT_LOCK, slot)).fetchall()
            if is_ours:
                self.slot = slot
                return
        self.slot = urandom(1)[0] % SLOTS

    def note_under(self, worker: int) -> None:
        """Note what happens under a new number of this worker."""
        self.notes = Notes(worker)

    def learn_experiments(self) -> None:
        """Learn the number of the last experiment."""
        ((last,),) = self.link.rows("SELECT coalesce(max(id), 0) FROM experiments")
        self.last_experiment = max(self.last_experiment, last)

    def count(self, answers: Sequence[Answer], events: Sequence[Event] = ()) -> tuple[list[Outcome], list[CellTotal]]:
        """Count in one statement; while the outcome is not known, send the same again, until patience ends."""
        if answers and max(answer.ticket.experiment for answer in answers) > self.last_experiment:
            self._look_for_experiments(answers)
        notes, times = self.notes, Counter(self._owed)
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
                batch = self._with_days(batch, answers, give_up)
            except LOST as error:
                self.link.close()
                if monotonic() + pause >= give_up:
                    raise Unavailable(first_line(error)) from error
                sleep(pause)
                pause = min(2 * pause, LONGEST_RETRY_DELAY_S)
            except psycopg.Error as error:
                self._failed = False  # the database is there, it only refuses this
                raise Unavailable(first_line(error)) from error
        self._failed = False
        if are_noted:
            notes.written.update(times)
        self._owed = Counter() if are_noted else times
        return result

    def _look_for_experiments(self, answers: Sequence[Answer]) -> None:
        """Raise when a response is to an experiment that never was; another worker may have made it."""
        self.learn_experiments()
        for answer in answers:
            if answer.ticket.experiment > self.last_experiment:
                raise Unavailable(f"there is no experiment {answer.ticket.experiment}")

    def _with_days(self, batch: Batch, answers: Sequence[Answer], give_up: float) -> Batch:
        """Make the days that a batch has none for, and leave out what expired in days that are gone."""
        while True:
            try:
                with self.link.transaction() as connection:
                    self._days.make(connection, [answer.ticket.expires_at for answer in batch.given])
                    self.forgotten = floor(connection)
                break
            except Unavailable:  # others make days, too; or the database is gone
                if monotonic() >= give_up:
                    raise
                sleep(FIRST_RETRY_DELAY_S)
        again = Batch(answers, self.forgotten)
        again.number = batch.number  # an earlier try may have counted
        return again

    def _try_to_count(
        self, batch: Batch, worker: int, happened: dict[EventKey, int]
    ) -> tuple[tuple[list[Outcome], list[CellTotal]], bool]:
        """Return what became of each and the new totals; and whether what happened is noted: this worker is listed."""
        connection = self.link.connection()
        self.link.is_doubtful = False
        self._failpoint("before commit")
        rows, are_noted = self._send(connection, batch, worker, happened)
        self._failpoint("after commit")
        if self.link.is_doubtful:
            raise psycopg.OperationalError("a commit was not seen to reach the standby")
        left = [row[0] - 1 for row in rows if row[0] is not None]
        added = [SlotTotal(row[1], self.slot, *row[2:]) for row in rows if row[0] is None]
        used = find(connection, [batch.given[place] for place in left]) if left else []
        left_out: dict[int, Used | None] = dict(zip(left, used, strict=True))
        if any(each is not None and each.batch == batch.number for each in used):
            # An earlier try has counted, perhaps under another slot: read what it has added. No more than that: of an
            # arm that another worker has just added, this one does not know yet.
            arms = {batch.given[place].ticket[:2] for place in left}
            totals = read_totals(connection, sorted({experiment for experiment, _ in arms}))
            added = [row for row in totals if (row.experiment, row.arm) in arms]
        return (batch.outcomes(left_out), self._slots.take(added)), are_noted

    def _send(
        self, connection: Connection[TupleRow], batch: Batch, worker: int, happened: dict[EventKey, int]
    ) -> tuple[list[Any], bool]:
        events = noted(worker, happened) if happened else {}
        if not batch.given:
            return [], not events or connection.execute(NOTE, events).rowcount > 0
        values = batch.parameters() | {"slot": self.slot} | events
        rows = connection.execute(COUNT_AND_NOTE if events else COUNT, values, prepare=True).fetchall()
        told = [row for row in rows if row[0] != 0]
        return told, not events or len(told) < len(rows)
