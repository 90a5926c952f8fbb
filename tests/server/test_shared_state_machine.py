"""The same life, of one or two workers on PostgreSQL: each step happens at any of them, and all tell the same."""

import asyncio
import random
from collections.abc import Awaitable
from typing import Any, TypeVar

import psycopg
import pytest
from hypothesis import settings
from hypothesis.stateful import invariant, rule, run_state_machine_as_test
from tests.server.inprocess import Reply, ask
from tests.server.model import ModelExperiment
from tests.server.postgres_server import Postgres
from tests.server.shared_model import SharedModel
from tests.server.test_state_machine import ADMIN, ENVIRONMENT, LONG, SETTINGS, Life

from ldpbandits.server.api.app import application
from ldpbandits.server.peers import peers
from ldpbandits.server.process.clock import elapsed
from ldpbandits.server.service import Service
from ldpbandits.server.store.postgres import store as postgres_module
from ldpbandits.server.store.postgres.nonces import Days
from ldpbandits.server.store.postgres.store import PostgresStore

T = TypeVar("T")


class SharedLife(Life):
    """The life of workers, beside a model of them."""

    postgres: Postgres
    count: int
    model: SharedModel

    def __init__(self) -> None:
        """Start them on a new database."""
        self.url = self.postgres.new()
        self.rng = random.Random(1)
        self.workers: dict[int, Service] = {}
        super().__init__()
        self.patch.setattr(peers, "UNKNOWN_POLL_INTERVAL_S", 0.0)
        # Else a request polls, and expires tickets, where a step takes longer than that on a busy machine.
        self.patch.setattr(peers, "FRESH_FOR_S", 3600.0)
        self.patch.setattr(postgres_module, "HEARTBEAT_TIMEOUT_S", 3600.0)
        self.disk_connection = psycopg.connect(self.url, autocommit=True)

    def open(self) -> None:
        """Start the workers; of its keys, the first has made those that are new."""
        self.model = SharedModel(self.model.clock)
        self.model.out.clear()
        for _ in range(self.count):
            self.start_a_worker()
        self.turn(min(self.workers))

    def start_a_worker(self) -> None:
        """Start one more; it is known by its number in the database. Its days are of one second: it forgets exactly."""
        store = PostgresStore(self.url, days=Days(width=1, kept=0), ahead=0)
        number = store._counting.notes.worker
        self.workers[number] = Service(store, ENVIRONMENT, now=lambda: self.model.clock + 0.5)
        self.model.out[number] = type(self.model.missed)()  # type: ignore[assignment]

    def turn(self, number: int) -> None:
        """Let what happens next happen at this worker."""
        self.model.worker, self.service = number, self.workers[number]
        self.app = application(self.service)

    def close(self) -> None:
        """End all."""
        for number in list(self.workers):
            self.end(number)

    def end(self, number: int) -> None:
        """End a worker, once it has nothing left to do."""
        worker = self.workers.pop(number)
        while worker.committer._work is not None:
            self.do(asyncio.sleep(0))
        worker.close()
        self.model.end(number)

    def teardown(self) -> None:
        """Leave nothing behind."""
        self.disk_connection.close()
        super().teardown()
        self.postgres.recycle()

    def ask(self, method: str, path: str, body: object = None, *, key: str = ADMIN) -> Reply:
        """Ask a worker, as an admin; a change waits until the others know, who look every now and then."""
        asking = ask(self.app, method, path, body, key=key)
        return self.do(asking if method == "GET" or key != ADMIN else self.while_others_look(asking))

    async def while_others_look(self, work: Awaitable[T]) -> T:
        """Wait for something, while all other workers look."""
        others = [asyncio.create_task(_look(each)) for each in self.workers.values() if each is not self.service]
        try:
            return await work
        finally:
            for other in others:
                other.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    def number_of_new(self, name: str) -> int:
        """Return the number of a new experiment: a name that was refused has used one, too."""
        return self.service.experiments[name].number

    @invariant()
    def the_report_says_what_happened(self) -> None:
        """All workers tell the same, once each has written what happened and looked; then it is another one's turn."""
        self.do(self.settle_down())
        for number in self.workers:
            self.turn(number)
            super().the_report_says_what_happened()
        self.turn(self.rng.choice(list(self.workers)))

    async def settle_down(self) -> None:
        """Let each worker do what it does from time to time."""
        for _ in range(2):
            for worker in self.workers.values():
                assert worker.peers is not None
                for experiment in worker.experiments.values():
                    experiment.expire(worker.now)
                await worker.write_events()
                for experiment in worker.experiments.values():
                    experiment.asked_at = elapsed()
                await worker.peers.poll()

    def knows_what_is_out(self, name: str, experiment: ModelExperiment) -> None:
        """One worker does not know that of tickets that others have handed out."""

    @rule()
    def forget(self) -> None:
        """What is no longer needed is removed; by days, of which some may be empty by now."""
        super().forget()
        known = {worker for (worker,) in self.disk("SELECT id FROM workers")}
        self.model.settle(known)
        forgotten = self.service._store.forgotten
        assert self.model.forgotten <= forgotten <= self.model.now
        self.model.forgotten = forgotten
        self.do(self.settle_down())

    @rule()
    def restart(self) -> None:
        """A worker ends, and another starts; it makes no new key."""
        self.do(self.settle_down())
        self.model.expire()
        self.end(self.rng.choice(list(self.workers)))
        self.start_a_worker()
        assert not any(worker.keys.new for worker in list(self.workers.values())[-1:])
        self.do(self.settle_down())
        self.turn(self.rng.choice(list(self.workers)))

    def disk(self, sql: str, values: tuple[object, ...] = ()) -> list[tuple[int, ...]]:
        """Read what is in the database, as somebody else would."""
        return self.disk_connection.execute(sql.replace("?", "%s"), values).fetchall()


async def _look(worker: Service) -> None:
    assert worker.peers is not None
    while True:
        await worker.peers.poll()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("workers", [1, 2])
def test_whatever_happens_workers_and_the_model_agree(workers: int, postgres: Postgres) -> None:
    """Each response counts once, whichever worker it comes to, or is refused for the right reason."""
    few = settings(SETTINGS, max_examples=25 if LONG else 4, stateful_step_count=50 if LONG else 16)
    machine: Any = type("Workers", (SharedLife,), {"postgres": postgres, "count": workers})
    run_state_machine_as_test(machine, settings=few)
