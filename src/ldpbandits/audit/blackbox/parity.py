"""Parity leaks: several responses, or several characters of one, that betray a reward together and not one by one.

CALLS. Each response is one of two halves, by size or by text: +1 or -1. Each disclosed coin is one of them, too. The
product of a response with those of two or three calls nearby, or with response and coin of such a call, may be like the
coin of its own call, always or at every m-th call. Sums over disclosed coins, folded by m, propose which calls and
which m. Calls are then sorted by that product and by their place modulo m, a function of all responses and of disclosed
coins, so any rule made of it keeps its level (guess.py); only the best is tried on coins that are not disclosed.

TEXT. Calls are sorted by the characters at any two places, and by a parity: each character counts as even or odd, in a
way of its own at each place, and the text by their sum. Each bit of a CRC is such a sum, so a CRC over the response and
the reward gives the reward away. Which characters count as odd is found by elimination: one equation for each of some
calls whose coins are disclosed, some more of them than there are unknowns. A parity that tells all these coins solves
them all, and by chance one does so with probability 2^-64. With noise on it there is no solution. The verdict is on
other coins.
"""

from collections.abc import Iterator
from itertools import combinations, product
from math import log

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.blackbox.events import Cells, Sorted
from ldpbandits.audit.result import Reals
from ldpbandits.audit.sample import RANK, TEST, Sample

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
PAIRED_PLACES = 32
"""Number of characters of a text that are tested in pairs."""
PARITY_PLACES, PARITY_UNKNOWNS = 256, 1024
"""Limits of a parity: characters of a text, and unknowns (a character code at a place)."""
SPARE_EQUATIONS = 64
"""Number of equations beyond the number of unknowns."""
Bits = NDArray[np.bool_]


def sort_by_parity(sample: Sample, pair: tuple[int, int], bins: Cells) -> Iterator[Sorted]:
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
    scores = [fold_score(folded(totals, period), known) for period in range(1, MAX_PERIOD_CALLS + 1)]
    best = int(np.argmax(scores))
    return scores[best], best + 1


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


def sort_by_characters(sample: Sample, pair: tuple[int, int]) -> Iterator[Sorted]:
    """Sort calls by each two places of their texts, and by the parity that tells the coins that are disclosed."""
    said = sample.said
    columns = said.columns(min(int(said.lengths.max(initial=0)), PARITY_PLACES))
    places = np.flatnonzero((columns != columns[0]).any(axis=0)).tolist()
    codes = {place: np.unique(columns[:, place], return_inverse=True) for place in places}
    for one, other in combinations(places[:PAIRED_PLACES], 2):
        wide = len(codes[other][0])
        at = codes[one][1] * wide + codes[other][1]
        yield Sorted(f"characters {one + 1} and {other + 1}", at, len(codes[one][0]) * wide)
    usual = said.lengths == np.argmax(np.bincount(said.lengths))  # places mean the same in texts of one length
    unknowns = [(place, code) for place in places for code in range(1, len(codes[place][0]))][:PARITY_UNKNOWNS]
    mine = np.flatnonzero(usual & (sample.roles == RANK) & np.isin(sample.chosen, pair))
    count = min(len(mine), len(unknowns) + 1 + SPARE_EQUATIONS)
    mine = mine[
        np.arange(count) * len(mine) // max(count, 1)
    ]  # from all over: a counter has its last digits only, at first
    table = np.array([codes[place][1][mine] == code for place, code in unknowns], np.bool_).reshape(-1, len(mine))
    parity = solve(table.T, sample.chosen[mine] == pair[1])
    if parity is not None:
        total = np.zeros(len(columns), np.bool_)
        for number in np.flatnonzero(parity).tolist():
            place, code = unknowns[number]
            total ^= codes[place][1] == code
        yield Sorted("the parity of characters", np.where(usual, total, -1).astype(np.int64), 2)


def solve(bits: Bits, coins: Bits) -> Bits | None:
    """Return which columns have the coins as their exclusive or, up to a constant; None if none have."""
    rows, width = bits.shape
    if rows < width + 1 + SPARE_EQUATIONS:
        return None
    table = np.column_stack([bits, np.ones(rows, np.bool_), coins])
    pivots: list[int] = []
    for column in range(width + 1):
        below = np.flatnonzero(table[len(pivots) :, column])
        if not len(below):
            continue
        row = len(pivots)
        table[[row, row + below[0]]] = table[[row + below[0], row]]
        others = table[:, column].copy()
        others[row] = False
        table[others] ^= table[row]
        pivots.append(column)
    if table[len(pivots) :, -1].any():
        return None
    parity = np.zeros(width + 1, np.bool_)
    parity[pivots] = table[: len(pivots), -1]
    return parity[:-1] if parity[:-1].any() else None
