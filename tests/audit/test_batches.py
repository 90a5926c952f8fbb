"""What the last response of a batch tells to whoever knows the rewards before it. Seeded, at a level of 1e-5."""

import math
import random
from collections.abc import Callable

import numpy as np
import pytest

from ldpbandits.audit.blackbox.linear_sums import FEWEST, batches, judge_batches
from ldpbandits.audit.blackbox.neighbours import by_last_number, neighbours
from ldpbandits.audit.evidence import Claim, Evidence
from ldpbandits.audit.result import Finding
from ldpbandits.audit.sample import Sample, draw_sample
from ldpbandits.audit.target import Respond, target_of

CALLS = 40_000
LENGTHS = (2, 5, 8, 10, 25, 40)
RNG = random.Random(12)
Make = Callable[[], Respond]
Say = Callable[[int], object]


def bit(reward: float, epsilon: float) -> int:
    """Randomised response."""
    return int(reward) ^ (RNG.random() > 1 / (1 + math.exp(-epsilon)))


def laplace(scale: float = 1.0) -> float:
    """Laplace noise on a grid."""
    return round((RNG.expovariate(1) - RNG.expovariate(1)) * scale * 1024) / 1024


def balanced(length: int, flips: int) -> Make:
    """Flip so many bits in each batch, no more and no fewer."""

    def make() -> Respond:
        left: list[int] = []

        def respond(reward: float) -> int:
            if not left:
                left.extend([1] * flips + [0] * (length - flips))
                RNG.shuffle(left)
            return int(reward) ^ left.pop()

        return respond

    return make


def cancelling(length: int, last: Callable[[], float]) -> Make:
    """Add noise whose sum over a batch is that of its last call."""

    def make() -> Respond:
        said: list[float] = []

        def respond(reward: float) -> float:
            said.append(last() - sum(said) if len(said) == length - 1 else laplace())
            noise = said[-1]
            if len(said) == length:
                said.clear()
            return reward + noise

        return respond

    return make


def closing(is_due: Callable[[int], bool], say: Say, epsilon: float, *, late: bool = False) -> Make:
    """Answer with a bit, and say something of the sum of a batch with its last call, or with the one after it."""

    def make() -> Respond:
        calls, total, more = [0], [0], [""]

        def respond(reward: float) -> str:
            calls[0] += 1
            total[0] += int(reward)
            before, more[0] = more[0], ""
            if is_due(calls[0]):
                more[0] = f" batch {say(total[0])}"
                total[0] = 0
            return f"{bit(reward, epsilon)}{before if late else more[0]}"

        return respond

    return make


def named(make: Make) -> Make:
    """Write a random name before each response."""

    def made() -> Respond:
        respond = make()
        return lambda reward: f"{RNG.getrandbits(32):08x} {respond(reward)}"

    return made


FAULTS: dict[str, Make] = {
    "so many flips in a batch": balanced(40, 11),
    "noise that adds up to nothing": cancelling(25, lambda: 0.0),
    "a parity": closing(lambda call: call % 8 == 0, lambda total: total % 2, 0.9),
    "a parity with noise, for less": closing(lambda call: call % 8 == 0, lambda total: bit(total % 2, 2.5), 0.5),
    "a sum": closing(lambda call: call % 40 == 0, lambda total: total, 0.9),
    "a sum, one call later": closing(lambda call: call % 40 == 0, lambda total: total, 0.9, late=True),
    "a parity of batches that start with the second call": closing(lambda call: call % 25 == 1, lambda s: s % 2, 0.9),
    "a sum, behind names": named(closing(lambda call: call % 40 == 0, lambda total: total, 0.9)),
    "a parity of batches of any length, behind names": named(
        closing(lambda _: RNG.random() < 0.04, lambda total: total % 2, 0.9)
    ),
    "a parity of batches of any length": closing(lambda _: RNG.random() < 0.04, lambda total: total % 2, 0.9),
}
HEALTHY: dict[str, Make] = {
    "fresh flips": lambda: lambda reward: bit(reward, 1.0),
    "noise that adds up to what a reward needs": cancelling(1, laplace),
    "a parity, half of epsilon": closing(lambda call: call % 8 == 0, lambda total: bit(total % 2, 0.5), 0.5),
    "a sum, half of epsilon": closing(lambda call: call % 40 == 0, lambda total: total + laplace(2.0), 0.5),
    "a sum of half of epsilon, one call later": closing(
        lambda call: call % 40 == 0, lambda total: total + laplace(2.0), 0.5, late=True
    ),
    "batches of any length, half of epsilon": closing(
        lambda _: RNG.random() < 0.04, lambda total: bit(total % 2, 0.5), 0.5
    ),
}


def sampled(make: Make, calls: int = CALLS) -> Sample:
    """Many calls of one run."""
    RNG.seed(4)
    return draw_sample(target_of(make()), (0.0, 1.0), calls, np.random.default_rng(4), 1e9)


def judged(sample: Sample, alpha: float = 1e-5) -> Finding:
    """The finding by a few lengths."""
    return judge_batches(sample, (0, 1), by_last_number(sample), LENGTHS, alpha, 1.0)


@pytest.mark.parametrize("name", FAULTS)
def test_the_last_of_a_batch_is_told(name: str) -> None:
    """By noise that is balanced, by a sum and by a parity, though no few calls tell anything."""
    assert judged(sampled(FAULTS[name])).verdict == "violated"


@pytest.mark.parametrize("name", HEALTHY)
def test_twins_that_spend_no_more_than_epsilon(name: str) -> None:
    """On the response and on its batch together; false alarm: 1e-5 each."""
    assert judged(sampled(HEALTHY[name])).verdict == "consistent"


def test_batches_are_among_neighbours() -> None:
    """The check itself finds them, with the lengths that it tries."""
    evidence = Evidence(target_of(lambda reward: reward), Claim.of(1.0, (0, 1), CALLS // 2, 0.999, 1))
    evidence.shared["main sample"] = sampled(FAULTS["so many flips in a batch"])
    found = neighbours(evidence, 1e-4)
    assert found.verdict == "violated"
    assert "the last of 40 calls" in found.detail


def test_the_level_is_kept_where_each_reward_is_told_as_much_as_is_allowed() -> None:
    """At a level of a tenth, and with bits at the very boundary: 60 runs give 17 false alarms less than once in 1e4."""
    alarms = 0
    for run in range(60):
        RNG.seed(run)
        respond = HEALTHY["fresh flips"]()
        sample = draw_sample(target_of(respond), (0.0, 1.0), 3_000, np.random.default_rng(run), 1e9)
        alarms += judged(sample, 0.1).verdict == "violated"
    assert alarms < 17


def test_batches_end_within_the_sample() -> None:
    """They do not overlap, and those of too few calls are left out."""
    sample = sampled(FAULTS["a parity"], 2_000)
    found = list(batches(sample, (2, 8, 1000)))
    assert {each.name for each in found} == {"2 calls", "8 calls", "a batch that a text closes"}
    for each in found:
        assert len(each.ends) >= FEWEST
        assert (each.starts[1:] > each.ends[:-1]).all()
        assert (each.starts <= each.ends).all()


def test_too_few_calls() -> None:
    """Nothing is said of them."""
    for calls in (1, 200):
        assert judged(sampled(HEALTHY["fresh flips"], calls)).verdict == "not applicable"
