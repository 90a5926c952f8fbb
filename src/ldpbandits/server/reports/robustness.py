"""Whether a verdict on those who answered stands whatever the missing would have said, and if not, how many may miss.

The test is that of `missing = "worst"`: all missing answers of the leader count as 0, and those of the other arm as 1.
"""

from math import log

from ldpbandits.agent.inference.verdicts import log_evidence
from ldpbandits.output.numbers import percent
from ldpbandits.server.experiments.live import LiveExperiment
from ldpbandits.server.reports.conclusions import ArmFacts
from ldpbandits.server.reports.verdicts import Finding

STEPS = 12
"""Halvings of the share: they tell three digits."""

SMALLEST_SHARE = 0.0001


def describe_missing(experiment: LiveExperiment, arms: list[ArmFacts], found: Finding) -> str:
    """Return a sentence, with a space before it; nothing where no answer is missing, or nobody is declared better."""
    total = sum(arm.missing for arm in arms if arm.in_use)
    settings, unit = experiment.settings, experiment.agent.bound_rule.unit
    can_say = settings.missing == "answered" and settings.one_look is None and unit is not None
    if not (can_say and total and found.is_better and found.leader is not None):
        return ""
    if experiment.agent.duels is None and len(experiment.menu) > 1:  # only the coin's test counts them at worst
        return ""
    if _stands(experiment, arms, found, 1.0):
        return " It stands whatever the missing would have said."
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _stands(experiment, arms, found, middle) else (low, middle)
    answered = sum(arm.answered for arm in arms if arm.in_use)
    share = low * total / (answered + low * total)
    most = "none missing" if share < SMALLEST_SHARE else f"at most {percent(share)} missing"
    return f" To stand whatever the missing would have said, it would need {most}."


def _stands(experiment: LiveExperiment, arms: list[ArmFacts], found: Finding, part: float) -> bool:
    """Tell whether the verdict stands if this part of the missing answers counts at worst."""
    leader = found.leader or 0
    limit = log(found.criteria.needed(leader))
    for number, arm in enumerate(arms):
        if arm.in_use and number != leader:
            pair = experiment.agent.pair(leader, number, (part * arms[leader].missing, part * arm.missing))
            if log_evidence(pair, found.criteria, found.criteria.forged) < limit:
                return False
    return True
