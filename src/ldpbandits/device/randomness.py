"""Exact samplers: integers from the operating system in, an exact law out. No floating point anywhere.

A uniform U in [0, 1) is revealed 64 bits at a time. For a real p, the event U < p is settled by the first word W of U
unless W = floor(2^64 p), which happens once in 2^64; then the next word is compared with the next 64 bits of p, and so
on. The event has probability p exactly, although p is irrational, because any number of bits of p can be computed.

The magnitude of discrete Laplace noise is geometric, P(G >= g) = e^(-g x), and the binary digits of a geometric
variable are independent: since g is the sum of its digits, e^(-g x) is a product over them, so digit k is one with
probability 1 / (1 + e^(2^k x)). One word a digit gives the exact law, and how much randomness is used does not tell how
large the noise is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from os import urandom
from struct import unpack
from typing import TypeAlias

WORD = 64
Draw: TypeAlias = Callable[[int], Sequence[int]]
"""Called with n, gives n independent uniform integers below 2^64."""


def system_words(count: int) -> Sequence[int]:
    """Draw `count` words from the operating system.

    Nothing is kept between calls: a buffer would be copied by fork, and parent and child would share their noise.
    """
    return unpack(f"={count}Q", urandom(8 * count))


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers low <= 2^bits e^x <= high, for x > 0, from the series with every term rounded down, and up.

    From i >= 2x on, each term is at most half the one before, so that the rest is at most the last term.
    """
    numerator, denominator = x.as_integer_ratio()
    low = high = low_term = high_term = 1 << bits
    i = 0
    while high_term > 1 or i < 2 * x:
        i += 1
        low_term = low_term * numerator // (denominator * i)
        high_term = -(-high_term * numerator // (denominator * i))
        low += low_term
        high += high_term
    return low, high + high_term


def first_bits(x: Fraction, plus: int, bits: int) -> int:
    """floor(2^bits / (plus + e^x)) for x > 0: the first bits of a probability.

    Precision is added until both bounds of e^x agree. They do in the end: e^x is irrational for rational x > 0.
    """
    precision = bits
    while True:
        precision += WORD
        one = plus << precision
        least, most = ((1 << (bits + precision)) // (one + bound) for bound in exp_bounds(x, precision)[::-1])
        if least == most:
            return least


@dataclass(frozen=True, slots=True)
class Coin:
    """Heads with probability exactly 1 / (plus + e^x)."""

    x: Fraction
    plus: int
    threshold: int

    @classmethod
    def of(cls, x: Fraction, plus: int) -> "Coin":
        """Make the coin, with its first 64 bits worked out."""
        return cls(x, plus, first_bits(x, plus, WORD))

    def heads(self, word: int, draw: Draw) -> bool:
        """Toss the coin; `word` is the first word of U, and more are drawn only if it does not settle U < p."""
        bits, threshold = WORD, self.threshold
        while word == threshold:
            bits += WORD
            word = word << WORD | draw(1)[0]
            threshold = first_bits(self.x, self.plus, bits)
        return word < threshold


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """An integer Z with P(Z = z) proportional to e^(-x |z|), exactly."""

    digits: tuple[Coin, ...]
    rest: Coin

    def sample(self, draw: Draw) -> int:
        """Draw one Z from a word for the sign, one for all digits beyond the last coin, and one a digit.

        A Z of minus zero is drawn again: zero would count twice otherwise.
        """
        while True:
            words = draw(2 + len(self.digits))
            magnitude = 0
            value = 1
            for word, coin in zip(words[2:], self.digits, strict=True):
                # The comparison settles all but one word in 2^64; the method call is for that one.
                if word <= coin.threshold and (word < coin.threshold or coin.heads(word, draw)):
                    magnitude += value
                value += value
            word = words[1]
            while self.rest.heads(word, draw):  # at most once in e^64: a further `value`, by memorylessness
                magnitude += value
                (word,) = draw(1)
            negative = words[0] >> (WORD - 1)
            if magnitude or not negative:
                return -magnitude if negative else magnitude


@lru_cache(maxsize=64)
def discrete_laplace(x: Fraction) -> DiscreteLaplace:
    """Make the sampler of P(Z = z) proportional to e^(-x |z|); it takes about a millisecond, once for each x."""
    digits = []
    while x < WORD:
        digits.append(Coin.of(x, plus=1))
        x *= 2
    return DiscreteLaplace(tuple(digits), rest=Coin.of(x, plus=0))
