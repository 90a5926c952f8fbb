"""Conclusions of an experiment: intervals, the best arm, and warnings."""

from collections.abc import Sequence
from dataclasses import dataclass

from ldpbandits.agent.inference.estimates import Estimate, estimate_arm, share
from ldpbandits.agent.inference.missing import missing_interval, worst_case
from ldpbandits.agent.inference.separation import ALPHA
from ldpbandits.output.numbers import percent
from ldpbandits.server.experiments.events import CAPPED, JUMP
from ldpbandits.server.experiments.live import LiveExperiment

MANY_MISSING = 0.05
"""The share of an arm's missing answers above which there is a warning."""

MOST_WARNINGS = 20
"""Warnings of one kind that are listed."""

FALSE_ALARM = 0.01
"""The probability of ever reporting a difference between shares of missing answers when there is none."""


@dataclass(frozen=True)
class ArmFacts:
    """An arm's estimate, its worst-case estimate over its accepted and unanswered pulls, and the number of these.

    `answered`, `missing` and `out` are those of accepted pulls: `out` are still open.
    """

    name: str
    known: Estimate
    worst: Estimate
    in_use: bool
    answered: int
    missing: int
    out: int

    @property
    def missing_share(self) -> float | None:
        """The share of missing answers among settled accepted pulls; None before there are any."""
        settled = self.answered + self.missing
        return self.missing / settled if settled else None


def facts(experiment: LiveExperiment) -> list[ArmFacts]:
    """Compute the intervals of each arm, in a millisecond or two; nothing is known of them while they are hidden."""
    found, ends, is_hidden = [], experiment.menu.reward_ends, experiment.is_hidden
    for number, (arm, record) in enumerate(zip(experiment.arms, experiment.records, strict=True)):
        known = estimate_arm(arm, experiment.menu, alpha=share(ALPHA, number))
        if is_hidden:
            known = worst = known.hidden(ends)
        else:
            worst = worst_case(known, arm, experiment.menu, record.unanswered)
        answered = arm.pulls - experiment.settings.warm(number)
        out = record.unanswered - record.missing
        found.append(ArmFacts(record.name, known, worst, not arm.retired, answered, record.missing, out))
    return found


def warnings(arms: list[ArmFacts]) -> list[str]:
    """Return warnings: missing answers, unequal shares of them, wrong curators."""
    told: list[str] = []
    for arm in arms:
        if arm.missing_share is not None and arm.missing_share > MANY_MISSING:
            counts = f"{arm.missing:,} of {arm.answered + arm.missing:,}"
            told.append(
                f"{arm.name}: {percent(arm.missing_share)} of the answers are missing ({counts}): "
                "conclude from worst_low and worst_high, which hold whatever they would have said"
            )
    wrong = [
        f"{arm.name}: no mean fits its responses: some are not those of this curator"
        for arm in arms
        if not arm.worst.fits
    ]
    return [*_some(told), *unequal_missing(arms), *_some(wrong)]


def incidents(experiment: LiveExperiment) -> list[str]:
    """Return warnings of jumps of the traffic, and of pauses above the cap."""
    told, count, cap = [], experiment.incidents, experiment.settings.responses_per_hour
    if count[CAPPED]:
        told.append(
            f"the experiment paused itself {_times(count[CAPPED])}: more than responses_per_hour = {cap:,} came "
            "within an hour; look for a flood before you resume it"
        )
    if count[JUMP]:
        told.append(
            f"decisions or responses jumped within a minute, {_times(count[JUMP])}: a flood of made-up responses "
            "looks like this; stop_when_decided pauses such an experiment and does not ship"
        )
    return told


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


def _some(warnings: list[str]) -> list[str]:
    """Keep the first warnings of each kind, and count the rest."""
    more = len(warnings) - MOST_WARNINGS
    return warnings if more <= 0 else [*warnings[:MOST_WARNINGS], f"and the same of {more:,} more arms"]


def unequal_missing(arms: Sequence[ArmFacts]) -> list[str]:
    """Name the two arms whose shares of missing answers differ most, if that is more than chance explains.

    The shares have confidence sequences, valid at all times; when two are disjoint, the shares differ.
    """
    shares = {
        number: missing_interval(arm.answered, arm.missing, arm.out, share(FALSE_ALARM, number))
        for number, arm in enumerate(arms)
        if arm.in_use and arm.missing_share is not None
    }
    if not shares:
        return []
    most, least = max(shares, key=lambda n: shares[n][0]), min(shares, key=lambda n: shares[n][1])
    if shares[most][0] <= shares[least][1]:
        return []
    more, less = (f"{arms[n].name} ({percent(arms[n].missing_share or 0)})" for n in (most, least))
    what_it_means = "whether people answer seems to depend on the arm"
    return [f"more answers are missing for {more} than for {less}, which chance does not explain: {what_it_means}"]
