"""Mean and variance are both judged, for both curators, each by itself.

Responses come from seeded generators: a test that passes once passes always. Healthy twins had a chance of
1e-6 to fail.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest

from ldpbandits.audit.evidence import Claim, Evidence
from ldpbandits.audit.result import Reals
from ldpbandits.audit.sample import Sample
from ldpbandits.audit.target import target_of
from ldpbandits.audit.whitebox.known import mean_and_variance
from ldpbandits.spec import mechanisms
from ldpbandits.spec.curator import CuratorSpec

COUNT = 40_000
ALPHA = 1e-6
CTL, CTB = CuratorSpec(mechanisms.Laplace(1.0)), CuratorSpec(mechanisms.Bernoulli(1.0))
TRUTH = 1 / (1 + math.exp(-1))


def judged(spec: CuratorSpec, noise: Callable[[np.random.Generator, Reals], Reals]) -> str:
    """The verdict on responses to 0 and 1."""
    rng = np.random.default_rng(7)
    chosen = rng.integers(2, size=2 * COUNT)
    evidence = Evidence(target_of(float, spec), Claim.of(spec.epsilon, (0, 1), COUNT, 0.999))
    evidence.shared["main sample"] = Sample((0.0, 1.0), chosen, noise(rng, chosen.astype(float)))
    return mean_and_variance(evidence, ALPHA).verdict


def bits(rng: np.random.Generator, reward: Reals, bias: float = 0.0) -> Reals:
    """The responses of CTB, with ones that much too many."""
    return (rng.random(len(reward)) < 1 - TRUTH + (2 * TRUTH - 1) * reward + bias).astype(np.float64)


def test_healthy_responses_pass() -> None:
    """The law of either curator has its mean and its variance."""
    assert judged(CTL, lambda rng, reward: reward + rng.laplace(size=len(reward))) == "consistent"
    assert judged(CTB, bits) == "consistent"


@pytest.mark.parametrize("scale", [0.9, 1.1])
def test_a_variance_that_is_wrong_is_seen_where_the_mean_is_right(scale: float) -> None:
    """Laplace noise of a scale one tenth off: the mean is the reward, the variance is not 2 / epsilon^2."""
    assert judged(CTL, lambda rng, reward: reward + rng.laplace(scale=scale, size=len(reward))) == "violated"


def test_a_mean_that_is_wrong_is_seen_where_the_variance_is_right() -> None:
    """Noise off by one twentieth."""
    assert judged(CTL, lambda rng, reward: reward + 0.05 + rng.laplace(size=len(reward))) == "violated"


@pytest.mark.parametrize("bias", [-0.02, 0.02])
def test_bits_that_are_biased_are_seen(bias: float) -> None:
    """CTB with ones two in a hundred too many, or too few, under either reward: private enough, and wrong."""
    assert judged(CTB, lambda rng, reward: bits(rng, reward, bias)) == "violated"


def test_what_is_no_bit_is_seen() -> None:
    """Responses of the right mean that are not 0 or 1 are not those of CTB."""
    assert judged(CTB, lambda _rng, reward: 1 - TRUTH + (2 * TRUTH - 1) * reward) == "violated"


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e308])
@pytest.mark.parametrize("spec", [CTL, CTB])
def test_one_response_that_is_no_response_is_seen(spec: CuratorSpec, odd: float) -> None:
    """Infinity, NaN and numbers whose squares overflow are a violation, and no crash."""

    def responses(rng: np.random.Generator, reward: Reals) -> Reals:
        made = reward + rng.laplace(size=len(reward)) if spec is CTL else bits(rng, reward)
        made[0] = odd
        return made

    assert judged(spec, responses) == "violated"
