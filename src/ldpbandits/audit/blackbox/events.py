"""Which responses give the reward away: an event chosen on some of them, tested on the others.

A response is sorted into cells: by its size, its value, its low-order bits. For every way of sorting and every pair of
rewards, the coins that are disclosed give a rule for guessing (guess.py). Only the rule that promises most there is
tried on the other coins, so that the number of rules costs nothing. Cells may depend on all responses, and on coins
that are disclosed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.betting import Event, judge_bets
from ldpbandits.audit.guess import CellRule, best_rule, count_cells, try_rule
from ldpbandits.audit.result import LOWEST_BIT, Counts, Finding, Profile, Reals, middles
from ldpbandits.audit.sample import CUT, RANK, ROLES, TEST, Sample

Cells: TypeAlias = NDArray[np.integer[Any]]

BINS = 128
TAIL = 20
"""No bin in a tail is expected to hold fewer responses than these."""
ATOMS = 4096
"""At most this many values get a cell of their own."""
OFTEN = 10
"""A value needs this many responses to get a cell of its own."""
MANTISSA = 53
"""Bits in the mantissa of a double."""
LOWEST = 1100
"""Lowest bits lie from -1074 to 1023; shifted by this they are cells, and the last cell is for 0, NaN and infinity."""
BINADES = 12
"""Powers of two on either side of 1 that are told apart; those beyond share a cell."""
FINEST = -53
"""A uniform double is a multiple of 2^-53, and so is what inverse-CDF noise adds to a reward of 1."""
FEW_VALUES = 64
"""Up to this many values are drawn one by one."""


@dataclass(frozen=True, slots=True)
class Sorted:
    """Calls that are sorted into cells numbered from 0, by whatever."""

    name: str
    at: Cells
    """The cell of each call; below 0 if no guess is to be made there."""
    size: int
    cells: Callable[[Reals], Cells] | None = None
    """Sorts later calls in the same way, by their responses as numbers; None if that is not possible."""


Way: TypeAlias = tuple[Sorted, Sample, Sequence[tuple[int, int]]]
"""Calls that are sorted, the sample that they are of, and the pairs of rewards between which to guess."""


def size_bins(responses: Reals, rewards: Sequence[float] = (), *, like: Reals | None = None) -> Sorted:
    """Sort by size into bins of about equal weight, of these or of others like them.

    They are cut at the rewards too: Laplace ratios are extreme from there outwards. In both tails bins of half the
    weight follow, down to some twenty responses. If noise is cut off somewhere, it shows in the last of them: there
    only one reward leads.
    """
    given = responses if like is None else like
    finite = given[np.isfinite(given)]
    tails = 0.5 ** np.arange(1, (len(finite) // TAIL).bit_length())
    levels = np.concatenate([np.arange(1, BINS) / BINS, tails, 1 - tails])
    quantiles = np.quantile(finite, levels, method="inverted_cdf") if len(finite) else np.zeros(0)
    cuts = np.unique(np.concatenate([quantiles, np.asarray(rewards, np.float64)]))

    def cells(others: Reals) -> Cells:
        return np.searchsorted(cuts, others).astype(np.int64)

    return Sorted("size", cells(responses), len(cuts) + 1, cells)


def atoms(responses: Reals) -> Sorted:
    """Each value that occurs often is a cell; all others share the last. Values are told apart by bits: -0 is not 0."""
    values, counts = np.unique(_bits(responses), return_counts=True)
    often = counts >= max(OFTEN, np.sort(counts)[-ATOMS:][0])
    frequent = values[often]

    def cells(others: Reals) -> Cells:
        if not len(frequent):
            return np.zeros(len(others), np.int64)
        bits = _bits(others)
        at = np.minimum(np.searchsorted(frequent, bits), len(frequent) - 1)
        return np.where(frequent[at] == bits, at, len(frequent)).astype(np.int64)

    return Sorted("value", cells(responses), len(frequent) + 1, cells)


def _bits(responses: Reals) -> Cells:
    """Return the 64 bits of each response as an integer."""
    return np.ascontiguousarray(responses).view(np.int64)


def _parts(responses: Reals) -> tuple[Cells, Cells, Cells, NDArray[np.bool_]]:
    """Return exponent, mantissa as an integer, its trailing zeros, and which responses have none of these."""
    plain = np.isfinite(responses) & (responses != 0)
    fraction, exponent = np.frexp(np.where(plain, responses, 1.0))
    mantissa = np.abs(fraction * 2.0**MANTISSA).astype(np.int64)
    zeros = np.bitwise_count((mantissa & -mantissa) - 1).astype(np.int64)
    return exponent.astype(np.int64), mantissa, zeros, ~plain


def lowest_bit(responses: Reals) -> Cells:
    """Return the position of the lowest set bit, plus LOWEST: a response is a multiple of 2^position, and no finer."""
    exponent, _, zeros, special = _parts(responses)
    return np.where(special, 2 * LOWEST, exponent - MANTISSA + zeros + LOWEST)


def _binade_and_zeros(responses: Reals) -> Cells:
    exponent, _, zeros, special = _parts(responses)
    binade = np.clip(exponent, -BINADES, BINADES) + BINADES
    return np.where(special, (2 * BINADES + 1) * MANTISSA, binade * MANTISSA + zeros)


def _last_bits(responses: Reals) -> Cells:
    _, mantissa, _, special = _parts(responses)
    return np.where(special, 16, mantissa & 15)


LOW_BITS: dict[str, tuple[Callable[[Reals], Cells], int]] = {
    "position of the lowest bit": (lowest_bit, 2 * LOWEST + 1),
    "trailing zeros within a binade": (_binade_and_zeros, (2 * BINADES + 1) * MANTISSA + 1),
    "last four bits": (_last_bits, 17),
}
"""For each way of sorting by low-order bits, its function and its number of cells."""


def low_bits(responses: Reals) -> Iterator[Sorted]:
    """Sort by low-order bits in all of these ways."""
    return (Sorted(name, cells(responses), size, cells) for name, (cells, size) in LOW_BITS.items())


def judge_sorted(
    calls: Iterable[Sorted], of: Sample, pairs: Sequence[tuple[int, int]], alpha: float, epsilon: float
) -> Finding:
    """Choose among ways of sorting one sample: see `judge_ways`."""
    return judge_ways(((each, of, pairs) for each in calls), alpha, epsilon)


def judge_ways(ways: Iterable[Way], alpha: float, epsilon: float, *, is_in_order: bool = False) -> Finding:
    """Choose a way of sorting, a pair and a rule on the coins that are disclosed, and bound epsilon on the others.

    If guesses are made in order, each with the coins before it, how many there are may depend on coins: then they are
    stakes.
    """
    best: tuple[float, CellRule, Sorted, Sample, tuple[int, int], Counts] | None = None
    for each, of, pairs in ways:
        counts = _counts(each, of)
        for pair in pairs:
            rule, promise = best_rule(counts[RANK, pair, :], counts[CUT, pair, :], alpha)
            if best is None or promise > best[0]:
                best = promise, rule, each, of, pair, counts[TEST, pair, :]
    if best is None:
        return Finding("not applicable", "no guess is possible")
    _, rule, each, of, pair, counts_of_test = best
    if each.cells is not None:
        for chosen, responses in of.chunks():
            counts_of_test += count_cells(each.cells(responses), chosen, pair, each.size)
    name = f"{of.rewards[pair[0]]:g} or {of.rewards[pair[1]]:g} by {each.name}"
    guesses = try_rule(rule, counts_of_test, alpha)
    if is_in_order:
        return judge_bets([[Event(name, guesses.right, guesses.total - guesses.right)]], epsilon, alpha)
    return guesses.finding(epsilon, name)


def _counts(calls: Sorted, of: Sample) -> Counts:
    """Count the coins of each role and reward in each cell: all in one pass, since there are thousands of ways."""
    size = ROLES * len(of.rewards)
    at = calls.at.astype(np.int64, copy=False) + 1  # calls at which no guess is made are counted before all others
    found = np.bincount(at * size + of.kinds, minlength=(calls.size + 1) * size)[size:]
    return found.reshape(calls.size, ROLES, len(of.rewards)).transpose(1, 2, 0)


def sorts(of: Sample) -> Iterator[Sorted]:
    """Sort calls by size, by value, by text, and by low-order bits if responses have any."""
    yield size_bins(of.responses, of.rewards)
    yield atoms(of.responses)
    if of.later is None:
        yield Sorted("text", np.minimum(of.said.codes, ATOMS), ATOMS + 1)
    if not of.are_bits and not np.isnan(of.responses).all():
        yield from low_bits(of.responses)


def profiles(of: Sample) -> tuple[Profile, ...]:
    """Return the privacy loss over responses, and over their lowest bits, between the lowest and the highest reward."""
    pair = int(np.argmin(of.rewards)), int(np.argmax(of.rewards))
    rewards = of.rewards[pair[0]], of.rewards[pair[1]]
    finite = np.isfinite(of.responses)
    responses, chosen = of.responses[finite], of.chosen[finite]
    values, cells = np.unique(responses, return_inverse=True)
    if len(values) <= FEW_VALUES:
        counts = count_cells(cells.astype(np.int64), chosen, pair, len(values))
        return (Profile(rewards, values, counts, are_values=True),)
    low, high = np.quantile(responses, [0.01, 0.99], method="inverted_cdf")
    cuts = np.linspace(low, high, 41)
    cells = np.searchsorted(cuts, responses)
    lowest = count_cells(lowest_bit(responses), chosen, pair, 2 * LOWEST + 1)[:, :-1]
    return (
        Profile(
            rewards, middles(cuts), count_cells(cells.astype(np.int64), chosen, pair, len(cuts) + 1), are_values=False
        ),
        Profile(rewards, np.arange(2 * LOWEST, dtype=np.float64) - LOWEST, lowest, are_values=True, over=LOWEST_BIT),
    )
