"""The rules beyond the paper leap with exactly the law of the per-round simulator."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.faults import some

from ldpbandits.lab import algorithm, simulate
from ldpbandits.lab.algorithms import Algorithm
from ldpbandits.lab.engine import leap_thompson
from ldpbandits.lab.engine.leap import leap_obstacle
from ldpbandits.lab.panels.paper import BERNOULLI, MIXED
from ldpbandits.lab.play import Engine, Trials
from ldpbandits.lab.rewards import Law, gaps, parse_arms
from ldpbandits.theory.bounds import exact_constant

FALSE_ALARM = 1e-6
"""Of each comparison; there are about 200 in this file, all seeded."""


def arms(*texts: str) -> list[Law]:
    """Read several arms."""
    return [arm for text in texts for arm in parse_arms(text)]


NAMES = ["imed", "kl-ucb", "kl-ucb++", "ts"]
INSTANCES: list[tuple[str, str, float | None, list[Law], int, int]] = [
    # prefix, suffix, epsilon, arms, horizon, trials
    ("ldp-", "", 1.0, arms("bernoulli(0.9)", "bernoulli(0.6)"), 800, 1_000),
    ("ldp-", "", 0.5, arms("bernoulli(0.5)", "bernoulli(0.499)"), 800, 600),
    (
        "ldp-",
        "",
        4.0,
        arms("bernoulli(0.9)", "uniform(0,1)", "beta(2,3)"),
        500,
        500,
    ),
    ("ldp-", "-s", 4.0, arms("gaussian(1,1)", "gaussian(0,1)"), 500, 500),
    ("", "", None, arms("bernoulli(0.05)", "bernoulli(0.02)", "bernoulli(0.01)"), 700, 400),
    ("", "", None, arms("bernoulli(1)", "bernoulli(0)", "bernoulli(0.5)"), 300, 200),
    ("", "", None, arms("bernoulli(1)", "bernoulli(1)"), 100, 50),
    ("ldp-", "", 1.0, arms("bernoulli(0.7)"), 300, 100),
]


def statistics(played: Algorithm, bandit: list[Law], horizon: int, trials: int, engine: Engine) -> NDArray[np.float64]:
    """What is compared of a run: the pulls and the mean of each arm, and the regret."""
    bandit_trials = Trials(played, bandit, engine)
    pulls, totals = np.zeros((trials, len(bandit))), np.zeros((trials, len(bandit)))
    for trial, stream in enumerate(np.random.SeedSequence([horizon, engine == "leap"]).spawn(trials)):
        rng = np.random.Generator(np.random.PCG64(stream))
        for t, until in ((0, 1), (1, horizon // 3), (horizon // 3, horizon)):
            bandit_trials._advance(rng, pulls[trial], totals[trial], t, until)
    assert (pulls.sum(axis=1) == horizon).all()
    return np.vstack([pulls.T, (totals / pulls).T, pulls @ np.array(gaps(bandit))])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("prefix", "suffix", "epsilon", "bandit", "horizon", "trials"), INSTANCES)
def test_leaps_have_the_law_of_steps(
    name: str, prefix: str, suffix: str, epsilon: float | None, bandit: list[Law], horizon: int, trials: int
) -> None:
    """Pulls, means and regret have the same distribution under both engines. False alarm: 1e-6 each; seeded."""
    played = algorithm(f"{prefix}{name}{suffix}", epsilon)
    leaps, steps = (statistics(played, bandit, horizon, trials, engine) for engine in ("leap", "step"))
    for one, other in zip(leaps, steps, strict=True):
        if np.ptp(one) > 0 or np.ptp(other) > 0:
            assert stats.ks_2samp(one, other, method="asymp").pvalue > FALSE_ALARM
        else:
            assert one[0] == other[0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("epsilon", [2.0, 1.0])
def test_far_horizons_are_reached_at_the_exact_constant(name: str, epsilon: float) -> None:
    """From T = 1e9 to 1e11 regret rises by 0.6 to 1.5 times the exact constant of the theory, and pulls add up.

    The mean of 16 trials has a standard error below 0.1 of that. False alarm: 1e-4 each; seeded.
    """
    made = simulate(f"ldp-{name}", BERNOULLI, 10**11, epsilon=epsilon, trials=16, seed=1, checkpoints=(10**9, 10**11))
    assert made.engine == "leap"
    assert (made.pulls.sum(axis=2) == np.array([10**9, 10**11])).all()
    slope = (made.mean_regret[1] - made.mean_regret[0]) / np.log(100)
    assert 0.6 < slope / exact_constant([arm.mean for arm in BERNOULLI], epsilon) < 1.5


@pytest.mark.parametrize("name", [name for name in NAMES if name != "ts"])  # which has to draw while arms are level
def test_only_and_equal_arms_leap_far(name: str) -> None:
    """One arm, equal arms and arms without a chance are blocks too: T = 1e10 takes moments."""
    for prefix, epsilon, bandit in (
        ("ldp-", 1.0, arms("bernoulli(0.5)")),
        ("ldp-", 1.0, arms("bernoulli(0.5)", "bernoulli(0.5)")),
        ("", None, arms("bernoulli(1)", "bernoulli(0)")),
        ("", None, arms("bernoulli(0.001)", "bernoulli(0)")),
    ):
        made = simulate(algorithm(f"{prefix}{name}", epsilon), bandit, 10**10, trials=1, seed=1)
        assert made.pulls[0, -1].sum() == 10**10


@pytest.mark.parametrize("name", NAMES)
def test_responses_that_are_not_bits_are_stepped(name: str) -> None:
    """Without a curator, on rewards between 0 and 1, every round is played, and the reason is said."""
    reason = leap_obstacle(algorithm(name), MIXED)
    assert reason == f"the rule of {name} leaps on responses that are bits, and those of some arm are not"
    assert simulate(name, MIXED, 100, trials=1, seed=1).engine == "step"
    assert leap_obstacle(algorithm(f"ldp-{name}", 1.0), MIXED) is None


def thinned_p(*changes: tuple[str, str]) -> float:
    """The p-value of a test that a thinned round of Thompson sampling is won by each arm as often as a plain one.

    The tally is one where bounds are large and several of the events often hold at once. The module is not compiled.
    """
    source = Path(leap_thompson.__file__).read_text(encoding="utf-8")
    for change in changes:
        assert source.count(change[0]) == 1, change[0]
        source = source.replace(*change)
    module: dict[str, Any] = {"__name__": "plain"}
    exec(compile(re.sub("@(un)?c(ompiled|ached)\n", "", source), "plain", "exec"), module)  # noqa: S102 - our own source
    rng = np.random.default_rng(5)
    arms = module["Posteriors"](np.array([60.0, 60.0]), np.array([24.0, 36.0]), np.zeros(2), np.zeros(2))
    chance = module["_bound"](1, 0.6, 0.49, arms)
    assert chance < 1
    won = np.zeros((2, 2))
    for _ in range(80_000):
        won[0, module["_play_round"](rng, arms)] += 1
        is_candidate = rng.random() < chance
        won[1, module["_candidate"](rng, 1, 0.49, chance, arms) if is_candidate else 1] += 1
    return float(stats.chi2_contingency(won).pvalue)


THINNING_MUTANTS = {
    "a bound too low": ("/ _steepness(pulls, total, x), 1.0)", "/ _steepness(pulls, total, x), 1.0) / 4"),
    "several events count for none": (
        "best if rng.random() * events < 1 else leader",
        "leader if events > 1 else best",
    ),
    "several events count often": ("best if rng.random() * events < 1 else leader", "best"),
    "every draw accepted": ("if log(1 - rng.random()) < below + step", "if log(1 - rng.random()) < 9 + below + step"),
    "a leader that never draws little": ("if drawn < 0 or rng.random()", "if drawn < 2 or rng.random()"),
}


def test_a_thinned_round_is_won_as_a_plain_one() -> None:
    """By each arm as often, by chi-square. False alarm: 1e-6; seeded."""
    assert thinned_p() > FALSE_ALARM


@pytest.mark.parametrize("name", some(THINNING_MUTANTS))
def test_wrong_thinning_is_caught(name: str) -> None:
    """The comparison fails for each mutant."""
    assert thinned_p(THINNING_MUTANTS[name]) < FALSE_ALARM
