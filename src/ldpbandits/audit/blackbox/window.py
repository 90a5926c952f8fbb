"""Leaks in a window: a guesser learned from all calls around a response together.

Two neighbours may each tell what epsilon allows, and together twice that: a reward that enters two responses, an
average over a few calls, a sum that runs on. So evidence is added up over the window. For each call there are

    odds            what its own response, and response and coin of each neighbour beside it, say for either reward, as
                    disclosed coins have it
    differences     the numbers of the window, from their mean: a sum that runs on has no size, but it has steps
    coins           of the neighbours, where they are disclosed

and least squares finds how to add them up, on disclosed coins that had no part in the odds. The sum is a function of
all responses and of disclosed coins, so the inequality holds for whatever is guessed by it (guess.py).
"""

from collections.abc import Iterator, Sequence

import numpy as np

from ldpbandits.audit.blackbox.events import Cells, Sorted, size_bins
from ldpbandits.audit.guess import count_cells
from ldpbandits.audit.result import Reals
from ldpbandits.audit.sample import CUT, RANK, TEST, Sample

REACH = 8
"""Number of calls before and after that are in a window."""
RIDGE = 1e-3
"""Added to the diagonal, as part of the variance: columns may be the same."""
ERRORS = 2.0
"""Odds within this number of standard errors of those of the response alone count as equal to them."""
TAIL = 0.005
"""Differences are cut off at these quantiles."""


def learned_window(sample: Sample, pair: tuple[int, int], own: Sorted, beside: Sequence[Sorted]) -> Sorted:
    """Sort calls by what is learned from their windows: `own` are their responses in cells, `beside` their neighbours'.

    The cells of `beside` must each lie within one of `own`, as many to each.
    """
    mine = (sample.roles == CUT) & np.isin(sample.chosen, pair)
    if not mine.any():  # so few calls that there is nothing to learn from
        return Sorted("a guesser learned from the calls around", np.zeros(len(mine), np.int64), 1)
    columns = np.stack([*_odds(sample, pair, own, beside), *_differences(sample), *_coins(sample, pair)], axis=1)
    coins = np.where(sample.chosen[mine] == pair[1], 1.0, -1.0)
    known = columns[mine].astype(np.float64)
    known -= known.mean(axis=0)
    spread = known.T @ known
    spread += np.diag(RIDGE * np.diag(spread) + 1e-9)
    score = columns @ np.linalg.solve(spread, known.T @ coins)
    bins = size_bins(score, ())
    return Sorted("a guesser learned from the calls around", bins.cells(score), bins.size)


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
    window = [np.roll(values, -shift) for shift in range(-REACH, REACH + 1)]
    mean = np.mean(window, axis=0)
    for each in window:
        low, high = np.quantile(each - mean, (TAIL, 1 - TAIL))
        yield np.clip(each - mean, low, high) / ((high - low) or 1.0)


def _coins(sample: Sample, pair: tuple[int, int]) -> Iterator[Reals]:
    """Yield the coins of the neighbours, as far as they are disclosed."""
    side = (sample.chosen == pair[1]).astype(np.float64) - (sample.chosen == pair[0])
    known = np.where(sample.roles == TEST, 0.0, side)
    for shift in range(1, REACH + 1):
        yield np.roll(known, shift)
        yield np.roll(known, -shift)
