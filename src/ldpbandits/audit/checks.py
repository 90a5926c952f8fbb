"""The table of checks: what an audit looks at, in the order of its layers. `docs/audit.md` shows the same table.

A check has a name, and for each box a function and a share of the chance of a false alarm. The white box is a curator
whose code the audit knows; the black box is anything else, of which it sees responses only. To add a check, write a
function from the evidence and the check's own level to a finding, and add a line here.

Shares. By the union bound an honest curator is called violated, or some lower bound lies above its true epsilon, with
probability at most the sum of the shares times 1 - confidence; the shares of a box add up to 1. Much of it goes to
the checks that give the lower bound: a share of 0.4 instead of 1 costs that bound 0.3 standard errors. A check in which
no chance is involved has no share. Why each check keeps its level is in `docs/audit.md`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic
from typing import TypeAlias

from ldpbandits.audit.blackbox.fork import fork
from ldpbandits.audit.blackbox.interior import interior_rewards
from ldpbandits.audit.blackbox.neighbours import neighbours
from ldpbandits.audit.blackbox.runs import short_runs
from ldpbandits.audit.blackbox.side_channels import bad_rewards, one_at_a_time, response_time
from ldpbandits.audit.blackbox.single import single_responses
from ldpbandits.audit.evidence import Evidence
from ldpbandits.audit.guess import custom_guesser
from ldpbandits.audit.result import Finding, Layer
from ldpbandits.audit.target import Late, Unanswered
from ldpbandits.audit.whitebox import known, ours
from ldpbandits.audit.whitebox.exact import prove_code, prove_law, replay
from ldpbandits.audit.whitebox.ours import WhiteBox

NEEDS_NOTHING, ASKS_A_LITTLE, ASKS_MUCH, JUDGES_ALL = range(4)
"""The order in which checks of a program run. Checks of short runs come before the main sample, which takes the rest of
the time. A function is asked in the order of the table, since it may remember what it was asked: bad rewards come late.

Any order keeps the level: each check has coins of its own.
"""
PROGRAM_TIME_PARTS, FUNCTION_TIME_PARTS = (1.0, 0.6, 0.75, 1.0), (1.0, 1.0, 1.0, 0.7)
"""By which part of the time the checks of each turn must be done, so that those after them have the rest."""

White: TypeAlias = Callable[[WhiteBox, float], Finding | None]
Black: TypeAlias = Callable[[Evidence, float], Finding | None]
"""From the evidence and the level of the check to its finding; None if there is nothing to say of this suspect."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the table."""

    name: str
    white: tuple[float, White] | None
    """Its share and its function for a curator whose code the audit knows; None if it is not run on one."""
    black: tuple[float, Black] | None
    """Its share and its function for any other target; None if it is not run on one."""
    turn: int = JUDGES_ALL
    """The position in the order in which checks run."""
    channel: str = "responses"
    """Where it looks: see `Layer`."""


CHECKS = (
    Check("exact", (0, prove_code), (0, prove_law), NEEDS_NOTHING, "code"),
    Check("exact: the sampler is the device", (0, replay), None, NEEDS_NOTHING, "code"),
    Check("empirical: best guess", (0.82, ours.best_guess), (0.19, known.best_guess)),
    Check("empirical: single responses", (0.09, single_responses), (0.45, single_responses)),
    Check("empirical: neighbours", (0.03, neighbours), (0.09, neighbours)),
    Check("empirical: rewards between", None, (0.06, interior_rewards), ASKS_MUCH),
    Check("empirical: own guesser", None, (0.02, custom_guesser)),
    Check("known attacks: bad rewards", (0.01, bad_rewards), (0.02, bad_rewards), ASKS_A_LITTLE, "refusals"),
    Check("known attacks: fork", (0.01, fork), (0.01, fork), ASKS_A_LITTLE, "processes"),
    Check("known attacks: one at a time", None, (0.05, one_at_a_time), ASKS_A_LITTLE),
    Check("known attacks: short runs", (0.02, short_runs), (0.08, short_runs), ASKS_A_LITTLE),
    Check("known attacks: response time", (0, response_time), (0, response_time), ASKS_A_LITTLE),
    Check("sanity: mean and variance", (0.01, ours.mean_and_variance), (0.03, known.mean_and_variance)),
    Check("sanity: the device's own code", (0.01, known.mean_and_variance), None),
)

BOUND = ("empirical: best guess", "empirical: single responses")
"""The two checks that give the lower bound. The one that is run alone has the share of both."""
BOUND_SHARE = sum(check.black[0] for check in CHECKS if check.name in BOUND and check.black)


def share(check: Check, evidence: Evidence) -> float:
    """Return the share of a check in this audit.

    Both checks of the bound are run on a black box that claims a mechanism which the audit knows. On one of which
    nothing is known, only single responses are judged.
    """
    part = check.white if isinstance(evidence, WhiteBox) else check.black
    if part is None:
        return 0.0
    is_alone = not isinstance(evidence, WhiteBox) and known.knowledge(evidence.spec) is None
    return BOUND_SHARE if is_alone and check.name in BOUND else part[0]


def run_checks(evidence: Evidence) -> tuple[Layer, ...]:
    """Run every check that looks at this suspect, by its turn; what one has found is not lost if another fails.

    Layers are in the order of the table.
    """
    begun, left = monotonic(), evidence.until - monotonic()
    is_program = evidence.target.respond is None
    parts = PROGRAM_TIME_PARTS if is_program else FUNCTION_TIME_PARTS
    limited = [evidence if part == 1 else replace(evidence, until=begun + part * left) for part in parts]
    found = {
        check.name: _run(check, limited[check.turn], evidence.claim.alpha(share(check, evidence)))
        for check in (sorted(CHECKS, key=lambda check: check.turn) if is_program else CHECKS)
    }
    findings = [(check, found[check.name]) for check in CHECKS]
    return tuple(finding.layer(check.name, check.channel) for check, finding in findings if finding is not None)


def _run(check: Check, evidence: Evidence, alpha: float) -> Finding | None:
    if isinstance(evidence, WhiteBox):
        return None if check.white is None else check.white[1](evidence, alpha)
    if check.black is None:
        return None
    try:
        return check.black[1](evidence, alpha)
    except Unanswered as error:
        if check.turn == JUDGES_ALL and not isinstance(error, Late):
            raise  # there is nothing to judge at all
        return Finding("not finished", str(error))
