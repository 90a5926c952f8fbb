"""Decisions, missing answers and rejections are kept for good, a moment late at most."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.server.memory_store import Memory, MemoryStore

from ldpbandits.server.api.messages import AcceptanceMessage, NewExperiment, ResponseMessage
from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.service import Service
from ldpbandits.server.store import Unavailable
from ldpbandits.server.store.sqlite.store import SqliteStore
from ldpbandits.spec.messages import ArmReport, Report

NEW = NewExperiment("one", ["a"], {"mechanism": "bernoulli", "epsilon": 1}, ticket_lifetime=100)


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        """Start somewhere."""
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.seconds


def counts(report: Report) -> tuple[int, int, int, int]:
    """Return decisions, responses, pending and missing of the one arm."""
    (arm,) = report.arms
    assert isinstance(arm, ArmReport)
    return arm.decisions, arm.pulls, arm.pending, arm.missing


def test_what_has_happened_outlasts_a_restart(tmp_path: Path) -> None:
    """After a restart decisions, missing answers and rejections are as they were; what was out is pending."""
    clock = Clock()

    async def first(service: Service) -> Report:
        await service.commands.create(NEW)
        tickets = [service.decide("one").ticket or "" for _ in range(2)]
        for ticket in tickets:
            await service.accept(AcceptanceMessage(ticket))
        clock.seconds += 100
        with pytest.raises(Refusal, match="expired"):
            await service.respond(ResponseMessage(tickets[0], 1.0))
        tickets = [service.decide("one").ticket or "" for _ in range(5)]
        for _ in range(2):
            await service.respond(ResponseMessage(tickets[0], 1.0))
        with pytest.raises(Refusal, match="another response"):
            await service.respond(ResponseMessage(tickets[0], 0.0))
        with pytest.raises(Refusal, match="not a ticket"):
            await service.respond(ResponseMessage("nonsense", 0.0))
        return await service.report("one")

    async def second(service: Service) -> Report:
        return await service.report("one")

    before = _run(tmp_path, clock, first)
    assert counts(before) == (7, 1, 4, 2)
    after = _run(tmp_path, clock, second)
    assert after == before
    assert after.rejected.expired == after.rejected.duplicate == after.rejected.changed == after.rejected.forged == 1


def test_tickets_from_before_a_restart_count_when_they_come_and_are_missing_when_they_do_not(tmp_path: Path) -> None:
    """They are pending until the last of them must have expired; one that comes in time is answered, once."""
    clock = Clock()
    tickets: list[str] = []

    async def first(service: Service) -> Report:
        await service.commands.create(NEW)
        tickets.extend(service.decide("one").ticket or "" for _ in range(3))
        for ticket in tickets:
            await service.accept(AcceptanceMessage(ticket))
        return await service.report("one")

    async def second(service: Service) -> Report:
        for _ in range(2):
            await service.respond(ResponseMessage(tickets[0], 1.0))
        assert counts(await service.report("one")) == (3, 1, 2, 0)
        clock.seconds += 100
        return await service.report("one")

    assert counts(_run(tmp_path, clock, first)) == (3, 0, 3, 0)
    assert counts(_run(tmp_path, clock, second)) == (3, 1, 0, 2)


def test_events_are_written_with_the_next_commit_and_else_by_the_chore(tmp_path: Path) -> None:
    """A crash right after either loses nothing: what is on disk has every decision so far."""
    store = SqliteStore(tmp_path / "agent.db")
    service = Service(store)

    async def play() -> None:
        await service.commands.create(NEW)
        tickets = [service.decide("one").ticket or "" for _ in range(4)]
        assert store.events() == []
        await service.respond(ResponseMessage(tickets[0], 1.0))
        assert [event.times for event in store.events()] == [4]
        service.decide("one")
        await service.write_events()
        assert [event.times for event in store.events()] == [5]

    asyncio.run(play())
    service.close()


def test_a_store_without_room_loses_no_event() -> None:
    """What could not be written is written later, once."""
    memory, fault = Memory(), [False]

    def failpoint(_: str) -> None:
        if fault[0]:
            raise MemoryError

    service = Service(MemoryStore(memory, failpoint=failpoint))

    async def play() -> None:
        await service.commands.create(NEW)
        ticket = service.decide("one").ticket or ""
        fault[0] = True
        with pytest.raises(Unavailable):
            await service.write_events()
        with pytest.raises(Unavailable):
            await service.respond(ResponseMessage(ticket, 1.0))
        fault[0] = False
        await service.respond(ResponseMessage(ticket, 1.0))
        await service.write_events()

    asyncio.run(play())
    assert memory.events == {(1, 0, "decision"): 1}
    service.close()


def test_a_crash_may_lose_the_last_decisions_and_never_a_response() -> None:
    """Decisions that were in memory only are known again by their responses: what is answered was decided."""
    memory, tickets = Memory(), list[str]()

    async def before(service: Service) -> None:
        await service.commands.create(NEW)
        tickets.extend(service.decide("one").ticket or "" for _ in range(3))

    async def after(service: Service) -> tuple[int, int, int, int]:
        for ticket in tickets[:2]:
            await service.respond(ResponseMessage(ticket, 1.0))
        return counts(await service.report("one"))

    crashed = Service(MemoryStore(memory))
    asyncio.run(before(crashed))
    crashed.committer.forget_events(1)
    crashed.close()
    service = Service(MemoryStore(memory))
    assert asyncio.run(after(service)) == (2, 2, 0, 0)
    service.close()


def test_a_deleted_experiment_leaves_no_event(tmp_path: Path) -> None:
    """Decisions that were not yet written are dropped with the experiment."""
    store = SqliteStore(tmp_path / "agent.db")
    service = Service(store)

    async def play() -> None:
        await service.commands.create(NEW)
        service.decide("one")
        await service.commands.delete("one")
        await service.write_events()

    asyncio.run(play())
    assert store.events() == []
    service.close()


def _run(folder: Path, clock: Clock, play: Callable[[Service], Awaitable[Report]]) -> Report:
    service = Service(SqliteStore(folder / "agent.db"), now=clock)

    async def run() -> Report:
        return await play(service)

    try:
        return asyncio.run(run())
    finally:
        service.close()
