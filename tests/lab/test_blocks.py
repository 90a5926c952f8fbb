"""A block of bits against a line has the law of single bits, by exact counting, and a wrong block is noticed."""

from math import comb
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from ldpbandits.lab.engine import blocks

FALSE_ALARM = 1e-6
"""Of each comparison; there are about 30 in this file, all seeded."""

UNIT = 2**30
LINES = [
    # responses, zeros, room, slope: ends below, on and above the line, slopes on both sides of 1/2
    (60, 30, 4.0, 0.5),
    (60, 25, 2.2, 0.55),
    (100, 20, 3.0, 0.25),
    (100, 70, 5.0, 0.75),
    (100, 62, 2.5, 0.64),
    (120, 110, 3.0, 0.93),
    (100, 3, 1.0, 0.05),
    (150, 70, 0.2, 0.5),
    (150, 80, 3.7, 0.47),
]


def exact(k: int, zeros: int, room: int, slope: int) -> NDArray[np.float64]:
    """The chance that the first crossing is at each j, and at place 0 that there is none, by counting paths."""
    found, alive, paths = np.zeros(k + 1), {0: 1}, comb(k, zeros)
    for j in range(1, k + 1):
        after: dict[int, int] = {}
        for z, ways in alive.items():
            for y in (z, z + 1):
                if UNIT * y > room + slope * j:
                    found[j] += ways * comb(k - j, zeros - y) / paths if y <= zeros else 0
                else:
                    after[y] = after.get(y, 0) + ways
        alive = after
    found[0] = alive.get(zeros, 0) / paths
    return found


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
def crossings(
    draw: Any, rng: np.random.Generator, k: int, zeros: int, room: int, slope: int, runs: int
) -> NDArray[np.float64]:
    """Count the first crossings of many draws."""
    found = np.zeros(k + 1)
    for _ in range(runs):
        found[draw(rng, k, zeros, room, slope, UNIT)[0]] += 1
    return found


def chi_square(found: NDArray[np.float64], chances: NDArray[np.float64]) -> float:
    """The p-value of counts, with all that are expected fewer than ten times in one cell."""
    expected = chances * found.sum()
    often = expected >= 10
    cells = [(*found[often], found[~often].sum()), (*expected[often], expected[~often].sum())]
    if found[expected == 0].sum() > 0:
        return 0.0
    kept = [(f, e) for f, e in zip(*cells, strict=True) if e > 1e-9]
    return float(stats.chi2.sf(sum((f - e) ** 2 / e for f, e in kept), max(len(kept) - 1, 1)))


def smallest_p(draw: Any, count: Any = crossings, runs: int = 60_000) -> float:
    """The smallest p-value of all lines."""
    rng, found = np.random.default_rng(1), []
    for k, zeros, room, slope in LINES:
        line = int(room * UNIT), int(slope * UNIT)
        counts = count(draw, rng, k, zeros, *line, runs)
        found.append(chi_square(counts, exact(k, zeros, *line)))
    return min(found)


def test_the_first_crossing_has_the_law_of_single_responses() -> None:
    """Where a path first crosses a line, by chi-square against exact counting. False alarm: 1e-5; seeded."""
    assert smallest_p(blocks.first_crossing) > FALSE_ALARM


MUTANTS = {
    "no crossing below the line": ("if u >= most:", "if True:"),
    "every crossing accepted": ("if log(1 - rng.random()) < accepted", "if True"),
    "a path too far up": ("more = floor(e + (e - 1) / max(1.0, odds))", "more = floor(3 * e)"),
    "the odds forgotten": ("float(zeros + more)) + more * log(odds)", "float(zeros + more))"),
    "halves that forget": ("room + slope * h - unit * first, slope", "room, slope"),
    "a bound too low": ("- 2.0 * more * (more - 1.0) / (k + 2.0)", "- 6.0 * more * (more - 1.0) / (k + 2.0)"),
    "a flat split": ("if 2 * log(x) <= t:", "if True:"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_block_is_caught(name: str) -> None:
    """The comparison fails for each mutant."""
    source = Path(blocks.__file__).read_text(encoding="utf-8")
    assert source.count(MUTANTS[name][0]) == 1
    module: dict[str, Any] = {"__name__": "mutant"}
    plain = source.replace(*MUTANTS[name]).replace("@uncached", "")
    exec(compile(plain, "mutant", "exec"), module)  # noqa: S102 - our own source
    assert smallest_p(module["first_crossing"], crossings.py_func, 4_000) < FALSE_ALARM


def test_a_split_is_hypergeometric() -> None:
    """The zeros of a half, by chi-square. False alarm: 1e-6 each, 6 of them; seeded."""

    @numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
    def splits(rng: np.random.Generator, k: int, zeros: int, h: int) -> NDArray[np.float64]:
        found = np.zeros(h + 1)
        for _ in range(100_000):
            found[blocks.split(rng, k, zeros, h)] += 1
        return found

    rng = np.random.default_rng(2)
    for k, zeros, h in ((40, 15, 20), (60, 3, 30), (101, 60, 50), (1_000, 500, 500), (1_000, 990, 400), (25, 1, 12)):
        chances = stats.hypergeom(k, zeros, h).pmf(np.arange(h + 1))
        assert chi_square(splits(rng, k, zeros, h), chances) > FALSE_ALARM


def test_a_block_makes_progress_and_stays_in_bounds() -> None:
    """Whatever line and length, a block is at least one pull and at most as many as asked for."""
    rng = np.random.default_rng(4)
    for _ in range(4_000):
        chance, room = float(rng.choice([0.0, 1.0, rng.random()])), float(10 ** rng.uniform(-2, 6)) - 0.1
        slope = 1 - chance + float(rng.choice([0.0, rng.normal(0, 0.5)]))
        k = int(1 + rng.exponential() * min(blocks.length(max(room, 0.0), 1 - chance - slope, chance), 1e12))
        pulls, ones = blocks.pull_bits(rng, chance, room, slope, k)
        assert 1 <= pulls <= k
        assert 0 <= ones <= pulls
