"""What a sum of numbers tells, in one response or in several, in any units. Seeded, at a level of 1e-5."""

import json
import random
from collections.abc import Callable

import numpy as np
import pytest

from ldpbandits.audit.blackbox.events import judge_sorted
from ldpbandits.audit.blackbox.linear_sums import sort_by_sums
from ldpbandits.audit.blackbox.neighbours import neighbours
from ldpbandits.audit.evidence import Claim, Evidence
from ldpbandits.audit.sample import Sample, draw_sample
from ldpbandits.audit.target import Respond, target_of
from ldpbandits.audit.texts import Texts

CALLS = 20_000
RNG = random.Random(4)


def noise(scale: float = 1.0) -> float:
    """Laplace noise on a grid."""
    return round((RNG.expovariate(1) - RNG.expovariate(1)) * scale * 1024) / 1024


def later(distance: int, say: Callable[[float], object], *, own: bool = True) -> Respond:
    """Say noise, or the response, in other words so many calls later."""
    kept = [0.0] * distance

    def respond(reward: float) -> str:
        drawn = noise()
        kept.append(drawn if own else reward + drawn)
        return json.dumps({"v": reward + drawn, "id": say(kept.pop(0))})

    return respond


def parts(reward: float) -> str:
    """Two numbers with noise of their own, whose sum has little."""
    mask = noise(5.0)
    return f"{reward + mask + noise(0.3)},{3 - 2 * mask}"


def three(reward: float) -> str:
    """Three numbers, of which no two tell anything."""
    one, two = noise(4.0), noise(4.0)
    return f"{one} {7 * two} {reward + one - two + noise(0.3)}"


FAULTS: dict[str, Callable[[], Respond]] = {
    "noise a call later, in other units": lambda: later(1, lambda drawn: round(1024 * drawn)),
    "noise three calls later, with a sign": lambda: later(3, lambda drawn: 100 - 5 * drawn),
    "noise at once, in half its digits": lambda: later(0, lambda drawn: round(drawn, 1)),
    "two masks that cancel": lambda: parts,
    "three numbers that add up": lambda: three,
}
HEALTHY: dict[str, Callable[[], Respond]] = {
    "the response a call later, in other units": lambda: later(1, lambda said: round(1024 * said), own=False),
    "the response at once, in half its digits": lambda: later(0, lambda said: round(said, 1), own=False),
    "two masks that leave enough": lambda: lambda reward: f"{reward + (mask := noise(5.0)) + noise()},{3 - 2 * mask}",
    "a random number": lambda: lambda reward: f"{RNG.getrandbits(40)} {reward + noise()}",
}


def sample_of(make: Callable[[], Respond]) -> Sample:
    """A run of many calls."""
    RNG.seed(5)
    return draw_sample(target_of(make()), (0.0, 1.0), CALLS, np.random.default_rng(5), 1e9)


def verdict(make: Callable[[], Respond]) -> str:
    """The verdict by combinations of numbers."""
    sample = sample_of(make)
    return judge_sorted(sort_by_sums(sample, (0, 1)), sample, [(0, 1)], 1e-5, 1.0).verdict


@pytest.mark.parametrize("name", FAULTS)
def test_numbers_that_add_up_to_the_reward(name: str) -> None:
    """Each of them alone is private."""
    assert verdict(FAULTS[name]) == "violated"


@pytest.mark.parametrize("name", HEALTHY)
def test_numbers_that_add_up_to_no_more_than_a_response(name: str) -> None:
    """Said twice, rounded, masked, beside others; false alarm: 1e-5 each."""
    assert verdict(HEALTHY[name]) == "consistent"


def test_they_are_among_the_neighbours() -> None:
    """As part of what is learned from texts around a call."""
    make = FAULTS["noise a call later, in other units"]
    evidence = Evidence(target_of(make()), Claim.of(1.0, (0, 1), CALLS // 2, 0.999, 1))
    evidence.shared["main sample"] = sample_of(make)
    finding = neighbours(evidence, 1e-5)
    assert finding.verdict == "violated"
    assert "a combination of numbers" in finding.detail


def test_the_level_is_kept_at_the_boundary() -> None:
    """Two numbers whose sum is Laplace noise at the very epsilon that is claimed: 100 audits at a level of 0.1.

    More than 25 alarms would have probability 1e-5 if the level were used up. Seeded.
    """
    rng, alarms = np.random.default_rng(3), 0
    for _ in range(100):
        chosen = rng.integers(2, size=1_000)
        mask, own = np.round(5 * rng.laplace(size=1_000), 3), np.round(rng.laplace(size=1_000), 3)
        texts = [b"%.3f %.3f" % each for each in zip(chosen + mask + own, 3 - 2 * mask, strict=True)]
        sample = Sample((0.0, 1.0), chosen, np.full(1_000, np.nan), Texts.of(texts), rng=rng)
        alarms += judge_sorted(sort_by_sums(sample, (0, 1)), sample, [(0, 1)], 0.1, 1.0).verdict == "violated"
    assert alarms <= 25
