"""What a window holds is found by two lookups, exactly, however many charges there are and whatever the clock did."""

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ldpbandits import CuratorSpec, Ledger, LimitError, Limits, Range
from ldpbandits.checks import LARGEST_EPSILON, SMALLEST_EPSILON
from ldpbandits.device.ledger import _sum
from ldpbandits.device.prefix_sums import Date, spent_until
from ldpbandits.spec import mechanisms

if TYPE_CHECKING:
    from tests.device.conftest import Device, FakeAgent

NOW = 1_000_000.0
FEW, MANY = 100, 200_000
SPEC = CuratorSpec(mechanisms.Laplace(0.1))
WINDOW = 1e5
"""Seconds; all charges are within it."""


def full(path: Path, charges: int) -> Ledger:
    """Open a ledger of so many charges within the window, from before there were sums."""
    Ledger(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        for trigger in ("charge", "discharge", "change_accepted_at", "change_left_at"):
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute("DROP INDEX seen_ahead")
        connection.execute("DROP TABLE sums")
        dates = ((NOW - WINDOW / 2 + place / charges, NOW - WINDOW / 4 + place / charges) for place in range(charges))
        connection.executemany("INSERT INTO spent (accepted_at, left_at, epsilon) VALUES (?, ?, 0.1)", dates)
    return Ledger(path)


def steps(ledger: Ledger, work: Callable[[], object]) -> int:
    """Count the steps that SQLite takes for something."""
    taken, connection = count(), ledger.database._connection
    connection.set_progress_handler(lambda: next(taken) < 0, 1)
    work()
    connection.set_progress_handler(None, 1)
    return next(taken)


def steps_among(path: Path, charges: int) -> list[int]:
    """Count the steps to say what was spent, to refuse, to charge, to make wait and to let leave."""
    wide = Limits(Range(0, 1), 1, 2 * charges, WINDOW)
    tight = Limits(Range(0, 1), 1, charges * 0.1, WINDOW)
    with closing(full(path, charges)) as ledger:

        def charge(limits: Limits) -> int:
            with ledger.database.transaction() as transaction:
                return ledger.charge(transaction, limits, SPEC, NOW)

        def leave(limits: Limits) -> float:
            with ledger.database.transaction() as transaction:
                return ledger.let_leave(transaction, limits, charges + 1, NOW)

        def refuse() -> None:
            with pytest.raises(LimitError):
                charge(tight)

        assert ledger.spent(NOW, WINDOW) == pytest.approx(charges * 0.1)
        return [
            steps(ledger, lambda: ledger.spent(NOW, WINDOW)),
            steps(ledger, refuse),
            steps(ledger, lambda: charge(wide)),
            steps(ledger, lambda: leave(tight)),
            steps(ledger, lambda: leave(wide)),
        ]


def test_a_charge_takes_as_long_among_many_as_among_few(tmp_path: Path) -> None:
    """To charge, to let leave, to refuse and to say what was spent: as many steps of SQLite at 200,000 as at 100."""
    assert steps_among(tmp_path / "few.db", FEW) == steps_among(tmp_path / "many.db", MANY)


def test_a_decision_takes_as_long_among_many_charges_as_among_few(
    agent: "FakeAgent", device: "Device", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of decide(), from the agent's reply to the pull that is kept."""
    monkeypatch.setattr("ldpbandits.device.client.time.time", lambda: NOW)
    agent.decision["curator"] = {"mechanism": "bernoulli", "epsilon": 0.5}
    taken = []
    for charges in (FEW, 10 * FEW):
        with closing(full(tmp_path / f"{charges}.db", charges)) as ledger:
            limits = Limits(Range(0, 1), 1, 1e6, WINDOW)
            client = device(limits=limits, ledger=ledger)
            taken.append(steps(ledger, client.decide))
    assert taken[0] == taken[1]


def by_hand(connection: sqlite3.Connection, date: Date, now: float, window: float) -> Fraction:
    """Add up row by row."""
    total = Fraction(0)
    for accepted_at, left_at, seen, epsilon in connection.execute(
        "SELECT accepted_at, left_at, seen_ahead_at, epsilon FROM spent"
    ):
        at = accepted_at if date == "accepted_at" else left_at
        since = seen if at is not None and at > now else at
        if since is not None and since > now - window:
            total += Fraction(epsilon)
    return total


@pytest.mark.parametrize("seed", range(5))
def test_sums_are_exact_whatever_the_clock_did(seed: int) -> None:
    """Epsilons of every size, dates in any order and twice the same, responses that leave, rows that are changed."""
    rng = random.Random(seed)
    with closing(Ledger(":memory:")) as ledger, ledger.database.transaction() as transaction:
        now = NOW
        for _ in range(300):
            now += rng.choice((0, 0, 1e-3, 1, 50, -1e-3, -200))
            match rng.randrange(6):
                case 0 | 1 | 2:
                    epsilon = rng.choice((0.1, 1 / 3, SMALLEST_EPSILON, LARGEST_EPSILON, rng.uniform(1e-6, 50)))
                    transaction.execute("INSERT INTO spent (accepted_at, epsilon) VALUES (?, ?)", (now, epsilon))
                case 3:
                    first = "SELECT min(number) FROM spent WHERE left_at IS NULL"
                    (number,) = transaction.execute(first).fetchone()
                    transaction.execute("UPDATE spent SET left_at = ? WHERE number = ?", (now, number))
                case 4:
                    change = "UPDATE spent SET accepted_at = accepted_at - 7, epsilon = 0.7 WHERE number = ?"
                    transaction.execute(change, (rng.randrange(100),))
                case _:
                    transaction.execute("DELETE FROM spent WHERE number = (SELECT min(number) FROM spent)")
            for date in ("accepted_at", "left_at"):
                for window in (10, 1000):
                    found = _sum(transaction, date, now, window)
                    assert found == by_hand(transaction, date, now, window)
        (rows,) = transaction.execute("SELECT count(*) + count(left_at) FROM spent").fetchone()
        assert transaction.execute("SELECT count(*) FROM sums").fetchone() == (rows,)


def test_a_ledger_of_before_is_taken_over(tmp_path: Path) -> None:
    """Its sums are added when it is opened; then whoever writes charges in the old way keeps them right."""
    path = tmp_path / "ledger.db"
    with closing(full(path, FEW)) as ledger:
        with closing(sqlite3.connect(path)) as old, old:
            old.execute("INSERT INTO spent (accepted_at, epsilon) VALUES (?, 0.5)", (NOW,))
        with ledger.database.transaction() as transaction:
            assert spent_until(transaction, "accepted_at", NOW) == FEW * Fraction(0.1) + Fraction(0.5)
            assert spent_until(transaction, "left_at", NOW) == FEW * Fraction(0.1)
            assert spent_until(transaction, "left_at", 0) == 0
    with closing(Ledger(path)) as again:
        assert again.spent(NOW, WINDOW) == pytest.approx(FEW * 0.1 + 0.5)
