"""Linear leaks: a linear combination of the numbers in a response, and in the calls around it, betrays the reward.

A response may give its noise away later, or in another field, in other units: then some combination of two numbers is
the reward itself, though each of them is private. For each call there are the numbers in its own text and in those of
the calls around, and least squares finds, on disclosed coins, which combination of them is most like the coin. Calls
are sorted by it. It is a function of all responses and of disclosed coins, so the inequality holds for whatever is
guessed by it (guess.py).
"""

from collections.abc import Iterator

import numpy as np

from ldpbandits.audit.blackbox.events import Sorted, size_bins
from ldpbandits.audit.blackbox.text import numbers_in
from ldpbandits.audit.result import Reals
from ldpbandits.audit.sample import RANK, Sample

REACH = 4
"""Number of calls before and after a response."""
RIDGE = 1e-9
"""Added to the diagonal, as part of the variance: columns may be the same, and a combination may be exact."""
LARGEST = 1e15
"""Larger numbers are identifiers rather than quantities, and leave no digits for a sum."""
MOST_MISSING = 0.05
"""A field that is missing in more of the texts is left out."""


def combined(sample: Sample, pair: tuple[int, int]) -> Iterator[Sorted]:
    """Sort calls by the combination of numbers, at this call alone and around it, that is most like the coin."""
    fields = list(_fields(sample))
    if not fields:
        return
    mine = (sample.roles == RANK) & np.isin(sample.chosen, pair)
    coins = np.where(sample.chosen[mine] == pair[1], 1.0, -1.0)
    around = [np.roll(field, -shift) for field in fields for shift in range(-REACH, REACH + 1)]
    for name, columns in (("in a response", fields), ("around a response", around)):
        if len(columns) > 1 and mine.any():
            score = _most_like(np.stack(columns, axis=1), mine, coins)
            bins = size_bins(score, ())
            yield Sorted(f"a combination of numbers {name}", bins.cells(score), bins.size)


def _fields(sample: Sample) -> Iterator[Reals]:
    """Yield the numbers of all texts, field by field, in standard units; a missing one is 0."""
    for _, values in numbers_in(sample.said, sample.responses):
        with np.errstate(invalid="ignore"):
            is_good = np.abs(values) < LARGEST
        if is_good.mean() > 1 - MOST_MISSING and values[is_good].std() > 0:
            yield np.where(is_good, (values - values[is_good].mean()) / values[is_good].std(), 0.0)


def _most_like(columns: Reals, mine: Reals, coins: Reals) -> Reals:
    """Return the combination of columns that is nearest to the coins of some calls, for all calls."""
    known = columns[mine]
    known = known - known.mean(axis=0)
    spread = known.T @ known
    spread += np.diag(RIDGE * np.diag(spread) + 1e-9)
    return np.asarray(columns @ np.linalg.solve(spread, known.T @ coins), np.float64)
