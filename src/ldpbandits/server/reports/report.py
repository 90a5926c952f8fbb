"""Reports, histories and tallies of an experiment for experimenters."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from heapq import nlargest
from typing import cast

from ldpbandits.agent.inference.estimates import estimate_arm, share
from ldpbandits.agent.inference.separation import ALPHA
from ldpbandits.agent.rules import rule_to_json
from ldpbandits.server.experiments.arm_record import ArmRecord
from ldpbandits.server.experiments.cells import by_level, split_cell
from ldpbandits.server.experiments.history import MOST_MOMENTS, Known, KnownEvidence, Moment
from ldpbandits.server.experiments.live import LiveExperiment
from ldpbandits.server.experiments.stored_agent import tally_of
from ldpbandits.server.reports import conclusions
from ldpbandits.server.reports import forecast as forecasting
from ldpbandits.server.reports.conclusions import ArmFacts
from ldpbandits.server.reports.evidence import evidence_over
from ldpbandits.server.reports.robustness import describe_missing
from ldpbandits.server.reports.verdicts import find_verdict, unequal_coins
from ldpbandits.server.store import CellTotal, StoredArm
from ldpbandits.spec.menu import Menu
from ldpbandits.spec.messages import (
    ArmHistory,
    ArmReport,
    Best,
    DuelTally,
    EpsilonTally,
    History,
    Rejected,
    Report,
    Settings,
    Summary,
    Tallies,
    TallyRow,
)

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
            by_epsilon=_by_epsilon(experiment.menu, record.cells.values()),
            read=sum(cell.read for cell in record.cells.values()) if is_read else None,
            duels=_duels(experiment.menu, record, is_read=is_read),
        )
        for number, (arm, record) in enumerate(zip(experiment.arms, experiment.records, strict=True))
    ]
    return Tallies(experiment.name, experiment.curator, rule_to_json(experiment.rule), experiment.menu.unit, arms)


def _by_epsilon(menu: Menu, cells: Iterable[CellTotal]) -> list[EpsilonTally]:
    """Return the number and the sum of the responses in these cells of an arm for each epsilon of the menu."""
    sums = {cell.cell: (cell.pulls, cell.total) for cell in by_level(cells, len(menu))}
    return [EpsilonTally(epsilon, *sums.get(level, (0, 0))) for level, epsilon in enumerate(menu.epsilons)]


def _duels(menu: Menu, record: ArmRecord, *, is_read: bool) -> list[DuelTally]:
    """Return the responses of an arm that a fair coin chose, by rival."""
    found: dict[int, list[CellTotal]] = defaultdict(list)
    for cell in record.cells.values():
        rival = split_cell(cell.cell, len(menu)).rival
        if rival is not None:
            found[rival].append(cell)
    return [
        DuelTally(rival, _by_epsilon(menu, cells), sum(cell.read for cell in cells) if is_read else None)
        for rival, cells in sorted(found.items())
    ]


def summarise(experiment: LiveExperiment) -> Summary:
    """Return the summary of an experiment."""
    arms, responses = len(experiment.records), experiment.responses
    title = experiment.metadata.title
    return Summary(experiment.name, experiment.status, experiment.created_at, arms, responses, title)


def make_report(experiment: LiveExperiment, forged: int) -> Report:
    """Return the report of an experiment; intervals take some milliseconds an arm."""
    arms = conclusions.facts(experiment)
    found = find_verdict(experiment, arms)
    verdict = replace(found.verdict, sentence=found.verdict.sentence + describe_missing(experiment, arms, found))
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
        settings=cast("Settings", experiment.settings),  # the same fields; it omits defaults in JSON
        estimates=arms[0].known.of,
        confidence=1 - ALPHA,
        responses=experiment.responses,
        best=None if found.leader is None else Best(found.leader, arms[found.leader].name, found.is_better),
        arms=[_arm(experiment, number, arm, decisions) for number, arm in enumerate(arms)],
        rejected=Rejected(
            forged=forged,
            expired=rejected["expired"],
            impossible=rejected["impossible"],
            changed=rejected["changed"],
            closed=rejected["closed"],
            duplicate=rejected["duplicate"],
        ),
        forecast=forecasting.forecast(experiment, arms, found),
        warnings=[*conclusions.incidents(experiment), *conclusions.warnings(arms), *unequal_coins(experiment)],
        verdict=verdict,
        comparisons=found.comparisons,
        metadata=experiment.metadata,
        stopped_at=experiment.stopped_at,
    )


def _arm(experiment: LiveExperiment, number: int, arm: ArmFacts, decisions: int) -> ArmReport:
    record = experiment.records[number]
    return ArmReport(
        arm=number,
        name=arm.name,
        retired=not arm.in_use,
        pulls=arm.known.pulls,
        pending=record.out,
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
        accepted=arm.answered + arm.missing + arm.out,
        unaccepted=record.unaccepted,
        forgiven=record.forgiven,
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


def _hidden_history(experiment: LiveExperiment, moments: list[Moment]) -> History:
    """Return a history of numbers of responses alone."""
    low, high = experiment.menu.reward_ends
    cells_of = [moment.by_arm() for moment in moments]
    arms = [
        ArmHistory(
            arm=number,
            name=experiment.records[number].name,
            pulls=[sum(cell.pulls for cell in by_arm.get(number, ())) for by_arm in cells_of],
            mean=[None] * len(moments),
            low=[low] * len(moments),
            high=[high] * len(moments),
        )
        for number in followed(experiment)
    ]
    return History(experiment.name, [moment.responses for moment in moments], arms)


def make_history(
    experiment: LiveExperiment, moments: list[Moment], known: Known, known_evidence: KnownEvidence
) -> tuple[History, Known, KnownEvidence]:
    """Return estimates and evidence at each moment, and the caches for the next history of most of these moments."""
    menu = experiment.menu
    if experiment.is_hidden:
        return _hidden_history(experiment, moments), {}, {}
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
    responses = [moment.responses for moment in moments]
    evidence = evidence_over(experiment, moments, known_evidence)
    made = History(experiment.name, responses, rows, evidence.leader, evidence.values, evidence.needed)
    return made, shown, evidence.known or {}
