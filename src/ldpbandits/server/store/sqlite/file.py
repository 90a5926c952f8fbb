"""The file of a SQLite store: durable, readable by its owner only, in use by one server at a time, under one name.

SQLite writes changes to a log first, and finds the log by the name of the database. A file with two names has two logs,
each without the changes in the other; a file that is mounted alone, as into a container, leaves its log behind outside
the mount; and changes to a deleted file are lost when its last user closes it. A server refuses the first two, and
stops acknowledging when it notices the third, or that a link was redirected.

The lock is on the file itself, since a lock beside it is another one under another name. It is flock(2)'s, which has
nothing to do with SQLite's own locks (those of fcntl(2)) on a local disk, and which this process cannot lose by
accident: fcntl's are dropped when any descriptor of the file is closed. For the same reason ours is closed last.
On network file systems neither holds: there flock is either made of fcntl's locks and clashes with SQLite's, or is
known to one machine only; and the index of SQLite's log is memory, which machines do not share. They are refused.
"""

import logging
import os
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from ldpbandits.errors import DatabaseError
from ldpbandits.server.store import Exists, Unavailable
from ldpbandits.server.store.sqlite.schema import check_tables, migrate

if sys.platform != "win32":
    import fcntl

_NO_TEMPORARY_FILES = "PRAGMA temp_store = MEMORY"
"""A read-only root has no folder for temporary files, and their content would stay on a disk."""

BESIDE = ("", "-wal", "-shm")
"""The database, its log, and the index of the log."""

REMOTE = frozenset({b"nfs", b"nfs4", b"cifs", b"smb3", b"smbfs", b"fuse.sshfs"})
_MOUNTS = Path("/proc/self/mountinfo")
_DRIVE = re.compile(rb"(?:\S+ ){4}(\S+) .*? - (\S+) ")
"""A line of Linux's list of mounts: its fifth word is where, and the first after the dash the kind of file system."""

_log = logging.getLogger(__name__)


