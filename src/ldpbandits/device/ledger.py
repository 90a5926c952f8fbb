"""What privacy this device has spent, what its owner allows, and which pulls are under way.

One file for all experiments. A pull is charged when its arm is accepted, before anything is drawn; a charge is never
taken back. Epsilons add up: what a device has told with e_1, ..., e_n it has told with (e_1 + ... + e_n)-local
differential privacy. Charge, pull and response are rows of a SQLite file, each written and flushed in a transaction, so
that a crash at any moment, and any number of processes, leave no charge out. A clock that is set back frees nothing;
one that is set ahead does, since there is no other clock to trust. No reward is ever written.
"""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from threading import RLock
from typing import Any

from ldpbandits.checks import check_epsilon, is_number, shown
from ldpbandits.errors import LedgerError, LimitError, ParameterError, TicketError
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.transforms import RealLine
from ldpbandits.types import Arm, Response

DAY = 24 * 3600.0
MONTH = 30 * DAY
MEMORY = ":memory:"
ROUNDING = Fraction(1, 2**51)
"""The sum is exact, but its terms are rounded: a hundred times 0.07 is a little more than 7, and is let pass for 7."""

FORMAT = 1
_NAME = 0x4C445042
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
    f"PRAGMA application_id = {_NAME}",
    f"PRAGMA user_version = {FORMAT}",
)
_FIELDS = "ticket, url, experiment, arm, name, curator, default_reward, due, response, tries, next_try"

_LOCK = RLock()
"""Held during a transaction of any ledger of this process, and by who forks: SQLite must be at rest then."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


@dataclass(frozen=True, slots=True)
class Limits:
    """What the owner of a device allows: an epsilon a response, and a budget of epsilon over any `window` seconds.

    On the real line, epsilon is promised only for rewards within 1 of each other: that must be allowed by name.
    """

    epsilon: float
    budget: float
    window: float = MONTH
    real_line: bool = False

    def __post_init__(self) -> None:
        """Check all three."""
        check_epsilon(self.epsilon)
        for name in ("budget", "window"):
            value = getattr(self, name)
            if not is_number(value) or value <= 0:
                raise ParameterError(f"{name} must be finite and > 0, got {shown(value)}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A pull under way: asked for by whom, what is promised, and the response once it is drawn."""

    ticket: str
    url: str
    experiment: str
    arm: Arm
    name: str
    spec: CuratorSpec
    default_reward: float
    due: float
    """When the default takes the place of a reward that has not come."""
    response: Response | None = None
    tries: int = 0
    next_try: float = 0.0


