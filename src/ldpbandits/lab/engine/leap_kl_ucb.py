"""Leaps of KL-UCB and KL-UCB++ on bits.

An arm is pulled while its index is above u, the largest of the others, that is, while n kl+(mean, u) < level: a convex
region, of which a chord is a line. Others' indexes rise with t alone. Each is kept with a bound on what it becomes, and
is computed anew only where the bounds do not settle who leads.
"""

from math import inf, log, sqrt
from typing import NamedTuple

import numpy as np

from ldpbandits.agent import kernels
from ldpbandits.lab.engine.blocks import LONG, SHORT, Line, chord, first_pulls, length, lowest_mean, pull_bits
from ldpbandits.lab.engine.compiled import compiled, uncached
from ldpbandits.lab.engine.laws import Floats
from ldpbandits.lab.engine.step import Play
from ldpbandits.lab.engine.sums import Sums

KEPT = 0.7
"""The share of the room of a block that may go to other arms that rise and to the level that falls."""

ROUNDING = 1e-15
"""How far off an index may be."""


class Race(NamedTuple):
    """The rule, the tally, and for each arm its index when it was last computed with a bound on it at any later t.

    U is concave in its level: its tangent in log t is above it. Where the level is 0 there is none, and Pinsker's
    inequality bounds the index: U <= mean + sqrt(log(t / begin) / N), with f(x) <= 2 log x.
    """

    is_plus: bool
    """The rule is KL-UCB++, not KL-UCB."""
    pulls: Floats
    means: Floats
    last: Floats
    slope: Floats
    """The slope of the tangent in log t; below 0 where there is none."""
    since: Floats
    """log t where the tangent touches; log(begin) where there is none."""
    fresh: Floats
    """The t at which the index was computed."""


@uncached
def _level(race: Race, t: float, n: float) -> float:
    """N times the level of an index: log t, or f(t / (K N))."""
    return kernels.plus_function(t / (float(len(race.pulls)) * n)) if race.is_plus else log(t)


@uncached
def _refresh(race: Race, arm: int, t: float) -> None:
    """Compute the index of an arm at t, and its bound."""
    n, mean, arms = race.pulls[arm], race.means[arm], float(len(race.pulls))
    u = kernels.upper_confidence(mean, _level(race, t, n) / n)
    race.last[arm], race.fresh[arm] = u, t
    if u > mean:
        y = log(t / (arms * n)) if race.is_plus else 0.0
        # f is y + log(1 + y^2) in y = log x: its slope is 2 at most, at y = 1, and falls from there.
        steepest = (1 + 2 * y / (1 + y * y) if y > 1 else 2.0) if race.is_plus else 1.0
        race.slope[arm], race.since[arm] = steepest * u * (1 - u) / (n * (u - mean)), log(t)
    elif mean >= 1:
        race.slope[arm], race.since[arm] = 0.0, 0.0
    else:
        race.slope[arm], race.since[arm] = -1.0, log(arms * n) if race.is_plus else 0.0


@uncached
def _bound(race: Race, arm: int, log_t: float) -> float:
    """A bound on the index of an arm when log t is this."""
    rise = log_t - race.since[arm]
    if race.slope[arm] >= 0:
        return float(race.last[arm] + race.slope[arm] * rise + ROUNDING)
    return float(race.last[arm] + (sqrt(rise / race.pulls[arm]) + ROUNDING if rise > 0 else 0.0))


@uncached
def _others(race: Race, arm: int, t: float) -> float:
    """A bound on the indexes of all other arms, up to t."""
    highest, log_t = -inf, log(t)
    for i in range(len(race.pulls)):
        if i != arm:
            highest = max(highest, _bound(race, i, log_t))
    return min(highest + ROUNDING, 1.0)


@uncached
def _leading(race: Race, t: float, bounds: Floats) -> int:
    """Return the arm of largest index (the lowest-numbered of several).

    The index of largest bound is computed anew, until the largest bound is an index.
    """
    log_t = log(t)
    for i in range(len(bounds)):
        is_known = race.fresh[i] == t or (race.slope[i] < 0 and race.since[i] >= log_t)
        bounds[i] = race.last[i] if is_known else _bound(race, i, log_t)
    while True:
        arm = 0
        for i in range(1, len(bounds)):
            if bounds[i] > bounds[arm]:
                arm = i
        if bounds[arm] == race.last[arm]:
            return arm
        _refresh(race, arm, t)
        bounds[arm] = race.last[arm]


