"""Leaps of UCB: on bits, on one of two rewards plus Laplace noise, and one by one on other responses.

The Laplace noise of many pulls is Brownian motion at exponential times. docs/leaping.md has the proofs, in the words
and symbols used here.
"""

from math import exp, floor, inf, log, sqrt
from typing import NamedTuple

import numpy as np

from ldpbandits.agent import kernels
from ldpbandits.lab.engine.blocks import LONG, SHORT, length, pull_bits
from ldpbandits.lab.engine.channels import known_response
from ldpbandits.lab.engine.compiled import compiled, uncached
from ldpbandits.lab.engine.laws import Floats, reward
from ldpbandits.lab.engine.step import Play
from ldpbandits.lab.engine.sums import BITS, NOISY, Sums

WIDEST = 1e9
"""A gap beyond it counts as this much: an only arm leads by infinity."""
# How long a block to try. Any value is right, since a block that goes too far is cut where it must be; these are fast.
ZEROS_MARGIN = 4.0
NOISE_MARGIN = 1.0


@uncached
def _normal_beyond(rng: np.random.Generator, least: float) -> float:
    """A standard normal variable given that it exceeds `least` > 0, by Marsaglia's tail method."""
    while True:
        x = rng.standard_exponential() / least
        if 2 * rng.standard_exponential() > x * x:
            return least + x


class NoisePath(NamedTuple):
    """The Laplace noise of some pulls, as Brownian motion in which each pull takes an exponential time."""

    pulls: int
    noise: float
    """The sum of the noise of these pulls."""
    time: float
    """When the motion passed -level, just before the last pull; or, if it never did, when the last pull was."""
    is_passed: bool


@uncached
def draw_noise(rng: np.random.Generator, k: int, level: float, scale: float) -> NoisePath:
    """Draw the noise of k pulls, or of fewer: up to the first pull after the motion passed -level.

    Given both ends, the chance of having passed is e^(-2 level (level + end) / time); the first passage before a given
    time is level^2 / Z^2 with Z a normal variable that is large enough; from there the next pull is memoryless.
    """
    time = 2 * scale * scale * rng.standard_gamma(float(k))
    noise = sqrt(time) * rng.standard_normal()
    if noise > -level and rng.random() >= exp(-2 * level * (level + noise) / time):
        return NoisePath(k, noise, time, False)  # noqa: FBT003 - numba takes no keywords here
    passage = (level / _normal_beyond(rng, level / sqrt(time))) ** 2
    before = rng.binomial(k - 1, min(passage / time, 1.0))
    overshoot = scale * (rng.standard_exponential() - rng.standard_exponential())
    return NoisePath(before + 1, overshoot - level, passage, True)  # noqa: FBT003


@uncached
def noise_at(rng: np.random.Generator, path: NoisePath, level: float, j: int) -> float:
    """Draw the noise after the first j pulls of a path.

    Seen from -level, the motion before its first passage is a three-dimensional Bessel bridge to 0; and if it did not
    pass, it is a Brownian bridge given that neither of its halves passed.
    """
    if j == path.pulls:
        return path.noise
    s = path.time * rng.beta(float(j), float(path.pulls - j))
    share = s / path.time
    spread = sqrt(s * (1 - share))
    if path.is_passed:
        x = level * (1 - share) + spread * rng.standard_normal()
        y, z = spread * rng.standard_normal(), spread * rng.standard_normal()
        return sqrt(x * x + y * y + z * z) - level
    while True:
        x = path.noise * share + spread * rng.standard_normal()
        if x > -level:
            before = 1 - exp(-2 * level * (level + x) / s)
            after = 1 - exp(-2 * (level + x) * (level + path.noise) / (path.time - s))
            if rng.random() < before * after:
                return x


class Leader(NamedTuple):
    """The arm of largest index, and how long it is sure to stay that."""

    pulls: float
    mean: float
    gap: float
    """By how much its index leads the second."""
    drift: float
    """By how much a pull closes the gap at most, its response apart."""
    most: int
    """Pulls until something else is due: a checkpoint, or an arm about to starve."""


