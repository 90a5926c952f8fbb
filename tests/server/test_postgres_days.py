"""The days of nonces: made ahead and on demand, dropped when nothing of them can come, and nobody waits for either."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from threading import Barrier

import psycopg
import pytest
from tests.server.postgres_server import Postgres
from tests.server.store_contract import COUNTED, DUPLICATE, EXPIRED, answer, arm_totals, start

from ldpbandits.server.store import Unavailable
from ldpbandits.server.store.postgres.nonces import DAY_S, RETENTION_S, Days
from ldpbandits.server.store.postgres.schema import SETUP_LOCK
from ldpbandits.server.store.postgres.store import PostgresStore

HOUR_S = 3600

LONG_AGO = 20 * DAY_S
TODAY = int(time.time()) // DAY_S * DAY_S


def days_of(url: str) -> list[int]:
    """Return the first seconds of the days that there are."""
    with psycopg.connect(url) as connection:
        return [first for (first,) in connection.execute("SELECT first FROM days ORDER BY first").fetchall()]


def forget_all(store: PostgresStore, now: int) -> None:
    """Forget until there is nothing left to forget."""
    while store.forget(now, 1):
        pass


@contextmanager
def holding(url: str, statement: str) -> Iterator[None]:
    """Hold a lock for as long as the block lasts."""
    with psycopg.connect(url) as connection:
        connection.execute(statement)
        yield


def test_a_dropped_day_takes_nothing_from_a_worker_that_does_not_know_yet(postgres: Postgres) -> None:
    """Its tickets are expired, what was counted is not counted again, and the rest of the batch counts."""
    url = postgres.new()
    with closing(PostgresStore(url)) as one, closing(PostgresStore(url)) as two:
        number = start(one)
        old = [answer(nonce, 1, experiment=number, expires_at=LONG_AGO + nonce) for nonce in (1, 2)]
        later = answer(3, 1, experiment=number, expires_at=LONG_AGO + 5 * DAY_S)
        assert one.count(old)[0] == [COUNTED] * 2
        forget_all(one, LONG_AGO + 2 * DAY_S)
        assert one.forgotten == LONG_AGO + DAY_S - 1
        assert two.forgotten == 0
        unseen = answer(4, 1, experiment=number, expires_at=LONG_AGO + 4)
        assert two.count([*old, unseen, later])[0] == [EXPIRED] * 3 + [COUNTED]
        assert two.forgotten == one.forgotten
        assert arm_totals(two, number) == [(3, 3), (0, 0)]


def test_days_are_made_ahead_and_on_demand(postgres: Postgres) -> None:
    """Today's and tomorrow's by the chore, any other when a ticket of it comes: nothing is refused for want of one."""
    url = postgres.new()
    with closing(PostgresStore(url)) as store:
        number = start(store)
        store.forget(0, 1)  # no time is believed yet, as in the first minutes of a server
        assert days_of(url) == []
        store.forget(TODAY + 5, 1)
        assert days_of(url) == [TODAY, TODAY + DAY_S]
        batch = [answer(day + 3, 1, experiment=number, expires_at=TODAY + day * DAY_S) for day in (-3, 0, 1, 400)]
        assert store.count(batch)[0] == [COUNTED] * 4
        assert days_of(url) == [TODAY - 3 * DAY_S, TODAY, TODAY + DAY_S, TODAY + 400 * DAY_S]
        assert store.count(batch)[0] == [DUPLICATE] * 4


def test_a_day_is_kept_for_another(postgres: Postgres) -> None:
    """Clocks of workers differ, and the last one counts too: a day goes when it ended a day ago, and no sooner."""
    url = postgres.new()
    with closing(PostgresStore(url)) as store:
        number = start(store)
        store.count([answer(1, 1, experiment=number, expires_at=LONG_AGO)])
        forget_all(store, LONG_AGO + DAY_S - 1 + RETENTION_S - 1)
        assert store.forgotten == 0
        forget_all(store, LONG_AGO + DAY_S - 1 + RETENTION_S)
        assert store.forgotten == LONG_AGO + DAY_S - 1


def test_a_worker_whose_clock_is_years_ahead_drops_nothing(postgres: Postgres) -> None:
    """The database's clock must agree; and the days of those years, which it makes, are in nobody's way."""
    url = postgres.new()
    with closing(PostgresStore(url)) as wrong, closing(PostgresStore(url)) as right:
        number = start(right)
        ticket = answer(1, 1, experiment=number, expires_at=TODAY + 100)
        assert right.count([ticket])[0] == [COUNTED]
        years = TODAY + 5000 * DAY_S
        forget_all(wrong, years)
        ahead = answer(2, 1, experiment=number, expires_at=years)
        assert wrong.count([ahead])[0] == [COUNTED]
        assert wrong.forgotten == right.forgotten == 0
        assert right.count([ticket, ahead])[0] == [DUPLICATE] * 2


def test_eight_workers_make_the_same_days_at_once(postgres: Postgres) -> None:
    """Each day once, and each response counts once, whoever was first."""
    url, ready = postgres.new(), Barrier(8)
    with ExitStack() as stack:
        stores = [stack.enter_context(closing(PostgresStore(url))) for _ in range(8)]
        number = start(stores[0])
        batch = [answer(nonce, 1, experiment=number, expires_at=TODAY + nonce * DAY_S) for nonce in range(5)]

        def count(store: PostgresStore) -> int:
            ready.wait()
            return store.count(batch)[0].count(COUNTED)

        with ThreadPoolExecutor(8) as threads:
            assert sum(threads.map(count, stores)) == 5
        assert arm_totals(stores[0], number) == [(5, 5), (0, 0)]
    assert days_of(url) == [TODAY + day * DAY_S for day in range(5)]


def test_a_backup_holds_up_neither_new_days_nor_responses(postgres: Postgres) -> None:
    """It reads the table for hours. To make a day at once as a part of it would wait, and everybody behind it."""
    url = postgres.new()
    with closing(PostgresStore(url)) as store, ThreadPoolExecutor(1) as thread:
        number = start(store)
        with holding(url, "LOCK TABLE nonces IN ACCESS SHARE MODE"):
            tickets = [answer(nonce, 1, experiment=number, expires_at=TODAY + nonce * DAY_S) for nonce in (0, 1)]
            for ticket in tickets:
                assert thread.submit(store.count, [ticket]).result(5)[0] == [COUNTED]
            assert thread.submit(store.forget, TODAY + 3 * DAY_S, 1).result(5) == 0


def test_a_day_that_somebody_reads_is_dropped_another_time(postgres: Postgres) -> None:
    """Nobody waits for longer than a second, what else is to be done is done, and then the day goes."""
    url = postgres.new()
    with closing(PostgresStore(url)) as store:
        number = start(store)
        store.count([answer(1, 1, experiment=number, expires_at=LONG_AGO)])
        with holding(url, "LOCK TABLE nonces IN ACCESS SHARE MODE"):
            assert store.forget(LONG_AGO + 3 * DAY_S, 1) == 0
            assert store.count([answer(2, 1, experiment=number, expires_at=LONG_AGO)])[0] == [COUNTED]
        assert LONG_AGO + 3 * DAY_S in days_of(url)
        assert store.forget(LONG_AGO + 3 * DAY_S, 1) == 1


def test_whoever_sets_something_up_is_waited_for_with_patience(postgres: Postgres) -> None:
    """A response of a day that is missing waits for whoever makes days now; a chore gives up and comes again."""
    url = postgres.new()
    with closing(PostgresStore(url)) as store, ThreadPoolExecutor(1) as thread:
        number = start(store)
        with holding(url, f"SELECT pg_advisory_xact_lock({SETUP_LOCK})"):
            with pytest.raises(Unavailable, match="lock timeout"):
                store.settle(TODAY, "missing", "unaccepted")
            waiting = thread.submit(store.count, [answer(1, 1, experiment=number, expires_at=TODAY)])
            time.sleep(1.2)
            assert not waiting.done()
        assert waiting.result(5)[0] == [COUNTED]


def test_a_day_dropped_while_a_batch_is_under_way_expires_in_it(postgres: Postgres) -> None:
    """Also where the worker has just looked: the day goes between its look and its statement."""
    url = postgres.new()
    dropped = list[int]()
    with closing(PostgresStore(url, days=Days(width=1, kept=0), ahead=0)) as other:

        def drop(_: str) -> None:
            if not dropped:
                dropped.append(other.forget(HOUR_S, 1))

        number = start(other)
        other.count([answer(1, 1, experiment=number, expires_at=HOUR_S)])
        with closing(PostgresStore(url, failpoint=drop, days=Days(width=1, kept=0), ahead=0)) as store:
            batch = [
                answer(1, 1, experiment=number, expires_at=HOUR_S),
                answer(2, 1, experiment=number, expires_at=HOUR_S + 1),
            ]
            assert store.count(batch)[0] == [EXPIRED, COUNTED]
            assert dropped == [1]
            assert arm_totals(store, number) == [(2, 2), (0, 0)]
