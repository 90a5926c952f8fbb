"""The server's memory on disk: SQLite, in which each response is counted exactly once.

Every change is a transaction of the one connection that writes. It is durable when the transaction ends: the log is on
disk (WAL, synchronous=FULL) before anybody hears of it.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from ldpbandits.errors import DatabaseError
from ldpbandits.server.migrations import migrate
from ldpbandits.server.tickets import Ticket

_NEW_NONCE = "INSERT INTO nonces VALUES (?, ?, ?) ON CONFLICT DO NOTHING"


class Outcome(Enum):
    """What became of a response."""

    COUNTED = "counted"
    DUPLICATE = "duplicate"
    CHANGED = "changed"
    EXPIRED = "expired"
    CLOSED = "closed"
    IMPOSSIBLE = "impossible"


class Claim(NamedTuple):
    """A response that came with a valid ticket; its value is in units."""

    ticket: Ticket
    value: int


class Tally(NamedTuple):
    """The number and the sum, in units, of the responses of an arm."""

    experiment: int
    arm: int
    pulls: int
    total: int


def _pass(_: str) -> None:
    """Do nothing at a failpoint."""


class Store:
    """One database, one writer. Tests give a `failpoint` that is told where in a transaction the server is."""

    def __init__(self, path: Path, *, failpoint: Callable[[str], None] = _pass) -> None:
        """Open the database, or make a new one that only this user can read."""
        # Through a link or by another name it is the same file, with the same lock; and ':memory:' is a file's name.
        self.path = path = path.resolve()
        self._failpoint = failpoint
        with ExitStack() as on_failure:
            try:
                self._lock = on_failure.enter_context(closing(_locked(path)))
                if not path.exists():
                    path.touch(mode=0o600)
                self.connection = on_failure.enter_context(
                    closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False))
                )
                self.connection.execute("PRAGMA synchronous = FULL")
                self.connection.execute("PRAGMA fullfsync = ON")  # macOS flushes its disk only when asked like this
                migrate(self.connection)
                self.connection.execute("PRAGMA journal_mode = WAL")  # last: a database that is not ours stays as it is
                self._closed = {row[0] for row in self.rows("SELECT id FROM experiments WHERE status = 'closed'")}
                self._forgotten: int = self.rows("SELECT before FROM forgotten")[0][0]
                self._last_response: int = self.rows("SELECT coalesce(max(id), 0) FROM responses")[0][0]
            except (sqlite3.Error, OSError) as error:
                raise DatabaseError(f"the database {path} cannot be opened: {error}") from None
            on_failure.pop_all()

    @property
    def forgotten(self) -> int:
        """Nonces of tickets that expired up to this moment may be gone: no such ticket is ever counted again."""
        return self._forgotten

    def close(self) -> None:
        """Let go of the database."""
        self.connection.close()
        self._lock.close()

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """Read."""
        return self.connection.execute(sql, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Change everything in the block, durably, or nothing."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield self.connection
            self._failpoint("before commit")
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise

    def count(self, claims: Sequence[Claim]) -> tuple[list[Outcome], list[Tally]]:
        """Count each response whose nonce is new, in one transaction; say what became of each, and the new tallies."""
        self._failpoint("before transaction")
        with self.transaction() as connection:
            outcomes, counted = self._use_nonces(connection, claims)
            self._keep(connection, counted)
            self._failpoint("between nonce and tally")
            tallies = self._add_to_tallies(connection, counted)
        self._last_response += len(counted)
        self._failpoint("after commit")
        return outcomes, tallies

    def _use_nonces(self, connection: sqlite3.Connection, claims: Sequence[Claim]) -> tuple[list[Outcome], list[Claim]]:
        """Say what becomes of each response, and return those that are to be counted, in the order of their numbers."""
        late = [self._too_late(connection, claim) for claim in claims]
        in_time = [claim for claim, outcome in zip(claims, late, strict=True) if outcome is None]
        if self._all_new(connection, in_time):
            return [outcome or Outcome.COUNTED for outcome in late], in_time
        outcomes = []
        counted: list[Claim] = []
        for claim, outcome in zip(claims, late, strict=True):
            if outcome is not None:
                outcomes.append(outcome)
            elif connection.execute(_NEW_NONCE, self._nonce(claim, len(counted))).rowcount == 1:
                counted.append(claim)
                outcomes.append(Outcome.COUNTED)
            else:
                outcomes.append(self._again(connection, claim, counted))
        return outcomes, counted

    def _too_late(self, connection: sqlite3.Connection, claim: Claim) -> Outcome | None:
        """Say why a response cannot count any more; one that did count stays counted when its experiment is closed."""
        if claim.ticket.expires_at <= self._forgotten:
            return Outcome.EXPIRED
        if claim.ticket.experiment in self._closed:
            return Outcome.CLOSED if self._number(connection, claim) is None else self._again(connection, claim, ())
        return None

    def _nonce(self, claim: Claim, counted: int) -> tuple[int, bytes, int]:
        """Return the row that says: this ticket's response is the next after so many of this transaction."""
        return claim.ticket.expires_at, claim.ticket.nonce, self._last_response + counted + 1

    def _all_new(self, connection: sqlite3.Connection, claims: Sequence[Claim]) -> bool:
        """Use all nonces in one call, as is possible nearly always; if any is known, none is used."""
        connection.execute("SAVEPOINT nonces")
        rows = [self._nonce(claim, place) for place, claim in enumerate(claims)]
        if connection.executemany(_NEW_NONCE, rows).rowcount == len(rows):
            return True
        connection.execute("ROLLBACK TO nonces")
        return False

    @staticmethod
    def _number(connection: sqlite3.Connection, claim: Claim) -> int | None:
        """Return the number of the response that was counted for this ticket, if any."""
        key = (claim.ticket.expires_at, claim.ticket.nonce)
        row = connection.execute("SELECT response FROM nonces WHERE (expires_at, nonce) = (?, ?)", key).fetchone()
        return None if row is None else int(row[0])

    def _again(self, connection: sqlite3.Connection, claim: Claim, counted: Sequence[Claim]) -> Outcome:
        """Compare a response with the one that was counted for its ticket, perhaps in this very transaction."""
        number = self._number(connection, claim) or 0
        if number > self._last_response:
            value = counted[number - self._last_response - 1].value
        else:
            (value,) = connection.execute("SELECT value FROM responses WHERE id = ?", (number,)).fetchone()
        return Outcome.DUPLICATE if value == claim.value else Outcome.CHANGED

    def _keep(self, connection: sqlite3.Connection, counted: Sequence[Claim]) -> None:
        rows = [
            (number, ticket.experiment, ticket.arm, value)
            for number, (ticket, value) in enumerate(counted, self._last_response + 1)
        ]
        connection.executemany("INSERT INTO responses VALUES (?, ?, ?, ?)", rows)

    @staticmethod
    def _add_to_tallies(connection: sqlite3.Connection, counted: Sequence[Claim]) -> list[Tally]:
        values: dict[tuple[int, int], list[int]] = defaultdict(list)
        for ticket, value in counted:
            values[ticket.experiment, ticket.arm].append(value)
        done = connection.executemany(
            "UPDATE arms SET pulls = pulls + ?, total = total + ? WHERE (experiment, number) = (?, ?)",
            [(len(new), sum(new), *arm) for arm, new in values.items()],
        )
        if done.rowcount != len(values):
            raise sqlite3.IntegrityError("a response to an arm that there is not")
        return [
            Tally(*row)
            for experiment in {experiment for experiment, _ in values}
            for row in connection.execute(
                "SELECT experiment, number, pulls, total FROM arms WHERE experiment = ?", (experiment,)
            )
            if (row[0], row[1]) in values
        ]

    def forget(self, now: int, most: int) -> int:
        """Remove up to `most` nonces of tickets that have expired; return how many.

        How far this went is written in the same transaction: from then on no ticket that expired up to there is
        counted, even if the clock goes back.
        """
        with self.transaction() as connection:
            chosen = connection.execute(
                "SELECT expires_at, nonce FROM nonces WHERE expires_at <= ? ORDER BY expires_at, nonce LIMIT ?",
                (now, most),
            ).fetchall()
            if not chosen:
                return 0
            # No further than needed: a clock that is set right after it was years ahead must not stand still for years.
            before = max(self._forgotten, chosen[-1][0])
            connection.execute("DELETE FROM nonces WHERE (expires_at, nonce) <= (?, ?)", chosen[-1])
            connection.execute("UPDATE forgotten SET before = ?", (before,))
        self._forgotten = before
        return len(chosen)

    def set_status(self, experiment: int, status: str) -> None:
        """Pause, resume or close an experiment; closing is for good."""
        with self.transaction() as connection:
            connection.execute("UPDATE experiments SET status = ? WHERE id = ?", (status, experiment))
        if status == "closed":
            self._closed.add(experiment)


def _locked(path: Path) -> sqlite3.Connection:
    """Hold a lock beside the database for as long as this process lives: two servers would not see each other's counts.

    SQLite's own lock on a file of its own works on every system, and goes away with the process, however it ends.
    """
    lock = sqlite3.connect(
        path.with_name(path.name + "-lock"), timeout=0, isolation_level=None, check_same_thread=False
    )
    try:
        lock.execute("PRAGMA journal_mode = MEMORY")  # nothing is written, so no file is needed for undoing it
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        lock.close()
        if "locked" in str(error):
            raise DatabaseError(f"the database {path} is in use by another server") from None
        raise
    return lock
