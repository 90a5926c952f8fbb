"""The file behind ledger and outbox: what is in it is there as a whole, and outlasts crashes.

Each transaction is written as a whole and flushed to disk, or not written at all: neither a crash at any moment nor a
loss of power leaves half of one. Threads and processes take turns. No reward is ever written: no column is for one.

A new file appears under its name when it is complete. So an empty one has lost what was in it, and is refused: to start
anew would forget what was spent. So is one that went back (high_water.py), or was deleted or replaced while in use.
"""

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock, local
from time import monotonic
from typing import TypeAlias

from ldpbandits.device.high_water import HighWaterMark
from ldpbandits.device.prefix_sums import add_prefix_sums, total_sums
from ldpbandits.errors import LedgerError

MEMORY = ":memory:"
LEDGER_BUSY_TIMEOUT_S = 30.0
"""How long to wait for other threads and processes that use the ledger."""

FORMAT = 2
_APPLICATION = 0x4C445042
"""SQLite's application id of a ledger: nothing is written to a file that is something else."""

_TABLES = (
    """
    CREATE TABLE spent (
        number INTEGER PRIMARY KEY,
        accepted_at REAL NOT NULL,
        epsilon REAL NOT NULL,
        left_at REAL,
        seen_ahead_at REAL
    )
    """,
    """
    CREATE TABLE pulls (
        charge INTEGER PRIMARY KEY REFERENCES spent (number),
        ticket TEXT NOT NULL UNIQUE,
        url TEXT NOT NULL,
        experiment TEXT NOT NULL,
        arm INTEGER NOT NULL,
        name TEXT NOT NULL,
        curator TEXT NOT NULL,
        accepted_at REAL NOT NULL,
        report_at REAL NOT NULL,
        at_once INTEGER NOT NULL,
        response REAL NOT NULL,
        is_observed INTEGER NOT NULL DEFAULT 0,
        tries INTEGER NOT NULL DEFAULT 0,
        next_try REAL NOT NULL DEFAULT 0
    )
    """,
    """
    CREATE TABLE sticky (
        url TEXT NOT NULL,
        experiment TEXT NOT NULL,
        arm INTEGER NOT NULL,
        name TEXT NOT NULL,
        ticket TEXT NOT NULL,
        since REAL NOT NULL,
        until REAL NOT NULL,
        PRIMARY KEY (url, experiment)
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


class Database:
    """One file. It may be used from any thread, and after a fork from any process."""

    def __init__(self, path: Path | str) -> None:
        """Open the file, or make one that only this user can read; ':memory:' is for simulated devices."""
        self.path = path if path == MEMORY else Path(path).absolute()  # a process that forks may also change folder
        self._process = os.getpid()
        self._mark = HighWaterMark(self.path if isinstance(self.path, Path) else None)
        self._inode: int | None = None
        self._waiting = local()
        self._is_begun = False
        """A transaction is under way, in the thread that holds the lock."""
        self._connection = self._open()

    def close(self) -> None:
        """Close the file; to close it twice does no harm."""
        self._busy_timeout()
        with _LOCK:
            if os.getpid() == self._process:  # SQLite says that a connection must not even be closed after a fork
                self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Write all that happens in the block, or nothing of it when the block raises. A block within joins it."""
        busy_timeout = self._busy_timeout()
        with _LOCK:  # and not by acquire(), after which an interrupt would leave it locked
            self._check_inode()
            if os.getpid() != self._process:  # SQLite says that a connection must not be used after a fork
                if self.path == MEMORY:
                    raise LedgerError("a ledger in memory cannot be shared with a forked process")
                self._connection, self._process = self._open(), os.getpid()
            if self._is_begun:
                yield self._connection
                return
            mark = self._mark.read()
            with self._transaction_of(self._connection, busy_timeout):
                before = total_sums(self._connection)
                self._mark.check(mark, before)
                yield self._connection
                after = total_sums(self._connection)
            if after != before:
                self._mark.write(after)

    @contextmanager
    def deadline(self, deadline: float | None) -> Iterator[None]:
        """Let this thread wait for others until this deadline on the monotonic clock at most, while in the block.

        None: the thread waits as long as any.
        """
        outer = self._deadline()
        self._waiting.deadline = deadline
        try:
            yield
        finally:
            self._waiting.deadline = outer

    def _deadline(self) -> float | None:
        deadline: float | None = getattr(self._waiting, "deadline", None)
        return deadline

    def _busy_timeout(self) -> float:
        """Return how long to wait for other processes; a thread with a deadline waits for other threads first."""
        deadline = self._deadline()
        if deadline is None:
            return LEDGER_BUSY_TIMEOUT_S
        if not _LOCK.acquire(timeout=max(deadline - monotonic(), 0)):
            raise LedgerError(f"the ledger {self.path} cannot be used: another thread is using it")
        _LOCK.release()
        return max(deadline - monotonic(), 0.0)

    def _check_inode(self) -> None:
        """Refuse a file that is not the one that was opened: SQLite would go on with one that has no name any more."""
        if isinstance(self.path, Path):
            with suppress(OSError):
                if self.path.stat().st_ino == self._inode:
                    return
            raise LedgerError(
                f"the ledger {self.path} was deleted or replaced while in use: put it back, or start this program again"
            )

    def _open(self) -> sqlite3.Connection:
        try:
            if not isinstance(self.path, Path):
                return _connect(self.path, _make_tables)
            mark = self._mark.read()
            if not self.path.exists():
                self._mark.check_present(mark)
                self.path.parent.mkdir(parents=True, exist_ok=True)
                _make_file(self.path)
            if self.path.stat().st_size == 0:
                raise LedgerError(f"the ledger {self.path} is damaged: the file is empty, and left as it is")
            connection = _connect(self.path, _check_format)
            self._inode = self.path.stat().st_ino
        except (sqlite3.Error, OSError, ValueError) as error:
            raise LedgerError(f"the ledger {self.path} cannot be opened: {error}") from None
        return connection

    @contextmanager
    def _transaction_of(self, connection: sqlite3.Connection, busy_timeout: float) -> Iterator[None]:
        try:
            try:
                if connection.in_transaction:  # an interrupt came just after the last one had begun
                    connection.execute("ROLLBACK")
                connection.execute(f"PRAGMA busy_timeout = {round(1000 * busy_timeout)}")
                connection.execute("BEGIN IMMEDIATE")
                self._is_begun = True
                yield
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            finally:
                self._is_begun = False
        except sqlite3.Error as error:
            raise LedgerError(f"the ledger {self.path} cannot be used: {error}") from None


def _connect(path: Path | str, begin: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
    """Connect to a file that is there, and begin with this: SQLite must not make a file."""
    uri = path.as_uri() + "?mode=rw" if isinstance(path, Path) else path
    connection = sqlite3.connect(
        uri, uri=isinstance(path, Path), timeout=LEDGER_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    try:
        # What is committed must outlast a loss of power: after one, a response might be drawn anew otherwise.
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA fullfsync = ON")
        begin(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _make_tables(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for statement in _TABLES:
        connection.execute(statement)
    add_prefix_sums(connection)
    connection.execute("COMMIT")


def _make_file(path: Path) -> None:
    """Make a new file elsewhere, and give it its name at the end; if another process was first, keep that one's."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", suffix=".new", dir=path.parent)  # for its owner only
    os.close(handle)
    draft = Path(name)
    try:
        _connect(draft, _make_tables).close()
        with suppress(FileExistsError):
            _name(draft, path)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def _name(draft: Path, path: Path) -> None:
    """Give a file its name, unless there is one of that name: then it is a FileExistsError."""
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if path.exists():
            raise FileExistsError(path) from None
        draft.rename(path)


def _check_format(connection: sqlite3.Connection) -> None:
    """Refuse a file that is not a ledger of this format, and leave it as it is."""
    application, version = (
        connection.execute(f"PRAGMA {mark}").fetchone()[0] for mark in ("application_id", "user_version")
    )
    if (application, version) != (_APPLICATION, FORMAT):
        kind = "of another version" if application == _APPLICATION else "something else than a ledger"
        raise LedgerError(f"the file given as the ledger is {kind}, and left as it is")
    if not _has_prefix_sums(connection):
        connection.execute("BEGIN IMMEDIATE")
        if not _has_prefix_sums(connection):  # nobody else was first
            add_prefix_sums(connection)
        connection.execute("COMMIT")


def _has_prefix_sums(connection: sqlite3.Connection) -> bool:
    """Tell whether the file has running sums; those of earlier versions have none."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'sums'").fetchone() is not None
