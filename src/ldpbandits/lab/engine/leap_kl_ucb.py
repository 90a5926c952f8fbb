"""Leaps of KL-UCB and KL-UCB++ on bits.

An arm is pulled while its index is above u, the largest of the others, that is, while n kl+(mean, u) < level: a convex
region, of which a chord is a line. Others' indexes rise with t alone. Each is kept with a bound on what it becomes, and
is computed anew only where the bounds do not settle who leads.
"""

from functools import partial
from math import inf, log, sqrt
from typing import NamedTuple

import numpy as np

from ldpbandits.agent import kernels
from ldpbandits.lab.engine.blocks import LONG, SHORT, first_pulls, length, pull_bits
from ldpbandits.lab.engine.compiled import compiled, uncached
from ldpbandits.lab.engine.laws import Floats
from ldpbandits.lab.engine.regions import Line, chord, lowest_mean
from ldpbandits.lab.engine.step import Advance, Play
from ldpbandits.lab.engine.sums import Sums

KEPT = 0.7
"""The share of the room of a block that may go to other arms that rise and to the level that falls."""

ROUNDING = 1e-15
"""How far off an index may be."""


class Kept(NamedTuple):
    """For each arm, its index when it was last computed, and a bound on it at any later t.

    U is concave in its level: its tangent in log t is above it. Where the level is 0 there is none, and Pinsker's
    inequality bounds the index: U <= mean + sqrt(log(t / begin) / N), with f(x) <= 2 log x.
    """

    last: Floats
    slope: Floats
    """The slope of the tangent in log t; below 0 where there is none."""
    since: Floats
    """log t where the tangent touches; log(begin) where there is none."""
    fresh: Floats
    """The t at which the index was computed."""


@uncached
def _level(is_plus: bool, t: float, n: float, arms: float) -> float:  # noqa: FBT001 - numba takes no keywords
    """N times the level of an index: log t, or f(t / (K N))."""
    return kernels.plus_function(t / (arms * n)) if is_plus else log(t)


@uncached
def _refresh(is_plus: bool, arm: int, t: float, means: Floats, pulls: Floats, kept: Kept) -> None:  # noqa: FBT001
    """Compute the index of an arm at t, and its bound."""
    n, mean, arms = pulls[arm], means[arm], float(len(pulls))
    level = _level(is_plus, t, n, arms)
    u = kernels.upper_confidence(mean, level / n)
    kept.last[arm], kept.fresh[arm] = u, t
    if u > mean:
        y = log(t / (arms * n)) if is_plus else 0.0
        # f is y + log(1 + y^2) in y = log x: its slope is 2 at most, at y = 1, and falls from there.
        steepest = (1 + 2 * y / (1 + y * y) if y > 1 else 2.0) if is_plus else 1.0
        kept.slope[arm], kept.since[arm] = steepest * u * (1 - u) / (n * (u - mean)), log(t)
    elif mean >= 1:
        kept.slope[arm], kept.since[arm] = 0.0, 0.0
    else:
        kept.slope[arm], kept.since[arm] = -1.0, log(arms * n) if is_plus else 0.0


@uncached
def _bound(kept: Kept, arm: int, n: float, log_t: float) -> float:
    """A bound on the index of an arm when log t is this."""
    rise = log_t - kept.since[arm]
    if kept.slope[arm] >= 0:
        return float(kept.last[arm] + kept.slope[arm] * rise + ROUNDING)
    return float(kept.last[arm] + (sqrt(rise / n) + ROUNDING if rise > 0 else 0.0))


@uncached
def _others(kept: Kept, pulls: Floats, arm: int, t: float) -> float:
    """A bound on the indexes of all other arms, up to t."""
    highest, log_t = -inf, log(t)
    for i in range(len(pulls)):
        if i != arm:
            highest = max(highest, _bound(kept, i, pulls[i], log_t))
    return min(highest + ROUNDING, 1.0)


@uncached
def _leading(is_plus: bool, t: float, means: Floats, pulls: Floats, kept: Kept, bounds: Floats) -> int:  # noqa: FBT001
    """Return the arm of largest index (the lowest-numbered of several).

    The index of largest bound is computed anew, until the largest bound is an index.
    """
    log_t = log(t)
    for i in range(len(pulls)):
        is_known = kept.fresh[i] == t or (kept.slope[i] < 0 and kept.since[i] >= log_t)
        bounds[i] = kept.last[i] if is_known else _bound(kept, i, pulls[i], log_t)
    while True:
        arm = 0
        for i in range(1, len(bounds)):
            if bounds[i] > bounds[arm]:
                arm = i
        if bounds[arm] == kept.last[arm]:
            return arm
        _refresh(is_plus, arm, t, means, pulls, kept)
        bounds[arm] = kept.last[arm]


