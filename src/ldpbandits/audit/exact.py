"""The layer that proves: the largest log-ratio over all inputs and outputs, in rational arithmetic.

For a finite table of probabilities it is the maximum over its pairs. For our curators it is taken from their code:

CTB. The response is 1 for `threshold(r)` of the 2^64 words, and that number does not decrease with r. So both responses
are likeliest under one end of [0, 1] and least likely under the other, and the ends decide; some rewards between are in
the table too, for those who do not believe it.

CTL. P(response = y | reward at step a) = c e^(-x |y - a|), so for two rewards at steps a, b the log-ratio at y is
x (|y - b| - |y - a|) <= x |a - b|, with equality at y = a: for steps 0 and 2^20, 2^20 x, which is epsilon. That this is
the law follows from the coins: digit k of the magnitude is heads with probability 1 / (1 + e^(2^k x)), and
the product over the digits is geometric (see device/randomness.py). Each coin's first 64 bits are checked here against
bounds of e^x; further bits are computed by the same function when a draw asks for them.
"""

from collections.abc import Mapping
from fractions import Fraction
from itertools import permutations
from math import inf, log
from typing import Any

from ldpbandits.audit.domain import ends, unit
from ldpbandits.audit.result import Layer
from ldpbandits.audit.sampling import Ours
from ldpbandits.device.curators import BernoulliCurator, LaplaceCurator
from ldpbandits.device.randomness import WORD, Coin, exp_bounds
from ldpbandits.errors import ParameterError
from ldpbandits.wire import GRID_BITS

PRECISION = 4 * WORD
BETWEEN = 16
Law = Mapping[float, Mapping[Any, Fraction]]
"""For each reward, the probability of each response."""


def largest_ratio(law: Law) -> Fraction | None:
    """Return max P(y | r) / P(y | r') over all rewards r, r' and responses y; None where it is infinite."""
    for reward, row in law.items():
        if sum(row.values()) != 1 or min(row.values()) < 0:
            raise ParameterError(f"the probabilities of row {list(law).index(reward)} must be >= 0 and add up to 1")
    worst = Fraction(1)
    for one, other in permutations(law.values(), 2):
        for response, p in one.items():
            q = other.get(response, Fraction(0))
            if p and not q:
                return None
            if q:
                worst = max(worst, Fraction(p) / q)
    return worst


def at_most_exp(ratio: Fraction, epsilon: float) -> bool:
    """Tell whether ratio <= e^epsilon, by integers: e^epsilon is bracketed, and is no rational number."""
    low, _ = exp_bounds(Fraction(epsilon), PRECISION)
    return ratio * (1 << PRECISION) <= low


def of_table(law: Law, epsilon: float, over: str) -> Layer:
    """Judge a finite table of probabilities over some rewards."""
    ratio = largest_ratio(law)
    if ratio is None:
        return Layer("exact", "violated", "some response is possible under one reward only", inf)
    value = log(ratio.numerator) - log(ratio.denominator)
    size = f"largest log-ratio over {over} and all responses: {value:.12g}"
    if at_most_exp(ratio, epsilon):
        return Layer("exact", "consistent", f"{size}, at most {epsilon:g} in rational arithmetic")
    return Layer("exact", "violated", f"{size}, above {epsilon:g} in rational arithmetic", value)


def of_curator(curator: Ours, epsilon: float) -> Layer:
    """Judge one of our curators, over all its rewards and responses."""
    if isinstance(curator, BernoulliCurator):
        units = [unit(curator.spec, reward) for reward in ends(curator.spec)]
        units += [between / BETWEEN for between in range(1, BETWEEN)]
        ones = {at: Fraction(curator.threshold(at), 1 << WORD) for at in units}
        return of_table({at: {1: p, 0: 1 - p} for at, p in ones.items()}, epsilon, "all rewards")
    return _of_laplace(curator, ends(curator.spec), epsilon)


def _of_laplace(curator: LaplaceCurator, rewards: tuple[float, float], epsilon: float) -> Layer:
    law, x = curator.noise, curator.noise.digits[0].x
    expected = [Coin(x * (1 << k), 1, coin.threshold) for k, coin in enumerate(law.digits)]
    if [*law.digits, law.rest] != [*expected, Coin(x * (1 << len(expected)), 0, law.rest.threshold)]:
        return Layer("exact", "violated", "the coins of the noise are not those of a discrete Laplace law", inf)
    if not all(_is_first_word(coin) for coin in [*law.digits, law.rest]):
        return Layer("exact", "violated", "a coin of the noise has a wrong probability", inf)
    low, high = (curator.steps(unit(curator.spec, reward)) for reward in rewards)
    reached = x * abs(high - low)
    size = f"largest log-ratio over all rewards and responses: {float(reached):.12g}"
    law_of = f"the law is c e^(-x |z|), x = {float(x):.6g}, on the grid of 2^-{GRID_BITS}"
    if reached <= Fraction(epsilon):
        return Layer("exact", "consistent", f"{size}, at most {epsilon:g} in rational arithmetic; {law_of}")
    return Layer("exact", "violated", f"{size}, above {epsilon:g}; {law_of}", float(reached))


def _is_first_word(coin: Coin) -> bool:
    """Tell whether threshold <= 2^64 / (plus + e^x) < threshold + 1, from bounds of e^x."""
    low, high = (Fraction(bound, 1 << PRECISION) for bound in exp_bounds(coin.x, PRECISION))
    most, least = (1 << WORD) / (coin.plus + low), (1 << WORD) / (coin.plus + high)
    return coin.threshold <= least and most < coin.threshold + 1
