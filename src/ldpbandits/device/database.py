"""What privacy a device has spent, and what its owner allows.

Epsilons add up: what a device has told with e_1, ..., e_n it has told with (e_1 + ... + e_n)-local differential
privacy. A pull is charged when its arm is accepted, before anything is drawn, and a charge is never taken back. All
experiments of a device share one ledger. A clock that is set back frees nothing; one that is set ahead does, because a
device has no other clock to trust.

The ledger is a SQLite file, and the outbox is in it too. Each transaction is written as a whole and flushed to disk, or
not written at all: neither a crash at any moment nor a loss of power leaves half of one. Threads and processes take
turns. No reward is ever written: no column is for one.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from threading import RLock
from typing import TypeAlias

from ldpbandits.checks import brief, check_epsilon, is_number
from ldpbandits.errors import LedgerError, LimitError, ParameterError
from ldpbandits.spec.curator import CuratorSpec

DAY = 24 * 3600.0
MONTH = 30 * DAY
ROUNDING = Fraction(1, 2**51)
"""The sum is exact, but its terms are rounded: a hundred times 0.07 is a little more than 7, and is let pass for 7."""


MEMORY = ":memory:"

FORMAT = 1
_APPLICATION = 0x4C445042
"""SQLite's application id of a ledger: nothing is written to a file that is something else."""

_TABLES = (
    "CREATE TABLE spent (at REAL NOT NULL, epsilon REAL NOT NULL)",
    """
    CREATE TABLE pulls (
        ticket TEXT PRIMARY KEY,
        url TEXT NOT NULL,
        experiment TEXT NOT NULL,
        arm INTEGER NOT NULL,
        name TEXT NOT NULL,
        curator TEXT NOT NULL,
        default_reward REAL NOT NULL,
        due REAL NOT NULL,
        response REAL,
        tries INTEGER NOT NULL DEFAULT 0,
        next_try REAL NOT NULL DEFAULT 0
    )
    """,
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {FORMAT}",
)

