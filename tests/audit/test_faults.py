"""Each planted fault is caught, by the layer that should catch it, and its healthy twin passes.

Healthy twins draw from the operating system; at this confidence each fails by chance at most once in a million runs.
"""

import logging
import math
import os
import random
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from tests.faults import some

from ldpbandits import BernoulliCurator, LaplaceCurator, Sigmoid
from ldpbandits.audit import Audit, audit, checks
from ldpbandits.audit.target import Respond
from ldpbandits.spec import mechanisms
from ldpbandits.spec.curator import CuratorSpec

SINGLE, NEIGHBOURS = "empirical: single responses", "empirical: neighbours"
BAD, FORK = "known attacks: bad rewards", "known attacks: fork"
SHARED, SANITY = "known attacks: short runs", "sanity: mean and variance"
CONFIDENCE = 0.999999
SAMPLES = 20_000


def audited(
    respond: Respond, rewards: tuple[float, ...] = (0, 1), only: tuple[str, ...] = (), **options: object
) -> Audit:
    """Audit a function that claims epsilon = 1; a fault by the checks alone that are to find it, which is quick."""
    with pytest.MonkeyPatch.context() as patch:
        if only:
            patch.setattr(checks, "CHECKS", [check for check in checks.CHECKS if check.name in only])
        return audit(respond, rewards, 1.0, samples=SAMPLES, confidence=CONFIDENCE, seed=5, **options)  # type: ignore[arg-type]


def caught(found: Audit) -> set[str]:
    """The layers that said no."""
    assert (found.verdict == "violated") == bool(found.violated)
    return {layer.name for layer in found.violated}


def inverse_cdf(rng: random.Random, scale: float = 1.0) -> float:
    """Laplace noise as most would write it."""
    u = rng.random() - 0.5
    return -math.copysign(scale * math.log(1 - 2 * abs(u)), u)


def test_laplace_by_inverse_cdf_on_doubles() -> None:
    """Low-order bits and the precision event tell reward 0 from 1, whatever the noise; on the grid nothing does."""
    rng = random.Random(1)
    found = audited(lambda reward: reward + inverse_cdf(rng), only=(SINGLE,))
    assert caught(found) == {SINGLE}
    assert found.epsilon_lower > 5
    assert not caught(audited(LaplaceCurator(1.0).respond))


def test_numpys_laplace_is_caught_too() -> None:
    """The same in numpy."""
    rng = np.random.default_rng(1)
    assert caught(audited(lambda reward: reward + rng.laplace(), only=(SINGLE,)))


@pytest.mark.parametrize("kind", some([BernoulliCurator, LaplaceCurator]))
def test_epsilon_ten_percent_too_large(kind: type[BernoulliCurator | LaplaceCurator]) -> None:
    """A curator of epsilon 1.1 that claims 1: its responses show it, and its code proves it."""
    options = {"rewards": (0, 1), "samples": 60_000, "confidence": CONFIDENCE, "seed": 5}
    found = audit(kind(1.1).respond, epsilon=1.0, **options)  # type: ignore[arg-type]
    assert SINGLE in caught(found)
    assert 1.0 < found.epsilon_lower <= 1.1
    assert f"VIOLATED: at least {found.epsilon_lower:.4g} at 99.9999 %" in str(found)
    assert "exact" in caught(audit(kind(1.1), epsilon=1.0, samples=1_000))
    assert not caught(audit(kind(1.1).respond, epsilon=1.1, **options))  # type: ignore[arg-type]


BINS = 10
P_TRUE = (math.e - 1) / (math.e + BINS)
"""How often the truth is told, so that with even bins the ratio is e."""


def bins_of(draw: Callable[[], int]) -> Respond:
    """Randomised response over 0, 1/10, ..., 1."""
    return lambda reward: round(reward * BINS) / BINS if random.random() < P_TRUE else draw() / BINS


def test_round_in_a_randomiser() -> None:
    """`round(U * G) / G` gives the end bins half the mass: epsilon is 1.42, not 1; even bins are fine."""
    found = audited(bins_of(lambda: round(random.random() * BINS)), only=(SINGLE,))
    assert caught(found)
    assert 1.1 < found.epsilon_lower < 1.42  # 1.27 on average; each end 5 standard errors off
    assert not caught(audited(bins_of(lambda: random.randrange(BINS + 1))))


def test_round_in_a_randomiser_in_exact_arithmetic() -> None:
    """Given the probabilities, the same is proved without a single response."""
    truth = Fraction(P_TRUE) - Fraction(1, 10**9)

    def law(ends: Fraction, middle: Fraction) -> dict[float, dict[float, Fraction]]:
        lies = {k: (1 - truth) * (ends if k in {0, BINS} else middle) for k in range(BINS + 1)}
        return {reward: {k / BINS: p + truth * (k == reward * BINS) for k, p in lies.items()} for reward in (0, 1)}

    drawn = bins_of(lambda: random.randrange(BINS + 1))
    even = audited(drawn, only=("exact",), law=law(Fraction(1, 11), Fraction(1, 11)))
    halved = audited(drawn, only=("exact",), law=law(Fraction(1, 20), Fraction(1, 10)))
    assert even.layers[0].verdict == "consistent"
    assert caught(halved)
    assert halved.epsilon_lower == pytest.approx(1.417, abs=1e-3)


def test_noise_that_is_clipped() -> None:
    """Noise cut off at 2: a response beyond is possible under one reward only."""
    curator = LaplaceCurator(1.0)
    found = audited(lambda reward: reward + min(max(curator.respond(0.0), -2.0), 2.0), only=(SINGLE,))
    assert caught(found)
    assert found.epsilon_lower > 4


