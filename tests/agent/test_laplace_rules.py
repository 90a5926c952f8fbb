"""The rules for Laplace responses choose as their definitions say, to full precision, and their bounds are bounds."""

import json
import math
import random
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any, ClassVar

import pytest

from ldpbandits import (
    Agent,
    BernoulliCurator,
    CuratorSpec,
    LaplaceCurator,
    RealLine,
    Response,
    Rule,
    Sigmoid,
    SnapshotError,
    SpecError,
    paper_rule,
)
from ldpbandits.agent.kernels import ArmView, kl, plus_level
from ldpbandits.agent.laplace_kernels import above_half, as_share, clipped, laplace_distance, laplace_rate
from ldpbandits.agent.laplace_rules import (
    IMEDLaplace,
    IMEDLaplaceBit,
    IMEDLaplaceClip,
    KLUCBPlusLaplace,
    KLUCBPlusLaplaceBit,
    KLUCBPlusLaplaceClip,
    mean_excess,
)
from ldpbandits.agent.rules import KLUCBPlus, check_fit, check_rule, default_rule
from ldpbandits.agent.tally import ArmTally, Tally
from ldpbandits.spec.mechanisms import MECHANISMS, Bernoulli, Laplace

KINDS: list[Any] = [
    IMEDLaplace,
    KLUCBPlusLaplace,
    IMEDLaplaceClip,
    KLUCBPlusLaplaceClip,
    IMEDLaplaceBit,
    KLUCBPlusLaplaceBit,
]
ULP = Decimal(2) ** -53


def psi(tilt: Decimal, epsilon: Decimal) -> Decimal:
    """The bound on the cumulant, as the docs have it."""
    return tilt * tilt / 8 - (1 - tilt * tilt / (epsilon * epsilon)).ln()


def slope(tilt: Decimal, epsilon: Decimal) -> Decimal:
    """Its derivative."""
    return tilt / 4 + 2 * tilt / (epsilon * epsilon - tilt * tilt)


def best_tilt(epsilon: Decimal, is_below: Any) -> Decimal:
    """Return the tilt up to which `is_below` holds, by bisection."""
    low, high = Decimal(0), epsilon
    for _ in range(220):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return low


def cases(count: int) -> list[tuple[float, float, float]]:
    """Epsilons, distances and levels, from tiny to huge."""
    rng = random.Random(5)
    return [(10 ** rng.uniform(-6, 1.69), 10 ** rng.uniform(-12, 7), 10 ** rng.uniform(-14, 3)) for _ in range(count)]


def test_rate_and_radius_are_exact_to_the_last_places() -> None:
    """Within 8 units in the last place of sup (l d - psi(l)) and of its inverse, at 80 epsilons, distances, levels."""
    with localcontext() as context:
        context.prec = 60
        for given, distance, level in cases(80):
            epsilon, d, asked = Decimal(given), Decimal(distance), Decimal(level)
            tilt = best_tilt(epsilon, lambda x, e=epsilon, d=d: slope(x, e) < d)
            exact = tilt * d - psi(tilt, epsilon)
            assert abs(Decimal(laplace_rate(distance, given)) - exact) <= 8 * ULP * exact, (given, distance)
            tilt = best_tilt(epsilon, lambda x, e=epsilon, v=asked: x * slope(x, e) - psi(x, e) < v)
            exact = (asked + psi(tilt, epsilon)) / tilt
            assert abs(Decimal(laplace_distance(level, given)) - exact) <= 8 * ULP * exact, (given, level)
    assert laplace_rate(0.0, 1.0) == laplace_distance(0.0, 1.0) == 0
    assert laplace_rate(-1.0, 1.0) == 0
    assert laplace_rate(1e200, 50.0) == pytest.approx(5e201)
    assert math.isfinite(laplace_distance(1e200, 1e-6))


def test_the_bound_holds_for_noise_on_the_grid() -> None:
    """log E e^(l Z) of the device's noise Z is below -log(1 - l^2 / epsilon^2), on its grid and on coarser ones."""
    with localcontext() as context:
        context.prec = 50
        for step in (Laplace.unit, 0.125, 1.0):
            for epsilon in (0.01, 1.0, 50.0):
                for share in (0.01, 0.5, 0.99):
                    q = (-Decimal(epsilon) * Decimal(step)).exp()
                    e = (Decimal(share) * Decimal(epsilon) * Decimal(step)).exp()
                    exact = (1 - q) ** 2 / ((1 - q * e) * (1 - q / e))  # E e^(l Z), with P(Z = k) ~ q^|k|
                    assert 1 < exact <= 1 / (1 - Decimal(share) ** 2), (step, epsilon, share)


