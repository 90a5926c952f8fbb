"""Parity leaks within a text: several places that betray a reward together, where each alone does not.

    two places      the characters at any two of them
    a parity        each character counts as even or odd, in a way of its own at each place, and the text by their sum.
                    Each bit of a CRC is such a sum, so a CRC over the response and the reward gives the reward away

Which characters count as odd is found by elimination: one equation for each of some calls whose coins are disclosed,
some more of them than there are unknowns. If a parity tells all these coins, it solves them all, and by chance one does
so with probability 2^-64. With noise on it there is no solution, and nothing is found. The verdict is on other coins.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.blackbox.events import Sorted
from ldpbandits.audit.sample import RANK, Sample

PLACES = 32
"""Number of characters of a text that are tested in pairs."""
MOST_PLACES, MOST_UNKNOWN = 256, 1024
"""Limits of a parity: characters of a text, and unknowns (a character code at a place)."""
SPARE = 64
"""Number of equations beyond the number of unknowns."""

Bits = NDArray[np.bool_]


def together(sample: Sample, pair: tuple[int, int]) -> Iterator[Sorted]:
    """Sort calls by each two places of their texts, and by the parity that tells the coins that are disclosed."""
    said = sample.said
    columns = said.columns(min(int(said.lengths.max(initial=0)), MOST_PLACES))
    places = np.flatnonzero((columns != columns[0]).any(axis=0)).tolist()
    codes = {place: np.unique(columns[:, place], return_inverse=True) for place in places}
    for one, other in combinations(places[:PLACES], 2):
        wide = len(codes[other][0])
        at = codes[one][1] * wide + codes[other][1]
        yield Sorted(f"characters {one + 1} and {other + 1}", at, len(codes[one][0]) * wide)
    usual = said.lengths == np.argmax(np.bincount(said.lengths))  # places mean the same in texts of one length
    unknowns = [(place, code) for place in places for code in range(1, len(codes[place][0]))][:MOST_UNKNOWN]
    mine = np.flatnonzero(usual & (sample.roles == RANK) & np.isin(sample.chosen, pair))
    count = min(len(mine), len(unknowns) + 1 + SPARE)
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
    if rows < width + 1 + SPARE:
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
