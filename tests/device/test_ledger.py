"""The ledger adds up what a device has spent, and no limit of its owner is ever broken."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ldpbandits import CuratorSpec, Ledger, LimitError, Limits, ParameterError, RealLine, Transform
from ldpbandits.device.ledger import DAY, default_path
from ldpbandits.spec import mechanisms
from ldpbandits.spec.transforms import TRANSFORMS

NOW = 1_000_000.0


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """A new ledger, until the test ends."""
    ledger = Ledger(":memory:")
    yield ledger
    ledger.close()


def charge(
    ledger: Ledger, limits: Limits, epsilon: float, now: float = NOW, transform: Transform | None = None
) -> None:
    """Charge one response of this epsilon."""
    mechanism = mechanisms.Laplace(epsilon)
    spec = CuratorSpec(mechanism) if transform is None else CuratorSpec(mechanism, transform)
    with ledger.database.transaction() as transaction:
        ledger.charge(transaction, limits, spec, now)


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
    assert charge_until_refused(ledger, Limits(50, budget), epsilon) == times
    assert ledger.spent(NOW, DAY) == pytest.approx(times * epsilon)


def test_a_refused_charge_leaves_no_trace_and_smaller_ones_still_fit(ledger: Ledger) -> None:
    """What is left of the budget after a refusal is what was left before it."""
    limits = Limits(1, 1)
    charge(ledger, limits, 0.75)
    with pytest.raises(LimitError, match=r"epsilon = 0\.5 on top of the 0\.75 spent .* allows 1 within 30 days"):
        charge(ledger, limits, 0.5)
    assert ledger.spent(NOW, DAY) == 0.75
    charge(ledger, limits, 0.25)
    assert ledger.spent(NOW, DAY) == 1


def test_the_cap_on_a_single_response(ledger: Ledger) -> None:
    """An epsilon above the owner's is refused, whatever is left of the budget."""
    charge(ledger, Limits(1, 50), 1)
    with pytest.raises(LimitError, match=r"asks for epsilon = 1\.5 a response; the owner of this device allows 1$"):
        charge(ledger, Limits(1, 50), 1.5)
    assert ledger.spent(NOW, DAY) == 1


@dataclass(frozen=True)
class Doubled(RealLine):
    """A transform of somebody's own, with values anywhere on the real line."""

    kind: ClassVar[str] = "doubled"


@pytest.mark.parametrize("transform", [RealLine(), Doubled()])
def test_the_real_line_must_be_allowed_by_name(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, transform: Transform
) -> None:
    """Without bounds, epsilon holds only for rewards near each other: the owner must allow that, whatever its name."""
    monkeypatch.setitem(TRANSFORMS._types, "doubled", Doubled)
    with pytest.raises(LimitError, match="real line"):
        charge(ledger, Limits(1, 10), 1, transform=transform)
    assert ledger.spent(NOW, DAY) == 0
    charge(ledger, Limits(1, 10, real_line=True), 1, transform=transform)
    assert ledger.spent(NOW, DAY) == 1


def test_the_window_slides(ledger: Ledger) -> None:
    """A charge counts for exactly one window."""
    limits = Limits(1, 1, window=100)
    charge(ledger, limits, 0.6)
    charge(ledger, limits, 0.4, NOW + 50)
    with pytest.raises(LimitError):
        charge(ledger, limits, 0.6, NOW + 99.9)
    charge(ledger, limits, 0.6, NOW + 100)
    with pytest.raises(LimitError):
        charge(ledger, limits, 0.4, NOW + 149)
    assert ledger.spent(NOW + 100, 100) == 1
    assert ledger.spent(NOW + 100, 1000) == pytest.approx(1.6)


def test_a_clock_that_goes_back_forgets_nothing(ledger: Ledger) -> None:
    """A charge that seems to lie ahead counts."""
    limits = Limits(1, 1, window=100)
    charge(ledger, limits, 0.6)
    for now in (NOW - 1, NOW - 1e6, 0.0):
        with pytest.raises(LimitError):
            charge(ledger, limits, 0.6, now)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, "1", None, True])
@pytest.mark.parametrize("name", ["epsilon", "budget", "window"])
def test_limits_are_finite_and_positive(name: str, bad: Any) -> None:
    """A limit that limits nothing, or everything, is a mistake."""
    with pytest.raises(ParameterError, match=f"{name} must be finite and > 0"):
        Limits(**{"epsilon": 1, "budget": 1} | {name: bad})


def test_the_default_place_is_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All that take part from one account share one ledger."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_path() == tmp_path / "ldpbandits" / "ledger.db"
