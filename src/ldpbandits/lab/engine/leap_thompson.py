"""Leaps of Thompson sampling on bits, by thinning.

While posteriors change little, the chance that another arm than the leader wins a round is small and bounded. Rounds at
which it might are a geometric time apart; at each of them the round is drawn in full, and counts or does not.
"""

from math import exp, inf, lgamma, log, log1p, pi, sqrt
from typing import NamedTuple

import numpy as np

from ldpbandits.agent import kernels
from ldpbandits.lab.engine.blocks import STIRLING, first_pulls, length, log_factorials, pull_bits, stirling_tail
from ldpbandits.lab.engine.compiled import compiled, uncached
from ldpbandits.lab.engine.laws import Floats
from ldpbandits.lab.engine.step import Play
from ldpbandits.lab.engine.sums import Sums

RARE = 0.3
"""If another arm may win more often than this, rounds are played one by one."""

ROUNDS = 32
"""The number of rounds that are played one by one before the bound is computed again."""


class Posteriors(NamedTuple):
    """The tally of all arms, whose posteriors are Beta(1 + S, 1 + N - S), with a bound on a tail and a draw of each."""

    pulls: Floats
    totals: Floats
    tails: Floats
    """The chance of more than x; for the leader, of less."""
    draws: Floats


@uncached
def _log_density(pulls: float, total: float, x: float) -> float:
    """Log of the density of Beta(1 + S, 1 + N - S) at x, (N + 1) C(N, S) x^S (1 - x)^(N - S)."""
    rest = pulls - total
    fewer = min(total, rest)
    if fewer < STIRLING:
        log_paths = log_factorials(pulls - fewer, fewer) - lgamma(fewer + 1)
        return log(pulls + 1) + log_paths + total * log(x) + rest * log1p(-x)
    at_mean = log(pulls / (2 * pi * total * rest)) / 2
    tails = stirling_tail(pulls) - stirling_tail(total) - stirling_tail(rest)
    return log(pulls + 1) + at_mean + tails - pulls * kernels.kl(total / pulls, x)


@uncached
def _steepness(pulls: float, total: float, x: float) -> float:
    """Minus the slope of log g at x, with g the density of Beta(1 + S, 1 + N - S)."""
    return (pulls - total) / (1 - x) - total / x


@uncached
def _tail(pulls: float, total: float, x: float) -> float:
    """A bound on the chance that the posterior of an arm gives more than x: log g lies below its tangent at x.

    1 where x is not beyond the mode, or too close to it.
    """
    if not total < x * pulls or x >= 1:
        return 1.0
    return min(exp(_log_density(pulls, total, x)) / _steepness(pulls, total, x), 1.0)


@uncached
def _leaders_tail(pulls: float, least: float, x: float) -> float:
    """Bound the lower tail at x of a leader that has at least `pulls` pulls and a mean of at least `least`.

    C(n, S) x^S (1 - x)^(n - S) <= e^(-n kl(S / n, x)), and the slope of log g at x is n (mean - x) / (x (1 - x)).
    """
    return (1 + 1 / pulls) * x * (1 - x) / (least - x) * exp(-pulls * kernels.kl(least, x))


@uncached
def _draw(rng: np.random.Generator, pulls: float, total: float) -> float:
    """A draw of the posterior."""
    return float(rng.beta(1 + total, 1 + pulls - total))


@uncached
def _draw_beyond(rng: np.random.Generator, pulls: float, total: float, x: float) -> float:
    """Draw from the tangent's law beyond x, and accept where the posterior's density is: a draw, or -1.

    With the chance `_tail` in front, a draw comes with the density of the posterior.
    """
    step = rng.standard_exponential() / _steepness(pulls, total, x)
    y = x + step
    if y >= 1:
        return -1.0
    below = total * log1p(step / x) + (pulls - total) * log1p(-step / (1 - x))  # log g(y) / g(x)
    return y if log(1 - rng.random()) < below + step * _steepness(pulls, total, x) else -1.0


@uncached
def _play_round(rng: np.random.Generator, arms: Posteriors) -> int:
    """Draw all posteriors; return the arm of the largest draw."""
    best, draws = 0, arms.draws
    for arm in range(len(draws)):
        draws[arm] = _draw(rng, arms.pulls[arm], arms.totals[arm])
        if draws[arm] > draws[best]:
            best = arm
    return best


