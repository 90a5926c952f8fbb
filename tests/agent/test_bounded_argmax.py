"""The bounded argmax chooses as a scan of every arm does, in every state; a bound that is too low would be noticed."""

import random
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from tests.agent.walks import Walk, full_scan

from ldpbandits import UCB, Agent, Arm, Response, Rule, SpecError, ldp_ucb_b, ldp_ucb_l
from ldpbandits.agent import bounded_argmax
from ldpbandits.agent.bounded_argmax import CHEAP_INDEX_MIN_ARMS, BoundedArgmax, Moves
from ldpbandits.agent.max_tree import MaxTree
from ldpbandits.agent.rules import IMED, KLUCB, KLUCBPlus
from ldpbandits.agent.tally import Tally
from ldpbandits.spec.menu import Menu

RULES = [ldp_ucb_b(), UCB(0.0), UCB(0.3, floor=2.0), KLUCB(), KLUCBPlus(), IMED()]


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("played", [0, 3, 1_000])
def test_every_choice_is_that_of_the_full_scan(rule: Rule, played: int) -> None:
    """From 1 to 300 arms, fresh or played, through pulls out, late and lost, arms that come and go, and a store."""
    for arms, steps in ((1, 30), (2, 100), (3, 300), (9, 300), (40, 200), (300, 20)):
        assert Walk(rule, arms, arms + played, played=played).agrees(steps), arms


@pytest.mark.parametrize("rule", [KLUCB(), KLUCBPlus(), IMED()], ids=str)
def test_several_epsilons_are_looked_out_for_too(rule: Rule) -> None:
    """The likelihood of several epsilons moves as that of one does."""
    menu = Menu.from_json({"mechanism": "bernoulli", "epsilon": [0.5, 4]})
    for arms, steps, played in ((2, 50, 0), (9, 60, 3), (40, 30, 1_000)):
        assert Walk(rule, arms, arms, played=played, menu=menu).agrees(steps), arms


@pytest.mark.parametrize("rule", [ldp_ucb_l(1.0), UCB(1.0)], ids=str)
def test_responses_outside_the_unit_interval(rule: Rule) -> None:
    """Means of either sign, no two alike."""
    for arms, steps in ((2, 200), (20, 300), (200, 100)):
        assert Walk(rule, arms, arms, bits=False).agrees(steps), arms


@pytest.mark.parametrize("rule", [ldp_ucb_b(), KLUCB(), KLUCBPlus(), IMED()], ids=str)
def test_an_agent_of_many_arms_plays_as_by_full_scans(rule: Rule) -> None:
    """Round after round by `issue` and `update`, from nothing, with enough arms for the bounded argmax."""
    rng, agent = random.Random(5), Agent(rule, CHEAP_INDEX_MIN_ARMS + 20)
    for _ in range(1_000):
        expected = full_scan(agent)
        assert agent.select() == agent.issue() == expected
        agent.update(expected, Response(float(rng.random() < 0.4 + expected / 200)))
    assert agent._choice is not None


def broken(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """Put a fault in."""
    if fault == "bounds too low":
        monkeypatch.setattr(bounded_argmax, "ROUNDING_MARGIN", -0.02)
    elif fault == "bounds that never end":
        keep = BoundedArgmax._set_bound
        monkeypatch.setattr(
            BoundedArgmax, "_set_bound", lambda self, group, bound, _: keep(self, group, bound, float("inf"))
        )
    elif fault == "pulls out that nobody tells of":
        change = Tally._change_out

        def untold(self: Tally, arm: Any, by: int) -> None:
            before = set(self.touched)
            change(self, arm, by)
            self.touched.intersection_update(before)

        monkeypatch.setattr(Tally, "_change_out", untold)
    else:
        monkeypatch.setattr(
            MaxTree, "first", lambda self: self.size - 1 - self.scores[: self.size - 1 : -1].index(self.scores[1])
        )


@pytest.mark.parametrize(
    "fault", ["bounds too low", "bounds that never end", "pulls out that nobody tells of", "the last of the least"]
)
def test_a_fault_would_be_noticed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same walks find each fault, under each rule."""
    broken(monkeypatch, fault)
    for rule in (ldp_ucb_b(), KLUCBPlus(), IMED()):
        walks = (Walk(rule, 20, seed, played=played) for seed in range(5) for played in (3, 1_000))
        assert not all(walk.agrees(300) for walk in walks), rule


def test_a_decision_looks_at_few_arms() -> None:
    """2,000 arms in play, 2,000 decisions: below 8 indexes each are computed, bounds included; by full scans, 2,000."""
    computed = 0

    @dataclass(frozen=True)
    class Counting(Rule):
        floor: float = 0.0
        parameters: ClassVar[tuple[float, ...]] = ()
        moves: ClassVar[Moves] = Moves.WITH_T

        @staticmethod
        def index(arm: Any, random: Any, parameters: Any) -> float:
            nonlocal computed
            computed += 1
            return KLUCBPlus().index(arm, random, parameters)

    rng, agent = random.Random(6), Agent(Counting(), 2_000)
    for decision in range(8_000):
        if decision == 6_000:
            computed = 0
        arm = agent.issue()
        agent.update(arm, Response(float(rng.random() < 0.3 + arm / 5_000)))
    assert 2_000 < computed < 8 * 2_000


def test_a_rule_that_declares_nothing_is_asked_about_every_arm() -> None:
    """There is no bounded argmax for it, however many arms there are; and what is declared must be known."""

    @dataclass(frozen=True)
    class Greedy(Rule):
        floor: float = 0.0
        parameters: ClassVar[tuple[float, ...]] = ()

        @staticmethod
        def index(arm: Any, random: Any, parameters: Any) -> float:
            return float(arm.mean)

    @dataclass(frozen=True)
    class Wrong(Greedy):
        moves: ClassVar[Any] = "sideways"

    agent = Agent(Greedy(), 10 * CHEAP_INDEX_MIN_ARMS)
    for arm in range(10 * CHEAP_INDEX_MIN_ARMS):
        agent.update(Arm(arm), Response(arm / (10 * CHEAP_INDEX_MIN_ARMS)))
    assert agent.select() == 10 * CHEAP_INDEX_MIN_ARMS - 1
    assert agent._choice is None
    with pytest.raises(
        SpecError, match=r"moves of a rule are one of Moves\.WITH_T, Moves\.AGAINST_BEST, got 'sideways'"
    ):
        Agent(Wrong(), 2)


def test_a_max_tree_knows_its_greatest() -> None:
    """After any change; the first of several; also of a single number."""
    rng = random.Random(7)
    for length in (1, 2, 3, 8, 13):
        row = [float(rng.randrange(4)) for _ in range(length)]
        tree = MaxTree(row)
        for _ in range(200):
            assert tree.scores[1] == max(row)
            assert tree.first() == row.index(max(row))
            place = rng.randrange(length)
            row[place] = float(rng.randrange(4))
            tree.set(place, row[place])
