"""What may happen between any two steps of a worker: another worker changes something, a look falls in between."""

import asyncio
from collections.abc import Awaitable, Callable
from threading import Event
from typing import Any

import psycopg
import pytest
from tests.server.inprocess import ask
from tests.server.several import NEW, Workers

from ldpbandits.server.api.app import application
from ldpbandits.server.api.messages import Key, NewArm, NewKey
from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.keys import Role
from ldpbandits.server.peers import peers
from ldpbandits.server.process import metrics
from ldpbandits.server.process.clock import elapsed
from ldpbandits.server.service import Service
from ldpbandits.server.store import Unavailable
from ldpbandits.server.store.postgres import poller
from ldpbandits.server.store.postgres.store import PostgresStore
from ldpbandits.spec.messages import Change


def store_of(worker: Service) -> PostgresStore:
    """Return the store of a worker."""
    store = worker._store
    assert isinstance(store, PostgresStore)
    return store


def between(worker: Service, step: Callable[[], Awaitable[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let something happen after each change of the store has committed, before the worker goes on."""
    run = worker.committer.run

    async def run_and_wait(verb: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return await run(verb, *args, **kwargs)
        finally:
            await step()

    monkeypatch.setattr(worker.committer, "run", run_and_wait)


def look(worker: Service) -> Awaitable[None]:
    """Let a worker look."""
    assert worker.peers is not None
    return worker.peers.poll()


def arms_of(worker: Service) -> list[str]:
    """Return the arms as a worker knows them."""
    return [record.name for record in worker.experiments["headline"].records]


def gone(*_: object) -> None:
    """Be a database that cannot be reached."""
    raise Unavailable("the database is away")


def test_what_was_counted_before_a_change_is_taken_over_with_it(workers: Workers) -> None:
    """A look that finds responses and a pause at once takes over both."""

    async def play() -> None:
        await workers.create()
        one, two = workers.all
        await workers.look()
        for _ in range(6):
            await workers.respond(0, await workers.decide(0))
        await one.committer.run(one._store.set_status, one.experiments["headline"].number, "paused")
        await look(two)
        assert two.experiments["headline"].status == "paused"
        assert two.experiments["headline"].responses == 6

    asyncio.run(play())


def test_an_arm_is_added_once_though_a_look_finds_it_first(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look between the commit and its answer has added the arm: a second one in memory would be in no database."""

    async def play() -> None:
        await workers.create()
        one = workers.all[0]
        between(one, lambda: look(one), monkeypatch)
        await workers.change(0, lambda: one.commands.add_arm("headline", NewArm("red")))
        assert arms_of(one) == ["blue", "green", "red"]
        for _ in range(30):
            assert await workers.respond(0, await workers.decide(0)) == "counted"

    asyncio.run(play())


def test_a_later_change_elsewhere_is_not_undone_by_an_earlier_one_here(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """We resume, another worker pauses, a look here finds both; when our own change goes on, the pause stays."""

    async def play() -> None:
        await workers.create()
        one, two = workers.all
        number = one.experiments["headline"].number
        await workers.change(0, lambda: one.commands.set_status("headline", "paused"))

        async def pause_elsewhere() -> None:
            monkeypatch.undo()
            await look(two)
            store_of(two).basis = store_of(two).version
            await two.committer.run(two._store.set_status, number, "paused")
            await look(one)

        between(one, pause_elsewhere, monkeypatch)
        await workers.change(0, lambda: one.commands.set_status("headline", "running"))
        assert one.experiments["headline"].status == "paused"

    asyncio.run(play())


def test_what_was_created_here_and_deleted_elsewhere_is_gone(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with an experiment that another worker deletes before its creation has returned here."""

    async def play() -> None:
        one, two = workers.all
        deleted = list[int]()

        async def delete_elsewhere() -> None:
            monkeypatch.undo()
            await look(two)
            store_of(two).basis = store_of(two).version
            await two.commands.delete("headline")
            await look(one)
            deleted.append(1)

        await workers.look()
        between(one, delete_elsewhere, monkeypatch)
        with pytest.raises(Exception, match="no experiment named"):
            await workers.change(0, lambda: one.commands.create(NEW))
        assert deleted
        assert not one.experiments

    asyncio.run(play())


def test_a_deletion_whose_answer_was_lost_leaves_no_ghost(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was made, nobody knows, and a look has taken it over: who goes on from there does not put it back."""

    async def play() -> None:
        await workers.create()
        one = workers.all[0]
        delete = store_of(one).delete

        def delete_and_lose(number: int, *, log: Change) -> None:
            delete(number, log=log)
            store_of(one).basis -= 1
            raise Unavailable("the answer was lost")

        monkeypatch.setattr(store_of(one), "delete", delete_and_lose)
        between(one, lambda: look(one), monkeypatch)
        with pytest.raises(Unavailable):
            await workers.change(0, lambda: one.commands.delete("headline"))
        await look(one)
        assert not one.experiments

    asyncio.run(play())


def test_a_ticket_of_a_new_arm_is_counted_by_a_worker_that_has_just_looked(workers: Workers) -> None:
    """It looks again, however short the time since the last look: a device would drop what is refused as forged."""

    async def play() -> None:
        await workers.create()
        one, two = workers.all
        await look(two)
        await one.committer.run(one._store.add_arm, one.experiments["headline"].number, "red")
        await look(one)
        tickets = [await workers.decide(0) for _ in range(3)]
        assert [await workers.respond(1, ticket) for ticket in tickets] == ["counted"] * 3

    asyncio.run(play())


def test_many_who_wait_for_a_look_that_fails_fail_together(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the database does not answer, a hundred requests do not wait one after the other for it not to."""

    async def play() -> None:
        one = workers.all[0]
        looks = []

        def refresh(*_: Any) -> None:
            looks.append(1)
            raise Unavailable("no answer")

        monkeypatch.setattr(store_of(one), "refresh", refresh)
        done = await asyncio.gather(*(look(one) for _ in range(100)), return_exceptions=True)
        assert all(isinstance(each, Unavailable) for each in done)
        assert len(looks) <= 2

    asyncio.run(play())


def test_a_repeated_batch_takes_over_the_arms_that_it_has(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a lost answer totals are read anew; those of an arm that another worker has added meanwhile can wait."""

    async def play() -> None:
        await workers.create()
        one, two = workers.all
        ticket = await workers.decide(1)
        await one.committer.run(one._store.add_arm, one.experiments["headline"].number, "red")
        await look(one)
        for _ in range(3):
            await workers.respond(0, await workers.decide(0))
        send, lost = store_of(two)._counting._send, list[int]()

        def lose_the_first(*args: Any) -> Any:
            rows = send(*args)
            if not lost:
                lost.append(1)
                raise psycopg.OperationalError("the answer was lost")
            return rows

        monkeypatch.setattr(store_of(two)._counting, "_send", lose_the_first)
        assert await workers.respond(1, ticket) == "counted"
        await workers.look()
        assert await workers.shown(1) == (4, 0, 0, 4)

    asyncio.run(play())


def test_a_list_of_experiments_has_what_other_workers_counted(workers: Workers) -> None:
    """Also of those that nobody has asked this worker for."""

    async def play() -> None:
        await workers.create()
        await workers.look()
        for experiment in workers.all[1].experiments.values():
            experiment.asked_at = -1e9
        for _ in range(5):
            await workers.respond(0, await workers.decide(0))
        (summary,) = await workers.all[1].summaries()
        assert summary.responses == 5

    asyncio.run(play())


def test_what_a_look_found_is_taken_over_though_nobody_waits_for_it(workers: Workers) -> None:
    """Whoever has asked for a look may go away in the middle of it; totals are told once, and would be lost."""

    async def play() -> None:
        await workers.create()
        one, two = workers.all
        await two.refresh("headline")
        for turn in range(20):
            await workers.respond(0, await workers.decide(0))
            looking = asyncio.ensure_future(look(two))
            await asyncio.sleep(0.001 * (turn % 4))
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
        await look(two)
        assert two.experiments["headline"].responses == one.experiments["headline"].responses == 20

    asyncio.run(play())


def test_a_database_that_hangs_does_not_hang_decisions(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """It neither answers nor fails: nobody waits for more than some seconds; when it goes on, so does the worker."""

    async def play() -> None:
        await workers.create()
        one = workers.all[0]
        await workers.decide(0)
        with psycopg.connect(workers.url) as connection, monkeypatch.context() as impatient:
            impatient.setattr(peers, "POLL_TIMEOUT_S", 0.2)
            connection.execute("LOCK TABLE workers")
            one.experiments["headline"].fresh_until = 0.0
            done = await asyncio.gather(*(workers.decide(0) for _ in range(20)), return_exceptions=True)
            assert all(isinstance(each, Unavailable) for each in done)
        assert one.peers is not None
        assert one.peers._poll_task is not None
        await one.peers._poll_task
        await workers.decide(0)
        await workers.look()
        assert (await workers.shown(1))[3] == 2

    asyncio.run(play())


def test_while_a_database_hangs_metrics_are_shown_and_nobody_waits_twice(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prometheus waits for ten seconds: what a worker has measured is to be there by then."""
    worker, end = workers.all[0], Event()
    app, viewer = application(worker), worker.keys.new[Role.VIEWER]

    async def play() -> None:
        await workers.create()
        monkeypatch.setattr(peers, "POLL_TIMEOUT_S", 0.05)
        monkeypatch.setattr(metrics, "DATABASE_TIMEOUT_S", 0.05)
        monkeypatch.setattr(store_of(worker), "refresh", lambda *_: end.wait())
        monkeypatch.setattr(store_of(worker), "sizes", end.wait)
        monkeypatch.setattr(peers, "elapsed", lambda: elapsed() + 10)
        with pytest.raises(Unavailable, match="took longer than"):
            await workers.decide(0)
        await asyncio.sleep(0.06)
        page = (await ask(app, "GET", "/metrics", key=viewer)).body.decode()
        assert "ldpbandits_commits_total{" in page
        monkeypatch.setattr(asyncio, "timeout", lambda _: pytest.fail("somebody waits again"))
        with pytest.raises(Unavailable, match="took longer than"):
            await workers.decide(0)
        monkeypatch.undo()
        end.set()

    asyncio.run(play())


def test_a_new_key_is_shown_though_not_every_worker_knows_it(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old one has ended and the new one is shown once: who does not see it has none. A pause can be asked again."""

    async def play() -> None:
        await workers.create()
        monkeypatch.setattr(peers, "ACKNOWLEDGE_TIMEOUT_S", 0.1)
        one = workers.all[0]
        with psycopg.connect(workers.url, autocommit=True) as connection:  # a worker that lives and never learns
            connection.execute("INSERT INTO workers (version, seen_at) VALUES (0, 'infinity')")
        made = await one.change(lambda: one.commands.rotate("admin", NewKey()))
        assert isinstance(made, Key)
        assert made.key is not None
        assert one.role(made.key.encode()) is Role.ADMIN
        with pytest.raises(Unavailable, match="not every worker"):
            await one.change(lambda: one.commands.set_status("headline", "paused"))

    asyncio.run(play())


def test_exports_share_a_connection(workers: Workers) -> None:
    """However many are read at once, the database has connections left; each has all responses."""

    async def play() -> None:
        await workers.create()
        for _ in range(6):
            await workers.respond(0, await workers.decide(0))

    asyncio.run(play())
    exports = [store_of(workers.all[0]).export(1, 2) for _ in range(30)]
    pieces = [[next(export) for export in exports] for _ in range(3)]
    with psycopg.connect(workers.url) as connection:
        sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        assert connection.execute(sql).fetchall()[0][0] <= 6
    assert [len({row for piece in each for row in piece}) for each in zip(*pieces, strict=True)] == [6] * 30


def test_metrics_take_no_connection_each_time(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are asked for every few seconds; to connect may take longer than the rest, and fail when many do."""
    store = store_of(workers.all[0])
    assert (store.sizes().database or 0) > 0
    monkeypatch.setattr(psycopg, "connect", lambda *_, **__: pytest.fail("another connection"))
    assert (store.sizes().database or 0) > 0


def test_a_machine_that_slept_hands_out_nothing_before_it_has_looked(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its monotonic clock may have slept, too; what it knows is hours old, and a pause did not wait for it."""

    async def play() -> None:
        await workers.create()
        one = workers.all[0]
        await workers.decide(1)
        await one.committer.run(one._store.set_status, one.experiments["headline"].number, "paused")
        monkeypatch.setattr(peers, "elapsed", lambda: elapsed() + 3600)
        with pytest.raises(Refusal, match="paused"):
            await workers.decide(1)

    asyncio.run(play())


@pytest.mark.parametrize("hours", [-1, 1])
def test_whoever_is_waited_for_does_not_hang_on_the_clock_of_the_database(
    workers: Workers, hours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was set, or a standby with another one took over: a worker that lives seems dead, or a dead one alive."""

    async def play() -> None:
        await workers.create()
        await workers.look()
        one, two = (store_of(worker) for worker in workers.all)
        with psycopg.connect(workers.url, autocommit=True) as connection:
            sql = "UPDATE workers SET seen_at = seen_at + make_interval(hours => %s) WHERE id = %s"
            connection.execute(sql, (hours, two.worker))
        one.acknowledge(one.version + 1)
        assert not one.is_acknowledged(one.version)
        monkeypatch.setattr(poller, "elapsed", lambda: elapsed() + 3.1)
        assert one.is_acknowledged(one.version)
        await look(workers.all[1])
        assert not one.is_acknowledged(one.version)
        two.close()
        assert one.is_acknowledged(one.version)

    asyncio.run(play())


def test_a_worker_that_was_frozen_goes_by_no_key_and_no_secret_that_has_ended(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rotation did not wait for it. Neither the old key nor a void ticket is taken at waking."""

    async def play() -> None:
        await workers.create()
        one, two = workers.all
        old, app = one.keys.new[Role.VIEWER], application(two)
        assert (await ask(app, "GET", "/metrics", key=old)).status == 200
        ticket = await workers.decide(1)
        await one.committer.run(one.keys.rotate, Role.VIEWER, one.now, 0)
        await one.committer.run(one.keys.rotate_secret, one.now, 0)
        monkeypatch.setattr(peers, "elapsed", lambda: elapsed() + 3600)  # and it has not looked since
        woken = [ask(app, "GET", path, key=old) for path in ("/metrics", "/v1/experiments")]
        assert [reply.status for reply in await asyncio.gather(*woken)] == [401, 401]
        with pytest.raises(Refusal, match="not a ticket of this server"):
            await workers.respond(1, ticket)

    asyncio.run(play())


def test_a_worker_that_cannot_look_takes_no_ticket_that_may_be_void(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its database may be back before it gives up counting: a ticket whose secret has ended by then would count."""

    async def play() -> None:
        await workers.create()
        await workers.look()
        one, two = workers.all
        ticket = await workers.decide(1)
        assert await workers.respond(1, await workers.decide(1)) == "counted"
        await one.committer.run(one.keys.rotate_secret, one.now, 0)
        monkeypatch.setattr(peers, "elapsed", lambda: elapsed() + 3600)  # it has not looked since
        with monkeypatch.context() as away:
            away.setattr(store_of(two), "refresh", gone)
            with pytest.raises(Unavailable, match="the database is away"):
                await workers.respond(1, ticket)
        with pytest.raises(Refusal, match="not a ticket of this server"):
            await workers.respond(1, ticket)
        assert (await workers.shown(0))[0] == 1

    asyncio.run(play())


def test_a_worker_whose_database_went_back_knows_nothing_any_more(workers: Workers) -> None:
    """A promoted standby lacks the last change, and others make another under its version: that must not pass unseen.

    The pause was acknowledged, since every worker was at that version, and the first one went on handing out arms.
    """

    async def play() -> None:
        await workers.create()
        await workers.look()
        one, two = workers.all
        with psycopg.connect(workers.url, autocommit=True) as connection:
            connection.execute("DELETE FROM changes WHERE version = (SELECT max(version) FROM changes)")
        store_of(two).version -= 1
        store_of(two)._poller._last_change = None  # as a worker that has started on the new primary
        await look(two)
        await two.change(lambda: two.commands.set_status("headline", "paused"))
        with pytest.raises(Unavailable, match="lost a change that this worker has seen"):
            await look(one)
        assert one.lost is not None
        assert two.lost is None

    asyncio.run(play())


def test_a_worker_whose_database_is_another_one_knows_nothing_any_more(workers: Workers) -> None:
    """A backup was restored, and given a new identity, while it ran: tickets from before would count twice."""

    async def play() -> None:
        await workers.create()
        await workers.look()
        with psycopg.connect(workers.url, autocommit=True) as connection:
            connection.execute("UPDATE identity SET identity = uuid_send(gen_random_uuid())")
        for worker in workers.all:
            with pytest.raises(Unavailable, match="was replaced while this worker ran"):
                await look(worker)
            assert worker.lost is not None

    asyncio.run(play())
