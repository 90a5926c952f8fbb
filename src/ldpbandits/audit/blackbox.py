"""Any mechanism, seen through its responses alone: an event chosen on one half of them, tested on the other.

For every pair of rewards and every feature one half of the responses gives a rule for guessing (cells.py); the
rule that promises most there is the only one tried on the other half, so that the number of rules costs nothing.

The same is done for the reward of the call before. Curators promise that no sequence of responses is more than
e^epsilon times likelier under one value of any one reward than under another, all others being the same. So, given
all responses and all other coins, the coin of the call before is guessed with the same chance at most (guess.py): from
a response it had no part in, with chance one half.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.cells import Counts, best_rule, counted, tried
from ldpbandits.audit.claim import Claim
from ldpbandits.audit.features import LOW_BITS, LOWEST, Feature, Reals, atoms, lowest_bit, size_bins
from ldpbandits.audit.guess import Guesses, bound_layer
from ldpbandits.audit.profile import LOWEST_BIT, Profile, middles
from ldpbandits.audit.result import Layer
from ldpbandits.audit.subject import Subject

FINEST = -53
"""A uniform double is a multiple of 2^-53, and so is what inverse-CDF noise adds to a reward of 1."""

FEW_VALUES = 64
"""So many values are drawn one by one."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Responses, and which reward each of them is to; rewards were chosen at random, independently."""

    rewards: tuple[float, ...]
    chosen: NDArray[np.int64]
    responses: Reals

    def part(self, which: int, of: int) -> "Sample":
        """Return every `of`-th response, from number `which` on."""
        return Sample(self.rewards, self.chosen[which::of], self.responses[which::of])

    def counts(self, feature: Feature, pair: tuple[int, int]) -> Counts:
        """Count the responses to two rewards in the cells of a feature."""
        return counted(feature.cells(self.responses), self.chosen, pair, feature.size)

    def before(self) -> "Sample":
        """Return the responses with the reward of the call before each."""
        return Sample(self.rewards, self.chosen[:-1], self.responses[1:])

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """All pairs of rewards, by number."""
        return list(combinations(range(len(self.rewards)), 2))

    @property
    def are_bits(self) -> bool:
        """Tell whether there are but two responses: then they have no low bits to speak of."""
        return len(np.unique(self.responses)) <= 2  # noqa: PLR2004 - as it says


def sample(subject: Subject, claim: Claim, progress: Callable[[int], None]) -> Sample:
    """Ask for samples * len(rewards) responses, each to a reward chosen at random."""
    chosen = np.random.default_rng(claim.seed).integers(len(claim.rewards), size=claim.calls)
    values, responses = np.asarray(claim.rewards)[chosen], np.empty(len(chosen))
    for start in range(0, len(chosen), subject.batch):
        asked = values[start : start + subject.batch].tolist()
        responses[start : start + len(asked)] = subject.ask(asked)
        progress(start + len(asked))
    return Sample(claim.rewards, chosen, responses)


def event_layer(name: str, features: Sequence[Feature], of: Sample, alpha: float, epsilon: float) -> Layer:
    """Choose feature, pair and rule on one half, and bound epsilon on the other."""
    choice, test = of.part(0, 2), of.part(1, 2)
    ranked_on, cut_on = choice.part(0, 2), choice.part(1, 2)
    rules = []
    for feature, pair in product(features, of.pairs):
        rule, promise = best_rule(ranked_on.counts(feature, pair), cut_on.counts(feature, pair), alpha)
        rules.append((promise, rule, feature, pair))
    _, rule, feature, pair = max(rules, key=itemgetter(0))
    guesses = tried(rule, test.counts(feature, pair), alpha)
    between = f"{of.rewards[pair[0]]:g} or {of.rewards[pair[1]]:g} by {feature.name}"
    return bound_layer(name, guesses, epsilon, between)


def precision_layer(of: Sample, claim: Claim) -> Layer:
    """Judge the event 'finer than 2^-53': noise on doubles makes it possible under one reward only (Mironov 2012)."""
    name = "known attacks: precision event"
    finer = (lowest_bit(of.responses) - LOWEST < FINEST).astype(np.int64)
    if not finer.any():
        return Layer(name, "consistent", f"none of {len(finer):,} responses is finer than 2^{FINEST}")
    layers = []
    for pair in of.pairs:
        counts = counted(finer, of.chosen, pair, 2)[:, 1]
        for side, reward in enumerate(pair):
            guesses = Guesses(int(counts[side]), int(counts.sum()), claim.alpha("precision") / (2 * len(of.pairs)))
            how = f"a response finer than 2^{FINEST} betrays a reward of {of.rewards[reward]:g}"
            layers.append(bound_layer(name, guesses, claim.epsilon, how))
    return max(layers, key=lambda layer: layer.epsilon_lower)


def layers(of: Sample, epsilon: float, alpha: float, low_bits_alpha: float, where: str = "") -> list[Layer]:
    """Judge the responses without knowing where they come from: by size and value, then by low bits."""
    chosen = event_layer(f"empirical: chosen event{where}", _fitted(of), of, alpha, epsilon)
    name = f"empirical: low-order bits{where}"
    if of.are_bits:
        return [chosen, Layer(name, "not applicable", "there are but two responses")]
    return [chosen, event_layer(name, LOW_BITS, of, low_bits_alpha, epsilon)]


def before_layer(of: Sample, claim: Claim) -> Layer:
    """Look for the reward of the call before, another user's perhaps, in all features of the response."""
    shifted = of.before()
    features = [*_fitted(shifted), *LOW_BITS]
    return event_layer("known attacks: the reward before", features, shifted, claim.alpha("before"), claim.epsilon)


def _fitted(of: Sample) -> list[Feature]:
    """Return the features that depend on the responses, fitted to the half that rules are chosen on."""
    first = of.part(0, 2).responses
    return [size_bins(first, of.rewards), atoms(first)]


def profiles(of: Sample) -> tuple[Profile, ...]:
    """Return the privacy loss over outputs, and over their lowest bits, between the lowest and the highest reward."""
    pair = int(np.argmin(of.rewards)), int(np.argmax(of.rewards))
    rewards = of.rewards[pair[0]], of.rewards[pair[1]]
    finite = np.isfinite(of.responses)
    responses, chosen = of.responses[finite], of.chosen[finite]
    values, inverse = np.unique(responses, return_inverse=True)
    if len(values) <= FEW_VALUES:
        return (
            Profile(rewards, values, counted(inverse.astype(np.int64), chosen, pair, len(values)), are_values=True),
        )
    low, high = np.quantile(responses, [0.01, 0.99])
    cuts = np.linspace(low, high, 41)
    cells = np.searchsorted(cuts, responses).astype(np.int64)
    lowest = counted(lowest_bit(responses), chosen, pair, 2 * LOWEST + 1)[:, :-1]
    return (
        Profile(rewards, middles(cuts), counted(cells, chosen, pair, len(cuts) + 1), are_values=False),
        Profile(rewards, np.arange(2 * LOWEST, dtype=np.float64) - LOWEST, lowest, are_values=True, over=LOWEST_BIT),
    )
