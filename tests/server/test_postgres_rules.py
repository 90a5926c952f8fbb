"""What only several workers on one PostgreSQL can break, and what it takes to find it: each planted fault is found."""

import os
import random
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import count
from threading import Barrier, Event
from typing import TypeAlias

import psycopg
import pytest
from tests.server.postgres_server import Postgres
from tests.server.store_contract import COUNTED, answer, arm_totals, of_copies_in_one_batch_the_first_counts, start
from tests.server.test_store_contract import PostgresPlace

from ldpbandits.server.store import Answer
from ldpbandits.server.store.postgres import retry
from ldpbandits.server.store.postgres.counting import COUNT, Batch
from ldpbandits.server.store.postgres.store import PostgresStore

FAULTS = "LDPBANDITS_FAULTS" in os.environ
MOST = 40
"""Trials in `make faults`, and at most for a planted fault: 2 of 5 show it, so that one in 10^8 would be missed."""

Rule: TypeAlias = Callable[[Postgres, int], None]


def nothing_is_counted_after_a_close(postgres: Postgres, trials: int) -> None:
    """Once a close has returned, totals do not move any more, however many workers are counting at that moment."""
    url, rng = postgres.new(), random.Random(1)
    with ExitStack() as stack:
        stores = [stack.enter_context(closing(PostgresStore(url))) for _ in range(3)]
        admin = stack.enter_context(closing(PostgresStore(url)))
        looking = stack.enter_context(psycopg.connect(url, autocommit=True))
        threads = stack.enter_context(ThreadPoolExecutor(3))
        for trial in range(trials):
            number, begun, over, nonces = start(admin, f"trial {trial}"), Event(), Event(), count(trial << 32)
            counting = [threads.submit(_count_until, begun, over, store, number, nonces) for store in stores]
            assert begun.wait(30)
            over.wait(rng.uniform(0, 0.05))
            admin.set_status(number, "closed")
            sql = "SELECT coalesce(sum(pulls), 0) FROM cells WHERE experiment = %s"
            ((before,),) = looking.execute(sql, (number,)).fetchall()
            over.set()
            counted = sum(each.result(30) for each in counting)
            ((after,),) = looking.execute(sql, (number,)).fetchall()
            assert counted == after == before > 0


def _count_until(begun: Event, over: Event, store: PostgresStore, number: int, nonces: "count[int]") -> int:
    counted = 0
    while not over.is_set():
        batch = [answer(next(nonces), 1, experiment=number) for _ in range(200)]
        counted += store.count(batch)[0].count(COUNTED)
        begun.set()
    return counted


def workers_that_are_sent_the_same_do_not_wait_for_each_other_in_a_ring(postgres: Postgres, trials: int) -> None:
    """Copies of a batch at two workers, in different orders: each is counted once, and there is no deadlock."""
    url, rng = postgres.new() + "&options=-c%20deadlock_timeout%3D10ms", random.Random(2)
    ready = Barrier(2)

    def send(store: PostgresStore, batch: Sequence[Answer]) -> int:
        ready.wait(30)
        return store.count(batch)[0].count(COUNTED)

    with ExitStack() as stack:  # without patience a deadlock is Unavailable
        stores = [stack.enter_context(closing(PostgresStore(url, patience=0.0))) for _ in range(2)]
        threads = stack.enter_context(ThreadPoolExecutor(2))
        numbers = [start(stores[0], name) for name in ("one", "two")]
        for turn in range(2 * trials):
            batch = [answer(turn << 16 | nonce, 1, experiment=numbers[nonce % 2]) for nonce in range(400)]
            orders = [sorted(batch), sorted(batch, reverse=True)] if turn % 2 else [rng.sample(batch, 400), batch]
            sent: list[Future[int]] = [threads.submit(send, *each) for each in zip(stores, orders, strict=True)]
            assert sum(each.result(30) for each in sent) == 400
        assert arm_totals(stores[0], numbers[0]) == arm_totals(stores[0], numbers[1])


def of_copies_in_a_batch_one_counts(postgres: Postgres, _: int) -> None:
    """The rule of every store's contract, since here it is kept in a way of its own."""
    of_copies_in_one_batch_the_first_counts(PostgresPlace(postgres.new()))


class Doubles(Batch):
    """FAULT: copies in a batch are all given to the database, which joins each with the nonce that was inserted."""

    def __init__(self, answers: Sequence[Answer], forgotten: int) -> None:
        """Keep copies."""
        super().__init__(answers, forgotten)
        self.given = list(answers)


def planted(old: str, new: str) -> str:
    """Return the statement that counts, with a fault in it."""
    assert old in COUNT
    return COUNT.replace(old, new)


MUTANTS: dict[str, tuple[str, object, Rule]] = {
    "status from the snapshot": ("COUNT", planted(" FOR UPDATE", ""), nothing_is_counted_after_a_close),
    "unsorted batch": (
        "COUNT",
        planted("    ORDER BY expires_at, id\n", ""),
        workers_that_are_sent_the_same_do_not_wait_for_each_other_in_a_ring,
    ),
    "doubles in a batch": ("Batch", Doubles, of_copies_in_a_batch_one_counts),
}
RULES = [rule for _, _, rule in MUTANTS.values()]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_workers_on_one_postgresql_keep_the_rule(rule: Rule, postgres: Postgres) -> None:
    """Each rule holds."""
    rule(postgres, MOST if FAULTS else 5)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_planted_fault_is_found_by_its_rule(mutant: str, postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fault breaks the rule that it is against."""
    name, fault, rule = MUTANTS[mutant]
    monkeypatch.setattr(retry, name, fault)
    with pytest.raises(Exception, match=r".") as found:
        rule(postgres, MOST)
    refused = ("deadlock detected", "cannot affect row a second time")  # by PostgreSQL itself
    assert isinstance(found.value, AssertionError) or any(words in str(found.value) for words in refused)
