"""Verdicts: when an arm is declared, when there is no gain, and what forged responses can do."""

from collections.abc import Callable, Sequence
from math import exp, isclose, tanh
from random import Random
from typing import Any

import pytest

from ldpbandits.agent.inference.differences import Pair
from ldpbandits.agent.inference.verdicts import Criteria, Pairs, compare, judge, unequal_answers, without_forged
from ldpbandits.errors import ParameterError

EPSILON = 1.0
LOW, SLOPE = 1 / (1 + exp(EPSILON)), tanh(EPSILON / 2)


def pairs_of(values: Sequence[float], pulls: int, *, is_fair: bool = True) -> Callable[[int, int], Pair]:
    """Return pairs whose responses have exactly the means of these values."""

    def pair(b: int, a: int) -> Pair:
        ones = [pulls * (LOW + SLOPE * value) for value in values]
        return Pair((pulls, ones[b], pulls, ones[a]), (LOW, SLOPE), is_fair)

    return pair


@pytest.mark.parametrize("is_fair", [True, False])
def test_the_best_arm_is_declared(is_fair: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """The arm that is ahead of all others by enough is declared; with few responses nothing is."""
    values = [0.3, 0.5, 0.2, 0.35]
    found = judge(range(4), pairs_of(values, 20_000, is_fair=is_fair), Criteria(arms=4))
    assert (found.kind, found.leader, found.drift_proof) == ("better", 1, is_fair)
    assert found.evidence >= found.needed == 80
    assert min(evidence for _, evidence in found.rivals) == found.evidence
    early = judge(range(4), pairs_of(values, 200, is_fair=is_fair), Criteria(arms=4))
    assert (early.kind, early.leader, early.is_decided) == ("undecided", 1, False)


def test_a_verdict_needs_every_rival() -> None:
    """Two arms that are alike keep each other from being declared, however far the third is behind."""
    found = judge(range(3), pairs_of([0.5, 0.5, 0.1], 50_000), Criteria(arms=3))
    assert not found.is_decided
    assert dict(found.rivals)[2] > found.needed


def test_levels_of_arms_add_up_to_alpha() -> None:
    """The probabilities of declaring each arm wrongly add up to alpha, with arms that are added later or without."""
    assert isclose(sum(1 / Criteria(arms=5).needed(arm) for arm in range(5)), 0.05)
    later = Criteria(arms=5, may_add_arms=True)
    assert sum(1 / later.needed(arm) for arm in range(5 + 10_000)) < 0.05
    assert isclose(sum(1 / later.needed(arm) for arm in range(5 + 10_000)), 0.05, rel_tol=1e-3)


def test_equal_arms_are_rarely_declared() -> None:
    """Two equal arms are declared in at most 5 % of 300 runs, judged at every 100th response, with a level that moves.

    With a probability of 5 % a run, 30 or more of 300 are declared with probability below 3e-4.
    """
    declared = 0
    for seed in range(300):
        random, cells = Random(seed), [0.0] * 4
        for t in range(1, 1501):
            level = 0.9 if t % 600 < 300 else 0.1
            arm = random.randrange(2)
            cells[2 * arm] += 1
            cells[2 * arm + 1] += random.random() < LOW + SLOPE * level
            if t % 100 == 0:
                kept = Pair(tuple(cells), (LOW, SLOPE), is_fair=True)
                found = judge([0, 1], lambda b, _, kept=kept: kept if b == 0 else kept.swapped, Criteria(arms=2))  # type: ignore[misc]
                if found.is_decided:
                    declared += 1
                    break
    assert declared < 30


def test_no_gain_ends_an_experiment() -> None:
    """Arms that are shown to be less than `worth` better than the control end it, but not while one may be better."""
    criteria = Criteria(arms=3, worth=0.05)
    assert judge(range(3), pairs_of([0.3, 0.3, 0.29], 60_000), criteria).kind == "no-gain"
    assert judge(range(3), pairs_of([0.3, 0.3, 0.29], 2_000), criteria).kind == "undecided"
    assert judge(range(3), pairs_of([0.3, 0.36, 0.29], 60_000), criteria).kind == "better"
    assert judge(range(3), pairs_of([0.3, 0.36, 0.36], 60_000), criteria).kind == "undecided"


def test_harm_is_named() -> None:
    """An arm that is shown to be worse than the control by more than `harm` is listed, and no other arm."""
    found = judge(range(3), pairs_of([0.4, 0.2, 0.39], 20_000), Criteria(arms=3, harm=0.05))
    assert found.harmful == (1,)


def test_forged_responses() -> None:
    """A verdict says which share of forged responses it bears; with `forged` it waits until it bears that share."""
    pairs = pairs_of([0.4, 0.5], 40_000)
    found = judge([0, 1], pairs, Criteria(arms=2))
    assert 0.01 < found.forged < (0.5 - 0.4) * SLOPE
    assert judge([0, 1], pairs, Criteria(arms=2, forged=found.forged)).is_decided
    assert not judge([0, 1], pairs, Criteria(arms=2, forged=found.forged + 0.001)).is_decided


def test_forgers_cannot_lower_the_worst_case() -> None:
    """Whatever a share of forgers said, what remains without ones of b and zeros of a is no better for b."""
    pair = Pair((100.0, 60.0, 80.0, 30.0), (LOW, SLOPE), is_fair=True)
    assert without_forged(pair, 0.1).cells == (90.0, 50.0, 72.0, 30.0)


def test_no_more_ones_are_forged_than_there_are() -> None:
    """Zeros of b and ones of a speak against b: they stay, however many responses may be forged."""
    pair = Pair((100.0, 4.0, 80.0, 77.0), (LOW, SLOPE), is_fair=True)
    assert without_forged(pair, 0.1).cells == (96.0, 0.0, 77.0, 77.0)


def test_forgers_delay_no_gain_and_harm_too() -> None:
    """With a share of forged responses no verdict ends an experiment that these could have caused."""
    even, worse = pairs_of([0.3, 0.3], 60_000), pairs_of([0.4, 0.2], 20_000)
    assert judge([0, 1], even, Criteria(arms=2, worth=0.05)).kind == "no-gain"
    assert judge([0, 1], even, Criteria(arms=2, worth=0.05, forged=0.02)).kind == "undecided"
    assert judge([0, 1], worse, Criteria(arms=2, harm=0.1)).harmful == (1,)
    assert judge([0, 1], worse, Criteria(arms=2, harm=0.1, forged=0.05)).harmful == ()


def test_retired_arms_leave_no_part_of_alpha_to_others() -> None:
    """Harm needs the same evidence, and intervals keep their width, however many of ten arms are still in use."""
    pairs, many, few = pairs_of([0.4] + [0.29] * 9, 8_000), Criteria(arms=10, harm=0.05), Criteria(arms=2, harm=0.05)
    assert judge([0, 1], pairs, few).harmful == (1,)
    assert judge(range(10), pairs, many).harmful == judge([0, 1], pairs, many).harmful == ()
    found, alone = (compare(0, 1, pairs(0, 1), criteria, (0.0, 1.0)) for criteria in (many, few))
    assert alone.low > found.low


@pytest.mark.parametrize(
    "wrong",
    [{"arms": 0}, {"alpha": 1.0}, {"forged": -0.1}, {"worth": 0.0}, {"harm": 1.0}, {"planned": (0.5, 0.4)}],
    ids=str,
)
def test_criteria_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    """By name, before any response is judged by them."""
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        Criteria(**{"arms": 2} | wrong)


def test_intervals_of_all_pairs_have_alpha_together() -> None:
    """Also with every arm that is added later, and however many of the arms are retired meanwhile."""
    fixed, later = Criteria(arms=5), Criteria(arms=3, may_add_arms=True)
    assert isclose(sum(fixed.pair_alpha(b, a) for a in range(5) for b in range(a)), 0.05)
    assert isclose(sum(later.pair_alpha(b, a) for a in range(3) for b in range(a)), 0.05 * 3 / 4)
    assert sum(later.pair_alpha(a, b) for a in range(400) for b in range(a)) < 0.05
    pairs = pairs_of([0.4, 0.3, 0.3, 0.3], 8_000)
    near, far = (compare(0, arm, pairs(0, arm), later, (0.0, 1.0)) for arm in (1, 3))
    assert near.low > far.low


def test_a_plan_decides_sooner_if_it_is_right() -> None:
    """The planned gain as a prior raises the evidence where the gain is that, and lowers it where there is none."""
    pairs = pairs_of([0.05, 0.06], 200_000)
    planned = Criteria(arms=2, planned=(0.05, 0.06))
    assert judge([0, 1], pairs, planned).evidence > 2 * judge([0, 1], pairs, Criteria(arms=2)).evidence
    even = pairs_of([0.05, 0.05], 200_000)
    assert judge([0, 1], even, planned).evidence < judge([0, 1], even, Criteria(arms=2)).evidence


def test_a_comparison_is_in_the_units_of_the_rewards() -> None:
    """Differences are in reward units, the lift is relative; there is no lift where rewards may be negative."""
    pair = pairs_of([0.4, 0.5], 40_000)(1, 0)
    found = compare(1, 0, pair, Criteria(arms=2), (0.0, 5.0))
    assert isclose(found.difference, 0.5, rel_tol=1e-9)
    assert found.low < 0.5 < found.high
    assert found.lift is not None
    assert isclose(found.lift, 0.25, rel_tol=1e-9)
    assert found.lift_low is not None
    assert found.lift_high is not None
    assert 0 < found.lift_low < 0.25 < found.lift_high
    shifted = compare(1, 0, pair, Criteria(arms=2), (5.0, 10.0))
    assert shifted.lift is not None
    assert isclose(shifted.lift, 0.5 / 7, rel_tol=1e-9)
    assert compare(1, 0, pair, Criteria(arms=2), (-1.0, 1.0)).lift is None


def test_one_arm_or_none_is_no_contest() -> None:
    """A single arm leads and is not declared; without responses there is no leader."""
    assert judge([0], pairs_of([0.5], 100), Criteria(arms=1)).kind == "undecided"
    assert judge([0, 1], lambda *_: None, Criteria(arms=2)).leader is None


def test_a_coin_that_is_not_fair_among_the_answers_is_found() -> None:
    """588 answers against 412 are no chance; 1,000 fair coins, watched at every toss: one trial in a hundred, ever.

    At exactly 1 %, more than 13 of 400 trials would have probability 0.0001.
    """

    def pairs(of_b: int, of_a: int) -> Pairs:
        return lambda b, a: Pair((of_b, 0, of_a, 0) if b < a else (of_a, 0, of_b, 0), (0.0, 1.0), is_fair=True)

    assert unequal_answers((0, 1), pairs(588, 412), 0.01) == (0, 1)
    assert unequal_answers((0, 1), pairs(412, 588), 0.01) == (1, 0)
    assert unequal_answers((0, 1), pairs(520, 480), 0.01) is None
    assert unequal_answers((0, 1), lambda _b, _a: None, 0.01) is None
    random, alarms = Random(4), 0
    for _ in range(400):
        counts = [0, 0]
        for _ in range(1_000):
            counts[random.randrange(2)] += 1
            if unequal_answers((0, 1), pairs(*counts), 0.01):
                alarms += 1
                break
    assert alarms <= 13
