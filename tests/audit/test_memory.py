"""Memory: responses that are kept by reward are found however many are kept, and nothing is asked beyond the claim."""

import random
from functools import lru_cache

import pytest

from ldpbandits import BernoulliCurator, LaplaceCurator, Range
from ldpbandits.audit import audit
from ldpbandits.audit.blackbox.repeats import memory
from ldpbandits.audit.evidence import Claim, Evidence
from ldpbandits.audit.target import Respond, target_of
from ldpbandits.spec import mechanisms
from ldpbandits.spec.curator import CuratorSpec

CLAIM = Claim.of(1.0, (0, 1), 1_000, 0.999999, 4)


def verdict(respond: Respond, spec: CuratorSpec | None) -> str:
    """What the layer says by itself."""
    return memory(Evidence(target_of(respond, spec), CLAIM), CLAIM.alpha(0.01)).verdict


@pytest.mark.parametrize("maxsize", [1, 128, None])
@pytest.mark.parametrize("kind", [BernoulliCurator, LaplaceCurator])
def test_responses_that_are_kept(kind: type[BernoulliCurator | LaplaceCurator], maxsize: int | None) -> None:
    """The last one, the last 128, or all of them: a reward that comes again shows it. False alarm: 1e-8."""
    curator = kind(1.0)
    assert verdict(lru_cache(maxsize)(curator.respond), curator.spec) == "violated"
    assert verdict(curator.respond, curator.spec) == "consistent"


@pytest.mark.parametrize("kind", [BernoulliCurator, LaplaceCurator])
def test_the_rewards_given_are_enough_for_the_last_response(kind: type[BernoulliCurator | LaplaceCurator]) -> None:
    """Without a spec only the rewards given are asked for, and the last response kept is found still."""
    curator = kind(1.0)
    assert verdict(lru_cache(1)(curator.respond), None) == "violated"
    assert verdict(curator.respond, None) == "consistent"


def test_nothing_is_asked_beyond_the_claim() -> None:
    """A mechanism that is private on the rewards claimed, and on no others, keeps its claim. False alarm: 1e-6."""

    def only_there(reward: float) -> float:
        if not 0 <= reward <= 1:
            raise ValueError("a reward must lie in [0, 1]")
        if reward not in {0.0, 0.5, 1.0}:
            return reward
        return reward if random.random() < (2.718 - 1) / (2.718 + 2) else random.choice([0.0, 0.5, 1.0])

    found = audit(only_there, (0, 0.5, 1), 1.0, samples=20_000, confidence=0.999999, seed=4)
    assert {layer.name for layer in found.violated} <= {"known attacks: fork"}  # its generator is copied by fork
    asked = set[float]()

    def noted(reward: float) -> float:
        asked.add(reward)
        return random.random()

    assert verdict(noted, None) == "consistent"
    assert asked == {0.0, 1.0}
    verdict(noted, CuratorSpec(mechanisms.Bernoulli(1.0), Range()))
    assert len(asked) > 10_000


def test_a_curator_that_refuses_what_its_spec_covers() -> None:
    """Then the layer says that it could not be run."""

    def respond(reward: float) -> float:
        if reward not in {0.0, 1.0}:
            raise ValueError("a reward must be 0 or 1")
        return random.random()

    assert verdict(respond, BernoulliCurator(1.0).spec) == "not applicable"
