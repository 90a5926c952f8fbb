"""One look: the test, the interval of a difference and that of a ratio for a number of responses fixed in advance.

Arm b is compared with arm a by bits, in the `cells` of `differences.py`. A fair coin chose between the two arms, which
nobody but the agent knows. Hypothesis: q_b(t) <= q_a(t) whenever a response came; the level of both may move in any
way that does not depend on the coins.

**Fisher's exact test**, one-sided, by level of the menu. Given all bits, the arms are independent, b with odds at most
1 where the bit is 1 and at least 1 where it is 0. If q_b(t) = q_a(t), the number X of ones of b is hypergeometric given
the number of pulls of b. If not, X is smaller: a sum of independent 0s and 1s with odds of at most 1 is below the
binomial law in likelihood ratio order, since that order is kept by sums of log-concave variables (Shaked and
Shanthikumar, Stochastic Orders, 2007, theorem 1.C.9); that of the zeros is above; so f(x) g(n - x) is below, too. A
p-value of at most alpha therefore has probability at most alpha, whatever the number of responses.

With several levels the statistic is the sum of w X, with the weight w = slope / (q (1 - q)) of each level, and q the
share of ones of both arms together, which the test takes as given. All levels but one are rounded up to a grid, which
makes the p-value larger by very little.

The intervals are the textbook's, by the normal approximation.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from math import ceil, inf, sqrt
from statistics import NormalDist

CELL = 4
"""Numbers of a level in `cells`, as in `differences.py`."""

SMALLEST_P = 1e-18
"""Smaller p-values are not told apart."""

LEAST_CHANCE = 1e-22
"""Chances below this part of the largest one are left out of a law; SMALLEST_P stands for all of them."""

GRID_STEPS = 100
"""Steps of the grid for several levels in a standard deviation of the statistic."""

Law = list[tuple[int, float]]
"""The chance of each number, in ascending order."""


def fisher_p(cells: Sequence[float], scale: Sequence[float]) -> float:
    """Return the one-sided p-value of the hypothesis that b is not better than a.

    >>> round(fisher_p((10, 8, 10, 3), (0.0, 1.0)), 5)
    0.03489
    """
    laws: list[tuple[float, Law]] = []
    observed = variance = 0.0
    for place in range(0, len(cells), CELL):
        pulls_b, ones_b, pulls_a, ones_a = (round(number) for number in cells[place : place + CELL])
        pulls, ones = pulls_b + pulls_a, ones_b + ones_a
        if 0 < ones < pulls and pulls_b and pulls_a:
            share = ones / pulls
            weight = scale[place // 2 + 1] / (share * (1 - share))
            laws.append((weight, hypergeometric(pulls, ones, pulls_b)))
            observed += weight * ones_b
            variance += weight**2 * share * (1 - share) * pulls_b * pulls_a / pulls
    if not laws:
        return 1.0
    step = sqrt(variance) / GRID_STEPS
    sums: dict[int, float] = {0: 1.0}
    for weight, law in laws[:-1]:
        on_grid: dict[int, float] = {}
        for number, chance in law:
            at = ceil(weight * number / step)
            on_grid[at] = on_grid.get(at, 0.0) + chance
        joined: dict[int, float] = {}
        for known, before in sums.items():
            for at, chance in on_grid.items():
                joined[known + at] = joined.get(known + at, 0.0) + before * chance
        sums = joined
    weight, law = laws[-1]
    numbers = [number for number, _ in law]
    at_least = [*reversed([*accumulate(chance for _, chance in reversed(law))]), 0.0]
    close = 1e-9 * len(laws)  # a tie counts, whatever the rounding of floats
    found = sum(
        chance * at_least[bisect_left(numbers, (observed - step * at) / weight - close)] for at, chance in sums.items()
    )
    return min(found + SMALLEST_P, 1.0)


def hypergeometric(pulls: int, ones: int, drawn: int) -> Law:
    """Return the law of the number of ones among `drawn` of `pulls` bits, of which `ones` are 1."""
    low, high = max(0, drawn + ones - pulls), min(drawn, ones)
    mode = min(max((drawn + 1) * (ones + 1) // (pulls + 2), low), high)
    up, down = [(mode, 1.0)], []
    for x in range(mode, high):
        chance = up[-1][1] * (ones - x) * (drawn - x) / ((x + 1) * (pulls - ones - drawn + x + 1))
        up.append((x + 1, chance))
        if chance < LEAST_CHANCE:
            break
    chance = 1.0
    for x in range(mode, low, -1):
        chance *= x * (pulls - ones - drawn + x) / ((ones - x + 1) * (drawn - x + 1))
        down.append((x - 1, chance))
        if chance < LEAST_CHANCE:
            break
    law = [*reversed(down), *up]
    total = sum(chance for _, chance in law)
    return [(x, chance / total) for x, chance in law]


def arm_estimate(cells: Sequence[float], scale: Sequence[float], place: int) -> tuple[float, float]:
    """Return the mean value of an arm and its variance; `place` is 0 for b and 2 for a."""
    total = weight = noise = 0.0
    for cell in range(0, len(cells), CELL):
        low, slope = scale[cell // 2], scale[cell // 2 + 1]
        pulls, ones = cells[cell + place], cells[cell + place + 1]
        if pulls:
            total += slope * (ones - low * pulls)
            weight += slope * slope * pulls
            noise += slope * slope * ones * (pulls - ones) / pulls
    return (total / weight, noise / weight**2) if weight else (0.5, inf)


def fixed_difference(cells: Sequence[float], scale: Sequence[float], alpha: float) -> tuple[float, float]:
    """Return an interval for mu_b - mu_a at a number of responses fixed in advance, within [-1, 1]."""
    (mean_b, var_b), (mean_a, var_a) = (arm_estimate(cells, scale, place) for place in (0, 2))
    half = NormalDist().inv_cdf(1 - alpha / 2) * sqrt(var_b + var_a)
    return max(mean_b - mean_a - half, -1.0), min(mean_b - mean_a + half, 1.0)


def fixed_ratio(cells: Sequence[float], scale: Sequence[float], alpha: float, offset: float) -> tuple[float, float]:
    """Return Fieller's interval for (offset + mu_b) / (offset + mu_a), both of which are >= 0; it may have no end."""
    (mean_b, var_b), (mean_a, var_a) = (arm_estimate(cells, scale, place) for place in (0, 2))
    mean_b, mean_a, square = offset + mean_b, offset + mean_a, NormalDist().inv_cdf(1 - alpha / 2) ** 2
    room_a, room_b = mean_a**2 - square * var_a, mean_b**2 - square * var_b
    root = mean_a**2 * mean_b**2 - room_a * room_b
    if not room_a > 0 or mean_a <= 0:
        return 0.0, inf
    half = sqrt(max(root, 0.0))
    return max((mean_a * mean_b - half) / room_a, 0.0), max((mean_a * mean_b + half) / room_a, 0.0)
