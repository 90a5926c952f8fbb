"""Confidence sequences: sets that cover the true mean after every pull at once with probability 1 - alpha.

If M_n(m) is, for the true mean m, a non-negative supermartingale that starts at 1, then by Ville's inequality
{m: M_n(m) < 1/alpha} is a confidence sequence. Both here are mixtures, of components that are each best at their own
number of pulls: 10,000 times 4^j, with weight proportional to (1 + |j|)^-2.5.
"""

from collections.abc import Callable, Iterable
from math import exp, lgamma, log, log1p, sqrt

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
    """Return the interval for p from `ones` among `pulls` independent bits of mean p.

    M(p) is the likelihood ratio of x to p, mixed over x ~ Beta(rho p, rho (1 - p)). Its logarithm is convex in p: the
    derivative is h(1 - p, zeros) - h(p, ones), where h(p, k) = sum over i < k of 1/p - 1/(p + i/rho) decreases in p.
    So are sums of such M, and the set is an interval. It holds ones / pulls, where no ratio exceeds 1.
    """
    if ones != int(ones) or not 0 <= ones <= pulls:
        raise ResponseError(f"a total of bits must be a whole number from 0 to the pulls, {pulls}, got {ones!r}")
    zeros = pulls - ones
    precisions = [(best_at / BEST, weight) for best_at, weight in _COMPONENTS]
    # lgamma is good to a few units in the last place: what it loses may widen the interval, never narrow it.
    limit = -log(alpha) + 1e-14 * lgamma(pulls + precisions[-1][0])

    def inside(p: float) -> bool:
        likelihood = ones * log(p) + zeros * log1p(-p)
        return limit > _log_sum_exp(
            weight + _log_beta_ratio(rho * p, ones, rho * (1 - p), zeros) - likelihood for rho, weight in precisions
        )

    return _edge(inside, ones / pulls, 0.0), _edge(inside, ones / pulls, 1.0)


def laplace_radius(pulls: int, epsilon: float, sigma: float, alpha: float) -> float:
    """Return r such that [mean - r, mean + r] is the interval around the mean of `pulls` responses of CTL.

    A response X = R + L with sigma-sub-Gaussian R has log E e^(l (X - m)) <= psi(l) for |l| < epsilon, where
    psi(l) = l^2 sigma^2 / 2 - log(1 - l^2 / epsilon^2). (For noise on the grid of 2^-20 the last factor is
    (cosh a - 1) / (cosh a - cosh b) with a = epsilon / 2^20 and b = l / 2^20: smaller, as (cosh b - 1) / b^2 grows.)
    M(m) mixes e^(l D - n psi(l)) over l and -l, where D = n |mean - m|, and grows with D.
    """
    variance = sigma**2 + 2 / epsilon**2
    tilts = [(sqrt(BEST / (best_at * variance)), weight) for best_at, weight in _COMPONENTS]
    terms = [(tilt, weight - pulls * psi) for tilt, weight in tilts for psi in [_psi(tilt, epsilon, sigma)]]

    def inside(distance: float) -> bool:
        spread = (weight + sign * tilt * distance - log(2) for tilt, weight in terms for sign in (1, -1))
        return -log(alpha) > _log_sum_exp(spread)

    far = 1.0
    while inside(far):
        far *= 2
    return _edge(inside, 0.0, far) / pulls


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
