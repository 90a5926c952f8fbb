"""Plain compiled loops, written out by hand as one would: what the simulators are measured beside."""

from math import log, sqrt

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
