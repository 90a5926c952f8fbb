"""Responses of several epsilons: the likelihood is exact, one epsilon is a special case, intervals always hold."""

import math
import random
from itertools import pairwise

import pytest

from ldpbandits import UCB, Agent, BernoulliCurator, Response, ResponseError, SnapshotError, SpecError
from ldpbandits.agent.inference.estimates import estimate_arm
from ldpbandits.agent.inference.sequences import log_mixed_martingale
from ldpbandits.agent.kernels import ArmView
from ldpbandits.agent.levels import Levels
from ldpbandits.agent.mixed import divergence, likeliest, mixed_thompson_index, slope, upper
from ldpbandits.agent.rules import IMED, KLUCB, KLUCBPlus, Rule, Thompson
from ldpbandits.agent.tally import ArmTally, LevelTally
from ldpbandits.spec.mechanisms import response_mean
from ldpbandits.spec.menu import Menu

EPSILONS = [0.2, 1.0, 4.0]
MENU = Menu.from_json({"mechanism": "bernoulli", "epsilon": EPSILONS})
LEVELS = Levels.of(MENU).numbers
RULES: list[Rule] = [KLUCB(), KLUCBPlus(), IMED(), Thompson()]


def log_likelihood(cells: list[float], mean: float) -> float:
    """By its definition."""
    total = 0.0
    for epsilon, n, ones in zip(EPSILONS, cells[::2], cells[1::2], strict=True):
        q = response_mean(mean, epsilon)
        total += ones * math.log(q) + (n - ones) * math.log(1 - q)
    return total


def some_cells(rng: random.Random) -> list[float]:
    """Bits and ones of each epsilon, some of which nobody has picked."""
    cells: list[float] = []
    for _ in EPSILONS:
        n = rng.choice([0, 1, 7, 300, 20_000])
        cells += [n, rng.randint(0, n)]
    return cells if any(cells[::2]) else some_cells(rng)


def test_the_likeliest_mean_and_its_upper_confidence_are_those_of_the_likelihood() -> None:
    """No mean in [0, 1] is likelier; the upper confidence is where the likelihood has fallen by so much."""
    rng = random.Random(3)
    for _ in range(200):
        cells = some_cells(rng)
        mean = likeliest(cells, LEVELS, 0.0, 1.0)
        top = log_likelihood(cells, mean)
        assert all(log_likelihood(cells, step / 100) <= top + 1e-9 * abs(top) for step in range(101))
        level = rng.uniform(0.01, 12)
        q = upper(cells, LEVELS, mean, level)
        assert mean <= q <= 1
        fallen = top - log_likelihood(cells, q)
        assert divergence(cells, LEVELS, mean, q) == pytest.approx(fallen, abs=1e-9 * abs(top) + 1e-12)
        assert fallen <= level + 1e-9 * abs(top)
        assert q == 1 or fallen == pytest.approx(level, rel=1e-8, abs=1e-9 * abs(top))
    assert upper([0, 0, 0, 0, 0, 0], LEVELS, 0.5, 1.0) == 1.0


def test_an_epsilon_of_fifty_does_no_harm() -> None:
    """Its chances are 0 and 1 but for 1e-22: the likelihood stays finite, and the mean is the share of ones."""
    menu = Menu.from_json({"mechanism": "bernoulli", "epsilon": [1, 50]})
    levels = Levels.of(menu).numbers
    assert likeliest([0, 0, 1000, 300], levels, 0.0, 1.0) == pytest.approx(0.3)
    assert likeliest([10, 3, 1000, 1000], levels, 0.0, 1.0) == pytest.approx(1, abs=1e-2)
    assert math.isfinite(slope([10, 3, 5, 5], levels, 1.0))
    assert math.isfinite(divergence([10, 3, 5, 5], levels, 1.0, 0.0))


