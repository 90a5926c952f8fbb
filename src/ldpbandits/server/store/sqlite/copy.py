"""Copies of a SQLite database: a backup of one that is in use, and the database that is made of a backup.

`VACUUM INTO` reads a moment of the database while the server goes on. SQLite's own backup starts again whenever
something is written, so that beside a busy server it does not end. A copy is made under another name, readable for its
owner only from its first byte on, and gets its name when all of it is on disk.

A restored database is another database than its source: the two may live side by side, and the first has issued tickets
that the copy does not know. Counted by the copy, they would count twice, or for another experiment that has the same
number by now. The copy therefore gets a new identity, which voids every earlier ticket, wherever the signing secrets
come from; and a new signing secret, since a finder of the backup may know the old ones. No ticket is left whose nonce
could come again: the copy starts without nonces, and `forgotten` starts at 0.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from secrets import token_bytes, token_hex

from ldpbandits.errors import DatabaseError, OutputError
from ldpbandits.output.files import guard
from ldpbandits.server.store.sqlite.file import BESIDE, acquire_lock_file, open_read_only
from ldpbandits.server.store.sqlite.schema import migrate

_ALL_BESIDE = (*BESIDE, "-journal")


def back_up(database: Path, copy: Path) -> None:
    """Copy a database, in use or not, to a path that does not exist yet."""
    if os.path.lexists(copy):
        raise OutputError(f"{copy} exists already: a backup replaces no file")
    _copy(database, copy, lambda _: None)


def restore(backup: Path, database: Path) -> None:
    """Make a database of a backup at a path that does not exist yet; earlier tickets are void."""
    for suffix in _ALL_BESIDE:
        beside = Path(f"{database}{suffix}")
        if os.path.lexists(beside):  # SQLite would apply an old log to the new database
            raise OutputError(f"{beside} exists already: a restore replaces no file, move it away first")
    _check_pages(backup)  # before anything is made
    with _translate_copy_errors(database):
        lock = acquire_lock_file(database)
    with closing(lock):
        _copy(backup, database, _renew)


def _check_pages(backup: Path) -> None:
    """Raise DatabaseError when a backup is damaged, such as a truncated one, parts of which can be copied."""
    with closing(open_read_only(backup)) as connection, _translate_copy_errors(backup):
        ((found,),) = connection.execute("PRAGMA integrity_check(1)").fetchall()
    if found != "ok":
        raise DatabaseError(
            f"the backup {backup} is damaged, and 'ldpbandits check' says where: {found.splitlines()[-1]}"
        )


def _renew(connection: sqlite3.Connection) -> None:
    """Give a copy an identity and a signing secret of its own, and delete its nonces."""
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA journal_mode = MEMORY")
    migrate(connection)
    connection.execute("BEGIN")
    connection.execute("UPDATE identity SET value = ?", (token_bytes(16),))
    connection.execute("DELETE FROM secrets")
    connection.execute("INSERT INTO secrets (secret) VALUES (?)", (token_bytes(32),))
    connection.execute("DELETE FROM nonces")
    connection.execute("UPDATE forgotten SET before = 0")
    connection.execute("COMMIT")


def _copy(source: Path, target: Path, change: Callable[[sqlite3.Connection], None]) -> None:
    """Copy, change the copy, and rename it to the target; a copy that fails leaves no file."""
    target = target.absolute()
    part = target.with_name(f".{target.name}.{token_hex(4)}.part")
    with closing(open_read_only(source)) as connection, _translate_copy_errors(source), guard(target):
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            connection.execute("VACUUM INTO ?", (str(part),))
            with closing(sqlite3.connect(part, isolation_level=None)) as copied:
                change(copied)
            _put(part, target)
        finally:
            part.unlink(missing_ok=True)


def _put(part: Path, target: Path) -> None:
    """Rename a file, unless the target exists by now, and wait until both are on disk."""
    _sync(part)
    try:
        target.hardlink_to(part)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        part.rename(target)
    _sync(target.parent)


def _sync(path: Path) -> None:
    with suppress(PermissionError):  # Windows opens no folders
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


@contextmanager
def _translate_copy_errors(database: Path) -> Iterator[None]:
    """Translate SQLite's errors into ours; a full disk is no fault of the input."""
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorname", "") == "SQLITE_FULL":
            raise OutputError(f"the copy cannot be written: {error}", is_full=True) from None
        raise DatabaseError(f"the database {database} cannot be copied: {error}") from None
