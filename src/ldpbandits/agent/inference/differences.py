"""Evidence and intervals for the difference between two arms: e-processes, valid at every number of responses at once.

Arm b is compared with arm a. A response, or a rule's reading of it, is a number z in [0, 1]; its mean is
q = low + slope mu for values of mean mu. An *e-process* is a number that has mean at most 1 at any stopping time if the
hypothesis holds, so that it ever reaches 1/alpha with probability at most alpha (Ville's inequality). All e-processes
here are mixtures over fixed components, and depend on the data only through `cells`: for each level of a menu in a row
the number and the sum of the z of arm b, then of arm a. There are three.

**Coin test** (`log_coin_evidence`). A fair coin, which nobody but the agent knows, chose between b and a. Hypothesis:
mu_b(t) <= mu_a(t) whenever a response came; the level of both may move in any way. Given the past and a bit, b was
chosen with probability q_b / (q_b + q_a) <= 1/2 after a 1 and with probability >= 1/2 after a 0, so that

    e^(u [b]) 2 / (1 + e^u) after a 1,   e^(-v [b]) 2 / (1 + e^-v) after a 0      (u, v >= 0)

have mean at most 1. For a number z between 0 and 1 the factors are f(1)^z f(0)^(1-z) <= z f(1) + (1-z) f(0), which has
mean at most 1 for the same reason: so sums of z may stand in the place of numbers of ones.

**Average difference** (`log_average_evidence`). The same coin. Hypothesis: the means of q_b(t) and q_a(t) over the T
responses are p_b and p_a. The factors r = e^(B (z - c)) of b and e^(-A (z - c)) of a have together the mean

    nu(q_b, q_a) <= (e^(-B c) (1 + q_b (e^B - 1)) + e^(A c) (1 + q_a (e^-A - 1))) / 2,

because e^(B z) is convex in z. This bound is affine in (q_b, q_a). The product of the nu(q_b(t), q_a(t)) is at most
nu(p_b, p_a)^T, as a geometric mean is at most the arithmetic mean: prod r / nu(p_b, p_a)^T is an e-process. It is
convex in (p_b, p_a), so its least value along a line is found by Newton's method, and the differences that it does not
refute are an interval. That interval covers the average difference so far, however the arms moved.

**Pair test** (`log_pair_evidence`). Any allocation, means that stay what they are: the factors of the two arms,
e^(B z) / (1 + q_b (e^B - 1)) and e^(-A z) / (1 + q_a (e^-A - 1)), have mean at most 1 each. Convex as above.

With several levels the tilts are in proportion to their slopes, and all levels are taken to have the same means.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, expm1, inf, log
from typing import NamedTuple, TypeAlias

Table: TypeAlias = Sequence[Sequence[float]]
"""The components of a mixture: the logarithm of the weight first, then the numbers of the component for each level."""

Scale: TypeAlias = tuple[float, ...]
"""The `low` and the `slope` of each level in a row."""

COIN_STEP_OCTAVES, INTERVAL_STEP_OCTAVES = 0.5, 1.0
"""Octaves between two components: finer ones decide a little sooner, and cost time in proportion."""

SMALLEST_VALUE, VALUE_FACTOR = 1e-3, 2.5
"""The smallest mean value that gets a component of its own, and the factor by which it must change the response."""

LEVEL_WEIGHT = 0.1
"""The weight of the components that refute levels far from the observed one; the others test the difference."""

PLANNED_WEIGHT = 0.8
"""The weight of the component of a planned gain: benchmarks/verdicts.py shows what it saves, and costs if wrong."""

TILTS = (
    (1.0, 1.0, 0.34),
    (0.5, 1.0, 0.09),
    (0.25, 1.0, 0.06),
    (0.0625, 1.0, 0.06),
    (0.0, 1.0, 0.24),
    (1.0, 0.5, 0.09),
    (1.0, 0.0625, 0.04),
    (1.0, 0.0, 0.08),
)
"""The tilts of b and of a in the pair test, and their weights: a rule pulls the better arm far more often."""

EDGE_TOLERANCE = 1e-6
"""The largest error of an edge, in mean values: far less than the width of any interval."""

FARTHEST_LOG_RATIO = 14.0
"""The logarithm of the largest ratio of two means that is told apart from infinity."""

CELL, COIN_RATES, AVERAGE_RATES, PAIR_RATES = 4, 4, 5, 4
"""The numbers of a level in `cells`, and in a component of the coin test, of the average and of the pair test."""


class Slope(NamedTuple):
    """The logarithm of an e-process E at a point of a line, and E'/E and E''/E along the line."""

    log: float
    first: float
    second: float


