"""The table of checks: what an audit looks at, in the order of its layers. `docs/privacy.md` shows the same table.

A check has a name, a share of the chance of a false alarm, and a function for each box. The white box is a curator
whose code the audit knows; the black box is anything else, of which it sees responses only. To add a check, write a
function from the evidence and the check's own level to a finding, and add a line here.

Shares. By the union bound an honest curator is called violated, or some lower bound lies above its true epsilon, with
probability at most the sum of the shares times 1 - confidence; the shares add up to 1. Nearly all goes to the two
checks that give the lower bound: a share of 0.84 instead of 1 costs that bound 0.05 standard errors, and the checks for
faults, which are absent or glaring, need little. A check in which no chance is involved has no share.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from ldpbandits.audit.blackbox.events import chosen_event, low_bits, precision, reward_before
from ldpbandits.audit.blackbox.refusals import bad_rewards
from ldpbandits.audit.blackbox.repeats import fork, memory, repeated_seed
from ldpbandits.audit.blackbox.timing import response_time
from ldpbandits.audit.evidence import Evidence
from ldpbandits.audit.result import Finding, Layer
from ldpbandits.audit.whitebox import known, ours
from ldpbandits.audit.whitebox.exact import prove_code, prove_law, replay
from ldpbandits.audit.whitebox.ours import WhiteBox

White: TypeAlias = Callable[[WhiteBox, float], Finding | None]
Black: TypeAlias = Callable[[Evidence, float], Finding | None]
"""From the evidence and the level of the check to its finding; None if there is nothing to say of this suspect."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the table."""

    name: str
    share: float
    """What part of 1 - confidence it may use up."""
    white: White | None
    """Run on a curator whose code the audit knows; None if it is not."""
    black: Black | None
    """Run on any other suspect; None if it is not."""

    @classmethod
    def of_any(cls, name: str, share: float, run: Black) -> "Check":
        """Return a check that looks at every suspect in the same way."""
        return cls(name, share, run, run)


CHECKS = (
    Check("exact", 0, prove_code, prove_law),
    Check("exact: the sampler is the device", 0, replay, None),
    Check("empirical: best guess", 0.42, ours.best_guess, known.best_guess),
    Check("empirical: chosen event", 0.42, None, chosen_event),
    Check("empirical: low-order bits", 0.03, ours.low_bits, low_bits),
    Check("empirical: chosen event on the device", 0.02, chosen_event, None),
    Check("empirical: low-order bits on the device", 0.01, low_bits, None),
    Check.of_any("known attacks: precision event", 0.02, precision),
    Check.of_any("known attacks: the reward before", 0.03, reward_before),
    Check.of_any("known attacks: fork", 0.01, fork),
    Check.of_any("known attacks: repeated seed", 0.01, repeated_seed),
    Check.of_any("known attacks: memoised responses", 0.01, memory),
    Check.of_any("known attacks: bad rewards", 0, bad_rewards),
    Check.of_any("known attacks: response time", 0, response_time),
    Check("sanity: mean and variance", 0.01, ours.mean_and_variance, known.mean_and_variance),
    Check("sanity: the device's own code", 0.01, known.mean_and_variance, None),
)

BOUND = ("empirical: best guess", "empirical: chosen event")
"""The two checks that give the lower bound. The one that is run alone has the share of both."""
BOUND_SHARE = sum(check.share for check in CHECKS if check.name in BOUND)


def share(check: Check, evidence: Evidence) -> float:
    """Return the share of a check in this audit.

    Both checks of the bound are run on a black box that claims a mechanism which the audit knows. On a white box only
    the best guess is; on a black box of which nothing is known, only the chosen event.
    """
    is_alone = isinstance(evidence, WhiteBox) or known.knowledge(evidence.spec) is None
    return BOUND_SHARE if is_alone and check.name in BOUND else check.share


def run_checks(evidence: Evidence) -> tuple[Layer, ...]:
    """Run every check that looks at this suspect, in order."""
    layers = []
    for check in CHECKS:
        finding = _run(check, evidence, evidence.claim.alpha(share(check, evidence)))
        if finding is not None:
            layers.append(finding.layer(check.name))
    return tuple(layers)


def _run(check: Check, evidence: Evidence, alpha: float) -> Finding | None:
    if isinstance(evidence, WhiteBox):
        return None if check.white is None else check.white(evidence, alpha)
    return None if check.black is None else check.black(evidence, alpha)
