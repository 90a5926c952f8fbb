"""The ledger: the account of the epsilon that a device has spent.

Epsilons add up (sequential composition): responses of e_1, ..., e_n are together (e_1 + ... + e_n)-private. The ledger
charges a pull when its arm is accepted, and never refunds a charge. The budget of the owner bounds the epsilon that is
accepted within any window, and the epsilon that leaves within any window: hoarded responses do not leave together. All
experiments of a device share one ledger.

A clock that is set back frees nothing; a clock that is set ahead does, because a device has no other clock to trust. A
charge dated ahead counts for one window from when the ledger first sees that, and not until its date comes.
"""

import os
from fractions import Fraction
from heapq import merge
from math import inf
from pathlib import Path

from ldpbandits.device.database import Database, Transaction
from ldpbandits.device.limits import Limits, in_words
from ldpbandits.device.prefix_sums import DATED_AHEAD, Date, dated_within, spent_until
from ldpbandits.errors import LimitError
from ldpbandits.spec.curator import CuratorSpec

ROUNDING = Fraction(1, 2**51)
"""Tolerance of the budget: the sum is exact, but its terms are rounded, and 100 times 0.07 is a little more than 7."""


class Ledger:
    """The charges of a device, in a file. Clients that share a budget share a ledger.

    >>> ledger = Ledger(":memory:")  # gone with the process: a real device has a file
    >>> ledger.spent(now=0.0, window=3600)
    0.0
    >>> ledger.close()
    """

    def __init__(self, path: Path | str) -> None:
        """Open the ledger, or create one that only this user can read; ':memory:' is for simulated devices."""
        self.database = Database(path)

    @property
    def path(self) -> Path | str:
        """The absolute path of the file, or ':memory:'."""
        return self.database.path

    def close(self) -> None:
        """Close the file; closing it twice is harmless."""
        self.database.close()

    def spent(self, now: float, window: float) -> float:
        """Return the epsilon spent in the window that ends now. Charges dated later count too: clocks go back."""
        with self.database.transaction() as transaction:
            return float(_sum(transaction, "accepted_at", now, window))

    def remaining(self, now: float, limits: Limits) -> float:
        """Return the rest of the owner's budget in the window that ends now, and never less than 0.

        >>> from ldpbandits import Range
        >>> ledger = Ledger(":memory:")
        >>> ledger.remaining(now=0.0, limits=Limits(rewards=Range(0, 1), epsilon=1, budget=10))
        10.0
        >>> ledger.close()
        """
        with self.database.transaction() as transaction:
            spent = _sum(transaction, "accepted_at", now, limits.window)
        return float(max(Fraction(limits.budget) - spent, Fraction(0)))

    def check(self, transaction: Transaction, limits: Limits, spec: CuratorSpec, now: float) -> None:
        """Raise LimitError if a response of this curator is beyond a limit now."""
        limits.check(spec)
        spent = _sum(transaction, "accepted_at", now, limits.window)
        if spent + Fraction(spec.epsilon) > _most(limits):
            raise LimitError(
                f"epsilon = {spec.epsilon:g} on top of the {float(spent):g} spent is too much: "
                f"the owner of this device allows {limits.budget:g} within {in_words(limits.window)}"
            )

    def charge(self, transaction: Transaction, limits: Limits, spec: CuratorSpec, now: float) -> int:
        """Charge one response of this curator, and return the number of the charge; raise LimitError beyond a limit.

        The charge is part of the caller's transaction, which also stores the pull.
        """
        self.check(transaction, limits, spec, now)
        row = transaction.execute("INSERT INTO spent (accepted_at, epsilon) VALUES (?, ?)", (now, spec.epsilon))
        assert row.lastrowid is not None  # noqa: S101 - it was inserted
        return row.lastrowid

    def let_leave(self, transaction: Transaction, limits: Limits, charge: int, now: float) -> float:
        """Record that the response of a charge leaves now, and return 0; else the seconds until the budget has room.

        They are infinite when the budget is less than its epsilon. A retry of a response that has left is free.
        """
        epsilon, left_at = transaction.execute(
            "SELECT epsilon, left_at FROM spent WHERE number = ?", (charge,)
        ).fetchone()
        if left_at is not None:
            return 0.0
        excess = _sum(transaction, "left_at", now, limits.window) + Fraction(epsilon) - _most(limits)
        if excess > 0:
            return _until_freed(transaction, excess, now, limits.window)
        transaction.execute("UPDATE spent SET left_at = ? WHERE number = ?", (now, charge))
        return 0.0


def default_path() -> Path:
    """Return the path of this user's ledger, which all programs of the user share."""
    data = os.environ.get("XDG_DATA_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".local" / "share"
    return Path(data) / "ldpbandits" / "ledger.db"


def _most(limits: Limits) -> Fraction:
    return Fraction(limits.budget) * (1 + ROUNDING)


def _sum(transaction: Transaction, date: Date, now: float, window: float) -> Fraction:
    """Return the exact sum of the epsilons in the window that ends now, by this date of their charges."""
    # A date ahead is from before the clock was set back: either that date is wrong, or this one. It counts for one
    # window from when it is first seen, so that no wrong date counts for years.
    transaction.execute(
        "UPDATE spent SET seen_ahead_at = :now "  # noqa: S608 - our names
        f"WHERE number IN ({DATED_AHEAD}) AND coalesce(seen_ahead_at, :now + 1) > :now",
        {"now": now},
    )
    transaction.execute(
        "UPDATE spent SET seen_ahead_at = NULL "
        "WHERE seen_ahead_at IS NOT NULL AND max(accepted_at, coalesce(left_at, accepted_at)) <= ?",
        (now,),
    )
    in_order = spent_until(transaction, date, now) - spent_until(transaction, date, now - window)
    return in_order + sum((epsilon for _, epsilon in _ahead(transaction, date, now, window)), Fraction(0))


def _ahead(transaction: Transaction, date: Date, now: float, window: float) -> list[tuple[float, Fraction]]:
    """Return the charges dated ahead that count now: when each was first seen, and its epsilon, the oldest first."""
    rows = transaction.execute(
        "SELECT seen_ahead_at, epsilon FROM spent "  # noqa: S608 - our names
        f"WHERE seen_ahead_at > :now - :window AND {date} > :now ORDER BY seen_ahead_at",
        {"now": now, "window": window},
    )
    return [(since, Fraction(epsilon)) for since, epsilon in rows]


def _until_freed(transaction: Transaction, excess: Fraction, now: float, window: float) -> float:
    """Return the seconds until `excess` of the epsilon that has left drops out of the window; infinite if never."""
    in_order = dated_within(transaction, "left_at", now - window, now)
    for since, epsilon in merge(in_order, _ahead(transaction, "left_at", now, window)):
        excess -= epsilon
        if excess <= 0:
            return float(max(since + window - now, 1e-3))
    return inf
