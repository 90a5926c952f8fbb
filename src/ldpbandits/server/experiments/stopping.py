"""Keeps verdicts that are reached, and stops experiments by themselves once there is one (`stop_when_decided`).

Repeated checks are valid: evidence is an e-process, so that the probability of ever stopping for a wrong arm stays that
of a single check. A verdict under an adaptive rule holds only if the means stayed what they were; it stops only an
experiment whose settings accept that.

An experiment with one look is judged, and stops, once its responses are in; before `stop_after` it pauses, and does not
ship.

Anybody with the public client key can send false responses. An experiment therefore runs for `stop_after` seconds
first, it pauses itself above its cap, and after a jump of its traffic it is paused instead of shipped: people decide.
"""

from functools import partial

from ldpbandits.server.api.messages import ShippedArm
from ldpbandits.server.experiments.events import CAPPED, STOPPED, UNKNOWN_VERDICT
from ldpbandits.server.experiments.live import LiveExperiment
from ldpbandits.server.reports.verdicts import Finding
from ldpbandits.server.service import Service
from ldpbandits.server.webhooks import DECIDED, WARNING

JUMPED = "the traffic has jumped within a minute"
JUMP_WINDOW_S = 120
"""Within this time every worker notices the same jump."""


async def watch_traffic(service: Service) -> None:
    """Sample the traffic of all experiments; pause those that exceed their cap."""
    for experiment in list(service.experiments.values()):
        if experiment.watch_traffic(service.now):
            note = partial(service.commands.note, experiment, WARNING, JUMPED, service.now - JUMP_WINDOW_S)
            await service.change(note)
        if _is_pause_due(experiment):
            await service.change(partial(_pause_if, service, experiment))


async def _pause_if(service: Service, experiment: LiveExperiment) -> None:
    if _is_pause_due(experiment) and service.experiments.get(experiment.name) is experiment:
        await service.commands.set_status(experiment.name, "paused", "more responses within an hour than its cap")
        experiment.report_incident(CAPPED)


def _is_pause_due(experiment: LiveExperiment) -> bool:
    return experiment.traffic.is_over_cap and experiment.status == "running"


async def stop_decided(service: Service) -> None:
    """Check the experiments with new responses: keep their verdicts, and pause or ship those that should stop."""
    for experiment in list(service.experiments.values()):
        state = _state(service, experiment)
        if state != experiment.checked_at and _may_change(experiment):
            if experiment.is_look_due:
                await service.change(partial(service.take_look, experiment))
            found = await service.report_worker.verdict(experiment)
            if service.experiments.get(experiment.name) is experiment:
                if found.kept is not None and not experiment.is_kept(found.kept):
                    decided = f"{found.kept.kind}: {experiment.records[found.kept.arm].name}"
                    await service.change(partial(service.commands.note, experiment, DECIDED, decided))
                experiment.keep_verdict(found.kept)
                if _is_stop_due(service, experiment, found):
                    await service.change(partial(_stop_if_due, service, experiment, found))
                experiment.checked_at = state


def _state(service: Service, experiment: LiveExperiment) -> tuple[int, str, bool]:
    """Return what a check depends on: the responses, the status, and whether it may stop by itself already."""
    has_time = service.now >= experiment.created_at + experiment.settings.stop_after
    return experiment.responses, experiment.status, has_time


def _may_change(experiment: LiveExperiment) -> bool:
    """Tell whether a check can have any effect."""
    if experiment.settings.one_look is not None and not experiment.is_look_due and experiment.look is None:
        return False
    is_stopping = experiment.settings.stop_when_decided is not None and experiment.status == "running"
    kept = experiment.kept_verdict
    return bool(experiment.responses) and (is_stopping or kept is None or kept.kind != "better")


async def _stop_if_due(service: Service, experiment: LiveExperiment, found: Finding) -> None:
    """Stop it once. After it is resumed, it stops again only if there was no verdict in between, or another one."""
    if service.experiments.get(experiment.name) is not experiment or not _is_stop_due(service, experiment, found):
        return
    leader, ending = found.leader or 0, experiment.settings.stop_when_decided
    why = f"verdict: {found.verdict.kind}"
    has_time = service.now >= experiment.created_at + experiment.settings.stop_after
    if found.is_better and ending == "ship" and has_time and not experiment.incidents.total():
        await service.commands.ship(experiment.name, ShippedArm(leader), why)
    else:
        await service.commands.set_status(experiment.name, "paused", why)
    experiment.stopped_by = found.verdict.kind
    experiment.count_event(leader, STOPPED)


def _is_stop_due(service: Service, experiment: LiveExperiment, found: Finding) -> bool:
    settings, verdict = experiment.settings, found.verdict
    if settings.stop_when_decided is None or experiment.status != "running":
        return False
    if settings.one_look is not None:  # further responses decide nothing
        return experiment.look is not None and experiment.stopped_by is None
    if verdict.kind == "undecided":
        experiment.stopped_by = None
        return False
    is_trusted = verdict.drift_proof or settings.accept_drift_risk
    is_first = experiment.stopped_by not in {verdict.kind, UNKNOWN_VERDICT}
    return is_trusted and is_first and service.now >= experiment.created_at + settings.stop_after
