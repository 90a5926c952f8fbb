"""Locks a database file: one server, one file, one name, so that no acknowledged response is lost.

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
import sys
from contextlib import suppress
from pathlib import Path

from ldpbandits.errors import DatabaseError

if sys.platform != "win32":
    import fcntl

BESIDE = ("", "-wal", "-shm")
"""The database, its log, and the index of the log."""

REMOTE = frozenset({b"nfs", b"nfs4", b"cifs", b"smb3", b"smbfs", b"fuse.sshfs"})
_MOUNTS = Path("/proc/self/mountinfo")
_DRIVE = re.compile(rb"(?:\S+ ){4}(\S+) .*? - (\S+) ")
"""A line of Linux's list of mounts: its fifth word is where, and the first after the dash the kind of file system."""

_log = logging.getLogger(__name__)


class FileLock:
    """The exclusive lock of a database file. It checks whether the file's name still leads to it."""

    def __init__(self, path: Path, given: Path) -> None:
        """Create the file if missing, and lock it; raise DatabaseError when it is in use or has two names.

        `given` is the path that a restart would open: it may contain links, which can be redirected.
        """
        self._path, self._given = path, given
        self._file = open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "rb", buffering=0)  # noqa: PTH123, SIM115
        self._inodes: dict[str, tuple[int, int]] = {}
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
            self._inodes[place] = _inode(os.stat(place))  # noqa: PTH116 - at each commit, so it must be quick
        if self._inodes[str(self._path)] != _inode(os.fstat(self._file.fileno())):
            raise DatabaseError(f"the database {self._path} was replaced while it was opened")
        self._inodes[str(self._given)] = self._inodes[str(self._path)]
        if sys.platform != "win32" and os.fstat(self._file.fileno()).st_mode & 0o077:
            told = "others than its owner may use the database %s, which holds the signing secret: chmod 600"
            _log.warning(told, self._path)

    def find_lost(self) -> str | None:
        """Return the name of a file that is missing or was replaced; None when all are unchanged."""
        for name, place in self._inodes.items():
            try:
                if _inode(os.stat(name)) != place:  # noqa: PTH116 - as above
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


def _inode(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
