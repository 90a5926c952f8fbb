"""Duels and equal shares: fair coins, challengers, and responses that are counted by pair of arms."""

import json
from collections import Counter
from math import isclose
from random import Random

import pytest

from ldpbandits.agent.agent import Agent
from ldpbandits.agent.duels import NO_DUEL, Choice, Design, duel_gap, pick_challenger
from ldpbandits.agent.inference.verdicts import Criteria
from ldpbandits.agent.laplace_rules import DuelsLaplace, EqualSharesLaplace
from ldpbandits.agent.rules import Duels, EqualShares, KLUCBPlus, Rule
from ldpbandits.errors import ParameterError, SnapshotError, SpecError
from ldpbandits.types import Arm, Response

BITS = {"mechanism": "bernoulli", "epsilon": 1}
LAPLACE = {"mechanism": "laplace", "epsilon": 1}
MENU = {"mechanism": "bernoulli", "epsilon": [0.5, 2]}


def agent_of(rule: Rule, arms: int, curator: object = BITS, seed: int = 0) -> Agent:
    """Return an agent with its own source of coins."""
    return Agent(rule, arms, curator=curator, random=Random(seed))


def duel(arm: int, rival: int) -> Choice:
    """Return the choice of an arm against a rival."""
    return Choice(Arm(arm), Arm(rival))


def test_the_coin_is_fair() -> None:
    """Of 4,000 choices between two arms each gets half, within 5 standard deviations: false alarm below 1e-6."""
    for rule in (Duels(), EqualShares()):
        agent = agent_of(rule, 2)
        agent.count(duel(0, 1), 1000, 900.0)
        agent.count(duel(1, 0), 1000, 100.0)
        chosen = Counter(agent.choose().arm for _ in range(4000))
        assert abs(chosen[Arm(0)] - 2000) < 5 * 32


def test_equal_shares_know_every_arm() -> None:
    """Equal shares give every arm in use the same part, and none to a retired one; the rival is the newest arm."""
    agent = agent_of(EqualShares(), 4)
    agent.retire(Arm(2))
    chosen = Counter(agent.choose() for _ in range(6000))
    assert {choice.arm for choice in chosen} == {0, 1, 3}
    assert {choice.rival for choice in chosen} == {3}
    assert all(abs(count - 2000) < 5 * 37 for count in chosen.values())


def test_a_retired_arm_keeps_its_part_of_alpha() -> None:
    """Whoever retires arms by what was seen would else declare a survivor too soon."""
    agent = agent_of(Duels(), 4)
    before = agent.verdict().needed
    agent.retire(Arm(2))
    agent.retire(Arm(3))
    assert agent.verdict().needed == before == 80
    with pytest.raises(ParameterError, match="need arms >= 4, retired ones too, got 2"):
        agent.verdict(Criteria(arms=2))
    assert agent.comparisons(Criteria(arms=2, may_add_arms=True)) == []


def test_one_look_of_an_agent_is_at_its_number_of_responses() -> None:
    """At any other number it would be one of several looks."""
    agent = agent_of(EqualShares(), 2)
    for arm, ones in ((0, 9.0), (1, 41.0)):
        agent.count(duel(arm, 1), 50, ones)
    assert agent.verdict(Criteria(arms=2, one_look=100)).is_decided
    with pytest.raises(ParameterError, match="one_look is at 50 responses, once; there are 100"):
        agent.verdict(Criteria(arms=2, one_look=50))


def test_the_leader_duels_with_the_arm_that_is_hardest_to_tell() -> None:
    """Arms without a duel come first, the least pulled before others; then the least G + log n."""
    assert pick_challenger(0, [0.0, NO_DUEL, 1.0, NO_DUEL], [0, 0, 9, 0], [5, 7, 9, 2]) == 3
    assert pick_challenger(1, [0.5, 0.0, 3.0], [100, 0, 2], [100, 102, 2]) == 2
    assert pick_challenger(1, [0.5, 0.0, 9.0], [100, 0, 2], [100, 102, 2]) == 0
    assert pick_challenger(0, [0.0], [0], [3]) == -1


def test_many_pulls_that_are_out_go_to_different_challengers() -> None:
    """Before the first response, pulls that are out spread over all challengers."""
    agent = agent_of(Duels(), 5)
    for _ in range(400):
        agent.issue()
    assert min(arm.out for arm in agent.tally.arms[1:]) > 20


def test_the_gap_is_that_of_a_normal_test() -> None:
    """G is half the square of gain over standard error for one level, and 0 where b is behind."""
    gap = duel_gap((100.0, 60.0, 50.0, 20.0), (0.1, 0.8))
    mean = 81 / 152
    assert isclose(gap, (0.6 - 0.4) ** 2 / (2 * mean * (1 - mean) * (1 / 100 + 1 / 50)))
    assert duel_gap((50.0, 20.0, 100.0, 60.0), (0.1, 0.8)) == 0
    assert duel_gap((50.0, 20.0, 0.0, 0.0), (0.1, 0.8)) == NO_DUEL


