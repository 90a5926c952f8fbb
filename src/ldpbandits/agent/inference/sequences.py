"""Confidence sequences: sets that cover the true mean after every pull at once with probability 1 - alpha.

If M_n(m) is, for the true mean m, a non-negative supermartingale that starts at 1, then by Ville's inequality
{m: M_n(m) < 1/alpha} is a confidence sequence. Both here are mixtures, of components that are each best at their own
number of pulls: 10,000 times 4^j, with weight proportional to (1 + |j|)^-2.5.

The martingales of one epsilon are kernels: plain functions of numbers, which the lab compiles.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import exp, expm1, inf, lgamma, log, log1p, sqrt
from typing import TypeAlias

from ldpbandits.checks import brief
from ldpbandits.errors import ResponseError

TUNED_FOR = 10_000
"""Intervals come closest to the best possible at about this many pulls."""

BEST_PULLS_PER_RHO = 9.2
"""A Gaussian mixture of precision rho at alpha = 0.05 is best at 9.2 rho pulls: sqrt(9.2 variance / pulls) wide."""

RELATIVE_EDGE_TOLERANCE, ABSOLUTE_EDGE_TOLERANCE = 1e-12, 1e-17
"""Errors allowed in an edge, relative and absolute: far less than the width of any interval."""

EDGE_CACHE_ENTRIES = 65_536
"""Cache size: repeated reports recompute only the edges that changed; an edge takes half a millisecond."""

_SCALES = range(-5, 14)
_WEIGHTS = [(1 + abs(j)) ** -2.5 for j in _SCALES]
_COMPONENTS = tuple((4.0**j * TUNED_FOR, log(w / sum(_WEIGHTS))) for j, w in zip(_SCALES, _WEIGHTS, strict=True))
"""The number of pulls at which a component is best, and the logarithm of its weight."""

_BETAS = tuple(
    (best_at / BEST_PULLS_PER_RHO, weight, lgamma(best_at / BEST_PULLS_PER_RHO)) for best_at, weight in _COMPONENTS
)
"""The rho of a component for bits, the logarithm of its weight, and that of Gamma(rho)."""


def bernoulli_interval(pulls: int, ones: float, alpha: float) -> tuple[float, float]:
    """Return the interval {p: M(p) < 1/alpha} for p, from `ones` among `pulls` independent bits of mean p.

    It is an interval because log M is convex, and it holds ones / pulls, where M is at most 1.
    """
    return bernoulli_edge(pulls, ones, alpha, 0.0), bernoulli_edge(pulls, ones, alpha, 1.0)


@lru_cache(maxsize=EDGE_CACHE_ENTRIES)
def bernoulli_edge(pulls: int, ones: float, alpha: float, far: float) -> float:
    """Return the edge of that interval on the way from the mean to 0 or to 1."""
    if ones != int(ones) or not 0 <= ones <= pulls:
        raise ResponseError(f"a total of bits must be a whole number from 0 to the pulls, {pulls}, got {brief(ones)}")

    def log_martingale(p: float) -> float:
        return log_bits_martingale(pulls, ones, p) if 0 < p < 1 else inf

    return _edge(log_martingale, bits_limit(pulls, alpha), ones / pulls, far)


def bits_limit(pulls: float, alpha: float) -> float:
    """Return the log M at which a chance of a 1 is refuted: -log(alpha), and what rounding may have added to it.

    lgamma is good to a few units in the last place: what it loses may widen the interval, never narrow it.
    """
    return -log(alpha) + 1e-14 * lgamma(pulls + _COMPONENTS[-1][0] / BEST_PULLS_PER_RHO)


def log_bits_martingale(pulls: float, ones: float, p: float) -> float:
    """log M(p), with M(p) the likelihood ratio of x to p mixed over x ~ Beta(rho p, rho (1 - p)) and over rho.

    For each rho it is convex in p: the derivative is h(1 - p, zeros) - h(p, ones), where h(p, k) = sum over i < k of
    1/p - 1/(p + i/rho) decreases in p. Sums of functions whose logarithm is convex have a convex logarithm.
    """
    zeros, largest, mixed = pulls - ones, -inf, 0.0
    for rho, weight, at_rho in _BETAS:  # log B(a + ones, b + zeros) - log B(a, b); a report is little else than this
        a, b = rho * p, rho * (1 - p)
        rising = lgamma(a + ones) - lgamma(a) + lgamma(b + zeros) - lgamma(b)
        term = weight + rising - (lgamma(rho + pulls) - at_rho)
        if term > largest:
            mixed = mixed * exp(largest - term) + 1
            largest = term
        else:
            mixed += exp(term - largest)
    return largest + log(mixed) - (ones * log(p) + zeros * log1p(-p))


@lru_cache(maxsize=EDGE_CACHE_ENTRIES)
def laplace_radius(pulls: int, epsilon: float, sigma: float, alpha: float, missing: int = 0) -> float:
    """Return r such that [mean - r, mean + r] is the interval around the mean of `pulls` responses of CTL.

    With `missing` it is the mean of these and of `missing` values without noise.
    """
    limit = -log(alpha)

    def log_martingale(distance: float) -> float:
        return log_laplace_martingale(pulls, distance, epsilon, sigma, missing)

    far = 1.0
    while log_martingale(far) < limit:
        far *= 2
    return _edge(log_martingale, limit, 0.0, far) / (pulls + missing)


def log_laplace_martingale(pulls: float, distance: float, epsilon: float, sigma: float, missing: float = 0.0) -> float:
    """log M(m), with M(m) = e^(l D - n psi(l)) mixed over l and -l and over |l|; D = n |mean - m|, in which M grows.

    A response X = R + L with sigma-sub-Gaussian R has log E e^(l (X - m)) <= psi(l) for |l| < epsilon, where
    psi(l) = l^2 sigma^2 / 2 - log(1 - l^2 / epsilon^2). (For noise on the grid of 2^-20 the last factor is
    (cosh a - 1) / (cosh a - cosh b) with a = epsilon / 2^20 and b = l / 2^20: smaller, as (cosh b - 1) / b^2 grows.)

    A pull may multiply M twice: by e^(l (R - m) - l^2 sigma^2 / 2) when the arm is assigned, and by
    e^(l L) (1 - l^2 / epsilon^2) when its response is counted. Neither factor has a mean above 1, however the presence
    and time of a response depend on R, if they are independent of L. Hence M is a supermartingale also when `missing`
    of the pulls have the first factor only; then D holds their R, which nobody knows, in place of X.
    """
    variance, mixed = sigma**2 + 2 / epsilon**2, -inf
    for best_at, weight in _COMPONENTS:
        tilt = sqrt(BEST_PULLS_PER_RHO / (best_at * variance))
        both = log_add(tilt * distance, -tilt * distance)
        fall = pulls * psi(tilt, epsilon, sigma) + missing * psi(tilt, inf, sigma)
        mixed = log_add(mixed, weight - log(2) + both - fall)
    return mixed


def mixed_interval(cells: Sequence[float], levels: Sequence[float], alpha: float, near: float) -> tuple[float, float]:
    """Return the interval {m: M(m) < 1/alpha} within [0, 1] for the mean value m behind bits of several epsilons.

    `cells` is the number of bits and of ones of each epsilon in a row; a bit of value v is 1 with chance low + slope v,
    and `levels` has (low, slope) of each. log M is convex in m; `near` is where its least is likely to be. When M is
    large everywhere no mean fits the bits: then the interval is empty, and lies beyond all means: (inf, inf).
    """
    limit, terms = -log(alpha), _mixed_terms(tuple(levels))

    def log_martingale(mean: float) -> float:
        return _log_mixed_martingale(cells, levels, terms, mean)

    if log_martingale(near) >= limit:
        near = _least(log_martingale)
    if log_martingale(near) >= limit:
        return inf, inf
    return _edge(log_martingale, limit, near, 0.0), _edge(log_martingale, limit, near, 1.0)


def mixed_worst_interval(
    cells: Sequence[float], levels: Sequence[float], missing: int, alpha: float
) -> tuple[float, float]:
    """Return an interval that holds `mixed_interval` of these bits and `missing` more, of whichever epsilons.

    Take the part of M with tilts l > 0. A bit that is missing multiplies each of its components by
    e^(l slope b) / (1 + q (e^(l slope) - 1)) of some epsilon, which is least for a 0 at the epsilon where the
    denominator is largest. With this for every missing bit, in each component by itself, the sum is below M whatever
    the bits are. All of it falls in m: means up to where it is 1/alpha are refuted. The same with 0 and 1 exchanged, in
    bits and means, refutes means from above.
    """
    low = _lower(cells, levels, missing, alpha)
    zeros = [number for n, ones in _pairs(cells) for number in (n, n - ones)]
    mirrored = [number for low, slope in _pairs(levels) for number in (1 - low - slope, slope)]
    high = 1 - _lower(zeros, mirrored, missing, alpha)
    return (low, high) if low <= high else (inf, inf)


def _lower(cells: Sequence[float], levels: Sequence[float], missing: int, alpha: float) -> float:
    """Return the mean up to which all are refuted by tilts l > 0; infinite if that is all means."""
    limit, terms = -log(alpha), _mixed_terms(tuple(levels))[::2]

    def log_martingale(mean: float) -> float:
        return _log_mixed_martingale(cells, levels, terms, mean, missing)

    return _edge(log_martingale, limit, 1.0, 0.0) if log_martingale(1.0) < limit else inf


def _pairs(numbers: Sequence[float]) -> Iterable[tuple[float, float]]:
    return zip(numbers[::2], numbers[1::2], strict=True)


def _least(function: Callable[[float], float]) -> float:
    """Return where in [0, 1] a convex function is least, by thirds."""
    low, high = 0.0, 1.0
    while high - low > 1e-12:  # noqa: PLR2004 - far below any interval
        third = (high - low) / 3
        if function(low + third) < function(high - third):
            high -= third
        else:
            low += third
    return (low + high) / 2


SINGLE_EPSILON_WEIGHT = 0.1
"""The weight of the tilts that look at one epsilon alone: they find bits that no mean explains, and cost little."""

_Term: TypeAlias = tuple[float, tuple[tuple[float, float], ...]]
"""A component of the mixture: the logarithm of its weight, and for each level l slope and e^(l slope) - 1."""


def log_mixed_martingale(cells: Sequence[float], levels: Sequence[float], mean: float) -> float:
    """log M(m), with M(m) = product over bits of e^(l slope b) / (1 - q + q e^(l slope)), mixed over l and -l and |l|.

    Each factor has mean 1 for a bit b of chance q = low + slope m, so M is a martingale, in whatever order epsilons
    come. The tilt grows with the slope, as the information of a bit does; each is best at a number of bits of slope
    1. In q, and so in m, the logarithm of each factor is convex. A part of M tilts the bits of one epsilon alone.
    """
    return _log_mixed_martingale(cells, levels, _mixed_terms(tuple(levels)), mean)


@lru_cache(maxsize=64)
def _mixed_terms(levels: tuple[float, ...]) -> list[_Term]:
    """Return the components by turns: of a tilt l > 0, and of -l."""
    return [
        (weight - log(2), tuple((tilt * slope, expm1(tilt * slope)) for slope in levels[1::2]))
        for best_at, weight in _COMPONENTS
        for tilt in (sqrt(4 * BEST_PULLS_PER_RHO / best_at), -sqrt(4 * BEST_PULLS_PER_RHO / best_at))
    ]


def _log_mixed_martingale(
    cells: Sequence[float], levels: Sequence[float], terms: Iterable[_Term], mean: float, missing: int = 0
) -> float:
    """Sum these components; each missing bit is a 0 of the epsilon at which that makes the component least."""
    bits = [
        (n, ones, low + slope * mean) for (n, ones), (low, slope) in zip(_pairs(cells), _pairs(levels), strict=True)
    ]
    together, alone = log(1 - SINGLE_EPSILON_WEIGHT), log(SINGLE_EPSILON_WEIGHT / len(bits))
    mixed = []
    for weight, tilts in terms:
        zeros = [-log1p(q * tilted) for (_, _, q), (_, tilted) in zip(bits, tilts, strict=True)]
        ratios = [tilt * ones + n * zero for (n, ones, _), (tilt, _), zero in zip(bits, tilts, zeros, strict=True)]
        mixed.append(weight + together + sum(ratios) + missing * min(zeros))
        mixed += [weight + alone + ratio + missing * zero for ratio, zero in zip(ratios, zeros, strict=True)]
    return _log_sum_exp(mixed)


def psi(tilt: float, epsilon: float, sigma: float) -> float:
    """l^2 sigma^2 / 2 - log(1 - l^2 / epsilon^2) for l the tilt: see `log_laplace_martingale`."""
    return (sigma * tilt) ** 2 / 2 - log1p(-((tilt / epsilon) ** 2))


def log_add(one: float, other: float) -> float:
    """Return log(e^one + e^other) without overflow."""
    largest, least = max(one, other), min(one, other)
    return largest + log1p(exp(least - largest)) if least > -inf else largest


def _log_sum_exp(terms: Iterable[float]) -> float:
    listed = list(terms)
    largest = max(listed)
    return largest + log(sum(exp(term - largest) for term in listed))


def _edge(log_martingale: Callable[[float], float], limit: float, near: float, far: float) -> float:
    """Return the edge of {log M < limit} between a point of it and one that may be outside, on the outer side.

    About the mean log M grows as the square of the distance: its root is all but a line, and false position (with the
    Illinois halving, which moves both ends) is there in a dozen steps. Where M is infinite, the way is halved.
    """

    def excess(x: float) -> float:
        return sqrt(max(log_martingale(x), 0.0)) - sqrt(limit)

    if near == far:
        return far
    inner, below = near, -sqrt(limit)
    outer, above = far, excess(far)
    if above < 0:
        return far
    was_inside = None
    while abs(outer - inner) > RELATIVE_EDGE_TOLERANCE * max(abs(inner), abs(outer)) + ABSOLUTE_EDGE_TOLERANCE:
        middle = (inner + outer) / 2 if above == inf else inner + (outer - inner) * below / (below - above)
        if not min(inner, outer) < middle < max(inner, outer):
            middle = (inner + outer) / 2
        found = excess(middle)
        is_inside = found < 0
        if is_inside:
            inner, below = middle, found
            above /= 2 if was_inside is True else 1
        else:
            outer, above = middle, found
            below /= 2 if was_inside is False else 1
        was_inside = is_inside
    return outer
