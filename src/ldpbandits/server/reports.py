"""What an experimenter gets to see of an experiment."""

from ldpbandits.agent.estimates import Estimate, estimate_arm, share
from ldpbandits.agent.rules import rule_to_json
from ldpbandits.agent.separation import ALPHA, is_separated, leading
from ldpbandits.server.experiments import ArmRecord, LiveExperiment
from ldpbandits.server.messages import (
    ArmReport,
    Best,
    EpsilonTally,
    Rejected,
    Report,
    Summary,
    Tallies,
    TallyRow,
)
from ldpbandits.spec.menu import Menu


def tallies(experiment: LiveExperiment) -> Tallies:
    """Return all that the agent learns from."""
    arms = [
        TallyRow(number, record.name, arm.retired, arm.pulls, record.total, _by_epsilon(experiment.menu, record))
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


def summary(experiment: LiveExperiment) -> Summary:
    """Return an experiment in a line."""
    arms = experiment.arms
    return Summary(experiment.name, experiment.status, experiment.created_at, len(arms), sum(arm.pulls for arm in arms))


def report(experiment: LiveExperiment, forged: int) -> Report:
    """Return everything that an experimenter wants to know; intervals take a millisecond an arm."""
    arms = experiment.arms
    estimates = [estimate_arm(arm, experiment.menu, alpha=share(ALPHA, number)) for number, arm in enumerate(arms)]
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
        estimates=estimates[0].of,
        confidence=1 - ALPHA,
        responses=sum(arm.pulls for arm in arms),
        best=_best(experiment, estimates),
        arms=[
            ArmReport(
                arm=number,
                name=record.name,
                retired=arm.retired,
                pulls=arm.pulls,
                pending=experiment.pending(number),
                missing=record.missing,
                decisions=record.decisions,
                share=record.decisions / decisions if decisions else None,
                mean=known.mean,
                low=known.low,
                high=known.high,
                fits=known.fits,
            )
            for number, (arm, record, known) in enumerate(zip(arms, experiment.records, estimates, strict=True))
        ],
        rejected=Rejected(
            forged=forged,
            expired=rejected["expired"],
            impossible=rejected["impossible"],
            changed=rejected["changed"],
            closed=rejected["closed"],
            duplicate=rejected["duplicate"],
        ),
    )


def _best(experiment: LiveExperiment, estimates: list[Estimate]) -> Best | None:
    """Return the arm of largest mean among those that are handed out, once there is any response."""
    in_use = [number for number, arm in enumerate(experiment.arms) if not arm.retired]
    place = leading([estimates[number].mean for number in in_use])
    if place is None:
        return None
    separated = is_separated(place, [(estimates[number].low, estimates[number].high) for number in in_use])
    return Best(in_use[place], experiment.records[in_use[place]].name, separated)
