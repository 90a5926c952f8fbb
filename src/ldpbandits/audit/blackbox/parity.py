"""Parity leaks: three or four responses that betray a reward by their parity, where any two of them do not.

Each response is one of two halves, by size or by text: +1 or -1. So is each coin that is disclosed. The product of a
response with those of two or three calls nearby, or with response and coin of such a call, may be like the coin of its
own call, always or at every m-th call. Which calls, and which m, is proposed by sums over disclosed coins, folded by m.
Calls are then sorted by that product and by their place modulo m. That is a function of all responses and of disclosed
coins, so that any rule made of it keeps its level (guess.py); only the best is tried on coins that are not disclosed.
"""

from collections.abc import Iterator
from itertools import combinations, product
from math import log

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.blackbox.events import Cells, Sorted
from ldpbandits.audit.result import Reals
from ldpbandits.audit.sample import TEST, Sample

TWO_REACH, THREE_REACH = 6, 4
"""Largest distance, in calls, of two other calls, and of three others."""
MAX_PERIOD_CALLS = 64
"""Longest period that is tried."""
SEARCHED = 1 << 16
"""Number of calls from which products are proposed."""
PROPOSED = 6
"""Number of products, each with a period, that are tried."""

Part = tuple[int, bool]
"""The offset of another call, and whether its coin is a factor of the product."""


def several(sample: Sample, pair: tuple[int, int], bins: Cells) -> Iterator[Sorted]:
    """Sort calls by the products that tell most on disclosed coins."""
    half = np.where(halves(sample, bins), 1.0, -1.0)
    side = (sample.chosen == pair[1]).astype(np.float64) - (sample.chosen == pair[0])
    side[sample.roles == TEST] = 0.0
    found: list[tuple[float, tuple[Part, ...], int]] = []
    first = slice(0, SEARCHED)
    few = {False: half[first], True: half[first] * side[first]}
    place = sample.place[first]
    for parts in _products():
        score, period = _best_period(_multiplied(few, parts) * side[first], place)
        found.append((score, parts, period))
    whole = {False: half, True: half * side}
    for _, parts, period in sorted(found, reverse=True)[:PROPOSED]:
        signs = _multiplied(whole, parts)
        at = np.where(signs == 0, -1, (sample.place % period) * 2 + (signs > 0))
        yield Sorted(f"the parity of the response and those {_where(parts)}", at.astype(np.int64), 2 * period)


def _products() -> Iterator[tuple[Part, ...]]:
    """Yield two calls nearby, each with its coin or without, and three without."""
    for shifts in combinations(_around(TWO_REACH), 2):
        for coins in product((False, True), repeat=2):
            yield tuple(zip(shifts, coins, strict=True))
    for three in combinations(_around(THREE_REACH), 3):
        yield tuple((shift, False) for shift in three)


def _around(reach: int) -> list[int]:
    return [shift for shift in range(-reach, reach + 1) if shift]


def _where(parts: tuple[Part, ...]) -> str:
    return ", ".join(f"{shift:+d}" for shift, _ in parts) + " calls away"


def halves(sample: Sample, bins: Cells) -> NDArray[np.bool_]:
    """Cut responses in two, as evenly as they allow: by size if they are numbers, else by their cells."""
    if np.isfinite(sample.responses).all():
        values, at = np.unique(sample.responses, return_inverse=True)
        bins = at if len(values) > 1 else bins
    counts = np.cumsum(np.bincount(bins))
    return np.asarray(bins > int(np.argmin(np.abs(counts - len(bins) / 2))), np.bool_)


def _multiplied(signs: dict[bool, Reals], parts: tuple[Part, ...]) -> Reals:
    """Multiply each response with those of other calls, some with their coins."""
    total = signs[False]
    for shift, with_coin in parts:
        total = total * np.roll(signs[with_coin], -shift)
    return total


def _best_period(signal: Reals, place: NDArray[np.int64]) -> tuple[float, int]:
    """Return the period at one place of which a sum of signs is largest, in standard errors, and how large it is."""
    totals = np.bincount(place, signal).astype(np.float64)
    known = max(1, int(np.count_nonzero(signal)))
    scores = [fold_score(fold, known) for fold in folds(totals)]
    best = int(np.argmax(scores))
    return scores[best], best + 1


def folds(totals: Reals) -> list[Reals]:
    """Fold by every period, each from the sums by a multiple of it, which are fewer.

    Of the longer half, two periods next to each other share their product: long rows are added faster than short ones.
    """
    found: dict[int, Reals] = {}
    for period in range(MAX_PERIOD_CALLS, 0, -1):
        if (multiple := MAX_PERIOD_CALLS // period * period) > period:
            found[period] = folded(found[multiple], period)
            continue
        even = period + period % 2
        if period == even or not found:
            shared = folded(totals, even * (even - 1))
        found[period] = folded(shared, period)
    return [found[period] for period in range(1, MAX_PERIOD_CALLS + 1)]


def fold_score(fold: Reals, known: int) -> float:
    """Return how far the largest sum at one place of a period is from 0: its square in standard errors, less for many.

    The sums, by place, are of `known` numbers of mean 0 and variance 1.
    """
    return float(np.abs(fold).max()) ** 2 * len(fold) / known - 2 * log(len(fold))


def folded(values: Reals, period: int) -> Reals:
    """Add up the values that are a whole number of periods apart."""
    whole = len(values) // period * period
    total = values[:whole].reshape(-1, period).sum(axis=0)
    total[: len(values) - whole] += values[whole:]
    return np.asarray(total, np.float64)
