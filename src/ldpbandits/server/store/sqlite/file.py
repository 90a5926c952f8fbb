"""The file of a SQLite store: durable, readable by its owner only, and in use by one server at a time."""

import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from ldpbandits.errors import DatabaseError
from ldpbandits.server.store import Exists, Unavailable
from ldpbandits.server.store.sqlite.lock import Hold, check_mounts, in_use
from ldpbandits.server.store.sqlite.schema import check_ours, migrate

_NO_TEMPORARY_FILES = "PRAGMA temp_store = MEMORY"
"""There may be no folder for them, as on a read-only root; and what was in them would be left on a disk."""

_log = logging.getLogger(__name__)


class SqliteFile:
    """One open file. It raises what a `Store` raises; SQLite's own errors do not leave this class."""

    def __init__(self, path: Path, failpoint: Callable[[str], None]) -> None:
        """Open the file, or make a new one; raise DatabaseError when it is in use, is not ours or cannot be opened."""
        # Through a link or by another name it is the same file, with the same lock; and ':memory:' is a file's name.
        given = path.absolute()
        self.path = path = path.resolve()
        self._failpoint = failpoint
        self._lost: str | None = None
        with ExitStack() as on_failure:
            try:
                check_mounts(path)
                self._lock = on_failure.enter_context(closing(lock_beside(path)))
                self._hold = on_failure.enter_context(closing(Hold(path, given)))
                self.connection = on_failure.enter_context(
                    closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False))
                )
                self.connection.execute("PRAGMA synchronous = FULL")
                self.connection.execute(_NO_TEMPORARY_FILES)
                self.connection.execute("PRAGMA secure_delete = ON")  # zeros over all that is removed, from the start
                self.connection.execute("PRAGMA fullfsync = ON")  # macOS flushes its disk only when asked like this
                migrate(self.connection)
                self.connection.execute("PRAGMA foreign_keys = ON")  # a response to an arm that there is not is refused
                self.connection.execute("PRAGMA journal_mode = WAL")  # last: a database that is not ours stays as it is
                self.connection.execute("SELECT count(*) FROM migrations")  # now the log is there
                self._hold.watch()
            except (sqlite3.Error, OSError) as error:
                raise DatabaseError(f"the database {path} cannot be opened: {error}") from None
            on_failure.pop_all()

    def close(self) -> None:
        """Close the file, and then let others have it."""
        self.connection.close()
        self._hold.close()
        self._lock.close()

    def check(self) -> None:
        """Raise `Unavailable`, from then on for good, when the name of the database no longer leads to this file.

        What was acknowledged before may be in a log that has no name any more: it is moved into the database, which may
        have one.
        """
        if self._lost is None:
            lost = self._hold.lost()
            if lost is None:
                return
            self._lost = f"{lost} is gone, or is another file by now"
            _log.error("%s: nothing more is counted until the server is started again", self._lost)
            with suppress(sqlite3.Error):
                self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        raise Unavailable(self._lost)

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """Return all rows of a query."""
        with _errors_of_a_store():
            return self.connection.execute(sql, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Change everything in the block or nothing; when the block has ended, the log of the change is on disk.

        And where a new start will find it: that is looked at after the commit, since before it would be too early.
        """
        with _errors_of_a_store():
            if self._lost is not None:
                raise Unavailable(self._lost)
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self._failpoint("before commit")
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise
        self.check()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Read on a connection of one's own, in any thread, beside whoever writes."""
        if self._lost is not None:
            raise Unavailable(self._lost)
        with (
            _errors_of_a_store(),
            closing(sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True, check_same_thread=False)) as connection,
        ):
            connection.execute(_NO_TEMPORARY_FILES)
            yield connection


def opened_to_read(path: Path) -> sqlite3.Connection:
    """Open a database to be read, in use or not; raise DatabaseError when it is not there, or is not ours."""
    path = path.resolve()
    if not path.is_file():
        raise DatabaseError(f"there is no database {path}")
    try:
        try:
            return _reader(path, "mode=ro")
        except sqlite3.OperationalError as error:
            # In a folder that cannot be written to, SQLite cannot make the files by which it keeps readers and writers
            # apart. Where there is no log nobody writes, and none are needed.
            if not error.sqlite_errorname.startswith("SQLITE_CANTOPEN") or Path(f"{path}-wal").exists():
                raise
            return _reader(path, "mode=ro&immutable=1")
    except sqlite3.Error as error:
        raise DatabaseError(f"the database {path} cannot be read: {error}") from None


def _reader(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.as_uri()}?{mode}", uri=True, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(_NO_TEMPORARY_FILES)
        check_ours(connection, may_be_empty=False)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _errors_of_a_store() -> Iterator[None]:
    """Turn what SQLite raises into what a `Store` raises."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        is_taken = error.sqlite_errorname == "SQLITE_CONSTRAINT_UNIQUE"
        raise (Exists if is_taken else Unavailable)(str(error)) from error
    except (sqlite3.Error, OverflowError) as error:  # an overflow is a number that does not fit in 64 bits
        raise Unavailable(str(error)) from error


def lock_beside(path: Path) -> sqlite3.Connection:
    """Hold a lock beside the database for as long as this process lives: two servers would not see each other's counts.

    SQLite's own lock on a file of its own works on every system, and goes away with the process, however it ends. It
    keeps apart what `Hold` cannot: servers on Windows, and one of ours and an older one, which knows this lock only.
    """
    beside = path.with_name(path.name + "-lock")
    with suppress(OSError):  # one that is there is not opened: to close it would end a lock of this process
        os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # whoever may read it may lock it, too
    lock = sqlite3.connect(beside, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        lock.execute("PRAGMA journal_mode = MEMORY")  # nothing is written, so no file is needed for undoing it
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        lock.close()
        if "locked" in str(error):
            raise in_use(path) from None
        raise
    return lock
