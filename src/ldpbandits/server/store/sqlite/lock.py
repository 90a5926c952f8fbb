"""One server, one file, one name: what must be so that a database keeps what it was given.

SQLite writes changes to a log first, and finds the log by the name of the database. A file with two names has two logs,
of which each misses the changes in the other; of a file that is mounted alone, as into a container, the log is left
behind where nobody looks for it; and what is written to a file that was deleted is gone when its last user is. So a
server refuses the first two, and stops acknowledging when it notices the third, or that a link leads elsewhere by now.

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


class Hold:
    """The file of a database, in use by this process alone. It knows whether its name still leads to it."""

    def __init__(self, path: Path, given: Path) -> None:
        """Make the file unless it is there, and take it; raise DatabaseError when it is in use or has two names.

        `given` is the name by which a new start looks for it: there may be links on the way, which are changed.
        """
        self._path, self._given = path, given
        self._file = open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "rb", buffering=0)  # noqa: PTH123, SIM115
        self._places: dict[str, tuple[int, int]] = {}
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
                raise in_use(self._path) from None
        names = os.fstat(self._file.fileno()).st_nlink
        if names > 1:
            told = f"the database {self._path} has {names} names (hard links), of which only one leads to its log"
            raise DatabaseError(f"{told}: remove the others")
        if sys.platform != "win32" and os.fstat(self._file.fileno()).st_size == 0:
            with suppress(PermissionError):  # it is somebody else's
                os.fchmod(self._file.fileno(), 0o600)  # made beforehand, as with `touch`, it is as open as other files

    def watch(self) -> None:
        """Remember what is there now, the database and what SQLite keeps beside it; say if it is open to others."""
        for suffix in BESIDE:
            place = f"{self._path}{suffix}"
            self._places[place] = _place(os.stat(place))  # noqa: PTH116 - at each commit, so it must be quick
        if self._places[str(self._path)] != _place(os.fstat(self._file.fileno())):
            raise DatabaseError(f"the database {self._path} was replaced while it was opened")
        self._places[str(self._given)] = self._places[str(self._path)]
        if sys.platform != "win32" and os.fstat(self._file.fileno()).st_mode & 0o077:
            told = "others than its owner may use the database %s, which holds the signing secret: chmod 600"
            _log.warning(told, self._path)

    def lost(self) -> str | None:
        """Return the name of a file that is gone or is another one by now, None when all is as it was."""
        for name, place in self._places.items():
            try:
                if _place(os.stat(name)) != place:  # noqa: PTH116 - as above
                    return name
            except OSError:
                return name
        return None

    def close(self) -> None:
        """Let others have the file. All of SQLite's connections must be closed: this ends their locks."""
        self._file.close()


def in_use(path: Path) -> DatabaseError:
    """Return the error of a database that another server has."""
    return DatabaseError(f"the database {path} is in use by another server")


def check_mounts(path: Path, mounts: bytes | None = None) -> None:
    """Raise DatabaseError when a file is its own mount point, or is on a network file system.

    `mounts` is Linux's list; systems without one are believed.
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
        if is_above and len(point) >= len(place):  # of two on one place, the later one is seen
            place, kind = point, found[2]
    if kind in REMOTE:
        told = (
            f"the database {path} is on a network file system ({kind.decode()}), where two servers are not kept apart"
        )
        raise DatabaseError(f"{told}: put it on a local disk")
    if place == name:
        told = f"the database {path} is mounted as a single file, so that its log beside it would be lost"
        raise DatabaseError(f"{told}: mount its folder instead")


def _place(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