def views(count: int) -> list[ArmView]:
    """Arms with means around [0, 1]."""
    rng = random.Random(6)
    return [
        ArmView(rng.gauss(0.5, 1), n, 0.0, n, n * rng.uniform(1, 500), rng.uniform(1, 3), float(rng.randint(1, 50)))
        for n in (float(rng.randint(1, 5_000)) for _ in range(count))
    ]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_indexes_are_as_defined(epsilon: float) -> None:
    """N I(index - mean) is kl-ucb++'s level, and IMED's index is minus N I(best - mean) + log N.

    On clipped readings both are those for bits, of means moved to [0, 1] and back.
    """
    rng, excess = random.Random(1), mean_excess(epsilon)
    for arm in views(100):
        level = plus_level(arm)
        reached = KLUCBPlusLaplace(epsilon).index(arm, rng, (epsilon,)) - arm.mean
        assert arm.n * laplace_rate(reached, epsilon) == pytest.approx(level, rel=1e-9, abs=1e-12)
        wanted = arm.n * laplace_rate(arm.best - arm.mean, epsilon) + math.log(arm.n)
        assert IMEDLaplace(epsilon).index(arm, rng, (epsilon,)) == -wanted
        inside = arm._replace(mean=rng.random() * (1 + 2 * excess) - excess, best=1 + excess / 2)
        share = as_share(inside, excess)
        assert 0 <= share.mean <= 1
        q = KLUCBPlusLaplaceClip(epsilon).index(inside, rng, (excess,))
        assert q == pytest.approx(1, abs=1e-12) or arm.n * kl(share.mean, q) == pytest.approx(level, abs=1e-9)
        wanted = arm.n * kl(share.mean, share.best) + math.log(arm.n) if share.mean < share.best else math.log(arm.n)
        assert IMEDLaplaceClip(epsilon).index(inside, rng, (excess,)) == pytest.approx(-wanted)


