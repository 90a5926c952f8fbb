"""How the sum of what a rule reads of many responses of an arm can be drawn at once, where it can.

BITS: each is 1 with some chance, else 0. CTB makes bits of every law of rewards, by Lemma 3, and so does a rule that
reads responses of CTL as bits.
NOISY: each response is one of two values plus Laplace noise: CTL on Bernoulli arms, on choices between two values, and
behind a threshold, which makes two values of every law.
OTHER: responses have to be drawn one by one.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, assert_never

import numpy as np
from scipy import integrate, stats

from ldpbandits.agent.laplace_kernels import above_half
from ldpbandits.errors import ParameterError
from ldpbandits.lab.algorithms import Algorithm, NotPrivate
from ldpbandits.lab.engine.laws import Floats, Ints
from ldpbandits.lab.mix import Mix
from ldpbandits.lab.rewards import Bernoulli, Beta, Choice, Drift, Empirical, Gaussian, Law, Uniform
from ldpbandits.spec import mechanisms
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.mechanisms import is_bits
from ldpbandits.spec.transforms import Range, RealLine, Sigmoid, Threshold, Transform, sigmoid

BITS, NOISY, OTHER = range(3)
FAR = 40.0


class Sums(NamedTuple):
    """For each arm, how its responses sum; what a kind does not use is zero."""

    kinds: Ints
    chance: Floats
    """BITS: the chance of a response of 1."""
    high: Floats
    """NOISY: the larger of the two values."""
    drop: Floats
    """NOISY: by how much the other value is smaller."""
    rare: Floats
    """NOISY: how likely the smaller one is."""
    scale: float
    """NOISY: the scale of the noise."""


def encode_sums(algorithm: Algorithm, arms: Sequence[Law]) -> Sums:
    """Write down how what the rule reads of the responses of each arm sums under this algorithm."""
    rows = [_row(algorithm, arm) for arm in arms]
    kinds, chance, high, drop, rare = (np.array(column) for column in zip(*rows, strict=True))
    scale = 0.0 if algorithm.epsilon is None else 1 / algorithm.epsilon
    return Sums(kinds, chance, high, drop, rare, scale)


def _row(algorithm: Algorithm, arm: Law) -> tuple[int, float, float, float, float]:
    """(kind, chance, high, drop, rare) of one arm."""
    curator, other = algorithm.curator, (OTHER, 0.0, 0.0, 0.0, 0.0)
    if isinstance(curator, Mix) or algorithm.rule.reading is not None:
        return _read_row(algorithm, arm) or other
    if not isinstance(curator, NotPrivate) and is_bits(curator.mechanism):
        return BITS, curator.mechanism.response_mean(mean_value(arm, curator.transform)), 0.0, 0.0, 0.0
    two = _two_values(arm, curator.transform)
    if two is None:
        return other
    low, high, rare = two
    if isinstance(curator, NotPrivate):
        return (BITS, 1 - rare, 0.0, 0.0, 0.0) if (low, high) == (0, 1) else other
    if type(curator.mechanism) is mechanisms.Laplace:  # one that is derived from it may draw otherwise
        # A constant value never drops: by how much it would does not matter, but must not be 0.
        return (NOISY, 0.0, high, high - low, rare) if low < high else (NOISY, 0.0, high, 1.0, 0.0)
    return other


def _read_row(algorithm: Algorithm, arm: Law) -> tuple[int, float, float, float, float] | None:
    """The row of one arm under a rule that reads responses in a way of its own, if we know how that sums."""
    curator = algorithm.curator
    if not isinstance(curator, CuratorSpec) or type(curator.mechanism) is not mechanisms.Laplace:
        return None
    if algorithm.rule.reading is not above_half:
        return None
    return BITS, _chance_above_half(arm, curator.transform, curator.epsilon), 0.0, 0.0, 0.0


def _two_values(arm: Law, transform: Transform) -> tuple[float, float, float] | None:
    """The smaller value, the larger, and how likely the smaller is; None if there are more."""
    if isinstance(transform, Threshold):
        return 0.0, 1.0, 1 - arm.above(transform.theta)
    rewards = _two_rewards(arm)
    if rewards is None:
        return None
    low, high = (transform.apply(reward, transform.parameters) for reward in rewards[:2])
    return low, high, rewards[2]


def _two_rewards(arm: Law) -> tuple[float, float, float] | None:
    """The smaller reward, the larger, and how likely the smaller is; None if there are more."""
    match arm:
        case Bernoulli(p=p):
            return 0.0, 1.0, 1 - p
        case Choice(values=values) if len(values) <= 2:  # noqa: PLR2004 - one, or two
            return min(values), max(values), 0.5
        case Empirical(values=values, counts=counts) if len(values) <= 2:  # noqa: PLR2004 - one, or two
            return values[0], values[-1], counts[0] / sum(counts)
        case _:
            return None


def mean_value(arm: Law, transform: Transform) -> float:
    """The mean value of an arm: from its mean reward where the map is linear, else by summation or quadrature."""
    if isinstance(transform, Range | RealLine):
        return transform.apply(arm.mean, transform.parameters)
    return _mean(arm, transform, lambda value: value, lambda _: 1.0)


def _chance_above_half(arm: Law, transform: Transform, epsilon: float) -> float:
    """P(value + noise > 1/2), for Laplace noise of scale 1 / epsilon."""

    def chance(value: float) -> float:
        tail = math.exp(-epsilon * abs(value - 0.5)) / 2
        return tail if value < 0.5 else 1 - tail  # noqa: PLR2004 - the threshold

    def density(value: float) -> float:
        return epsilon / 2 * math.exp(-epsilon * abs(value - 0.5))

    return _mean(arm, transform, chance, density)


Real: TypeAlias = Callable[[float], float]


def _mean(arm: Law, transform: Transform, function: Real, slope: Real) -> float:  # noqa: PLR0911 - a case each
    """The mean of a growing function of the value of an arm: by summation, or by quadrature with its slope."""

    def of(reward: float) -> float:
        return function(transform.apply(reward, transform.parameters))

    if isinstance(transform, Threshold):
        above = arm.above(transform.theta)
        return (1 - above) * function(0.0) + above * function(1.0)
    match arm:
        case Bernoulli(p=p) | Drift(level=p):
            return (1 - p) * of(0.0) + p * of(1.0)
        case Choice(values=values):
            return math.fsum(map(of, values)) / len(values)
        case Empirical(values=values, counts=counts):
            weighted = (of(reward) * count for reward, count in zip(values, counts, strict=True))
            return math.fsum(weighted) / sum(counts)
        case Beta(a=a, b=b):
            return _quadrature(transform, function, slope, stats.beta(a, b), [0.0, 1.0])
        case Uniform(low=low, high=high):
            return _quadrature(transform, function, slope, stats.uniform(low, high - low), [low, high])
        case Gaussian(mean=mean, sd=sd):
            return _quadrature(transform, function, slope, stats.norm(mean, sd), [mean - 8 * sd, mean, mean + 8 * sd])
        case _:
            assert_never(arm)


def _quadrature(transform: Transform, function: Real, slope: Real, law: Any, breaks: list[float]) -> float:  # noqa: ANN401 - of scipy
    """E f(v(R)) = f(v(low)) + the integral of P(R > x) f'(v(x)) v'(x) from low up to where v ends.

    The sigmoid has no low, and is below 1e-17 at -40. Pieces end where the law or the slope changes its character.
    """
    match transform:
        case Sigmoid():
            low, high, corners = -FAR, FAR, {-5.0, 0.0, 5.0}
        case Range(low=low, high=high):
            corners = {(low + high) / 2}
        case _:
            raise ParameterError(f"the mean of a {transform.kind} of a continuous law is not known in closed form")

    def rise(x: float) -> float:
        return sigmoid(x) * sigmoid(-x) if isinstance(transform, Sigmoid) else 1 / (high - low)

    def value(x: float) -> float:
        return transform.apply(x, transform.parameters)

    edges = sorted({low, high, *corners, *(x for x in breaks if low < x < high)})
    return function(value(low)) + math.fsum(
        integrate.quad(lambda x: float(law.sf(x)) * slope(value(x)) * rise(x), one, other, epsabs=1e-14, limit=200)[0]
        for one, other in pairwise(edges)
    )
