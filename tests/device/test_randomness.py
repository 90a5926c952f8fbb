"""The samplers draw from exactly the law they claim."""

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import pytest

from ldpbandits.device.randomness import Coin, Draw, discrete_laplace, exp_bounds, first_bits, system_words

EXPONENTS = [Fraction(1e-6) / 2**20, Fraction(1, 3), Fraction(1), Fraction(2.5), Fraction(50), Fraction(127)]


def exact(x: Fraction, plus: int, bits: int) -> int:
    """floor(2^bits / (plus + e^x)) from `decimal`, an implementation that shares nothing with ours."""
    with localcontext() as context:
        context.prec = 400
        e_to_x = (Decimal(x.numerator) / Decimal(x.denominator)).exp()
        return int(Decimal(2**bits) / (plus + e_to_x))


@pytest.mark.parametrize("x", EXPONENTS)
def test_exp_bounds_bracket_and_are_close(x: Fraction) -> None:
    """low <= 2^bits e^x <= high, with a relative width near 2^-bits."""
    low, high = exp_bounds(x, 200)
    with localcontext() as context:
        context.prec = 400
        truth = Decimal(2**200) * (Decimal(x.numerator) / Decimal(x.denominator)).exp()
    assert low <= truth <= high
    assert high - low < low >> 180


@pytest.mark.parametrize(("x", "plus", "bits"), list(product(EXPONENTS, (0, 1), (64, 128, 192))))
def test_first_bits_agree_with_decimal(x: Fraction, plus: int, bits: int) -> None:
    """The bits of a probability are the true ones, however many are asked for."""
    assert first_bits(x, plus, bits) == exact(x, plus, bits)


@pytest.mark.parametrize("plus", [0, 1])
def test_a_coin_is_settled_by_the_first_word_that_differs(plus: int) -> None:
    """A word equal to the first bits of p asks for another word, and that one decides."""
    coin = Coin.of(Fraction(1), plus)
    second = exact(Fraction(1), plus, 128) % 2**64
    third = exact(Fraction(1), plus, 192) % 2**64

    def script(*words: int) -> Draw:
        remaining = list(words)
        return lambda count: [remaining.pop(0) for _ in range(count)]

    assert coin.heads(coin.threshold - 1, script())
    assert not coin.heads(coin.threshold + 1, script())
    assert coin.heads(coin.threshold, script(second - 1))
    assert not coin.heads(coin.threshold, script(second + 1))
    assert coin.heads(coin.threshold, script(second, third - 1))
    assert not coin.heads(coin.threshold, script(second, third + 1))


@pytest.mark.parametrize("x", [Fraction(1, 7), Fraction(1), Fraction(5)])
def test_the_digits_make_exactly_the_discrete_laplace_law(x: Fraction) -> None:
    """The product of the coins' probabilities is (1 - q) / (1 + q) q^|z|, q = e^-x, to 200 bits.

    Not a statistical test: the probability that the sampler gives z is worked out from its coins.
    """
    bits = 220
    sampler = discrete_laplace(x)
    heads = [Fraction(first_bits(coin.x, coin.plus, bits), 2**bits) for coin in sampler.digits]
    no_rest = 1 - Fraction(first_bits(sampler.rest.x, sampler.rest.plus, bits), 2**bits)

    def magnitude(g: int) -> Fraction:
        probability = no_rest
        for k, p in enumerate(heads):
            probability *= p if g >> k & 1 else 1 - p
        return probability

    q = Fraction(first_bits(x, 0, bits), 2**bits)
    accepted = 1 - magnitude(0) / 2  # minus zero is drawn again
    most = min(2 ** len(heads) - 1, 20)  # what the digits can make without the rest
    for z in range(-most, most + 1):
        drawn = magnitude(abs(z)) / 2 / accepted
        claimed = (1 - q) / (1 + q) * q ** abs(z)
        agree = abs(drawn - claimed) < Fraction(1, 2**200)
        assert agree, z


def test_the_tail_beyond_the_last_digit_is_reached() -> None:
    """A `rest` that shows heads adds 2^K, once for each time it does."""
    sampler = discrete_laplace(Fraction(1))
    digits, tiny = len(sampler.digits), first_bits(sampler.rest.x, 0, 128)
    assert sampler.rest.threshold == 0
    assert tiny > 0
    top = 2**64 - 1
    script = [0, 0, *[top] * digits, tiny - 1, 0, tiny - 1, top]

    def draw(count: int) -> list[int]:
        return [script.pop(0) for _ in range(count)]

    assert sampler.sample(draw) == 2 * 2**digits
    assert script == []


def test_minus_zero_is_drawn_again() -> None:
    """Zero is not counted twice."""
    sampler = discrete_laplace(Fraction(1))
    top = 2**64 - 1
    zeros = [top] * len(sampler.digits)
    script = [2**63, top, *zeros, 2**63, top, 0, *zeros[1:]]

    def draw(count: int) -> list[int]:
        return [script.pop(0) for _ in range(count)]

    assert sampler.sample(draw) == -1


def test_the_number_of_words_does_not_depend_on_the_noise(seeded: Callable[[int], Draw]) -> None:
    """Each of 10,000 samples draws once, and the same number of words: that does not tell how large the noise is.

    A sample that needs more has probability below 2^-18 (minus zero); the seed is fixed.
    """
    sampler, source, used = discrete_laplace(Fraction(1, 2**20)), seeded(3), []

    def draw(count: int) -> list[int]:
        used.append(count)
        return list(source(count))

    for _ in range(10_000):
        sampler.sample(draw)
    assert used == [2 + len(sampler.digits)] * 10_000


def test_system_words_are_64_bit_and_fresh() -> None:
    """Words cover 64 bits and do not repeat. False alarm: below 2^-40 for 4,000 words to share a value."""
    words = [*system_words(2_000), *system_words(2_000)]
    assert all(0 <= word < 2**64 for word in words)
    assert len(set(words)) == len(words)
    assert max(words) >> 63 == 1
