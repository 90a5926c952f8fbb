"""Our own curators, audited in bulk: their exact law, the best guess against each, their low bits, their moments.

The best guess. For CTB a response of 1 has likelihood ratio e^epsilon and a response of 0 has e^-epsilon, so the bit
is the guess. For CTL the ratio is e^epsilon from the high reward upwards, e^-epsilon from the low one downwards, and
less extreme between, where it is best to abstain: the responses outside alone give a standard error of
sqrt(2 (1 + e^epsilon) / N) for the bound on epsilon. One sentence holds for both: guess the high reward at or above it,
the low reward at or below it, else abstain.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.cells import best_rule, tried
from ldpbandits.audit.claim import Claim
from ldpbandits.audit.domain import unit
from ldpbandits.audit.guess import Guesses, bound_layer
from ldpbandits.audit.profile import LOWEST_BIT, Profile, middles
from ldpbandits.audit.result import Layer
from ldpbandits.audit.sampling import Integers, Ours, Words, responses, source, words_each
from ldpbandits.audit.sanity import Moments, moments_layer
from ldpbandits.device.curators import BernoulliCurator, LaplaceCurator
from ldpbandits.spec.mechanisms import GRID_BITS

CHUNK = 1 << 15
LOW_BITS_SAMPLES = 4_000_000
"""Low bits are either clean or plainly not: more responses than these would only take time."""
WORD_CELLS = 65
"""A lowest bit is in one of 64 places, or there is none."""


@dataclass(slots=True)
class Tally:
    """What is kept of the responses: counts and sums, so that any number of them fits into memory."""

    places: tuple[int, ...]
    """Where the low and the high reward lie among the responses."""
    scale: int
    """How many steps make 1."""
    origins: tuple[int, ...]
    """What is subtracted from responses before they are summed: squares of large rewards would hide the noise."""
    cuts: NDArray[np.float64]
    """Where the picture is cut into cells; nowhere for bits."""
    right: int = 0
    """Guesses that were right, of those made."""
    made: int = 0
    count: list[int] = field(default_factory=lambda: [0, 0])
    total: list[float] = field(default_factory=lambda: [0.0, 0.0])
    squares: list[float] = field(default_factory=lambda: [0.0, 0.0])
    low_bits: NDArray[np.int64] = field(default_factory=lambda: np.zeros((4, 2, WORD_CELLS), np.int64))
    """By quarter of the responses, reward and cell: a rule is chosen on two quarters and tried on the others."""
    picture: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        """Make room for the picture."""
        self.picture = np.zeros((2, len(self.cuts) + 1), np.int64)

    def add(self, reward: int, given: Integers, quarter: int | None) -> None:
        """Count these responses to one of the two rewards."""
        low, high = (int(np.count_nonzero(given <= self.places[0])), int(np.count_nonzero(given >= self.places[1])))
        self.right += (low, high)[reward]
        self.made += low + high
        real, off = given / self.scale, (given - self.origins[reward]) / self.scale
        self.count[reward] += len(given)
        self.total[reward] += float(off.sum())
        # Not a dot product: on a busy machine the threads of that would wait for each other.
        self.squares[reward] += float((off * off).sum())
        if quarter is not None:
            lowest = np.bitwise_count(((given & -given) - 1).view(np.uint64))  # 64 where there is none
            self.low_bits[quarter, reward] += np.bincount(lowest, minlength=WORD_CELLS)
            self.picture[reward] += np.bincount(np.searchsorted(self.cuts, real), minlength=len(self.cuts) + 1)


def tally(curator: Ours, claim: Claim, progress: Callable[[int], None]) -> Tally:
    """Draw 2 * samples responses, each to a reward chosen by a fair coin, and count them.

    Only how many coins fall on either side matters, not their order, since the responses are independent.
    """
    is_bits = isinstance(curator, BernoulliCurator)
    cuts = np.zeros(0) if is_bits else np.linspace(-2, 3, 41) / min(1.0, curator.epsilon)
    rewards, calls = (claim.low, claim.high), 2 * claim.samples
    places = (0, 1) if is_bits else tuple(LaplaceCurator.steps(unit(curator.spec, reward)) for reward in rewards)
    counted = Tally(places, 1 if is_bits else 1 << GRID_BITS, (0, 0) if is_bits else places, cuts)
    # Two streams of one seed, as far apart as two generators are.
    coins, random_bytes = np.random.default_rng(claim.seed), source(claim.seed)
    for start in range(0, calls, CHUNK):
        size = min(CHUNK, calls - start)
        heads = int(coins.binomial(size, 0.5))
        quarter = None if is_bits or start >= LOW_BITS_SAMPLES else start // CHUNK % 4
        for reward, count in enumerate((size - heads, heads)):
            words = Words.drawn(words_each(curator), count, random_bytes)
            counted.add(reward, responses(curator, rewards[reward], words), quarter)
        progress(start + size)
    return counted


def layers(curator: Ours, counted: Tally, claim: Claim) -> list[Layer]:
    """Judge what was counted: the bound by the best guess, and low bits."""
    guesses = Guesses(counted.right, counted.made, claim.alpha("bound"))
    how = "the response is the guess" if isinstance(curator, BernoulliCurator) else "abstaining between the rewards"
    return [bound_layer("empirical: best guess", guesses, claim.epsilon, how), _low_bits(counted, claim)]


def _low_bits(counted: Tally, claim: Claim) -> Layer:
    name = "empirical: low-order bits"
    if not len(counted.cuts):
        return Layer(name, "not applicable", "the response is a single bit")
    alpha = claim.alpha("low bits")
    first, second, third, fourth = counted.low_bits
    rule, _ = best_rule(first, second, alpha)
    return bound_layer(name, tried(rule, third + fourth, alpha), claim.epsilon, "position of the lowest bit")


def sanity_layer(curator: Ours, counted: Tally, claim: Claim) -> Layer:
    """Compare mean and variance with the formula."""
    origins = [origin / counted.scale for origin in counted.origins]
    moments = [
        Moments(unit(curator.spec, reward), counted.count[i], counted.total[i], counted.squares[i], origin)
        for i, (reward, origin) in enumerate(zip((claim.low, claim.high), origins, strict=True))
    ]
    alpha = claim.alpha("sanity")
    return moments_layer("sanity: mean and variance", curator.spec.mechanism.kind, curator.epsilon, moments, alpha)


def profiles(counted: Tally, claim: Claim) -> tuple[Profile, ...]:
    """Return the privacy loss over outputs, and over their lowest bits."""
    rewards = claim.low, claim.high
    if not len(counted.cuts):
        ones = np.array(counted.total, np.int64)
        counts = np.stack([np.array(counted.count) - ones, ones], axis=1)
        return (Profile(rewards, np.array([0.0, 1.0]), counts, are_values=True),)
    positions = np.arange(WORD_CELLS - 1, dtype=np.float64) - GRID_BITS
    return (
        Profile(rewards, middles(counted.cuts), counted.picture, are_values=False),
        Profile(rewards, positions, counted.low_bits.sum(axis=0)[:, :-1], are_values=True, over=LOWEST_BIT),
    )
