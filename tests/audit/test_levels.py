"""The level is kept: by the two halves, by the shares, and every layer is there to use its own."""

from collections.abc import Callable

import numpy as np
import pytest

from ldpbandits import BernoulliCurator, LaplaceCurator
from ldpbandits.audit import audit, checks
from ldpbandits.audit.blackbox import events
from ldpbandits.audit.blackbox.events import Sorted, atoms, judge_sorted, low_bits
from ldpbandits.audit.checks import Check
from ldpbandits.audit.evidence import Evidence
from ldpbandits.audit.result import Counts, Finding, Reals
from ldpbandits.audit.sample import ROLES, TEST, Sample


@pytest.mark.parametrize("kind", [BernoulliCurator, LaplaceCurator])
def test_every_layer_of_ours_is_there(kind: type[BernoulliCurator | LaplaceCurator]) -> None:
    """By name, in the order of the table: a layer that was left out would alarm no one."""
    names = [layer.name for layer in audit(kind(1.0), samples=1_000).layers]
    assert names == [check.name for check in checks.CHECKS if check.white]


def test_every_layer_of_a_black_box_is_there() -> None:
    """With a spec and a guesser, and without."""
    curator, table = LaplaceCurator(1.0), [check.name for check in checks.CHECKS if check.black]
    found = audit(curator.respond, samples=1_000, spec=curator.spec, guesser=lambda _: None)
    assert [layer.name for layer in found.layers] == table
    found = audit(curator.respond, epsilon=1.0, samples=1_000)
    optional = ["empirical: best guess", "empirical: own guesser"]
    assert [layer.name for layer in found.layers] == [name for name in table if name not in optional]


def levels_used(run: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Run an audit, and note the level of every check that it makes."""
    used = []
    run_check = checks._run

    def noted(check: Check, evidence: Evidence, alpha: float) -> Finding | None:
        finding = run_check(check, evidence, alpha)
        if finding is not None:
            used.append(alpha)
        return finding

    monkeypatch.setattr(checks, "_run", noted)
    run()
    return used


@pytest.mark.parametrize("confidence", [0.9, 0.999])
def test_the_levels_used_are_no_more_than_was_stated(confidence: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the union bound the chance of a false alarm is the sum of the levels: at most 1 - confidence, and near it."""
    curator = LaplaceCurator(1.0)
    options = {"samples": 2_000, "confidence": confidence, "seed": 1}
    of_ours = levels_used(lambda: audit(curator, **options), monkeypatch)  # type: ignore[arg-type]
    monkeypatch.undo()
    of_others = levels_used(
        lambda: audit(curator.respond, (0, 0.5, 1), spec=curator.spec, guesser=lambda _: None, **options),  # type: ignore[arg-type]
        monkeypatch,
    )
    for used in (of_ours, of_others):
        assert sum(used) == pytest.approx(1 - confidence, rel=1e-9)


def alarms(runs: int) -> int:
    """Audit so many mechanisms that respond at random, whatever the reward; they claim 0.01, alpha is 0.1."""
    rng, count = np.random.default_rng(12), 0
    for _ in range(runs):
        chosen, responses = rng.integers(2, size=8_000), rng.integers(300, size=8_000).astype(float)
        sample = Sample((0.0, 1.0), chosen, responses, rng=rng)
        count += judge_sorted([atoms(responses)], sample, [(0, 1)], 0.1, 0.01).verdict == "violated"
    return count


def test_an_event_is_tested_on_responses_it_was_not_chosen_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 300 values none tells anything. Chosen and tested on the same coins, some seem to; on others, none does.

    At most 10 % of 100 audits alarm: more than 25 would have probability 1e-5 if the level were used up. Seeded.
    """
    assert alarms(100) <= 25
    count = events._counts

    def same_coins(calls: Sorted, of: Sample) -> Counts:
        return np.stack([count(calls, of)[TEST]] * ROLES)

    monkeypatch.setattr(events, "_counts", same_coins)
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
    sample = Sample((0.0, 1.0), chosen, fault(chosen.astype(float), rng), rng=rng)

    ways = list(low_bits(sample.responses))

    def verdict(ways: list[Sorted]) -> str:
        return judge_sorted(ways, sample, [(0, 1)], 1e-6, 1.0).verdict

    assert verdict([ways[number]]) == "violated"
    assert verdict(ways) == "violated"
    assert verdict([*ways[:number], *ways[number + 1 :]]) == "consistent"
