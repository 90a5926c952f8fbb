"""From responses in cells to the guess that shows most: chosen on some responses, tried on others.

Responses are sorted into cells by some feature (a bin of their size, their value, their lowest bit). A rule names, for
each cell, the reward to guess, or abstains. The best rule is that of Neyman and Pearson: guess where the likelihood
ratio is extreme, and abstain elsewhere. The ratios are not known, so they are estimated; the bound stays valid because
the responses it is computed from had no part in the choice (see guess.py).
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.guess import Guesses, epsilon_lower

Counts: TypeAlias = NDArray[np.int64]
"""Of shape (2, cells): how many responses to either of two rewards fell into each cell."""
Rule: TypeAlias = NDArray[np.int8]
"""For each cell 0 or 1, the reward to guess, or ABSTAIN."""
ABSTAIN = -1
ALONE = 0.05
"""A cell is ranked by what it shows alone at this level, so that a cell seen once does not rank first."""
CAUTION = 1e-3
"""Cells are added as long as the bound at this part of the level grows: few cells that chance favoured must not win."""


def counted(cells: NDArray[np.int64], chosen: NDArray[np.int64], pair: tuple[int, int], size: int) -> Counts:
    """Count the responses to each of two rewards in each of `size` cells."""
    return np.stack([np.bincount(cells[chosen == reward], minlength=size) for reward in pair])


def best_rule(ranked_on: Counts, cut_on: Counts, alpha: float) -> tuple[Rule, float]:
    """Return a rule, and a bound that it may be expected to exceed.

    Cells are ranked, and sides taken, on some responses; how many cells to guess in is decided on others. On the same
    ones, the few cells that chance favoured would look better than all that are good.
    """
    total, lead = ranked_on.sum(axis=0), ranked_on.max(axis=0)
    order = np.argsort(-epsilon_lower(lead, np.maximum(total, 1), ALONE), kind="stable")
    order = order[total[order] > 0]
    side = np.argmax(ranked_on, axis=0)[order]
    right, made = np.cumsum(cut_on[side, order]), np.cumsum(cut_on[:, order].sum(axis=0))
    bounds = np.where(made > 0, epsilon_lower(right, np.maximum(made, 1), alpha * CAUTION), -np.inf)
    rule = np.full(total.shape, ABSTAIN, np.int8)
    if not len(order):
        return rule, -np.inf
    kept = int(np.argmax(bounds)) + 1
    rule[order[:kept]] = side[:kept]
    return rule, float(np.max(bounds))


def tried(rule: Rule, counts: Counts, alpha: float) -> Guesses:
    """Apply a rule to responses that it was not chosen on."""
    right = int(counts[0, rule == 0].sum() + counts[1, rule == 1].sum())
    return Guesses(right, int(counts[:, rule != ABSTAIN].sum()), alpha)
