"""The audit of our own curators audits the code that a device runs: each change to it is caught, by name.

Confidence is 99.9999 %; healthy twins are in test_ours.py.
"""

from collections.abc import Callable
from fractions import Fraction

import pytest

from ldpbandits import BernoulliCurator, Curator, LaplaceCurator, Range, RealLine, Sigmoid
from ldpbandits.audit import Audit, audit
from ldpbandits.audit.evidence import Claim
from ldpbandits.audit.result import Finding
from ldpbandits.audit.target import Respond, target_of
from ldpbandits.audit.whitebox import exact
from ldpbandits.audit.whitebox.ours import WhiteBox
from ldpbandits.device.randomness import Draw, system_words
from ldpbandits.spec.mechanisms import GRID_BITS
from ldpbandits.spec.transforms import Transform
from ldpbandits.types import Response

CONFIDENCE = 0.999999
REPLAY = "exact: the sampler is the device"
EVENT = "empirical: single responses"
BEFORE = "empirical: neighbours"

Privatise = Callable[[Curator, float | Fraction, Draw], Response]
LAPLACE: Privatise = LaplaceCurator._privatise  # type: ignore[assignment]
HEALTHY, TOO_LARGE, LARGER = BernoulliCurator(1.0), BernoulliCurator(1.05), BernoulliCurator(1.4)


def caught(curator: Curator) -> set[str]:
    """The layers that say no to a curator of ours."""
    return {layer.name for layer in audit(curator, samples=20_000, confidence=CONFIDENCE, seed=3).violated}


def far_below_the_grid(curator: Curator, value: float | Fraction, draw: Draw) -> Response:
    """Add the reward where nobody looks."""
    return Response(LAPLACE(curator, value, draw) + float(value) * 2**-40)


def in_the_last_bit(curator: Curator, value: float | Fraction, draw: Draw) -> Response:
    """Write the reward over the last bit of the grid."""
    steps = int(LAPLACE(curator, value, draw) * 2**GRID_BITS)
    return Response((steps & ~1 | round(value)) / 2**GRID_BITS)


def too_large(_curator: Curator, value: float | Fraction, draw: Draw) -> Response:
    """Use five percent more epsilon than was promised."""
    return Response(1.0 if draw(1)[0] < TOO_LARGE.threshold(value) else 0.0)


def in_the_sign_of_zero(_curator: Curator, value: float | Fraction, draw: Draw) -> Response:
    """Give CTB's response, and say by the sign of a 0 whether the reward was above one half."""
    bit = 1.0 if draw(1)[0] < HEALTHY.threshold(value) else 0.0
    return Response(-0.0 if not bit and value > 1 / 2 else bit)


def from_elsewhere(curator: Curator, value: float | Fraction, _draw: Draw) -> Response:
    """Use other randomness than the words given."""
    return LAPLACE(curator, value, system_words)


@pytest.mark.parametrize(
    ("kind", "mutant", "seen"),
    [
        (LaplaceCurator, far_below_the_grid, {REPLAY, EVENT}),
        (LaplaceCurator, in_the_last_bit, {REPLAY, EVENT}),
        (LaplaceCurator, from_elsewhere, {REPLAY}),
        (BernoulliCurator, too_large, {REPLAY}),
        (BernoulliCurator, in_the_sign_of_zero, {REPLAY, EVENT}),
    ],
)
def test_a_change_to_what_a_device_runs(
    kind: type[Curator], mutant: Privatise, seen: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words replayed show every change; the responses themselves show those that give the reward away."""
    monkeypatch.setattr(kind, "_privatise", mutant)
    found = caught(kind(1.0))
    assert found & {REPLAY, EVENT} == seen


def hidden(curator: Curator, reward: float) -> float:
    """Hide the reward far below the grid."""
    return curator.respond_not_private(reward, system_words) + reward * 2**-40


def as_of_a_larger_epsilon(_curator: Curator, reward: float) -> float:
    """Respond with epsilon 1.4."""
    return LARGER.respond_not_private(reward, system_words)


@pytest.mark.parametrize(
    ("kind", "mutant", "seen"),
    [(LaplaceCurator, hidden, EVENT), (BernoulliCurator, as_of_a_larger_epsilon, EVENT)],
)
def test_a_change_to_respond_alone(
    kind: type[Curator], mutant: Callable[[Curator, float], float], seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What replayed words cannot see, for they enter below `respond`, its own responses show."""
    monkeypatch.setattr(Curator, "respond", mutant)
    found = caught(kind(1.0))
    assert seen in found
    assert REPLAY not in found


def replayed(curator: Curator, claim: Claim) -> Finding:
    """Judge a curator by its replayed words alone."""
    return exact.replay(WhiteBox(target_of(curator), claim, curator=curator), 0)


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize(
    ("kind", "transform", "rewards"),
    [
        (BernoulliCurator, Range(-3, 7), (-3, 7)),
        (LaplaceCurator, Range(), (0, 1)),
        (LaplaceCurator, RealLine(), (1e9, 1e9 + 1)),
        (LaplaceCurator, Sigmoid(), (-1000, 1000)),
    ],
)
def test_the_sampler_is_the_device(
    kind: type[BernoulliCurator | LaplaceCurator], transform: Transform, rewards: tuple[float, float], epsilon: float
) -> None:
    """On all rows, seeded or not: no chance is involved."""
    for seed in (1, None):
        claim = Claim.of(epsilon, rewards, 1_000, 0.999, seed)
        assert replayed(kind(epsilon, transform), claim).verdict == "consistent"


def test_ties_are_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that settles ties the other way differs on the rows where ties were planted, and on no others."""
    curator = BernoulliCurator(1.0)

    def at_most(self: BernoulliCurator, value: float | Fraction, draw: Draw) -> Response:
        return Response(1.0 if draw(1)[0] <= self.threshold(value) else 0.0)

    monkeypatch.setattr(BernoulliCurator, "_privatise", at_most)
    layer = replayed(curator, Claim.of(1.0, (0, 1), 1_000, 0.999, 1))
    rows = 3 * exact.ROWS
    assert layer.detail.startswith(f"{rows // exact.KINDS:,} of {rows:,} rows")


def audited(respond: Respond) -> Audit:
    """Audit a function that claims epsilon = 1."""
    return audit(respond, (0, 1), 1.0, samples=20_000, confidence=CONFIDENCE, seed=3)


def test_the_reward_of_the_call_before() -> None:
    """Given out whole, or hidden in low bits, it is found; fresh responses show nothing of it. False alarm: 1e-6."""
    curator, kept = LaplaceCurator(1.0), [0.0]

    def before(reward: float) -> float:
        kept.append(reward)
        return kept[-2]

    def hidden_before(reward: float) -> float:
        return curator.respond(reward) + before(reward) * 2**-40

    for respond in (before, hidden_before):
        assert {layer.name for layer in audited(respond).violated} == {BEFORE}
    told = {layer.name: layer for layer in audited(curator.respond).layers}
    assert told[BEFORE].verdict == "consistent"


def test_the_reward_of_the_call_before_from_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, planted in our own curator."""
    kept = [0.0]

    def private(curator: Curator, reward: float) -> float:
        kept.append(reward)
        return curator.respond_not_private(kept[-2], system_words)

    def whole(_curator: Curator, reward: float) -> float:
        kept.append(reward)
        return kept[-2]

    monkeypatch.setattr(Curator, "respond", private)
    assert BEFORE not in caught(BernoulliCurator(1.0))  # it is as private there as in a response to itself
    monkeypatch.setattr(Curator, "respond", whole)
    assert BEFORE in caught(BernoulliCurator(1.0))
