"""The store that `ldpbandits serve` uses: one SQLite file, in which each response is counted exactly once.

Every change is a transaction of the one connection that writes, and durable when the transaction ends.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple
from pathlib import Path
from shutil import disk_usage
from sqlite3 import Connection
from typing import Any, TypeAlias

from ldpbandits.errors import DatabaseError
from ldpbandits.server.store import (
    DELETED,
    ERASED_ROWS,
    Answer,
    CellTotal,
    Definition,
    Event,
    Outcome,
    Status,
    StoredExperiment,
    StoredResponse,
    StoreSizes,
    Unavailable,
    change_of_acceptances,
    dropped_cell,
)
from ldpbandits.server.store.nonces import commitment_of, place_of
from ldpbandits.server.store.sql import (
    SET_STATUS,
    Execute,
    SqlStore,
    log_change,
    read_experiments,
    read_pages,
    status_row,
)
from ldpbandits.server.store.sqlite.file import SqliteFile
from ldpbandits.spec.messages import Change

_USE_NONCE = (
    "INSERT INTO nonces VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET commitment = excluded.commitment"
    " WHERE commitment IS NULL AND excluded.commitment IS NOT NULL RETURNING accepted"
)
_NEW_NONCE = "INSERT INTO nonces VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_ANSWER_ACCEPTED = "UPDATE nonces SET commitment = ? WHERE (expires_at, id) = (?, ?) AND commitment IS NULL"
_COMMITMENT = "SELECT commitment FROM nonces WHERE (expires_at, id) = (?, ?)"
_LAST_RESPONSE = (
    "SELECT coalesce(max((SELECT max(id) FROM responses WHERE experiment = experiments.id)), 0) FROM experiments"
)
_ADD_CELL = (
    "INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
    " pulls = pulls + excluded.pulls, total = total + excluded.total, read = read + excluded.read"
)
_DROP = (
    f"INSERT INTO cells SELECT experiment, arm, {dropped_cell(0)} - cell, count(*), sum(value), 0 FROM responses"  # noqa: S608 - ours
    " WHERE experiment = ? AND id <= ? GROUP BY arm, cell"
    " ON CONFLICT DO UPDATE SET pulls = pulls + excluded.pulls, total = total + excluded.total"
    " RETURNING experiment, arm, cell, pulls, total, read"
)
_ADD_EVENT = "INSERT INTO events VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count"


TOTALS = "SELECT experiment, arm, cell, pulls, total, read FROM cells"
_LARGEST = (1 << 63) - 1
_FIRST_NONCE, _LAST_NONCE = (-1, b""), (_LARGEST, b"")
"""Cursors before and after all nonces."""


NonceRow: TypeAlias = tuple[int, bytes, int, bytes | None, bool]
"""A row of `nonces`: the hour of expiry, the id, the experiment, the commitment, and whether the pull was accepted."""


def _nonce_row(answer: Answer) -> NonceRow:
    return (*place_of(answer.ticket), answer.ticket.experiment, commitment_of(answer), answer.is_acceptance)


def _pass(_: str) -> None:
    """Do nothing at a failpoint."""


class SqliteStore(SqlStore):
    """A `Store` in one file. Tests give a `failpoint`, which is called at named points of a transaction."""

    def __init__(self, path: Path, *, failpoint: Callable[[str], None] = _pass) -> None:
        """Open the file, or create it; raise DatabaseError when it is in use, is not ours or cannot be opened."""
        self._failpoint = failpoint
        self._log_is_clean = True
        self.identity: bytes
        self.forgotten: int
        self._last_response: int
        self.file = SqliteFile(path, failpoint)
        try:
            closed = self.file.rows("SELECT id FROM experiments WHERE status = 'closed'")
            ((self.identity,),) = self.file.rows("SELECT value FROM identity")
            ((self.forgotten,),) = self.file.rows("SELECT before FROM forgotten")
            ((self._last_response,),) = self.file.rows(_LAST_RESPONSE)
            left = self.file.rows("SELECT id FROM experiments WHERE name LIKE ?", (f"{DELETED}%",))
        except Unavailable as error:
            self.file.close()
            raise DatabaseError(f"the database {self.file.path} cannot be opened: {error}") from None
        self._closed = {number for (number,) in closed}
        self._deletions: dict[int, tuple[int, bytes]] = {number: _FIRST_NONCE for (number,) in left}
        """The cursors of running deletions, by experiment: the last nonce that was visited."""

    def _rows(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        return self.file.rows(sql, values)

    @contextmanager
    def _transaction(self) -> Iterator[Execute]:
        with self.file.transaction() as connection:
            yield connection.execute

    @contextmanager
    def _change(self, experiment: int | None, log: Change | None) -> Iterator[Execute]:  # noqa: ARG002 - no peers
        with self._transaction() as execute:
            yield execute
            log_change(execute, log)

    def check(self) -> None:
        """Write a row and delete it again, in the file that a restart would open.

        SQLite does not write a row that is updated with the same values.
        """
        with self.file.transaction() as connection:
            connection.execute(_ADD_EVENT, (0, 0, "check", 1))
            connection.execute("DELETE FROM events WHERE (experiment, arm, kind) = (0, 0, 'check')")

    def close(self) -> None:
        """Close the file and release its locks."""
        self.file.close()

    def experiments(self) -> list[StoredExperiment]:
        """Read every experiment with its arms."""
        return self._read_experiments()

    def _read_experiments(self, which: str = "true", values: Sequence[object] = ()) -> list[StoredExperiment]:
        found = self._rows(f"{TOTALS} WHERE {which.format('experiment')} ORDER BY cell", values)
        return read_experiments(self._rows, [CellTotal(*row) for row in found], which, values)

    def create(
        self,
        definition: Definition,
        arms: Sequence[str],
        known: Sequence[CellTotal] = (),
        *,
        metadata: str = "{}",
        log: Change | None = None,
    ) -> StoredExperiment:
        """Insert the experiment and its arms, and return them as they are read."""
        with self.file.transaction() as connection:
            number = connection.execute(
                "INSERT INTO experiments"
                " (name, curator, rule, settings, ticket_lifetime, default_reward, created_at, metadata, status)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'running')",
                (*astuple(definition), metadata),
            ).lastrowid
            rows = [(number, arm, name) for arm, name in enumerate(arms)]
            connection.executemany("INSERT INTO arms (experiment, number, name) VALUES (?, ?, ?)", rows)
            connection.executemany(_ADD_CELL, [(number, *cell[1:]) for cell in known])
            log_change(connection.execute, log)
            (made,) = self._read_experiments("{} = ?", (number,))
        return made

    def set_status(
        self, experiment: int, status: Status, shipped: int | None = None, *, log: Change | None = None
    ) -> None:
        """Write the status; `count` reads closed experiments from memory."""
        with self._change(experiment, log) as execute:
            execute(SET_STATUS, status_row(experiment, status, shipped, log))
        if status == "closed":
            self._closed.add(experiment)

    def add_events(self, experiment: int, events: Sequence[Event], *, log: Change | None = None) -> None:
        """Add to the counts of these events."""
        with self._change(experiment, log) as execute:
            for event in events:
                execute(_ADD_EVENT, event)

    def delete(self, experiment: int, *, log: Change | None = None) -> bool:
        """Delete its rows and overwrite them with zeros, so that no trace of a response stays in the file."""
        with self.file.transaction() as connection:
            if experiment not in self._deletions:
                hide = "UPDATE experiments SET name = ?, status = 'closed' WHERE id = ?"
                if not connection.execute(hide, (f"{DELETED}{experiment}", experiment)).rowcount:
                    return False  # `forget` has deleted the last rows
                for table in ("cells", "arms", "events"):
                    connection.execute(f"DELETE FROM {table} WHERE experiment = ?", (experiment,))  # noqa: S608 - ours
                log_change(connection.execute, log)
            place = self._erase(connection, experiment, self._deletions.get(experiment, _FIRST_NONCE))
        self._closed.add(experiment)  # for responses that arrive later
        self._log_is_clean = False
        if place is not None:
            self._deletions[experiment] = place
            return True
        self._deletions.pop(experiment, None)
        self._clean_log()
        return False

    @staticmethod
    def _erase(connection: Connection, experiment: int, place: tuple[int, bytes]) -> tuple[int, bytes] | None:
        """Delete some nonces after this cursor, or some responses; return the next cursor, or None at the end."""
        if place != _LAST_NONCE:
            scan = "SELECT expires_at, id FROM nonces WHERE (expires_at, id) > (?, ?) ORDER BY expires_at, id"
            end = connection.execute(f"{scan} LIMIT 1 OFFSET ?", (*place, ERASED_ROWS - 1)).fetchone() or _LAST_NONCE
            connection.execute(
                "DELETE FROM nonces WHERE (expires_at, id) > (?, ?) AND (expires_at, id) <= (?, ?) AND experiment = ?",
                (*place, *end, experiment),
            )
            if end != _LAST_NONCE:
                return end
        some = "SELECT id FROM responses WHERE experiment = ? ORDER BY id LIMIT 1 OFFSET ?"
        last = connection.execute(some, (experiment, ERASED_ROWS - 1)).fetchone() or (_LARGEST,)
        connection.execute("DELETE FROM responses WHERE experiment = ? AND id <= ?", (experiment, *last))
        if last != (_LARGEST,):
            return _LAST_NONCE
        connection.execute("DELETE FROM experiments WHERE id = ?", (experiment,))
        return None

    def _clean_log(self) -> None:
        """Truncate the log, which holds the deleted rows; while a reader uses it, that must wait."""
        if not self._log_is_clean:
            with suppress(Unavailable):
                ((is_busy, _, _),) = self.file.rows("PRAGMA wal_checkpoint(TRUNCATE)")
                self._log_is_clean = not is_busy

    def count(self, answers: Sequence[Answer], events: Sequence[Event] = ()) -> tuple[list[Outcome], list[CellTotal]]:
        """Insert the new nonces and their responses and add these to the totals, in one transaction."""
        self._failpoint("before transaction")
        with self.file.transaction() as connection:
            connection.executemany(_ADD_EVENT, events)
            outcomes = self._use_nonces(connection, answers)
            self._failpoint("between nonce and tally")
            pairs = list(zip(answers, outcomes, strict=True))
            responses = [answer for answer, outcome in pairs if outcome in {Outcome.COUNTED, Outcome.ANSWERED}]
            self._insert_responses(connection, responses)
            accepted = [answer for answer, outcome in pairs if outcome is Outcome.ACCEPTED]
            answered = [change_of_acceptances(answer) for answer, outcome in pairs if outcome is Outcome.ANSWERED]
            totals = self._add_to_totals(connection, [*responses, *accepted, *answered])
        self._last_response += len(responses)
        self._failpoint("after commit")
        return outcomes, totals

    def _use_nonces(self, connection: Connection, answers: Sequence[Answer]) -> list[Outcome]:
        """Use the nonces that are new; return the outcome of each answer.

        Nearly always all acceptances are new, and all responses answer accepted pulls, or none does: then one call for
        all of them is faster than one for each. A response beside its acceptance comes after it.
        """
        outcomes: list[Outcome | None] = [None] * len(answers)
        takes = [self._takes_answers(answer) for answer in answers]
        for is_acceptance in (True, False):
            places = [i for i, answer in enumerate(answers) if takes[i] and answer.is_acceptance == is_acceptance]
            used = self._use_all(connection, [_nonce_row(answers[i]) for i in places], is_acceptance=is_acceptance)
            for i in places:
                outcomes[i] = used
        return [
            self._use_nonce(connection, answer) if outcome is None else outcome
            for answer, outcome in zip(answers, outcomes, strict=True)
        ]

    def _takes_answers(self, answer: Answer) -> bool:
        ticket = answer.ticket
        return ticket.expires_at > self.forgotten and ticket.experiment not in self._closed

    @staticmethod
    def _use_all(connection: Connection, rows: Sequence[NonceRow], *, is_acceptance: bool) -> Outcome | None:
        """Use all these nonces in one call, and return the outcome that they share; else use none, and return None."""
        new = (Outcome.ACCEPTED if is_acceptance else Outcome.COUNTED, _NEW_NONCE, rows)
        answered = (
            Outcome.ANSWERED,
            _ANSWER_ACCEPTED,
            [(commitment, hour, nonce) for hour, nonce, _, commitment, _ in rows],
        )
        if len(rows) > 1:  # else there is nothing to gain
            for outcome, sql, values in (new,) if is_acceptance else (answered, new):
                connection.execute("SAVEPOINT nonces")
                is_done = connection.executemany(sql, values).rowcount == len(rows)
                if not is_done:
                    connection.execute("ROLLBACK TO nonces")
                connection.execute("RELEASE nonces")  # an open savepoint makes SQLite copy every page before a change
                if is_done:
                    return outcome
        return None

    def _use_nonce(self, connection: Connection, answer: Answer) -> Outcome:
        """Use the nonce of a response or an acceptance if it is new; return the outcome."""
        ticket = answer.ticket
        if ticket.expires_at <= self.forgotten:
            return Outcome.EXPIRED
        place, commitment = place_of(ticket), commitment_of(answer)
        if self._takes_answers(answer):
            used = connection.execute(_USE_NONCE, _nonce_row(answer)).fetchone()
            if used is not None:
                return Outcome.ACCEPTED if answer.is_acceptance else Outcome.ANSWERED if used[0] else Outcome.COUNTED
        known = connection.execute(_COMMITMENT, place).fetchone()
        if known is None or (known[0] is None and not answer.is_acceptance):
            return Outcome.CLOSED  # the response was not counted before
        return Outcome.DUPLICATE if answer.is_acceptance or known[0] == commitment else Outcome.CHANGED

    def _insert_responses(self, connection: Connection, counted: Sequence[Answer]) -> None:
        rows = [
            (number, ticket.experiment, ticket.arm, value, cell)
            for number, (ticket, value, cell, _) in enumerate(counted, self._last_response + 1)
        ]
        connection.executemany("INSERT INTO responses VALUES (?, ?, ?, ?, ?)", rows)

    @staticmethod
    def _add_to_totals(connection: Connection, counted: Sequence[Answer]) -> list[CellTotal]:
        new: dict[tuple[int, int, int], list[Answer]] = defaultdict(list)
        for answer in counted:
            new[answer.ticket.experiment, answer.ticket.arm, answer.cell].append(answer)
        totals = []
        for cell, answers in new.items():
            added = len(answers), sum(answer.value for answer in answers), sum(answer.read for answer in answers)
            (row,) = connection.execute(f"{_ADD_CELL} RETURNING pulls, total, read", (*cell, *added))
            totals.append(CellTotal(*cell, *row))
        return totals

    def forget(self, now: int, most: int) -> int:
        """Delete nonces from the front of their table, and write the last expiry in the same transaction."""
        if self._deletions:
            self.delete(next(iter(self._deletions)))
            return ERASED_ROWS
        self._clean_log()
        with self.file.transaction() as connection:
            chosen = connection.execute(
                "SELECT expires_at, id FROM nonces WHERE expires_at <= ? ORDER BY expires_at, id LIMIT ?",
                (now, most),
            ).fetchall()
            if not chosen:
                return 0
            before = max(self.forgotten, chosen[-1][0])
            connection.execute("DELETE FROM nonces WHERE (expires_at, id) <= (?, ?)", chosen[-1])
            connection.execute("UPDATE forgotten SET before = ?", (before,))
        self.forgotten = before
        return len(chosen)

    def export(self, experiment: int, rows: int) -> Iterator[Sequence[StoredResponse]]:
        """Read on a separate connection; a chunk sees what was on disk when it was requested."""
        with self.file.reading() as connection:
            yield from read_pages(lambda sql, values=(): connection.execute(sql, values).fetchall(), experiment, rows)

    def drop_responses(self, experiment: int) -> tuple[bool, list[CellTotal]]:
        """Delete the first rows, and overwrite them with zeros; at the end, also those in the log."""
        with self.file.transaction() as connection:
            some = "SELECT id FROM responses WHERE experiment = ? ORDER BY id LIMIT 1 OFFSET ?"
            (last,) = connection.execute(some, (experiment, ERASED_ROWS - 1)).fetchone() or (_LARGEST,)
            totals = [CellTotal(*row) for row in connection.execute(_DROP, (experiment, last)).fetchall()]
            connection.execute("DELETE FROM responses WHERE experiment = ? AND id <= ?", (experiment, last))
        if totals:
            self._log_is_clean = False
            if last == _LARGEST:
                self._clean_log()
        return last != _LARGEST, totals

    def sizes(self) -> StoreSizes:
        """Return the sizes of the file, its log and its disk."""
        path = self.file.path
        return StoreSizes(
            database=path.stat().st_size,
            log=path.with_name(path.name + "-wal").stat().st_size,
            free=disk_usage(path.parent).free,
        )
