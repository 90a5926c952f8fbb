"""A high-water mark beside a ledger, by which a ledger that went back is noticed.

A backup that is put in the place of a ledger forgets what was spent since. So a second file holds the largest sums that
the ledger has had: of what was accepted, and of what has left. Both only grow, and the ledger has them anyway.

The mark is written after the ledger, which is then on the disk. So it is never ahead of a healthy ledger, whatever
crashes when, and needs no flush: a mark that is lost, old or half written tells less, and refuses nobody. It is read
before the ledger, for another process may change both meanwhile.
"""

import os
import re
from contextlib import suppress
from fractions import Fraction
from functools import cached_property
from pathlib import Path

from ldpbandits.device.prefix_sums import UNIT, Sums
from ldpbandits.errors import LedgerError

SUFFIX = ".high-water"
_NOTHING: Sums = (Fraction(0), Fraction(0))
_FILE = re.compile(rb"((\d{40}) (\d{40})\n)\1", re.ASCII)
"""Both sums in units of 2^-72, written twice: a mark that was half written does not count."""


class HighWaterMark:
    """The largest sums that this ledger has had, as far as this process and the file beside it know."""

    def __init__(self, ledger: Path | None) -> None:
        """Keep the mark of this ledger; of one in memory, None, there is no file."""
        self._ledger = ledger
        self._seen = _NOTHING

    @cached_property
    def _path(self) -> Path | None:
        """The file beside that of the ledger, also where the ledger's name is a link to it."""
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
        """Refuse to start a ledger where there was one."""
        if mark != _NOTHING:
            raise LedgerError(
                f"the ledger {self._ledger} is gone, and with it what was spent: put it back. To begin anew with a "
                f"full budget, delete {self._path} and start this program again"
            )

    def check(self, mark: Sums, sums: Sums) -> None:
        """Refuse a ledger that has smaller sums than it had."""
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
        with suppress(OSError):  # a full disk: the mark is a safeguard, and the ledger has what counts
            handle = os.open(self._path, flags, self._ledger.stat().st_mode & 0o666)
            try:
                os.write(handle, 2 * line)
            finally:
                os.close(handle)


def _largest(one: Sums, other: Sums) -> Sums:
    return max(one[0], other[0]), max(one[1], other[1])