class Ledger:
    """The file. Every method is one transaction, and may be called from any thread or process."""

    def __init__(self, path: Path | str) -> None:
        """Open the ledger, or start one that only this user can read; ':memory:' is for simulated devices."""
        self.path = path if path == MEMORY else Path(path).absolute()  # a process that forks may also change folder
        self._process = os.getpid()
        self._connection = self._open()

    def close(self) -> None:
        """Let go of the file."""
        with _LOCK:
            self._connection.close()

    def spent(self, now: float, window: float) -> float:
        """Return the epsilon spent in the window that ends now. What is dated later counts too: clocks go back."""
        with self._transaction() as connection:
            return float(_spent(connection, now, window))

    def charge(self, limits: Limits, entry: Entry, now: float) -> None:
        """Charge a pull and note that it is open, or say which limit of the owner it breaks."""
        epsilon = entry.spec.epsilon
        if epsilon > limits.epsilon:
            allowed = f"the owner of this device allows {limits.epsilon:g}"
            raise LimitError(f"the agent asks for epsilon = {epsilon:g} a response; {allowed}")
        if isinstance(entry.spec.transform, RealLine) and not limits.real_line:
            raise LimitError(
                "the agent asks for rewards on the real line; the owner of this device does not allow that"
            )
        with self._transaction() as connection:
            spent = _spent(connection, now, limits.window)
            if spent + Fraction(epsilon) > Fraction(limits.budget) * (1 + ROUNDING):
                allowed = f"the owner of this device allows {limits.budget:g} within {limits.window / DAY:g} days"
                raise LimitError(f"epsilon = {epsilon:g} on top of the {float(spent):g} spent is too much: {allowed}")
            if connection.execute("SELECT 1 FROM pulls WHERE ticket = ?", (entry.ticket,)).fetchone():
                raise TicketError("the agent has handed out this ticket before")
            connection.execute("INSERT INTO spent VALUES (?, ?)", (now, epsilon))
            connection.execute(
                f"INSERT INTO pulls ({_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, 0, 0)",  # noqa: S608 - our names
                (
                    entry.ticket,
                    entry.url,
                    entry.experiment,
                    entry.arm,
                    entry.name,
                    json.dumps(entry.spec.to_json()),
                    entry.default_reward,
                    entry.due,
                ),
            )

    def pull(self, ticket: str, url: str, experiment: str) -> Entry:
        """Return a pull of an experiment that awaits its reward."""
        with self._transaction() as connection:
            row = connection.execute(
                f"SELECT {_FIELDS} FROM pulls WHERE ticket = ? AND url = ? AND experiment = ?",  # noqa: S608 - our names
                (ticket, url, experiment),
            ).fetchone()
        if row is None or (entry := _entry(row)).response is not None:
            raise TicketError("this pull has had its response, or is not of this device and experiment")
        return entry

    def answer(self, ticket: str, response: Response, next_try: float) -> None:
        """Keep the one response that this pull will ever have; others leave it alone until `next_try`."""
        with self._transaction() as connection:
            done = connection.execute(
                "UPDATE pulls SET response = ?, next_try = ? WHERE ticket = ? AND response IS NULL",
                (response, next_try, ticket),
            )
            if done.rowcount != 1:
                raise TicketError("this pull has had its response")

    def pulls(self, url: str, experiment: str) -> list[Entry]:
        """Return every pull of an experiment that is not done with, the oldest first."""
        with self._transaction() as connection:
            rows = connection.execute(
                f"SELECT {_FIELDS} FROM pulls WHERE url = ? AND experiment = ? ORDER BY rowid",  # noqa: S608 - our names
                (url, experiment),
            ).fetchall()
        return [_entry(row) for row in rows]

    def postpone(self, ticket: str, next_try: float) -> None:
        """Note that sending has failed once more, and when to try again."""
        with self._transaction() as connection:
            connection.execute("UPDATE pulls SET tries = tries + 1, next_try = ? WHERE ticket = ?", (next_try, ticket))

    def done(self, ticket: str) -> None:
        """Forget a pull whose response has arrived, or never can. What it has cost stays."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM pulls WHERE ticket = ?", (ticket,))

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
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with _LOCK:
            if os.getpid() != self._process:  # a connection does not survive fork
                if self.path == MEMORY:
                    raise LedgerError("a ledger in memory cannot be shared with a forked process")
                self._connection, self._process = self._open(), os.getpid()
            with self._transaction_of(self._connection):
                yield self._connection

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


def default_path() -> Path:
    """Return the ledger of this user on this device, shared by all that take part from here."""
    data = os.environ.get("XDG_DATA_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".local" / "share"
    return Path(data) / "ldpbandits" / "ledger.db"


def _prepare(connection: sqlite3.Connection) -> None:
    """Make the tables in a new file, and leave any other alone."""
    name, version, tables = (
        connection.execute(question).fetchone()[0]
        for question in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    )
    if (name, version, tables) == (0, 0, 0):
        for statement in _TABLES:
            connection.execute(statement)
    elif (name, version) != (_NAME, FORMAT):
        kind = "of another version" if name == _NAME else "something else than a ledger"
        raise LedgerError(f"the file given as the ledger is {kind}, and left as it is")


def _spent(connection: sqlite3.Connection, now: float, window: float) -> Fraction:
    rows = connection.execute("SELECT epsilon FROM spent WHERE at > ?", (now - window,))
    return sum((Fraction(epsilon) for (epsilon,) in rows), Fraction(0))


def _entry(row: tuple[Any, ...]) -> Entry:
    ticket, url, experiment, arm, name, curator, default_reward, due, response, tries, next_try = row
    try:
        spec = CuratorSpec.from_json(json.loads(curator))
    except ValueError as error:  # of JSON, or of the spec
        raise LedgerError(f"the ledger is damaged: {error}") from None
    return Entry(ticket, url, experiment, arm, name, spec, default_reward, due, response, tries, next_try)
