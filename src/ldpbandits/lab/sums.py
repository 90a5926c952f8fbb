"""How the sum of many responses of an arm can be drawn at once, where it can.

BITS: each response is 1 with some chance, else 0. CTB makes bits of every law of rewards, by Lemma 3.
NOISY: each response is one of two rewards plus Laplace noise: CTL on Bernoulli arms, and on choices between two values.
OTHER: responses have to be drawn one by one.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import integrate, stats

from ldpbandits.device.transforms import transformed
from ldpbandits.lab.algorithms import Algorithm, NotPrivate
from ldpbandits.lab.rewards import Bernoulli, Beta, Choice, Gaussian, Law, Uniform
from ldpbandits.lab.step import Floats, Ints
from ldpbandits.spec import mechanisms
from ldpbandits.spec.mechanisms import response_mean
from ldpbandits.spec.transforms import Range, Sigmoid, Transform, sigmoid

BITS, NOISY, OTHER = range(3)
FAR = 40.0


class Sums(NamedTuple):
    """For each arm, how its responses sum; what a kind does not use is zero."""

    kinds: Ints
    chance: Floats
    """BITS: the chance of a response of 1."""
    high: Floats
    """NOISY: the larger reward."""
    drop: Floats
    """NOISY: by how much the other reward is smaller."""
    rare: Floats
    """NOISY: how likely the smaller one is."""
    scale: float
    """NOISY: the scale of the noise."""


def encode_sums(algorithm: Algorithm, arms: Sequence[Law]) -> Sums:
    """Write down how the responses of each arm sum under this algorithm."""
    curator = algorithm.curator
    rows = [_row(algorithm, arm) for arm in arms]
    kinds, chance, high, drop, rare = (np.array(column) for column in zip(*rows, strict=True))
    scale = 0.0 if isinstance(curator, NotPrivate) else 1 / curator.epsilon
    return Sums(kinds, chance, high, drop, rare, scale)


def _row(algorithm: Algorithm, arm: Law) -> tuple[int, float, float, float, float]:
    """(kind, chance, high, drop, rare) of one arm."""
    curator = algorithm.curator
    if not isinstance(curator, NotPrivate) and isinstance(curator.mechanism, mechanisms.Bernoulli):
        return BITS, response_mean(mean_value(arm, curator.transform), curator.epsilon), 0.0, 0.0, 0.0
    two = _two_values(arm)
    if two is None:
        return OTHER, 0.0, 0.0, 0.0, 0.0
    low, high = (float(transformed(curator.transform, reward)) for reward in two[:2])
    if not isinstance(curator, NotPrivate):
        # A constant reward never drops: by how much it would does not matter, but must not be 0.
        return (NOISY, 0.0, high, high - low, two[2]) if low < high else (NOISY, 0.0, high, 1.0, 0.0)
    return (BITS, 1 - two[2], 0.0, 0.0, 0.0) if (low, high) == (0, 1) else (OTHER, 0.0, 0.0, 0.0, 0.0)


def _two_values(arm: Law) -> tuple[float, float, float] | None:
    """The smaller reward, the larger, and how likely the smaller is; None if there are more."""
    if isinstance(arm, Bernoulli):
        return 0.0, 1.0, 1 - arm.p
    if isinstance(arm, Choice) and len(arm.values) <= 2:  # noqa: PLR2004 - one, or two
        return min(arm.values), max(arm.values), 0.5
    return None


def mean_value(arm: Law, transform: Transform) -> float:
    """The mean of the transformed reward: of sigmoid(R) by summation or quadrature, otherwise from the mean of R."""
    if not isinstance(transform, Sigmoid):
        low, width = (transform.low, transform.high - transform.low) if isinstance(transform, Range) else (0.0, 1.0)
        return (arm.mean - low) / width
    match arm:
        case Bernoulli(p=p):
            return (1 - p) * sigmoid(0.0) + p * sigmoid(1.0)
        case Choice(values=values):
            return sum(map(sigmoid, values)) / len(values)
        case Beta(a=a, b=b):
            law, breaks = stats.beta(a, b), [0.0, 1.0]
        case Uniform(low=low, high=high):
            law, breaks = stats.uniform(low, high - low), [low, high]
        case Gaussian(mean=mean, sd=sd):
            law, breaks = stats.norm(mean, sd), [mean - 8 * sd, mean, mean + 8 * sd]
    # E sigmoid(R) is the integral of P(R > x) sigmoid'(x), and sigmoid' is below 1e-17 beyond 40. Pieces end where the
    # law or the slope changes its character, however wide or narrow the law is.
    edges = sorted({-FAR, -5.0, 0.0, 5.0, FAR, *(x for x in breaks if -FAR < x < FAR)})
    return math.fsum(
        integrate.quad(lambda x: float(law.sf(x)) * sigmoid(x) * sigmoid(-x), one, other, epsabs=1e-14, limit=200)[0]
        for one, other in pairwise(edges)
    )
