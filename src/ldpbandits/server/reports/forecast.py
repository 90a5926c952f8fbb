"""Whether the best arm is separated, and if not, about how many more responses that takes: in words and in numbers."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from ldpbandits.agent.forecast import Prospect, more_by_rule, more_responses
from ldpbandits.agent.separation import ALPHA
from ldpbandits.server.api.messages import Best, Forecast
from ldpbandits.server.experiments.history import Moment
from ldpbandits.server.experiments.live import LiveExperiment
from ldpbandits.server.reports.conclusions import ArmFacts, best_arm, percent

FEWEST_RESPONSES = 20
"""Responses of an arm below which there is no forecast."""

MOST_COMPARED = 16
"""Arms that are compared with the best for a forecast: those whose intervals reach highest."""

WORTH_SAYING = 0.75
"""Equal traffic is mentioned when it would take less than this share of the responses."""


def forecast(experiment: LiveExperiment, arms: list[ArmFacts], before: Moment) -> Forecast:
    """Return whether the best arm is separated, and if not, about how many more responses that takes.

    `before` is the moment at half of the responses: the shares of the arms since then are the present traffic.
    """
    best = best_arm(arms)
    if best is None:
        return Forecast(separated=False, more_responses=None, sentence="there are no responses yet")
    if best.separated:
        sentence = (
            f"{best.name} is better than every other arm in use, with {percent(1 - ALPHA)} confidence, whatever "
            "those who have not answered would have said"
        )
        return Forecast(separated=True, more_responses=0, sentence=sentence + _stopped(experiment))
    number, sentence = _guess(experiment, arms, best, before)
    return Forecast(separated=False, more_responses=number, sentence=f"not separated yet: {sentence}")


def _guess(experiment: LiveExperiment, arms: list[ArmFacts], best: Best, before: Moment) -> tuple[int | None, str]:
    """Return the number of responses that separation takes, if it can be predicted, and a sentence."""
    in_use = [number for number, arm in enumerate(arms) if arm.in_use]
    nothing = _nothing_to_say([arms[number] for number in in_use])
    if nothing is not None:
        return None, nothing
    closest = sorted(in_use, key=lambda number: arms[number].worst.high, reverse=True)
    others = [number for number in closest if number != best.arm][:MOST_COMPARED]
    traffic = _traffic(experiment, in_use, before)
    prospects = {
        number: Prospect(
            experiment.arms[number],
            arms[number].known.alpha,
            arms[number].answered,
            arms[number].missing,
            arms[number].out,
            traffic[number],
        )
        for number in (best.arm, *others)
    }

    def needed(change: Callable[[Prospect], Prospect]) -> int | None:
        changed = {number: change(prospect) for number, prospect in prospects.items()}
        return more_responses(changed[best.arm], [changed[number] for number in others], experiment.menu)

    number = needed(lambda as_it_is: as_it_is)
    out = sum(arms[n].out for n in in_use)
    if out and needed(lambda arm: replace(arm, out=0)) == 0:
        return number, f"{out:,} pulls are out, and those who have not answered yet might change the order"
    if number is None:
        if needed(lambda arm: replace(arm, missing=0, out=0)) is None:
            return None, f"at the present traffic it would take more than a billion responses ({best.name} is ahead)"
        return None, "however many more responses come, those that are missing might change the order"
    said = f"about {_about(number)} more responses at the present traffic"
    equal = needed(lambda arm: replace(arm, share=1 / len(in_use)))
    if equal is not None and equal < WORTH_SAYING * number:
        rest = [prospects[each] for each in others]
        later = _later(experiment, prospects[best.arm], rest) if len(in_use) == len(prospects) else None
        far = "far more" if later is None or later <= number else f"about {_about(later)}"
        said += (
            f", and {far} if the rule keeps giving worse arms less and less of it; "
            f"with equal traffic it would be about {_about(equal)} (see minimum_share)"
        )
    return number, said


def _later(experiment: LiveExperiment, best: Prospect, others: list[Prospect]) -> int | None:
    """Return the number of responses that separation takes under the rule's allocation; these are all arms in use."""
    least = experiment.settings.minimum_share or 0.0
    return more_by_rule(best, others, experiment.menu, experiment.agent.bound_rule, minimum_share=least)


def _nothing_to_say(in_use: list[ArmFacts]) -> str | None:
    """Return why there is no forecast for these arms, or None."""
    if len(in_use) == 1:
        return "there is only one arm in use"
    if not all(arm.worst.fits for arm in in_use):
        return "no mean fits the responses of some arm"
    fewest = min(in_use, key=lambda arm: arm.known.pulls)
    if fewest.known.pulls < FEWEST_RESPONSES:
        return f"too few responses to say more ({fewest.name} has {fewest.known.pulls})"
    return None


def _traffic(experiment: LiveExperiment, in_use: list[int], before: Moment) -> dict[int, float]:
    """Return the shares of the arms in use among the responses since that moment."""
    cells = before.by_arm()
    earlier = {number: sum(cell.pulls for cell in cells.get(number, ())) for number in in_use}
    recent = {number: experiment.arms[number].pulls - earlier[number] for number in in_use}
    responses = sum(recent.values())
    return {number: count / responses if responses else 1 / len(in_use) for number, count in recent.items()}


def _stopped(experiment: LiveExperiment) -> str:
    """Return a sentence on an experiment that has stopped itself, or on when it may."""
    if experiment.stopped and experiment.status in {"paused", "shipped"}:
        return f"; it was {experiment.status} by stop_when_separated"
    settings = experiment.settings
    if (
        settings.stop_when_separated
        and settings.stop_after
        and experiment.status == "running"
        and not experiment.stopped
    ):
        earliest = datetime.fromtimestamp(experiment.created_at + settings.stop_after, UTC)
        return f"; stop_when_separated acts from {earliest:%-d %B %Y, %H:%M} UTC on"
    return ""


def _about(number: int) -> str:
    """Format a number with two significant digits."""
    return f"{round(number, 2 - len(str(number))):,}"
