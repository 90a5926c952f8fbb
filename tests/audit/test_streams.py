"""Repeated seeds: found among many users, at a lag, and at no more than the level that all comparisons share."""

import random
from collections.abc import Callable
from itertools import count

import numpy as np
import pytest

from ldpbandits import LaplaceCurator
from ldpbandits.audit.blackbox.repeats import LAGS, RUNS, USERS, judge, repeated_seed
from ldpbandits.audit.evidence import Claim, Evidence
from ldpbandits.audit.result import Finding
from ldpbandits.audit.subject import Respond, Subject, ask_function, subject_of

CLAIM = Claim.of(1.0, (0, 1), 1_000, 0.999999)


def seeded(rng: random.Random) -> Respond:
    """Make randomised response, from a generator that is used for nothing else."""
    return lambda reward: float(rng.random() < (0.731 if reward else 0.269))


def judged_subject(subject: Subject) -> Finding:
    """Judge the users of a subject."""
    return repeated_seed(Evidence(subject, CLAIM), CLAIM.alpha(0.01))


def judged(make: Callable[[], Respond]) -> Finding:
    """Judge users made in this way."""
    return judged_subject(subject_of(make(), None, make))


@pytest.mark.parametrize("lag", [1, 2, 3, 4])
def test_a_stream_that_runs_behind_another(lag: int) -> None:
    """Every user's generator has been used a little more than the last one's: the noise is the same, shifted."""
    users = count()

    def make() -> Respond:
        rng = random.Random(7)
        for _ in range(lag * next(users)):
            rng.random()
        return seeded(rng)

    layer = judged(make)
    assert layer.verdict == "violated"
    assert f", {lag} apart," in layer.detail


def test_a_seed_of_four_bits() -> None:
    """Among 16 users two have the same one: 16!/16^16, once in a million times, they do not. The choice is seeded."""
    choice = random.Random(1)
    layer = judged(lambda: seeded(random.Random(choice.getrandbits(4))))
    assert layer.verdict == "violated"


def test_users_with_noise_of_their_own() -> None:
    """Of seeds of 64 bits, and of the operating system's words, nothing is said. False alarm: 1e-8."""
    choice = random.Random(1)
    assert judged(lambda: seeded(random.Random(choice.getrandbits(64)))).verdict == "consistent"
    assert judged(lambda: LaplaceCurator(1.0).respond).verdict == "consistent"


def test_how_many_users_are_made() -> None:
    """Many of a function; of a program, each run of which takes its time, a few."""
    made = []

    def make() -> Respond:
        made.append(1)
        return lambda _reward: random.random()

    judged(make)
    assert len(made) == USERS + 1
    plain = subject_of(make())
    made.clear()
    judged_subject(Subject("a program", plain.ask, plain.probe, another_user=lambda: ask_function(make())))
    assert len(made) == RUNS


@pytest.mark.parametrize(("users", "ones", "verdict"), [(2, 1, "reported"), (2, 2, "violated"), (16, 2, "reported")])
def test_the_level_is_divided_by_all_comparisons(users: int, ones: int, verdict: str) -> None:
    """Of 100 responses one or two are 1, alike by chance 1/100 or 1/4950: enough at 5 % over 9 comparisons, or not."""
    stream = np.array([1.0] * ones + [0.0] * (100 - ones))
    layer = judge([0.0] * 100, {f"user {i}": stream for i in range(users)}, 0.05)
    assert layer.verdict == verdict
    assert len(LAGS) == 9


def test_the_pair_that_tells_most_decides() -> None:
    """Two streams that are alike because they hardly vary do not hide two that are alike and vary."""
    rng = np.random.default_rng(1)
    varied = rng.random(100)
    streams = {"a": np.zeros(100), "b": np.zeros(100), "c": varied, "d": varied}
    layer = judge([0.0] * 100, streams, 1e-6)
    assert layer.verdict == "violated"
    assert layer.detail.startswith("c and d give the same 100 responses")
