"""The agent follows the paper's rules, and a call that is refused changes nothing."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from ldpbandits import (
    UCB,
    Agent,
    Arm,
    ArmError,
    BernoulliCurator,
    LaplaceCurator,
    ParameterError,
    Response,
    ResponseError,
    Rule,
    SnapshotError,
    SpecError,
    estimate,
    ldp_ucb_b,
    ldp_ucb_l,
    ucb1,
)
from ldpbandits.agent import rules
from ldpbandits.agent.laplace_rules import KLUCBPlusLaplace
from ldpbandits.agent.rules import KLUCBPlus, rule_from_json, rule_to_json
from ldpbandits.agent.tally import ArmTally
from ldpbandits.device.randomness import Draw
from ldpbandits.spec.menu import Menu

RULES = [ucb1(), ldp_ucb_b(), ldp_ucb_l(0.5), UCB(0.0), UCB(1.0, floor=2.0)]


def play(agent: Agent, rounds: int, responses: Callable[[Arm], float]) -> list[Arm]:
    """Play some rounds; return the arms pulled."""
    pulled = []
    for _ in range(rounds):
        arm = agent.select()
        agent.update(arm, Response(responses(arm)))
        pulled.append(arm)
    return pulled


@pytest.mark.parametrize("rule", RULES)
def test_each_arm_is_pulled_once_first_in_order(rule: UCB) -> None:
    """The first n pulls are real pulls, one an arm, from arm 0 up."""
    assert play(Agent(rule, 7), 7, float) == list(range(7))


def test_the_numbers_of_the_paper() -> None:
    """UCB1, LDP-UCB-B: sqrt(2 log t / N). LDP-UCB-L: plus sqrt(32 log t / (epsilon^2 N)), and N > 4 log(t + 1)."""
    assert ucb1() == ldp_ucb_b() == UCB(width=math.sqrt(2), floor=0)
    for epsilon in (0.1, 1.0, 8.0):
        t, pulls = 1000.0, 37.0
        paper = math.sqrt(2 * math.log(t) / pulls) + math.sqrt(32 * math.log(t) / (epsilon**2 * pulls))
        rule = ldp_ucb_l(epsilon)
        assert rule.width * math.sqrt(math.log(t) / pulls) == pytest.approx(paper)
        assert rule.floor == 4


@pytest.mark.parametrize("rule", [ucb1(), ldp_ucb_l(1.0)])
def test_select_is_the_argmax_of_the_paper(rule: UCB, seeded: Callable[[int], Draw]) -> None:
    """Over 3,000 rounds, the arm is the one that the paper's pseudo-code, written out, gives."""
    agent, curator, draw = Agent(rule, 5), LaplaceCurator(1.0), seeded(1)
    for t in range(3_000):
        pulls, totals = agent.pulls, agent.totals
        starving = [arm for arm in range(5) if pulls[arm] <= rule.floor * math.log(t + 1)]
        if starving:
            expected = min(starving, key=lambda arm: (pulls[arm], arm))
        else:
            index = [
                total / count + rule.width * math.sqrt(math.log(t) / count)
                for count, total in zip(pulls, totals, strict=True)
            ]
            expected = index.index(max(index))
        assert agent.select() == expected
        agent.update(Arm(expected), curator.respond_not_private(expected / 10, draw))


def test_ties_go_to_the_lowest_number() -> None:
    """With equal indexes the lowest-numbered arm is pulled."""
    agent = Agent(UCB(1.0), 3)
    play(agent, 3, lambda _: 1.0)
    assert agent.select() == 0


def test_the_forced_rule_takes_the_least_pulled() -> None:
    """Under LDP-UCB-L an arm with N <= 4 log(t + 1) comes first, however bad it looks."""
    agent = Agent(ldp_ucb_l(1.0), 3)
    play(agent, 3, lambda arm: 1000.0 if arm == 0 else -1000.0)
    assert play(agent, 6, lambda arm: 1000.0 if arm == 0 else -1000.0) == [0, 1, 2, 0, 1, 2]


def test_asking_changes_nothing() -> None:
    """select() twice gives the same arm."""
    agent = Agent(ucb1(), 4)
    play(agent, 100, lambda arm: arm / 4)
    before = agent.to_json()
    assert agent.select() == agent.select()
    assert agent.to_json() == before


@pytest.mark.parametrize("arm", [-1, 3, 1.0, None, True])
def test_a_bad_arm_is_refused(arm: Any) -> None:
    """An arm is a whole number from 0 to n - 1; otherwise nothing is counted."""
    agent = Agent(ucb1(), 3)
    with pytest.raises(ArmError, match="from 0 to 2, got"):
        agent.update(arm, Response(1.0))
    assert agent.pulls == (0, 0, 0)


@pytest.mark.parametrize("response", [math.nan, math.inf, -math.inf, "1", None, 10**400, True])
def test_a_bad_response_is_refused(response: Any) -> None:
    """A response is a finite number; otherwise nothing is counted."""
    agent = Agent(ucb1(), 3)
    with pytest.raises(ResponseError, match="finite number"):
        agent.update(Arm(0), response)
    assert agent.pulls == (0, 0, 0)
    assert agent.totals == (0.0, 0.0, 0.0)


