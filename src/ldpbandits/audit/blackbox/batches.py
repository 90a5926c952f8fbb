"""Leaks at the end of a batch: its last response, to an observer who knows all rewards before it.

Noise may be balanced over a batch: ten flips in each hundred, or a sum that is 0. A batch may end with its sum, its
parity or its checksum. Then no few calls together tell anything, and all of them together tell the last reward. The
check discloses the coins of a batch up to its last, and guesses that one from

    its cell            and whether an odd number of rewards of the batch were the higher one
    a combination       of the sums over the batch, of coins, of halves of the noise and of numbers, and of the numbers
                        in its text, found by least squares

and from the same of the response that follows it. Batches have a fixed length, or end where a text has other signs than
most: both depend on responses and places only.

The rule is learned and chosen on coins of the first two thirds of the calls. Bets in the last third are fair, each
guess made of all responses and of coins before it (betting.py); how many there are may depend on coins.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.betting import Event, judge_bets
from ldpbandits.audit.blackbox.events import Sorted, size_bins
from ldpbandits.audit.blackbox.parity import halves
from ldpbandits.audit.blackbox.text import numbers_in
from ldpbandits.audit.guess import ABSTAIN, CellRule, best_rule, count_cells
from ldpbandits.audit.result import Counts, Finding, Reals
from ldpbandits.audit.sample import Sample
from ldpbandits.audit.texts import Texts, number

FEWEST = 150
"""Batches: fewer leave nothing to guess once something is learned."""
LONGEST = 1 << 10
"""Calls in the longest batch."""
ROUND = (72, 80, 90, 96, 100, 120, 128, 150, 192, 200, 250, 256, 300, 365, 400, 500, 512, 720, 1000, 1024)
LENGTHS = (*range(2, 65), *ROUND)
"""Calls in a batch, as somebody might choose them."""
OFFSETS = (0, 1)
"""A batch ends with the call before a multiple of its length, or with the one that is a multiple."""
FIELDS = 3
"""Numbers in a text that are added up."""
RIDGE = 1e-9
"""Added to the diagonal, as part of the variance: columns may be the same, and a combination may be exact."""
LARGEST = 1e15
"""Numbers beyond are no quantities, and leave no digits for a sum."""
THIRDS = 3
"""To learn and rank, to cut, and to stake on: by time."""
LAST = re.compile(rb"[-+]?\d+(?:\.\d+)?(?=\D*$)")
LAST_BYTES = 32
"""Bytes at the end of a text in which its last number is searched."""
PLAIN = np.array([chr(byte).isalnum() or chr(byte) in "+-." for byte in range(128)] + [True] * 128)
"""Bytes of numbers and names, which vary: how many others there are is what a text looks like."""

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Batches:
    """Where batches start and end, and what they are called."""

    name: str
    starts: Indices
    ends: Indices


def judge_batches(  # noqa: PLR0913, PLR0917 - what to guess, by which batches, and how sure to be
    sample: Sample, pair: tuple[int, int], cells: Sorted, lengths: Iterable[int], alpha: float, epsilon: float
) -> Finding:
    """Choose on earlier coins how to guess the last reward of a batch, and stake on the later ones."""
    best: tuple[float, CellRule, str, Counts] | None = None
    sums = _Sums(sample, pair, cells)
    for each in batches(sample, lengths):
        mine = np.isin(sample.chosen[each.ends], pair)
        ends = each.ends[mine]
        coins, third = (sample.chosen[ends] == pair[1]).astype(np.int64), ends * THIRDS // len(sample.chosen)
        for way in sums.ways(each.starts[mine], ends, coins, third):
            of = [count_cells(way.at[third == part], coins[third == part], (0, 1), way.size) for part in range(THIRDS)]
            rule, promise = best_rule(of[0], of[1], alpha)
            if best is None or promise > best[0]:
                best = promise, rule, f"the last of {each.name}, by {way.name}", of[2]
    if best is None:
        return Finding("not applicable", "there are too few calls for batches")
    _, rule, name, later = best
    right = int(later[0, rule == 0].sum() + later[1, rule == 1].sum())
    return judge_bets([[Event(name, right, int(later[:, rule != ABSTAIN].sum()) - right)]], epsilon, alpha)


def batches(sample: Sample, lengths: Iterable[int]) -> Iterator[Batches]:
    """Yield batches of each of these lengths, and those that end where a text is unlike most."""
    for length in lengths:
        for offset in OFFSETS if 1 < length <= LONGEST else ():
            is_end = (sample.place >= length - 1) & (sample.place % length == (length - 1 + offset) % length)
            ends = np.flatnonzero(is_end)
            if len(ends) >= FEWEST:
                yield Batches(f"{length} calls", ends - length + 1, ends)
    if len(sample.chosen) < FEWEST:
        return
    total = np.concatenate([[0], np.cumsum(~PLAIN[sample.said.data], dtype=np.int32)])
    signs = np.diff(total[np.append(0, sample.said.ends)])
    unlike = np.flatnonzero(signs != np.argmax(np.bincount(signs)))
    for before in OFFSETS:
        ends = unlike[unlike >= before] - before
        if FEWEST <= len(ends) <= len(sample.chosen) // 2:
            yield Batches("a batch that a text closes", np.append(0, ends[:-1] + 1), ends)


class _Sums:
    """Sums over batches, from running ones."""

    def __init__(self, sample: Sample, pair: tuple[int, int], cells: Sorted) -> None:
        self.cells = cells
        self.half = np.where(halves(sample, cells.at), 1.0, -1.0)
        is_high = sample.chosen == pair[1]
        side = is_high.astype(np.float64) - (sample.chosen == pair[0])
        self.high = _running(is_high.astype(np.float64))
        self.noise = _running(self.half * side)
        fields = [values for _, values in islice(numbers_in(sample.said, sample.responses), FIELDS)]
        if not fields or fields[0] is not sample.responses:  # else texts are numbers, and nothing but numbers
            fields.append(last_numbers(sample.said))
        self.fields = [_in_units(each) for each in fields]
        self.running = [_running(each) for each in self.fields]

    def ways(self, starts: Indices, ends: Indices, coins: Indices, third: Indices) -> Iterator[Sorted]:
        """Sort batches by what their ends, and the coins before these, tell of the last coin."""
        high = self.high[ends] - self.high[starts]
        noise = self.noise[ends] - self.noise[starts]
        columns = [high, noise, *(each[ends + 1] - each[starts] for each in self.running)]
        for after, name in enumerate(("the last response", "the one after it")):
            at = np.minimum(ends + after, len(self.half) - 1)
            half = self.half[at]
            columns += [half, half * noise, *(each[at] for each in self.fields)]
            parity = self.cells.at[at] * 2 + high.astype(np.int64) % 2
            yield Sorted(f"{name} and the parity of rewards", parity, 2 * self.cells.size)
        if (third == 0).sum() > len(columns):
            score = _most_like(np.stack(columns, axis=1), coins, third == 0)
            bins = size_bins(score[third < THIRDS - 1], ())  # later scores have later coins in them
            yield Sorted("a combination of sums", bins.cells(score), bins.size)


def last_numbers(said: Texts) -> Reals:
    """Return the last number in each text: where names vary, fields are best counted from the end."""
    found = (LAST.search(said[i][-LAST_BYTES:]) for i in range(len(said)))
    return np.array([np.nan if each is None else number(each.group()) for each in found], np.float64)


def _running(values: Reals) -> Reals:
    """Return the sum of all values before each, and of all."""
    return np.concatenate([[0.0], np.cumsum(values)])


def _in_units(values: Reals) -> Reals:
    """Return numbers in standard units, from 0 so that sums stay exact; what is none counts as 0."""
    with np.errstate(invalid="ignore"):
        good = np.where(np.abs(values) < LARGEST, values, 0.0)
    return np.asarray(good / (float(good.std()) or 1.0), np.float64)


def _most_like(columns: Reals, coins: Indices, mine: NDArray[np.bool_]) -> Reals:
    """Return the combination of columns that is nearest to the coins of some batches, for all of them."""
    columns = columns - columns[mine].mean(axis=0)
    columns /= np.maximum(columns[mine].std(axis=0), 1e-9)
    known = columns[mine]
    spread = known.T @ known + RIDGE * len(known) * np.eye(columns.shape[1])
    best = np.linalg.lstsq(spread, known.T @ (2.0 * coins[mine] - 1), rcond=None)[0]  # responses may all be the same
    return np.asarray(columns @ best, np.float64)
