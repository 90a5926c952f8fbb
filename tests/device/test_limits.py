"""What the owner of a device allows, and says what rewards are; nothing else may be asked for."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from ldpbandits import CuratorSpec, LimitError, Limits, ParameterError, Range, RealLine, Sigmoid, Threshold, Transform
from ldpbandits.device.limits import MONTH_S
from ldpbandits.spec import mechanisms
from ldpbandits.spec.transforms import TRANSFORMS

UNIT = Range(0, 1)
TRANSFORMS_ASKED: list[Transform] = [
    Range(0, 1),
    Range(0.5, 1.5),
    Range(0, 1 + 1e-9),
    Range(-1, 1),
    Sigmoid(),
    Threshold(0.5),
    Threshold(0.9),
    RealLine(),
]
"""What an agent may ask for."""


def asks(transform: Transform, epsilon: float = 1.0) -> CuratorSpec:
    """Ask for Laplace responses, which any transform may stand before."""
    return CuratorSpec(mechanisms.Laplace(epsilon), transform)


@pytest.mark.parametrize("allowed", TRANSFORMS_ASKED, ids=str)
def test_a_decision_with_another_range_or_transform_is_refused(allowed: Transform) -> None:
    """The owner says what rewards are: exactly that may be asked for."""
    limits = Limits(rewards=allowed, epsilon=1, budget=10)
    for transform in TRANSFORMS_ASKED:
        if transform == allowed:
            limits.check(asks(transform))
        else:
            with pytest.raises(LimitError, match=r"the agent asks for rewards by .*; the owner of this device allows"):
                limits.check(asks(transform))


def test_any_theta_with_the_class_threshold() -> None:
    """For a search that moves theta: whatever it is, any two rewards are hidden from each other."""
    limits = Limits(rewards=Threshold, epsilon=1, budget=10)
    for transform in TRANSFORMS_ASKED:
        if isinstance(transform, Threshold):
            limits.check(asks(transform))
        else:
            with pytest.raises(LimitError, match=r"allows Threshold of any theta$"):
                limits.check(asks(transform))


@dataclass(frozen=True)
class Doubled(RealLine):
    """A transform of somebody's own, with values anywhere on the real line."""

    kind: ClassVar[str] = "doubled"


def test_a_transform_of_ones_own_is_allowed_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is like another is not the other."""
    with pytest.raises(ParameterError, match="limits say what rewards are"):
        Limits(rewards=Doubled(), epsilon=1, budget=10)
    monkeypatch.setitem(TRANSFORMS._types, "doubled", Doubled)
    Limits(rewards=Doubled(), epsilon=1, budget=10).check(asks(Doubled()))
    with pytest.raises(LimitError):
        Limits(rewards=RealLine(), epsilon=1, budget=10).check(asks(Doubled()))


def test_without_rewards_the_error_tells_how() -> None:
    """In one line, with the call to make."""
    with pytest.raises(
        ParameterError, match=r"^limits say what rewards are, as in Limits\(rewards=Range\(0, 1\), ...\)"
    ):
        Limits(epsilon=1, budget=10)


@pytest.mark.parametrize("bad", [None, 1, "range", (0, 1), Range, RealLine, Transform, {}], ids=repr)
def test_rewards_are_a_transform(bad: Any) -> None:
    """A class is none, but for Threshold: a range that the agent may choose is no limit."""
    with pytest.raises(ParameterError, match="limits say what rewards are"):
        Limits(rewards=bad, epsilon=1, budget=10)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, "1", None, True])
@pytest.mark.parametrize("name", ["epsilon", "budget", "window"])
def test_limits_are_finite_and_positive(name: str, bad: Any) -> None:
    """A limit that limits nothing, or everything, is a mistake."""
    with pytest.raises(ParameterError, match=f"{name} must be finite and > 0"):
        Limits(UNIT, **{"epsilon": 1, "budget": 1} | {name: bad})


def test_at_once_is_said_by_name() -> None:
    """It is off, and is a yes or a no."""
    assert Limits(UNIT, 1, 10) == Limits(rewards=UNIT, epsilon=1, budget=10, window=MONTH_S, at_once=False)
    Limits(UNIT, 1, 10).check_moment(1e-9)
    Limits(UNIT, 1, 10, at_once=True).check_moment(0.0)
    with pytest.raises(LimitError, match=r"only by Limits\(at_once=True\)"):
        Limits(UNIT, 1, 10).check_moment(0.0)
    with pytest.raises(ParameterError, match="at_once must be True or False, got 'no'"):
        Limits(UNIT, 1, 10, at_once="no")  # type: ignore[arg-type]
