"""Kernels for responses of several epsilons: the likelihood of an arm's mean, and the rules' indexes from it.

An arm has, for each level l of the menu, n responses of which s are 1. A bit of level l is 1 with probability
q = low + slope mu for values of mean mu, so that the mean mu has the log-likelihood

    L(mu) = sum over levels of s log q + (n - s) log(1 - q),

which is concave. D(mu) = max L - L(mu) takes the place of N kl(mean, q) in the rules for one epsilon. In all kernels
here `cells` lists (n, s) of each level in a row, and `levels` lists (low, slope) of each level in a row.
"""

from collections.abc import Sequence
from math import exp, log, sqrt

from ldpbandits.agent.kernels import ArmView, Parameters, Random, kl, plus_level

TINY = 1e-12
"""Smallest distance of a probability from 0 and 1, to which it would be rounded with an epsilon of 30 and more."""


def chance(levels: Parameters, place: int, mean: float) -> float:
    """Return the probability of a 1 at the level of this place."""
    return min(max(levels[place] + levels[place + 1] * mean, TINY), 1 - TINY)


def divergence(cells: Sequence[float], levels: Parameters, mean: float, other: float) -> float:
    """Return L(mean) - L(other), the log-likelihood ratio of two means."""
    return misfit(cells, levels, other) - misfit(cells, levels, mean)


def misfit(cells: Sequence[float], levels: Parameters, mean: float) -> float:
    """Return the sum of n kl(s / n, q), which is -L(mean) but for what does not depend on the mean.

    Near its minimum it is small, and so is its rounding error.
    """
    total = 0.0
    for place in range(0, len(levels), 2):
        n = cells[place]
        if n > 0:
            total += n * kl(cells[place + 1] / n, chance(levels, place, mean))
    return total


def slope(cells: Sequence[float], levels: Parameters, mean: float) -> float:
    """Return -L'(mean), which rises with the mean."""
    total = 0.0
    for place in range(0, len(levels), 2):
        q = chance(levels, place, mean)
        total += levels[place + 1] * ((cells[place] - cells[place + 1]) / (1 - q) - cells[place + 1] / q)
    return total


def curvature(cells: Sequence[float], levels: Parameters, mean: float) -> float:
    """Return -L''(mean) > 0, the observed Fisher information about the mean."""
    total = 0.0
    for place in range(0, len(levels), 2):
        q = chance(levels, place, mean)
        seen = (cells[place] - cells[place + 1]) / (1 - q) ** 2 + cells[place + 1] / q**2
        total += levels[place + 1] ** 2 * seen
    return total


def likeliest(cells: Sequence[float], levels: Parameters, least: float, most: float) -> float:
    """Return the maximum-likelihood mean in [least, most], by Newton's method with bisection as its safeguard."""
    if slope(cells, levels, least) >= 0:
        return least
    if slope(cells, levels, most) <= 0:
        return most
    low, high = least, most
    mean = (low + high) / 2
    for _ in range(100):  # some 6 are enough
        steep = slope(cells, levels, mean)
        if steep < 0:
            low = mean
        else:
            high = mean
        step = steep / curvature(cells, levels, mean)
        following = mean - step
        if not low <= following <= high:
            following = (low + high) / 2
        if abs(following - mean) <= 1e-15 * (1 + abs(mean)):
            return following
        mean = following
    return mean


def upper(cells: Sequence[float], levels: Parameters, mean: float, level: float) -> float:
    """Return the largest q in [mean, 1] with D(q) <= level, by Newton's method.

    D is convex and rises, so that a step from any point ends above the root, and all further ones stay there. The first
    point is where D would reach the level if every bit had the least information, that of probability 1/2.
    """
    information = 0.0
    for place in range(0, len(levels), 2):
        information += cells[place] * levels[place + 1] ** 2
    if level <= 0 or mean >= 1 or information == 0:
        return mean if information > 0 else 1.0
    most = misfit(cells, levels, mean) + level
    q = min(mean + sqrt(level / (2 * information)), 1.0)
    for attempt in range(100):  # some 4 are enough
        excess = misfit(cells, levels, q) - most
        if excess <= 0 and (attempt > 0 or q == 1):
            return q
        step = excess / slope(cells, levels, q)
        q = min(q - step, 1.0)
        if abs(step) <= 1e-15 * q:
            return q
    return q


def answered(arm: ArmView) -> float:
    """Return the number of responses in its cells; an arm without responses has the cells of all arms."""
    total = 0.0
    for place in range(0, len(arm.cells), 2):
        total += arm.cells[place]
    return total


def mixed_kl_ucb_index(arm: ArmView, _: Random, levels: Parameters) -> float:
    """Return the largest q with (N / pulls) D(q) <= log t; with one epsilon it is the q of kl-ucb, debiased."""
    return upper(arm.cells, levels, arm.mean, log(arm.t) * answered(arm) / arm.n)


def mixed_kl_ucb_plus_index(arm: ArmView, _: Random, levels: Parameters) -> float:
    """Return the largest q with (N / pulls) D(q) <= f(t / (K N))."""
    return upper(arm.cells, levels, arm.mean, plus_level(arm) * answered(arm) / arm.n)


def mixed_imed_index(arm: ArmView, _: Random, levels: Parameters) -> float:
    """Return minus ((N / pulls) D(best) + log N)."""
    pulls = answered(arm)
    if arm.mean >= arm.best or pulls == 0:
        return -log(arm.n)
    return -(divergence(arm.cells, levels, arm.mean, arm.best) * arm.n / pulls + log(arm.n))


def mixed_thompson_index(arm: ArmView, random: Random, levels: Parameters) -> float:
    """Draw from the posterior e^L of the mean on [0, 1], from a uniform prior.

    The method is rejection sampling. L is concave, so that it lies below its maximum and below its tangents at two
    points, one on each side of it: the envelope is flat in the middle and exponential at both sides.
    """
    cells, top = arm.cells, arm.mean
    if answered(arm) == 0 or arm.pulls == 0:
        return random.random()
    reach = 1.5 / sqrt(curvature(cells, levels, top))
    left, right = max(top - reach, 0.0), min(top + reach, 1.0)
    # Where a tangent meets the top, and how fast it falls from there to its end of [0, 1].
    rise, fall = -slope(cells, levels, left), slope(cells, levels, right)
    left_drop, right_drop = divergence(cells, levels, top, left), divergence(cells, levels, top, right)
    begin = min(left + left_drop / rise, top) if rise > 0 and left > 0 else 0.0
    end = max(right - right_drop / fall, top) if fall > 0 and right < 1 else 1.0
    below = (1 - exp(-rise * begin)) / rise if begin > 0 else 0.0
    above = (1 - exp(-fall * (1 - end))) / fall if end < 1 else 0.0
    while True:
        u = random.random() * (below + (end - begin) + above)
        if u < below:
            drawn = begin + log(1 - u * rise) / rise
            bound = rise * (begin - drawn)
        elif u < below + above:
            drawn = end - log(1 - (u - below) * fall) / fall
            bound = fall * (drawn - end)
        else:
            drawn, bound = begin + u - below - above, 0.0
        drawn = min(max(drawn, 0.0), 1.0)
        if log(1 - random.random()) <= bound - divergence(cells, levels, top, drawn):
            return drawn
