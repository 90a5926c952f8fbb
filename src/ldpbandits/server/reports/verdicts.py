"""The verdict on an experiment: its settings as criteria, its responses as pairs, and the verdict that was kept."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from math import inf

from ldpbandits.agent.inference.differences import Pair
from ldpbandits.agent.inference.separation import is_separated, leading
from ldpbandits.agent.inference.verdicts import (
    Comparison,
    Criteria,
    Pairs,
    Verdict,
    compare,
    describe,
    judge,
    log_evidence,
    unequal_answers,
)
from ldpbandits.agent.levels import Levels
from ldpbandits.errors import ParameterError
from ldpbandits.server.experiments.kept_verdicts import KeptVerdict
from ldpbandits.server.experiments.live import LiveExperiment
from ldpbandits.server.experiments.one_look import Look
from ldpbandits.server.experiments.settings import Settings
from ldpbandits.server.reports.conclusions import FALSE_ALARM, ArmFacts, unequal_missing
from ldpbandits.spec import messages
from ldpbandits.spec.menu import Menu
from ldpbandits.spec.messages import VerdictKind

MOST_COMPARED = 10
"""Comparisons of a report: of more arms, those with the least evidence. One takes about 50 milliseconds."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict as the report has it, the number of the leading arm, and what is to be kept of it."""

    verdict: messages.Verdict
    comparisons: tuple[messages.Comparison, ...]
    leader: int | None
    kept: KeptVerdict | None
    criteria: Criteria

    @property
    def is_better(self) -> bool:
        """Whether the leader is known to be the best."""
        return self.verdict.kind == "better"


def criteria_of(settings: Settings, menu: Menu, arms: int, *, is_control_in_use: bool = True) -> Criteria:
    """Return when an experiment with this number of arms is decided; raise ParameterError for an impossible plan."""
    least, most = menu.reward_ends
    width = most - least
    planned = None
    if settings.expect is not None:
        plan = settings.expect
        planned = (plan.baseline - least) / width, (plan.baseline + plan.gain - least) / width
        if not 0 <= planned[0] < planned[1] <= 1:
            ends = f"from {least:g} to {most:g}"
            raise ParameterError(f"expect must have a baseline and a baseline + gain {ends}, and a gain above 0")
    for name in ("worth", "harm"):
        size = getattr(settings, name)
        if size is not None and not 0 < size < width:
            raise ParameterError(f"{name} must be above 0 and below {width:g}, the width of the rewards, got {size:g}")
    return Criteria(
        arms=settings.first_arms or arms,
        may_add_arms=settings.may_add_arms,
        planned=planned,
        forged=settings.forged,
        worth=None if settings.worth is None or not is_control_in_use else settings.worth / width,
        harm=None if settings.harm is None else settings.harm / width,
        control=settings.control,
        one_look=settings.one_look,
    )


def pairs_of(experiment: LiveExperiment) -> Pairs:
    """Return the comparison of two arms; with `missing` = worst, unanswered pulls count at worst.

    An experiment with one look compares the responses of the look.
    """
    if experiment.settings.one_look is not None:
        return _pairs_of_look(experiment.look or {}, experiment.menu)
    if experiment.settings.missing == "answered":
        return experiment.agent.pair

    def worst(b: int, a: int) -> Pair | None:
        unanswered = [float(experiment.records[arm].unanswered) for arm in (b, a)]
        return experiment.agent.pair(b, a, (unanswered[0], unanswered[1]))

    return worst


def _pairs_of_look(look: Look, menu: Menu) -> Pairs:
    scale, nothing = Levels.of(menu).numbers, (0,) * (2 * len(menu))

    def pair(b: int, a: int) -> Pair | None:
        of_b, of_a = look.get(b, nothing), look.get(a, nothing)
        places = range(0, len(nothing), 2)
        cells = tuple(float(number) for at in places for number in (*of_b[at : at + 2], *of_a[at : at + 2]))
        return Pair(cells, scale, is_fair=True) if any(cells) else None

    return pair


def find_verdict(experiment: LiveExperiment, arms: Sequence[ArmFacts], *, with_comparisons: bool = True) -> Finding:
    """Return the verdict on an experiment with these facts: the one that was kept, or that of now.

    Comparisons take far longer than the verdict, so that a check leaves them out.
    """
    has_one_look = experiment.settings.one_look is not None
    in_use = [number for number, arm in enumerate(arms) if arm.in_use or has_one_look]  # it is on all arms, for good
    criteria = criteria_of(
        experiment.settings, experiment.menu, len(arms), is_control_in_use=experiment.settings.control in in_use
    )
    pairs = pairs_of(experiment)
    now = (
        judge(in_use, pairs, criteria)
        if has_one_look or _has_pairs(experiment)
        else _by_intervals(in_use, arms, criteria, is_worst=experiment.settings.missing == "worst")
    )
    kept = experiment.kept_verdict
    reason = _no_look(experiment) or _withheld(experiment, arms)
    if has_one_look and kept is not None:
        reason = None  # it follows from the look, whatever has happened since
    if reason is not None:
        now = replace(now, kind="undecided", forged=0.0, harmful=())
    if kept is not None and kept.kind == "no-gain" and now.kind == "better":
        kept = None  # both are true, and the better arm says more
    if kept is not None and kept.kind != "harm" and not has_one_look:  # harm is not kept: the arm may be retired
        leader = kept.arm if kept.kind == "better" else now.leader
        told = replace(now, kind=kept.kind, leader=leader, evidence=kept.evidence, drift_proof=kept.drift_proof)
    else:
        told = now
    found = _comparisons(in_use, told.leader, pairs, criteria, experiment.menu) if with_comparisons else []
    names = [arm.name for arm in arms]
    sentence = describe(told, found, names, experiment.menu.reward_ends, criteria)
    if reason is not None and kept is None:
        sentence = reason
    elif kept is not None and not has_one_look:
        sentence += f" Reached at {kept.responses:,} responses."
    kind: VerdictKind = "harm" if told.kind == "undecided" and told.harmful else told.kind
    reached = experiment.settings.one_look or experiment.responses
    responses = None if kind == "undecided" else reached if kept is None else kept.responses
    return Finding(
        messages.Verdict(
            kind=kind,
            leader=None if told.leader is None else names[told.leader],
            evidence=told.evidence,
            needed=told.needed,
            drift_proof=told.drift_proof,
            forged=told.forged,
            responses=responses,
            sentence=sentence,
        ),
        tuple(_message(each, names) for each in found),
        told.leader,
        kept or _to_keep(told, kind, experiment, criteria),
        criteria,
    )


