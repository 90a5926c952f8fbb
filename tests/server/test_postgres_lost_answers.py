"""A connection that is cut after a statement was sent: whether it was done is not known, and it is done once."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest
from tests.server.cutting import MOMENTS, Moment, Proxy, cutting
from tests.server.postgres_server import Postgres
from tests.server.several import NEW, Workers
from tests.server.store_contract import COUNTED, DUPLICATE, answer, arm_totals, defined, exported, start

from ldpbandits.server.service import Service
from ldpbandits.server.store import Answer, CellTotal, Event, Unavailable
from ldpbandits.server.store.nonces import place_of
from ldpbandits.server.store.postgres.store import PostgresStore

SLOW = """
CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.4); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER linger AFTER INSERT ON {table} DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION linger()
"""
"""A commit that takes its time: it begins, and whoever asks in the meantime sees nothing of it."""


@pytest.fixture
def proxy(postgres: Postgres) -> Iterator[Proxy]:
    """A proxy before PostgreSQL."""
    with cutting(postgres) as made:
        yield made


def run(url: str, sql: str) -> None:
    """Change something behind the store's back."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql)


def sent(answer: Answer) -> bytes:
    """Return what stands in the message that has this response: before it, a statement is only prepared."""
    return place_of(answer.ticket)[1].hex().encode()


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("commit", ["fast", "slow"])
def test_a_batch_whose_answer_is_lost_is_counted_once(
    postgres: Postgres, proxy: Proxy, moment: Moment, commit: str
) -> None:
    """It is sent again, waits for the first try where that is still under way, and tells what that has counted."""
    url = postgres.new()
    with closing(PostgresStore(proxy.url(url))) as store:
        number = start(store)
        assert store.count([answer(nonce, 1, experiment=number) for nonce in range(3)])[0] == [COUNTED] * 3
        if commit == "slow":
            run(url, SLOW.format(table="responses"))
        batch = [answer(nonce, 1, experiment=number) for nonce in (2, 3, 4, 4)]
        cut = proxy.cut(moment, sent(batch[-1]))
        outcomes, totals = store.count(batch, [Event(number, 0, "duplicate", 2)])
        assert cut.done.is_set()
        assert outcomes == [DUPLICATE, COUNTED, COUNTED, DUPLICATE]
        assert totals == [CellTotal(number, 0, 0, 5, 5)]
        assert store.count(batch)[0] == [DUPLICATE] * 4
        assert (arm_totals(store, number)[0], exported(store, number)) == ((5, 5), [(0, 1)] * 5)
        assert store.events() == [Event(number, 0, "duplicate", 2)]


def test_a_try_that_comes_late_counts_nothing_again(postgres: Postgres, proxy: Proxy) -> None:
    """The first try waits for a lock when its connection is cut; the second counts, and then the first goes on."""
    url = postgres.new()
    with closing(PostgresStore(proxy.url(url))) as store, psycopg.connect(url) as other:
        number = start(store)
        store.count([answer(1, 1, experiment=number)])
        other.execute("SELECT FROM gates WHERE slot = %s FOR UPDATE", (store._counting.slot,))
        late = answer(2, 1, experiment=number)
        proxy.cut("forwarded", sent(late))
        assert store.count([late])[0] == [COUNTED]
        other.rollback()
        other.execute("SELECT FROM gates FOR UPDATE")  # waits for the first try
        assert other.execute("SELECT sum(pulls), count(*) FROM cells").fetchall() == [(2, 2)]
        assert exported(store, number) == [(0, 1)] * 2


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("commit", ["fast", "slow"])
def test_a_change_whose_answer_is_lost_is_made_once(
    postgres: Postgres, proxy: Proxy, moment: Moment, commit: str
) -> None:
    """It is known by its token: it is neither made again nor said to have failed, also while it is still under way."""
    url = postgres.new()
    with closing(PostgresStore(proxy.url(url))) as store:
        if commit == "slow":
            run(url, SLOW.format(table="changes"))
        cut = proxy.cut(moment, b"COMMIT")
        made = store.create(defined(), ["a", "b"])
        assert cut.done.is_set()
        assert store.experiments() == [made]
        proxy.cut(moment, b"COMMIT")
        store.add_arm(made.number, "c")
        proxy.cut(moment, b"COMMIT")
        store.set_status(made.number, "closed")
        (found,) = store.experiments()
        assert ([arm.name for arm in found.arms], found.status, store.basis) == (["a", "b", "c"], "closed", 3)


def test_a_change_that_was_cut_before_its_commit_is_not_made(postgres: Postgres, proxy: Proxy) -> None:
    """It is Unavailable, nothing is left of it, and the next try makes it."""
    with closing(PostgresStore(proxy.url(postgres.new()))) as store:
        cut = proxy.cut("answered", b"INSERT INTO gates")
        with pytest.raises(Unavailable):
            start(store)
        assert cut.done.is_set()
        assert store.experiments() == []
        start(store)
        assert (len(store.experiments()), store.basis) == (1, 1)


