"""KL-UCB, KL-UCB++, IMED and Thompson sampling choose as their definitions say, to full precision."""

import math
import random
from decimal import Decimal, localcontext

import pytest

from ldpbandits import Agent, BernoulliCurator, LaplaceCurator, Response, SpecError
from ldpbandits.agent.kernels import ArmView, gamma, kl, upper_confidence
from ldpbandits.agent.rules import IMED, KLUCB, RULES, AdaUCB, KLUCBPlus, Rule, Thompson, rule_from_json, rule_to_json
from ldpbandits.agent.tally import ArmTally, Tally
from ldpbandits.types import Arm

POLICIES: list[Rule] = [KLUCB(), KLUCBPlus(), IMED(), Thompson(), AdaUCB(5_000, epsilon=2)]


def exact_kl(p: float, q: Decimal) -> Decimal:
    """The divergence, to 60 digits."""
    one = Decimal(p)
    ones = one * (one / q).ln() if one > 0 else Decimal(0)
    return ones + ((1 - one) * ((1 - one) / (1 - q)).ln() if one < 1 else Decimal(0))


def exact_upper(p: float, level: float) -> Decimal:
    """The upper confidence, by bisection to 60 digits."""
    low, high = Decimal(p), 1 - Decimal(10) ** -55
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if exact_kl(p, middle) <= Decimal(level) else (low, middle)
    return low


def cases(count: int) -> list[tuple[float, float]]:
    """Means in the middle and near both ends, levels from tiny to large."""
    rng = random.Random(7)
    means = (rng.random, lambda: 10 ** rng.uniform(-12, -1), lambda: 1 - 10 ** rng.uniform(-12, -1))
    return [(rng.choice(means)(), 10 ** rng.uniform(-12, 1.3)) for _ in range(count)]


def test_the_upper_confidence_is_exact_to_the_last_places() -> None:
    """Within 4 units in the last place of U, at 400 means and levels, near 0 and 1 too; and its ends are right."""
    with localcontext() as context:
        context.prec = 60
        for p, level in cases(400):
            exact = exact_upper(p, level)
            assert abs(Decimal(upper_confidence(p, level)) - exact) <= 4 * Decimal(2) ** -53 * exact, (p, level)
    assert upper_confidence(0.3, 0.0) == 0.3
    assert upper_confidence(1.0, 0.5) == 1.0
    assert upper_confidence(0.0, 0.5) == pytest.approx(1 - math.exp(-0.5), rel=1e-15)
    assert upper_confidence(0.5, 100.0) == 1.0


def test_the_divergence_keeps_its_digits_where_means_are_close() -> None:
    """Relative error below 1e-11 down to differences of 1e-9, where the textbook formula has none left."""
    with localcontext() as context:
        context.prec = 60
        for p in (0.5, 0.01, 0.99):
            for step in (1e-9, 1e-6, 1e-3, -1e-9, -1e-4):
                exact = exact_kl(p, Decimal(p + step))
                assert abs(Decimal(kl(p, p + step)) / exact - 1) < Decimal("1e-11"), (p, step)
    assert kl(0.0, 0.25) == pytest.approx(math.log(4 / 3))
    assert kl(1.0, 0.25) == pytest.approx(math.log(4))


def level(rule: Rule, arm: ArmView) -> float:
    """The level of N kl(mean, index), as the definitions have it."""
    if isinstance(rule, KLUCB):
        return math.log(arm.t)
    x = arm.t / (arm.arms * arm.n)
    return math.log(x * (1 + math.log(x) ** 2)) if x > 1 else 0.0


@pytest.mark.parametrize("rule", [KLUCB(), KLUCBPlus()])
def test_kl_ucb_spends_its_level(rule: Rule) -> None:
    """At the index q, N kl(mean, q) is the level: log t, or f(t / (K N)); where there is none, q is the mean."""
    rng = random.Random(1)
    for _ in range(300):
        pulls, arms = rng.randint(1, 5_000), float(rng.randint(1, 50))
        arm = ArmView(rng.random(), pulls, 0, pulls, pulls * rng.uniform(1, 500), 0.5, arms)
        q = rule.index(arm, rng, ())
        wanted = level(rule, arm)
        assert q == arm.mean if wanted == 0 else q >= 1 - 1e-12 or arm.n * kl(arm.mean, q) == pytest.approx(wanted)


def test_imed_pulls_where_the_sum_is_smallest() -> None:
    """N kl(mean, best) + log N, recomputed for random tallies; leaders count with log N alone."""
    rng = random.Random(2)
    for _ in range(200):
        pulls = [rng.randint(1, 200) for _ in range(6)]
        ones = [rng.randint(0, count) for count in pulls]
        means = [one / count for one, count in zip(ones, pulls, strict=True)]
        best = max(means)
        sums = [n * (kl(m, best) if m < best else 0) + math.log(n) for m, n in zip(means, pulls, strict=True)]
        agent = Agent(IMED(), 6)
        agent.tally = Tally(ArmTally(n, float(s)) for n, s in zip(pulls, ones, strict=True))
        assert agent.select() == sums.index(min(sums))


