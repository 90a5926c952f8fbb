"""White-box knowledge of the mechanism CTB.

The best guess. A response of 1 has likelihood ratio e^epsilon, and a response of 0 has e^-epsilon. The bit is the
guess.

Moments. A debiased response is 1/2 + (y - 1/2) / tanh(epsilon / 2). Its mean is the value, and its variance is that of
a bit of mean p over tanh(epsilon / 2)^2. The count of ones decides both. It is Binomial, and is tested exactly.

The proof. The response is 1 for `threshold(v)` of the 2^64 words, and that number does not decrease with v. Both
responses are therefore likeliest under one end of [0, 1] and least likely under the other, and the ends decide. Some
values between are in the table too, for those who do not believe it.
"""

from fractions import Fraction
from math import tanh

import numpy as np
from scipy.special import bdtr, bdtrc

from ldpbandits.agent.inference.mechanisms import debiased_mean
from ldpbandits.audit.result import Finding, Reals
from ldpbandits.audit.sample import Moments
from ldpbandits.audit.whitebox.exact import Row, judge_table
from ldpbandits.audit.whitebox.sampling import Integers, Words, same_head
from ldpbandits.device.curators import BernoulliCurator, Curator
from ldpbandits.device.randomness import WORD
from ldpbandits.spec.mechanisms import Bernoulli

CURATOR: type[Curator] = BernoulliCurator
RULE = "the response is the guess"
LEAST = 1
"""The test of the moments is exact, however few responses there are."""
BETWEEN = 16


def edges(_low: float, _high: float) -> tuple[int, int]:
    """Guess the low reward at 0, and the high one at 1."""
    return 0, 1


def origin(_value: float) -> int:
    """Bits are summed as they are."""
    return 0


def fits(of: Moments, mechanism: Bernoulli, alpha: float) -> tuple[str, bool]:
    """Test the count of ones, on both sides."""
    p, ones = mechanism.response_mean(of.value), round(of.total)
    scale = tanh(mechanism.epsilon / 2)
    text = (
        f"debiased mean {debiased_mean(of.mean, mechanism.epsilon):.5f} for {of.value:g}, "
        f"variance {of.variance / scale**2:.5g} for {p * (1 - p) / scale**2:.5g}"
    )
    are_bits = of.total == of.squares == ones
    tail = min(float(bdtr(ones, of.count, p)), float(bdtrc(ones - 1, of.count, p)) if ones else 1.0)
    return text, are_bits and tail >= alpha / 2


def cuts(_mechanism: Bernoulli) -> Reals:
    """Two responses need no bins."""
    return np.zeros(0)


def prove(curator: BernoulliCurator, epsilon: float) -> Finding:
    """Take the probability of a 1 from the code, at both ends and between."""
    values = [curator.spec.value(reward) for reward in curator.spec.transform.ends]
    values += [between / BETWEEN for between in range(1, BETWEEN)]
    ones = {value: Fraction(curator.threshold(value), 1 << WORD) for value in values}
    return judge_table({value: {1: p, 0: 1 - p} for value, p in ones.items()}, epsilon, "all rewards")


def words_each(_curator: BernoulliCurator) -> int:
    """Return the number of words per response."""
    return 1


def responses(curator: BernoulliCurator, value: float, words: Words) -> Integers:
    """Compare one word of each device with the threshold."""
    return bits(curator.threshold(value), words)


def bits(threshold: int, words: Words) -> Integers:
    """Return CTB's responses when `threshold` of the 2^64 words give a 1."""
    return words.below(0, threshold, lambda word, _: word < threshold).astype(np.int64)


def plant(curator: BernoulliCurator, value: float, kind: int, _turn: int, row: Row) -> None:
    """Plant a head that ties, a word that ties, one just below, and 0."""
    threshold = curator.threshold(value)
    row[0] = (row[0], same_head(threshold, row[0]), threshold, threshold - 1, 0, row[0])[kind]