class Data(NamedTuple):
    """The responses of two arms, the components of an e-process, and the unanswered pulls that count at worst.

    The missing answers of b count as 0 and those of a as 1, or the other way round in components that gain by that.
    """

    cells: Sequence[float]
    scale: Scale
    table: Table
    missing_b: float = 0.0
    missing_a: float = 0.0


Process: TypeAlias = Callable[[Data, float, float, float], Slope]
"""process(data, start, factor, mu): E at the means mu_b = start + factor mu and mu_a = mu."""


def odds_grid(step: float) -> list[tuple[float, float]]:
    """Return halves of log odds ratios for a slope of 1, with their weights, which add up to 1.

    The weights are equal for ratios from 1.05 to 1.6, for which most experiments are planned, and fall with the square
    of the number of octaves beyond. Validity does not depend on them.
    """
    octaves = [-14 + step * place for place in range(round(15 / step) + 1)]
    weights = [(1 + max(abs(octave + 3.8) - 1.7, 0.0) / 0.7) ** -2 for octave in octaves]
    return [(2.0**octave, weight / sum(weights)) for octave, weight in zip(octaves, weights, strict=True)]


def component_values(scale: Scale) -> list[float]:
    """Return the mean values for which components are best: 0.5, and on both sides 0.08 and eighths of it.

    Rewards may be rare. Behind much noise a smaller value hardly changes the mean of a response, and is left out.
    """
    low, slope = min(zip(scale[::2], scale[1::2], strict=True))
    values, value = [0.5, 0.08, 0.92], 0.01
    while value > SMALLEST_VALUE and low + slope * values[-2] > VALUE_FACTOR * (low + slope * value):
        values += [value, 1 - value]
        value /= 8
    return values


@lru_cache(maxsize=64)
def coin_table(scale: Scale, planned: tuple[float, float] | None = None) -> tuple[tuple[float, ...], ...]:
    """Return the components of the coin test; `planned` are the mean values of a and of b that a plan was made for.

    A component has for each level u, log((1 + e^u) / 2), v and log((1 + e^-v) / 2).
    """
    rest, rows, values = 1.0 if planned is None else 1 - PLANNED_WEIGHT, [], component_values(scale)
    for half, weight in odds_grid(COIN_STEP_OCTAVES):
        for value in values:
            row = [log(rest * weight / len(values))]
            for low, slope in zip(scale[::2], scale[1::2], strict=True):
                p = low + slope * value
                row += _coin_rates(2 * half * slope * (1 - p), 2 * half * slope * p)
            rows.append(tuple(row))
    if planned is not None:
        row = [log(PLANNED_WEIGHT)]
        for low, slope in zip(scale[::2], scale[1::2], strict=True):
            q_a, q_b = (low + slope * value for value in planned)
            row += _coin_rates(log(q_b / q_a), log((1 - q_a) / (1 - q_b)))
        rows.append(tuple(row))
    return tuple(rows)


def _coin_rates(u: float, v: float) -> list[float]:
    return [u, log((1 + exp(u)) / 2), v, log((1 + exp(-v)) / 2)]


@lru_cache(maxsize=64)
def average_table(scale: Scale) -> tuple[tuple[float, ...], ...]:
    """Return the components of the average difference.

    A component has for each level B, A, c, e^(-B c) and e^(A c).
    """
    rows, values = [], component_values(scale)
    for half, weight in odds_grid(INTERVAL_STEP_OCTAVES):
        for_each, for_level = (1 - LEVEL_WEIGHT) * weight / len(values), LEVEL_WEIGHT * weight / 2
        rows += [_average_row(for_each, scale, (half, half), value) for value in values]
        rows += [_average_row(for_level, scale, (tilt, -tilt), 0.5) for tilt in (half, -half)]
    return tuple(rows)