def test_a_total_never_overflows() -> None:
    """A response that would make the total infinite is refused, and the total stays."""
    agent = Agent(ucb1(), 1)
    agent.update(Arm(0), Response(1.7e308))
    with pytest.raises(ResponseError, match="no longer be finite"):
        agent.update(Arm(0), Response(1.7e308))
    assert agent.pulls == (1,)
    assert agent.totals == (1.7e308,)


@pytest.mark.parametrize("rule", RULES)
def test_a_snapshot_goes_through_json_without_loss(rule: UCB, seeded: Callable[[int], Draw]) -> None:
    """The restored agent has the same rule and tally to the last bit, and plays on as the first would have."""
    agent, curator, draw = Agent(rule, 6), LaplaceCurator(0.3), seeded(4)
    play(agent, 500, lambda arm: curator.respond_not_private(arm / 6, draw) / 3)
    again = Agent.from_json(json.loads(json.dumps(agent.to_json())))
    assert again.to_json() == agent.to_json()
    assert play(again, 200, lambda arm: arm / 6) == play(agent, 200, lambda arm: arm / 6)


GOOD: dict[str, Any] = {"rule": rule_to_json(ucb1()), "t": 3, "pulls": [1, 2, 0], "totals": [0.5, 1.0, 0.0]}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"t": 4}, "t must be the sum of the pulls, 3, got 4"),
        ({"t": "3"}, "t must be the sum"),
        ({"pulls": [1, 2]}, "one entry per arm"),
        ({"pulls": [], "totals": [], "t": 0}, "one entry per arm"),
        ({"pulls": [1, 3, -1]}, "pulls of arm 2 must be a whole number >= 0"),
        ({"pulls": [1, 2.0, 0]}, "pulls of arm 1 must be"),
        ({"pulls": [1, 2, False]}, "pulls of arm 2 must be"),
        ({"totals": [0.5, math.nan, 0.0]}, "total of arm 1 must be a finite number"),
        ({"totals": [0.5, "1", 0.0]}, "total of arm 1 must be a finite number"),
        ({"totals": [0.5, 1.0, 0.25]}, "arm 2 has no pulls, but a total of 0.25"),
        (
            {"extra": 1},
            "the keys pulls, rule, t, totals, and cells, curator, duels, names, out, read, retired if there are any",
        ),
    ],
)
def test_a_snapshot_that_does_not_add_up_is_refused(change: dict[str, Any], rule: str) -> None:
    """A snapshot is restored whole or not at all."""
    assert Agent.from_json(GOOD).t == 3
    with pytest.raises(SnapshotError) as caught:
        Agent.from_json({**GOOD, **change})
    assert rule in str(caught.value)


@pytest.mark.parametrize("snapshot", [None, [], {}, "{}"])
def test_what_is_not_a_snapshot_is_refused(snapshot: object) -> None:
    """Anything else is refused by the same rule."""
    with pytest.raises(SnapshotError, match="is an object with the keys"):
        Agent.from_json(snapshot)


@pytest.mark.parametrize(
    "rule",
    [{}, {"kind": "exp3"}, {"kind": "ucb"}, {"kind": "ucb", "width": -1, "floor": 0}, None, "ucb1"],
)
def test_a_bad_rule_is_refused(rule: object) -> None:
    """A rule is data with all its keys and numbers in range."""
    with pytest.raises(SpecError):
        rule_from_json(rule)
    with pytest.raises(SpecError):
        Agent(rule, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("arms", [0, -1, 1.5, "3", None])
def test_an_agent_has_at_least_one_arm(arms: Any) -> None:
    """The number of arms is a whole number >= 1."""
    with pytest.raises(ParameterError, match="arms must be a whole number >= 1"):
        Agent(ucb1(), arms)


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan, "1"])
def test_ldp_ucb_l_needs_an_epsilon(epsilon: Any) -> None:
    """LDP-UCB-L's width depends on epsilon, which is checked."""
    with pytest.raises(ParameterError, match="epsilon must be finite and > 0"):
        ldp_ucb_l(epsilon)


def test_an_agent_shows_its_tally() -> None:
    """repr() says what it knows."""
    assert repr(Agent(UCB(1, 2), 2)) == "Agent(UCB(width=1.0, floor=2.0), pulls=[0, 0])"


def test_a_pull_that_is_out_is_settled_by_its_response_or_given_up() -> None:
    """`issue`, then `update` or `take_back`: t is right, and nothing that is not out can be taken back."""
    agent = Agent(ucb1(), ["blue", "red"])
    assert [agent.issue(), agent.issue()] == [0, 1]
    assert agent.t == 2
    agent.update("blue", Response(1.0))
    agent.take_back("red")
    assert (agent.t, agent.pulls) == (1, (1, 0))
    for arm in ("blue", Arm(1)):
        with pytest.raises(ArmError, match=r"arm .* has no pending pull"):
            agent.take_back(arm)
    for unknown in ("green", 9, None):
        with pytest.raises(ArmError, match="arm must be"):
            agent.take_back(unknown)  # type: ignore[arg-type]
    assert Agent.from_json(agent.to_json()).to_json() == agent.to_json()


