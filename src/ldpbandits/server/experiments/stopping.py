"""Stops experiments by themselves, once the best arm is separated from all others (`stop_when_separated`).

Repeated checks are valid: the intervals are confidence sequences, which hold at all times at once, so that the
probability of ever stopping for a wrong arm stays that of a single check.

Anybody with the public client key can send false responses. So an experiment runs for `stop_after` seconds first, it
pauses itself above its cap, and after a jump of its traffic it is paused instead of shipped: people decide.
"""

from functools import partial

from ldpbandits.server.api.messages import ShippedArm
from ldpbandits.server.experiments.live import CAPPED, STOPPED, LiveExperiment
from ldpbandits.server.service import Service


async def watch_traffic(service: Service) -> None:
    """Sample the traffic of all experiments; pause those that exceed their cap."""
    for experiment in list(service.experiments.values()):
        experiment.watch_traffic(service.now)
        if _is_pause_due(experiment):
            await service.change(partial(_pause_if, service, experiment))


async def _pause_if(service: Service, experiment: LiveExperiment) -> None:
    if _is_pause_due(experiment) and service.experiments.get(experiment.name) is experiment:
        await service.commands.set_status(experiment.name, "paused")
        experiment.report_incident(CAPPED)


def _is_pause_due(experiment: LiveExperiment) -> bool:
    return experiment.traffic.is_over_cap and experiment.status == "running"


async def stop_separated(service: Service) -> None:
    """Check the experiments with `stop_when_separated` and new responses; pause or ship the separated ones."""
    for experiment in list(service.experiments.values()):
        if _is_check_due(service, experiment):
            await service.change(partial(_check_if_due, service, experiment))


async def _check_if_due(service: Service, experiment: LiveExperiment) -> None:
    if _is_check_due(service, experiment) and service.experiments.get(experiment.name) is experiment:
        await _check_separation(service, experiment)


def _is_check_due(service: Service, experiment: LiveExperiment) -> bool:
    settings = experiment.settings
    if settings.stop_when_separated is None or experiment.status != "running":
        return False
    is_new = experiment.responses != experiment.checked_at
    return is_new and service.now >= experiment.created_at + settings.stop_after


async def _check_separation(service: Service, experiment: LiveExperiment) -> None:
    """Stop it once. After it is resumed, it stops again only if it was not separated in between."""
    responses = experiment.responses
    best = await service.report_worker.best(experiment)
    if best is None or not best.separated:
        experiment.stopped = False
    elif not experiment.stopped:
        if experiment.settings.stop_when_separated == "ship" and not experiment.incidents.total():
            await service.commands.ship(experiment.name, ShippedArm(best.arm))
        else:
            await service.commands.set_status(experiment.name, "paused")
        experiment.stopped = True
        experiment.note(experiment.number, best.arm, STOPPED, 1)
    experiment.checked_at = responses
