"""An experiment that is in use is followed: a look reads what is other than at the last one, and misses nothing."""

import asyncio
from contextlib import suppress
from dataclasses import asdict
from math import inf
from random import Random
from typing import Any

import pytest
from tests.server.several import Workers

from ldpbandits.server.api.messages import NewArm, ResponseMessage
from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.service import Service
from ldpbandits.server.store import PeerUpdates
from ldpbandits.server.store.postgres import store as postgres_module
from ldpbandits.server.store.postgres.store import PostgresStore


def store_of(worker: Service) -> PostgresStore:
    """Return the store of a worker."""
    store = worker._store
    assert isinstance(store, PostgresStore)
    return store


def listen(worker: Service, monkeypatch: pytest.MonkeyPatch) -> list[PeerUpdates]:
    """Return a list to which each look of a worker adds what it finds."""
    store, found = store_of(worker), list[PeerUpdates]()
    refresh = store.refresh

    def refresh_and_tell(*asked: Any) -> PeerUpdates:
        found.append(refresh(*asked))
        return found[-1]

    monkeypatch.setattr(store, "refresh", refresh_and_tell)
    return found


async def look(worker: Service) -> None:
    """Let a worker write what happened, and look."""
    assert worker.peers is not None
    await worker.write_events()
    await worker.peers.poll()


def picture(worker: Service) -> tuple[Any, ...]:
    """Return all that a worker knows of what happened elsewhere, and of all that was counted."""
    experiment = worker.experiments["headline"]
    records = [
        asdict(record) | {"out": arm.out} for record, arm in zip(experiment.records, experiment.arms, strict=True)
    ]
    return records, experiment.rejected, experiment.responses


def test_a_look_reads_the_arms_at_which_something_happened(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten thousand arms each look would else read every row, and hold up decisions for as long as that takes."""

    async def play() -> None:
        await workers.create()
        number = workers.all[1].experiments["headline"].number
        await workers.decide(0)
        await workers.look()
        news = listen(workers.all[0], monkeypatch)
        await workers.look()
        assert [(list(found.whole), found.arms, found.events, found.totals) for found in news] == [
            ([0], [], [], [])
        ] * 2
        ticket = await workers.decide(1)
        await workers.look()
        arm = workers.all[1].keys.signer.read(ticket).arm  # type: ignore[union-attr]
        assert news[-1].arms == [(number, arm)]
        await workers.respond(1, ticket)
        await workers.look()
        assert [cell.arm for found in news[-2:] for cell in found.totals] == [arm]
        store_of(workers.all[0])._poller.link.close()  # a crash may have ended it, and undone what was seen
        await workers.look()
        assert set(news[-2].whole) == {0, number}

    asyncio.run(play())


def test_what_nobody_asked_for_is_still_followed(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of metrics is of all experiments, every few seconds: it need not read all of ten thousand each time."""

    async def play() -> None:
        await workers.create()
        number = workers.all[1].experiments["headline"].number
        await workers.all[0].refresh("headline")
        for worker in workers.all:
            worker.experiments["headline"].asked_at = worker.experiments["headline"].fresh_until = -inf
        await workers.respond(1, await workers.decide(1))
        await workers.look()
        news = listen(workers.all[0], monkeypatch)
        assert workers.all[0].experiments["headline"].responses == 0
        await workers.all[0].refresh_all()
        assert [(list(found.whole), [experiment for experiment, _ in found.arms]) for found in news] == [
            ([0], [number])
        ]
        assert workers.all[0].experiments["headline"].responses == 1

    asyncio.run(play())


def test_an_experiment_is_read_whole_when_a_look_was_not_taken_over(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What that look has found is found again."""

    async def play() -> None:
        await workers.create()
        await workers.decide(0)
        await workers.look()
        await workers.decide(1)
        await look(workers.all[1])
        with monkeypatch.context() as broken:
            broken.setattr(workers.all[0], "apply_totals", lambda _: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                await look(workers.all[0])
        await look(workers.all[0])
        assert sum(arm.out for arm in workers.all[0].experiments["headline"].arms) == 2

    asyncio.run(play())


@pytest.mark.parametrize("seed", range(3))
def test_whoever_follows_knows_what_whoever_reads_all_knows(
    workers: Workers, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After any play, in the middle of which all tickets expire and all workers are taken for dead."""
    chance, tickets = Random(seed), list[str]()

    async def step(worker: Service) -> None:
        await worker.refresh("headline")
        match chance.randrange(4):
            case 0 | 1:
                tickets.append(worker.decide("headline").ticket or "")
            case 2 if tickets:
                with suppress(Refusal):  # it was counted before, with another value, or has expired
                    await worker.respond(ResponseMessage(chance.choice(tickets), float(chance.random() < 0.5)))
            case _:
                await look(worker)

    async def play() -> None:
        await workers.create()
        for number in range(90):
            await step(chance.choice(workers.all))
            if number == 30:
                await workers.change(0, lambda: workers.all[0].commands.add_arm("headline", NewArm("red")))
            if number == 60:
                workers.clock[:] = [second + 101 for second in workers.clock]
                monkeypatch.setattr(postgres_module, "HEARTBEAT_TIMEOUT_S", -1.0)
                await workers.all[0].forget()
                monkeypatch.setattr(postgres_module, "HEARTBEAT_TIMEOUT_S", 60.0)
        await workers.look()
        for worker in workers.all:
            assert worker.peers is not None
            assert worker.peers._followed
            followed = picture(worker)
            worker.peers._followed = {}
            await look(worker)
            assert picture(worker) == followed

    asyncio.run(play())
