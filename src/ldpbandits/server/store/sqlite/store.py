"""The store that `ldpbandits serve` uses: one SQLite file, in which each response is counted exactly once.

Every change is a transaction of the one connection that writes, and durable when the transaction ends.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import disk_usage
from sqlite3 import Connection

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
    StoredKey,
    StoredResponse,
    StoredSecret,
    StoreSizes,
    Unavailable,
)
from ldpbandits.server.store.sqlite.file import SqliteFile
from ldpbandits.server.store.sqlite.reading import read_experiment, read_experiments

_NEW_NONCE = "INSERT INTO nonces VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_LAST_RESPONSE = (
    "SELECT coalesce(max((SELECT max(id) FROM responses WHERE experiment = experiments.id)), 0) FROM experiments"
)
_ADD_CELL = (
    "INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
    " pulls = pulls + excluded.pulls, total = total + excluded.total, read = read + excluded.read"
)
_ADD_EVENT = "INSERT INTO events VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count"


_LARGEST = (1 << 63) - 1
_FIRST_NONCE, _LAST_NONCE = (-1, b""), (_LARGEST, b"")
"""Cursors before and after all nonces."""


def _pass(_: str) -> None:
    """Do nothing at a failpoint."""


class SqliteStore:
    """A `Store` in one file. Tests give a `failpoint`, which is called at named points of a transaction."""

    def __init__(self, path: Path, *, failpoint: Callable[[str], None] = _pass) -> None:
        """Open the file, or create it; raise DatabaseError when it is in use, is not ours or cannot be opened."""
        self._failpoint = failpoint
        self._log_is_clean = True
        self.identity: bytes
        self._forgotten: int
        self._last_response: int
        self.file = SqliteFile(path, failpoint)
        try:
            closed = self.file.rows("SELECT id FROM experiments WHERE status = 'closed'")
            ((self.identity,),) = self.file.rows("SELECT value FROM identity")
            ((self._forgotten,),) = self.file.rows("SELECT before FROM forgotten")
            ((self._last_response,),) = self.file.rows(_LAST_RESPONSE)
            left = self.file.rows("SELECT id FROM experiments WHERE name LIKE ?", (f"{DELETED}%",))
        except Unavailable as error:
            self.file.close()
            raise DatabaseError(f"the database {self.file.path} cannot be opened: {error}") from None
        self._closed = {number for (number,) in closed}
        self._deletions: dict[int, tuple[int, bytes]] = {number: _FIRST_NONCE for (number,) in left}
        """The cursors of running deletions, by experiment: the last nonce that was visited."""

    @property
    def forgotten(self) -> int:
        """The last second of which nonces may be gone, kept in memory too."""
        return self._forgotten

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
        return read_experiments(self.file.rows)

    def create(self, definition: Definition, arms: Sequence[str], known: Sequence[CellTotal] = ()) -> StoredExperiment:
        """Insert the experiment and its arms, and return them as they are read."""
        with self.file.transaction() as connection:
            number = connection.execute(
                "INSERT INTO experiments"
                " (name, curator, rule, settings, ticket_lifetime, default_reward, created_at, status)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, 'running')",
                (
                    definition.name,
                    definition.curator,
                    definition.rule,
                    definition.settings,
                    definition.ticket_lifetime,
                    definition.default_reward,
                    definition.created_at,
                ),
            ).lastrowid
            rows = [(number, arm, name) for arm, name in enumerate(arms)]
            connection.executemany("INSERT INTO arms (experiment, number, name) VALUES (?, ?, ?)", rows)
            connection.executemany(_ADD_CELL, [(number, *cell[1:]) for cell in known])
            return read_experiment(self.file.rows, int(number or 0))

    def add_arm(self, experiment: int, name: str) -> None:
        """Insert an arm under the next number."""
        with self.file.transaction() as connection:
            connection.execute(
                "INSERT INTO arms (experiment, number, name) SELECT ?1, count(*), ?2 FROM arms WHERE experiment = ?1",
                (experiment, name),
            )

    def retire_arm(self, experiment: int, arm: int) -> None:
        """Mark the arm as retired."""
        with self.file.transaction() as connection:
            key = (experiment, arm)
            connection.execute("UPDATE arms SET retired = 1 WHERE (experiment, number) = (?, ?)", key)

    def set_status(self, experiment: int, status: Status, shipped: int | None = None) -> None:
        """Write the status; `count` reads closed experiments from memory."""
        with self.file.transaction() as connection:
            row = (status, shipped, experiment)
            connection.execute("UPDATE experiments SET status = ?, shipped = ? WHERE id = ?", row)
        if status == "closed":
            self._closed.add(experiment)

    def delete(self, experiment: int) -> bool:
        """Delete its rows and overwrite them with zeros, so that no trace of a response stays in the file."""
        with self.file.transaction() as connection:
            if experiment not in self._deletions:
                hide = "UPDATE experiments SET name = ?, status = 'closed' WHERE id = ?"
                if not connection.execute(hide, (f"{DELETED}{experiment}", experiment)).rowcount:
                    return False  # `forget` has deleted the last rows
                for table in ("cells", "arms", "events"):
                    connection.execute(f"DELETE FROM {table} WHERE experiment = ?", (experiment,))  # noqa: S608 - ours
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
        """Delete some of the nonces after this cursor, or some responses; return the next cursor, or None at the end.

        Nonces go first: the number of a deleted response would be that of another experiment's response some day.
        """
        if place != _LAST_NONCE:
            scan = "SELECT expires_at, nonce FROM nonces WHERE (expires_at, nonce) > (?, ?) ORDER BY expires_at, nonce"
            end = connection.execute(f"{scan} LIMIT 1 OFFSET ?", (*place, ERASED_ROWS - 1)).fetchone() or _LAST_NONCE
            connection.execute(
                "DELETE FROM nonces WHERE (expires_at, nonce) > (?, ?) AND (expires_at, nonce) <= (?, ?) AND EXISTS"
                " (SELECT 1 FROM responses WHERE (experiment, id) = (?, nonces.response))",
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

    def events(self) -> list[Event]:
        """Read the totals of all events."""
        return [Event(*row) for row in self.file.rows("SELECT experiment, arm, kind, count FROM events")]

    def count(self, answers: Sequence[Answer], events: Sequence[Event] = ()) -> tuple[list[Outcome], list[CellTotal]]:
        """Insert the new nonces and their responses and add these to the totals, in one transaction."""
        self._failpoint("before transaction")
        with self.file.transaction() as connection:
            connection.executemany(_ADD_EVENT, events)
            outcomes, counted = self._use_nonces(connection, answers)
            self._insert_responses(connection, counted)
            self._failpoint("between nonce and tally")
            totals = self._add_to_totals(connection, counted)
        self._last_response += len(counted)
        self._failpoint("after commit")
        return outcomes, totals

    def _use_nonces(self, connection: Connection, answers: Sequence[Answer]) -> tuple[list[Outcome], list[Answer]]:
        """Return the outcome of each response, and the responses to count, in the order of their numbers."""
        late = [self._find_late(connection, answer) for answer in answers]
        in_time = [answer for answer, outcome in zip(answers, late, strict=True) if outcome is None]
        if self._insert_all_new(connection, in_time):
            return [outcome or Outcome.COUNTED for outcome in late], in_time
        outcomes = []
        counted: list[Answer] = []
        for answer, outcome in zip(answers, late, strict=True):
            if outcome is not None:
                outcomes.append(outcome)
            elif connection.execute(_NEW_NONCE, self._nonce(answer, len(counted))).rowcount == 1:
                counted.append(answer)
                outcomes.append(Outcome.COUNTED)
            else:
                outcomes.append(self._compare_repeat(connection, answer, counted))
        return outcomes, counted

    def _find_late(self, connection: Connection, answer: Answer) -> Outcome | None:
        """Return why a response is too late, if it is; a counted one stays counted when its experiment is closed."""
        if answer.ticket.expires_at <= self._forgotten:
            return Outcome.EXPIRED
        if answer.ticket.experiment in self._closed:
            return (
                Outcome.CLOSED
                if self._number(connection, answer) is None
                else self._compare_repeat(connection, answer, ())
            )
        return None

    def _nonce(self, answer: Answer, counted: int) -> tuple[int, bytes, int]:
        """Return the row of a nonce whose response follows `counted` others of this transaction."""
        return answer.ticket.expires_at, answer.ticket.nonce, self._last_response + counted + 1

    def _insert_all_new(self, connection: Connection, answers: Sequence[Answer]) -> bool:
        """Insert all nonces in one call, which nearly always succeeds; if any is known, insert none."""
        connection.execute("SAVEPOINT nonces")
        rows = [self._nonce(answer, place) for place, answer in enumerate(answers)]
        are_new = connection.executemany(_NEW_NONCE, rows).rowcount == len(rows)
        if not are_new:
            connection.execute("ROLLBACK TO nonces")
        connection.execute("RELEASE nonces")  # an open savepoint makes SQLite copy every page before a change
        return are_new

    @staticmethod
    def _number(connection: Connection, answer: Answer) -> int | None:
        """Return the number of the response of this ticket, or None."""
        key = (answer.ticket.expires_at, answer.ticket.nonce)
        row = connection.execute("SELECT response FROM nonces WHERE (expires_at, nonce) = (?, ?)", key).fetchone()
        return None if row is None else int(row[0])

    def _compare_repeat(self, connection: Connection, answer: Answer, counted: Sequence[Answer]) -> Outcome:
        """Compare a response with the one counted for its ticket, perhaps in this transaction."""
        number = self._number(connection, answer) or 0
        if number > self._last_response:
            first = counted[number - self._last_response - 1][1:3]
        else:
            key = (answer.ticket.experiment, number)
            select = "SELECT value, cell FROM responses WHERE (experiment, id) = (?, ?)"
            first = connection.execute(select, key).fetchone()
        return Outcome.DUPLICATE if first == (answer.value, answer.cell) else Outcome.CHANGED

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
                "SELECT expires_at, nonce FROM nonces WHERE expires_at <= ? ORDER BY expires_at, nonce LIMIT ?",
                (now, most),
            ).fetchall()
            if not chosen:
                return 0
            before = max(self._forgotten, chosen[-1][0])
            connection.execute("DELETE FROM nonces WHERE (expires_at, nonce) <= (?, ?)", chosen[-1])
            connection.execute("UPDATE forgotten SET before = ?", (before,))
        self._forgotten = before
        return len(chosen)

    def export(self, experiment: int, rows: int) -> Iterator[Sequence[StoredResponse]]:
        """Read on a separate connection; a chunk sees what was on disk when it was requested."""
        with self.file.reading() as connection:
            last = 0
            while piece := connection.execute(
                "SELECT id, arm, value, cell FROM responses WHERE experiment = ? AND id > ? ORDER BY id LIMIT ?",
                (experiment, last, rows),
            ).fetchall():
                last = piece[-1][0]
                yield [StoredResponse(*row) for row in piece]

    def keys(self) -> list[StoredKey]:
        """Read the hashes of all keys."""
        return [StoredKey(*row) for row in self.file.rows("SELECT hash, role, valid_until FROM keys")]

    def rotate_key(self, role: str, hashed: bytes, now: int, grace: int) -> None:
        """Shorten the validity of the role's keys, delete expired keys, and insert the new one."""
        with self.file.transaction() as connection:
            connection.execute(
                "UPDATE keys SET valid_until = min(coalesce(valid_until, ?1), ?1) WHERE role = ?2", (now + grace, role)
            )
            connection.execute("DELETE FROM keys WHERE valid_until <= ?", (now,))
            connection.execute("INSERT INTO keys VALUES (?, ?, NULL)", (hashed, role))

    def secrets(self) -> list[StoredSecret]:
        """Read all signing secrets."""
        return [StoredSecret(*row) for row in self.file.rows("SELECT id, secret, valid_until FROM secrets")]

    def rotate_secret(self, secret: bytes, now: int, grace: int) -> None:
        """Shorten the validity of the secrets, delete expired ones, and insert the new one."""
        with self.file.transaction() as connection:
            connection.execute("UPDATE secrets SET valid_until = min(coalesce(valid_until, ?1), ?1)", (now + grace,))
            connection.execute("DELETE FROM secrets WHERE valid_until <= ?", (now,))
            connection.execute("INSERT INTO secrets (secret) VALUES (?)", (secret,))

    def prune(self, now: int) -> None:
        """Delete the expired keys and secrets."""
        with self.file.transaction() as connection:
            connection.execute("DELETE FROM keys WHERE valid_until <= ?", (now,))
            connection.execute("DELETE FROM secrets WHERE valid_until <= ?", (now,))

    def sizes(self) -> StoreSizes:
        """Return the sizes of the file, its log and its disk."""
        path = self.file.path
        return StoreSizes(
            database=path.stat().st_size,
            log=path.with_name(path.name + "-wal").stat().st_size,
            free=disk_usage(path.parent).free,
        )
