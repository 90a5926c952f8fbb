"""What an experimenter may conclude: intervals, which arm is best, what to beware of, and how long it will take."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from ldpbandits.agent.estimates import Estimate, estimate_arm, share
from ldpbandits.agent.forecast import Prospect, more_responses
from ldpbandits.agent.missing import missing_interval, worst_case
from ldpbandits.server.experiments import LiveExperiment
from ldpbandits.server.history import Moment
from ldpbandits.server.messages import Best, Forecast

ALPHA = 0.05
"""The probability that any interval of an experiment ever misses its mean, however many arms are added."""

MANY_MISSING = 0.05
"""Of an arm's answers; above it there is a warning."""

FALSE_ALARM = 0.01
"""The probability that shares of missing answers are ever said to differ when they do not."""

FEWEST = 20
"""Responses of an arm below which nothing is foretold."""

MOST_COMPARED = 16
"""Arms that are compared with the best for a forecast: those that come closest. Others take less."""

WORTH_SAYING = 0.75
"""Equal traffic is spoken of when it would take less than this part of the responses."""


@dataclass(frozen=True)
class ArmFacts:
    """An arm's estimate, the one that holds whatever its unanswered would have said, and how many these are."""

    name: str
    known: Estimate
    worst: Estimate
    in_use: bool
    answered: int
    missing: int
    out: int

    @property
    def missing_share(self) -> float | None:
        """Of the decisions that are settled, answered or missing; None before any is."""
        settled = self.answered + self.missing
        return self.missing / settled if settled else None


def facts(experiment: LiveExperiment) -> list[ArmFacts]:
    """Work out the intervals of each arm; they take a millisecond or two."""
    found = []
    for number, (arm, record) in enumerate(zip(experiment.arms, experiment.records, strict=True)):
        out = experiment.pending(number)
        known = estimate_arm(arm, experiment.menu, alpha=share(ALPHA, number))
        worst = worst_case(known, arm, experiment.menu, record.missing + out)
        answered = arm.pulls - experiment.settings.warm(number)
        found.append(ArmFacts(record.name, known, worst, not arm.retired, answered, record.missing, out))
    return found


def best_arm(arms: list[ArmFacts]) -> Best | None:
    """Return the arm of largest mean among those that are handed out, once there is any response.

    It is separated when its worst-case interval lies above those of all others. Where there are none nothing is, and
    where no mean fits the responses of an arm nothing can be said.
    """
    means = {number: arm.known.mean for number, arm in enumerate(arms) if arm.in_use and arm.known.mean is not None}
    if not means:
        return None
    best = max(means, key=lambda number: means[number])
    others = [arm.worst for number, arm in enumerate(arms) if number != best and arm.in_use]
    is_above = bool(others) and arms[best].worst.low > max(other.high for other in others)
    return Best(best, arms[best].name, is_above and all(worst.fits for worst in (arms[best].worst, *others)))


def warnings(arms: list[ArmFacts]) -> list[str]:
    """Say what to beware of: answers that are missing, more of them for one arm than for another, wrong curators."""
    told = []
    for arm in arms:
        if arm.missing_share is not None and arm.missing_share > MANY_MISSING:
            counts = f"{arm.missing:,} of {arm.answered + arm.missing:,}"
            told.append(
                f"{arm.name}: {_percent(arm.missing_share)} of the answers are missing ({counts}): "
                "conclude from worst_low and worst_high, which hold whatever they would have said"
            )
    told += _difference(arms)
    told += [
        f"{arm.name}: no mean fits its responses: some are not those of this curator"
        for arm in arms
        if not arm.worst.fits
    ]
    return told


def _difference(arms: list[ArmFacts]) -> list[str]:
    """Name the two arms whose shares of missing answers are furthest apart, if that is more than chance explains.

    The shares have intervals that are valid whenever one looks; when two are disjoint, the shares differ.
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
    more, less = (f"{arms[n].name} ({_percent(arms[n].missing_share or 0)})" for n in (most, least))
    what_it_means = "whether people answer seems to depend on the arm"
    return [f"more answers are missing for {more} than for {less}, which chance does not explain: {what_it_means}"]


def forecast(experiment: LiveExperiment, arms: list[ArmFacts], before: Moment) -> Forecast:
    """Say whether the best arm is separated, and if not, about how many more responses that takes.

    `before` is how it was at half of the responses: how they were shared out since is the present traffic.
    """
    best = best_arm(arms)
    if best is None:
        return Forecast(separated=False, more_responses=None, sentence="there are no responses yet")
    if best.separated:
        sentence = (
            f"{best.name} is better than every other arm in use, with {_percent(1 - ALPHA)} confidence, whatever "
            "those who have not answered would have said"
        )
        return Forecast(separated=True, more_responses=0, sentence=sentence + _stopped(experiment))
    number, sentence = _guess(experiment, arms, best, before)
    return Forecast(separated=False, more_responses=number, sentence=f"not separated yet: {sentence}")


def _guess(experiment: LiveExperiment, arms: list[ArmFacts], best: Best, before: Moment) -> tuple[int | None, str]:
    """Return the number of responses that it takes, if that can be said, and a sentence."""
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
        said += f", or more as worse arms get ever less of it; with equal traffic {_about(equal)}: see minimum_share"
    return number, said


def _nothing_to_say(in_use: list[ArmFacts]) -> str | None:
    """Return why nothing can be foretold of these arms, if so."""
    if len(in_use) == 1:
        return "there is only one arm in use"
    if not all(arm.worst.fits for arm in in_use):
        return "no mean fits the responses of some arm"
    fewest = min(in_use, key=lambda arm: arm.known.pulls)
    if fewest.known.pulls < FEWEST:
        return f"too few responses to say more ({fewest.name} has {fewest.known.pulls})"
    return None


def _traffic(experiment: LiveExperiment, in_use: list[int], before: Moment) -> dict[int, float]:
    """Return how the responses since that moment were shared out among the arms in use."""
    earlier = {number: sum(cell.pulls for cell in before.of(number)) for number in in_use}
    recent = {number: experiment.arms[number].pulls - earlier[number] for number in in_use}
    responses = sum(recent.values())
    return {number: count / responses if responses else 1 / len(in_use) for number, count in recent.items()}


def _stopped(experiment: LiveExperiment) -> str:
    """Say that the experiment has stopped by itself, if it has and still is."""
    if experiment.stopped and experiment.status in {"paused", "shipped"}:
        return f"; it was {experiment.status} by stop_when_separated"
    return ""


def _about(number: int) -> str:
    """Write a number with two digits that count."""
    return f"{round(number, 2 - len(str(number))):,}"


def _percent(part: float) -> str:
    return f"{100 * part:.3g} %"
