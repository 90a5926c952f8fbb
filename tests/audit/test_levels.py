"""The level is kept: by the two halves, by the shares, and every layer is there to use its own."""

import math
import random
from collections.abc import Callable

import numpy as np
import pytest

from ldpbandits import BernoulliCurator, LaplaceCurator
from ldpbandits.audit import audit
from ldpbandits.audit.blackbox import repeats as streams
from ldpbandits.audit.blackbox.events import LOW_BITS, Feature, atoms, judge_event
from ldpbandits.audit.evidence import Sample
from ldpbandits.audit.guess import Guesses
from ldpbandits.audit.result import Reals
from ldpbandits.audit.whitebox import known, ours
from ldpbandits.audit.whitebox.known import judge_moments

ATTACKS = [
    "known attacks: precision event",
    "known attacks: the reward before",
    "known attacks: fork",
    "known attacks: repeated seed",
    "known attacks: memoised responses",
    "known attacks: bad rewards",
    "known attacks: response time",
]


@pytest.mark.parametrize("kind", [BernoulliCurator, LaplaceCurator])
def test_every_layer_of_ours_is_there(kind: type[BernoulliCurator | LaplaceCurator]) -> None:
    """By name, in order: a layer that was left out would alarm no one."""
    assert [layer.name for layer in audit(kind(1.0), samples=1_000).layers] == [
        "exact",
        "exact: the sampler is the device",
        "empirical: best guess",
        "empirical: low-order bits",
        "empirical: chosen event on the device",
        "empirical: low-order bits on the device",
        *ATTACKS,
        "sanity: mean and variance",
        "sanity: the device's own code",
    ]


def test_every_layer_of_a_black_box_is_there() -> None:
    """With a spec, and without."""
    curator, chosen = LaplaceCurator(1.0), ["empirical: chosen event", "empirical: low-order bits"]
    found = audit(curator.respond, epsilon=1.0, samples=1_000)
    assert [layer.name for layer in found.layers] == ["exact", *chosen, *ATTACKS, "sanity: mean and variance"]
    found = audit(curator.respond, samples=1_000, spec=curator.spec)
    named = ["exact", "empirical: best guess", *chosen, *ATTACKS, "sanity: mean and variance"]
    assert [layer.name for layer in found.layers] == named


def levels_used(run: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Run an audit, and note the level of every test that it makes."""
    used = []
    make, judge = Guesses.__init__, streams.judge

    def noted_guesses(self: Guesses, right: int, made: int, alpha: float) -> None:
        used.append(alpha)
        make(self, right, made, alpha)

    def noted(function: Callable[..., object]) -> Callable[..., object]:
        def noting(*given: object) -> object:
            assert isinstance(given[-1], float)
            used.append(given[-1])  # alpha comes last
            return function(*given)

        return noting

    monkeypatch.setattr(Guesses, "__init__", noted_guesses)
    monkeypatch.setattr(streams, "judge", noted(judge))
    for module in (ours, known):
        monkeypatch.setattr(module, "judge_moments", noted(judge_moments))
    run()
    return used


def on_doubles(reward: float) -> float:
    """Laplace noise from two doubles, with responses of all precisions."""
    return reward + math.log(1 - random.random()) - math.log(1 - random.random())


@pytest.mark.parametrize("confidence", [0.9, 0.999])
def test_the_levels_used_are_no_more_than_was_stated(confidence: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the union bound the chance of a false alarm is the sum of the levels: at most 1 - confidence, and near it."""
    curator = LaplaceCurator(1.0)
    options = {"samples": 20_000, "confidence": confidence, "seed": 1}
    of_ours = levels_used(lambda: audit(curator, **options), monkeypatch)  # type: ignore[arg-type]
    monkeypatch.undo()

    def black_box() -> None:
        spec, another = curator.spec, lambda: on_doubles
        audit(on_doubles, (0, 0.5, 1), 1.0, spec=spec, another_user=another, **options)  # type: ignore[arg-type]

    of_others = levels_used(black_box, monkeypatch)
    for used, most, tests in ((of_ours, 0.98, 10), (of_others, 0.96, 8 + 6)):
        assert len(used) == tests
        assert sum(used) == pytest.approx(most * (1 - confidence), rel=1e-9)


def alarms(runs: int) -> int:
    """Audit so many mechanisms that respond at random, whatever the reward; they claim 0.01, alpha is 0.1."""
    rng, count = np.random.default_rng(12), 0
    for _ in range(runs):
        chosen, responses = rng.integers(2, size=8_000), rng.integers(300, size=8_000).astype(float)
        sample = Sample((0.0, 1.0), chosen, responses)
        count += judge_event([atoms(responses[::2])], sample, 0.1, 0.01).verdict == "violated"
    return count


def test_an_event_is_tested_on_responses_it_was_not_chosen_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 300 values none tells anything. Chosen and tested on the same half, some seem to; on two halves, none does.

    At most 10 % of 100 audits alarm: more than 25 would have probability 1e-5 if the level were used up. Seeded.
    """
    assert alarms(100) <= 25
    part = Sample.part

    def same_half(self: Sample, which: int, of: int) -> Sample:
        return part(self, 0 if len(self.chosen) == 8_000 else which, of)

    monkeypatch.setattr(Sample, "part", same_half)
    assert alarms(100) >= 75


def far_out(reward: Reals, rng: np.random.Generator) -> Reals:
    """Multiples of 1 or of 2, by the reward, of sizes so various that trailing zeros hardly tell which."""
    size = np.clip(30 + np.round(3 * rng.laplace(size=len(reward))), 14, 50)
    fraction = rng.integers(2**12, size=len(reward)) * 2.0**-12 + 1
    return _odd_multiple(2**size * fraction, 1 + reward)


def _odd_multiple(near: Reals, of: Reals) -> Reals:
    return (2 * np.floor(near / of / 2) + 1) * of


def in_a_binade(reward: Reals, rng: np.random.Generator) -> Reals:
    """Odd multiples of 2^-20 or 2^-21: which of them, given the binade, is the reward; else it is a coin."""
    binade = rng.integers(2, size=len(reward))
    near = (1 + rng.random(len(reward))) * 2.0**binade
    return _odd_multiple(near, 2.0 ** (-20 - (binade != reward)))


def above_the_last(reward: Reals, rng: np.random.Generator) -> Reals:
    """The last bit is 1; the one above is the reward."""
    mantissa = 2**52 + rng.integers(2**50, size=len(reward)) * 4 + 2 * reward.astype(np.int64) + 1
    return mantissa.astype(np.float64) * 2.0**-52


@pytest.mark.parametrize(("number", "fault"), [(0, far_out), (1, in_a_binade), (2, above_the_last)])
def test_each_feature_of_low_bits_is_needed(number: int, fault: Callable[[Reals, np.random.Generator], Reals]) -> None:
    """One fault that it sees and the two others do not. Seeded."""
    rng = np.random.default_rng(8)
    chosen = rng.integers(2, size=40_000)
    sample = Sample((0.0, 1.0), chosen, fault(chosen.astype(float), rng))

    def verdict(features: tuple[Feature, ...]) -> str:
        return judge_event(features, sample, 1e-6, 1.0).verdict

    assert verdict((LOW_BITS[number],)) == "violated"
    assert verdict(LOW_BITS) == "violated"
    assert verdict((*LOW_BITS[:number], *LOW_BITS[number + 1 :])) == "consistent"
