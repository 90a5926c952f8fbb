"""Leaps of IMED on bits.

The arm of largest mean is pulled while log n < N_i kl(m_i, mean) + log N_i for every other arm i: a condition on its
mean that one line covers. Another arm is pulled while its own n kl(mean, best) + log n is the smallest.
"""

from math import expm1, inf, log, log1p, sqrt

import numpy as np

from ldpbandits.agent import kernels
from ldpbandits.lab.engine.blocks import LONG, SHORT, Line, chord, first_pulls, length, pull_bits
from ldpbandits.lab.engine.compiled import compiled, uncached
from ldpbandits.lab.engine.laws import Floats
from ldpbandits.lab.engine.step import Play
from ldpbandits.lab.engine.sums import Sums

KEPT = 0.7
"""The share of the distance to the other indexes that a block may use up, before its responses do anything."""

ROUNDING = 2e-15


@uncached
def _index(mean: float, n: float, best: float) -> float:
    """Return the index, of which the agent pulls the smallest."""
    return log(n) if mean >= best else n * kernels.kl(mean, best) + log(n)


@uncached
def _leader_line(arm: int, chance: float, means: Floats, pulls: Floats, indexes: Floats, most: int) -> tuple[int, Line]:
    """How many pulls to try with the arm of largest mean, and the line under which it stays the one to pull.

    Arm i needs the mean to fall to U_i >= m_i, N_i kl(m_i, U_i) = log(n / N_i). The tangent of kl at the present mean
    gives a value above U_i, or one below m_i.
    """
    n, mean = pulls[arm], means[arm]
    variance, own = mean * (1 - mean), log(n)
    least, fall, closing = inf, inf, 0.0
    for i in range(len(means)):
        if i != arm:
            need, ahead = indexes[i] - own - 1e-12, mean - means[i]
            a_log = variance / (pulls[i] * ahead) if ahead > 0 else 0.0
            least = min(least, need)
            if min(need * a_log, ahead) < fall:
                fall, closing = min(need * a_log, ahead), a_log
    if least == inf:
        return most, Line(float(most), 0.0)
    if not fall > 0:
        return 1, Line(0.0, 0.0)
    k = max(min(length(n * fall, closing, chance), n * expm1(min(KEPT * least, 40.0)), float(most)), 1.0)
    grown, fall = log1p(k / n), inf
    for i in range(len(means)):
        if i != arm:
            need, ahead = indexes[i] - own - 1e-12 - grown, mean - means[i]
            fall = min(fall, need * variance / (pulls[i] * ahead), ahead)
    fall = fall * (1 - 1e-9) - ROUNDING
    return int(k), Line(n * fall, 1 - mean + fall)


@uncached
def _all_ones_line(arm: int, means: Floats, pulls: Floats, most: int) -> tuple[int, Line]:
    """The same for a mean of 1, where kl has no tangent."""
    highest, k = 0.0, min(most, max(1, int(pulls[arm])))
    for i in range(len(means)):
        if i != arm:
            level = log((pulls[arm] + k) / pulls[i]) / pulls[i]
            highest = max(highest, kernels.upper_confidence(means[i], level))
    room = 1 - highest - ROUNDING
    return k, Line(pulls[arm] * room, room)


@uncached
def _explorer_line(chance: float, n: float, mean: float, best: float, least: float, most: int) -> tuple[int, Line]:
    """How many pulls to try with an arm below the best, and a line under which n kl+(mean, best) + log n < least.

    log n is at most log(n + k) in a block of k pulls; what is left bounds a convex region.
    """
    need = least - n * kernels.kl(mean, best) - log(n)
    if not (0 < mean < best < 1 and need > 0):
        return 1, Line(0.0, 0.0)
    steep = -log(mean * (1 - best) / (best * (1 - mean)))
    if need < steep:  # one zero more may end it
        return 1, Line(0.0, 0.0)
    closing = log((1 - mean) / (1 - best)) / steep - chance
    k = min(length(need / steep, closing, chance), n * expm1(min(KEPT * need, 40.0)), float(most))
    if k < SHORT:
        return 1, Line(0.0, 0.0)
    return int(k), chord(n, mean, best, least - log(n + k), int(k))


@uncached
def _explore(
    rng: np.random.Generator, chance: float, n: float, total: float, best: float, least: float, most: int
) -> tuple[int, float]:
    """Pull an arm below the best while its n kl(mean, best) + log n stays below the least of the others."""
    least -= 1e-9 + 1e-14 * sqrt(n)  # what the rounding of a mean may do to n kl
    k, line = _explorer_line(chance, n, total / n, best, least, most)
    if k >= SHORT:
        return pull_bits(rng, chance, line.room, line.slope, k)
    k, ones = 0, 0.0
    while k < min(most, LONG):
        ones += rng.random() < chance
        k += 1
        if _index((total + ones) / (n + k), n + k, best) >= least:
            break
    return k, ones


@uncached
def _smallest(indexes: Floats) -> tuple[int, float]:
    """Return the arm of smallest index (the lowest-numbered of several), and the smallest of the others."""
    arm, least = 0, inf
    for i in range(1, len(indexes)):
        if indexes[i] < indexes[arm]:
            arm, least = i, indexes[arm]
        elif indexes[i] < least:
            least = indexes[i]
    return arm, least


@compiled
def leap_imed(_: Play, sums: Sums, rng: np.random.Generator, pulls: Floats, totals: Floats, t: int, until: int) -> None:
    """Play rounds t to until - 1 of IMED in leaps."""
    n = len(pulls)
    means, indexes = np.zeros(n), np.zeros(n)
    t = first_pulls(rng, sums.chance, pulls, totals, t, until)
    if t < n:
        return
    for arm in range(n):
        means[arm] = totals[arm] / pulls[arm]
    best = -1.0
    while t < until:
        top = kernels.greatest(means)  # type: ignore[arg-type]
        if top != best:
            best = top
            for i in range(n):
                indexes[i] = _index(means[i], pulls[i], best)
        arm, least = _smallest(indexes)
        chance = sums.chance[arm]
        if means[arm] < best:
            k, ones = _explore(rng, chance, pulls[arm], totals[arm], best, least, until - t)
        else:
            k, line = (
                _leader_line(arm, chance, means, pulls, indexes, until - t)
                if best < 1
                else _all_ones_line(arm, means, pulls, until - t)
            )
            k, ones = pull_bits(rng, chance, line.room, line.slope, k)
        t += k
        pulls[arm] += k
        totals[arm] += ones
        means[arm] = totals[arm] / pulls[arm]
        indexes[arm] = _index(means[arm], pulls[arm], best)
