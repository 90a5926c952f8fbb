"""White-box knowledge of mechanisms beyond their responses, and the checks of targets that claim one of them.

`KNOWN` is the one place where a mechanism is looked up. One that is not there is audited all the same, by its responses
alone; the checks that need its formulas or its code say that they do not apply.
"""

from collections.abc import Sequence
from typing import Any, Protocol, TypeGuard, TypeVar

import numpy as np

from ldpbandits.audit.evidence import Evidence
from ldpbandits.audit.guess import Guesses
from ldpbandits.audit.result import Finding, Reals
from ldpbandits.audit.sample import Moments
from ldpbandits.audit.whitebox import bernoulli, laplace
from ldpbandits.audit.whitebox.exact import Row
from ldpbandits.audit.whitebox.sampling import Integers, Words
from ldpbandits.device.curators import Curator
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.mechanisms import Bernoulli, Laplace, Mechanism

M_contra = TypeVar("M_contra", contravariant=True)
C_contra = TypeVar("C_contra", contravariant=True)


class Knowledge(Protocol[M_contra, C_contra]):
    """All that the audit knows of one mechanism, and of the curator that draws its responses.

    The modules `bernoulli` and `laplace` are such; any object with these names will do.
    """

    CURATOR: type[Curator]
    """The curator whose code it is."""
    RULE: str
    """The best guess, in words."""
    LEAST: int
    """How many responses to each reward the test of the moments needs."""

    def edges(self, low: Any, high: Any) -> tuple[Any, Any]:  # noqa: ANN401 - ints in units, or floats
        """Return where to guess: the low reward at or below the first, the high one at or above the second."""

    def origin(self, value: float) -> int:
        """Return what is subtracted, in units, before responses are summed."""

    def fits(self, of: Moments, mechanism: M_contra, alpha: float) -> tuple[str, bool]:
        """Compare mean and variance with the formula: in words, and whether they agree at this level."""

    def cuts(self, mechanism: M_contra) -> Reals:
        """Return where a picture of the responses is cut into bins; nowhere if responses are bits."""

    def prove(self, curator: C_contra, epsilon: float) -> Finding:
        """Compare the largest log-ratio with epsilon, by the code of the curator."""

    def words_each(self, curator: C_contra) -> int:
        """Return how many words a response takes, unless one of them ties."""

    def responses(self, curator: C_contra, value: float, words: Words) -> Integers:
        """Return the responses of many devices to one value, in units of the mechanism."""

    def plant(self, curator: C_contra, value: float, kind: int, turn: int, row: Row) -> None:
        """Plant a rare case among the words of a row. `turn` counts the rows of each kind."""


KNOWN: dict[type[Mechanism], Knowledge[Any, Any]] = {
    Bernoulli: bernoulli,
    Laplace: laplace,
}


def knowledge(spec: CuratorSpec | None) -> Knowledge[Any, Any] | None:
    """Return what the audit knows of the mechanism of a spec, if it knows it."""
    return None if spec is None else KNOWN.get(type(spec.mechanism))


def is_known_by_code(respond: object) -> TypeGuard[Curator]:
    """Tell whether this is a curator whose code the audit knows; a subclass may respond in ways of its own."""
    known = knowledge(respond.spec) if isinstance(respond, Curator) else None
    return known is not None and type(respond) is known.CURATOR


def best_guess(evidence: Evidence, alpha: float) -> Finding | None:
    """Guess as is best against the mechanism that is claimed; nothing to say if none is claimed."""
    spec, claim = evidence.spec, evidence.claim
    if spec is None:
        return None
    known = knowledge(spec)
    if known is None:
        return Finding("not applicable", f"the audit knows no best guess against {spec.mechanism.kind}")
    sample = evidence.sample
    low, high = known.edges(spec.value(claim.low), spec.value(claim.high))
    lowest, highest = sample.rewards.index(claim.low), sample.rewards.index(claim.high)
    right = total = 0
    for chosen, responses in sample.everything():
        is_low, is_high = chosen == lowest, chosen == highest
        says_low, says_high = responses <= low, responses >= high
        right += int(np.count_nonzero((is_low & says_low) | (is_high & says_high)))
        total += int(np.count_nonzero((is_low | is_high) & (says_low | says_high)))
    guesses = Guesses(right, total, alpha)
    return guesses.finding(claim.epsilon, f"best against {spec.mechanism.kind}")


def mean_and_variance(evidence: Evidence, alpha: float) -> Finding:
    """Compare mean and variance with the formula of the mechanism that is claimed."""
    spec = evidence.spec
    if spec is None:
        return Finding("not applicable", "give spec, the curator it claims to be")
    known = knowledge(spec)
    if known is None:
        return Finding("not applicable", f"the audit knows no formula for {spec.mechanism.kind}")
    values = [spec.value(reward) for reward in evidence.sample.rewards]
    moments = [Moments(value, known.origin(value) * spec.mechanism.unit) for value in values]
    for chosen, responses in evidence.sample.everything():
        for number, each in enumerate(moments):
            each.add(responses[chosen == number])
    return judge_moments(known, spec.mechanism, moments, alpha)


def judge_moments(
    known: Knowledge[Any, Any], mechanism: Mechanism, moments: Sequence[Moments], alpha: float
) -> Finding:
    """Compare sums of responses with the formula; each reward has an equal part of the level."""
    if min(each.count for each in moments) < known.LEAST:
        return Finding("not applicable", f"needs {known.LEAST:,} responses to each reward")
    if not all(np.isfinite(each.squares) for each in moments):
        return Finding("violated", "some responses are infinite, not a number, or too large to be of this curator")
    results = [known.fits(each, mechanism, alpha / len(moments)) for each in moments]
    detail = "; ".join(text for text, _ in results)
    return Finding("consistent" if all(agrees for _, agrees in results) else "violated", detail)
