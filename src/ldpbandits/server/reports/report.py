"""Reports, histories and tallies of an experiment for experimenters."""

from heapq import nlargest

from ldpbandits.agent.estimates import estimate_arm, share
from ldpbandits.agent.rules import rule_to_json
from ldpbandits.agent.separation import ALPHA
from ldpbandits.server.api.messages import (
    ArmHistory,
    ArmReport,
    EpsilonTally,
    History,
    Rejected,
    Report,
    Summary,
    Tallies,
    TallyRow,
)
from ldpbandits.server.experiments.history import MOST_MOMENTS, Known, Moment
from ldpbandits.server.experiments.live import ArmRecord, LiveExperiment, tally_of
from ldpbandits.server.reports import conclusions
from ldpbandits.server.reports import forecast as forecasting
from ldpbandits.server.reports.conclusions import ArmFacts
from ldpbandits.server.store import StoredArm
from ldpbandits.spec.menu import Menu

INTERVALS_PER_HISTORY = 1200
"""Intervals that a history computes at most, unless there are very many arms. They take half a second."""

FEWEST_MOMENTS = 10

MOST_FOLLOWED = 256
"""Arms of a history: of more, those with the most responses."""


def make_tallies(experiment: LiveExperiment) -> Tallies:
    """Return the totals that the agent learns from."""
    is_read = experiment.agent.bound_rule.reading is not None
    arms = [
        TallyRow(
            arm=number,
            name=record.name,
            retired=arm.retired,
            pulls=arm.pulls,
            total=record.total,
            by_epsilon=_by_epsilon(experiment.menu, record),
            read=sum(cell.read for cell in record.cells.values()) if is_read else None,
        )
        for number, (arm, record) in enumerate(zip(experiment.arms, experiment.records, strict=True))
    ]
    return Tallies(experiment.name, experiment.curator, rule_to_json(experiment.rule), experiment.menu.unit, arms)


def _by_epsilon(menu: Menu, record: ArmRecord) -> list[EpsilonTally]:
    """Return the number and the sum of an arm's responses for each epsilon of the menu."""
    rows = []
    for level, epsilon in enumerate(menu.epsilons):
        cells = [cell for cell in record.cells.values() if len(menu) == 1 or cell.cell == level]
        rows.append(EpsilonTally(epsilon, sum(cell.pulls for cell in cells), sum(cell.total for cell in cells)))
    return rows


def summarise(experiment: LiveExperiment) -> Summary:
    """Return the summary of an experiment."""
    arms, responses = len(experiment.records), experiment.responses
    return Summary(experiment.name, experiment.status, experiment.created_at, arms, responses)


def make_report(experiment: LiveExperiment, before: Moment, forged: int) -> Report:
    """Return the report of an experiment; intervals take some milliseconds an arm.

    `before` is its moment at half of the responses.
    """
    arms = conclusions.facts(experiment)
    decisions = sum(record.decisions for record in experiment.records)
    rejected = experiment.rejected
    return Report(
        name=experiment.name,
        status=experiment.status,
        shipped=experiment.shipped,
        created_at=experiment.created_at,
        curator=experiment.curator,
        guarantee=experiment.menu.promise,
        rule=rule_to_json(experiment.rule),
        ticket_lifetime=experiment.ticket_lifetime,
        default_reward=experiment.default_reward,
        settings=experiment.settings,
        estimates=arms[0].known.of,
        confidence=1 - ALPHA,
        responses=experiment.responses,
        best=conclusions.best_arm(arms),
        arms=[_arm(experiment, number, arm, decisions) for number, arm in enumerate(arms)],
        rejected=Rejected(
            forged=forged,
            expired=rejected["expired"],
            impossible=rejected["impossible"],
            changed=rejected["changed"],
            closed=rejected["closed"],
            duplicate=rejected["duplicate"],
        ),
        forecast=forecasting.forecast(experiment, arms, before),
        warnings=[*conclusions.incidents(experiment), *conclusions.warnings(arms)],
    )


def _arm(experiment: LiveExperiment, number: int, arm: ArmFacts, decisions: int) -> ArmReport:
    record = experiment.records[number]
    return ArmReport(
        arm=number,
        name=arm.name,
        retired=not arm.in_use,
        pulls=arm.known.pulls,
        pending=arm.out,
        missing=arm.missing,
        decisions=record.decisions,
        share=record.decisions / decisions if decisions else None,
        mean=arm.known.mean,
        low=arm.known.low,
        high=arm.known.high,
        fits=arm.known.fits,
        warm_pulls=experiment.settings.warm(number),
        missing_share=arm.missing_share,
        worst_low=arm.worst.low,
        worst_high=arm.worst.high,
    )


def most_moments(experiment: LiveExperiment) -> int:
    """Return the largest number of moments of a history: it takes less than a second for ten arms."""
    levels = len(experiment.menu)
    work = min(len(experiment.records), MOST_FOLLOWED) * (
        1 if levels == 1 else 2 * levels
    )  # with several epsilons each takes longer
    return max(FEWEST_MOMENTS, min(MOST_MOMENTS, INTERVALS_PER_HISTORY // work))


def followed(experiment: LiveExperiment) -> list[int]:
    """Return the arms of a history: all, unless there are very many."""
    arms = experiment.arms
    return sorted(nlargest(MOST_FOLLOWED, range(len(arms)), key=lambda arm: arms[arm].pulls))


def make_history(experiment: LiveExperiment, moments: list[Moment]) -> History:
    """Return the estimates at each moment.

    Estimates are cached: all moments of the next history but the last are among those of this one.
    """
    menu, known = experiment.menu, experiment.trail.estimates
    shown: Known = {}
    rows = []
    cells_of = [moment.by_arm() for moment in moments]
    for number in followed(experiment):
        record = experiment.records[number]
        found = []
        for by_arm in cells_of:
            cells = by_arm.get(number, ())
            estimate = shown.get((number, cells)) or known.get((number, cells))
            if estimate is None:
                tally = tally_of(StoredArm(record.name, cells=cells), menu, experiment.agent.bound_rule)
                estimate = estimate_arm(tally, menu, alpha=share(ALPHA, number))
            shown[number, cells] = estimate
            found.append(estimate)
        rows.append(
            ArmHistory(
                arm=number,
                name=record.name,
                pulls=[estimate.pulls for estimate in found],
                mean=[estimate.mean for estimate in found],
                low=[estimate.low for estimate in found],
                high=[estimate.high for estimate in found],
            )
        )
    experiment.trail.estimates = shown
    return History(experiment.name, [moment.responses for moment in moments], rows)
