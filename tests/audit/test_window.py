"""What several calls tell together, steps of numbers, and calls far apart. Seeded, at a level of 1e-5."""

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from tests.faults import spread

from ldpbandits.audit.blackbox.neighbours import neighbours
from ldpbandits.audit.evidence import Claim, Evidence
from ldpbandits.audit.sample import draw_sample
from ldpbandits.audit.target import Respond, target_of

CALLS = 40_000
RNG = random.Random(8)
Make = Callable[[], Respond]
Say = Callable[[float, float], object]


def bit(reward: float, epsilon: float = 1.0) -> int:
    """Randomised response."""
    return int(reward) ^ (RNG.random() > 1 / (1 + math.exp(-epsilon)))


def laplace(scale: float = 1.0) -> float:
    """Laplace noise on a grid."""
    return round((RNG.expovariate(1) - RNG.expovariate(1)) * scale * 2**20) / 2**20


def with_reward(distance: int, say: Say) -> Make:
    """Say something of a reward, and of that of so many calls before."""

    def make() -> Respond:
        kept = [0.0] * distance

        def respond(reward: float) -> object:
            kept.append(reward)
            return say(reward, kept.pop(0))

        return respond

    return make


def with_response(distance: int, say: Callable[[int, int], object], *, again: bool = False) -> Make:
    """Say something of a private bit, and of the one that was drawn, or of what was said, so many calls before."""

    def make() -> Respond:
        kept: list[int] = [0] * distance

        def respond(reward: float) -> object:
            own = bit(reward)
            said = say(own, kept.pop(0))
            kept.append(int(str(said)) if again else own)
            return said

        return respond

    return make


def mean(count: int, scale: float) -> Make:
    """Answer with the mean of the last rewards, and noise; two, four, eight of them are on its grid."""

    def make() -> Respond:
        kept = [0.0] * count

        def respond(reward: float) -> float:
            kept[:] = [*kept[1:], reward]
            return sum(kept) / count + laplace(scale)

        return respond

    return make


def noise_again(distance: int, part: float, sign: int = 1) -> Make:
    """Answer with a number whose noise is now and then that of so many calls before, or minus that."""

    def make() -> Respond:
        kept = [0.0] * distance

        def respond(reward: float) -> float:
            old = kept.pop(0)
            kept.append(sign * old if part and rarely(part) else laplace())
            return reward + kept[-1]

        return respond

    return make


def total(decay: float, step: Callable[[float], float], noise: Callable[[], float], beside: str = "{}") -> Make:
    """Answer with a sum that runs on, and a bit beside it."""

    def make() -> Respond:
        kept = [0.0]

        def respond(reward: float) -> str:
            kept[0] = decay * kept[0] + step(reward)
            return beside.format(kept[0] + noise(), bit(reward) if "1" in beside else 0)

        return respond

    return make


def silent() -> float:
    """No noise."""
    return 0.0


def rarely(part: float) -> bool:
    """Tell once in a while that it is time."""
    return RNG.random() < part


FAULTS: dict[str, Make] = {
    "a bit that the reward of two calls before turns": with_reward(2, lambda reward, old: bit(reward) ^ int(old)),
    "a reward in two responses": with_reward(3, lambda reward, old: bit(reward, 0.9) + 2 * bit(old, 0.9)),
    "a mean of four, with noise for less": mean(4, 0.4),
    "a sum that fades, with noise anew": total(0.9, lambda reward: reward, laplace),
    "a counter that skips": total(1, lambda reward: 2 if reward and rarely(0.05) else 1, silent, "{0:.0f} {1}"),
    "a clock that a reward stops": total(
        1, lambda reward: 0 if reward and rarely(0.05) else RNG.randint(1, 9), silent, "{0:.0f},{1}"
    ),
    "a sum of rewards": total(1, lambda reward: RNG.randint(0, 9) * 2 + reward, silent, '{{"id": {0:.0f}, "b": {1}}}'),
    "a reward of 700 calls before, at times": with_reward(
        700, lambda reward, old: f"{bit(reward)} {old:g}" if rarely(0.05) else bit(reward)
    ),
    "a space 90 calls later": with_reward(90, lambda reward, old: f"{bit(reward)}{' ' * (old > 0 and rarely(0.2))}"),
    "noise of 100 calls before, at times": noise_again(100, 0.05),
    "minus the noise of the call before, at times": noise_again(1, 0.05, -1),
    "a number 1,500 calls later": with_reward(1500, lambda reward, old: reward + laplace() + 8 * old * rarely(0.3)),
}
HEALTHY: dict[str, Make] = {
    "a mean of four, with noise for all": mean(4, 1.0),
    "a reward in two responses, half of epsilon each": with_reward(
        3, lambda reward, old: bit(reward, 0.5) + 2 * bit(old, 0.5)
    ),
    "a bit that what was said turns": with_response(2, lambda own, old: own ^ old, again=True),
    "a sum of responses": total(1, lambda reward: reward + laplace(), silent),
    "a counter": total(1, lambda _reward: 1, silent, "{0:.0f} {1}"),
    "a clock": total(1, lambda _reward: RNG.randint(0, 9), silent, "{0:.0f},{1}"),
    "a response of 700 calls before": with_response(700, lambda own, old: f"{own} {old}" if rarely(0.05) else own),
    "a space at times": with_reward(90, lambda reward, _old: f"{bit(reward)}{' ' * rarely(0.2)}"),
    "noise anew": noise_again(100, 0),
    "a response of 100 calls before, at times": with_response(
        100, lambda own, old: own + 2 * old if rarely(0.05) else own
    ),
    "90 calls behind": with_reward(90, lambda _reward, old: bit(old)),
}


def verdict(make: Make) -> str:
    """The verdict on a run of many calls."""
    RNG.seed(6)
    target, rng = target_of(make()), np.random.default_rng(6)
    evidence = Evidence(target, Claim.of(1.0, (0, 1), CALLS // 2, 0.999, 1))
    evidence.shared["main sample"] = draw_sample(target, (0.0, 1.0), CALLS, rng, 1e9)
    return neighbours(evidence, 1e-5).verdict


@pytest.mark.parametrize("name", spread(FAULTS, 3))
def test_what_calls_tell_together(name: str) -> None:
    """Two that tell as much as is allowed each, steps of counters and sums, and calls hundreds apart."""
    assert verdict(FAULTS[name]) == "violated"


@pytest.mark.parametrize("name", spread(HEALTHY, 2))
def test_twins_that_spend_no_more_than_epsilon(name: str) -> None:
    """In one response or in several, at once or later; false alarm: 1e-5 each."""
    assert verdict(HEALTHY[name]) == "consistent"
