"""About how many more responses a verdict takes, by the code that reaches it: in words and in numbers.

A forecast takes the responses so far s times, with the same means and the same shares of the traffic, and looks for the
least s at which the leader would be declared.
"""

from datetime import UTC, datetime

from ldpbandits.agent.inference.forecast import more_until_verdict
from ldpbandits.output.numbers import about
from ldpbandits.server.experiments.live import LiveExperiment
from ldpbandits.server.reports.conclusions import ArmFacts
from ldpbandits.server.reports.verdicts import Finding, pairs_of
from ldpbandits.spec.messages import Forecast

FEWEST_RESPONSES = 20
"""Responses of an arm below which there is no forecast."""

MOST_COMPARED = 16
"""Arms that are compared with the leader: those with the least evidence."""


def forecast(experiment: LiveExperiment, arms: list[ArmFacts], found: Finding) -> Forecast:
    """Return whether the best arm is known, and if not, about how many more responses that takes."""
    if found.verdict.kind != "undecided":
        sentence = found.verdict.sentence.removesuffix(".") + _stopped(experiment)
        return Forecast(separated=found.is_better, more_responses=0, sentence=sentence)
    needed = experiment.settings.one_look
    if needed is not None:
        more = max(needed - experiment.responses, 0) if experiment.is_hidden else None
        told = (
            "not decided, and there is no other look" if more is None else f"{more:,} more responses until its one look"
        )
        return Forecast(separated=False, more_responses=more, sentence=told + _stopped(experiment))
    nothing = _nothing_to_say(experiment, [arm for arm in arms if arm.in_use])
    if nothing is not None:
        return Forecast(separated=False, more_responses=None, sentence=nothing)
    number = _more_responses(experiment, found)
    if number is None:
        told = f"at the present traffic it would take more than a billion responses ({found.verdict.leader} is ahead)"
    else:
        told = f"about {about(number)} more responses at the present traffic"
    return Forecast(separated=False, more_responses=number, sentence=f"not decided yet: {told}")


def _more_responses(experiment: LiveExperiment, found: Finding) -> int | None:
    """Return the number of responses that the verdict still takes; None above a billion, or without pairs."""
    pairs, leader, criteria = pairs_of(experiment), found.leader, found.criteria
    if leader is None or not found.comparisons:
        return None
    hardest = sorted(found.comparisons, key=lambda each: each.evidence)[:MOST_COMPARED]
    compared = [pair for each in hardest if (pair := pairs(leader, each.arm)) is not None]
    if len(compared) < len(hardest):
        return None

    def growth(more: float) -> list[tuple[float, float]]:
        return [(1 + more / experiment.responses,) * 2] * len(compared)

    return more_until_verdict(compared, criteria, criteria.needed(leader), growth)


def _nothing_to_say(experiment: LiveExperiment, in_use: list[ArmFacts]) -> str | None:
    """Return why there is no forecast for these arms, or None."""
    if not experiment.responses:
        return "there are no responses yet"
    if len(in_use) == 1:
        return "not decided yet: there is only one arm in use"
    if not all(arm.worst.fits for arm in in_use):
        return "not decided yet: no mean fits the responses of some arm"
    fewest = min(in_use, key=lambda arm: arm.known.pulls)
    if fewest.known.pulls < FEWEST_RESPONSES:
        return f"not decided yet: too few responses to say more ({fewest.name} has {fewest.known.pulls})"
    return None


def _stopped(experiment: LiveExperiment) -> str:
    """Return a sentence on an experiment that has stopped itself, or on when it may."""
    if experiment.stopped and experiment.status in {"paused", "shipped"}:
        return f"; it was {experiment.status} by stop_when_decided"
    settings = experiment.settings
    if settings.stop_when_decided and settings.stop_after and experiment.status == "running" and not experiment.stopped:
        earliest = datetime.fromtimestamp(experiment.created_at + settings.stop_after, UTC)
        return f"; it may stop by itself from {earliest:%-d %B %Y, %H:%M} UTC on"
    return ""
