"""Several workers on one PostgreSQL: each knows within a moment what the others did, and changes are made once."""

import asyncio
import re
from math import inf

import psycopg
import pytest
from tests.server.console.browsing import Browser
from tests.server.inprocess import ask
from tests.server.postgres_server import Postgres
from tests.server.several import Workers, working

from ldpbandits.server.api.app import application
from ldpbandits.server.api.messages import NewArm, NewKey, ShippedArm
from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.keys import Role
from ldpbandits.server.peers import peers
from ldpbandits.server.process import metrics
from ldpbandits.server.process.clock import elapsed
from ldpbandits.server.service import Service
from ldpbandits.server.store import Unavailable
from ldpbandits.server.store.postgres import poller
from ldpbandits.server.store.postgres import store as postgres_module
from ldpbandits.server.store.postgres.store import PostgresStore


def test_the_first_keys_are_made_once(postgres: Postgres) -> None:
    """Of workers that start together one makes the keys, and all know them; so it is with the secret that signs."""
    with working(postgres.new(), 3) as workers:
        made = [worker.keys.new for worker in workers.all]
        assert [sorted(role.value for role in new) for new in made] == [["admin", "client", "viewer"], [], []]
        for worker in workers.all:
            assert worker.role(made[0][Role.CLIENT].encode()) is Role.CLIENT


def test_a_ticket_of_one_worker_is_counted_by_another(workers: Workers) -> None:
    """Once, whoever gets it again; an experiment that a worker has never heard of is looked for first."""

    async def play() -> None:
        await workers.create()
        tickets = [await workers.decide(number % 2) for number in range(10)]
        assert [await workers.respond((n + 1) % 2, ticket) for n, ticket in enumerate(tickets)] == ["counted"] * 10
        assert [await workers.respond(n % 2, ticket) for n, ticket in enumerate(tickets)] == ["duplicate"] * 10
        await workers.look()
        for worker in (0, 1):
            assert await workers.shown(worker) == (10, 0, 0, 10)
            assert workers.all[worker].experiments["headline"].rejected == {"duplicate": 10}
            assert sum(row.pulls for row in (await workers.all[worker].tallies("headline")).arms) == 10

    asyncio.run(play())


def test_what_is_out_at_one_worker_counts_in_the_choice_of_another(workers: Workers) -> None:
    """With nothing answered, arms are handed out in turn over all workers, not by each worker for itself."""

    async def play() -> None:
        await workers.create()
        arms = []
        for number in range(40):
            await workers.look()
            await workers.all[number % 2].refresh("headline")
            arms.append(workers.all[number % 2].decide("headline").arm)
        assert abs(arms.count(0) - arms.count(1)) <= 1
        await workers.look()
        for worker in workers.all:
            assert sum(arm.out for arm in worker.experiments["headline"].arms) == 40

    asyncio.run(play())


