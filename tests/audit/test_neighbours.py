"""What a response tells among its neighbours is found, near or far; healthy twins pass. Seeded, at a level of 1e-5."""

import itertools
import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from tests.faults import spread

from ldpbandits.audit.blackbox.neighbours import neighbours
from ldpbandits.audit.blackbox.parity import folded
from ldpbandits.audit.evidence import Claim, Evidence
from ldpbandits.audit.sample import draw_sample
from ldpbandits.audit.target import Respond, target_of

CALLS = 40_000
RNG = random.Random(7)
TRUTH = 1 / (1 + math.exp(-1))


def rr(reward: float) -> int:
    """Randomised response."""
    return int(reward) if RNG.random() < TRUTH else 1 - int(reward)


def laplace() -> float:
    """Laplace noise on a grid."""
    return round((RNG.expovariate(1) - RNG.expovariate(1)) * 2**20) / 2**20


def lagged(distance: int) -> Respond:
    """Give out the reward of so many calls before."""
    kept = [0.0] * distance

    def respond(reward: float) -> float:
        kept.append(reward)
        return rr(reward) + 10 * kept.pop(0)

    return respond


def repeated(times: int, sign: int) -> Respond:
    """Draw noise once for so many calls, with either sign."""
    calls, kept = itertools.count(), [0.0]

    def respond(reward: float) -> float:
        kept[0] = sign * kept[0] if next(calls) % times else laplace()
        return reward + kept[0]

    return respond


def cycle(length: int) -> Respond:
    """Noise of a short period."""
    noise, calls = [laplace() for _ in range(length)], itertools.count()
    return lambda reward: reward + noise[next(calls) % length]


def flips(length: int) -> Respond:
    """Flips of a short period: single responses, and pairs of them without their rewards, tell nothing."""
    kept, calls = [RNG.random() > TRUTH for _ in range(length)], itertools.count()
    return lambda reward: int(reward) ^ kept[next(calls) % length]


def every(period: int) -> Respond:
    """Print the reward itself every so often."""
    calls = itertools.count(1)
    return lambda reward: rr(reward) if next(calls) % period else int(reward)


def exhausted() -> Respond:
    """Run out of noise after some calls."""
    calls = itertools.count()
    return lambda reward: rr(reward) if next(calls) < 0.9 * CALLS else int(reward)


def paired() -> Respond:
    """Draw a flip once for two calls."""
    calls, kept = itertools.count(), [False]

    def respond(reward: float) -> int:
        if next(calls) % 2 == 0:
            kept[0] = RNG.random() > TRUTH
        return int(reward) ^ kept[0]

    return respond


FAULTS: dict[str, Callable[[], Respond]] = {
    "the reward of the call before": lambda: lagged(1),
    "the reward of 3 calls before": lambda: lagged(3),
    "the reward of 40 calls before": lambda: lagged(40),
    "noise drawn in pairs": lambda: repeated(2, 1),
    "antithetic noise": lambda: repeated(2, -1),
    "noise drawn once for five": lambda: repeated(5, 1),
    "noise of period 1,000": lambda: cycle(1000),
    "flips of period 317": lambda: flips(317),
    "flips in pairs": paired,
    "every 17th call": lambda: every(17),
    "every 61st call": lambda: every(61),
    "no noise in the end": exhausted,
}


def counted() -> Respond:
    """Number responses."""
    calls = itertools.count()
    return lambda reward: f"{next(calls)},{rr(reward)}"


def remembered() -> Respond:
    """Say each response twice: once alone, once beside the next."""
    kept = [0]

    def respond(reward: float) -> str:
        before, kept[0] = kept[0], rr(reward)
        return f"{kept[0]} {before}"

    return respond


def spent() -> Respond:
    """Say nothing but noise once the budget is spent."""
    calls = itertools.count()
    return lambda reward: rr(reward) if next(calls) < 1_000 else RNG.getrandbits(1)


HEALTHY: dict[str, Callable[[], Respond]] = {
    "bits": lambda: rr,
    "noise on a grid": lambda: lambda reward: reward + laplace(),
    "a counter": counted,
    "a response that is said again": remembered,
    "a budget": spent,
}


def verdict(make: Callable[[], Respond]) -> str:
    """The verdict on a run of many calls."""
    target, rng = target_of(make()), np.random.default_rng(6)
    evidence = Evidence(target, Claim.of(1.0, (0, 1), CALLS // 2, 0.999, 1))
    evidence.shared["main sample"] = draw_sample(target, (0.0, 1.0), CALLS, rng, 1e9)
    return neighbours(evidence, 1e-5).verdict


@pytest.mark.parametrize("name", spread(FAULTS, 3))
def test_noise_and_rewards_that_come_again(name: str) -> None:
    """Near or far, by place or by period."""
    assert verdict(FAULTS[name]) == "violated"


@pytest.mark.parametrize("name", spread(HEALTHY, 2))
def test_memory_alone_is_no_leak(name: str) -> None:
    """With counters, budgets, and responses that are said twice; false alarm: 1e-5 each."""
    assert verdict(HEALTHY[name]) == "consistent"


@pytest.mark.parametrize("period", [2, 7, 10, 11, 40])
def test_folding_adds_up_what_is_whole_periods_apart(period: int) -> None:
    """Also where the last period is not a whole one, or the only one."""
    values = np.arange(10.0) ** 2
    places = [float(sum(values[place::period])) for place in range(min(period, 10))]
    assert folded(values, period)[:10].tolist() == places