_LOCK = RLock()
"""Held during a transaction of any database of this process, and during a fork: SQLite must be at rest then."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)

Transaction: TypeAlias = sqlite3.Connection
"""A connection with a transaction begun. A function that takes one writes as part of its caller's transaction."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the owner of a device allows: an epsilon a response, and a budget of epsilon over any `window` seconds.

    On the real line, epsilon is promised only for rewards within 1 of each other: that must be allowed by name.

    >>> from ldpbandits import LaplaceCurator
    >>> Limits(epsilon=1, budget=10).check(LaplaceCurator(epsilon=2).spec)
    Traceback (most recent call last):
    ldpbandits.errors.LimitError: the agent asks for epsilon = 2 a response; the owner of this device allows 1
    """

    epsilon: float
    budget: float
    window: float = MONTH
    real_line: bool = False

    def __post_init__(self) -> None:
        """Check that each limit is a number that limits something."""
        check_epsilon(self.epsilon)
        for name in ("budget", "window"):
            value = getattr(self, name)
            if not is_number(value) or value <= 0:
                raise ParameterError(f"{name} must be finite and > 0, got {brief(value)}")

    def check(self, spec: CuratorSpec) -> None:
        """Refuse a curator that the owner does not allow, whatever is left of the budget."""
        if spec.epsilon > self.epsilon:
            raise LimitError(
                f"the agent asks for epsilon = {spec.epsilon:g} a response; "
                f"the owner of this device allows {self.epsilon:g}"
            )
        if not (spec.transform.bounded or self.real_line):
            raise LimitError(
                "the agent asks for rewards on the real line; the owner of this device does not allow that"
            )


class Ledger:
    """The sum of what was spent, in a file. Clients that are to share a budget share a ledger.

    >>> ledger = Ledger(":memory:")  # gone with the process: a real device has a file
    >>> ledger.spent(now=0.0, window=MONTH)
    0.0
    >>> ledger.close()
    """

    def __init__(self, path: Path | str) -> None:
        """Open the ledger, or start one that only this user can read; ':memory:' is for simulated devices."""
        self.database = Database(path)

    @property
    def path(self) -> Path | str:
        """Where the file is."""
        return self.database.path

    def close(self) -> None:
        """Close the file; to close it twice does no harm."""
        self.database.close()

    def spent(self, now: float, window: float) -> float:
        """Return the epsilon spent in the window that ends now. What is dated later counts too: clocks go back."""
        with self.database.transaction() as transaction:
            return float(_sum(transaction, now - window))

    def charge(self, transaction: Transaction, limits: Limits, spec: CuratorSpec, now: float) -> None:
        """Charge one response of this curator, or say which limit of the owner it would break.

        The charge is part of the caller's transaction, which also writes down what it was for.
        """
        limits.check(spec)
        spent = _sum(transaction, now - limits.window)
        if spent + Fraction(spec.epsilon) > Fraction(limits.budget) * (1 + ROUNDING):
            raise LimitError(
                f"epsilon = {spec.epsilon:g} on top of the {float(spent):g} spent is too much: "
                f"the owner of this device allows {limits.budget:g} within {limits.window / DAY:g} days"
            )
        transaction.execute("INSERT INTO spent VALUES (?, ?)", (now, spec.epsilon))


def default_path() -> Path:
    """Return where the ledger of this user is, which all that take part from here share."""
    data = os.environ.get("XDG_DATA_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".local" / "share"
    return Path(data) / "ldpbandits" / "ledger.db"


def _sum(transaction: Transaction, after: float) -> Fraction:
    rows = transaction.execute("SELECT epsilon FROM spent WHERE at > ?", (after,))
    return sum((Fraction(epsilon) for (epsilon,) in rows), Fraction(0))


class Database:
    """One file. It may be used from any thread, and after a fork from any process."""

    def __init__(self, path: Path | str) -> None:
        """Open the file, or make one that only this user can read; ':memory:' is for simulated devices."""
        self.path = path if path == MEMORY else Path(path).absolute()  # a process that forks may also change folder
        self._process = os.getpid()
        self._connection = self._open()

    def close(self) -> None:
        """Close the file; to close it twice does no harm."""
        with _LOCK:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Write all that happens in the block, or nothing of it when the block raises."""
        with _LOCK:
            if os.getpid() != self._process:  # SQLite says that a connection must not be used after a fork
                if self.path == MEMORY:
                    raise LedgerError("a ledger in memory cannot be shared with a forked process")
                self._connection, self._process = self._open(), os.getpid()
            with self._transaction_of(self._connection):
                yield self._connection

    def _open(self) -> sqlite3.Connection:
        connection = None
        try:
            if isinstance(self.path, Path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.touch(mode=0o600)
            connection = sqlite3.connect(self.path, timeout=30, isolation_level=None, check_same_thread=False)
            # What is committed must outlast a loss of power: after one, a response might be drawn anew otherwise.
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA fullfsync = ON")
            with self._transaction_of(connection):
                _prepare(connection)
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, sqlite3.Error | OSError | ValueError):
                raise LedgerError(f"the ledger {self.path} cannot be opened: {error}") from None
            raise
        return connection

    @contextmanager
    def _transaction_of(self, connection: sqlite3.Connection) -> Iterator[None]:
        try:
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise LedgerError(f"the ledger {self.path} cannot be used: {error}") from None


def _prepare(transaction: Transaction) -> None:
    """Make the tables in a new file; refuse a file that is not a ledger of this format, and leave it as it is."""
    application, version, tables = (
        transaction.execute(question).fetchone()[0]
        for question in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    )
    if (application, version, tables) == (0, 0, 0):
        for statement in _TABLES:
            transaction.execute(statement)
    elif (application, version) != (_APPLICATION, FORMAT):
        kind = "of another version" if application == _APPLICATION else "something else than a ledger"
        raise LedgerError(f"the file given as the ledger is {kind}, and left as it is")
