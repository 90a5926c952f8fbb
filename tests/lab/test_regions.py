"""Under the line of a block the rule makes the same choice as the agent's own kernels, wherever the path is."""

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.faults import some

from ldpbandits.agent import kernels
from ldpbandits.lab.engine import blocks, leap_imed, leap_kl_ucb

Floats = NDArray[np.float64]


def plain(of: ModuleType, *changes: tuple[str, str]) -> dict[str, Any]:
    """Return a copy of a module that is not compiled, with some lines changed."""
    source = Path(str(of.__file__)).read_text(encoding="utf-8")
    for change in changes:
        assert source.count(change[0]) == 1, change[0]
        source = source.replace(*change)
    module: dict[str, Any] = {"__name__": "plain"}
    exec(compile(re.sub("@(un)?c(ompiled|ached)\n", "", source), "plain", "exec"), module)  # noqa: S102 - our own source
    return module


def chosen(index: Any, pulls: Floats, totals: Floats, t: float) -> int:
    """The arm that the agent would pull."""
    means = totals / pulls
    rows: tuple[Any, Any, Any, Any] = (means, pulls, pulls, pulls)
    return kernels.select(index, (), 0.0, *rows, t, np.random.default_rng(0), [0.0] * len(pulls))


def tally(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """A tally in which two arms or more are close to each other in pulls, mean or index, as in play."""
    arms = int(rng.integers(2, 6))
    size = 10 ** rng.uniform(0.5, 9)
    pulls = np.maximum(1.0, np.floor(size ** rng.uniform(0.3, 1, arms)))
    pulls[rng.integers(arms)] = np.ceil(size)
    mean = rng.choice([rng.uniform(0.01, 0.99), rng.uniform(0.4, 0.6)])
    spread = rng.normal(0, rng.uniform(0.2, 6), arms) * np.sqrt(mean * (1 - mean) / pulls)
    totals = np.floor(np.clip(mean + spread, 0, 1) * pulls)
    return pulls, totals


def imed_line(module: dict[str, Any], arm: int, pulls: Floats, totals: Floats) -> tuple[int, Any]:
    """The block that IMED would try: pulls, and the line."""
    means = totals / pulls
    best = means.max()
    indexes = np.array([module["_index"](m, n, best) for m, n in zip(means, pulls, strict=True)])
    least = min(index for i, index in enumerate(indexes) if i != arm)
    chance, most = float(means[arm]), 10**12
    if means[arm] < best:
        return module["_explorer_line"](chance, pulls[arm], means[arm], best, least, most)  # type: ignore[no-any-return]
    if best >= 1:
        return module["_all_ones_line"](arm, means, pulls, most)  # type: ignore[no-any-return]
    return module["_leader_line"](arm, chance, means, pulls, indexes, most)  # type: ignore[no-any-return]


def kl_ucb_line(module: dict[str, Any], is_plus: bool, arm: int, pulls: Floats, totals: Floats) -> tuple[int, Any]:  # noqa: FBT001
    """The block that KL-UCB or KL-UCB++ would try."""
    means, t = totals / pulls, float(pulls.sum())
    race = module["Race"](is_plus, pulls, means, *np.zeros((4, len(pulls))))
    for i in range(len(pulls)):
        module["_refresh"](race, i, max(t * 0.9, 2.0) if i % 2 else t)
    return module["_line"](race, arm, float(means[arm]), t, 10**12)  # type: ignore[no-any-return]


RULES = {
    "imed": (leap_imed, kernels.imed_index, imed_line),
    "kl-ucb": (leap_kl_ucb, kernels.kl_ucb_index, lambda module, *state: kl_ucb_line(module, False, *state)),  # noqa: FBT003
    "kl-ucb++": (leap_kl_ucb, kernels.kl_ucb_plus_index, lambda module, *state: kl_ucb_line(module, True, *state)),  # noqa: FBT003
}


def wrong_choices(name: str, module: dict[str, Any], states: int = 1_500) -> tuple[int, int]:
    """Put many arms at the edge of the line of their block, here and there along it; count blocks and mistakes."""
    _, index, line_of = RULES[name]
    rng, found, blocks = np.random.default_rng(3), 0, 0
    for _ in range(states):
        pulls, totals = tally(rng)
        t = float(pulls.sum())
        arm = chosen(index, pulls, totals, t)
        k, line = line_of(module, arm, pulls, totals)
        if k < 2 or not line.room >= 0:
            continue
        blocks += 1
        for j in {1, k // 7, k // 2, k - 1} - {0}:
            zeros = min(np.floor(line.room + line.slope * j), j)
            if zeros < 0:
                continue
            there, ones = pulls.copy(), totals.copy()
            there[arm] += j
            ones[arm] += j - zeros
            found += chosen(index, there, ones, t + j) != arm
    return blocks, found


@pytest.mark.parametrize("name", RULES)
def test_under_its_line_an_arm_is_the_one_to_pull(name: str) -> None:
    """At the very edge of each line, for tallies of all sizes, the agent's kernel chooses the arm of the block."""
    blocks, found = wrong_choices(name, plain(RULES[name][0]))
    assert blocks > 300
    assert found == 0


MUTANTS = [
    ("imed", "others at the begin", "grown, fall = log1p(k / n), inf", "grown, fall = 0.0, inf"),
    (
        "imed",
        "a tangent too steep",
        "need * variance / (pulls[i] * ahead), ahead)",
        "1.05 * need * variance / (pulls[i] * ahead), ahead)",
    ),
    ("imed", "log n at the begin", "least - log(n + k), int(k))", "least - log(n), int(k))"),
    ("kl-ucb", "others that do not rise", "race.slope[arm] * rise", "0.0 * rise"),
    ("kl-ucb", "others of now", "chord(n, mean, later, level, int(k))", "chord(n, mean, u, level, int(k))"),
    (
        "kl-ucb++",
        "a level of the begin",
        "if race.is_plus:\n        level = max(_level(race, t + k, n + k)",
        "if race.is_plus:\n        level = max(_level(race, t, n)",
    ),
    ("kl-ucb++", "f that rises like log", "(1 + 2 * y / (1 + y * y) if y > 1 else 2.0)", "1.0"),
    ("kl-ucb++", "means that stay", "sqrt(rise / race.pulls[arm]) + ROUNDING if", "ROUNDING if"),
]


@pytest.mark.parametrize(("name", "what", "right", "wrong"), some(MUTANTS, 3))
def test_a_wrong_line_is_caught(name: str, what: str, right: str, wrong: str) -> None:
    """Each of these mistakes puts an arm where the agent would choose another."""
    _, found = wrong_choices(name, plain(RULES[name][0], (right, wrong)))
    assert found > 0, what


def test_a_mean_below_another_is_caught() -> None:
    """A tangent that reaches below another arm's mean is no bound, since that arm leads from there on."""
    both = (
        ("min(need * a_log, ahead) < fall", "need * a_log < fall"),
        ("(pulls[i] * ahead), ahead)", "(pulls[i] * ahead))"),
    )
    assert (
        wrong_choices(
            "imed",
            plain(leap_imed, *both, ("fall, closing = min(need * a_log, ahead)", "fall, closing = need * a_log")),
        )[1]
        > 0
    )


@pytest.mark.parametrize("u", [1e-6, 0.01, 0.3, 0.5, 0.9, 1 - 1e-9])
def test_the_lowest_mean_is_inside(u: float) -> None:
    """kl(x, u) is at most the level, and just below x it is more, at any level up from 1e-13."""
    for exponent in np.linspace(-13, 0.5, 60):
        level = 10.0**exponent
        x = blocks.lowest_mean(u, level)
        assert 0 <= x <= u
        assert kernels.kl(x, u) <= level
        below = x - 1e-8 * (u - x) - 4e-16
        assert below < 0 or kernels.kl(below, u) > level
