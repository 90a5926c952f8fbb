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

The weights are fitted to disclosed coins; for windows to coins that had no part in the odds. The sum is a function of
all responses and of disclosed coins, so the inequality holds for whatever is guessed by it (guess.py).
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.blackbox.events import Cells, Sorted, size_bins
from ldpbandits.audit.blackbox.text import numbers_in
from ldpbandits.audit.guess import count_cells
from ldpbandits.audit.result import Reals
from ldpbandits.audit.sample import CUT, RANK, TEST, Sample

NUMBERS_REACH = 4
"""Number of calls before and after a response."""
NUMBERS_RIDGE = 1e-9
"""Added to the diagonal, as part of the variance: columns may be the same, and a combination may be exact."""
LARGEST = 1e15
"""Larger numbers are identifiers rather than quantities, and leave no digits for a sum."""
MOST_MISSING = 0.05
"""A field that is missing in more of the texts is left out."""
WINDOW_REACH = 8
"""Number of calls before and after that are in a window."""
WINDOW_RIDGE = 1e-3
"""Added to the diagonal, as part of the variance: columns may be the same."""
ERRORS = 2.0
"""Odds within this number of standard errors of those of the response alone count as equal to them."""
TAIL = 0.005
"""Differences are cut off at these quantiles."""


def sort_by_sums(sample: Sample, pair: tuple[int, int]) -> Iterator[Sorted]:
    """Sort calls by the combination of numbers, at this call alone and around it, that is most like the coin."""
    fields = list(_fields(sample))
    if not fields:
        return
    mine = (sample.roles == RANK) & np.isin(sample.chosen, pair)
    coins = np.where(sample.chosen[mine] == pair[1], 1.0, -1.0)
    around = [np.roll(field, -shift) for field in fields for shift in range(-NUMBERS_REACH, NUMBERS_REACH + 1)]
    for name, columns in (("in a response", fields), ("around a response", around)):
        if len(columns) > 1 and mine.any():
            told = f"a combination of numbers {name}"
            yield _by_least_squares(told, np.stack(columns, axis=1), mine, coins, NUMBERS_RIDGE)


def _fields(sample: Sample) -> Iterator[Reals]:
    """Yield the numbers of all texts, field by field, in standard units; a missing one is 0."""
    for _, values in numbers_in(sample.said, sample.responses):
        with np.errstate(invalid="ignore"):
            is_good = np.abs(values) < LARGEST
        if is_good.mean() > 1 - MOST_MISSING and values[is_good].std() > 0:
            yield np.where(is_good, (values - values[is_good].mean()) / values[is_good].std(), 0.0)


def _by_least_squares(name: str, columns: Reals, mine: NDArray[np.bool_], coins: Reals, ridge: float) -> Sorted:
    """Sort all calls by the combination of columns that is nearest to the coins of some calls."""
    known = columns[mine] - columns[mine].mean(axis=0)
    spread = known.T @ known
    spread += np.diag(ridge * np.diag(spread) + 1e-9)
    score = np.asarray(columns @ np.linalg.solve(spread, known.T @ coins), np.float64)
    bins = size_bins(score, ())
    return Sorted(name, bins.cells(score), bins.size)


def sort_by_window(sample: Sample, pair: tuple[int, int], own: Sorted, beside: Sequence[Sorted]) -> Sorted:
    """Sort calls by what is learned from their windows: `own` are their responses in cells, `beside` their neighbours'.

    The cells of `beside` must each lie within one of `own`, as many to each.
    """
    mine = (sample.roles == CUT) & np.isin(sample.chosen, pair)
    if not mine.any():  # so few calls that there is nothing to learn from
        return Sorted("a guesser learned from the calls around", np.zeros(len(mine), np.int64), 1)
    columns = np.stack([*_odds(sample, pair, own, beside), *_differences(sample), *_coins(sample, pair)], axis=1)
    coins = np.where(sample.chosen[mine] == pair[1], 1.0, -1.0)
    return _by_least_squares("a guesser learned from the calls around", columns, mine, coins, WINDOW_RIDGE)


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
