"""What three or four responses tell together, and their twins that spend no more than epsilon. Seeded, at 1e-5."""

import math
import random
from collections.abc import Callable

import numpy as np
import pytest

from ldpbandits.audit.blackbox.events import judge_sorted
from ldpbandits.audit.blackbox.neighbours import coarse, neighbours
from ldpbandits.audit.blackbox.parity import sort_by_parity
from ldpbandits.audit.evidence import Claim, Evidence
from ldpbandits.audit.sample import Sample, draw_sample
from ldpbandits.audit.target import Respond, target_of

CALLS = 30_000
RNG = random.Random(9)


def bit(reward: float, epsilon: float) -> int:
    """Randomised response."""
    return int(reward) ^ (RNG.random() > 1 / (1 + math.exp(-epsilon)))


def masked(count: int, epsilon: float, gap: int = 1) -> Respond:
    """Answer with fair bits, and every so often with a bit that only all of the last ones, `gap` apart, unmask."""
    said: list[int] = []

    def respond(reward: float) -> int:
        last = said[-gap * count :: gap]
        is_due = len(said) >= gap * count and len(said) % (gap * count + 1) == gap * count
        said.append(bit(reward, epsilon) ^ (sum(last) & 1) if is_due else RNG.getrandbits(1))
        return said[-1]

    return respond


def signed(epsilon: float) -> Respond:
    """Answer with a number whose sign is masked by the signs of the two before."""
    said: list[float] = [1.0, -1.0]

    def respond(reward: float) -> float:
        masks = (said[-1] > 0) ^ (said[-2] > 0)
        size = round(RNG.expovariate(1), 3) + 0.001
        said.append(size if bit(reward, epsilon) ^ masks else -size)
        return said[-1]

    return respond


def shares(epsilon: float) -> Respond:
    """Answer with three shares of a flip that is drawn for two rewards: the first two are fair, and so is the third."""
    kept: list[int] = []

    def respond(reward: float) -> int:
        kept.append(int(reward))
        if len(kept) < 3:
            flip = RNG.getrandbits(1)
            kept[-1] ^= flip  # what was said
            return kept[-1]
        own = bit(reward, epsilon) ^ kept[0] ^ kept[1]
        kept.clear()
        return own

    return respond


FAULTS: dict[str, Callable[[], Respond]] = {
    "a bit that two before it unmask": lambda: masked(2, 2.0),
    "a bit that three before it unmask": lambda: masked(3, 2.0),
    "a bit that two unmask, at every other call": lambda: masked(2, 2.5, gap=2),
    "a sign that the two before it unmask": lambda: signed(1.5),
}
HEALTHY: dict[str, Callable[[], Respond]] = {
    "a private bit that two before it unmask": lambda: masked(2, 1.0),
    "a private bit that three before it unmask": lambda: masked(3, 1.0),
    "a private sign that the two before it unmask": lambda: signed(1.0),
    "a private bit, masked by what was said": lambda: shares(1.0),
}


def evidence(make: Callable[[], Respond]) -> Evidence:
    """A run of many calls."""
    RNG.seed(5)
    target, rng = target_of(make()), np.random.default_rng(5)
    seen = Evidence(target, Claim.of(1.0, (0, 1), CALLS // 2, 0.999, 1))
    seen.shared["main sample"] = draw_sample(target, (0.0, 1.0), CALLS, rng, 1e9)
    return seen


def verdict(make: Callable[[], Respond]) -> str:
    """The verdict by several responses together."""
    sample = evidence(make).sample
    return judge_sorted(sort_by_parity(sample, (0, 1), coarse(sample)), sample, [(0, 1)], 1e-5, 1.0).verdict


@pytest.mark.parametrize("name", FAULTS)
def test_what_three_or_four_responses_tell(name: str) -> None:
    """No two of them tell anything."""
    assert verdict(FAULTS[name]) == "violated"


@pytest.mark.parametrize("name", HEALTHY)
def test_twins_that_tell_what_is_allowed(name: str) -> None:
    """In three or four responses together; false alarm: 1e-5 each."""
    assert verdict(HEALTHY[name]) == "consistent"


def test_they_are_among_the_neighbours() -> None:
    """As part of what is learned from a window of calls."""
    finding = neighbours(evidence(FAULTS["a bit that two before it unmask"]), 1e-5)
    assert finding.verdict == "violated"
    assert "the parity of the response and those -2, -1 calls away" in finding.detail


def test_the_level_is_kept_at_the_boundary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bits that tell all that epsilon allows, and only together with the two before them: 100 audits at a level of 0.1.

    More than 25 alarms would have probability 1e-5 if the level were used up. Seeded.
    """
    for limit in ("TWO_REACH", "THREE_REACH", "MAX_PERIOD_CALLS"):
        monkeypatch.setattr(f"ldpbandits.audit.blackbox.parity.{limit}", 3)
    rng, alarms = np.random.default_rng(7), 0
    for _ in range(100):
        chosen = rng.integers(2, size=2_000)
        truth = np.where(rng.random(2_000) < 1 / (1 + math.exp(-1)), chosen, 1 - chosen)
        responses = truth.copy()
        for call in range(2, 2_000):
            responses[call] ^= responses[call - 1] ^ responses[call - 2]
        sample = Sample((0.0, 1.0), chosen, responses.astype(float), rng=rng)
        found = judge_sorted(sort_by_parity(sample, (0, 1), responses), sample, [(0, 1)], 0.1, 1.0)
        alarms += found.verdict == "violated"
    assert 1 <= alarms <= 25
