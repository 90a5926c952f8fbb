"""Load an experiment from the store into memory."""

from collections.abc import Iterable
from math import inf

from ldpbandits.server.experiments import metadata
from ldpbandits.server.experiments.arm_record import ArmRecord
from ldpbandits.server.experiments.definition import played_by
from ldpbandits.server.experiments.guardrails import Guardrails
from ldpbandits.server.experiments.history import Trail
from ldpbandits.server.experiments.live import LiveExperiment, Note, moment_of
from ldpbandits.server.experiments.settings import Settings
from ldpbandits.server.experiments.stored_agent import restored_agent
from ldpbandits.server.experiments.tickets import OpenTickets
from ldpbandits.server.experiments.traffic import Traffic
from ldpbandits.server.store import Event, StoredExperiment


def restore(
    stored: StoredExperiment, events: Iterable[Event], note: Note, now: int, *, is_shared: bool = False
) -> LiveExperiment:
    """Load an experiment from the store.

    Which tickets are open is not stored, but their number is known: decisions that are neither answered nor expired.
    They count as pending until they must have expired. Where workers share the store, its `pending` table has them.
    """
    definition = stored.definition
    settings = Settings.from_json(definition.settings)
    menu, rule, plays_by = played_by(definition)
    records = [
        ArmRecord(
            arm.name, {cell.cell: cell for cell in arm.cells}, acceptances=arm.acceptances, has_dropped=arm.has_dropped
        )
        for arm in stored.arms
    ]
    counted = sum(arm.pulls for arm in stored.arms)
    restored = LiveExperiment(
        number=stored.number,
        name=definition.name,
        menu=menu,
        rule=rule,
        settings=settings,
        ticket_lifetime=definition.ticket_lifetime,
        default_reward=definition.default_reward,
        status=stored.status,
        shipped=stored.shipped,
        created_at=definition.created_at,
        metadata=metadata.from_json(stored.metadata),
        stopped_at=stored.stopped_at,
        agent=restored_agent(stored.arms, rule, menu, plays_by),
        records=records,
        open=OpenTickets(definition.ticket_lifetime),
        accepted=OpenTickets(definition.ticket_lifetime),
        lost_until=None if is_shared else now + definition.ticket_lifetime,
        note=note,
        trail=Trail(moment_of(records, len(menu)), unread=counted - sum(settings.warm_pulls)),
        traffic=Traffic(settings.responses_per_hour, settings.report_after, definition.ticket_lifetime),
        is_shared=is_shared,
        fresh_until=-inf if is_shared else inf,
        guardrails=Guardrails.of(settings),
    )
    restored.apply_peer_events(events)
    restored.start_traffic(now)
    if not is_shared:
        for number, record in enumerate(records):
            restored.set_out_elsewhere(number, record.decisions - restored.settled(number))
    return restored
