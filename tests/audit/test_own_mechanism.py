"""A curator with a mechanism of one's own can be audited: by its responses, since nothing else is known of it.

Confidence is 99.9999 %: a healthy curator fails once in a million runs.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import exp
from typing import ClassVar

import pytest

from ldpbandits import Curator, Range
from ldpbandits.audit import Audit, audit
from ldpbandits.audit.checks import BOUND_SHARE, CHECKS, share
from ldpbandits.audit.evidence import Claim, Evidence
from ldpbandits.audit.target import target_of
from ldpbandits.device.curators import CURATORS
from ldpbandits.device.randomness import WORD, Draw
from ldpbandits.spec.mechanisms import MECHANISMS, check_mechanism_epsilon
from ldpbandits.types import Response

CONFIDENCE = 0.999999
UNKNOWN = ["exact", "empirical: best guess", "known attacks: one at a time", "sanity: mean and variance"]
"""The checks that need a law, a best guess, a program or a formula."""


@dataclass(frozen=True, slots=True)
class Thirds:
    """Randomised response over 0, 1/2 and 1: the nearest with probability e^epsilon / (2 + e^epsilon)."""

    epsilon: float

    kind: ClassVar[str] = "thirds"
    takes_any_value: ClassVar[bool] = False
    unit: ClassVar[float] = 0.5
    limits: ClassVar[tuple[int, int]] = (0, 2)

    def __post_init__(self) -> None:
        """Check epsilon."""
        check_mechanism_epsilon(self)

    @property
    def lie(self) -> float:
        """The probability of each of the two other responses."""
        return 1 / (2 + exp(self.epsilon))

    def response_mean(self, mean: float) -> float:
        """Shrink towards one half."""
        return mean + 3 * self.lie * (0.5 - mean)


class ThirdsCurator(Curator):
    """The device's side."""

    mechanism = Thirds

    def _privatise(self, value: float | Fraction, draw: Draw) -> Response:
        assert isinstance(self.spec.mechanism, Thirds)
        lie = int(self.spec.mechanism.lie * (1 << WORD)) + 1
        (word,) = draw(1)
        return Response((round(2 * value) + (1 if word < lie else 2 if word < 2 * lie else 0)) % 3 / 2)


class LeakyCurator(ThirdsCurator):
    """The same, but a quarter of the responses is the truth."""

    def _privatise(self, value: float | Fraction, draw: Draw) -> Response:
        return Response(float(value)) if draw(1)[0] >> (WORD - 2) == 0 else super()._privatise(value, draw)


@pytest.fixture(autouse=True)
def known_to_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the mechanism and its curator, and forget them afterwards."""
    monkeypatch.setattr(MECHANISMS, "_types", dict(MECHANISMS._types))
    monkeypatch.setattr(CURATORS, "_by_mechanism", dict(CURATORS._by_mechanism))
    MECHANISMS.register(Thirds)
    CURATORS.register(ThirdsCurator)


def audited(curator: Curator) -> Audit:
    """Audit a curator that claims its epsilon."""
    return audit(curator, samples=30_000, confidence=CONFIDENCE, seed=6)


def test_a_healthy_curator_passes() -> None:
    """Every check of a black box is there; those that need to know the mechanism say that they do not apply."""
    found = audited(ThirdsCurator(1.0, Range(-1, 4)))
    assert found.verdict == "consistent", str(found)
    assert [layer.name for layer in found.layers] == [
        check.name for check in CHECKS if check.black and check.name != "empirical: own guesser"
    ]
    verdicts = {layer.name: layer.verdict for layer in found.layers}
    assert [name for name, verdict in verdicts.items() if verdict == "not applicable"] == UNKNOWN
    assert 0.85 < found.epsilon_lower <= 1.0


def test_a_curator_that_tells_too_much_is_caught() -> None:
    """By its responses, since nothing is known of its code."""
    found = audited(LeakyCurator(1.0))
    assert {layer.name for layer in found.violated} >= {"empirical: single responses"}
    assert found.epsilon_lower > 1.0


def test_single_responses_have_the_whole_share_of_the_bound() -> None:
    """There is no best guess to share it with."""
    evidence = Evidence(target_of(ThirdsCurator(1.0)), Claim.of(1.0, (0, 1), 1_000, 0.999))
    shares = {check.name: share(check, evidence) for check in CHECKS}
    assert shares["empirical: single responses"] == BOUND_SHARE


def test_users_of_a_registered_curator_are_made_from_its_spec() -> None:
    """A curator that is not registered, such as a subclass, has to be given with another_user."""
    assert target_of(ThirdsCurator(1.0)).another_user is not None
    assert target_of(LeakyCurator(1.0)).another_user is None
