"""Leaks in the text of a response: its characters, its length, its fields, the remainders of its digits.

Nothing is listed that a faulty program might do. A text is taken apart in all simple ways, and each way sorts the
calls into cells:

    each place          the character there, counted from the start, from the end, and from the decimal point
    each character      how often it occurs, and whether that is an odd number
    lengths             of the text, and of its runs of spaces
    remainders          of all its digits, read as one whole number of any size, by small numbers
    fields              each number in the text by itself: its size, its value, its low-order bits

Several places at once are in parity.py. Bets are put on the cells of every way (single.py). And a guesser is learned
from all ways together: the log-odds of each cell, counted on coins that are disclosed, are added up, as if the ways
were independent. Where that sum is to be trusted is found out on other disclosed coins, and the verdict is on the rest,
so that nothing has to be true of the sum (guess.py).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.blackbox.events import Sorted, atoms, low_bits, size_bins
from ldpbandits.audit.guess import count_cells
from ldpbandits.audit.result import Reals
from ldpbandits.audit.sample import RANK, Sample
from ldpbandits.audit.texts import MOST_CODES, Texts, number

MOST_CELLS = 1 << 25
"""Characters that are looked at in all: fewer calls if responses are long."""
PLACES = 48
"""Characters from the start, and from the end, that are looked at one by one."""
LONG_PLACES = 2048
"""As many if responses are long, and of one length: codes of one bit a place."""
AROUND = range(-8, 25)
"""Places around the decimal point."""
MODULI = (*range(2, 17), 20, 25, 32, 64, 100, 125, 128, 256, 512, 1000, 1024), (17, 19, 23, 29, 31, 37)
"""Moduli of the number that a text is; the least multiple of each group has no more than 32 bits."""
FIELDS = 24
"""Numbers in a text that are looked at by themselves; chosen by benchmarks/audit_stakes.py."""
FIELD_CALLS = 1 << 17
NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
LEVELS = 64
"""Cells of the learned guesser's score."""

Codes = NDArray[np.int64]


