"""Which responses give the reward away: an event chosen on one half of them, tested on the other.

A feature of a response sorts it into cells: its size, its value, its low-order bits. For every feature and every pair
of rewards, one half of the responses gives a rule for guessing (guess.py). Only the rule that promises most there is
tried on the other half, so that the number of rules costs nothing.

The same is done for the reward of the call before. Curators promise that no sequence of responses is more than
e^epsilon times likelier under one value of any one reward than under another, all others being the same. So, given
all responses and all other coins, the coin of the call before is guessed with the same chance at most (guess.py); from
a response it had no part in, with chance one half.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from operator import itemgetter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.evidence import Evidence, Sample
from ldpbandits.audit.guess import Guesses, best_rule, count_cells, try_rule
from ldpbandits.audit.result import LOWEST_BIT, Counts, Finding, Profile, Reals, middles

Cells: TypeAlias = NDArray[np.int64]

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
class Feature:
    """A name, and a function from responses to cells numbered from 0.

    A feature that depends on responses is fitted to those on which a rule is chosen, and then used on others.
    """

    name: str
    cells: Callable[[Reals], Cells]
    size: int

    def count(self, of: Sample, pair: tuple[int, int]) -> Counts:
        """Count the responses to two rewards in each cell."""
        return count_cells(self.cells(of.responses), of.chosen, pair, self.size)


def size_bins(responses: Reals, rewards: Sequence[float]) -> Feature:
    """Bins of about equal weight, cut at the rewards too: Laplace ratios are extreme from there outwards.

    In both tails bins of half the weight follow, down to some twenty responses. If noise is cut off somewhere, it shows
    in the last of them: there only one reward leads.
    """
    finite = responses[np.isfinite(responses)]
    tails = 0.5 ** np.arange(1, (len(finite) // TAIL).bit_length())
    levels = np.concatenate([np.arange(1, BINS) / BINS, tails, 1 - tails])
    quantiles = np.quantile(finite, levels) if len(finite) else np.zeros(0)
    cuts = np.unique(np.concatenate([quantiles, np.asarray(rewards, np.float64)]))
    return Feature("size", lambda others: np.searchsorted(cuts, others).astype(np.int64), len(cuts) + 1)


def atoms(responses: Reals) -> Feature:
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

    return Feature("value", cells, len(frequent) + 1)


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


def judge_event(features: Sequence[Feature], of: Sample, alpha: float, epsilon: float) -> Finding:
    """Choose feature, pair and rule on one half, and bound epsilon on the other."""
    choice, test = of.part(0, 2), of.part(1, 2)
    for_ranking, for_cutting = choice.part(0, 2), choice.part(1, 2)
    rules = []
    for feature, pair in product(features, of.pairs):
        rule, promise = best_rule(feature.count(for_ranking, pair), feature.count(for_cutting, pair), alpha)
        rules.append((promise, rule, feature, pair))
    _, rule, feature, pair = max(rules, key=itemgetter(0))
    guesses = try_rule(rule, feature.count(test, pair), alpha)
    return guesses.finding(epsilon, f"{of.rewards[pair[0]]:g} or {of.rewards[pair[1]]:g} by {feature.name}")


def _by_size_and_value(of: Sample) -> list[Feature]:
    """Return the features that depend on the responses, fitted to the half that rules are chosen on."""
    first = of.part(0, 2).responses
    return [size_bins(first, of.rewards), atoms(first)]


def chosen_event(evidence: Evidence, alpha: float) -> Finding:
    """Guess the reward by the size or the value of the response."""
    return judge_event(_by_size_and_value(evidence.sample), evidence.sample, alpha, evidence.claim.epsilon)


def low_bits(evidence: Evidence, alpha: float) -> Finding:
    """Guess the reward by the low-order bits of the response."""
    if evidence.sample.are_bits:
        return Finding("not applicable", "there are but two responses")
    return judge_event(LOW_BITS, evidence.sample, alpha, evidence.claim.epsilon)


def reward_before(evidence: Evidence, alpha: float) -> Finding:
    """Guess the reward of the call before, another user's perhaps, by all features of the response."""
    pairs = evidence.sample.before()
    return judge_event([*_by_size_and_value(pairs), *LOW_BITS], pairs, alpha, evidence.claim.epsilon)


def precision(evidence: Evidence, alpha: float) -> Finding:
    """Judge the event 'finer than 2^-53': noise on doubles makes it possible under one reward only (Mironov 2012)."""
    sample, epsilon = evidence.sample, evidence.claim.epsilon
    finer = (lowest_bit(sample.responses) - LOWEST < FINEST).astype(np.int64)
    if not finer.any():
        return Finding("consistent", f"none of {len(finer):,} responses is finer than 2^{FINEST}")
    findings = []
    for pair in sample.pairs:
        counts = count_cells(finer, sample.chosen, pair, 2)[:, 1]
        for side, reward in enumerate(pair):
            guesses = Guesses(int(counts[side]), int(counts.sum()), alpha / (2 * len(sample.pairs)))
            rule = f"a response finer than 2^{FINEST} betrays a reward of {sample.rewards[reward]:g}"
            findings.append(guesses.finding(epsilon, rule))
    return max(findings, key=lambda finding: finding.epsilon_lower)


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
    low, high = np.quantile(responses, [0.01, 0.99])
    cuts = np.linspace(low, high, 41)
    cells = np.searchsorted(cuts, responses)
    lowest = count_cells(lowest_bit(responses), chosen, pair, 2 * LOWEST + 1)[:, :-1]
    return (
        Profile(
            rewards, middles(cuts), count_cells(cells.astype(np.int64), chosen, pair, len(cuts) + 1), are_values=False
        ),
        Profile(rewards, np.arange(2 * LOWEST, dtype=np.float64) - LOWEST, lowest, are_values=True, over=LOWEST_BIT),
    )