def _average_row(weight: float, scale: Scale, tilts: tuple[float, float], value: float) -> tuple[float, ...]:
    row = [log(weight)]
    for low, slope in zip(scale[::2], scale[1::2], strict=True):
        b, a, centre = 2 * tilts[0] * slope, 2 * tilts[1] * slope, low + slope * value
        row += [b, a, centre, exp(-b * centre), exp(a * centre)]
    return tuple(row)


@lru_cache(maxsize=64)
def pair_table(scale: Scale) -> tuple[tuple[float, ...], ...]:
    """Return the components of the pair test: for each level B, A, e^B - 1 and e^-A - 1."""
    rows = []
    for half, weight in odds_grid(INTERVAL_STEP_OCTAVES):
        for part_b, part_a, part in TILTS:
            row = [log(weight * part)]
            for slope in scale[1::2]:
                b, a = 2 * half * slope * part_b, 2 * half * slope * part_a
                row += [b, a, expm1(b), expm1(-a)]
            rows.append(tuple(row))
    return tuple(rows)


def log_coin_evidence(cells: Sequence[float], table: Table, missing_b: float = 0.0, missing_a: float = 0.0) -> float:
    """Return the logarithm of the evidence that b is better than a, from the responses of their duels.

    Missing answers count as 0 for b and as 1 for a, at the level that makes the evidence least.
    """
    largest, mixed = -inf, 0.0
    for row in range(len(table)):
        component = table[row]
        term, place, of_b, of_a = component[0], 1, 0.0, 0.0
        for cell in range(0, len(cells), CELL):
            ones_b, ones = cells[cell + 1], cells[cell + 1] + cells[cell + 3]
            zeros_b, zeros = cells[cell] - ones_b, cells[cell] + cells[cell + 2] - ones
            term += component[place] * ones_b - component[place + 1] * ones
            term -= component[place + 2] * zeros_b + component[place + 3] * zeros
            of_b = max(of_b, component[place + 2] + component[place + 3])
            of_a = max(of_a, component[place + 1])
            place += COIN_RATES
        term -= missing_b * of_b + missing_a * of_a
        if term > largest:
            mixed = mixed * exp(largest - term) + 1
            largest = term
        else:
            mixed += exp(term - largest)
    return largest + log(mixed)


def log_average_evidence(data: Data, start: float, factor: float, mu: float) -> Slope:
    """Return the e-process of the average difference at the means mu_b = start + factor mu and mu_a = mu."""
    cells, scale, table, missing_b, missing_a = data
    largest, mixed, first, second = -inf, 0.0, 0.0, 0.0
    for row in range(len(table)):
        component = table[row]
        term, slope, bend, place, level = component[0], 0.0, 0.0, 1, 0
        for cell in range(0, len(cells), CELL):
            tilt_b, tilt_a, centre = component[place], component[place + 1], component[place + 2]
            grow_b, grow_a = component[place + 3] * expm1(tilt_b), component[place + 4] * expm1(-tilt_a)
            low, steep = scale[level], scale[level + 1]
            pulls_b, pulls_a = cells[cell] + missing_b, cells[cell + 2] + missing_a
            total_b = cells[cell + 1] + (missing_b if tilt_b < 0 else 0.0)
            total_a = cells[cell + 3] + (missing_a if tilt_a > 0 else 0.0)
            mean = component[place + 3] + component[place + 4]
            mean = (mean + (low + steep * (start + factor * mu)) * grow_b + (low + steep * mu) * grow_a) / 2
            change = steep * (factor * grow_b + grow_a) / 2 / mean
            term += tilt_b * (total_b - centre * pulls_b) - tilt_a * (total_a - centre * pulls_a)
            term -= (pulls_b + pulls_a) * log(mean)
            slope -= (pulls_b + pulls_a) * change
            bend += (pulls_b + pulls_a) * change * change
            place += AVERAGE_RATES
            level += 2
        if term > largest:
            shrink = exp(largest - term)
            mixed, first, second, largest = mixed * shrink, first * shrink, second * shrink, term
        weight = exp(term - largest)
        mixed += weight
        first += weight * slope
        second += weight * (slope * slope + bend)
    return Slope(largest + log(mixed), first / mixed, second / mixed)


