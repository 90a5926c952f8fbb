"""Confidence sequences: sets that cover the true mean after every pull at once with probability 1 - alpha.

If M_n(m) is, for the true mean m, a non-negative supermartingale that starts at 1, then by Ville's inequality
{m: M_n(m) < 1/alpha} is a confidence sequence. Both here are mixtures, of components that are each best at their own
number of pulls: 10,000 times 4^j, with weight proportional to (1 + |j|)^-2.5.
"""

from collections.abc import Callable, Iterable
from math import exp, lgamma, log, log1p, sqrt

from ldpbandits.checks import brief
from ldpbandits.errors import ResponseError

TUNED_FOR = 10_000
"""Intervals come closest to the best possible at about this many pulls."""

BEST = 9.2
"""A Gaussian mixture of precision rho at alpha = 0.05 is best at 9.2 rho pulls: sqrt(9.2 variance / pulls) wide."""

_SCALES = range(-5, 14)
_WEIGHTS = [(1 + abs(j)) ** -2.5 for j in _SCALES]
_COMPONENTS = [(4.0**j * TUNED_FOR, log(w / sum(_WEIGHTS))) for j, w in zip(_SCALES, _WEIGHTS, strict=True)]
"""The number of pulls at which a component is best, and the logarithm of its weight."""


def bernoulli_interval(pulls: int, ones: float, alpha: float) -> tuple[float, float]:
    """Return the interval {p: M(p) < 1/alpha} for p, from `ones` among `pulls` independent bits of mean p.

    It is an interval because log M is convex, and it holds ones / pulls, where M is at most 1.
    """
    if ones != int(ones) or not 0 <= ones <= pulls:
        raise ResponseError(f"a total of bits must be a whole number from 0 to the pulls, {pulls}, got {brief(ones)}")
    # lgamma is good to a few units in the last place: what it loses may widen the interval, never narrow it.
    limit = -log(alpha) + 1e-14 * lgamma(pulls + _COMPONENTS[-1][0] / BEST)

    def inside(p: float) -> bool:
        return log_bits_martingale(pulls, ones, p) < limit

    return _edge(inside, ones / pulls, 0.0), _edge(inside, ones / pulls, 1.0)


def log_bits_martingale(pulls: int, ones: float, p: float) -> float:
    """log M(p), with M(p) the likelihood ratio of x to p mixed over x ~ Beta(rho p, rho (1 - p)) and over rho.

    For each rho it is convex in p: the derivative is h(1 - p, zeros) - h(p, ones), where h(p, k) = sum over i < k of
    1/p - 1/(p + i/rho) decreases in p. Sums of functions whose logarithm is convex have a convex logarithm.
    """
    zeros = pulls - ones
    likelihood = ones * log(p) + zeros * log1p(-p)
    precisions = ((best_at / BEST, weight) for best_at, weight in _COMPONENTS)
    mixed = _log_sum_exp(weight + _log_beta_ratio(rho * p, ones, rho * (1 - p), zeros) for rho, weight in precisions)
    return mixed - likelihood


def laplace_radius(pulls: int, epsilon: float, sigma: float, alpha: float) -> float:
    """Return r such that [mean - r, mean + r] is the interval around the mean of `pulls` responses of CTL."""

    def inside(distance: float) -> bool:
        return log_laplace_martingale(pulls, distance, epsilon, sigma) < -log(alpha)

    far = 1.0
    while inside(far):
        far *= 2
    return _edge(inside, 0.0, far) / pulls


def log_laplace_martingale(pulls: int, distance: float, epsilon: float, sigma: float) -> float:
    """log M(m), with M(m) = e^(l D - n psi(l)) mixed over l and -l and over |l|; D = n |mean - m|, in which M grows.

    A response X = R + L with sigma-sub-Gaussian R has log E e^(l (X - m)) <= psi(l) for |l| < epsilon, where
    psi(l) = l^2 sigma^2 / 2 - log(1 - l^2 / epsilon^2). (For noise on the grid of 2^-20 the last factor is
    (cosh a - 1) / (cosh a - cosh b) with a = epsilon / 2^20 and b = l / 2^20: smaller, as (cosh b - 1) / b^2 grows.)
    """
    variance = sigma**2 + 2 / epsilon**2
    tilts = ((sqrt(BEST / (best_at * variance)), weight) for best_at, weight in _COMPONENTS)
    return _log_sum_exp(
        weight - log(2) + sign * tilt * distance - pulls * _psi(tilt, epsilon, sigma)
        for tilt, weight in tilts
        for sign in (1, -1)
    )


def _psi(tilt: float, epsilon: float, sigma: float) -> float:
    return (sigma * tilt) ** 2 / 2 - log1p(-((tilt / epsilon) ** 2))


def _log_beta_ratio(a: float, ones: float, b: float, zeros: float) -> float:
    """Return log B(a + ones, b + zeros) - log B(a, b)."""
    rising = lgamma(a + ones) - lgamma(a) + lgamma(b + zeros) - lgamma(b)
    return rising - (lgamma(a + b + ones + zeros) - lgamma(a + b))


def _log_sum_exp(terms: Iterable[float]) -> float:
    listed = list(terms)
    largest = max(listed)
    return largest + log(sum(exp(term - largest) for term in listed))


def _edge(inside: Callable[[float], bool], near: float, far: float) -> float:
    """Return the edge of a convex set between a point of it and one that may be outside, on the outer side."""
    while True:
        middle = (near + far) / 2
        if middle in (near, far):
            return far
        if inside(middle):
            near = middle
        else:
            far = middle
