"""Experiments that end by themselves, once the best arm is told apart from all others (`stop_when_separated`).

Looking every few seconds costs nothing but time: the intervals hold whenever one looks, all at once, so that the chance
of ever stopping for a wrong arm stays that of a single look.

Whoever holds the public client key can send lies. So an experiment runs for `stop_after` seconds first, it pauses
itself above its cap, and one whose traffic has ever jumped is paused where it would have been shipped: people look
first.
"""

from functools import partial

from ldpbandits.server.api.messages import ShippedArm
from ldpbandits.server.experiments.live import CAPPED, STOPPED, LiveExperiment
from ldpbandits.server.service import Service


async def watch_traffic(service: Service) -> None:
    """Sample the traffic of all experiments; pause those of which more responses came than their cap."""
    for experiment in list(service.experiments.values()):
        experiment.watch_traffic(service.now)
        if _is_to_be_paused(experiment):
            await service.change(partial(_pause_if, service, experiment))


async def _pause_if(service: Service, experiment: LiveExperiment) -> None:
    if _is_to_be_paused(experiment) and service.experiments.get(experiment.name) is experiment:
        await service.commands.set_status(experiment.name, "paused")
        experiment.report_incident(CAPPED)


def _is_to_be_paused(experiment: LiveExperiment) -> bool:
    return experiment.traffic.is_over_cap and experiment.status == "running"


async def stop_separated(service: Service) -> None:
    """Look at the experiments that are to stop by themselves and have new responses; pause or ship those that may."""
    for experiment in list(service.experiments.values()):
        if _is_to_be_looked_at(service, experiment):
            await service.change(partial(_look_if, service, experiment))


async def _look_if(service: Service, experiment: LiveExperiment) -> None:
    if _is_to_be_looked_at(service, experiment) and service.experiments.get(experiment.name) is experiment:
        await _look(service, experiment)


def _is_to_be_looked_at(service: Service, experiment: LiveExperiment) -> bool:
    settings = experiment.settings
    if settings.stop_when_separated is None or experiment.status != "running":
        return False
    is_new = experiment.responses != experiment.looked_at
    return is_new and service.now >= experiment.created_at + settings.stop_after


async def _look(service: Service, experiment: LiveExperiment) -> None:
    """Stop it once. Whoever resumes it wants to go on: it stops again only after it was not separated in between."""
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
    experiment.looked_at = responses
