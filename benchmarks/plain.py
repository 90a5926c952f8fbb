"""Plain compiled loops, written out by hand as one would: what the simulators are measured beside."""

from math import inf, log, sqrt

import numba
import numpy as np
from numpy.typing import NDArray


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def plain_ucb1(rng: np.random.Generator, means: NDArray[np.float64], rounds: int) -> NDArray[np.float64]:
    """UCB1 as one would write it."""
    n = len(means)
    pulls, totals = np.zeros(n), np.zeros(n)
    for t in range(rounds):
        if t < n:
            arm = t
        else:
            arm, best = 0, -np.inf
            twice_log = 2 * log(t)
            for a in range(n):
                index = totals[a] / pulls[a] + sqrt(twice_log / pulls[a])
                if index > best:
                    arm, best = a, index
        totals[arm] += 1.0 if rng.random() < means[arm] else 0.0
        pulls[arm] += 1
    return pulls


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def plain_b(
    rng: np.random.Generator, means: NDArray[np.float64], rounds: int, p0: float, p1: float
) -> NDArray[np.float64]:
    """LDP-UCB-B as one would write it."""
    n = len(means)
    pulls, totals = np.zeros(n), np.zeros(n)
    for t in range(rounds):
        if t < n:
            arm = t
        else:
            arm, best = 0, -np.inf
            twice_log = 2 * log(t)
            for a in range(n):
                index = totals[a] / pulls[a] + sqrt(twice_log / pulls[a])
                if index > best:
                    arm, best = a, index
        p = p1 if rng.random() < means[arm] else p0
        totals[arm] += 1.0 if rng.random() < p else 0.0
        pulls[arm] += 1
    return pulls


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def plain_l(rng: np.random.Generator, means: NDArray[np.float64], rounds: int, epsilon: float) -> NDArray[np.float64]:
    """LDP-UCB-L as one would write it."""
    n = len(means)
    pulls, totals = np.zeros(n), np.zeros(n)
    width = sqrt(2) + sqrt(32) / epsilon
    for t in range(rounds):
        arm = -1
        limit = 4 * log(t + 1)
        for a in range(n):
            if pulls[a] <= limit and (arm < 0 or pulls[a] < pulls[arm]):
                arm = a
        if arm < 0:
            arm, best = 0, -np.inf
            root = log(t)
            for a in range(n):
                index = totals[a] / pulls[a] + width * sqrt(root / pulls[a])
                if index > best:
                    arm, best = a, index
        reward = 1.0 if rng.random() < means[arm] else 0.0
        totals[arm] += reward + (rng.standard_exponential() - rng.standard_exponential()) / epsilon
        pulls[arm] += 1
    return pulls


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def plain_kl(p: float, q: float) -> float:
    """The divergence of two Bernoulli laws, from its definition."""
    if q >= 1:
        return inf if p < 1 else 0.0
    first = p * log(p / q) if p > 0 else 0.0
    return first + ((1 - p) * log((1 - p) / (1 - q)) if p < 1 else 0.0)


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def plain_imed(
    rng: np.random.Generator, means: NDArray[np.float64], rounds: int, p0: float, p1: float
) -> NDArray[np.float64]:
    """IMED on the bits of CTB as one would write it."""
    n = len(means)
    pulls, totals = np.zeros(n), np.zeros(n)
    for t in range(rounds):
        arm = t
        if t >= n:
            best = (totals / pulls).max()
            arm, least = 0, inf
            for a in range(n):
                mean = totals[a] / pulls[a]
                index = log(pulls[a]) + (pulls[a] * plain_kl(mean, best) if mean < best else 0.0)
                if index < least:
                    arm, least = a, index
        p = p1 if rng.random() < means[arm] else p0
        totals[arm] += 1.0 if rng.random() < p else 0.0
        pulls[arm] += 1
    return pulls


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def plain_kl_ucb(  # noqa: PLR0913, PLR0917 - numba passes arguments by position
    rng: np.random.Generator,
    means: NDArray[np.float64],
    rounds: int,
    p0: float,
    p1: float,
    is_plus: bool,  # noqa: FBT001
) -> NDArray[np.float64]:
    """KL-UCB or KL-UCB++ on the bits of CTB as one would write it: an index by bisection, 30 times."""
    n = len(means)
    pulls, totals = np.zeros(n), np.zeros(n)
    for t in range(rounds):
        arm = t
        if t >= n:
            arm, most = 0, -inf
            for a in range(n):
                low, high, level = totals[a] / pulls[a], 1.0, log(t)
                if is_plus:
                    x = t / (n * pulls[a])
                    level = log(x * (1 + log(x) ** 2)) if x > 1 else 0.0
                mean = low
                for _ in range(30 if level > 0 else 0):
                    middle = (low + high) / 2
                    if middle < 1 and pulls[a] * plain_kl(mean, middle) <= level:
                        low = middle
                    else:
                        high = middle
                if low > most:
                    arm, most = a, low
        p = p1 if rng.random() < means[arm] else p0
        totals[arm] += 1.0 if rng.random() < p else 0.0
        pulls[arm] += 1
    return pulls


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def plain_thompson(
    rng: np.random.Generator, means: NDArray[np.float64], rounds: int, p0: float, p1: float
) -> NDArray[np.float64]:
    """Thompson sampling on the bits of CTB as one would write it."""
    n = len(means)
    pulls, totals = np.zeros(n), np.zeros(n)
    for t in range(rounds):
        arm, most = t, -inf
        if t >= n:
            for a in range(n):
                draw = rng.beta(1 + totals[a], 1 + pulls[a] - totals[a])
                if draw > most:
                    arm, most = a, draw
        p = p1 if rng.random() < means[arm] else p0
        totals[arm] += 1.0 if rng.random() < p else 0.0
        pulls[arm] += 1
    return pulls