def test_an_agent_for_a_curator_takes_its_responses_and_no_others() -> None:
    """The default rule, arms by name; a Laplace response to an agent of bits is an error, and counts nothing."""
    bits, noise = BernoulliCurator(1.0), LaplaceCurator(1.0)
    for curator in (bits, bits.spec, bits.to_json()):
        agent = Agent.for_curator(curator, arms=["blue", "red"])
        assert agent.rule == KLUCBPlus()
        assert Agent.for_curator(curator, arms=2, rule="paper").rule == ldp_ucb_b()
        with pytest.raises(
            ResponseError, match="is not a possible response of the bernoulli mechanism with epsilon = 1"
        ):
            agent.update("blue", Response(0.5))
        assert agent.pulls == (0, 0)
        agent.update("red", bits.respond(1.0))
        assert agent.pulls == (0, 1)
    assert Agent.for_curator(noise, arms=2).rule == KLUCBPlusLaplace(1.0)
    assert Agent.for_curator(noise, arms=2, rule="paper").rule == ldp_ucb_l(1.0)
    assert Agent.for_curator(noise, arms=2, rule=UCB(0.5)).rule == UCB(0.5)
    same = Agent(ucb1(), 2, curator=bits)
    assert same.menu == Menu.of(bits)
    with pytest.raises(SpecError, match="must be an object"):
        Agent(ucb1(), 2, curator=3)


def test_estimates_are_by_name_and_hold_together() -> None:
    """Each is that of `estimate` at the arm's share of alpha; without a curator there is nothing to estimate."""
    curator = BernoulliCurator(2.0)
    agent = Agent.for_curator(curator, arms=["blue", "red"])
    for _ in range(50):
        agent.update("blue", Response(1.0))
    found = agent.estimates(alpha=0.1)
    assert list(found) == ["blue", "red"]
    assert found["blue"] == estimate(50, 50.0, curator, alpha=0.05)
    assert found["red"].mean is None
    with pytest.raises(ParameterError, match="estimates need a curator"):
        Agent(ucb1(), 2).estimates()
    for alpha in (2, 0, "x", None):
        with pytest.raises(ParameterError, match="alpha must lie strictly between 0 and 1"):
            agent.estimates(alpha=alpha)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arms", "rule"), [([], "a list of names"), (["a", "a"], "must differ"), ([1, 2], "a list of")]
)
def test_names_of_arms_are_checked(arms: Any, rule: str) -> None:
    """They are strings, and all different."""
    with pytest.raises(ParameterError, match=rule):
        Agent(ucb1(), arms)


@dataclass
class NotFrozen(Rule):
    """A rule that could change after it was checked."""

    floor: float = 0.0
    parameters: ClassVar[tuple[float, ...]] = ()

    @staticmethod
    def index(arm: Any, random: Any, parameters: Any) -> float:
        """The mean."""
        return float(arm.mean)


@dataclass(frozen=True)
class ListField(Rule):
    """A rule with a field that could change."""

    widths: Any
    floor: float = 0.0
    parameters: ClassVar[tuple[float, ...]] = ()
    index: ClassVar[Any] = staticmethod(NotFrozen.index)


@dataclass(frozen=True)
class MethodIndex(Rule):
    """A rule whose index is a method."""

    floor: float = 0.0
    parameters: ClassVar[tuple[float, ...]] = ()

    def index(self, arm: Any, random: Any, parameters: Any) -> float:  # noqa: ARG002
        """The mean."""
        return float(arm.mean)


@dataclass(frozen=True)
class WithoutDefaults:
    """A rule as they were written before `Rule` had defaults."""

    floor: float = 0.0
    parameters: ClassVar[tuple[float, ...]] = ()
    index: ClassVar[Any] = staticmethod(NotFrozen.index)


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (WithoutDefaults(), r"inherits its defaults from ldpbandits\.Rule: write class WithoutDefaults\(Rule\)"),
        (NotFrozen(), "a rule is frozen"),
        (ListField([1.0]), "a rule is frozen, and so are its fields"),
        (MethodIndex(), "such as a static method"),
    ],
)
def test_a_rule_that_the_lab_could_not_play_is_refused_here_too(rule: Any, told: str) -> None:
    """Agents and simulations take the same rules."""
    with pytest.raises(SpecError, match=told):
        Agent(rule, 2)


def test_only_what_has_all_parts_of_a_kind_is_registered() -> None:
    """A class without a kind, one that is not frozen and one that is no rule at all are refused by what they lack."""
    for kind, told in (
        (NotFrozen, "a rule is a frozen dataclass"),
        (MethodIndex, "a rule needs kind, which MethodIndex has not"),
        (ArmTally, "a rule is a frozen dataclass"),
    ):
        with pytest.raises(SpecError, match=told):
            rules.RULES.register(kind)  # type: ignore[arg-type]