def test_a_response_that_is_clipped() -> None:
    """Clipped to [0, 1], a response is private and useless: only the formula of CTL shows it."""
    curator = LaplaceCurator(1.0)

    def clipped(reward: float) -> float:
        return min(max(curator.respond(reward), 0.0), 1.0)

    assert caught(audited(clipped, spec=curator.spec, only=(SANITY,)))
    assert not caught(audited(clipped))
    assert not caught(audited(curator.respond, spec=CuratorSpec(mechanisms.Laplace(1.0))))


@pytest.mark.parametrize("kind", [BernoulliCurator, LaplaceCurator])
def test_a_response_that_is_memoised(kind: type[BernoulliCurator | LaplaceCurator]) -> None:
    """Kept by reward and given out again, responses tell the reward, unless both rewards have the same one."""
    curator, kept = kind(1.0), {0.0: 0.0, 1.0: 0.0}
    while kept[0.0] == kept[1.0]:
        kept = {reward: curator.respond(reward) for reward in kept}

    def memoised(reward: float) -> float:
        if not math.isfinite(reward):
            return curator.respond(0.5)
        if reward not in kept:
            kept[reward] = curator.respond(min(max(reward, 0.0), 1.0))
        return kept[reward]

    assert caught(audited(memoised, spec=curator.spec, only=(SINGLE, NEIGHBOURS)))
    assert not caught(audited(curator.respond, only=(SINGLE, NEIGHBOURS)))


def test_a_seed_that_two_users_share() -> None:
    """Two curators made from the same seed give the same stream; without a seed they do not."""

    def seeded() -> Respond:
        rng = random.Random(42)
        return lambda reward: float(rng.random() < (0.731 if reward else 0.269))

    def unseeded() -> Respond:
        return lambda reward: float(random.SystemRandom().random() < (0.731 if reward else 0.269))

    assert caught(audited(unseeded(), another_user=seeded, only=(SHARED,)))
    assert not caught(audited(unseeded(), another_user=unseeded))


def test_noise_that_is_repeated_after_fork() -> None:
    """A generator, or a buffer of the operating system's randomness, is copied by fork; fresh words are not."""
    rng = random.Random(6)
    buffer: list[int] = []

    def buffered(reward: float) -> float:
        if not buffer:
            buffer.extend(os.urandom(1 << 15))
        return float(buffer.pop() < (187 if reward else 69))

    assert caught(audited(lambda reward: float(rng.random() < (0.731 if reward else 0.269)))) == {FORK}
    assert caught(audited(buffered, only=(FORK,)))
    assert not caught(audited(BernoulliCurator(1.0).respond))


def test_a_sigmoid_applied_after_the_noise() -> None:
    """Noise of scale 1 on rewards 16 apart, squeezed afterwards: epsilon is 16; squeezed before, it is 1."""
    curator = LaplaceCurator(1.0)

    def after(reward: float) -> float:
        return 1 / (1 + math.exp(-min(reward + curator.respond(0.0), 500.0)))

    assert caught(audited(after, rewards=(-8, 8), only=(SINGLE,)))
    assert not caught(audited(LaplaceCurator(1.0, Sigmoid()).respond, rewards=(-8, 8)))


def show_in_message(reward: float) -> None:
    """Leak by the message."""
    raise ValueError(f"a reward must lie in [0, 1], got {reward:.2f}")


def show_in_note(reward: float) -> None:
    """Leak by a note."""
    error = ValueError("a reward must lie in [0, 1]")
    error.add_note(f"reward={int(reward)}")
    raise error


def show_in_cause(reward: float) -> None:
    """Leak by what the error came from."""
    try:
        [0, 1].index(reward)  # type: ignore[arg-type]
    except ValueError:
        raise RuntimeError("no such reward") from KeyError(reward)


def show_in_log(reward: float) -> None:
    """Leak by a line of a log."""
    logging.getLogger("curator").debug("refused %s", reward)
    raise ValueError("a reward must lie in [0, 1]")


def show_in_print(reward: float) -> None:
    """Leak by a printed line."""
    print("refused", reward)  # noqa: T201 - the fault
    raise ValueError("a reward must lie in [0, 1]")


def show_nothing(_reward: float) -> None:
    """Leak nothing."""
    raise ValueError("a reward must lie in [0, 1]")


def refusing(show: Callable[[float], None]) -> Respond:
    """A healthy curator that refuses rewards out of its range in this way."""
    curator = BernoulliCurator(1.0)

    def respond(reward: float) -> float:
        if not 0 <= reward <= 1:
            show(reward)
        return curator.respond(reward)

    return respond


@pytest.mark.parametrize("show", [show_in_message, show_in_note, show_in_cause, show_in_log, show_in_print])
def test_a_reward_that_leaks_on_refusal(show: Callable[[float], None]) -> None:
    """In the message, a note, a cause, a log line or a printed line."""
    assert caught(audited(refusing(show), only=(BAD,)))


def test_a_refusal_that_tells_nothing() -> None:
    """It is no fault, whichever check looks at it."""
    assert not caught(audited(refusing(show_nothing)))


def test_a_curator_that_answers_nan() -> None:
    """Who claims to be one of our curators refuses NaN as they do; of others it is reported."""
    curator = BernoulliCurator(1.0)

    def respond(reward: float) -> float:
        return curator.respond(0.0 if math.isnan(reward) else reward)

    assert caught(audited(respond, spec=curator.spec)) == {BAD}
    found = audited(respond)
    assert not caught(found)
    assert "answered, not refused: NaN" in str(found)