@uncached
def _rounding(n: float) -> float:
    """Bound the error of n kl that the rounding of a mean causes."""
    return 1e-9 + 1e-14 * sqrt(n)


@uncached
def _line(race: Race, arm: int, chance: float, t: float, most: int) -> tuple[int, Line]:
    """How many pulls to try with the leading arm, and a line under which it leads: n kl+(mean, u) < level all the time.

    u is a bound on the others at the end of the block. The level of kl-ucb rises, and is taken at its begin; that of
    kl-ucb++ falls, since t / n does, and is taken at its end.
    """
    n, mean = race.pulls[arm], race.means[arm]
    if len(race.pulls) == 1:
        return most, Line(float(most), 0.0)
    u = _others(race, arm, t)
    level = max(_level(race, t, n) - _rounding(n), 0.0)
    lowest = lowest_mean(u, level / n)
    room = n * (mean - lowest)
    if room <= 0 or (room < 1 and SHORT * (1 - chance) > 0.5):  # noqa: PLR2004 - a zero is near, and would end it
        return 1, Line(0.0, 0.0)
    rising = n * (_others(race, arm, t * 1.01) - u) / (0.01 * t)
    own = 0.0
    if level > 0 and 0 < lowest < u < 1:
        steep = -log(lowest * (1 - u) / (u * (1 - lowest)))
        own = level / (n * steep)
        rising += (1 / n - 1.0 / t) / steep if race.is_plus else 0.0
    k = min(length(room, lowest + own - chance + rising, chance), KEPT * room / max(rising, 1e-300), float(most))
    later = _others(race, arm, t + k)
    while k >= SHORT and n * (later - u) > KEPT * room:  # another arm overtakes
        k *= max(0.1, 0.9 * KEPT * room / (n * (later - u)))
        later = _others(race, arm, t + k)
    if k < SHORT:
        return 1, Line(0.0, 0.0)
    if race.is_plus:
        level = max(_level(race, t + k, n + k) - _rounding(n), 0.0)
    return int(k), chord(n, mean, later, level, int(k))


@uncached
def _one_by_one(
    rng: np.random.Generator, race: Race, arm: int, chance: float, t: int, most: int, total: float
) -> tuple[int, float]:
    """Pull the leading arm while it is sure to lead, looking after each response. Return pulls and ones."""
    n = race.pulls[arm]
    most = min(most, LONG, max(4, t // 32))
    u = _others(race, arm, float(t + most))
    ones, k = 0.0, 0
    while k < most:
        ones += rng.random() < chance
        k += 1
        mean = (total + ones) / (n + k)
        if mean <= u and (n + k) * kernels.kl(mean, u) >= _level(race, float(t + k), n + k) - _rounding(n):
            break
    return k, ones


@compiled
def leap_kl_ucb(
    _play: Play,
    sums: Sums,
    rng: np.random.Generator,
    pulls: Floats,
    totals: Floats,
    t: int,
    until: int,
    is_plus: bool,  # noqa: FBT001
) -> None:
    """Play rounds t to until - 1 of KL-UCB, or of KL-UCB++, in leaps."""
    n = len(pulls)
    bounds, means = np.zeros(n), np.zeros(n)
    race = Race(is_plus, pulls, means, np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n))
    t = first_pulls(rng, sums.chance, pulls, totals, t, until)
    if t < n:
        return
    for arm in range(n):
        means[arm] = totals[arm] / pulls[arm]
        _refresh(race, arm, float(t))
    while t < until:
        arm = _leading(race, float(t), bounds)
        chance = sums.chance[arm]
        k, line = _line(race, arm, chance, float(t), until - t)
        if k < SHORT:
            k, ones = _one_by_one(rng, race, arm, chance, t, until - t, totals[arm])
        else:
            k, ones = pull_bits(rng, chance, line.room, line.slope, k)
        t += k
        pulls[arm] += k
        totals[arm] += ones
        means[arm] = totals[arm] / pulls[arm]
        _refresh(race, arm, float(t))
