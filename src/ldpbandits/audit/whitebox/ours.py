"""A curator whose code the audit knows: many responses are drawn in bulk from its law, a few from the device itself."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.evidence import Claim, Evidence, Progress
from ldpbandits.audit.guess import Guesses
from ldpbandits.audit.result import Finding, Profile, Reals, middles
from ldpbandits.audit.sample import Moments, Sample, draw_sample
from ldpbandits.audit.target import FOREVER_S
from ldpbandits.audit.whitebox.known import KNOWN, Knowledge, judge_moments
from ldpbandits.audit.whitebox.sampling import Integers, Words, source
from ldpbandits.device.curators import Curator
from ldpbandits.spec.curator import CuratorSpec

DEVICE_SAMPLES = 20_000
"""Responses to each reward from the device's own code, one by one, beside those drawn in bulk."""
CHUNK_CALLS = 1 << 15
PICTURED_SAMPLES = 4_000_000
"""Responses that are drawn in pictures: more would only take time."""


@dataclass(frozen=True)
class WhiteBox(Evidence):
    """A curator that is known by its code, and what is drawn from it."""

    curator: Curator = field(kw_only=True)

    @property
    def is_known(self) -> bool:
        """Whether the audit knows the code: always, here."""
        return True

    @property
    def spec(self) -> CuratorSpec:
        """The spec of the audited curator."""
        return self.curator.spec

    @property
    def known(self) -> Knowledge[Any, Any]:
        """White-box knowledge of the mechanism of the curator."""
        return KNOWN[type(self.spec.mechanism)]

    def draw(self) -> Sample:
        """As many responses as a device gives in a moment, one by one, and fresh ones each time."""
        claim, samples = self.claim, min(self.claim.samples, DEVICE_SAMPLES)
        return draw_sample(self.target, (claim.low, claim.high), 2 * samples, self.rng(0), FOREVER_S)

    @cached_property
    def tally(self) -> "BulkCounts":
        """Counts of the responses drawn in bulk."""
        return draw_counts(self.curator, self.known, self.claim, self.progress)


@dataclass(slots=True)
class BulkCounts:
    """Counts and sums of responses, so that any number of responses fits into memory."""

    edges: tuple[int, int]
    """Where to guess: the low reward at or below the first, the high one at or above the second; in units."""
    origins: Sequence[int]
    """Subtracted from responses before they are summed: squares of large rewards would hide the noise."""
    unit: float
    """Responses are whole multiples of this."""
    cuts: Reals
    """Where the picture is cut into cells; nowhere for bits."""
    right: int = 0
    guesses: int = 0
    count: list[int] = field(default_factory=lambda: [0, 0])
    total: list[float] = field(default_factory=lambda: [0.0, 0.0])
    squares: list[float] = field(default_factory=lambda: [0.0, 0.0])
    picture: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.picture = np.zeros((2, len(self.cuts) + 1), np.int64)

    def add(self, reward: int, responses: Integers, *, is_drawn: bool) -> None:
        """Count these responses to one of the two rewards."""
        low = int(np.count_nonzero(responses <= self.edges[0]))
        high = int(np.count_nonzero(responses >= self.edges[1]))
        self.right += (low, high)[reward]
        self.guesses += low + high
        off = (responses - self.origins[reward]) * self.unit
        self.count[reward] += len(responses)
        self.total[reward] += float(off.sum())
        # Not a dot product: on a busy machine the threads of that would wait for each other.
        self.squares[reward] += float(np.square(off, out=off).sum())
        if is_drawn:
            cells = np.searchsorted(self.cuts, responses * self.unit)
            self.picture[reward] += np.bincount(cells, minlength=len(self.cuts) + 1)


def draw_counts(curator: Curator, known: Knowledge[Any, Any], claim: Claim, progress: Progress) -> BulkCounts:
    """Draw 2 * samples responses, each to a reward chosen by a fair coin, and count them.

    Only how many coins fall on either side matters, not their order, since the responses are independent.
    """
    mechanism, calls = curator.spec.mechanism, 2 * claim.samples
    values = [curator.spec.value(reward) for reward in (claim.low, claim.high)]
    origins = [known.origin(value) for value in values]
    tally = BulkCounts(known.edges(*origins), origins, mechanism.unit, known.cuts(mechanism))
    words_each = known.words_each(curator)
    # Two streams of one seed, as far apart as two generators are.
    coins, random_bytes = np.random.default_rng(claim.seed), source(claim.seed)
    for start in range(0, calls, CHUNK_CALLS):
        size = min(CHUNK_CALLS, calls - start)
        heads = int(coins.binomial(size, 0.5))
        is_drawn = len(tally.cuts) > 0 and start < PICTURED_SAMPLES
        for reward, count in enumerate((size - heads, heads)):
            words = Words.draw(words_each, count, random_bytes)
            tally.add(reward, known.responses(curator, values[reward], words), is_drawn=is_drawn)
        progress(start + size)
    return tally


def best_guess(evidence: WhiteBox, alpha: float) -> Finding:
    """Guess as is best against this mechanism."""
    guesses = Guesses(evidence.tally.right, evidence.tally.guesses, alpha)
    return guesses.finding(evidence.claim.epsilon, evidence.known.RULE)


def mean_and_variance(evidence: WhiteBox, alpha: float) -> Finding:
    """Compare mean and variance with the formula."""
    tally, claim, spec = evidence.tally, evidence.claim, evidence.spec
    moments = [
        Moments(spec.value(reward), tally.count[i], tally.total[i], tally.squares[i], tally.origins[i] * tally.unit)
        for i, reward in enumerate((claim.low, claim.high))
    ]
    return judge_moments(evidence.known, spec.mechanism, moments, alpha)


def profiles(evidence: WhiteBox) -> tuple[Profile, ...]:
    """Return the privacy loss over responses; low bits are those of the law that is proved and replayed."""
    tally, rewards = evidence.tally, (evidence.claim.low, evidence.claim.high)
    if not len(tally.cuts):
        ones = np.array(tally.total, np.int64)
        counts = np.stack([np.array(tally.count) - ones, ones], axis=1)
        return (Profile(rewards, np.array([0.0, 1.0]), counts, are_values=True),)
    return (Profile(rewards, middles(tally.cuts), tally.picture, are_values=False),)
