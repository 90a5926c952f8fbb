"""The SQLite file of ledger and outbox: transactions are atomic and durable.

Each transaction is written as a whole and flushed to disk, or not written at all: neither a crash nor a loss of power
leaves half of one. Threads and processes take turns. No column holds a reward.

A new file gets its name when it is complete (atomic rename). An empty file has therefore lost its content, and is
refused: a new ledger would forget what was spent. A file that was deleted or replaced while in use, or that was rolled
back, is refused too.

**The high-water mark.** A backup that replaces a ledger forgets the charges since. A second file therefore holds the
largest sums that the ledger has had: of accepted epsilons, and of epsilons that have left. Both only grow. The mark is
written after the ledger, which is then on the disk: it is never ahead of a healthy ledger, whatever crashes when, and
needs no flush. A mark that is lost, old or half written detects less, and refuses nothing. It is read before the
ledger, since another process may change both meanwhile.
"""

import os
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from threading import RLock, local
from time import monotonic
from typing import TypeAlias

from ldpbandits.device.prefix_sums import UNIT, Sums, add_prefix_sums, total_sums
from ldpbandits.errors import LedgerError

MEMORY = ":memory:"
LEDGER_BUSY_TIMEOUT_S = 30.0
"""Seconds to wait for other threads and processes that use the ledger."""

SUFFIX = ".high-water"
_NOTHING: Sums = (Fraction(0), Fraction(0))
_FILE = re.compile(rb"((\d{40}) (\d{40})\n)\1", re.ASCII)
"""Both sums in units of 2^-72, written twice: a mark that was half written does not count."""

FORMAT = 2
_APPLICATION = 0x4C445042
"""SQLite's application id of a ledger: a file with another id is never written to."""

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
    """One SQLite file, for any thread, and after a fork for any process."""

    def __init__(self, path: Path | str) -> None:
        """Open the file, or create one that only this user can read; ':memory:' is for simulated devices."""
        self.path = path if path == MEMORY else Path(path).absolute()  # a process that forks may also change folder
        self._process = os.getpid()
        self._mark = HighWaterMark(self.path if isinstance(self.path, Path) else None)
        self._inode: int | None = None
        self._waiting = local()
        self._is_begun = False
        """A transaction is under way, in the thread that holds the lock."""
        self._connection = self._open()

    def close(self) -> None:
        """Close the file; closing it twice is harmless."""
        self._busy_timeout()
        with _LOCK:
            if os.getpid() == self._process:  # SQLite forbids even closing a connection after a fork
                self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Commit the writes of the block, or roll all back when the block raises. An inner block joins the outer."""
        busy_timeout = self._busy_timeout()
        with _LOCK:  # and not by acquire(), after which an interrupt would leave it locked
            self._check_inode()
            if os.getpid() != self._process:  # SQLite forbids using a connection after a fork
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
        """Bound the waits of this thread for other threads and processes by a deadline on the monotonic clock.

        It holds within the block. None: the thread waits for `LEDGER_BUSY_TIMEOUT_S`.
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
        """Return the seconds to wait for other processes; a thread with a deadline waits for other threads first."""
        deadline = self._deadline()
        if deadline is None:
            return LEDGER_BUSY_TIMEOUT_S
        if not _LOCK.acquire(timeout=max(deadline - monotonic(), 0)):
            raise LedgerError(f"the ledger {self.path} cannot be used: another thread is using it")
        _LOCK.release()
        return max(deadline - monotonic(), 0.0)

    def _check_inode(self) -> None:
        """Refuse a path whose inode has changed: SQLite would go on writing to the deleted file."""
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
    """Connect to an existing file, and call `begin` with the connection; SQLite must not create the file."""
    uri = path.as_uri() + "?mode=rw" if isinstance(path, Path) else path
    connection = sqlite3.connect(
        uri, uri=isinstance(path, Path), timeout=LEDGER_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    try:
        # A commit must outlast a loss of power; otherwise a response might be drawn anew afterwards.
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
    """Create a temporary file, and rename it when it is complete; if another process was first, keep its file."""
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
    """Give a file its name; raise FileExistsError if that name is taken."""
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if path.exists():
            raise FileExistsError(path) from None
        draft.rename(path)


def _check_format(connection: sqlite3.Connection) -> None:
    """Refuse a file that is not a ledger of this format, without changing it."""
    application, version = (
        connection.execute(f"PRAGMA {mark}").fetchone()[0] for mark in ("application_id", "user_version")
    )
    if (application, version) != (_APPLICATION, FORMAT):
        kind = "of another version" if application == _APPLICATION else "not a ledger"
        raise LedgerError(f"the file given as the ledger is {kind}, and left as it is")
    if not _has_prefix_sums(connection):
        connection.execute("BEGIN IMMEDIATE")
        if not _has_prefix_sums(connection):  # nobody else was first
            add_prefix_sums(connection)
        connection.execute("COMMIT")


def _has_prefix_sums(connection: sqlite3.Connection) -> bool:
    """Tell whether the file has prefix sums; files of earlier versions have none."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'sums'").fetchone() is not None


class HighWaterMark:
    """The largest sums that this ledger has had, as far as this process and the file beside it know."""

    def __init__(self, ledger: Path | None) -> None:
        """Keep the mark of this ledger; None is a ledger in memory, without a file."""
        self._ledger = ledger
        self._seen = _NOTHING

    @cached_property
    def _path(self) -> Path | None:
        """The path of the mark, beside the ledger's file; symbolic links are resolved."""
        return None if self._ledger is None else Path(f"{self._ledger.resolve()}{SUFFIX}")

    def read(self) -> Sums:
        """Return the mark. Call it before the ledger is read."""
        if self._path is None:
            return self._seen
        with suppress(OSError):  # no mark, or one that only its owner may read
            match = _FILE.fullmatch(self._path.read_bytes())
            if match is not None:
                return _largest((int(match[2]) * UNIT, int(match[3]) * UNIT), self._seen)
        return self._seen

    def check_present(self, mark: Sums) -> None:
        """Refuse to create a ledger where the mark says that there was one."""
        if mark != _NOTHING:
            raise LedgerError(
                f"the ledger {self._ledger} is gone, and with it what was spent: put it back. To begin anew with a "
                f"full budget, delete {self._path} and start this program again"
            )

    def check(self, mark: Sums, sums: Sums) -> None:
        """Refuse a ledger whose sums are smaller than the mark: it was rolled back."""
        if _largest(mark, sums) != sums:
            raise LedgerError(
                f"the ledger {self._ledger} is older than it was, as after a restored backup: put the newest one back. "
                f"To go on without what was spent since, delete {self._path} and start this program again"
            )

    def write(self, sums: Sums) -> None:
        """Raise the mark to the sums of a ledger that is on the disk."""
        self._seen = _largest(self._seen, sums)
        if self._ledger is None or self._path is None:
            return
        line = b"%040d %040d\n" % (int(sums[0] / UNIT), int(sums[1] / UNIT))
        flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        with suppress(OSError):  # a full disk: the mark is a safeguard only
            handle = os.open(self._path, flags, self._ledger.stat().st_mode & 0o666)
            try:
                os.write(handle, 2 * line)
            finally:
                os.close(handle)


def _largest(one: Sums, other: Sums) -> Sums:
    return max(one[0], other[0]), max(one[1], other[1])