def log_pair_evidence(data: Data, start: float, factor: float, mu: float) -> Slope:
    """Return the e-process of the pair test at the means mu_b = start + factor mu and mu_a = mu."""
    cells, scale, table, missing_b, missing_a = data
    largest, mixed, first, second = -inf, 0.0, 0.0, 0.0
    for row in range(len(table)):
        component = table[row]
        term, slope, bend, place, level = component[0], 0.0, 0.0, 1, 0
        for cell in range(0, len(cells), CELL):
            low, steep = scale[level], scale[level + 1]
            grow_b, grow_a = component[place + 2], component[place + 3]
            pulls_b, pulls_a = cells[cell] + missing_b, cells[cell + 2] + missing_a
            mean_b = 1 + (low + steep * (start + factor * mu)) * grow_b
            mean_a = 1 + (low + steep * mu) * grow_a
            change_b, change_a = steep * factor * grow_b / mean_b, steep * grow_a / mean_a
            term += component[place] * cells[cell + 1] - component[place + 1] * (cells[cell + 3] + missing_a)
            term -= pulls_b * log(mean_b) + pulls_a * log(mean_a)
            slope -= pulls_b * change_b + pulls_a * change_a
            bend += pulls_b * change_b * change_b + pulls_a * change_a * change_a
            place += PAIR_RATES
            level += 2
        if term > largest:
            shrink = exp(largest - term)
            mixed, first, second, largest = mixed * shrink, first * shrink, second * shrink, term
        weight = exp(term - largest)
        mixed += weight
        first += weight * slope
        second += weight * (slope * slope + bend)
    return Slope(largest + log(mixed), first / mixed, second / mixed)


def least_evidence(process: Process, data: Data, start: float, factor: float, enough: float = -inf) -> float:
    """Return the least log E on the line mu_b = start + factor mu, with both means in [0, 1].

    The search ends early below `enough`: then a smaller value would not change what follows from it.
    """
    near, far = max(0.0, -start / factor), min(1.0, (1 - start) / factor)
    if near > far:
        return inf
    mu, least = likely_mean(data.cells, data.scale, start, factor), inf
    for _ in range(100):  # some 5 are enough
        mu = min(max(mu, near), far)
        at = process(data, start, factor, mu)
        least = min(least, at.log)
        if at.first > 0:
            far = mu
        else:
            near = mu
        curve = at.second - at.first * at.first  # of log E, which is not convex everywhere
        step = at.first / curve if curve > 0 else inf
        if least < enough or far - near < EDGE_TOLERANCE**2 or abs(at.first * step) < EDGE_TOLERANCE:
            break
        mu = mu - step if near < mu - step < far else (near + far) / 2
    return least


