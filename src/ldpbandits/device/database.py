"""The file behind a device's ledger and outbox: SQLite, for one user, and safe against crashes, threads and forks.

Each transaction is written as a whole and flushed to disk, or not written at all: neither a crash at any moment nor a
loss of power leaves half of one. Threads and processes take turns. No reward is ever written: no column is for one.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import TypeAlias

from ldpbandits.errors import LedgerError

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
