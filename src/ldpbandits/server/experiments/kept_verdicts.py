"""Verdicts that were reached, as events of the store: retiring the loser, or a restart, does not erase them.

The kind of such an event holds the verdict itself, and the event belongs to the arm that the verdict is on. Workers
that reach one verdict at different numbers of responses write several; the earliest counts.
"""

from collections.abc import Iterable
from typing import NamedTuple, cast

from ldpbandits.spec.messages import VerdictKind

PREFIX = "decided"
_DRIFT_PROOF, _CONSTANT = "drift-proof", "constant-means"


class KeptVerdict(NamedTuple):
    """A verdict on an arm, and the number of responses and of arms at which it was reached."""

    kind: VerdictKind
    arm: int
    responses: int
    arms: int
    evidence: float
    drift_proof: bool

    @property
    def event_kind(self) -> str:
        """The kind of its event.

        >>> KeptVerdict("better", 1, 20_340, 2, 41.5, drift_proof=True).event_kind
        'decided better 20340 2 41.5 drift-proof'
        """
        promise = _DRIFT_PROOF if self.drift_proof else _CONSTANT
        return f"{PREFIX} {self.kind} {self.responses} {self.arms} {self.evidence:.4g} {promise}"


def is_kept_verdict(kind: str) -> bool:
    """Tell whether the kind of an event holds a verdict."""
    return kind.startswith(PREFIX + " ")


def read_verdicts(arm: int, kinds: Iterable[str]) -> list[KeptVerdict]:
    """Return the verdicts on an arm among the kinds of its events; unreadable ones are left out."""
    found = []
    for text in kinds:
        match text.split(" "):
            case [word, "better" | "no-gain" | "harm" as kind, responses, arms, evidence, promise] if word == PREFIX:
                numbers = int(responses), int(arms), float(evidence)
                found.append(KeptVerdict(cast("VerdictKind", kind), arm, *numbers, promise == _DRIFT_PROOF))
    return found
