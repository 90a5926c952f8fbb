"""The device's code against the sampler, bit for bit: what is proved and sampled in bulk is what a device runs.

Both sides get the same words, thousands of rows of them, and must give the same response to the last bit, from as many
words. Rows are random, or random but for one planted tie: a head that ties, a whole word that ties, digits that run
over, minus zero. One row in which they differ is a proof that the device has another law than the one audited, or
that it keeps something beside its words; so it is a violation, and no chance is involved.
"""

from struct import unpack
from typing import TypeAlias

import numpy as np

from ldpbandits.audit.claim import Claim
from ldpbandits.audit.domain import unit
from ldpbandits.audit.result import Layer
from ldpbandits.audit.sampling import HEAD, TAIL, Ours, Source, Words, responses, source, words_each
from ldpbandits.device.curators import BernoulliCurator
from ldpbandits.device.randomness import WORD
from ldpbandits.spec.mechanisms import GRID_BITS

ROWS = 1_500
"""For each reward; two laws that differ by one part in a hundred differ in some row nearly always."""
KINDS = 6
"""Of rows: four with planted words, and two that are left as drawn."""
HIGHEST = (1 << WORD) - 1

Row: TypeAlias = list[int]


def replay_layer(curator: Ours, claim: Claim) -> Layer:
    """Give the lowest reward, the highest and the middle the same words on both sides."""
    name = "exact: the sampler is the device"
    random_bytes, rewards = source(claim.seed), (claim.low, (claim.low + claim.high) / 2, claim.high)
    differing = sum(_differing(curator, reward, random_bytes) for reward in rewards)
    rows = ROWS * len(rewards)
    if differing:
        told = f"{differing:,} of {rows:,} rows of words give a device another response than the law that is audited"
        return Layer(name, "violated", told)
    return Layer(
        name, "consistent", f"the same response, bit for bit, to {rows:,} rows of words, planted ties included"
    )


def _differing(curator: Ours, reward: float, random_bytes: Source) -> int:
    """Count the rows on which the two sides differ, in the response or in how many words they take."""
    first = words_each(curator)
    rows = [_planted(curator, reward, case, random_bytes) for case in range(ROWS)]
    bulk = [_Reader(row, random_bytes, first) for row in rows]
    device = [_Reader(row, random_bytes, 0) for row in rows]
    table = np.array([row[:first] for row in rows], np.uint64).T
    tail = (1 << TAIL) - 1
    words = Words(
        (table >> np.uint64(TAIL)).astype(np.uint16),
        lambda word, number: int(table[word, number]) & tail,
        lambda number: bulk[number].draw,
    )
    scale = 1 if isinstance(curator, BernoulliCurator) else 1 << GRID_BITS
    sampled = responses(curator, reward, words) / scale
    given = np.array([curator.respond_not_private(reward, reader.draw) for reader in device], np.float64)
    same = sampled.view(np.int64) == given.view(np.int64)  # as bits: -0.0 is not 0.0
    taken = np.array([one.at == other.at for one, other in zip(bulk, device, strict=True)])
    return int(np.count_nonzero(~(same & taken)))


class _Reader:
    """One side's place in a row of words, which grows as either side reads on."""

    def __init__(self, row: Row, random_bytes: Source, at: int) -> None:
        """Start at word number `at`."""
        self._row, self._random_bytes, self.at = row, random_bytes, at

    def draw(self, count: int) -> Row:
        """Return the next words."""
        self.at += count
        self._row.extend(_words(self.at - len(self._row), self._random_bytes))
        return self._row[self.at - count : self.at]


def _words(count: int, random_bytes: Source) -> tuple[int, ...]:
    return unpack(f"={max(0, count)}Q", random_bytes(8 * max(0, count)))


def _planted(curator: Ours, reward: float, case: int, random_bytes: Source) -> Row:
    """Return the words of one row."""
    first, kind = words_each(curator), case % KINDS
    row = list(_words(first + 1, random_bytes))
    if isinstance(curator, BernoulliCurator):
        threshold = curator.threshold(unit(curator.spec, reward))
        row[0] = (row[0], _same_head(threshold, row[0]), threshold, threshold - 1, 0, row[0])[kind]
        return row
    law = curator.noise
    digit = case // KINDS % len(law.digits)
    threshold = law.digits[digit].threshold
    if kind == 1:
        row[2 + digit] = _same_head(threshold, row[2 + digit])
    elif kind == 2:  # noqa: PLR2004 - the kinds, in order
        row[2 + digit] = threshold
    elif kind == 3:  # noqa: PLR2004
        row[1], row[first] = law.rest.threshold, 0
    elif kind == 4:  # noqa: PLR2004
        row[0], row[1:first] = row[0] | 1 << (WORD - 1), [HIGHEST] * (first - 1)
    return row


def _same_head(threshold: int, word: int) -> int:
    return threshold >> TAIL << TAIL | word >> HEAD
