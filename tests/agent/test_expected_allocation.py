"""Where a rule sends its pulls if chance stays away, and how long that makes it."""

import math
from dataclasses import replace

import pytest

from ldpbandits import Agent, CuratorSpec
from ldpbandits.agent.bound_rule import bind_rule
from ldpbandits.agent.duels import Choice, Design
from ldpbandits.agent.inference.estimates import share
from ldpbandits.agent.inference.expected_allocation import ExpectedAllocation, Shape
from ldpbandits.agent.inference.forecast import Prospect, more_by_rule, more_responses
from ldpbandits.agent.kernels import ArmView
from ldpbandits.agent.laplace_rules import KLUCBPlusLaplace
from ldpbandits.agent.rules import IMED, KLUCB, UCB, Duels, EqualShares, KLUCBPlus, Rule, Thompson
from ldpbandits.agent.tally import ArmTally, LevelTally
from ldpbandits.errors import ParameterError
from ldpbandits.spec.mechanisms import Bernoulli, Laplace
from ldpbandits.spec.menu import Menu
from ldpbandits.types import Arm

CTB, CTL = Menu.of(CuratorSpec(Bernoulli(2.0))), Menu.of(CuratorSpec(Laplace(2.0)))
MEANS = (0.3, 0.2, 0.25)


def allocation(
    rule: Rule, menu: Menu = CTB, begin: tuple[float, ...] = (1.0, 1.0, 1.0), minimum_share: float = 0
) -> ExpectedAllocation:
    """The expected allocation of three arms of these means."""
    return ExpectedAllocation(bind_rule(rule, menu), tuple(map(Shape, MEANS)), begin, minimum_share)


@pytest.mark.parametrize("rule", [KLUCBPlus(), KLUCB(), IMED(), UCB(1.4), Thompson()])
@pytest.mark.parametrize("t", [100, 10_000, 10**8])
def test_all_pulls_are_given_out_and_better_arms_get_more(rule: Rule, t: float) -> None:
    """To 1 %: what each arm gets adds up to t, in the order of the means."""
    best, worst, middle = allocation(rule).pulls_at(t)
    assert best + worst + middle == pytest.approx(t, rel=0.01)
    assert best > middle > worst >= 1


@pytest.mark.parametrize("rule", [KLUCBPlus(), KLUCB(), IMED(), UCB(1.4)])
def test_all_indexes_are_level(rule: Rule) -> None:
    """At the expected pulls no arm has a larger index than another: 2 % more or fewer pulls turn the order."""
    t = 10**6
    pulls = allocation(rule).pulls_at(t)

    def index(arm: int, times: float) -> float:
        n = pulls[arm] * times
        return rule.index(ArmView(MEANS[arm], n, 0.0, n, t, MEANS[0], 3.0), None, rule.parameters)  # type: ignore[arg-type]

    for arm in (1, 2):
        assert index(arm, 1.02) < index(0, 1.0) < index(arm, 0.98)


def test_an_arm_keeps_what_it_has_had() -> None:
    """Pulls are not taken back: an arm that had more than its due waits, the others share what is left."""
    begun = allocation(KLUCBPlus(), begin=(10.0, 50_000.0, 10.0)).pulls_at(100_000)
    assert begun[1] == 50_000
    assert sum(begun) == pytest.approx(100_000, rel=0.01)
    shares = allocation(KLUCBPlus(), begin=(10.0, 50_000.0, 10.0)).shares(49_980)
    assert shares[1] == 0
    assert sum(shares) == pytest.approx(1, abs=0.02)


def test_a_minimum_share_is_kept() -> None:
    """With a tenth for everybody the worst arm gets a tenth; without, far less."""
    t = 10**6
    assert allocation(KLUCBPlus(), minimum_share=0.1).pulls_at(t)[1] == pytest.approx(t / 10, rel=0.01)
    assert allocation(KLUCBPlus()).pulls_at(t)[1] < t / 100


def test_a_floor_is_kept() -> None:
    """LDP-UCB-L pulls each arm 4 log(t + 1) times before it looks at any index."""
    assert min(allocation(UCB(0.0, floor=4.0)).pulls_at(10**6)) == pytest.approx(4 * 13.8155, rel=1e-3)


def test_the_expected_allocation_of_tallies_is_that_of_their_means() -> None:
    """Of one epsilon, of several, and of what a rule reads in its own way."""
    arms = [ArmTally(1000, 300.0), ArmTally(1000, 200.0), ArmTally(1000, 250.0)]
    plain = ExpectedAllocation.of(bind_rule(KLUCBPlus(), CTB), arms)
    assert plain == allocation(KLUCBPlus(), begin=(1000.0, 1000.0, 1000.0))
    read = [ArmTally(1000, 0.0, read=1000 * mean) for mean in MEANS]
    assert ExpectedAllocation.of(bind_rule(KLUCBPlusLaplace(2.0), CTL), read).shapes == plain.shapes
    menu = Menu.from_json({"mechanism": "bernoulli", "epsilon": [1, 2]})
    levels = [[c.mechanism.response_mean(mean) for c in menu.curators] for mean in MEANS]
    mixed = [
        ArmTally(1000, 500 * low + 500 * high, cells=[LevelTally(500, 500 * low), LevelTally(500, 500 * high)])
        for low, high in levels
    ]
    found = ExpectedAllocation.of(bind_rule(KLUCBPlus(), menu), mixed)
    assert [shape.mean for shape in found.shapes] == pytest.approx(MEANS)
    assert sum(found.pulls_at(10**6)) == pytest.approx(10**6, rel=0.01)


