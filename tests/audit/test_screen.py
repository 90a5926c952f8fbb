"""A fault in a narrow part of the range: rewards that stand out are found, and then judged on coins of their own."""

import math
import random

import numpy as np
import pytest
from tests.faults import spread

from ldpbandits.audit.blackbox.interior import interior_rewards, parts_to_screen, responses_each
from ldpbandits.audit.evidence import Claim, Evidence
from ldpbandits.audit.target import Respond, target_of

RNG = random.Random(3)
LEVEL = 1e-6


def bit(reward: float, epsilon: float = 1.0) -> int:
    """CTB."""
    e = math.exp(epsilon)
    return int(RNG.random() < (1 + reward * (e - 1)) / (1 + e))


def noise(reward: float, scale: float = 1.0) -> float:
    """Laplace noise, all on a grid."""
    return round(1024 * reward + 1024 * scale * (RNG.expovariate(1) - RNG.expovariate(1))) / 1024


def is_tenth(reward: float) -> bool:
    """A multiple of a tenth, but for the half, which is asked for anyway."""
    return 0 < reward < 1 and reward != 0.5 and abs(10 * reward - round(10 * reward)) < 1e-9


def around(low: float, high: float, strange: Respond, usual: Respond) -> Respond:
    """Answer in another way between two rewards."""
    return lambda reward: strange(reward) if low < reward < high else usual(reward)


FAULTS: dict[str, Respond] = {
    "less noise near 0": around(0, 0.003, lambda _: int(RNG.random() < 0.05), bit),
    "less noise near 1": around(0.99, 1, lambda _: 1.0, noise),
    "a word near 1": around(0.98, 1, lambda r: "high" if RNG.random() < 0.1 else bit(r), bit),
    "other noise at tenths": lambda r: noise(r, 0.1) if is_tenth(r) else noise(r),
    "a narrow part": around(0.56, 0.6, lambda _: int(RNG.random() < 0.93), bit),
    "a longer text in a narrow part": around(0.7, 0.74, lambda r: f"{noise(r):+.9f}", lambda r: f"{noise(r):+.6f}"),
}
HEALTHY: dict[str, Respond] = {
    "bits": bit,
    "noise": noise,
    "more noise at tenths": lambda r: noise(0.5, 4.0) if is_tenth(r) else noise(0.5 + (r - 0.5) / 4, 4.0),
    "the end's own law in a narrow part": around(0.56, 0.6, lambda _: bit(1.0), bit),
    "rounded to a half": lambda r: bit(round(2 * r) / 2),
}


def verdict(respond: Respond) -> str:
    """The verdict by rewards between the ends."""
    RNG.seed(4)
    claim = Claim.of(1.0, (0, 1), 36_000, 0.999, 5)
    return interior_rewards(Evidence(target_of(respond), claim, interior=True), LEVEL).verdict


@pytest.mark.parametrize("name", spread(FAULTS, 3))
def test_a_fault_in_a_narrow_part_of_the_range(name: str) -> None:
    """Near an end, on a grid, or anywhere within four hundredths."""
    assert verdict(FAULTS[name]) == "violated"


@pytest.mark.parametrize("name", spread(HEALTHY, 2))
def test_what_stands_out_need_not_tell(name: str) -> None:
    """Some rewards always stand out most, and are judged as any others. False alarm: 1e-6 each."""
    assert verdict(HEALTHY[name]) == "consistent"


def test_where_rewards_are_looked_for() -> None:
    """In every 32nd part, near both ends by magnitudes, and on the grids that people use; none for few samples."""
    parts = parts_to_screen(np.random.default_rng(1))
    assert {math.floor(32 * part) for part in parts} == {*range(32)}
    assert {0.1, 0.3, 0.25, 2 / 3} <= {*parts}
    for near in (min, max):
        assert 0 < abs(near(parts) - round(near(parts))) < 1e-7
    assert all(0 < part < 1 for part in parts)
    assert [responses_each(samples, 70) for samples in (1_000, 34_000, 40_000, 200_000)] == [0, 0, 114, 571]


def test_the_same_rewards_are_asked_for_with_the_same_seed() -> None:
    """So that an audit can be repeated."""
    asked: list[list[float]] = []

    def noted(reward: float) -> int:
        asked[-1].append(reward)
        return round(reward)

    for _ in range(2):
        asked.append([])
        claim = Claim.of(1.0, (0, 1), 36_000, 0.999, 5)
        interior_rewards(Evidence(target_of(noted), claim, interior=True), LEVEL)
    assert asked[0] == asked[1]
