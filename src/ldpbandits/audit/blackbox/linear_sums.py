"""Linear leaks: a weighted sum over a response and the calls around it, found by least squares, betrays the reward.

NUMBERS. A response may give its noise away later, or in another field, in other units: then some combination of two
numbers is the reward itself, though each of them is private. The columns are the numbers in the text of a call and in
those of the calls around it.

WINDOWS. Two neighbours may each tell what epsilon allows, and together twice that: a reward that enters two responses,
an average over a few calls, a running sum. The columns add up the evidence of a window:

    odds            what its own response, and response and coin of each neighbour beside it, say for either reward, as
                    disclosed coins have it
    differences     the numbers of the window, from their mean: a running sum has no size, but it has steps
    coins           of the neighbours, where they are disclosed

BATCHES. Noise may be balanced over a batch: ten flips in each hundred, or a sum that is 0. A batch may end with its
sum, its parity or its checksum. Then no few calls together tell anything, and all of them together tell the last reward
to an observer who knows all rewards before it. It is guessed from its cell and the parity of these rewards, and from a
combination of sums over the batch: of coins, of halves of the noise, of the numbers in its texts. Batches have a fixed
length, or end where a text has other signs than most: both depend on responses and places only.

The weights are fitted to disclosed coins; for windows to coins that had no part in the odds; for batches to those of
the first third of the calls. The sum is a function of all responses and of disclosed coins, so the inequality holds for
whatever is guessed by it (guess.py). The last reward of a batch is guessed with all coins before it: how many guesses
there are may depend on coins, so that they are stakes (betting.py).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.blackbox.events import Cells, Sorted, Way, judge_ways, size_bins
from ldpbandits.audit.blackbox.parity import halves
from ldpbandits.audit.blackbox.text import numbers_in
from ldpbandits.audit.guess import count_cells
from ldpbandits.audit.result import Finding, Reals
from ldpbandits.audit.sample import CUT, RANK, ROLES, TEST, Sample
from ldpbandits.audit.texts import Texts, number

NUMBERS_REACH = 4
"""Number of calls before and after a response."""
RIDGE, WINDOW_RIDGE = 1e-9, 1e-3
"""Added to the diagonal, as part of the variance: columns may be the same. Combinations of numbers may be exact."""
LARGEST = 1e15
"""Larger numbers are identifiers rather than quantities, and leave no digits for a sum."""
MOST_MISSING = 0.05
"""A field that is missing in more of the texts is left out."""
WINDOW_REACH = 8
"""Number of calls before and after that are in a window."""
ERRORS = 2.0
"""Odds within this number of standard errors of those of the response alone count as equal to them."""
TAIL = 0.005
"""Differences are cut off at these quantiles."""
FEWEST = 150
"""Batches: fewer leave nothing to guess once something is learned."""
LENGTHS = (*range(2, 73), 80, 90, 96, 100, 120, 128, 150, 192, 200, 250, 256, 300, 365, 400, 500, 512, 720, 1000, 1024)
"""Calls in a batch, or in a period, as somebody might choose them; none is longer than the last."""
FIELDS = 3
"""Numbers in a text that are added up."""
LAST = re.compile(rb"[-+]?\d+(?:\.\d+)?(?=\D*$)")
LAST_BYTES = 32
"""Bytes at the end of a text in which its last number is searched."""
PLAIN = np.array([chr(byte).isalnum() or chr(byte) in "+-." for byte in range(128)] + [True] * 128)
"""Bytes of numbers and names, which vary: how many others there are is what a text looks like."""


def sort_by_sums(sample: Sample, pair: tuple[int, int]) -> Iterator[Sorted]:
    """Sort calls by the combination of numbers, at this call alone and around it, that is most like the coin."""
    fields = list(_fields(sample))
    if not fields:
        return
    mine = (sample.roles == RANK) & np.isin(sample.chosen, pair)
    coins = sample.chosen == pair[1]
    around = [np.roll(field, -shift) for field in fields for shift in range(-NUMBERS_REACH, NUMBERS_REACH + 1)]
    for name, columns in (("in a response", fields), ("around a response", around)):
        if len(columns) > 1 and mine.any():
            told = f"a combination of numbers {name}"
            score = combined(np.stack(columns, axis=1), coins, mine, RIDGE)
            yield replace(size_bins(score), name=told, cells=None)


def _fields(sample: Sample) -> Iterator[Reals]:
    """Yield the numbers of all texts, field by field."""
    for _, values in numbers_in(sample.said, sample.responses):
        if _are_quantities(values).mean() > 1 - MOST_MISSING and np.ptp(in_units(values)) > 0:
            yield in_units(values)


def _are_quantities(values: Reals) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(values) < LARGEST, np.bool_)


def in_units(values: Reals) -> Reals:
    """Return numbers in standard units, from 0 so that sums stay exact; what is no quantity counts as their mean."""
    is_good = _are_quantities(values)
    good = values[is_good] if is_good.any() else np.zeros(1)
    return np.asarray(np.where(is_good, values, good.mean()) / (good.std() or 1.0), np.float64)


def combined(columns: Reals, coins: NDArray[np.bool_], mine: NDArray[np.bool_], ridge: float) -> Reals:
    """Return the combination of columns, over all rows, that is nearest to the coins of some of them."""
    columns = columns - columns[mine].mean(axis=0)
    columns /= np.maximum(columns[mine].std(axis=0), 1e-9)
    known = columns[mine]
    spread = known.T @ known + ridge * len(known) * np.eye(columns.shape[1])
    # Not solve: responses may all be the same.
    weights = np.linalg.lstsq(spread, known.T @ np.where(coins[mine], 1.0, -1.0), rcond=None)[0]
    return np.asarray(columns @ weights, np.float64)


def sort_by_window(sample: Sample, pair: tuple[int, int], own: Sorted, beside: Sequence[Sorted]) -> Sorted:
    """Sort calls by what is learned from their windows: `own` are their responses in cells, `beside` their neighbours'.

    The cells of `beside` must each lie within one of `own`, as many to each.
    """
    mine = (sample.roles == CUT) & np.isin(sample.chosen, pair)
    if not mine.any():  # so few calls that there is nothing to learn from
        return Sorted("a guesser learned from the calls around", np.zeros(len(mine), np.int64), 1)
    columns = np.stack([*_odds(sample, pair, own, beside), *_differences(sample), *_coins(sample, pair)], axis=1)
    score = combined(columns, sample.chosen == pair[1], mine, WINDOW_RIDGE)
    return replace(size_bins(score), name="a guesser learned from the calls around", cells=None)


def _odds(sample: Sample, pair: tuple[int, int], own: Sorted, beside: Sequence[Sorted]) -> Iterator[Reals]:
    """Yield the log-odds of each call by its response alone, and what each neighbour adds to them."""
    alone, _ = _counted(sample, pair, own.at, own.size)
    yield alone[own.at]
    for each in beside:
        odds, counts = _counted(sample, pair, each.at, each.size)
        more = odds.reshape(own.size, -1) - alone[:, None]
        more = np.where(np.abs(more.ravel()) * np.sqrt(counts) > ERRORS * 2, more.ravel(), 0.0)
        yield np.where(each.at >= 0, more[each.at], 0.0)


def _counted(sample: Sample, pair: tuple[int, int], at: Cells, size: int) -> tuple[Reals, Reals]:
    """Return the log-odds of each cell, and how many disclosed coins they rest on."""
    mine = (sample.roles == RANK) & (at >= 0)
    zeros, ones = count_cells(at[mine], sample.chosen[mine], pair, size)
    return np.log((ones + 1) / (zeros + 1)), (zeros + ones).astype(np.float64)


def _differences(sample: Sample) -> Iterator[Reals]:
    """Yield the numbers of each window, from their mean; nothing if responses are no numbers."""
    values = sample.responses
    if not np.isfinite(values).all() or np.abs(values).max(initial=0) > 1e100:  # noqa: PLR2004 - squares are finite
        return
    window = [np.roll(values, -shift) for shift in range(-WINDOW_REACH, WINDOW_REACH + 1)]
    mean = np.mean(window, axis=0)
    for each in window:
        low, high = np.quantile(each - mean, (TAIL, 1 - TAIL))
        yield np.clip(each - mean, low, high) / ((high - low) or 1.0)


def _coins(sample: Sample, pair: tuple[int, int]) -> Iterator[Reals]:
    """Yield the coins of the neighbours, as far as they are disclosed."""
    side = (sample.chosen == pair[1]).astype(np.float64) - (sample.chosen == pair[0])
    known = np.where(sample.roles == TEST, 0.0, side)
    for shift in range(1, WINDOW_REACH + 1):
        yield np.roll(known, shift)
        yield np.roll(known, -shift)


@dataclass(frozen=True)
class Batches:
    """Where batches start and end, and what they are called."""

    name: str
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


def judge_batches(  # noqa: PLR0913, PLR0917 - what to guess, by which batches, and how sure to be
    sample: Sample, pair: tuple[int, int], cells: Sorted, lengths: Iterable[int], alpha: float, epsilon: float
) -> Finding:
    """Choose on earlier coins how to guess the last reward of a batch, and stake on the later ones."""
    sums = _Sums(sample, pair, cells)
    ways = (way for each in batches(sample, lengths) for way in sums.ways(each))
    return judge_ways(ways, alpha, epsilon, is_in_order=True)


def batches(sample: Sample, lengths: Iterable[int]) -> Iterator[Batches]:
    """Yield batches of each of these lengths, and those that end where a text is unlike most."""
    for length in lengths:
        # A batch ends with the call before a multiple of its length, or with the one that is a multiple.
        for offset in (0, 1) if 1 < length <= LENGTHS[-1] else ():
            is_end = (sample.place >= length - 1) & (sample.place % length == (length - 1 + offset) % length)
            ends = np.flatnonzero(is_end)
            if len(ends) >= FEWEST:
                yield Batches(f"{length} calls", ends - length + 1, ends)
    if len(sample.chosen) < FEWEST:
        return
    total = np.concatenate([[0], np.cumsum(~PLAIN[sample.said.data], dtype=np.int32)])
    signs = np.diff(total[np.append(0, sample.said.ends)])
    unlike = np.flatnonzero(signs != np.argmax(np.bincount(signs)))
    for before in (0, 1):
        ends = unlike[unlike >= before] - before
        if FEWEST <= len(ends) <= len(sample.chosen) // 2:
            yield Batches("a batch that a text closes", np.append(0, ends[:-1] + 1), ends)


class _Sums:
    """Sums over batches, from running ones."""

    def __init__(self, sample: Sample, pair: tuple[int, int], cells: Sorted) -> None:
        self.sample, self.pair, self.cells = sample, pair, cells
        self.half = np.where(halves(sample, cells.at), 1.0, -1.0)
        is_high = sample.chosen == pair[1]
        side = is_high.astype(np.float64) - (sample.chosen == pair[0])
        self.high = _running(is_high.astype(np.float64))
        self.noise = _running(self.half * side)
        fields = [values for _, values in islice(numbers_in(sample.said, sample.responses), FIELDS)]
        if not fields or fields[0] is not sample.responses:  # else texts are numbers, and nothing but numbers
            fields.append(last_numbers(sample.said))
        self.fields = [in_units(each) for each in fields]
        self.running = [_running(each) for each in self.fields]

    def ways(self, each: Batches) -> Iterator[Way]:
        """Sort batches by what their ends, and the coins before these, tell of the last coin."""
        mine = np.isin(self.sample.chosen[each.ends], self.pair)
        starts, ends = each.starts[mine], each.ends[mine]
        last = self.sample.some(ends, ends * ROLES // len(self.half))  # by time: to rank, to cut, and to stake on
        high = self.high[ends] - self.high[starts]
        noise = self.noise[ends] - self.noise[starts]
        columns = [high, noise, *(sums[ends + 1] - sums[starts] for sums in self.running)]
        for after, name in enumerate(("the last response", "the one after it")):
            at = np.minimum(ends + after, len(self.half) - 1)
            half = self.half[at]
            columns += [half, half * noise, *(field[at] for field in self.fields)]
            parity = self.cells.at[at] * 2 + high.astype(np.int64) % 2
            told = f"the last of {each.name}, by {name} and the parity of rewards"
            yield Sorted(told, parity, 2 * self.cells.size), last, [self.pair]
        mine = last.roles == RANK
        if mine.sum() > len(columns):
            score = combined(np.stack(columns, axis=1), last.chosen == self.pair[1], mine, RIDGE)
            bins = size_bins(score, like=score[last.roles != TEST])  # later scores have later coins in them
            told = f"the last of {each.name}, by a combination of sums"
            yield replace(bins, name=told, cells=None), last, [self.pair]


def last_numbers(said: Texts) -> Reals:
    """Return the last number in each text: where names vary, fields are best counted from the end."""
    found = (LAST.search(said[i][-LAST_BYTES:]) for i in range(len(said)))
    return np.array([np.nan if each is None else number(each.group()) for each in found], np.float64)


def _running(values: Reals) -> Reals:
    """Return the sum of all values before each, and of all."""
    return np.concatenate([[0.0], np.cumsum(values)])
