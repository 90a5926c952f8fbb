"""Responses as they were said: bytes, of any length, packed together so that millions of them fit into memory.

The number behind a response comes second. `1` and `1.0`, a space at the end, the digits beyond a double: all of that
leaves the device, so all of it is compared.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import nan

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.result import Reals

Bytes = NDArray[np.uint8]
MOST_BYTES = 1 << 12
"""Bytes that are kept of a response, half from its start and half from its end; the hash covers all of it."""
MOST_CODES = 63
"""The commonest texts that are told apart where cells are few; all others share one more."""
LONG = 64
NUMERIC = b"0123456789.eE+- \t\r"
"""A text of more bytes than these is looked at for others than these: to fail to read a long one takes long."""
MANY = 1 << 12
"""Texts whose bytes are counted at once."""


@dataclass(frozen=True)
class Texts:
    """Many texts, end to end."""

    data: Bytes
    ends: NDArray[np.int64]
    """Where each text ends; it starts where the one before ends."""
    hashes: NDArray[np.uint64]
    """Equal for equal texts. Two that differ have the same hash with probability 2^-64 or so."""

    @classmethod
    def of(cls, texts: Sequence[bytes]) -> "Texts":
        """Pack texts; those that are very long keep their two ends."""
        hashes = hash_texts(texts)
        half = MOST_BYTES // 2
        kept = [text if len(text) <= MOST_BYTES else text[:half] + text[-half:] for text in texts]
        ends = np.cumsum(np.fromiter(map(len, kept), np.int64, len(kept)))
        return cls(np.frombuffer(b"".join(kept), np.uint8), ends, hashes)

    @classmethod
    def join(cls, parts: Sequence["Texts"]) -> "Texts":
        """Put several packs into one."""
        if not parts:
            return cls.of([])
        shifts = np.cumsum([0, *(len(part.data) for part in parts[:-1])])
        ends = np.concatenate([part.ends + shift for part, shift in zip(parts, shifts, strict=True)])
        data, hashes = (np.concatenate([getattr(part, name) for part in parts]) for name in ("data", "hashes"))
        return cls(data, ends, hashes)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, number: int) -> bytes:
        return self.data[self.starts[number] : self.ends[number]].tobytes()

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Offset at which each text starts."""
        return np.concatenate([np.zeros(1, np.int64), self.ends[:-1]]) if len(self.ends) else self.ends

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """How many bytes each text has, of those that are kept."""
        return self.ends - self.starts

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """Return a number for each text, the same for equal ones: 0 for the most frequent, and so on."""
        _, inverse, counts = np.unique(self.hashes, return_inverse=True, return_counts=True)
        rank = np.empty(len(counts), np.int64)
        rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
        return rank[inverse]

    @cached_property
    def few_codes(self) -> NDArray[np.int64]:
        """Return the same, with one number for all but the most frequent."""
        return np.minimum(self.codes, MOST_CODES)

    def columns(self, width: int, *, start: int = 0, from_end: bool = False) -> Bytes:
        """Return bytes of each text, in rows, from `start` on to `width`; 0 where it has no more.

        They are counted from its start, or back from its end.
        """
        rows = np.zeros((len(self), width - start), np.uint8)
        for place in range(start, width):  # by columns: all places of all texts at once would not fit into memory
            inside = np.flatnonzero(self.lengths > place)
            at = self.ends[inside] - 1 - place if from_end else self.starts[inside] + place
            rows[inside, place - start] = self.data[at]
        return rows

    def counts(self) -> NDArray[np.int32]:
        """Return how often each byte occurs in each text, in rows of 256."""
        rows = np.zeros((len(self), 256), np.int32)
        for first in range(0, len(self), MANY):
            lengths = self.lengths[first : first + MANY]
            start = int(self.starts[first])
            part = self.data[start : start + int(lengths.sum())]
            at = np.repeat(np.arange(len(lengths)) * 256, lengths) + part
            rows[first : first + MANY] = np.bincount(at, minlength=256 * len(lengths)).reshape(-1, 256)
        return rows


def hash_texts(texts: Sequence[bytes]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each text, as Python hashes bytes: with a key that is drawn anew for each process."""
    return np.fromiter(map(hash, texts), np.int64, len(texts)).view(np.uint64)


def numbers(texts: Sequence[bytes]) -> Reals:
    """Return each text as a number; one that is none, or that says so, is NaN."""
    with suppress(ValueError):
        if max(map(len, texts), default=0) <= LONG:
            return np.fromiter(map(float, texts), np.float64, len(texts))
    return np.fromiter(map(number, texts), np.float64, len(texts))


def number(text: bytes) -> float:
    """Return the number that a text is, or NaN."""
    if len(text) > LONG and text.translate(None, NUMERIC):
        return nan
    try:
        return float(text)
    except ValueError:
        return nan


def text_of(response: object) -> bytes:
    """Write a response of a function as it might be sent: as `str` does."""
    return response if isinstance(response, bytes) else str(response).encode(errors="backslashreplace")


def texts_of(responses: Iterable[float]) -> Texts:
    """Pack numbers, as they are printed."""
    return Texts.of([repr(each).encode() for each in responses])