@pytest.mark.parametrize("rule", [KLUCB(), KLUCBPlus(), IMED()], ids=lambda rule: rule.kind)
def test_one_epsilon_that_everybody_picks_is_the_plain_rule(rule: Rule) -> None:
    """With all responses of one level, 400 rounds choose the arms that the rule chooses without a menu.

    Where means are restricted to [0, 1] the two differ, so that arms are such that noise does not leave it for long.
    """
    rng = random.Random(5)
    plain = Agent(rule, 3, curator=BernoulliCurator(4.0))
    several = Agent(rule, 3, curator=MENU)
    same = 0
    for _ in range(400):
        arm = plain.select()
        same += arm == several.select()
        bit = Response(float(rng.random() < response_mean((0.4, 0.5, 0.6)[arm], 4.0)))
        plain.update(arm, bit)
        several.update(arm, bit, epsilon=4.0)
    assert same >= 390


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
def test_every_rule_for_several_epsilons_finds_the_better_arm(rule: Rule) -> None:
    """Of 1,500 pulls most are of the better arm; some have none of its responses in yet."""
    rng = random.Random(8)
    agent = Agent(rule, ["worse", "better"], curator=MENU, random=random.Random(9))
    out: list[int] = []
    for _ in range(1_500):
        out.append(agent.issue())
        if len(out) > 50:
            arm = out.pop(0)
            epsilon = rng.choice(EPSILONS)
            agent.update(
                "better" if arm else "worse",
                Response(float(rng.random() < response_mean((0.2, 0.8)[arm], epsilon))),
                epsilon=epsilon,
            )
    assert agent.tally.arms[1].n > 1_200


def test_thompson_draws_from_the_posterior() -> None:
    """5,000 draws against the posterior by quadrature: Kolmogorov-Smirnov, false alarm 1e-4 a case, 4 cases."""
    rng = random.Random(4)
    for cells in (
        [30.0, 18.0, 20.0, 12.0, 9.0, 8.0],
        [4.0, 4.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 500.0, 3.0],
        [9.0, 1.0, 40.0, 38.0, 0.0, 0.0],
    ):
        arm = ArmView(likeliest(cells, LEVELS, 0.0, 1.0), sum(cells[::2]), 0, sum(cells[::2]), 1e3, 0.5, 2.0, cells)
        drawn = sorted(mixed_thompson_index(arm, rng, LEVELS) for _ in range(5_000))
        points = 4_000
        top = log_likelihood(cells, arm.mean)
        heights = [math.exp(log_likelihood(cells, (step + 0.5) / points) - top) for step in range(points)]
        reached, total = 0.0, sum(heights)
        worst, place = 0.0, 0
        for step, height in enumerate(heights):
            reached += height / total
            while place < len(drawn) and drawn[place] <= (step + 1) / points:
                place += 1
            worst = max(worst, abs(place / len(drawn) - reached))
        assert worst < 2.23 / math.sqrt(len(drawn)) + 1 / points


def test_an_agent_with_a_menu_needs_to_know_by_which_epsilon() -> None:
    """A response without one, or with one that is not on the menu, is refused, and so is a rule that takes one only."""
    agent = Agent(IMED(), 2, curator=MENU)
    for epsilon in (None, 0.5, math.nan):
        with pytest.raises(ResponseError, match=r"epsilon must be one of the menu's, 0\.2, 1, 4"):
            agent.update("0", Response(1.0), epsilon=epsilon)
    assert agent.pulls == (0, 0)
    with pytest.raises(SpecError, match="the rule ucb is for responses of one epsilon"):
        Agent(UCB(1.0), 2, curator=MENU)
    with pytest.raises(ResponseError, match="epsilon must be one of the menu's, 1, got 2"):
        Agent(IMED(), 2, curator=BernoulliCurator(1.0)).update("0", Response(1.0), epsilon=2)


def test_a_snapshot_keeps_the_cells() -> None:
    """The agent that is made from it is the same; cells that do not add up are refused."""
    agent = Agent(KLUCBPlus(), 2, curator=MENU)
    for epsilon, bit in ((0.2, 1), (4.0, 0), (4.0, 1), (1.0, 1)):
        agent.update(agent.select(), Response(float(bit)), epsilon=epsilon)
    snapshot = agent.to_json()
    same = Agent.from_json(snapshot)
    assert same.to_json() == snapshot
    assert (same.select(), same.estimates()) == (agent.select(), agent.estimates())
    wrong: tuple[object, ...] = (
        None,
        [],
        [[]],
        [[[0, 0], [0, 0], [0, 0]]] * 2,
        [[[1], [0, 0], [0, 0]]] * 2,
        [[[-1, 0], [0, 0], [3, 1]]] * 2,
        [[[1, 3.0], [0, 0], [1, -2.0]]] * 2,
    )
    for cells in wrong:
        with pytest.raises(SnapshotError):
            Agent.from_json({**snapshot, "cells": cells})
    agent.add_arm("late")
    agent.retire("0")
    assert Agent.from_json(agent.to_json()).to_json() == agent.to_json()


