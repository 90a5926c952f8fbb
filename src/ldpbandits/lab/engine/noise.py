"""The Laplace noise of many pulls at once, as Brownian motion at exponential times.

docs/leaping.md has the proofs, in the words and symbols used here.
"""

from math import exp, sqrt
from typing import NamedTuple

import numpy as np

from ldpbandits.lab.engine.compiled import uncached


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