def _to_keep(told: Verdict, kind: VerdictKind, experiment: LiveExperiment, criteria: Criteria) -> KeptVerdict | None:
    match kind:
        case "undecided":
            return None
        case "better":
            arm = told.leader or 0
        case "no-gain":
            arm = criteria.control
        case "harm":
            arm = told.harmful[0]
    reached = experiment.settings.one_look or experiment.responses
    return KeptVerdict(kind, arm, reached, len(experiment.records), told.evidence, told.drift_proof)


def _has_pairs(experiment: LiveExperiment) -> bool:
    """Tell whether the pairs of arms hold what the settings promise.

    They do not where a rule has no bounded numbers, as the paper's on Laplace responses, nor where missing answers
    count at worst under several epsilons without a coin. Worst-case intervals, which do, take more responses.
    """
    rule, is_worst = experiment.agent.bound_rule, experiment.settings.missing == "worst"
    return rule.unit is not None and (experiment.agent.duels is not None or len(experiment.menu) == 1 or not is_worst)


def _by_intervals(in_use: Sequence[int], arms: Sequence[ArmFacts], criteria: Criteria, *, is_worst: bool) -> Verdict:
    """Return the verdict by intervals of the arms that do not overlap."""
    place = leading([arms[number].known.mean for number in in_use])
    if place is None:
        return Verdict("undecided", None, 1.0, criteria.needed(0), (), drift_proof=False)
    needed = criteria.needed(in_use[place])
    is_better = is_separated(place, [arms[number].worst if is_worst else arms[number].known for number in in_use])
    evidence = needed if is_better else 1.0
    return Verdict("better" if is_better else "undecided", in_use[place], evidence, needed, (), drift_proof=False)


def _no_look(experiment: LiveExperiment) -> str | None:
    """Return why an experiment with one look has not been judged, or None."""
    needed, come = experiment.settings.one_look, experiment.responses
    if needed is None or experiment.look is not None:
        return None
    if not experiment.is_hidden:
        return f"There is no verdict: it was closed at {come:,} of the {needed:,} responses of its one look."
    told = f"{min(come, needed):,} of {needed:,} responses are in"
    return f"It is judged once: {told}. Nobody sees any result before, so that the one look is the first."


def _withheld(experiment: LiveExperiment, arms: Sequence[ArmFacts]) -> str | None:
    """Return why there can be no verdict now, or None."""
    in_use = [arm for arm in arms if arm.in_use]
    if not experiment.responses:
        return "There are no responses yet."
    if experiment.settings.one_look is None:  # the look is on all arms, and later responses do not change it
        if len(in_use) == 1:
            return "There is only one arm in use."
        if not all(arm.worst.fits for arm in in_use):
            return "There is no verdict: no mean fits the responses of some arm."
    unequal = [] if experiment.settings.missing == "worst" else [*unequal_missing(arms), *unequal_coins(experiment)]
    return f"The verdict is withheld: {unequal[0]}." if unequal else None


def unequal_coins(experiment: LiveExperiment) -> list[str]:
    """Name two arms between which a fair coin chose, of which one has more responses than chance explains.

    Unlike the shares of missing answers it needs not wait until tickets expire.
    """
    found = unequal_answers(experiment.agent.tally.in_use, experiment.agent.pair, FALSE_ALARM)
    if found is None:
        return []
    more, less = (experiment.records[arm].name for arm in found)
    why = "whether or when people answer seems to depend on the arm"
    return [f"more answers have come for {more} than for {less}, though a fair coin chose between them: {why}"]


def _comparisons(
    in_use: Sequence[int], leader: int | None, pairs: Pairs, criteria: Criteria, menu: Menu
) -> list[Comparison]:
    if leader is None:
        return []
    found = [(arm, pair) for arm in in_use if arm != leader and (pair := pairs(leader, arm)) is not None]
    if len(found) > MOST_COMPARED:
        found = nsmallest(MOST_COMPARED, found, key=lambda each: log_evidence(each[1], criteria, criteria.forged))
    return [compare(leader, arm, pair, criteria, menu.reward_ends) for arm, pair in sorted(found, key=_arm)]


def _arm(found: tuple[int, Pair]) -> int:
    return found[0]


def _message(found: Comparison, names: Sequence[str]) -> messages.Comparison:
    return messages.Comparison(
        arm=found.arm,
        name=names[found.arm],
        difference=found.difference,
        low=found.low,
        high=found.high,
        lift=found.lift,
        lift_low=found.lift_low,
        lift_high=None if found.lift_high == inf else found.lift_high,
        evidence=found.evidence,
    )
