"""Guessing the reward: the one inequality on which every lower bound of epsilon rests, and how to guess well.

The inequality. A fair coin chooses between two rewards, a curator responds to the chosen one, and somebody who sees the
response guesses the coin, or abstains. If the curator is epsilon-LDP, then for every response y

    P(coin = c | response = y) <= e^epsilon / (1 + e^epsilon)

(Bayes: the odds of the coin given y are P(y | one reward) / P(y | the other), since the coin is fair). Each guess is
right with at most that probability, given all the others, whatever the rule for guessing and abstaining. The number of
right ones among m guesses is at most Binomial(m, e^epsilon / (1 + e^epsilon)) in law, and

    logit of the Clopper-Pearson lower limit of (right, m)

is below epsilon with probability at least 1 - alpha. Nothing is assumed about the law of the responses, and nothing is
approximated. The rule may be any, as long as it was fixed before these responses were seen.

The rule. Responses are sorted into cells by some feature: a bin of their size, their value, their lowest bit. A rule
names, for each cell, the reward to guess, or abstains. The best rule is that of Neyman and Pearson: guess where the
likelihood ratio is extreme, and abstain elsewhere. The ratios are not known, so they are estimated from some responses.
The bound is computed from others, which had no part in the choice of the rule, so it stays valid.

A caller may bring a guesser, for leaks that need knowledge of a hash, a key or a code. It was fixed before any response
was seen, so its guesses are tested on all responses.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from ldpbandits.audit.evidence import Evidence
from ldpbandits.audit.result import Counts, Finding, Reals
from ldpbandits.errors import ParameterError

CellRule: TypeAlias = NDArray[np.int8]
"""For each cell 0 or 1, the reward to guess, or ABSTAIN."""
ABSTAIN = -1
ALONE = 0.05
"""A cell is ranked by its bound at this level, so that a cell with a single response does not rank first."""
CAUTION = 1e-3
"""Cells are added as long as the bound at this part of the level grows: few cells that chance favoured must not win."""
FEW_CELLS = 256
"""Number of cells up to which each is bounded by itself; a bound takes a microsecond or two."""


def epsilon_lower(right: ArrayLike, guesses: ArrayLike, alpha: float) -> Reals:
    """Return what epsilon is at least, with confidence 1 - alpha, for each count; below 0 it says nothing."""
    k, m = np.asarray(right, np.float64), np.asarray(guesses, np.float64)
    limit = betaincinv(np.maximum(k, 1), m - np.maximum(k, 1) + 1, alpha)
    with np.errstate(divide="ignore"):  # no guess right: the limit is 0, and its logit minus infinity
        return np.asarray(np.log(np.where(k > 0, limit, 0)) - np.log1p(-limit), np.float64)


@dataclass(frozen=True, slots=True)
class Guesses:
    """How many guesses were right, how many there were, and the chance of error that their bound may use up."""

    right: int
    total: int
    alpha: float

    @property
    def epsilon_lower(self) -> float:
        """Lower bound of epsilon, with confidence 1 - alpha; never below 0."""
        return max(0.0, float(epsilon_lower(self.right, self.total, self.alpha))) if self.total else 0.0

    def finding(self, epsilon: float, rule: str) -> Finding:
        """Judge a claim: it is violated if the lower bound is above the epsilon that is claimed."""
        lower = self.epsilon_lower
        return Finding("violated" if lower > epsilon else "consistent", f"{rule}: {self}", lower, self.total)

    def __str__(self) -> str:
        if not self.total:
            return "no guess could be made"
        return f"{self.right:,} of {self.total:,} guesses right: epsilon is at least {self.epsilon_lower:.4f}"


def count_cells(
    cells: NDArray[np.integer[Any]], rewards: NDArray[np.int64], pair: tuple[int, int], size: int
) -> Counts:
    """Count the responses to each of two rewards in each of `size` cells; rewards are numbers, as in `pair`."""
    return np.stack([np.bincount(cells[rewards == reward], minlength=size) for reward in pair])


def best_rule(for_ranking: Counts, for_cutting: Counts, alpha: float) -> tuple[CellRule, float]:
    """Return a rule, and a bound that it may be expected to exceed.

    The first counts rank the cells, and say which reward to guess in each. The second decide in how many of the cells
    to guess. On the same responses, the few cells that chance favoured would look better than all that are good.
    """
    total = for_ranking.sum(axis=0)
    seen = np.flatnonzero(total)  # most cells of two neighbours are empty, and a bound takes long
    order = seen[np.argsort(-_alone(for_ranking[:, seen].max(axis=0), total[seen]), kind="stable")]
    side = np.argmax(for_ranking, axis=0)[order]
    rule = np.full(total.shape, ABSTAIN, np.int8)
    if not len(order):
        return rule, -np.inf
    sizes = rule_sizes(len(order))
    right = np.cumsum(for_cutting[side, order])[sizes - 1]
    guesses = np.cumsum(for_cutting[:, order].sum(axis=0))[sizes - 1]
    bounds = np.where(guesses > 0, epsilon_lower(right, np.maximum(guesses, 1), alpha * CAUTION), -np.inf)
    size = int(sizes[np.argmax(bounds)])
    rule[order[:size]] = side[:size]
    return rule, float(np.max(bounds))


def _alone(lead: Counts, total: Counts) -> Reals:
    """Return the bound of each cell by itself, computed once for cells of equal counts: there may be thousands."""
    if len(total) <= FEW_CELLS:
        return epsilon_lower(lead, total, ALONE)
    kinds, which = np.unique(lead + (total.max() + 1) * total, return_inverse=True)
    return epsilon_lower(kinds % (total.max() + 1), kinds // (total.max() + 1), ALONE)[which]


def rule_sizes(most: int) -> Counts:
    """Return in how many cells a rule may guess: each number if they are few, else numbers about 2 % apart."""
    if most <= FEW_CELLS:
        return np.arange(1, most + 1)
    apart = FEW_CELLS * (most / FEW_CELLS) ** np.linspace(0, 1, FEW_CELLS)
    return np.concatenate([np.arange(1, FEW_CELLS), np.unique(apart.round().astype(np.int64))])


def try_rule(rule: CellRule, counts: Counts, alpha: float) -> Guesses:
    """Guess by a rule, on responses that had no part in its choice."""
    right = int(counts[0, rule == 0].sum() + counts[1, rule == 1].sum())
    return Guesses(right, int(counts[:, rule != ABSTAIN].sum()), alpha)


def custom_guesser(evidence: Evidence, alpha: float) -> Finding | None:
    """Count the right guesses of the caller's guesser; return None if there is no guesser."""
    if evidence.guesser is None:
        return None
    sample, claim = evidence.sample, evidence.claim
    numbers = {reward: number for number, reward in enumerate(sample.rewards)}
    guessed = np.full(len(sample.chosen), -1)
    for call in range(len(guessed)):
        guess = evidence.guesser(sample.said[call].decode(errors="replace"))
        if guess is not None:
            if guess not in numbers:
                raise ParameterError("a guesser must return one of the rewards of the claim, or None")
            guessed[call] = numbers[guess]
    findings = []
    for pair in sample.pairs:
        mine = np.isin(sample.chosen, pair) & np.isin(guessed, pair)
        right = int(np.count_nonzero(guessed[mine] == sample.chosen[mine]))
        guesses = Guesses(right, int(np.count_nonzero(mine)), alpha / len(sample.pairs))
        names = f"{sample.rewards[pair[0]]:g} or {sample.rewards[pair[1]]:g}"
        findings.append(guesses.finding(claim.epsilon, names))
    return max(findings, key=lambda finding: finding.epsilon_lower)