@uncached
def _rounding(n: float) -> float:
    """Bound the error of n kl that the rounding of a mean causes."""
    return 1e-9 + 1e-14 * sqrt(n)


@uncached
def _line(
    is_plus: bool,  # noqa: FBT001
    arm: int,
    chance: float,
    t: float,
    most: int,
    mean: float,
    pulls: Floats,
    kept: Kept,
) -> tuple[int, Line]:
    """How many pulls to try with the leading arm, and a line under which it leads: n kl+(mean, u) < level all the time.

    u is a bound on the others at the end of the block. The level of kl-ucb rises, and is taken at its begin; that of
    kl-ucb++ falls, since t / n does, and is taken at its end.
    """
    n, arms = pulls[arm], float(len(pulls))
    if arms == 1:
        return most, Line(float(most), 0.0)
    u = _others(kept, pulls, arm, t)
    level = max(_level(is_plus, t, n, arms) - _rounding(n), 0.0)
    lowest = lowest_mean(u, level / n)
    room = n * (mean - lowest)
    if room <= 0 or (room < 1 and SHORT * (1 - chance) > 0.5):  # noqa: PLR2004 - a zero is near, and would end it
        return 1, Line(0.0, 0.0)
    rising = n * (_others(kept, pulls, arm, t * 1.01) - u) / (0.01 * t)
    own = 0.0
    if level > 0 and 0 < lowest < u < 1:
        steep = -log(lowest * (1 - u) / (u * (1 - lowest)))
        own = level / (n * steep)
        rising += (1 / n - 1.0 / t) / steep if is_plus else 0.0
    k = min(length(room, lowest + own - chance + rising, chance), KEPT * room / max(rising, 1e-300), float(most))
    later = _others(kept, pulls, arm, t + k)
    while k >= SHORT and n * (later - u) > KEPT * room:  # another arm overtakes
        k *= max(0.1, 0.9 * KEPT * room / (n * (later - u)))
        later = _others(kept, pulls, arm, t + k)
    if k < SHORT:
        return 1, Line(0.0, 0.0)
    if is_plus:
        level = max(_level(is_plus, t + k, n + k, arms) - _rounding(n), 0.0)
    return int(k), chord(n, mean, later, level, int(k))


@uncached
def _one_by_one(
    rng: np.random.Generator,
    is_plus: bool,  # noqa: FBT001
    arm: int,
    chance: float,
    t: int,
    most: int,
    total: float,
    pulls: Floats,
    kept: Kept,
) -> tuple[int, float]:
    """Pull the leading arm while it is sure to lead, looking after each response. Return pulls and ones."""
    n, arms = pulls[arm], float(len(pulls))
    most = min(most, LONG, max(4, t // 32))
    u = _others(kept, pulls, arm, float(t + most))
    ones, k = 0.0, 0
    while k < most:
        ones += rng.random() < chance
        k += 1
        mean = (total + ones) / (n + k)
        if mean <= u and (n + k) * kernels.kl(mean, u) >= _level(is_plus, float(t + k), n + k, arms) - _rounding(n):
            break
    return k, ones


@compiled
def _leap(
    is_plus: bool,  # noqa: FBT001
    sums: Sums,
    rng: np.random.Generator,
    pulls: Floats,
    totals: Floats,
    t: int,
    until: int,
) -> None:
    n = len(pulls)
    means, bounds = np.zeros(n), np.zeros(n)
    kept = Kept(np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n))
    t = first_pulls(rng, sums.chance, pulls, totals, t, until)
    if t < n:
        return
    for arm in range(n):
        means[arm] = totals[arm] / pulls[arm]
        _refresh(is_plus, arm, float(t), means, pulls, kept)
    while t < until:
        arm = _leading(is_plus, float(t), means, pulls, kept, bounds)
        chance = sums.chance[arm]
        k, line = _line(is_plus, arm, chance, float(t), until - t, means[arm], pulls, kept)
        if k < SHORT:
            k, ones = _one_by_one(rng, is_plus, arm, chance, t, until - t, totals[arm], pulls, kept)
        else:
            k, ones = pull_bits(rng, chance, line.room, line.slope, k)
        t += k
        pulls[arm] += k
        totals[arm] += ones
        means[arm] = totals[arm] / pulls[arm]
        _refresh(is_plus, arm, float(t), means, pulls, kept)


def leap_kl_ucb(_: Play, sums: Sums) -> Advance:
    """Return the leaps of KL-UCB."""
    return partial(_leap, False, sums)  # noqa: FBT003


def leap_kl_ucb_plus(_: Play, sums: Sums) -> Advance:
    """Return the leaps of KL-UCB++."""
    return partial(_leap, True, sums)  # noqa: FBT003
