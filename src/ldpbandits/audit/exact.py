"""The layer that proves: the largest log-ratio over all inputs and outputs, in rational arithmetic.

For a finite table of probabilities it is the maximum over its pairs; what is proved then holds for that table, and a
response that the table rules out refutes it. For our curators it is taken from their code:

CTB. The response is 1 for `threshold(r)` of the 2^64 words, and that number does not decrease with r. So both responses
are likeliest under one end of [0, 1] and least likely under the other, and the ends decide; some rewards between are in
the table too, for those who do not believe it.

CTL. P(response = y | reward at step a) = c e^(-x |y - a|), so for two rewards at steps a, b the log-ratio at y is
x (|y - b| - |y - a|) <= x |a - b|, with equality at y = a: for steps 0 and 2^20, 2^20 x, which is epsilon. On the real
line that is so for rewards that differ by 1, wherever they lie, and nothing is said of others. That this is the law
follows from the coins: digit k of the magnitude is heads with probability 1 / (1 + e^(2^k x)), and the product over
the digits is geometric (see device/randomness.py). Each coin's first 64 bits are checked here against bounds of e^x;
further bits are computed by the same function when a draw asks for them.
"""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import permutations
from math import inf, log
from numbers import Rational
from typing import Any

import numpy as np

from ldpbandits.audit.blackbox import Sample
from ldpbandits.audit.claim import Claim
from ldpbandits.audit.domain import ends, unit
from ldpbandits.audit.result import Layer
from ldpbandits.audit.sampling import Ours
from ldpbandits.device.curators import BernoulliCurator, LaplaceCurator
from ldpbandits.device.randomness import WORD, Coin, exp_bounds
from ldpbandits.errors import ParameterError
from ldpbandits.spec.mechanisms import GRID_BITS
from ldpbandits.spec.transforms import RealLine

PRECISION = 4 * WORD
BETWEEN = 16
Law = Mapping[float, Mapping[Any, Fraction]]
"""For each reward, the probability of each response."""


def check_law(law: object) -> Law:
    """Check that each row holds exact probabilities: not negative, and 1 in all."""
    if not isinstance(law, Mapping) or not all(isinstance(row, Mapping) for row in law.values()):
        raise ParameterError("law must map each reward to a table of the probability of each response")
    for number, row in enumerate(law.values()):
        inexact = [p for p in row.values() if not isinstance(p, Rational | Decimal)]
        if inexact:
            told = f"row {number} holds a {type(inexact[0]).__name__}"
            raise ParameterError(f"the probabilities of a law must be exact, such as Fraction(1, 3): {told}")
        if any(p < 0 for p in row.values()) or sum(map(Fraction, row.values())) != 1:
            raise ParameterError(f"the probabilities of row {number} must be >= 0 and add up to 1")
    return {reward: {response: Fraction(p) for response, p in row.items()} for reward, row in law.items()}


def largest_ratio(law: Law) -> Fraction | None:
    """Return max P(y | r) / P(y | r') over all rewards r, r' and responses y; None where it is infinite."""
    law = check_law(law)
    worst = Fraction(1)
    for one, other in permutations(law.values(), 2):
        for response, p in one.items():
            q = other.get(response, Fraction(0))
            if p and not q:
                return None
            if q:
                worst = max(worst, p / q)
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


def of_law(law: Law, claim: Claim, seen: Sample) -> Layer:
    """Judge a table that somebody gave: what it says, whether it speaks of the claim, and whether responses fit it."""
    law = check_law(law)
    missing = sum(reward not in law for reward in claim.rewards)
    if missing:
        raise ParameterError(f"law must have a row for each of the rewards, and {missing} of them have none")
    judged = of_table(law, claim.epsilon, f"{len(law)} rewards")
    if judged.verdict == "violated":
        return judged
    for number, reward in enumerate(seen.rewards):
        possible = {_written(response) for response, p in law[reward].items() if p}
        outside = {_written(each) for each in np.unique(seen.responses[seen.chosen == number]).tolist()} - possible
        if outside:
            told = f"not the law of these responses: {len(outside):,} of them are impossible for a reward of {reward:g}"
            return Layer("exact", "violated", f"the table that you gave is {told}")
    return Layer("exact", "consistent", f"{judged.detail}: proved for the table you gave, not for the code behind it")


def _written(response: object) -> str:
    """Write a response so that equal ones read the same: 1 as 1.0, -0.0 as 0.0, NaN as nan."""
    try:
        return repr(float(response) + 0.0)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return f"no number: {response!r}"


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
    over = "all rewards"
    if isinstance(curator.spec.transform, RealLine):
        over = "rewards that differ by at most 1, the only ones that it protects from each other,"
    size = f"largest log-ratio over {over} and all responses: {float(reached):.12g}"
    law_of = f"the law is c e^(-x |z|), x = {float(x):.6g}, on the grid of 2^-{GRID_BITS}"
    if reached <= Fraction(epsilon):
        return Layer("exact", "consistent", f"{size}, at most {epsilon:g} in rational arithmetic; {law_of}")
    return Layer("exact", "violated", f"{size}, above {epsilon:g}; {law_of}", float(reached))


def _is_first_word(coin: Coin) -> bool:
    """Tell whether threshold <= 2^64 / (plus + e^x) < threshold + 1, from bounds of e^x."""
    low, high = (Fraction(bound, 1 << PRECISION) for bound in exp_bounds(coin.x, PRECISION))
    most, least = (1 << WORD) / (coin.plus + low), (1 << WORD) / (coin.plus + high)
    return coin.threshold <= least and most < coin.threshold + 1