def some_texts(sample: Sample, calls: int) -> Sample:
    """Return the first calls, at most `calls`, and fewer if responses are long."""
    longest = int(sample.said.lengths.max(initial=1))
    return sample.first(min(calls, max(1, MOST_CELLS // max(longest, 1)), len(sample.chosen)))


def learn(takes: Sequence[Sorted], of: Sample, pair: tuple[int, int]) -> Sorted:
    """Add up the log-odds of all cells that a call is in, as disclosed coins have them, and sort calls by the sum."""
    mine = of.roles == RANK
    score = np.zeros(len(of.chosen))
    for each in takes:
        zeros, ones = count_cells(each.at[mine], of.chosen[mine], pair, each.size)
        odds = np.log((ones + 1) / (zeros + 1))
        score += np.where(np.abs(odds) * np.sqrt(zeros + ones + 1.0) > 2, odds, 0.0)[each.at]  # noqa: PLR2004 - two errors
    cuts = np.unique(np.quantile(score, np.linspace(0, 1, LEVELS + 1)[1:-1], method="inverted_cdf"))
    return Sorted("a guesser learned from the text", np.searchsorted(cuts, score), LEVELS + 1)


def packed(calls: Sorted) -> Sorted:
    """Return the same in fewer bytes: there are hundreds of these."""
    return replace(calls, at=calls.at.astype(np.uint16 if calls.size <= 1 << 16 else np.uint32), cells=None)


def ways_apart(of: Sample) -> Iterator[Sorted]:
    """Sort calls in all the ways named above, but for those that put all calls into one cell."""
    return (each for each in _all_ways(of.said, of.responses) if (each.at != each.at[0]).any())


def _all_ways(said: Texts, responses: Reals) -> Iterator[Sorted]:
    widest = int(said.lengths.max(initial=0))
    places = LONG_PLACES if widest > PLACES and int(said.lengths.min(initial=widest)) == widest else PLACES
    yield from _places(said, min(places, widest))
    yield Sorted("length", np.minimum(said.lengths, 4095), 4096)
    yield Sorted("text", np.minimum(said.codes, 4095), 4096)
    yield from _characters(said)
    yield from _remainders(said)
    yield from _fields(said, responses)


def _places(said: Texts, width: int) -> Iterator[Sorted]:
    """Sort by the character at each place; by the point too, where there is one."""
    from_start, from_end = said.columns(width), said.columns(min(width, PLACES), from_end=True)
    for place in range(width):
        yield Sorted(f"character {place + 1}", from_start[:, place], 256)
    for place in range(from_end.shape[1]):
        yield Sorted(f"character {place + 1} from the end", from_end[:, place], 256)
    is_point = from_start[:, :PLACES] == ord(".")
    if is_point.any():
        point = np.where(is_point.any(axis=1), is_point.argmax(axis=1), -PLACES)
        for shift in AROUND:
            at = point + shift
            inside = (at >= 0) & (at < width) & (point >= 0)
            column = np.where(inside, from_start[np.arange(len(said)), np.where(inside, at, 0)], 0)
            yield Sorted(f"character {shift:+d} from the point", column, 256)


def _characters(said: Texts) -> Iterator[Sorted]:
    """Sort by how often each character occurs, and by whether that is odd; bits of a text, and spaces, too."""
    counts = said.counts()
    for byte in np.flatnonzero(counts.any(axis=0))[:64].tolist():
        count = counts[:, byte].astype(np.int64)
        name = f"how often {chr(byte)!r} occurs" if chr(byte).isprintable() else f"how often byte {byte} occurs"
        yield Sorted(name, np.minimum(count, MOST_CODES), MOST_CODES + 1)
        yield Sorted(f"{name}, odd or even", count & 1, 2)


def _remainders(said: Texts) -> Iterator[Sorted]:
    """Sort by the remainders of all digits of a text, read as one number, and of their sum."""
    width = min(int(said.lengths.max(initial=0)), 256)
    multiples = [int(np.lcm.reduce(moduli)) for moduli in MODULI]
    *values, total = np.zeros((len(multiples) + 1, len(said)), np.uint64)
    for start in range(0, width, 16):
        columns = said.columns(min(start + 16, width), start=start)
        for column in columns.T:
            digit = column - np.uint8(ord("0"))
            is_digit = digit < 10  # noqa: PLR2004 - it is unsigned
            for value, multiple in zip(values, multiples, strict=True):
                value[is_digit] = (value[is_digit] * np.uint64(10) + digit[is_digit]) % np.uint64(multiple)
            total += np.where(is_digit, digit, 0).astype(np.uint64)
    for moduli, value in zip(MODULI, values, strict=True):
        for modulus in moduli:
            yield Sorted(f"remainder by {modulus}", (value % np.uint64(modulus)).astype(np.int64), modulus)
    for modulus in (2, 4, 5, 8, 10):
        name = f"sum of digits modulo {modulus}"
        yield Sorted(name, (total % np.uint64(modulus)).astype(np.int64), modulus)


def _fields(said: Texts, responses: Reals) -> Iterator[Sorted]:
    """Sort by each number in a text."""
    for name, values in numbers_in(said, responses):
        yield from _of_numbers(name, values)


def steps(said: Texts, responses: Reals) -> Iterator[Sorted]:
    """Sort calls by how far each number in a text is from that in the text before: counters and sums that run on."""
    for name, values in numbers_in(said, responses):
        with np.errstate(invalid="ignore", over="ignore"):
            yield from _of_numbers(f"step of {name or 'the number, '}", np.diff(values, prepend=np.nan))


def numbers_in(said: Texts, responses: Reals) -> Iterator[tuple[str, Reals]]:
    """Yield the responses as numbers; where they are more than a number, each number in their texts."""
    if not np.isnan(responses).mean() > 0.01:  # noqa: PLR2004 - all but a few are numbers
        yield "", responses
        return
    count = min(len(said), FIELD_CALLS)
    found = (islice(NUMBER.finditer(said[i]), FIELDS) for i in range(count))
    rows = [[number(each.group()) for each in row] for row in found]
    for field in range(max(map(len, rows), default=0)):
        values = np.array([row[field] if field < len(row) else np.nan for row in rows] + [np.nan] * (len(said) - count))
        yield f"field {field + 1}, ", values


def _of_numbers(name: str, values: Reals) -> Iterable[Sorted]:
    for each in (size_bins(values), atoms(values), *low_bits(values)):
        yield replace(each, name=f"{name}{each.name}", cells=None)
    with np.errstate(invalid="ignore", over="ignore"):
        whole = np.where(np.abs(values) < 2.0**62, np.floor(values * 1.0), 0.0).astype(np.int64)
    for modulus in (2, 3, 5, 7, 16, 64):
        yield Sorted(f"{name}whole part modulo {modulus}", whole % modulus, modulus)
