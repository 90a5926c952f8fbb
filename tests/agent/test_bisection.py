"""The search for a threshold sees bits only, and ends where about half of the rewards lie above."""

import json
import random
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from ldpbandits import BernoulliCurator, ParameterError, Response, ResponseError, Threshold
from ldpbandits.agent.bisection import MAX_STEPS, Bisection


def search(reward: Callable[[random.Random], float], epsilon: float, seed: int, **interval: float) -> Bisection:
    """Ask users whose rewards are drawn so, by the device's own code on seeded words, until the search is done."""
    rng = random.Random(seed)

    def words(many: int) -> list[int]:
        return [rng.getrandbits(64) for _ in range(many)]

    found = Bisection(interval.get("low", -100.0), interval.get("high", 100.0), epsilon)
    while not found.done:
        curator = BernoulliCurator(epsilon, Threshold(found.theta))
        found = found.update(curator.respond_not_private(reward(rng), words))
    return found


def test_the_limits_are_those_of_the_formula() -> None:
    """n_max = (3 / (0.3 tanh(epsilon / 2)))^2, and the edge is 3 sqrt(n_max)."""
    made = Bisection(-1, 1, epsilon=0.5)
    tanh = 0.244918662  # of 1/4, from a table
    assert made.longest == 1_668  # 100 / tanh^2 = 1667.08, rounded up
    assert made.edge == pytest.approx(3 * 10 / tanh, rel=1e-8)


@pytest.mark.parametrize(("mean", "epsilon"), [(0.7, 2.0), (-63.0, 4.0), (63.2, 1.0)])
def test_it_halves_gaussian_rewards(mean: float, epsilon: float) -> None:
    """From [-100, 100], with noise of variance 1, theta ends within 1 of the median; all is seeded.

    A step goes wrong, or ends too early at P(reward > theta) beyond 0.84, with probability below 1 %.
    """
    for seed in range(5):
        found = search(lambda rng: rng.gauss(mean, 1), epsilon, seed)
        assert found.is_halved
        assert abs(found.theta - mean) < 1
        assert found.low <= found.theta <= found.high
        assert found.spent <= (found.step + 1) * found.longest


def test_rewards_that_are_one_number_for_most_end_it_beside_that_number() -> None:
    """Of nine zeros to one 10, theta is just above 0: P(reward > theta) = 0.1 tells arms apart, and 1 would not.

    Of one 0 to nine tens it is just below 10. All is seeded.
    """
    rare = search(lambda rng: 10.0 * (rng.random() < 0.1), 2.0, 1)
    assert (rare.step, rare.done, rare.is_halved) == (MAX_STEPS, True, False)
    assert 0 <= rare.theta < 0.001
    common = search(lambda rng: 10.0 * (rng.random() < 0.9), 2.0, 2)
    assert common.step == MAX_STEPS
    assert 10 - 0.001 < common.theta < 10


def test_a_median_beyond_the_interval_ends_it_at_the_end() -> None:
    """Nobody is asked at the ends themselves; theta comes as near as it may."""
    assert search(lambda _: 1e9, 4.0, 1).theta > 99.999
    assert search(lambda _: -1e9, 4.0, 1).theta < -99.999


def test_counting_at_once_is_counting_one_by_one() -> None:
    """As long as the sum stays inside; at its end nothing changes any more, and each state is JSON and back."""
    one = Bisection(0, 8, epsilon=1.0)
    for response in (1.0, 0.0, 1.0, 1.0):
        one = one.update(Response(response))
    assert one == Bisection(0, 8, epsilon=1.0).count(4, 3)
    assert (one.pulls, one.lead, one.spent, one.theta) == (4, 2, 4, 4.0)
    assert Bisection(**json.loads(json.dumps(asdict(one)))) == one
    up, down = one.count(500, 500), one.count(500, 0)
    assert (up.low, up.high, up.step, up.pulls, up.spent, up.low_pulls, up.high_pulls) == (4, 8, 1, 0, 504, 504, 0)
    assert (down.low, down.high, down.theta, down.high_pulls) == (0, 4, 2, 504)
    done = one.count(one.longest, one.longest // 2)
    assert done.is_halved
    assert done.count(10_000, 10_000) is done


@pytest.mark.parametrize(
    ("low", "high", "epsilon", "rule"),
    [
        (1, 1, 1, r"low < high of size <= 5e\+299, got \[1, 1\]"),
        (float("nan"), 1, 1, "low < high"),
        (0, float("inf"), 1, "low < high"),
        (-1e300, 0, 1, "low < high"),
        ("0", 1, 1, "low < high"),
        (0, 1, 0, "epsilon must be finite and > 0"),
    ],
)
def test_a_bad_interval_is_refused(low: Any, high: Any, epsilon: Any, rule: str) -> None:
    """In one line, with the rule and the value."""
    with pytest.raises(ParameterError, match=rule):
        Bisection(low, high, epsilon)


def test_what_is_no_response_is_refused() -> None:
    """A reward does not get in, nor more ones than responses."""
    for bad in (0.5, 2.0, -1.0, float("nan")):
        with pytest.raises(ResponseError, match="a response of CTB is 0 or 1"):
            Bisection(0, 1, 1).update(Response(bad))
    with pytest.raises(ResponseError, match="3 ones are impossible among 2 responses"):
        Bisection(0, 1, 1).count(2, 3)