@uncached
def _candidate(rng: np.random.Generator, leader: int, x: float, chance: float, arms: Posteriors) -> int:
    """Return the winner of a round that may be another's, or the leader.

    `chance` is the sum of `tails`: for each other arm the chance of more than x, and for the leader one of less, or
    bounds on them. One of these events is chosen in proportion, and its draw made with
    that law; a round in which several hold would come up several times, and counts once.
    """
    pulls, totals, tails, draws = arms
    u, kind = rng.random() * chance, 0
    while kind < len(tails) - 1 and u >= tails[kind]:
        u -= tails[kind]
        kind += 1
    _play_round(rng, arms)
    if kind == leader:
        # The mirror image of an arm: less than x is more than 1 - x of its zeros.
        own = _tail(pulls[leader], pulls[leader] - totals[leader], 1 - x)
        drawn = _draw_beyond(rng, pulls[leader], pulls[leader] - totals[leader], 1 - x)
        if drawn < 0 or rng.random() * tails[leader] >= own:
            return leader
        draws[leader] = 1 - drawn
    else:
        draws[kind] = _draw_beyond(rng, pulls[kind], totals[kind], x)
        if draws[kind] < 0:
            return leader
    events, best = 0, 0
    for arm in range(len(draws)):
        events += (draws[arm] < x) if arm == leader else (draws[arm] > x)
        if draws[arm] > draws[best]:
            best = arm
    return best if rng.random() * events < 1 else leader


@uncached
def _stretch(
    rng: np.random.Generator, chances: Floats, leader: int, x: float, least: float, arms: Posteriors, t: int, until: int
) -> int:
    """Play while the leader's mean is at least `least` and another arm wins rarely; return the round after.

    The time to the next candidate is geometric, and does not depend on responses: it may be drawn anew at any time.
    """
    pulls, totals, tails, _ = arms
    enough = 2 * pulls[leader]
    while t < until and totals[leader] >= least * pulls[leader] and pulls[leader] < enough:
        chance = tails.sum()
        if not chance < RARE:
            break
        wait = log(1 - rng.random()) / log1p(-chance) if chance > 0 else inf
        room = totals[leader] - least * pulls[leader]
        k = int(min(wait, max(length(room, least - chances[leader], chances[leader]), 1.0), float(until - t)))
        if k > 0:
            taken, ones = pull_bits(rng, chances[leader], room, 1 - least, k)
            pulls[leader] += taken
            totals[leader] += ones
            t += taken
            if taken < k:
                continue
        if k < int(min(wait, 1e18)) or t >= until or totals[leader] < least * pulls[leader]:
            continue
        arm = _candidate(rng, leader, x, chance, arms)
        totals[arm] += rng.random() < chances[arm]
        pulls[arm] += 1
        t += 1
        if arm != leader:
            tails[arm] = _tail(pulls[arm], totals[arm], x)
    return t


@uncached
def _bound(leader: int, least: float, x: float, arms: Posteriors) -> float:
    """Write down the bound for each arm, more than x, and for the leader, less; return their sum."""
    pulls, totals, tails, _ = arms
    total = 0.0
    for arm in range(len(pulls)):
        if arm == leader:
            tails[arm] = _leaders_tail(pulls[arm], least, x)
        else:
            tails[arm] = _tail(pulls[arm], totals[arm], x)
        total += tails[arm]
    return total


@uncached
def _leading(pulls: Floats, totals: Floats) -> int:
    """Return an arm of largest mean."""
    leader = 0
    for arm in range(1, len(pulls)):
        if totals[arm] * pulls[leader] > totals[leader] * pulls[arm]:
            leader = arm
    return leader


@compiled
def leap_thompson(
    _play: Play, sums: Sums, rng: np.random.Generator, pulls: Floats, totals: Floats, t: int, until: int
) -> None:
    """Play rounds t to until - 1 of Thompson sampling in leaps."""
    n = len(pulls)
    arms = Posteriors(pulls, totals, np.zeros(n), np.zeros(n))
    t = first_pulls(rng, sums.chance, pulls, totals, t, until)
    while t < until:
        leader = _leading(pulls, totals)
        size, mean = pulls[leader], totals[leader] / pulls[leader]
        # The leader's mean may fall by half a standard deviation. x is where the bound is least, of a few places.
        spread = sqrt(max(mean * (1 - mean), 1 / size) / size)
        least = mean - spread / 2
        x, chance = 0.0, inf if n > 1 else 0.0
        for depth in range(1, 9 if n > 1 else 1):
            lower = least - depth * spread
            bound = _bound(leader, least, lower, arms) if lower > 0 else inf
            if bound < chance:
                x, chance = lower, bound
        if chance < RARE and n > 1:
            _bound(leader, least, x, arms)
        if chance < RARE:
            t = _stretch(rng, sums.chance, leader, x, least, arms, t, until)
            continue
        for _ in range(min(ROUNDS, until - t)):
            arm = _play_round(rng, arms)
            totals[arm] += rng.random() < sums.chance[arm]
            pulls[arm] += 1
            t += 1
