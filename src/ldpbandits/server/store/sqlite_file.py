"""The file of a SQLite store: durable, readable by its owner only, and in use by one server at a time."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from ldpbandits.errors import DatabaseError
from ldpbandits.server.store import Exists, Unavailable
from ldpbandits.server.store.sqlite_schema import migrate


class SqliteFile:
    """One open file. It raises what a `Store` raises; SQLite's own errors do not leave this class."""

    def __init__(self, path: Path, failpoint: Callable[[str], None]) -> None:
        """Open the file, or make a new one; raise DatabaseError when it is in use, is not ours or cannot be opened."""
        # Through a link or by another name it is the same file, with the same lock; and ':memory:' is a file's name.
        self.path = path = path.resolve()
        self._failpoint = failpoint
        with ExitStack() as on_failure:
            try:
                self._lock = on_failure.enter_context(closing(_lock(path)))
                if not path.exists():
                    path.touch(mode=0o600)
                self.connection = on_failure.enter_context(
                    closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False))
                )
                self.connection.execute("PRAGMA synchronous = FULL")
                self.connection.execute("PRAGMA secure_delete = ON")  # zeros over all that is removed, from the start
                self.connection.execute("PRAGMA fullfsync = ON")  # macOS flushes its disk only when asked like this
                migrate(self.connection)
                self.connection.execute("PRAGMA foreign_keys = ON")  # a response to an arm that there is not is refused
                self.connection.execute("PRAGMA journal_mode = WAL")  # last: a database that is not ours stays as it is
            except (sqlite3.Error, OSError) as error:
                raise DatabaseError(f"the database {path} cannot be opened: {error}") from None
            on_failure.pop_all()

    def close(self) -> None:
        """Close the file, and then let others have it."""
        self.connection.close()
        self._lock.close()

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """Return all rows of a query."""
        with _errors_of_a_store():
            return self.connection.execute(sql, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Change everything in the block or nothing; when the block has ended, the log of the change is on disk."""
        with _errors_of_a_store():
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self._failpoint("before commit")
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Read on a connection of one's own, in any thread, beside whoever writes."""
        with (
            _errors_of_a_store(),
            closing(sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True, check_same_thread=False)) as connection,
        ):
            yield connection


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


def _lock(path: Path) -> sqlite3.Connection:
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
