"""What may give a reward away: features of a response that sort it into cells.

Each feature is fitted to the responses on which a rule is chosen, then used on others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Reals: TypeAlias = NDArray[np.float64]
Cells: TypeAlias = NDArray[np.int64]

BINS = 128
TAIL = 20
"""No bin in a tail is expected to hold fewer responses than these."""
ATOMS = 4096
"""No more values than these are cells of their own."""
OFTEN = 10
"""A value seen so often in the first half is an atom."""
MANTISSA = 53
"""Bits in the mantissa of a double."""
LOWEST = 1100
"""Lowest bits lie from -1074 to 1023; shifted by this they are cells, and the last cell is for 0, NaN and infinity."""
BINADES = 12
"""Powers of two on either side of 1 that are told apart; those beyond share a cell."""


@dataclass(frozen=True, slots=True)
class Feature:
    """A name, and a function from responses to cells numbered from 0."""

    name: str
    cells: Callable[[Reals], Cells]
    size: int


def size_bins(responses: Reals, rewards: Sequence[float]) -> Feature:
    """Bins of about equal weight, cut at the rewards too: Laplace ratios are extreme from there outwards.

    In both tails bins of half the weight follow, down to some twenty responses: noise that ends somewhere ends there.
    """
    finite = responses[np.isfinite(responses)]
    tails = 0.5 ** np.arange(1, (len(finite) // TAIL).bit_length())
    levels = np.concatenate([np.arange(1, BINS) / BINS, tails, 1 - tails])
    quantiles = np.quantile(finite, levels) if len(finite) else np.zeros(0)
    cuts = np.unique(np.concatenate([quantiles, np.asarray(rewards, np.float64)]))
    return Feature("size", lambda given: np.searchsorted(cuts, given).astype(np.int64), len(cuts) + 1)


def atoms(responses: Reals) -> Feature:
    """Each value that occurs often is a cell; all others share the last. Values are told apart by bits: -0 is not 0."""
    values, counts = np.unique(_bits(responses), return_counts=True)
    often = counts >= max(OFTEN, np.sort(counts)[-ATOMS:][0])
    known = values[often]

    def cells(given: Reals) -> Cells:
        if not len(known):
            return np.zeros(len(given), np.int64)
        bits = _bits(given)
        at = np.minimum(np.searchsorted(known, bits), len(known) - 1)
        return np.where(known[at] == bits, at, len(known)).astype(np.int64)

    return Feature("value", cells, len(known) + 1)


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


LOW_BITS = (
    Feature("position of the lowest bit", lowest_bit, 2 * LOWEST + 1),
    Feature("trailing zeros within a binade", _binade_and_zeros, (2 * BINADES + 1) * MANTISSA + 1),
    Feature("last four bits", _last_bits, 17),
)
