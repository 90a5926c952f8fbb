"""White-box knowledge of the mechanism CTL.

The best guess. The likelihood ratio is e^epsilon from the high reward upwards, e^-epsilon from the low one downwards,
and less extreme between, where it is best to abstain. The responses outside alone give a standard error of
sqrt(2 (1 + e^epsilon) / N) for the bound on epsilon.

Moments. The mean response is the value, and the variance is 2 / epsilon^2 (on a grid of 2^-20 the difference is below
2^-40). Both are tested by their standard errors, with E L^4 = 24 / epsilon^4 for the variance. The normal law is not
exact here: squares of Laplace noise have skewness 6.6 and excess kurtosis 85, so by Cramer's correction the tail at z
standard errors is exp(6.6 z^3 / (6 sqrt n) - 46 z^4 / (24 n)) times the normal one. From LEAST responses on, and for
levels down to 1e-10 (z = 6.4), that is below ten: so these tests use a tenth of the level that they are given.

The proof. P(response = y | value at step a) = c e^(-x |y - a|), so for two values at steps a, b the log-ratio at y is
x (|y - b| - |y - a|) <= x |a - b|, with equality at y = a: for steps 0 and 2^20, 2^20 x, which is epsilon. On the real
line that is so for rewards that differ by 1, wherever they lie, and nothing is said of others. That this is the law
follows from the coins: digit k of the magnitude is heads with probability 1 / (1 + e^(2^k x)), and the product over
the digits is geometric (see device/randomness.py). Each coin's first 64 bits are checked here against bounds of e^x;
further bits are computed by the same function when a draw asks for them.
"""

from fractions import Fraction
from math import inf, sqrt

import numpy as np
from scipy.special import ndtri

from ldpbandits.audit.result import Finding, Reals
from ldpbandits.audit.sample import Moments
from ldpbandits.audit.whitebox.exact import PRECISION, Row
from ldpbandits.audit.whitebox.sampling import HEAD, Integers, Words, same_head
from ldpbandits.device.curators import Curator, LaplaceCurator
from ldpbandits.device.randomness import WORD, Coin, DiscreteLaplace, exp_bounds
from ldpbandits.spec.mechanisms import GRID_BITS, Laplace

CURATOR: type[Curator] = LaplaceCurator
RULE = "abstaining between the rewards"
LEAST = 15_000
MARGIN = 10
"""The normal law is off by less than this factor: see above."""
HIGHEST = (1 << WORD) - 1


def edges(low: float, high: float) -> tuple[float, float]:
    """Guess the low reward at or below it, and the high one at or above it."""
    return low, high


def origin(value: float) -> int:
    """Return the step of the value on the grid: noise is added to it."""
    return LaplaceCurator.steps(value)


def fits(of: Moments, mechanism: Laplace, alpha: float) -> tuple[str, bool]:
    """Test mean and variance by their standard errors."""
    epsilon, step = mechanism.epsilon, mechanism.unit
    variance = 2 / epsilon**2
    z = -float(ndtri(alpha / 4 / MARGIN))  # two quantities, two sides
    text = f"mean {of.mean:.5f} for {of.value:g}, variance {of.variance:.5g} for {variance:.5g} (approximate test)"
    off = of.total / of.count + of.offset
    mean_fits = abs(off) <= z * sqrt(variance / of.count) + step
    variance_fits = abs(of.variance - variance) <= z * sqrt(20 / of.count) / epsilon**2 + step
    return text, mean_fits and variance_fits


def cuts(mechanism: Laplace) -> Reals:
    """Bins around [0, 1], as wide as the noise."""
    return np.linspace(-2, 3, 41) / min(1.0, mechanism.epsilon)