def test_thompson_draws_from_the_posterior() -> None:
    """The draws of an arm have the mean and the variance of Beta(1 + S, 1 + N - S); 1e5 draws. False alarm: 1e-6."""
    rng = random.Random(3)
    ones, pulls, draws = 3.0, 10.0, 100_000
    arm = ArmView(ones / pulls, pulls, 5.0, pulls + 5, 50.0, 0.5, 2.0)
    drawn = [Thompson().index(arm, rng, ()) for _ in range(draws)]
    a, b = 1 + ones, 1 + pulls - ones
    mean, variance = a / (a + b), a * b / (a + b) ** 2 / (a + b + 1)
    found = sum(drawn) / draws
    assert abs(found - mean) < 4.9 * math.sqrt(variance / draws)
    assert sum((x - found) ** 2 for x in drawn) / draws == pytest.approx(variance, rel=4.9 * math.sqrt(2 / draws))
    large = [gamma(1e12, rng) for _ in range(2_000)]
    assert abs(sum(large) / 2_000 / 1e12 - 1) < 4.9 * 1e-6 / math.sqrt(2_000)


@pytest.mark.parametrize("rule", POLICIES)
def test_each_policy_is_data_for_bits(rule: Rule) -> None:
    """Through JSON and back; with a curator of bits it plays, and one of noise is refused by name."""
    assert rule in RULES
    assert rule_from_json(rule_to_json(rule)) == rule
    curator = BernoulliCurator(2.0)
    agent = Agent.for_curator(curator, arms=3, rule=rule)
    rng = random.Random(4)
    for _ in range(400):
        arm = agent.select()
        agent.update(arm, Response(float(rng.random() < (0.2, 0.8, 0.3)[arm])))
    assert max(agent.pulls) == agent.pulls[1] > 200
    with pytest.raises(SpecError, match=r"is for responses in .0, 1.; those of the mechanism laplace .* are not"):
        Agent.for_curator(LaplaceCurator(2.0), arms=3, rule=rule)


@pytest.mark.parametrize("rule", POLICIES)
def test_no_policy_stumbles_over_extreme_means(rule: Rule) -> None:
    """Arms that only ever said 0, or 1, and pulls that are out: each decision is an arm."""
    agent = Agent(rule, 4)
    agent.tally = Tally([ArmTally(5, 0.0), ArmTally(5, 5.0), ArmTally(1, 1.0, out=3), ArmTally(0, 0.0, out=2)])
    for _ in range(200):
        arm = agent.issue()
        agent.update(arm, Response(1.0 if arm == 1 else 0.0))
    assert agent.t == 211 + 5


def test_ada_ucb_spends_its_level_within_the_range_of_the_bits() -> None:
    """At the index q, N kl(mean, q) = log(4 T / H), the mean that of a possible bit; an agent computes the same H."""
    rng, epsilon = random.Random(5), 1.0
    rule, low = AdaUCB(50_000, epsilon), 1 / (1 + math.exp(epsilon))
    assert list(rule.parameters) == pytest.approx([200_000.0, low])
    for _ in range(200):
        pulls = [rng.randint(1, 2_000) for _ in range(5)]
        means = [rng.random() for _ in pulls]
        indexes = []
        for n, mean in zip(pulls, means, strict=True):
            x = 200_000 / math.fsum(min(n, math.sqrt(n * other)) for other in pulls)
            possible = min(max(mean, low), 1 - low)
            arm = ArmView(mean, n, 0, n, sum(pulls), max(means), 5.0, 200_000 / x)
            indexes.append(rule.index(arm, rng, rule.parameters))
            assert indexes[-1] == possible if x <= 1 else n * kl(possible, indexes[-1]) == pytest.approx(math.log(x))
        agent = Agent(rule, 5, curator=BernoulliCurator(epsilon))
        agent.tally = Tally(ArmTally(n, mean * n) for n, mean in zip(pulls, means, strict=True))
        assert agent.select() == indexes.index(max(indexes))
        assert agent.select([Arm(3)]) == 3


def test_ada_ucb_takes_bits_of_its_epsilon_only() -> None:
    """The range of their means is another at another epsilon; without privacy the rule takes rewards in [0, 1]."""
    for rule, told in ((AdaUCB(100, 2), "is for bits of epsilon = 2"), (AdaUCB(100), "needs their epsilon")):
        with pytest.raises(SpecError, match=f"the rule ada-ucb {told}; those of the mechanism bernoulli"):
            Agent.for_curator(BernoulliCurator(1.0), arms=2, rule=rule)
    for horizon in (0, math.inf, "many"):
        with pytest.raises(SpecError, match="the horizon of ada-ucb is the number of users, >= 1"):
            AdaUCB(horizon)  # type: ignore[arg-type]
    Agent(AdaUCB(100), 2).select()
