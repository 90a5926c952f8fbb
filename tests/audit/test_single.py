"""Named events: a few dozen leaks among hundreds of thousands of responses are found; healthy twins pass.

Responses are made by seeded generators; each healthy twin had a chance of 6.4e-4 to fail.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest

from ldpbandits.audit.blackbox.single import single_responses
from ldpbandits.audit.evidence import Claim, Evidence
from ldpbandits.audit.result import Reals
from ldpbandits.audit.sample import Sample
from ldpbandits.audit.target import target_of
from ldpbandits.audit.texts import Texts

CALLS = 400_000
ALPHA = 0.64 * 0.001
Noise = Callable[[np.random.Generator, Reals], "list[bytes] | Reals"]


def judged(respond: Noise, calls: int = CALLS, seed: int = 1) -> str:
    """The verdict on so many calls."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(2, size=calls)
    given = respond(rng, chosen.astype(float))
    texts = given if isinstance(given, list) else None
    numbers = np.array([float(text) for text in texts]) if texts else np.asarray(given)
    evidence = Evidence(target_of(lambda reward: reward), Claim.of(1.0, (0, 1), calls // 2, 0.999))
    evidence.shared["main sample"] = Sample(
        (0.0, 1.0), chosen, numbers, None if texts is None else Texts.of(texts), rng=rng
    )
    return single_responses(evidence, ALPHA).verdict


def laplace(rng: np.random.Generator, reward: Reals, grid: float = 2.0**-20) -> Reals:
    """Laplace noise on a grid."""
    noise = rng.geometric(1 - math.exp(-grid), size=len(reward)) - rng.geometric(1 - math.exp(-grid), size=len(reward))
    return np.round(reward / grid) * grid + noise * grid


def bits(rng: np.random.Generator, reward: Reals) -> Reals:
    """Randomised response."""
    return np.where(rng.random(len(reward)) < 1 / (1 + math.exp(-1)), reward, 1 - reward)


def bare(rng: np.random.Generator, reward: Reals) -> Reals:
    """Print the reward itself once in 10,000 times."""
    return np.where(rng.random(len(reward)) < 1e-4, reward, laplace(rng, reward))


def code(rng: np.random.Generator, reward: Reals) -> Reals:
    """Print a code of the reward once in 6,000 times."""
    return np.where(rng.random(len(reward)) < 1 / 6000, 77 + reward, bits(rng, reward))


def truncated(rng: np.random.Generator, reward: Reals, most: float = 8.0) -> Reals:
    """Draw noise again when it is beyond 8 scales."""
    noise = laplace(rng, np.zeros(len(reward) + 20_000))
    return reward + noise[np.abs(noise) <= most][: len(reward)]


def truncated_above(rng: np.random.Generator, reward: Reals) -> Reals:
    """Draw noise again when it is above 8 scales."""
    noise = laplace(rng, np.zeros(len(reward) + 20_000))
    return reward + noise[noise <= 8][: len(reward)]


def far_away(rng: np.random.Generator, reward: Reals, places: Reals, tells: float = 1.0) -> Reals:
    """Answer from far away once in 4,000 times: from one of these places to a reward of 0, from the next to 1."""
    told = np.where(rng.random(len(reward)) < tells, reward, rng.integers(2, size=len(reward))).astype(int)
    far = places[2 * rng.integers(len(places) // 2, size=len(reward)) + told] + rng.random(len(reward)) / 4
    return np.where(rng.random(len(reward)) < 1 / 4000, far, laplace(rng, reward))


def between(rng: np.random.Generator, reward: Reals) -> Reals:
    """Answer from between two places of the other reward."""
    return far_away(rng, reward, np.array([90.0, 92.0, 94.0, 92.0]))


def above(rng: np.random.Generator, reward: Reals) -> Reals:
    """Answer with a lower number to the larger reward."""
    return far_away(rng, reward, np.array([500.0, 400.0]))


def below(rng: np.random.Generator, reward: Reals) -> Reals:
    """Answer from far below."""
    return far_away(rng, reward, np.array([-90.0, -80.0]))


@pytest.mark.parametrize("fault", [bare, code, truncated, truncated_above, between, above, below])
def test_rare_leaks_are_found(fault: Noise) -> None:
    """One in 10,000 bare, some 60 codes, noise that ends at 8 scales: in 400,000 responses."""
    assert judged(fault) == "violated"


def test_noise_truncated_at_8_scales_in_half_as_many() -> None:
    """200,000 responses in all, of which some 58 are beyond what the other reward can give."""
    assert judged(truncated, 200_000, seed=4) == "violated"


def test_a_bare_reward_is_found_nearly_always() -> None:
    """Forty leaks are expected and 33 are enough: at least 3 of 4 audits find them (fewer had chance 7 %). Seeded."""
    assert sum(judged(bare, seed=seed) == "violated" for seed in range(4)) >= 3


def outlying(places: list[float], tells: float) -> Noise:
    """Answer from far away, and tell no more of the reward than this."""
    return lambda rng, reward: far_away(rng, reward, np.array(places), tells)


TELLS = math.tanh(1 / 2)
"""A bit that is told with this probability, and else tossed, has epsilon = 1."""


@pytest.mark.parametrize("twin", [outlying([90, 92, 94, 92], TELLS), outlying([500, 400], TELLS), outlying([-9, 9], 0)])
def test_outliers_may_be_private(twin: Noise) -> None:
    """As private as the others, or more so."""
    assert judged(twin) == "consistent"


@pytest.mark.parametrize(
    "healthy", [laplace, bits, lambda rng, reward: laplace(rng, reward, 1 / 8), lambda _rng, reward: 0 * reward + 7]
)
def test_healthy_twins_pass(healthy: Noise) -> None:
    """Noise on a fine grid and on a coarse one, bits, and a constant."""
    assert judged(healthy, 200_000) == "consistent"


def test_a_text_is_told_from_another_of_the_same_value() -> None:
    """`1.0` once in a while, to one reward only, where all say `1`."""

    def written(rng: np.random.Generator, reward: Reals) -> list[bytes]:
        leaks = rng.random(len(reward)) < 0.001
        return [
            b"%d.0" % bit if leak and one else b"%d" % bit
            for bit, leak, one in zip(bits(rng, reward).astype(int), leaks, reward, strict=True)
        ]

    assert judged(written, 100_000) == "violated"