def tally(rng: random.Random, mean: float, pulls: int) -> ArmTally:
    """An arm's tally after so many pulls."""
    cells = [[0, 0] for _ in EPSILONS]
    for _ in range(pulls):
        level = rng.randrange(len(EPSILONS))
        cells[level][0] += 1
        cells[level][1] += rng.random() < response_mean(mean, EPSILONS[level])
    listed = [LevelTally(n, float(ones)) for n, ones in cells]
    return ArmTally(pulls, sum(cell.total for cell in listed), cells=listed)


def test_intervals_hold_at_all_times_and_shrink_as_information_grows() -> None:
    """In 150 runs of 3,000 pulls the martingale at the true mean passes 1/0.05 in at most 5 % of them, and 4.6 sd more.

    The false-alarm probability is below 1e-5. The interval after 30,000 pulls is about as short as one of that many
    pulls' information allows: at most 1.8 times the best possible for a fixed time.
    """
    rng = random.Random(6)
    missed = 0
    for _ in range(150):
        mean = rng.random()
        cells, passed = [0.0] * 6, False
        for _ in range(3_000 // 100):
            for _ in range(100):
                level = rng.randrange(3)
                cells[2 * level] += 1
                cells[2 * level + 1] += rng.random() < response_mean(mean, EPSILONS[level])
            passed |= log_mixed_martingale(cells, LEVELS, mean) >= -math.log(0.05)
        missed += passed
    assert missed <= 150 * 0.05 + 4.6 * math.sqrt(150 * 0.05 * 0.95)
    arm = tally(rng, 0.6, 30_000)
    known = estimate_arm(arm, MENU, alpha=0.05)
    assert known.low < 0.6 < known.high
    information = sum(
        10_000 * LEVELS[place + 1] ** 2 / (q * (1 - q))
        for place in (0, 2, 4)
        for q in [LEVELS[place] + LEVELS[place + 1] * 0.6]
    )
    assert known.high - known.low < 1.8 * 2 * 1.96 / math.sqrt(information)
    assert abs((known.mean or 0) - 0.6) < 4.5 / math.sqrt(information)


def test_the_martingale_has_mean_one_and_a_convex_logarithm() -> None:
    """Its mean over all outcomes of a bit is 1 for each epsilon, whatever came before; intervals are intervals."""
    rng = random.Random(7)
    for _ in range(20):
        cells, mean = some_cells(rng), rng.random()
        if sum(cells[::2]) > 1_000:
            continue
        before = log_mixed_martingale(cells, LEVELS, mean)
        for place, epsilon in zip((0, 2, 4), EPSILONS, strict=True):
            after = []
            for bit in (0, 1):
                grown = list(cells)
                grown[place], grown[place + 1] = grown[place] + 1, grown[place + 1] + bit
                after.append(math.exp(log_mixed_martingale(grown, LEVELS, mean) - before))
            q = response_mean(mean, epsilon)
            assert (1 - q) * after[0] + q * after[1] == pytest.approx(1, abs=1e-9)
        values = [log_mixed_martingale(cells, LEVELS, step / 50) for step in range(51)]
        slopes = [later - earlier for earlier, later in pairwise(values)]
        assert all(later >= earlier - 1e-9 for earlier, later in pairwise(slopes))


def test_bits_that_no_mean_explains_do_not_fit() -> None:
    """When one epsilon says 0 and another 1, as if the choice had depended on the reward, the estimate says so."""
    cells = [LevelTally(0, 0.0), LevelTally(10_000, 9_000.0), LevelTally(10_000, 100.0)]
    known = estimate_arm(ArmTally(20_000, 9_100.0, cells=cells), MENU, alpha=0.05)
    assert not known.fits
    empty = estimate_arm(ArmTally(cells=[LevelTally()] * 3), MENU, alpha=0.05)
    assert (empty.mean, empty.low, empty.high, empty.fits) == (None, 0.0, 1.0, True)


def test_an_estimate_outside_of_the_range_is_not_cut_off() -> None:
    """Zeros only, of a small epsilon, are likeliest below the range; the interval stays inside."""
    known = estimate_arm(ArmTally(20, 0.0, cells=[LevelTally(20, 0.0), LevelTally(), LevelTally()]), MENU, alpha=0.05)
    assert known.mean is not None
    assert known.mean < 0
    assert known.low == 0