def test_answers_that_do_not_come_are_missing_once(workers: Workers) -> None:
    """Though some of the others came to another worker than the one that handed the ticket out."""

    async def play() -> None:
        await workers.create()
        tickets = [await workers.decide(number % 2, accepted_at=number // 2 % 2) for number in range(10)]
        await workers.decide(0)  # nobody accepts it
        for ticket in tickets[:4]:
            await workers.respond(1, ticket)
        await workers.look()
        assert await workers.shown(0) == await workers.shown(1) == (4, 7, 0, 11)
        workers.clock[:] = [second + 100 for second in workers.clock]
        for worker in workers.all:
            worker.experiments["headline"].expire(worker.now)
            await worker.write_events()
        await workers.look()
        assert await workers.shown(0) == await workers.shown(1) == (4, 0, 6, 11)

    asyncio.run(play())


def test_what_a_dead_worker_left_is_settled_when_it_has_expired(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tickets stay out until then, and are missing afterwards; what happened there is not forgotten."""
    url = postgres.new()
    monkeypatch.setattr(postgres_module, "HEARTBEAT_TIMEOUT_S", 0.0)
    with working(url) as workers:

        async def play() -> None:
            await workers.create()
            dead = Workers(url, 1)
            tickets = [await dead.decide(0, accepted_at=0) for _ in range(5)]
            await dead.respond(0, tickets[0])
            await workers.respond(1, tickets[1])
            await dead.all[0].write_events()
            dead.all[0].close()
            await workers.look()
            assert await workers.shown(0) == await workers.shown(1) == (2, 3, 0, 5)
            await workers.all[0].forget()
            await workers.look()
            assert await workers.shown(0) == (2, 3, 0, 5)
            workers.clock[:] = [second + 100 for second in workers.clock]
            for worker in workers.all:
                worker.experiments["headline"].expire(worker.now)
                await worker.write_events()
            monkeypatch.setattr(postgres_module, "HEARTBEAT_TIMEOUT_S", 3600.0)
            with psycopg.connect(url) as connection:
                connection.execute("UPDATE workers SET seen_at = '-infinity' WHERE id > 2")
            await workers.all[1].forget()
            await workers.look()
            assert await workers.shown(0) == await workers.shown(1) == (2, 0, 3, 5)

        asyncio.run(play())


def test_a_pause_holds_everywhere_once_it_is_acknowledged(workers: Workers) -> None:
    """Also a retired arm, one that is shipped, and an experiment that is deleted: no worker goes on as before."""

    async def play() -> None:
        await workers.create()
        one, two = workers.all
        await workers.decide(1)
        await workers.change(0, lambda: one.commands.set_status("headline", "paused"))
        with pytest.raises(Refusal, match="paused"):
            two.decide("headline")
        await workers.change(1, lambda: two.commands.set_status("headline", "running"))
        await workers.change(1, lambda: two.commands.add_arm("headline", NewArm("red")))
        await workers.change(0, lambda: one.commands.retire_arm("headline", 0))
        assert {two.decide("headline").arm for _ in range(20)} == {1, 2}
        await workers.change(0, lambda: one.commands.ship("headline", ShippedArm("red")))
        assert two.decide("headline").arm == 2
        await workers.change(1, lambda: two.commands.delete("headline"))
        assert not one.experiments

    asyncio.run(play())


def test_a_worker_that_does_not_look_hands_out_nothing(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a pause need not wait for it for ever: for as long as it may still hand out arms, and no longer."""
    monkeypatch.setattr(peers, "FRESH_FOR_S", 0.3)
    monkeypatch.setattr(poller, "FRESH_FOR_S", 0.3)
    monkeypatch.setattr(poller, "ACKNOWLEDGE_GRACE_S", 0.1)

    async def play() -> None:
        await workers.create()
        one, two = workers.all
        await workers.decide(1)
        await one.change(lambda: one.commands.set_status("headline", "paused"))  # and the other does not look
        assert two.experiments["headline"].fresh_until < elapsed()
        await two.refresh("headline")  # as is done before each decision
        with pytest.raises(Refusal, match="paused"):
            two.decide("headline")

    asyncio.run(play())


def test_changes_at_two_workers_at_once_are_checked_one_after_the_other(workers: Workers) -> None:
    """Two workers retire the two arms at the same time: one succeeds, the other hears that it is the last arm."""

    async def play() -> None:
        await workers.create()

        async def retire(worker: Service, arm: int) -> str:
            try:
                await worker.change(lambda: worker.commands.retire_arm("headline", arm))
            except Refusal as refusal:
                return refusal.code
            return "retired"

        looks = asyncio.gather(*(Workers._look(worker) for worker in workers.all))
        done = await asyncio.gather(retire(workers.all[0], 0), retire(workers.all[1], 1))
        looks.cancel()
        assert sorted(done) == ["last", "retired"]

    asyncio.run(play())


def test_a_new_key_holds_at_every_worker(workers: Workers) -> None:
    """And an old one nowhere, once the rotation is acknowledged; a new secret signs everywhere."""

    async def play() -> None:
        one, two = workers.all
        old = one.keys.new[Role.CLIENT]
        made = await workers.change(0, lambda: one.commands.rotate("client", NewKey()))
        assert made.key is not None
        assert [two.role(key.encode()) for key in (old, made.key)] == [None, Role.CLIENT]
        await workers.create()
        await workers.change(1, lambda: two.commands.rotate("signing", NewKey(grace=0)))
        assert await workers.respond(1, await workers.decide(0)) == "counted"

    asyncio.run(play())


def test_a_worker_that_was_taken_for_dead_starts_anew(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the others have settled for it is not told twice."""

    async def play() -> None:
        await workers.create()
        await workers.decide(1, accepted_at=1)
        await workers.all[1].write_events()
        await workers.look()
        workers.clock[:] = [second + 100 for second in workers.clock]
        monkeypatch.setattr(postgres_module, "HEARTBEAT_TIMEOUT_S", -1.0)
        await workers.all[0].forget()  # settles all, itself included
        monkeypatch.setattr(postgres_module, "HEARTBEAT_TIMEOUT_S", 60.0)
        await workers.look()
        for worker in workers.all:
            worker.experiments["headline"].expire(worker.now)
            await worker.write_events()
        await workers.look()
        assert await workers.shown(0) == await workers.shown(1) == (0, 0, 1, 1)
        ticket = await workers.decide(0)
        assert await workers.respond(1, ticket) == "counted"
        for worker in workers.all:
            await worker.write_events()
        await workers.look()
        assert await workers.shown(0) == await workers.shown(1) == (1, 0, 1, 2)

    asyncio.run(play())


def test_a_worker_that_cannot_look_says_so(postgres: Postgres) -> None:
    """When the database is gone, no arm is handed out on old knowledge; its own metrics are there, to tell of it."""
    with working(postgres.new(), 1) as workers:

        async def play() -> None:
            await workers.create()
            await workers.decide(0)
            workers.all[0].experiments["headline"].fresh_until = 0.0
            store = workers.all[0]._store
            assert isinstance(store, PostgresStore)
            store._poller.link.close()
            store._poller.link._conninfo = "postgresql://ldp@/nothing?host=/nowhere"
            with pytest.raises(Unavailable):
                await workers.decide(0)
            viewer = workers.all[0].keys.new[Role.VIEWER]
            reply = await ask(application(workers.all[0]), "GET", "/metrics", key=viewer)
            page = reply.body.decode()  # whoever is called for this looks at it
            assert re.search(r'^ldpbandits_commits_total\{worker="\d+"\} 0\.0$', page, re.MULTILINE)

        asyncio.run(play())


def test_a_worker_whose_connection_was_lost_tells_its_last_decisions_when_it_stops(postgres: Postgres) -> None:
    """A session that the database has ended since the last look loses nothing."""
    url = postgres.new()
    with working(url, 1) as workers:

        async def play() -> None:
            await workers.create()
            await workers.look()
            for _ in range(5):
                await workers.decide(0)

        asyncio.run(play())
        with psycopg.connect(url, autocommit=True) as connection:
            ended = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'ldpbandits'"
            assert connection.execute(ended).fetchall()
    with working(url, 1) as workers:

        async def look() -> None:
            await workers.look()
            assert (await workers.shown(0))[3] == 5

        asyncio.run(look())


def test_whoever_is_signed_in_at_one_worker_is_so_at_all(postgres: Postgres) -> None:
    """The console opens by a link of another worker, once, and any worker shows its pages until one signs out."""
    with working(postgres.new()) as workers:

        async def play() -> None:
            await workers.create()
            apps = [application(worker) for worker in workers.all]
            visitor = Browser(apps[0])
            link = await workers.all[0].links.new(workers.all[0].keys.hash_of(Role.ADMIN))
            visitor.app = apps[1]
            await visitor.visit(f"console/enter/{link}")
            assert (await visitor.submit("../sign-in", {"link": link})).status == 200
            assert await workers.all[0].links.take(link) is None
            visitor.app = apps[0]
            assert (await visitor.visit("/console/experiments/headline")).status == 200
            await visitor.submit("../sign-out", {})
            visitor.app = apps[1]
            await visitor.visit("/console/experiments/headline")
            assert "sign-in" in visitor.url

        asyncio.run(play())


def test_a_list_shows_what_was_counted_elsewhere(workers: Workers) -> None:
    """Also of experiments that nobody asks this worker for."""

    async def play() -> None:
        await workers.create()
        for _ in range(3):
            await workers.respond(1, await workers.decide(1))
        first = workers.all[0]
        first.experiments["headline"].asked_at = -inf
        assert first.peers is not None
        await first.peers.poll()
        assert first.experiments["headline"].responses == 0
        assert [each.responses for each in await first.summaries()] == [3]

    asyncio.run(play())


def test_metrics_are_those_of_all_workers_whoever_is_asked(workers: Workers) -> None:
    """Each worker's counts have its number as a label, and no family is there twice."""

    async def play() -> None:
        await workers.create()
        for worker, count in ((0, 1), (1, 2)):
            for _ in range(count):
                await workers.respond(worker, await workers.decide(worker))
        for each in workers.all:
            await metrics.publish_metrics(each)
        pages = [await metrics.text(each) for each in workers.all]
        for page in pages:
            commits = re.findall(r'^ldpbandits_commits_total\{worker="(\d+)"\} (\S+)$', page, re.MULTILINE)
            assert [float(count) for _, count in sorted(commits)] == [1, 2]
            assert page.count("# TYPE ldpbandits_commits_total") == 1

    asyncio.run(play())


def test_forgiving_at_one_worker_forgives_what_is_missing_at_all(workers: Workers) -> None:
    """Also what has expired at another worker that nobody has asked since; what is open still counts, everywhere."""

    async def missing(worker: int) -> tuple[int, int]:
        await workers.all[worker].refresh("headline")
        arms = (await workers.all[worker].report("headline")).arms
        return sum(arm.missing for arm in arms), sum(arm.forgiven for arm in arms)

    async def play() -> None:
        await workers.create()
        for number in range(6):
            await workers.decide(number % 2, accepted_at=number // 2 % 2)
        await workers.look()
        workers.clock[:] = [second + 50 for second in workers.clock]
        for number in range(2):
            await workers.decide(number, accepted_at=number)
        await workers.look()
        workers.clock[:] = [second + 60 for second in workers.clock]
        await workers.look()
        await workers.change(0, lambda: workers.all[0].commands.forgive("headline"))
        await workers.look()
        assert [await missing(0), await missing(1)] == [(0, 6)] * 2
        await workers.look()
        assert [await missing(0), await missing(1)] == [(0, 6)] * 2
        workers.clock[:] = [second + 60 for second in workers.clock]
        for _ in range(2):
            await workers.look()
        assert [await missing(0), await missing(1)] == [(2, 6)] * 2

    asyncio.run(play())