def prove(curator: LaplaceCurator, epsilon: float) -> Finding:
    """Check the coins of the noise, and take the largest log-ratio from them."""
    law, x = curator.noise, curator.noise.digits[0].x
    expected = [Coin(x * (1 << k), 1, coin.threshold) for k, coin in enumerate(law.digits)]
    if [*law.digits, law.rest] != [*expected, Coin(x * (1 << len(expected)), 0, law.rest.threshold)]:
        return Finding("violated", "the coins of the noise are not those of a discrete Laplace law", inf)
    if not all(_is_first_word(coin) for coin in [*law.digits, law.rest]):
        return Finding("violated", "a coin of the noise has a wrong probability", inf)
    spec = curator.spec
    low, high = (curator.steps(spec.value(reward)) for reward in spec.transform.ends)
    largest = x * abs(high - low)
    over = "all rewards"
    if not spec.transform.bounded:
        most = f"{spec.transform.neighbours:g}"
        over = f"rewards that differ by at most {most}, the only ones that it protects from each other,"
    size = f"largest log-ratio over {over} and all responses: {float(largest):.12g}"
    law_of = f"the law is c e^(-x |z|), x = {float(x):.6g}, on the grid of 2^-{GRID_BITS}"
    if largest <= Fraction(epsilon):
        return Finding("consistent", f"{size}, at most {epsilon:g} in rational arithmetic; {law_of}")
    return Finding("violated", f"{size}, above {epsilon:g}; {law_of}", float(largest))


def _is_first_word(coin: Coin) -> bool:
    """Tell whether threshold <= 2^64 / (plus + e^x) < threshold + 1, from bounds of e^x."""
    low, high = (Fraction(bound, 1 << PRECISION) for bound in exp_bounds(coin.x, PRECISION))
    most, least = (1 << WORD) / (coin.plus + low), (1 << WORD) / (coin.plus + high)
    return coin.threshold <= least and most < coin.threshold + 1


def words_each(curator: LaplaceCurator) -> int:
    """One word for the sign, one for all digits beyond the last coin, and one a digit."""
    return 2 + len(curator.noise.digits)


def responses(curator: LaplaceCurator, value: float, words: Words) -> Integers:
    """Add the noise of each device to the step of the value."""
    return curator.steps(value) + noise(curator.noise, words)


def noise(law: DiscreteLaplace, words: Words) -> Integers:
    """Return CTL's noise in steps: `DiscreteLaplace.sample`, for all devices at once."""
    magnitude = np.zeros(words.heads.shape[1], np.int64)
    for k, coin in enumerate(law.digits):
        magnitude |= words.below(2 + k, coin.threshold, coin.heads).astype(np.int64) << k
    for device in np.flatnonzero(words.below(1, law.rest.threshold, law.rest.heads)).tolist():
        draw, times = words.further(device), 1
        while law.rest.heads(draw(1)[0], draw):
            times += 1
        magnitude[device] += times << len(law.digits)
    negative = words.heads[0] >= 1 << (HEAD - 1)
    for device in np.flatnonzero(negative & (magnitude == 0)).tolist():  # minus zero: again, with new words
        steps = law.sample(words.further(device))
        negative[device], magnitude[device] = steps < 0, abs(steps)
    return np.where(negative, -magnitude, magnitude)


def plant(curator: LaplaceCurator, _value: float, kind: int, turn: int, row: Row) -> None:
    """Plant a digit whose head ties, a digit that ties, digits that run over, and minus zero."""
    law, first = curator.noise, words_each(curator)
    digit = turn % len(law.digits)
    threshold = law.digits[digit].threshold
    if kind == 1:
        row[2 + digit] = same_head(threshold, row[2 + digit])
    elif kind == 2:  # noqa: PLR2004 - the kinds, in order
        row[2 + digit] = threshold
    elif kind == 3:  # noqa: PLR2004
        row[1], row[first] = law.rest.threshold, 0
    elif kind == 4:  # noqa: PLR2004
        row[0], row[1:first] = row[0] | 1 << (WORD - 1), [HIGHEST] * (first - 1)