def likely_mean(cells: Sequence[float], scale: Scale, start: float, factor: float) -> float:
    """Return a mean value of a that fits the responses of both arms, about: where the search begins."""
    total, weight = 0.0, 0.0
    for place in range(len(cells) // CELL):
        low, slope, cell = scale[2 * place], scale[2 * place + 1], CELL * place
        pulls_b, ones_b, pulls_a, ones_a = cells[cell], cells[cell + 1], cells[cell + 2], cells[cell + 3]
        total += slope * (factor * (ones_b - pulls_b * (low + slope * start)) + ones_a - pulls_a * low)
        weight += slope * slope * (factor * factor * pulls_b + pulls_a)
    return total / weight if weight else 0.5


@dataclass(frozen=True, slots=True)
class Pair:
    """The responses of arms b and a, and which e-process they allow."""

    cells: tuple[float, ...]
    scale: Scale
    is_fair: bool
    """Whether a fair coin chose between the two arms; else only means that stay what they are can be compared."""
    missing: tuple[float, float] = (0.0, 0.0)
    """The unanswered pulls of b and of a that are to count at worst; with several levels only the coin test does so."""

    @property
    def swapped(self) -> "Pair":
        """The same pair with b and a exchanged."""
        turned = tuple(
            number
            for cell in range(0, len(self.cells), CELL)
            for number in (*self.cells[cell + 2 : cell + CELL], *self.cells[cell : cell + 2])
        )
        return replace(self, cells=turned, missing=self.missing[::-1])

    def grown(self, factor_b: float, factor_a: float) -> "Pair":
        """Return the pair with these multiples of the responses and missing answers of b and of a."""
        cells = tuple(
            (factor_a if place % CELL >= CELL // 2 else factor_b) * number for place, number in enumerate(self.cells)
        )
        return replace(self, cells=cells, missing=(factor_b * self.missing[0], factor_a * self.missing[1]))

    @property
    def mean_a(self) -> float:
        """The mean value of a, unbiased: noise may put it outside [0, 1]."""
        return arm_mean(self.cells, self.scale, 2)

    @property
    def gain(self) -> float:
        """The estimated mu_b - mu_a, unbiased."""
        return arm_mean(self.cells, self.scale, 0) - self.mean_a

    def log_evidence(self, start: float = 0.0, factor: float = 1.0, enough: float = -inf) -> float:
        """Return the logarithm of the evidence that mu_b > start + factor mu_a."""
        process, rows = (log_average_evidence, average_table) if self.is_fair else (log_pair_evidence, pair_table)
        missing = self.missing if len(self.cells) == CELL else (0.0, 0.0)
        return least_evidence(process, Data(self.cells, self.scale, rows(self.scale), *missing), start, factor, enough)

    def difference(self, alpha: float) -> tuple[float, float]:
        """Return an interval that covers mu_b - mu_a at all times at once with probability 1 - alpha."""
        guess = min(max(self.gain, -1.0), 1.0)
        least = _edge(self.log_evidence, log(2 / alpha), -1.0, guess)
        most = _edge(self.swapped.log_evidence, log(2 / alpha), -1.0, -guess)
        return least, -most

    def ratio(self, alpha: float, offset: float = 0.0) -> tuple[float, float]:
        """Return an interval for (offset + mu_b) / (offset + mu_a), both of which are >= 0; its end may be infinite.

        The pairs of means that are not refuted are a convex set, so the ratios are an interval.
        """
        means = (min(max(offset + mean, 1e-6), offset + 1) for mean in (self.mean_a + self.gain, self.mean_a))
        guess = next(means) / next(means)

        def below(pair: "Pair", at_most: float) -> float:
            def evidence(log_ratio: float) -> float:
                return pair.log_evidence(offset * expm1(log_ratio), exp(log_ratio))

            return _edge(evidence, log(2 / alpha), -FARTHEST_LOG_RATIO, at_most)

        least, most = below(self, log(guess)), -below(self.swapped, -log(guess))
        return (0.0 if least <= -FARTHEST_LOG_RATIO else exp(least)), (inf if most >= FARTHEST_LOG_RATIO else exp(most))


def arm_mean(cells: Sequence[float], scale: Scale, place: int) -> float:
    """Return the mean value behind the responses of one arm: of all levels, weighted by the squares of their slopes.

    `place` is 0 for b and 2 for a.
    """
    total = weight = 0.0
    for level in range(len(cells) // CELL):
        low, slope, cell = scale[2 * level], scale[2 * level + 1], CELL * level
        total += slope * (cells[cell + place + 1] - low * cells[cell + place])
        weight += slope * slope * cells[cell + place]
    return total / weight if weight else 0.5


def _edge(evidence: Callable[[float], float], limit: float, far: float, near: float) -> float:
    """Return where the evidence falls to the limit on the way from `far` to `near`; `far` if it is lower there.

    Where `near` itself is refuted, no point may be left; then the edge is `near`.
    """
    above, below = evidence(far) - limit, evidence(near) - limit
    if above <= 0:
        return far
    if below >= 0:
        return near
    side = 0
    while near - far > EDGE_TOLERANCE:
        part = min(max(above / (above - below), 0.02), 0.98) if side < 2 and above < inf else 0.5  # noqa: PLR2004
        middle = far + part * (near - far)
        found = evidence(middle) - limit
        if found > 0:
            far, above, side = middle, found, side + 1 if side >= 0 else 0
        else:
            near, below, side = middle, found, 0
    return far