def test_clipped_readings_keep_the_mean() -> None:
    """Summed over the device's exact law, the mean of readings is the value, but for half a step of the grid.

    Their largest distance is 1 + 2 / epsilon, but for two steps; and on the grid they are whole numbers of units.
    """
    steps = 1 << 20
    for epsilon in (0.3, 4.0):
        q, excess = math.exp(-epsilon / steps), mean_excess(epsilon)
        assert 2 * excess == pytest.approx(2 / epsilon, abs=2 * Laplace.unit)
        assert excess * steps == int(excess * steps)
        for value in (0, steps // 3, steps):
            below, above = q ** (value + 1) / (1 + q), q ** (steps - value + 1) / (1 + q)
            inside = math.fsum(k * q ** abs(k - value) for k in range(steps + 1)) * (1 - q) / (1 + q)
            mean = inside / steps - excess * below + (1 + excess) * above
            assert abs(mean - value / steps) <= Laplace.unit / 2 + 1e-12, (epsilon, value)
        responses = (-3.0, -Laplace.unit, 0.0, 0.5, 1.0, 1 + Laplace.unit, 9.0)
        readings = [clipped(response, (excess,)) for response in responses]
        assert readings == [-excess, -excess, 0.0, 0.5, 1.0, 1 + excess, 1 + excess]


@pytest.mark.parametrize("kind", KINDS)
def test_each_rule_finds_the_best_arm(kind: Any) -> None:
    """With a device's responses to rewards of 0 and 1, of three arms the best is pulled most."""
    curator, rng = LaplaceCurator(4.0), random.Random(4)

    def words(count: int) -> list[int]:
        return [rng.getrandbits(64) for _ in range(count)]

    agent = Agent.for_curator(curator, arms=3, rule=kind(4.0))
    for _ in range(600):
        arm = agent.select()
        reward = float(rng.random() < (0.2, 0.8, 0.3)[arm])
        agent.update(arm, Response(curator.respond_not_private(reward, words)))
    assert max(agent.pulls) == agent.pulls[1] > 300
    assert agent.estimates()["1"].mean == pytest.approx(0.8, abs=0.2)


def test_what_a_rule_reads_is_kept_beside_the_responses() -> None:
    """The rule sees readings, estimates the responses; a snapshot has both, and goes on from there."""
    agent = Agent.for_curator(LaplaceCurator(1.0), arms=2, rule=IMEDLaplaceBit(1.0))
    for arm, response in (("0", 7.0), ("1", -3.0), ("1", 0.75)):
        agent.update(arm, Response(response))
    assert agent.totals == (7.0, -2.25)
    assert agent.tally.means == [1.0, 0.5]
    assert agent.estimates()["0"].mean == 7.0
    told = json.loads(json.dumps(agent.to_json()))
    assert told["read"] == [1.0, 1.0]
    again = Agent.from_json(told)
    assert again.to_json() == told
    assert (again.tally.means, again.select()) == (agent.tally.means, agent.select())
    for change in ({"read": [1.0, math.inf]}, {"read": [1.0]}, {"read": ["1", 1.0]}):
        with pytest.raises(SnapshotError):
            Agent.from_json({**told, **change})
    del told["read"]
    with pytest.raises(SnapshotError, match="has the key read if its rule has a reading"):
        Agent.from_json(told)


def test_arms_that_are_out_alone_get_the_mean_of_readings() -> None:
    """An arm without a response has the mean of what the rule has read, not of the responses."""
    tally = Tally([ArmTally(2, 9.0, read=1.0), ArmTally(1, 4.0, read=0.0), ArmTally(0, 0.0, out=1)])
    tally.spread_mean()
    assert tally.means == [0.5, 0.0, 1 / 3]
    tally.add(tally.in_use[1], 1, 5.0, 1.0)
    tally.spread_mean()
    assert tally.means == [0.5, 0.5, 0.5]


@dataclass(frozen=True)
class Wider(Laplace):
    """A mechanism of somebody's own, of another law."""

    kind: ClassVar[str] = "wider"


@pytest.mark.parametrize("kind", KINDS)
def test_each_rule_takes_the_responses_it_is_made_for(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of CTL with its epsilon; other mechanisms, another epsilon, the real line and no privacy are refused."""
    rule: Rule = kind(1)
    check_fit(rule, CuratorSpec(Laplace(1.0)))
    check_fit(rule, CuratorSpec(Laplace(1.0), Sigmoid()))
    others = (CuratorSpec(Bernoulli(1.0)), CuratorSpec(Laplace(2.0)), CuratorSpec(Laplace(1.0), RealLine()))
    monkeypatch.setattr(MECHANISMS, "_types", {**MECHANISMS._types, "wider": Wider})
    for other in (*others, CuratorSpec(Wider(1.0)), None):
        with pytest.raises(SpecError, match=r"is for responses of the mechanism laplace with epsilon = 1 to values in"):
            check_fit(rule, other)
    with pytest.raises(SpecError, match="is for responses of the mechanism laplace"):
        Agent.for_curator(BernoulliCurator(1.0), arms=2, rule=rule)
    with pytest.raises(SpecError, match="epsilon must be finite and > 0"):
        kind(0)


def test_the_default_rule_is_by_curator(monkeypatch: pytest.MonkeyPatch) -> None:
    """kl-ucb++ for bits, its variants for CTL, and the paper's on the real line and where nothing is registered."""
    assert default_rule(CuratorSpec(Bernoulli(0.5), Sigmoid())) == KLUCBPlus()
    assert default_rule(CuratorSpec(Laplace(0.5))) == KLUCBPlusLaplaceClip(0.5)
    assert default_rule(CuratorSpec(Laplace(1.0), Sigmoid())) == KLUCBPlusLaplace(1.0)
    assert default_rule(CuratorSpec(Laplace(0.5), RealLine())) == paper_rule(Laplace(0.5))
    monkeypatch.setattr(MECHANISMS, "_types", {**MECHANISMS._types, "wider": Wider})
    assert default_rule(CuratorSpec(Wider(0.5))) == paper_rule(Wider(0.5))


@dataclass(frozen=True)
class Reader(Rule):
    """A rule with a reading that is none."""

    floor: float = 0.0
    parameters: ClassVar[tuple[float, ...]] = ()
    reading: ClassVar[Any] = 3

    @staticmethod
    def index(arm: ArmView, random: Any, parameters: Any) -> float:
        """Follow the leader."""
        return arm.mean


def test_a_reading_is_a_function() -> None:
    """Another is refused when the rule is checked."""
    with pytest.raises(SpecError, match="the reading of a rule is a function"):
        check_rule(Reader())
    assert above_half(0.5, ()) == 0
    assert above_half(0.5 + Laplace.unit, ()) == 1