def prospects(best: float, other: float, pulls: int) -> list[Prospect]:
    """Two arms with so many pulls each."""
    arms = (ArmTally(pulls, round(pulls * mean)) for mean in (best, other))
    return [Prospect(arm, share(0.05, number), pulls, 0, 0, 0.5) for number, arm in enumerate(arms)]


def test_a_forecast_by_the_expected_allocation_of_a_rule_takes_longer_than_equal_traffic() -> None:
    """A rule that learns gives the worse arm ever less. Both are more than there were, and stay the same seen later."""
    best, other = prospects(0.30, 0.27, 1000)
    alike = more_responses(best, [other], CTB)
    by_rule = more_responses(
        best, [other], CTB, ExpectedAllocation.of(bind_rule(KLUCBPlus(), CTB), [best.arm, other.arm]).shares
    )
    assert alike is not None
    assert by_rule is not None
    assert 1000 < alike < by_rule / 5
    best, other = prospects(0.30, 0.27, 2000)
    assert more_responses(best, [other], CTB) == pytest.approx(alike - 2000, rel=0.03)


def test_what_is_not_in_sight_is_not_forecast() -> None:
    """Arms that are alike are never told apart; what takes more than `beyond` is None, and 0 is now."""
    best, other = prospects(0.3, 0.3, 1000)
    assert more_responses(best, [other], CTB) is None
    best, other = prospects(0.30, 0.27, 1000)
    assert more_responses(best, [other], CTB, beyond=2000) is None
    best, other = prospects(0.9, 0.1, 1000)
    assert more_responses(best, [other], CTB) == 0


def test_an_agent_says_how_many_more_responses_it_takes() -> None:
    """Then there is a verdict, if the rule goes on; 0 if there is one; None for an arm without a response, or alone."""
    agent = Agent.for_curator(CuratorSpec(Bernoulli(2.0)), 2)
    assert agent.more_responses() is None
    agent.tally.add(Arm(0), 1_000, 270)
    assert agent.more_responses() is None
    agent.tally.add(Arm(1), 9_000, 2_700)
    known = agent.more_responses() or 0
    grown = Agent.for_curator(CuratorSpec(Bernoulli(2.0)), 2)
    pulls = ExpectedAllocation.of(agent.bound_rule, agent.tally.arms).pulls_at(10_000 + known)
    for arm, (mean, of_arm) in enumerate(zip((0.27, 0.3), pulls, strict=True)):
        grown.tally.add(Arm(arm), round(1.02 * of_arm), round(1.02 * of_arm * mean))
    assert grown.verdict().is_decided
    assert (agent.more_responses(alpha=0.001) or 0) > (agent.more_responses() or math.inf)
    agent.tally.add(Arm(0), 20_000, 5_000)
    agent.tally.add(Arm(1), 20_000, 6_000)
    assert agent.more_responses() == 0
    agent.retire(Arm(0))
    assert agent.more_responses() is None
    with pytest.raises(ParameterError, match="a forecast needs a curator"):
        Agent(UCB(1.0), 2).more_responses()


@pytest.mark.parametrize("rule", [Duels(), EqualShares()])
def test_an_agent_with_a_fair_coin_forecasts_its_verdict(rule: Rule) -> None:
    """As many responses as that of the same means make the verdict, and a hundredth less do not."""
    agent, rivals = (
        Agent.for_curator(CuratorSpec(Bernoulli(2.0)), 2, rule=rule),
        (1, 1 if rule.design is Design.EQUAL else 0),
    )

    def count(agent: Agent, each: int) -> Agent:
        for arm, mean in enumerate((0.4, 0.5)):
            agent.count(Choice(Arm(arm), Arm(rivals[arm])), each, each * mean)
        return agent

    known = count(agent, 100).more_responses() or 0
    for factor, is_decided in ((1.01, True), (0.99, False)):
        grown = Agent.for_curator(CuratorSpec(Bernoulli(2.0)), 2, rule=rule)
        assert count(grown, round(100 + factor * known / 2)).verdict().is_decided is is_decided
    assert count(agent, 100_000).more_responses() == 0


def test_an_agent_whose_responses_have_no_verdict_forecasts_by_intervals() -> None:
    """The paper's rule counts unbounded responses; its index says where the pulls go."""
    agent = Agent.for_curator(CuratorSpec(Laplace(2.0)), 2, rule="paper")
    agent.tally.add(Arm(0), 1_000, 240)
    agent.tally.add(Arm(1), 2_000, 600)
    best, other = (Prospect(agent.tally.arms[arm], share(0.05, arm), 0, 0, 0, 0.0) for arm in (1, 0))
    with pytest.raises(ParameterError, match="the responses that the rule ucb counts have no test of a difference"):
        agent.verdict()
    assert agent.more_responses() == more_by_rule(best, [other], CTL, agent.bound_rule)


def test_nothing_is_foretold_of_a_rule_that_may_do_anything() -> None:
    """A rule of one's own that does not say how its index moves."""
    best, other = prospects(0.30, 0.27, 1000)
    assert more_by_rule(best, [other], CTB, replace(bind_rule(UCB(1.0), CTB), moves=None)) is None
    assert more_by_rule(best, [other], CTB, bind_rule(UCB(1.0), CTB)) is not None
