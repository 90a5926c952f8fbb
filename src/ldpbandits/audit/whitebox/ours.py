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
from ldpbandits.audit.whitebox.sampling import Words, source
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
    """Counts of responses to two rewards, so that any number of responses fits into memory."""

    moments: Sequence[Moments]
    cuts: Reals
    """Where the picture is cut into cells; nowhere for bits."""
    picture: NDArray[np.int64]
    right: int = 0
    guesses: int = 0


def draw_counts(curator: Curator, known: Knowledge[Any, Any], claim: Claim, progress: Progress) -> BulkCounts:
    """Draw 2 * samples responses, each to a reward chosen by a fair coin, and count them.

    Only how many coins fall on either side matters, not their order, since the responses are independent.
    """
    mechanism, calls = curator.spec.mechanism, 2 * claim.samples
    values = [curator.spec.value(reward) for reward in (claim.low, claim.high)]
    origins, cuts = [known.origin(value) for value in values], known.cuts(mechanism)
    moments = [Moments(value, origin, mechanism.unit) for value, origin in zip(values, origins, strict=True)]
    tally = BulkCounts(moments, cuts, np.zeros((2, len(cuts) + 1), np.int64))
    guess_low, guess_high = known.edges(*origins)
    words_each = known.words_each(curator)
    # Two streams of one seed, as far apart as two generators are.
    coins, random_bytes = np.random.default_rng(claim.seed), source(claim.seed)
    for start in range(0, calls, CHUNK_CALLS):
        size = min(CHUNK_CALLS, calls - start)
        heads = int(coins.binomial(size, 0.5))
        for reward, count in enumerate((size - heads, heads)):
            words = Words.draw(words_each, count, random_bytes)
            responses = known.responses(curator, values[reward], words)
            guessed = [int(np.count_nonzero(each)) for each in (responses <= guess_low, responses >= guess_high)]
            tally.right += guessed[reward]
            tally.guesses += sum(guessed)
            tally.moments[reward].add(responses)
            if len(cuts) and start < PICTURED_SAMPLES:
                cells = np.searchsorted(cuts, responses * mechanism.unit)
                tally.picture[reward] += np.bincount(cells, minlength=len(cuts) + 1)
        progress(start + size)
    return tally


def best_guess(evidence: WhiteBox, alpha: float) -> Finding:
    """Guess as is best against this mechanism."""
    guesses = Guesses(evidence.tally.right, evidence.tally.guesses, alpha)
    return guesses.finding(evidence.claim.epsilon, evidence.known.RULE)


def mean_and_variance(evidence: WhiteBox, alpha: float) -> Finding:
    """Compare mean and variance with the formula."""
    return judge_moments(evidence.known, evidence.spec.mechanism, evidence.tally.moments, alpha)


def profiles(evidence: WhiteBox) -> tuple[Profile, ...]:
    """Return the privacy loss over responses; low bits are those of the law that is proved and replayed."""
    tally, rewards = evidence.tally, (evidence.claim.low, evidence.claim.high)
    if not len(tally.cuts):
        counts = np.array([[each.count - each.total, each.total] for each in tally.moments], np.int64)
        return (Profile(rewards, np.array([0.0, 1.0]), counts, are_values=True),)
    return (Profile(rewards, middles(tally.cuts), tally.picture, are_values=False),)
