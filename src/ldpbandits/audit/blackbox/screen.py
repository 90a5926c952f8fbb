"""Where between the ends to look: many rewards get a few responses each, and those that stand out are asked for again.

A curator may break its promise in a narrow part of the range: near an end, at multiples of a tenth, at a single third.
Few rewards with many responses each miss it, and many rewards with few responses each do not prove it. So first

    some near either end        at distances drawn from all magnitudes
    some on grids               tenths, eighths, thirds, hundredths
    some in each part           one in each of 32 equal parts of the range

get some responses each, and the two rewards are chosen at which a response is most different from what another reward
gets. Nothing is judged by these responses. The rewards that are chosen get new coins, and these are judged
(interior.py). So the choice costs no part of the level, however it is made: the coins do not depend on it.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.blackbox.neighbours import BINS, coarse
from ldpbandits.audit.guess import epsilon_lower
from ldpbandits.audit.result import Counts, Reals
from ldpbandits.audit.sample import Sample

PARTS = 32
NEAR_ENDS = 8
"""Number of rewards near each end."""
NEAREST, FARTHEST = 1e-9, 0.05
"""How near to an end these are, as parts of the range."""
GRID = (*(tenth / 10 for tenth in range(1, 10)), 1 / 4, 3 / 4, 1 / 8, 7 / 8, 2 / 3)
HUNDREDTHS = 4
LEAST_EACH = 100
"""With fewer responses to each of them nothing stands out."""
MOST_EACH = 600
PART = 5
"""All of them together have a fifth of the responses that an end has elsewhere."""
ALONE = 0.01
"""The level of the bound by which two rewards are compared at one cell."""
CHOSEN = 2
CODES = 63


def parts_to_screen(rng: np.random.Generator) -> list[float]:
    """Return rewards between 0 and 1, as parts of the range."""
    span = np.log(FARTHEST / NEAREST)
    strata = np.exp((np.arange(2 * NEAR_ENDS) % NEAR_ENDS + rng.random(2 * NEAR_ENDS)) / NEAR_ENDS * span) * NEAREST
    near = [*strata[:NEAR_ENDS].tolist(), *(1 - strata[NEAR_ENDS:]).tolist()]
    each = ((np.arange(PARTS) + rng.random(PARTS)) / PARTS).tolist()
    hundredths = (rng.integers(1, 100, size=HUNDREDTHS) / 100).tolist()
    return list(dict.fromkeys(part for part in (*near, *GRID, *hundredths, *each) if 0 < part < 1))


def responses_each(samples: int, rewards: int) -> int:
    """Return the number of responses for each of `rewards` rewards; 0 if there are too few for all of them."""
    each = min(MOST_EACH, samples // PART // rewards)
    return each if each >= LEAST_EACH else 0


def stand_out(sample: Sample) -> list[int]:
    """Return the numbers of the rewards, but for the two ends, at which responses differ most from another's."""
    scores: dict[int, float] = {}
    for at, size in _takes(sample):
        counts = np.bincount(sample.chosen * size + at, minlength=len(sample.rewards) * size)
        for score, pair in _most_apart(counts.reshape(len(sample.rewards), size)):
            for reward in pair:
                scores[reward] = max(score, scores.get(reward, 0.0))
    between = [reward for reward in scores if reward > 1]
    return sorted(between, key=scores.__getitem__, reverse=True)[:CHOSEN]


def _takes(sample: Sample) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Sort calls into a few cells, in a few ways."""
    said = sample.said
    yield np.minimum(said.codes, CODES).astype(np.int64), CODES + 1
    yield coarse(sample), BINS
    yield np.minimum(said.lengths, CODES).astype(np.int64), CODES + 1
    for column in said.columns(2, from_end=True).T:
        yield column.astype(np.int64), 256


def _most_apart(counts: Counts) -> Iterator[tuple[float, tuple[int, int]]]:
    """Yield, for each cell, the two rewards that it is most and least likely for, and how far apart these are."""
    totals = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    rates: Reals = counts / totals
    most, least = rates.argmax(axis=0), rates.argmin(axis=0)
    cells = np.arange(counts.shape[1])
    high, low = counts[most, cells], counts[least, cells]
    bounds = epsilon_lower(high, np.maximum(high + low, 1), ALONE)
    for cell in np.flatnonzero(high).tolist():
        yield float(bounds[cell]), (int(most[cell]), int(least[cell]))