@uncached
def _room(leader: Leader, high: float, k: int) -> float:
    """How far the sum of k responses may fall below k times `high` with the leader still leading; concave in k."""
    return (leader.gap - k * leader.drift) * (leader.pulls + k) + (high - leader.mean) * k


@uncached
def _bits_one_by_one(rng: np.random.Generator, chance: float, leader: Leader) -> tuple[int, float]:
    """Pull the leader while it is sure to lead; its responses are 1 with this chance, else 0. Return pulls and sum."""
    k = ones = 0
    while k < min(leader.most, LONG) and (k == 0 or ones >= -_room(leader, 0.0, k)):
        ones += rng.random() < chance
        k += 1
    return k, float(ones)


@uncached
def bits(rng: np.random.Generator, chance: float, leader: Leader) -> tuple[int, float]:
    """Do the same in a block where it is worth it: zeros are counted against the chord of room, which is concave."""
    slack = leader.gap * leader.pulls
    closing = leader.mean - chance - leader.gap + leader.drift * leader.pulls
    tried = min(length(max(slack, 0.0), closing, chance), 0.7 * leader.gap / leader.drift, float(leader.most))
    if not tried >= SHORT:
        return _bits_one_by_one(rng, chance, leader)
    k = int(tried)
    return pull_bits(rng, chance, slack, (_room(leader, 1.0, k) - slack) / k, k)


@uncached
def _expected_zeros(room: float) -> float:
    """Return x such that x zeros on average, and ZEROS_MARGIN standard deviations more, are `room` zeros."""
    root = (sqrt(ZEROS_MARGIN * ZEROS_MARGIN + 4 * max(room, 0.0)) - ZEROS_MARGIN) / 2
    return root * root


@uncached
def _reveal(rng: np.random.Generator, k: int, zeros: int, until: int) -> tuple[int, int]:
    """Uncover k responses of which `zeros` are zeros, in random order, until `until` zeros are found."""
    seen = found = 0
    while found < until:
        found += rng.random() * (k - seen) < zeros - found
        seen += 1
    return seen, found


@uncached
def _one_by_one(rng: np.random.Generator, play: Play, arm: int, leader: Leader) -> tuple[int, float]:
    """Pull the leader while it is sure to lead, drawing each response. Return pulls and sum."""
    k, total = 0, 0.0
    while k < leader.most and (k == 0 or total >= -_room(leader, 0.0, k)):
        total += known_response(rng, play.channel, reward(rng, play.laws, arm, 0))  # type: ignore[arg-type]
        k += 1
    return k, total


@uncached
def _noisy_one_by_one(rng: np.random.Generator, sums: Sums, arm: int, leader: Leader) -> tuple[int, float]:
    """Do the same for one of two rewards plus Laplace noise."""
    high, drop, rare, scale = sums.high[arm], sums.drop[arm], sums.rare[arm], sums.scale
    k, total = 0, 0.0
    while k < min(leader.most, LONG) and (k == 0 or total >= -_room(leader, 0.0, k)):
        noise = scale * (rng.standard_exponential() - rng.standard_exponential())
        total += noise + (high - drop if rng.random() < rare else high)
        k += 1
    return k, total


@uncached
def _noisy(rng: np.random.Generator, sums: Sums, arm: int, leader: Leader) -> tuple[int, float]:
    """Pull the leader while it is sure to lead; its responses are one of two rewards plus Laplace noise.

    Laplace noise of scale b is Brownian motion after an exponential time of mean 2 b^2, so that the noise of k pulls is
    Brownian motion after the sum of k such times, and its chance of having passed a level has a closed form.
    """
    slack, scale = leader.gap * leader.pulls, sums.scale
    high, drop, rare = sums.high[arm], sums.drop[arm], sums.rare[arm]
    clock = 2 * scale * scale
    # How the slack is shared: with a mean near the larger reward or above, room does not grow, and some is kept back.
    for_drift, for_noise, for_all = (0.2, 0.6, 0.7) if leader.mean > high - 0.02 * drop else (0.7, 0.75, 1.0)
    level = min(for_noise * slack, sqrt(clock * slack / (rare * drop)))
    length = min(
        level * level / (NOISE_MARGIN * clock),
        _expected_zeros((for_all * slack - level) / drop) / rare,
        for_drift * leader.gap / leader.drift,
        0.1 * slack / max(leader.mean - high, 1e-300),
        float(leader.most),
    )
    if not length >= SHORT:
        return _noisy_one_by_one(rng, sums, arm, leader)
    k = int(length)
    limit = floor(min((min(slack, _room(leader, high, k)) - level) / drop, float(k)))
    if limit < 0:
        return _noisy_one_by_one(rng, sums, arm, leader)
    path = draw_noise(rng, k, level, scale)
    k, noise = path.pulls, path.noise
    zeros = rng.binomial(k, rare)
    if zeros > limit:
        k, zeros = _reveal(rng, k, zeros, int(limit) + 1)
        noise = noise_at(rng, path, level, k)
    return k, high * k - drop * zeros + noise


