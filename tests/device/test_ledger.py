"""The ledger adds up what a device has spent, and no limit of its owner is ever broken."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ldpbandits import CuratorSpec, Ledger, LimitError, Limits, Range
from ldpbandits.device.ledger import default_path
from ldpbandits.device.limits import DAY_S
from ldpbandits.spec import mechanisms

NOW = 1_000_000.0


def allow(epsilon: float, budget: float, **more: Any) -> Limits:
    """Allow rewards in [0, 1]."""
    return Limits(Range(0, 1), epsilon, budget, **more)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """A new ledger, until the test ends."""
    ledger = Ledger(":memory:")
    yield ledger
    ledger.close()


def charge(ledger: Ledger, limits: Limits, epsilon: float, now: float = NOW) -> int:
    """Charge one response of this epsilon."""
    with ledger.database.transaction() as transaction:
        return ledger.charge(transaction, limits, CuratorSpec(mechanisms.Laplace(epsilon)), now)


def charge_until_refused(ledger: Ledger, limits: Limits, epsilon: float, at_most: int = 1000) -> int:
    """Charge this epsilon again and again; return how often it went."""
    for i in range(at_most):
        try:
            charge(ledger, limits, epsilon)
        except LimitError:
            return i
    return at_most


@pytest.mark.parametrize(
    ("epsilon", "budget", "times"),
    [(0.1, 1, 10), (0.07, 7, 100), (0.3, 0.9, 3), (1 / 3, 1, 3), (0.1, 0.99, 9), (5, 4, 0)],
)
def test_what_adds_up_to_the_budget_fits_and_nothing_more(
    ledger: Ledger, epsilon: float, budget: float, times: int
) -> None:
    """Ten times 0.1 fit in a budget of 1 and a hundred times 0.07 in 7, however floats round; one more never does."""
    assert charge_until_refused(ledger, allow(50, budget), epsilon) == times
    assert ledger.spent(NOW, DAY_S) == pytest.approx(times * epsilon)


def test_a_refused_charge_leaves_no_trace_and_smaller_ones_still_fit(ledger: Ledger) -> None:
    """What is left of the budget after a refusal is what was left before it."""
    limits = allow(1, 1)
    charge(ledger, limits, 0.75)
    with pytest.raises(LimitError, match=r"epsilon = 0\.5 on top of the 0\.75 spent .* allows 1 within 30 days"):
        charge(ledger, limits, 0.5)
    assert ledger.spent(NOW, DAY_S) == 0.75
    charge(ledger, limits, 0.25)
    assert ledger.spent(NOW, DAY_S) == 1


def test_a_window_of_one_day_is_called_so(ledger: Ledger) -> None:
    """A refusal is a sentence that its reader may see: 1 day, and half of one 12 hours."""
    for window, said in ((DAY_S, r"within 1 day$"), (DAY_S / 2, r"within 12 hours$")):
        with pytest.raises(LimitError, match=said):
            charge(ledger, allow(2, 1, window=window), 2)


def test_the_cap_on_a_single_response(ledger: Ledger) -> None:
    """An epsilon above the owner's is refused, whatever is left of the budget."""
    charge(ledger, allow(1, 50), 1)
    with pytest.raises(LimitError, match=r"asks for epsilon = 1\.5 a response; the owner of this device allows 1$"):
        charge(ledger, allow(1, 50), 1.5)
    assert ledger.spent(NOW, DAY_S) == 1


def test_the_window_slides(ledger: Ledger) -> None:
    """A charge counts for exactly one window."""
    limits = allow(1, 1, window=100)
    charge(ledger, limits, 0.6)
    charge(ledger, limits, 0.4, NOW + 50)
    with pytest.raises(LimitError):
        charge(ledger, limits, 0.6, NOW + 99.9)
    charge(ledger, limits, 0.6, NOW + 100)
    with pytest.raises(LimitError):
        charge(ledger, limits, 0.4, NOW + 149)
    assert ledger.spent(NOW + 100, 100) == 1
    assert ledger.spent(NOW + 100, 1000) == pytest.approx(1.6)


def test_what_remains_is_the_budget_less_what_counts_in_the_window(ledger: Ledger) -> None:
    """It is exact, is never below 0, and grows again as charges leave the window."""
    limits = allow(1, 1, window=100)
    assert ledger.remaining(NOW, limits) == 1
    for i in range(10):
        assert ledger.remaining(NOW, limits) == pytest.approx(1 - i / 10, abs=1e-15)
        charge(ledger, limits, 0.1)
    assert ledger.remaining(NOW, limits) == 0
    assert ledger.remaining(NOW, allow(1, 0.5)) == 0
    assert ledger.remaining(NOW, allow(1, 3)) == pytest.approx(2)
    assert ledger.remaining(NOW + 100, limits) == 1


def test_a_clock_that_goes_back_forgets_nothing(ledger: Ledger) -> None:
    """A charge that seems to lie ahead counts."""
    limits = allow(1, 1, window=100)
    charge(ledger, limits, 0.6)
    for now in (NOW - 1, NOW - 1e6, 0.0):
        with pytest.raises(LimitError):
            charge(ledger, limits, 0.6, now)


def test_the_default_place_is_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All that take part from one account share one ledger."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_path() == tmp_path / "ldpbandits" / "ledger.db"
