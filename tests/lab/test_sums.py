"""Which sums of responses can be drawn at once, and with which chance."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy import special, stats

from ldpbandits import CuratorSpec, Range, Sigmoid, paper_rule
from ldpbandits.agent.laplace_rules import IMEDLaplaceBit
from ldpbandits.lab.algorithms import Algorithm, algorithm
from ldpbandits.lab.engine.channels import CHANNELS, Channel, laplace
from ldpbandits.lab.engine.step import compile_steps
from ldpbandits.lab.engine.sums import BITS, NOISY, OTHER, encode_sums, mean_value
from ldpbandits.lab.rewards import Beta, Choice, Empirical, Gaussian, Law, Uniform, parse_arms
from ldpbandits.spec.mechanisms import MECHANISMS, Laplace


def arms(*texts: str) -> list[Law]:
    """Read several arms."""
    return [arm for text in texts for arm in parse_arms(text)]


@pytest.mark.parametrize(
    "law",
    [
        Gaussian(0.7, 1.0),
        Gaussian(-3.0, 5.0),
        Gaussian(90.0, 300.0),
        Gaussian(1_000.0, 10_000.0),
        Gaussian(0.3, 1e-9),
        Gaussian(500.0, 1.0),
        Uniform(-2.0, 3.0),
        Uniform(-10_000.0, 30_000.0),
        Beta(0.3, 2.0),
        Beta(4.0, 1.0),
    ],
)
def test_the_mean_of_the_sigmoid(law: Law) -> None:
    """Quadrature agrees with a sum over quantiles, and with draws within five standard errors, at any width."""
    frozen = {
        Gaussian: lambda: stats.norm(law.mean, law.sd),  # type: ignore[union-attr]
        Uniform: lambda: stats.uniform(law.low, law.high - law.low),  # type: ignore[union-attr]
        Beta: lambda: stats.beta(law.a, law.b),  # type: ignore[union-attr]
    }[type(law)]()
    value = mean_value(law, Sigmoid())
    quantiles = special.expit(frozen.ppf((np.arange(10**6) + 0.5) / 10**6))
    assert value == pytest.approx(quantiles.mean(), abs=1e-5)
    draws = special.expit(frozen.rvs(10**6, random_state=np.random.default_rng(1)))
    assert abs(draws.mean() - value) <= 5 * draws.std() / 1_000 + 1e-12


def test_sums_know_their_kind() -> None:
    """CTB makes bits of every law; CTL leaves two rewards and noise where there are two; the rest is drawn singly."""
    odd = arms("bernoulli(0.9)", "choice(0.4,1)", "choice(0,0.5,1)", "uniform(0,1)", "beta(4,1)")
    assert encode_sums(algorithm("ldp-ucb-b", 1.0), odd).kinds.tolist() == [0] * 5
    assert encode_sums(algorithm("ldp-ucb-l", 1.0), odd).kinds.tolist() == [1, 1, 2, 2, 2]
    assert encode_sums(algorithm("ldp-ucb-l", 1.0), arms("choice(0.5)")).drop.tolist() == [1]
    assert encode_sums(algorithm("ucb1"), odd).kinds.tolist() == [0, 2, 2, 2, 2]
    assert mean_value(Choice((0.0, 1.0)), Range(0, 2)) == 0.25


@pytest.mark.parametrize(
    ("law", "transform"),
    [
        (Choice((0.1, 0.6, 1.0)), Range()),
        (Beta(4.0, 1.0), Range()),
        (Uniform(-1.0, 2.5), Range(-1, 3)),
        (Gaussian(0.7, 2.0), Sigmoid()),
        (Uniform(-9.0, 2.0), Sigmoid()),
    ],
)
def test_a_threshold_makes_bits_of_every_law(law: Law, transform: Range | Sigmoid) -> None:
    """What the loop reads is 1 as often as the closed form says, in 200,000 pulls. False alarm: 1e-6 each; seeded."""
    played = Algorithm("bits", IMEDLaplaceBit(2.0), CuratorSpec(Laplace(2.0), transform))
    sums = encode_sums(played, [law])
    assert sums.kinds.tolist() == [BITS]
    pulls, totals = np.ones(1), np.zeros(1)
    compile_steps(played, [law])(np.random.default_rng(8), pulls, totals, 1, 200_001)
    assert stats.binomtest(int(totals[0]), 200_000, sums.chance[0]).pvalue > 1e-6


def test_other_readings_are_drawn_one_by_one() -> None:
    """A clipped response is no bit, and does not sum as the response does."""
    bandit = arms("bernoulli(0.9)", "beta(4,1)")
    assert encode_sums(algorithm("ldp-imed-lc", 1.0), bandit).kinds.tolist() == [OTHER, OTHER]
    assert encode_sums(algorithm("ldp-imed-l", 1.0), bandit).kinds.tolist() == [NOISY, OTHER]


def test_data_of_ones_own_leap_as_far_as_their_values_allow() -> None:
    """Under CTB always; under CTL, and without privacy, where there are two rewards (without privacy, 0 and 1)."""
    clicks = Empirical("past.csv", "blue", (0.0, 1.0), (3, 1), "")
    ratings = Empirical("past.csv", "red", (0.0, 0.5, 1.0), (1, 2, 1), "")
    assert encode_sums(algorithm("ldp-ucb-b", 1.0), [clicks, ratings]).kinds.tolist() == [0, 0]
    assert encode_sums(algorithm("ldp-ucb-l", 1.0), [clicks, ratings]).kinds.tolist() == [1, 2]
    assert encode_sums(algorithm("ldp-ucb-l", 1.0), [clicks]).rare.tolist() == [0.75]
    assert encode_sums(algorithm("ucb1"), [clicks, ratings]).kinds.tolist() == [0, 2]
    assert encode_sums(algorithm("ucb1"), [clicks]).chance.tolist() == [0.25]
    assert mean_value(ratings, Sigmoid()) == pytest.approx((0.5 + 2 * special.expit(0.5) + special.expit(1.0)) / 4)


@dataclass(frozen=True)
class Wider(Laplace):
    """A mechanism of somebody's own that is derived from ours, and has more noise."""

    kind: ClassVar[str] = "wider"


def test_a_mechanism_that_is_derived_from_ours_is_drawn_by_its_own_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The closed form of CTL's noise is for CTL alone: the scale of another one is known to its channel only."""
    monkeypatch.setattr(MECHANISMS, "_types", {**MECHANISMS._types, "wider": Wider})
    monkeypatch.setitem(CHANNELS, Wider, Channel(laplace, lambda mechanism: (2 / mechanism.epsilon,)))
    bandit = arms("bernoulli(0.9)", "bernoulli(0.5)")
    derived = Algorithm("wider", paper_rule(Laplace(1.0)), CuratorSpec(Wider(1.0)))
    assert encode_sums(derived, bandit).kinds.tolist() == [OTHER, OTHER]
    assert encode_sums(algorithm("ldp-ucb-l", 1.0), bandit).kinds.tolist() == [NOISY, NOISY]