class SqliteFile:
    """One open file. It raises what a `Store` raises; SQLite's own errors do not leave this class."""

    def __init__(self, path: Path, failpoint: Callable[[str], None]) -> None:
        """Open the file, or create it; raise DatabaseError when it is in use, is not ours or cannot be opened."""
        # A path through a link is the same file, with the same lock; and ':memory:' is a file's name.
        given = path.absolute()
        self.path = path = path.resolve()
        self._failpoint = failpoint
        self._lost_reason: str | None = None
        with ExitStack() as on_failure:
            try:
                check_mounts(path)
                self._lock = on_failure.enter_context(closing(acquire_lock_file(path)))
                self._file_lock = on_failure.enter_context(closing(FileLock(path, given)))
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
                self._file_lock.watch()
            except (sqlite3.Error, OSError) as error:
                raise DatabaseError(f"the database {path} cannot be opened: {error}") from None
            on_failure.pop_all()

    def close(self) -> None:
        """Close the file, then release its locks."""
        self.connection.close()
        self._file_lock.close()
        self._lock.close()

    def check(self) -> None:
        """Raise `Unavailable`, from then on for good, when the name of the database no longer leads to this file.

        Acknowledged responses may be in a log that was deleted: a checkpoint moves them into the database, which may
        still have a name.
        """
        if self._lost_reason is None:
            lost = self._file_lock.find_lost()
            if lost is None:
                return
            self._lost_reason = f"{lost} was deleted, moved or replaced"
            _log.error("%s: the server counts no more responses until it is restarted", self._lost_reason)
            with suppress(sqlite3.Error):
                self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        raise Unavailable(self._lost_reason)

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """Return all rows of a query, translating its errors."""
        with _translate_errors():
            return self.connection.execute(sql, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit the whole block or nothing; when it ends, the log of the change is on disk.

        The check that a restart finds this file follows the commit: before it, the check would be too early.
        """
        with _translate_errors():
            if self._lost_reason is not None:
                raise Unavailable(self._lost_reason)
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
        """Read on a separate connection, in any thread, beside the one that writes."""
        if self._lost_reason is not None:
            raise Unavailable(self._lost_reason)
        with (
            _translate_errors(),
            closing(sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True, check_same_thread=False)) as connection,
        ):
            connection.execute(_NO_TEMPORARY_FILES)
            yield connection


def open_read_only(path: Path) -> sqlite3.Connection:
    """Open a database read-only, in use or not; raise DatabaseError when it does not exist, or is not ours."""
    path = path.resolve()
    if not path.is_file():
        raise DatabaseError(f"there is no database {path}")
    try:
        try:
            return _reader(path, "mode=ro")
        except sqlite3.OperationalError as error:
            # In a read-only folder SQLite cannot create the files that synchronise readers and writers. Without a log
            # there is no writer, and they are not needed.
            if not error.sqlite_errorname.startswith("SQLITE_CANTOPEN") or Path(f"{path}-wal").exists():
                raise
            return _reader(path, "mode=ro&immutable=1")
    except sqlite3.Error as error:
        raise DatabaseError(f"the database {path} cannot be read: {error}") from None


def _reader(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.as_uri()}?{mode}", uri=True, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(_NO_TEMPORARY_FILES)
        check_tables(connection, may_be_empty=False)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Translate SQLite's errors into those of a `Store`."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        is_taken = error.sqlite_errorname == "SQLITE_CONSTRAINT_UNIQUE"
        raise (Exists if is_taken else Unavailable)(str(error)) from error
    except (sqlite3.Error, OverflowError) as error:  # a number that does not fit in 64 bits overflows
        raise Unavailable(str(error)) from error


def acquire_lock_file(path: Path) -> sqlite3.Connection:
    """Lock a file beside the database while this process lives: two servers would not see each other's counts.

    SQLite's own lock on a separate file works on every system, and ends with the process. It excludes what `FileLock`
    cannot: servers on Windows, and an older server, which knows this lock only.
    """
    beside = path.with_name(path.name + "-lock")
    with suppress(OSError):  # an existing file is not opened: closing it would end a lock of this process
        os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # a user who can read it could lock it
    lock = sqlite3.connect(beside, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        lock.execute("PRAGMA journal_mode = MEMORY")  # nothing is written, so no rollback journal is needed
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        lock.close()
        if "locked" in str(error):
            raise in_use_error(path) from None
        raise
    return lock


class FileLock:
    """The exclusive lock of a database file. It checks whether the file's name still leads to it."""

    def __init__(self, path: Path, given: Path) -> None:
        """Create the file if missing, and lock it; raise DatabaseError when it is in use or has two names.

        `given` is the path that a restart would open: it may contain links, which can be redirected.
        """
        self._path, self._given = path, given
        self._file = open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "rb", buffering=0)  # noqa: PTH123, SIM115
        self._found: dict[str, os.stat_result] = {}
        try:
            self._take()
        except BaseException:
            self.close()
            raise

    def _take(self) -> None:
        if sys.platform != "win32":
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise in_use_error(self._path) from None
        names = os.fstat(self._file.fileno()).st_nlink
        if names > 1:
            told = f"the database {self._path} has {names} names (hard links), of which only one leads to its log"
            raise DatabaseError(f"{told}: remove the others")
        if sys.platform != "win32" and os.fstat(self._file.fileno()).st_size == 0:
            with suppress(PermissionError):  # another user owns it
                os.fchmod(self._file.fileno(), 0o600)  # a file made with `touch` has the default permissions

    def watch(self) -> None:
        """Record the inodes of the database and its log files; warn if other users may read them."""
        for suffix in BESIDE:
            place = f"{self._path}{suffix}"
            self._found[place] = os.stat(place)  # noqa: PTH116 - at each commit, so it must be quick
        if not os.path.samestat(self._found[str(self._path)], os.fstat(self._file.fileno())):
            raise DatabaseError(f"the database {self._path} was replaced while it was opened")
        self._found[str(self._given)] = self._found[str(self._path)]
        if sys.platform != "win32" and os.fstat(self._file.fileno()).st_mode & 0o077:
            told = "other users may use the database %s, which holds the signing secret: chmod 600"
            _log.warning(told, self._path)

    def find_lost(self) -> str | None:
        """Return the name of a file that is missing or was replaced; None when all are unchanged."""
        for name, found in self._found.items():
            try:
                if not os.path.samestat(os.stat(name), found):  # noqa: PTH116 - as above
                    return name
            except OSError:
                return name
        return None

    def close(self) -> None:
        """Release the file. SQLite's connections must be closed before: this ends their locks."""
        self._file.close()


def in_use_error(path: Path) -> DatabaseError:
    """Return the error for a database that another server uses."""
    return DatabaseError(f"the database {path} is in use by another server")


def check_mounts(path: Path, mounts: bytes | None = None) -> None:
    """Raise DatabaseError when a file is its own mount point, or is on a network file system.

    `mounts` is Linux's list; systems without one are not checked.
    """
    if mounts is None:
        mounts = _MOUNTS.read_bytes() if _MOUNTS.exists() else b""
    name, place, kind = os.fsencode(path), b"", b""
    for line in mounts.splitlines():
        found = _DRIVE.match(line)
        if found is None:
            continue
        point = re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), found[1])
        is_above = name == point or name.startswith(point.rstrip(b"/") + b"/")
        if is_above and len(point) >= len(place):  # the later of two mounts on one path is visible
            place, kind = point, found[2]
    if kind in REMOTE:
        told = (
            f"the database {path} is on a network file system ({kind.decode()}), where two servers are not kept apart"
        )
        raise DatabaseError(f"{told}: put it on a local disk")
    if place == name:
        told = f"the database {path} is mounted as a single file, so that its log beside it would be lost"
        raise DatabaseError(f"{told}: mount its folder instead")
