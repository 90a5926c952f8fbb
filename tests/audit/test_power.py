"""No power is not consistency: an audit says what would have passed."""

import hashlib
import math
import random

import pytest

from ldpbandits import BernoulliCurator, LaplaceCurator
from ldpbandits.audit import audit, checks
from ldpbandits.audit.guess import epsilon_lower
from ldpbandits.audit.page import page
from ldpbandits.audit.run import detectable

QUICK = {"confidence": 0.999999, "seed": 3}
ONLY = ("exact", "empirical: own guesser")
"""The checks that an audit with a guesser needs here; the others take most of its time."""


def test_the_least_epsilon_that_is_found_out() -> None:
    """Nineteen times in twenty: a little above the claim for many guesses, infinite if even all right would not do."""
    assert 1.0 < detectable(100_000, 1e-3, 1.0) < 1.05
    assert detectable(100, 1e-3, 1.0) > detectable(1_000, 1e-3, 1.0)
    assert detectable(10, 1e-3, 1.0) == math.inf
    assert epsilon_lower(10, 10, 1e-3) < 1.0
    assert detectable(0, 1e-3, 1.0) == math.inf


def test_too_few_responses_for_a_large_epsilon() -> None:
    """A thousand responses cannot refute epsilon = 9: not even bare rewards would be found. In words, JSON and page."""
    found = audit(lambda reward: int(reward == 1), (0, 1), 9.0, samples=1_000, **QUICK)  # type: ignore[arg-type]
    assert found.verdict == "consistent"
    assert "no power: single responses of epsilon infinity would have passed" in found.sentence
    assert found.to_json()["epsilon_could_be"] is None
    assert "no power: single responses of epsilon infinity would have passed" in page(found)


def test_too_few_responses_for_a_small_epsilon() -> None:
    """With two thousand responses epsilon = 0.01 cannot be told from 0.2 or so, and the audit says so."""
    found = audit(BernoulliCurator(0.01).respond, (0, 1), 0.01, samples=1_000, **QUICK)  # type: ignore[arg-type]
    could_be = found.to_json()["epsilon_could_be"]
    assert 0.1 < could_be < 0.6
    assert f"no power: single responses of epsilon {could_be:.4g} would have passed" in str(found)


@pytest.mark.parametrize("kind", [BernoulliCurator, LaplaceCurator])
def test_enough_responses_are_power(kind: type[BernoulliCurator | LaplaceCurator]) -> None:
    """Of a curator that is what it claims to be, little more than the claim would have passed; of ours, no more."""
    found = audit(kind(1.0).respond, (0, 1), 1.0, samples=20_000, **QUICK)  # type: ignore[arg-type]
    assert 1.0 < found.epsilon_could_be < 1.3
    assert "no power" not in found.sentence
    assert audit(kind(1.0), samples=1_000).epsilon_could_be == 1.0


def hashed(reward: float, truth: float) -> str:
    """Local hashing: a seed, and a bit of a hash of seed and reward, which is right with this probability."""
    seed = random.getrandbits(40)
    return f"{seed},{_bit(seed, reward) ^ (random.random() > truth)}"


def _bit(seed: int, reward: float) -> int:
    return hashlib.blake2b(f"{seed},{reward}".encode()).digest()[0] & 1


def guess(response: str) -> float | None:
    """Read local hashing, with the knowledge of its hash: guess where the two rewards have different bits."""
    seed, bit = map(int, response.split(","))
    if _bit(seed, 0.0) == _bit(seed, 1.0):
        return None
    return 1.0 if _bit(seed, 1.0) == bit else 0.0


def test_a_leak_that_needs_knowledge() -> None:
    """Without it the audit has no power, and says so; with a guesser of one's own it finds 2 where 1 is claimed."""
    truths = {epsilon: 1 / (1 + math.exp(-epsilon)) for epsilon in (1.0, 2.0)}
    blind = audit(lambda reward: hashed(reward, truths[2.0]), (0.0, 1.0), 1.0, samples=5_000, **QUICK)  # type: ignore[arg-type]
    assert "no power: single responses of epsilon infinity would have passed" in blind.sentence
    for epsilon, verdict in ((2.0, "violated"), (1.0, "consistent")):
        truth = truths[epsilon]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(checks, "CHECKS", [check for check in checks.CHECKS if check.name in ONLY])
            found = audit(
                lambda reward, truth=truth: hashed(reward, truth),  # type: ignore[misc]
                (0.0, 1.0),
                1.0,
                samples=5_000,
                guesser=guess,
                **QUICK,  # type: ignore[arg-type]
            )
        told = {layer.name: layer.verdict for layer in found.layers}
        assert told["empirical: own guesser"] == verdict
