"""What privacy a device has spent, and what its owner allows.

Epsilons add up: what a device has told with e_1, ..., e_n it has told with (e_1 + ... + e_n)-local differential
privacy. A pull is charged when its arm is accepted, before anything is drawn, and a charge is never taken back. All
experiments of a device share one ledger. A clock that is set back frees nothing; one that is set ahead does, because a
device has no other clock to trust.
"""

import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from ldpbandits.checks import check_epsilon, is_number, shown
from ldpbandits.device.database import Database, Transaction
from ldpbandits.errors import LimitError, ParameterError
from ldpbandits.spec.curator import CuratorSpec

DAY = 24 * 3600.0
MONTH = 30 * DAY
ROUNDING = Fraction(1, 2**51)
"""The sum is exact, but its terms are rounded: a hundred times 0.07 is a little more than 7, and is let pass for 7."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the owner of a device allows: an epsilon a response, and a budget of epsilon over any `window` seconds.

    On the real line, epsilon is promised only for rewards within 1 of each other: that must be allowed by name.

    >>> from ldpbandits import LaplaceCurator
    >>> Limits(epsilon=1, budget=10).check(LaplaceCurator(epsilon=2).spec)
    Traceback (most recent call last):
    ldpbandits.errors.LimitError: the agent asks for epsilon = 2 a response; the owner of this device allows 1
    """

    epsilon: float
    budget: float
    window: float = MONTH
    real_line: bool = False

    def __post_init__(self) -> None:
        """Check that each limit is a number that limits something."""
        check_epsilon(self.epsilon)
        for name in ("budget", "window"):
            value = getattr(self, name)
            if not is_number(value) or value <= 0:
                raise ParameterError(f"{name} must be finite and > 0, got {shown(value)}")

    def check(self, spec: CuratorSpec) -> None:
        """Refuse a curator that the owner does not allow, whatever is left of the budget."""
        if spec.epsilon > self.epsilon:
            raise LimitError(
                f"the agent asks for epsilon = {spec.epsilon:g} a response; "
                f"the owner of this device allows {self.epsilon:g}"
            )
        if not (spec.transform.bounded or self.real_line):
            raise LimitError(
                "the agent asks for rewards on the real line; the owner of this device does not allow that"
            )


class Ledger:
    """The sum of what was spent, in a file. Clients that are to share a budget share a ledger.

    >>> ledger = Ledger(":memory:")  # gone with the process: a real device has a file
    >>> ledger.spent(now=0.0, window=MONTH)
    0.0
    >>> ledger.close()
    """

    def __init__(self, path: Path | str) -> None:
        """Open the ledger, or start one that only this user can read; ':memory:' is for simulated devices."""
        self.database = Database(path)

    @property
    def path(self) -> Path | str:
        """Where the file is."""
        return self.database.path

    def close(self) -> None:
        """Close the file; to close it twice does no harm."""
        self.database.close()

    def spent(self, now: float, window: float) -> float:
        """Return the epsilon spent in the window that ends now. What is dated later counts too: clocks go back."""
        with self.database.transaction() as transaction:
            return float(_sum(transaction, now - window))

    def charge(self, transaction: Transaction, limits: Limits, spec: CuratorSpec, now: float) -> None:
        """Charge one response of this curator, or say which limit of the owner it would break.

        The charge is part of the caller's transaction, which also writes down what it was for.
        """
        limits.check(spec)
        spent = _sum(transaction, now - limits.window)
        if spent + Fraction(spec.epsilon) > Fraction(limits.budget) * (1 + ROUNDING):
            raise LimitError(
                f"epsilon = {spec.epsilon:g} on top of the {float(spent):g} spent is too much: "
                f"the owner of this device allows {limits.budget:g} within {limits.window / DAY:g} days"
            )
        transaction.execute("INSERT INTO spent VALUES (?, ?)", (now, spec.epsilon))


def default_path() -> Path:
    """Return where the ledger of this user is, which all that take part from here share."""
    data = os.environ.get("XDG_DATA_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".local" / "share"
    return Path(data) / "ldpbandits" / "ledger.db"


def _sum(transaction: Transaction, after: float) -> Fraction:
    rows = transaction.execute("SELECT epsilon FROM spent WHERE at > ?", (after,))
    return sum((Fraction(epsilon) for (epsilon,) in rows), Fraction(0))
