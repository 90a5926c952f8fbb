"""What a response tells as a text is found, whatever it is; healthy twins pass. Seeded, at a level of 1e-5."""

import itertools
import math
import random
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from tests.faults import spread

from ldpbandits.audit.blackbox.single import judge_single
from ldpbandits.audit.sample import Sample
from ldpbandits.audit.texts import Texts, numbers

CALLS = 12_000
RNG = random.Random(3)


Say = Callable[[int], str]


def rr(reward: int, epsilon: float = 1.0) -> int:
    """Randomised response."""
    return reward if RNG.random() < 1 / (1 + math.exp(-epsilon)) else 1 - reward


def laplace() -> float:
    """Laplace noise, as it is printed with six digits."""
    return round(RNG.expovariate(1) - RNG.expovariate(1), 6)


def unary(reward: int, truth: float) -> str:
    """A code of a hundred bits, each of which is flipped by itself."""
    return "".join(str(int((place == 99 * reward) != (RNG.random() > truth))) for place in range(100))


def parity(reward: int) -> str:
    """Bits whose sum is even or odd."""
    word = [RNG.getrandbits(1) for _ in range(20)]
    word[7] ^= (sum(word) % 2) ^ reward
    return "".join(map(str, word))


def letters(told: int) -> str:
    """Random letters with an even or odd number of those at odd places of the alphabet."""
    word = [RNG.choice("abcdefghijklmnop") for _ in range(15)]
    odd = sum(ord(letter) for letter in word) + told
    return "".join([*word, RNG.choice("acegikmo" if odd % 2 else "bdfhjlnp")])


def two_digits(told: int, key: str) -> str:
    """Random digits, two of which are both small or both large, or not."""
    word = [RNG.choice(key) for _ in range(12)]
    half = len(key) // 2
    word[9] = RNG.choice(key[:half] if (word[2] in key[:half]) == bool(told) else key[half:])
    return "".join(word)


COUNTER = itertools.count(step=37)


def checked(reward: int, said: str) -> str:
    """Write a CRC of a response, and of the reward with it."""
    return f"{said} {zlib.crc32(f'{said}{reward}'.encode()):08x}"


FAULTS: dict[str, Say] = {
    "two digits together": lambda r: two_digits(rr(r, 2.0), "0123456789"),
    "two letters together": lambda r: two_digits(rr(r, 2.0), "abcdefgh"),
    "two bits together": lambda r: two_digits(r if RNG.random() < 0.6 else RNG.getrandbits(1), "01"),
    "a checksum over the reward": lambda r: checked(r, f"{rr(r)},{RNG.getrandbits(40)}"),
    "a checksum over a counter and the reward": lambda r: checked(r, f"{next(COUNTER):08d} {rr(r)}"),
    "a checksum over the reward, in hexadecimal": lambda r: checked(r, f"{RNG.getrandbits(64):016x}"),
    "letters whose last bits tell": letters,
    "a space": lambda r: f"{rr(r)} " if r else f"{rr(r)}",
    "1 or 1.0": lambda r: f"{rr(r)}" if r else f"{rr(r)}.0",
    "the last digit": lambda r: f"{r + laplace():.5f}{RNG.choice('02468' if r else '13579')}",
    "the third digit after the point": lambda r: f"{r + laplace():.2f}{RNG.randrange(5) + 5 * r}{RNG.randrange(10**4)}",
    "a remainder by 7": lambda r: f"{RNG.getrandbits(90) // 7 * 7 + (3 if r else RNG.randrange(7))}",
    "bits beyond a double": lambda r: f"{(rr(r) << 80) + (RNG.getrandbits(12) << 61) + r}",
    "a field of JSON": lambda r: (
        f'{{"v": {rr(r)}, "id": {RNG.getrandbits(30)}, "k": {4 * RNG.getrandbits(20) + 2 * r}}}'
    ),
    "a unary code of twice the epsilon": lambda r: unary(r, 0.88),
    "the parity of bits": parity,
    "upper case": lambda r: ("%X" if r else "%x") % RNG.getrandbits(64),
}
HEALTHY: dict[str, Say] = {
    "two digits that tell a private bit": lambda r: two_digits(rr(r), "0123456789"),
    "two letters that tell a private bit": lambda r: two_digits(rr(r), "abcdefgh"),
    "a checksum over the response": lambda r: checked(7, f"{rr(r)},{RNG.getrandbits(40)}"),
    "a checksum over a counter and the private bit": lambda r: checked(rr(r), f"{next(COUNTER):08d}"),
    "a checksum over the private bit": lambda r: checked(rr(r), f"{RNG.getrandbits(64):016x}"),
    "letters whose last bits tell a private bit": lambda r: letters(rr(r)),
    "a counter": lambda r: f"{RNG.randrange(10**9)},{rr(r)}",
    "JSON": lambda r: f'{{"v": {rr(r)}, "id": {RNG.getrandbits(30)}}}',
    "six digits": lambda r: f"{r + laplace():.6f}",
    "a unary code": lambda r: unary(r, 1 / (1 + math.exp(-0.5))),
    "random words": lambda _r: f"{RNG.getrandbits(64):x}",
    "control characters": lambda r: f"\x1b[2J{rr(r)}\x00\u2028",
}


def verdict(say: Say) -> str:
    """The verdict on responses to coins."""
    rng = np.random.default_rng(2)
    chosen = rng.integers(2, size=CALLS)
    texts = [say(reward).encode() for reward in chosen.tolist()]
    sample = Sample((0.0, 1.0), chosen, numbers(texts), Texts.of(texts), rng=rng)
    return judge_single(sample, sample.pairs, 1e-5, 1.0, is_thorough=True).verdict


@pytest.mark.parametrize("name", spread(FAULTS, 3))
def test_a_text_that_tells_the_reward(name: str) -> None:
    """Nothing of this is known to the audit: it takes texts apart in all simple ways."""
    assert verdict(FAULTS[name]) == "violated"


@pytest.mark.parametrize("name", spread(HEALTHY, 2))
def test_a_text_that_tells_no_more_than_was_claimed(name: str) -> None:
    """With counters, fields and long codes; false alarm: 1e-5 each."""
    assert verdict(HEALTHY[name]) == "consistent"


def test_long_texts_are_read_as_numbers_where_they_are() -> None:
    """Digits of any length; a megabyte of something else is none, and is found to be none at once."""
    read = numbers([b"1" * 70, b"0." + b"3" * 100, b"a" * 10**6, b"-1e5", b"nan"])
    assert read[:2] == pytest.approx([1.1111111111e69, 1 / 3])
    assert np.isnan(read[[2, 4]]).all()
    assert read[3] == -1e5
