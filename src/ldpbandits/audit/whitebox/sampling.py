"""Many responses at once: the device's law, word for word, from the device's own source of randomness.

A device compares 64-bit words with thresholds. The comparison of a word W with a threshold T is settled by the first
16 bits of W unless they are those of T, since W = 2^48 head + tail with tail < 2^48:

    head < floor(T / 2^48)  implies  W < T        head > floor(T / 2^48)  implies  W > T

Only the heads are drawn, and the tail of a word only when its head ties, once in 2^16; head and tail together are
one uniform word, and from there on the device's own scalar code decides. Which bits are left undrawn depends on nothing
else, so the joint law of all responses is that of the device. Every audit gives both sides the same words and expects
the same responses, bit for bit (`exact.replay`).
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from struct import unpack
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ldpbandits.device.randomness import WORD, Draw

HEAD = 16
TAIL = WORD - HEAD

Source: TypeAlias = Callable[[int], bytes]
"""Called with n, gives n independent uniform bytes."""
Integers: TypeAlias = NDArray[np.int64]


def source(seed: int | None) -> Source:
    """Return the operating system's randomness, as a device uses it; with a seed, for tests, a generator's."""
    return os.urandom if seed is None else np.random.Generator(np.random.SFC64(seed)).bytes


def draw_words(count: int, random_bytes: Source) -> tuple[int, ...]:
    """Draw whole words of 64 bits."""
    return unpack(f"={count}Q", random_bytes(8 * count))


def same_head(threshold: int, word: int) -> int:
    """Return a word with the head of the threshold, so that its head ties, and a tail of its own."""
    return threshold >> TAIL << TAIL | word >> HEAD


@dataclass(frozen=True, slots=True)
class Words:
    """The words that n devices draw, of which only the first 16 bits exist until more are asked for."""

    heads: NDArray[np.uint16]
    """The shape is (words, n): head w, i is of word w of device i."""
    tail: Callable[[int, int], int]
    """Called with w, i, gives the other 48 bits of that word; at most once for each."""
    further: Callable[[int], Draw]
    """Called with i, gives what device i draws its further words from."""

    @classmethod
    def draw(cls, words: int, count: int, random_bytes: Source) -> "Words":
        """Draw the heads of `words` words for each of `count` devices, all independent."""
        heads = np.frombuffer(random_bytes(2 * words * count), np.uint16).reshape(words, count)

        def draw_more(more: int) -> tuple[int, ...]:
            return draw_words(more, random_bytes)

        return cls(heads, lambda _word, _device: draw_more(1)[0] >> HEAD, lambda _device: draw_more)

    def below(self, word: int, threshold: int, settle: Callable[[int, Draw], bool]) -> NDArray[np.bool_]:
        """Tell for each device whether this word is below the threshold; `settle` decides for whole words."""
        heads, top = self.heads[word], threshold >> TAIL
        is_below: NDArray[np.bool_] = heads < top
        for device in np.flatnonzero(heads == top).tolist():
            is_below[device] = settle(top << TAIL | self.tail(word, device), self.further(device))
        return is_below