@pytest.mark.parametrize("rule", [Duels(), EqualShares()])
def test_arms_that_are_added_later_are_compared_since_then(rule: Rule) -> None:
    """Responses from before an arm was added are not compared with its own."""
    agent = agent_of(rule, 2)
    agent.count(duel(0, 1), 100, 50.0)
    agent.count(duel(1, 1 if rule.design is Design.EQUAL else 0), 100, 60.0)
    new = agent.add_arm()
    assert agent.pair(0, new) is None
    agent.count(duel(0, 2), 10, 4.0)
    agent.count(Choice(new, Arm(2 if rule.design is Design.EQUAL else 0)), 10, 7.0)
    found = agent.pair(0, new)
    assert found is not None
    assert found.cells == (10.0, 4.0, 10.0, 7.0)
    old = agent.pair(0, 1)
    assert old is not None
    assert old.cells[0] == (110.0 if rule.design is Design.EQUAL else 100.0)


def test_responses_without_a_rival_prove_nothing() -> None:
    """A warm start, or a pull that no coin chose, is counted for the means and not for verdicts."""
    agent = agent_of(Duels(), 2)
    agent.update(Arm(0), Response(1.0))
    assert agent.pulls == (1, 0)
    assert agent.pair(0, 1) is None
    assert agent.verdict().leader is None


@pytest.mark.parametrize(
    ("rule", "curator"),
    [
        (Duels(), BITS),
        (EqualShares(), BITS),
        (Duels(), MENU),
        (DuelsLaplace(1.0), LAPLACE),
        (EqualSharesLaplace(1.0), LAPLACE),
    ],
)
def test_a_snapshot_keeps_the_duels(rule: Rule, curator: object) -> None:
    """An agent that is restored from its snapshot has the same pairs, and the same verdict."""
    agent, random = agent_of(rule, 3, curator), Random(1)
    for _ in range(200):
        choice = agent.choose()
        epsilon = random.choice([0.5, 2.0]) if curator is MENU else None
        agent.update(choice.arm, Response(float(random.random() < 0.5)), epsilon=epsilon, rival=choice.rival)
    again = Agent.from_json(json.loads(json.dumps(agent.to_json())))
    assert again.pair(0, 1) == agent.pair(0, 1)
    assert again.verdict() == agent.verdict()
    assert agent.verdict().drift_proof


def test_a_snapshot_with_wrong_duels_is_refused() -> None:
    """Duels of unknown arms, of the wrong length, or more than the pulls of an arm are refused in one line."""
    agent = agent_of(Duels(), 2)
    agent.count(duel(0, 1), 5, 3.0)
    good = agent.to_json()
    for wrong in ([[0, 7, 1, 1]], [[0, 1, 1]], "none", [[0, 1, 6, 3.0]]):
        with pytest.raises(SnapshotError, match="duels"):
            Agent.from_json({**good, "duels": wrong})


def test_laplace_readings_are_rescaled() -> None:
    """Clipped responses become numbers in [0, 1], whose means are those of the values, scaled."""
    agent = agent_of(DuelsLaplace(1.0), 2, LAPLACE)
    for response in (-3.0, 0.5, 7.0):
        agent.update(Arm(0), Response(response), rival=Arm(1))
    found = agent.pair(0, 1)
    assert found is not None
    assert found.cells[0] == 3
    assert isclose(found.cells[1], 0 + 0.5 + 1, rel_tol=1e-9)
    assert isclose(found.scale[1], 1 / 3, rel_tol=1e-5)


def test_rules_that_follow_responses_are_compared_by_the_pair_test() -> None:
    """Under an adaptive rule a verdict needs constant means, and says so; some rules allow none."""
    agent = agent_of(KLUCBPlus(), 2)
    agent.tally.add(Arm(0), 20_000, 9_000.0)
    agent.tally.add(Arm(1), 20_000, 10_000.0)
    found = agent.verdict()
    assert (found.kind, found.leader, found.drift_proof) == ("better", 1, False)
    laplace = Agent.for_curator(LAPLACE, 2)
    assert laplace.pair(0, 1) is None


def test_duels_refuse_what_they_cannot_compare() -> None:
    """Duels are for responses in [0, 1]; for CTL there is duels-laplace, and nothing for the real line."""
    with pytest.raises(SpecError, match="duels"):
        agent_of(Duels(), 2, LAPLACE)
    with pytest.raises(SpecError, match="duels-laplace"):
        agent_of(DuelsLaplace(1.0), 2, {**LAPLACE, "transform": {"kind": "real-line"}})


def test_duels_find_the_best_arm() -> None:
    """Five arms at epsilon 2 are decided rightly in 10 runs of at most 40,000 responses."""
    curator = {"mechanism": "bernoulli", "epsilon": 2}
    values = (0.8, 0.7, 0.6, 0.5, 0.4)
    agent = agent_of(Duels(), 5, curator)
    low, slope = agent.bound_rule.unit.scale if agent.bound_rule.unit else (0.0, 0.0)
    for seed in range(10):
        agent, random = agent_of(Duels(), 5, curator, seed), Random(seed + 1000)  # a coin must not know the responses
        for t in range(40_000):
            choice = agent.choose()
            bit = random.random() < low + slope * values[choice.arm]
            agent.update(choice.arm, Response(float(bit)), rival=choice.rival)
            if t % 200 == 0 and agent.verdict().is_decided:
                break
        assert agent.verdict().leader == 0
        assert agent.verdict().is_decided
