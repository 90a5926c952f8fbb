"""Where things are drawn: round ticks, everything inside, and a mark on what lies beyond."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldpbandits.server.console import drawing
from ldpbandits.server.console.drawing import scale, whisker
from ldpbandits.spec.messages import History

UNIT = (0.0, 1.0)


@given(
    st.lists(st.floats(-2, 3), min_size=1, max_size=6),
    st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)),
)
def test_a_scale_has_room_for_all_and_round_ticks(shares: list[float], where: tuple[float, float]) -> None:
    """Whatever the range of rewards: all that lies in it is on the scale, and there are some ticks, not many."""
    low, width = where
    ends = (low, low + width)
    numbers = [low + width * share for share in shares]
    made = scale(numbers, ends)
    assert ends[0] <= made.low < made.high <= ends[1]
    slack = 1e-9 * (abs(low) + width)
    inside = [number for number in numbers if ends[0] <= number <= ends[1]]
    assert all(made.low - slack <= number <= made.high + slack for number in inside)
    assert 1 <= len(made.ticks) <= 12
    assert all(made.low - slack <= tick <= made.high + slack for tick in made.ticks)
    assert all(0 <= made.percent(number) <= 100 for number in numbers)


@pytest.mark.parametrize(
    ("numbers", "ends", "ticks"),
    [
        ([0.0, 1.0], UNIT, ("0.0", "0.2", "0.4", "0.6", "0.8", "1.0")),
        ([0.62, 0.78], UNIT, ("0.60", "0.65", "0.70", "0.75", "0.80")),
        ([0.02, 0.031], UNIT, ("0.015", "0.020", "0.025", "0.030", "0.035")),
        ([1.0, 5.0], (1.0, 5.0), ("1", "2", "3", "4", "5")),
        ([-40.0, 55.0], (-100.0, 100.0), ("-50", "0", "50", "100")),
        ([0, 15_000], (0, 15_000), ("0", "5,000", "10,000", "15,000")),
    ],
)
def test_ticks_are_numbers_that_people_would_choose(
    numbers: list[float], ends: tuple[float, float], ticks: tuple[str, ...]
) -> None:
    """Rates, small rates, stars, temperatures, counts."""
    made = scale(numbers, ends)
    assert tuple(map(made.tick, made.ticks)) == ticks


def arm(mean: float | None, low: float, high: float, worst: tuple[float, float] | None = None) -> Any:
    """Return as much of an arm as is drawn."""
    worst_low, worst_high = worst or (low, high)
    return SimpleNamespace(mean=mean, low=low, high=high, worst_low=worst_low, worst_high=worst_high)


def test_a_dot_and_its_whiskers() -> None:
    """Both intervals and the mean are where the scale has them."""
    drawn = whisker(arm(0.5, 0.4, 0.7, (0.35, 0.75)), scale(UNIT, UNIT))
    assert (drawn.left, drawn.width, drawn.dot, drawn.beyond) == (40, 30, 50, None)
    assert (drawn.worst_left, drawn.worst_width) == (35, 40)
    assert whisker(arm(None, 0, 1), scale(UNIT, UNIT)).dot is None


@pytest.mark.parametrize(("mean", "edge", "side"), [(-0.3, 0, "below"), (1.7, 100, "above")])
def test_a_mean_outside_of_the_range_is_at_the_edge_with_a_mark(mean: float, edge: float, side: str) -> None:
    """The noise may put a debiased mean there; the interval stays inside."""
    drawn = whisker(arm(mean, 0.0, 1.0), scale(UNIT, UNIT))
    assert (drawn.dot, drawn.beyond) == (edge, side)


def test_curves_over_responses() -> None:
    """Lines begin when an arm has its first response; a single moment is no curve; retired arms are left out."""
    one = SimpleNamespace(arm=0, name="a", mean=[None, 0.5, 0.5], low=[0, 0.25, 0.25], high=[1, 0.75, 0.75])
    two = SimpleNamespace(arm=1, name="b", mean=[0.1, 0.2, 0.2], low=[0, 0, 0], high=[1, 1, 1])
    history: Any = SimpleNamespace(responses=[1, 2, 4], arms=[one, two])
    arms = [SimpleNamespace(retired=False), SimpleNamespace(retired=True)]
    curator = {"mechanism": "bernoulli", "epsilon": 1.0, "transform": {"kind": "range", "low": 0, "high": 1}}
    report: Any = SimpleNamespace(arms=arms, curator=curator)
    made = drawing.chart(history, report)
    assert made is not None
    (curve,) = made.curves
    assert (curve.arm, curve.name) == (0, "a")
    assert (curve.mean, curve.high, curve.low) == ("50,50 100,50", "50,25 100,25", "50,75 100,75")
    assert curve.band == "50,25 100,25 100,75 50,75"
    assert drawing.chart(SimpleNamespace(responses=[1], arms=[]), report) is None  # type: ignore[arg-type]


def test_evidence_is_drawn_on_powers_of_ten_with_the_threshold() -> None:
    """From 0.1 to 1,000 for a threshold of 40; a number beyond a million is at the upper edge; without any, nothing."""
    nothing = History("one", [0, 10], [])
    drawn = drawing.evidence_chart(dataclasses.replace(nothing, leader=1, evidence=[1.0, 0.1], needed=40.0))
    assert drawn is not None
    assert drawn.ticks == [(0.0, "0.1"), (25.0, "1"), (50.0, "10"), (75.0, "100"), (100.0, "1,000")]
    assert drawn.points == "0,75 100,100"
    assert 62 < drawn.threshold < 67
    far = drawing.evidence_chart(dataclasses.replace(nothing, leader=1, evidence=[1.0, 1e30], needed=40.0))
    assert far is not None
    assert (far.points, far.ticks[-1]) == ("0,100 100,0", (100.0, "1,000,000"))
    assert drawing.evidence_chart(nothing) is None