def test_a_connection_that_died_unseen_fails_nobody(postgres: Postgres) -> None:
    """After the database has cut all connections, the next call of any kind makes a new one."""
    url = postgres.new()
    with closing(PostgresStore(url)) as store:
        number = start(store)
        for call in (
            store.keys,
            store.check,
            lambda: store.count([answer(1, 1, experiment=number)]),
            lambda: store.add_arm(number, "c"),
            lambda: store.forget(1000, 10),
            lambda: store.is_acknowledged(1),
        ):
            terminate(url)
            call()


def terminate(url: str) -> None:
    """Cut all connections of workers, and wait until they are gone."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = 'ldpbandits' AND datname = current_database()"
        )


def test_while_the_database_is_away_a_worker_is_unavailable_and_then_counts_once(
    postgres: Postgres, proxy: Proxy
) -> None:
    """The answer is lost and nobody is there to ask: that is told, and the same sent again is counted once."""
    with closing(PostgresStore(proxy.url(postgres.new()), patience=0.2)) as store:
        number = start(store)
        store.count([answer(1, 1, experiment=number)])
        for nonce, moment in enumerate(MOMENTS, 2):
            batch, events = [answer(nonce, 1, experiment=number)], [Event(number, 0, "changed", 1)]
            proxy.cut(moment, sent(batch[0]))
            proxy.shut()
            with pytest.raises(Unavailable):
                store.count(batch, events)
            with pytest.raises(Unavailable):
                store.add_arm(number, "c")
            proxy.open()
            (outcome,), _ = store.count(batch, events)
            assert outcome is DUPLICATE or moment == "forwarded"  # then the first try may not have been there yet
        assert arm_totals(store, number) == [(3, 3), (0, 0)]
        assert store.events() == [Event(number, 0, "changed", 2)]


def test_what_was_told_before_a_crash_is_told_again(postgres: Postgres, proxy: Proxy) -> None:
    """A crash may lose the last that was told, which ends the connection: on the next one all of it is said again."""
    url = postgres.new()
    worker = Service(PostgresStore(proxy.url(url)), now=lambda: 1_000_000.0)

    async def play() -> None:
        assert worker.peers is not None
        await worker.change(lambda: worker.commands.create(NEW))
        await worker.refresh("headline")
        for _ in range(4):
            worker.decide("headline")
        await worker.peers.poll()
        run(url, "DELETE FROM pending; DELETE FROM events")  # as a crash would
        terminate(url)
        with pytest.raises(Unavailable):
            await worker.peers.poll()
        await worker.peers.poll()

    try:
        asyncio.run(play())
    finally:
        worker.close()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT sum(count) FROM pending").fetchall() == [(4,)]
        assert connection.execute("SELECT kind, sum(count) FROM events GROUP BY kind").fetchall() == [("decision", 4)]


def test_a_pause_whose_answer_is_lost_holds_everywhere(workers: Workers, proxy: Proxy) -> None:
    """While its answer was on the way the others looked; nobody goes on handing out arms."""

    async def play() -> None:
        await workers.create()
        one, two = workers.all
        store = one._store
        assert isinstance(store, PostgresStore)
        store._writer._conninfo = proxy.url(store._writer._conninfo)
        store._writer.close()
        for moment in MOMENTS:
            cut = proxy.cut(moment, b"COMMIT")
            await workers.change(0, lambda: one.commands.set_status("headline", "paused"))
            assert cut.done.is_set()
            assert two.experiments["headline"].status == one.experiments["headline"].status == "paused"
            await workers.change(1, lambda: two.commands.set_status("headline", "running"))

    asyncio.run(play())


def test_threads_of_a_worker_do_not_disturb_each_other(postgres: Postgres) -> None:
    """One counts, one looks, and the connections of both are cut again and again: each response counts once."""
    url = postgres.new()
    with closing(PostgresStore(url)) as store, ThreadPoolExecutor(2) as threads:
        number = start(store)
        looking = threads.submit(_look_often, store)
        counted = 0
        for nonce in range(60):
            if nonce % 6 == 0:
                terminate(url)
            counted += store.count([answer(nonce, 1, experiment=number)])[0].count(COUNTED)
        assert looking.result(20) > 0
        assert counted == 60
        assert arm_totals(store, number)[0] == (60, 60)


def _look_often(store: PostgresStore) -> int:
    looked = 0
    for turn in range(60):
        store.queue_updates([], [Event(1, 0, "decision", 1)])
        try:
            looked += bool(store.refresh([0, 1], {}))
        except Unavailable:
            store.forgotten  # noqa: B018 - the event loop reads it at any moment
        assert turn < 60
    return looked