@uncached
def _top_two(means: Floats, widths: Floats, root: float, indexes: Floats) -> tuple[int, float]:
    """Return the arm of largest index (the lowest-numbered of several), and how far it leads."""
    for arm in range(len(means)):
        indexes[arm] = means[arm] + widths[arm] * root
    best, first, second = 0, indexes[0], -inf
    for arm in range(1, len(means)):
        if indexes[arm] > second:
            if indexes[arm] > first:
                best, first, second = arm, indexes[arm], first
            else:
                second = indexes[arm]
    return best, first - second


@uncached
def _fewest(pulls: Floats) -> int:
    least = 0
    for arm in range(1, len(pulls)):
        if pulls[arm] < pulls[least]:
            least = arm
    return least


@uncached
def _quiet_until(floor: float, fewest: float) -> float:
    """Return a round before which no arm starves, when the fewest pulls of an arm are `fewest`."""
    if fewest == 0:
        return 0.0
    return exp(fewest / floor) * (1 - 1e-12) - 2 if floor > 0 else inf


@compiled
def leap_ucb(
    play: Play, sums: Sums, rng: np.random.Generator, pulls: Floats, totals: Floats, t: int, until: int
) -> None:
    """Play rounds t to until - 1 of UCB in leaps."""
    n, width = len(pulls), play.parameters[0]
    means, widths, indexes = np.zeros(n), np.zeros(n), np.empty(n)
    for arm in range(n):
        if pulls[arm] > 0:
            means[arm], widths[arm] = totals[arm] / pulls[arm], width / sqrt(pulls[arm])
    fewest = _fewest(pulls)
    quiet_until = _quiet_until(play.floor, pulls[fewest])
    while t < until:
        arm, most = -1, until - t
        if t >= quiet_until:
            arm, most = kernels.starving(play.floor, pulls, float(t)), 1  # type: ignore[arg-type]
        elif quiet_until < until:
            most = max(1, int(quiet_until - t))
        if arm >= 0:
            k, total = 1, known_response(rng, play.channel, reward(rng, play.laws, arm, 0))  # type: ignore[arg-type]
        else:
            root = sqrt(log(float(t)))
            arm, gap = _top_two(means, widths, root, indexes)
            # Indexes are rounded in their last places: what that may hide is taken off the gap.
            gap = min(gap, WIDEST) * (1 - 1e-9) - 2e-15 * (1 + abs(indexes[arm]))
            drift = widths[fewest] / (2 * t * root) + widths[arm] * root / (2 * pulls[arm])
            leader = Leader(pulls[arm], means[arm], gap, drift, most)
            if sums.kinds[arm] == BITS:
                k, total = bits(rng, sums.chance[arm], leader)
            elif sums.kinds[arm] == NOISY:
                k, total = _noisy(rng, sums, arm, leader)
            else:
                k, total = _one_by_one(rng, play, arm, leader)
        t += k
        pulls[arm] += k
        totals[arm] += total
        means[arm], widths[arm] = totals[arm] / pulls[arm], width / sqrt(pulls[arm])
        if arm == fewest:
            fewest = _fewest(pulls)
            quiet_until = _quiet_until(play.floor, pulls[fewest])
