"""Workers on one PostgreSQL, over HTTP: whatever is killed, stopped or cut, each acknowledged response counts once."""

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.server.books import ENVIRONMENT, Books, Crowd, audited, create
from tests.server.cutting import MOMENTS, Proxy, cutting
from tests.server.postgres_server import Postgres

from ldpbandits.server.service import Service
from ldpbandits.server.store.postgres import store as postgres_module
from ldpbandits.server.store.postgres.store import PostgresStore
from ldpbandits.spec.messages import ArmReport

FAULTS = "LDPBANDITS_FAULTS" in os.environ
"""Set by `make faults`: many more of them."""

ENOUGH = 60
CLOCKS = (-60, 0, 60)
"""How far the clocks of workers are ahead, in seconds."""

KILLABLE = Path(__file__).with_name("killable.py")


@dataclass
class Site:
    """Workers in processes of their own, which share one listening socket and one database."""

    postgres: Postgres
    proxy: Proxy
    url: str
    """Of the database; workers go through the proxy."""
    listener: socket.socket
    folder: Path
    fault: str | None = None
    workers: dict[int, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    rng: random.Random = field(default_factory=lambda: random.Random(1))

    def start(self, number: int, *options: str) -> None:
        """Start a worker, whose clock is one of those."""
        self.ready(number).unlink(missing_ok=True)
        command = [sys.executable, str(KILLABLE), self.proxy.url(self.url), str(self.listener.fileno())]
        command += ["--clock", str(CLOCKS[number % len(CLOCKS)]), *options]
        command += ["--ready", str(self.ready(number))]
        if self.fault is not None:
            command += ["--fault", self.fault]
        root = str(Path(__file__).parents[2])
        environment = os.environ | ENVIRONMENT
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [environment.get("PYTHONPATH"), root]))
        self.workers[number] = subprocess.Popen(command, pass_fds=[self.listener.fileno()], env=environment)

    def wait(self) -> None:
        """Wait until all workers that were started answer requests."""
        give_up = time.monotonic() + 60
        while not all(self.ready(number).exists() for number in self.workers):
            assert time.monotonic() < give_up
            for number, worker in self.workers.items():
                if worker.poll() is not None:  # it could not reach the database
                    self.start(number)
            time.sleep(0.05)

    def ready(self, number: int) -> Path:
        """Return the file that a worker makes when it answers requests."""
        return self.folder / str(number)

    def stop(self) -> None:
        """Tell all to stop, and wait."""
        self.wait()
        for worker in self.workers.values():
            worker.terminate()
        assert [worker.wait(timeout=60) for worker in self.workers.values()] == [0] * len(self.workers)

    def rows(self, sql: str) -> list[Any]:
        """Ask the database."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(sql).fetchall()

    # What may happen

    def kill_a_worker(self) -> None:
        """Kill a worker, without mercy, and start it again."""
        number = self.rng.choice(sorted(self.workers))
        self.workers[number].kill()
        self.workers[number].wait()
        self.start(number)

    def stop_the_database(self) -> None:
        """Let the database crash, and start it again."""
        self.postgres.stop("immediate")
        time.sleep(self.rng.uniform(0, 0.3))
        self.postgres.start()

    def end_connections(self) -> None:
        """End the sessions of all workers, or of some, in the database."""
        sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ldpbandits'"
        self.rows(f"{sql} AND pid % 3 <> {self.rng.randrange(4)}")

    def lose_an_answer(self) -> None:
        """Cut a connection after the next statement that counts or commits was forwarded."""
        having = self.rng.choice([b'"\\\\x', b"COMMIT", b"UPDATE workers"])  # nonces, a change, a sign of life
        cut = self.proxy.cut(self.rng.choice(MOMENTS), having)
        cut.done.wait(2)
        self.proxy.forget(cut)


@contextmanager
def site(postgres: Postgres, folder: Path, fault: str | None = None, *, url: str | None = None) -> Iterator[Site]:
    """Make an empty database, or take this one, with the experiments in it; leave no process behind."""
    with cutting(postgres) as proxy, socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        made = Site(postgres, proxy, url or postgres.new(), listener, folder, fault)
        try:
            made.start(1)
            create(listener.getsockname())
            yield made
        finally:
            for worker in made.workers.values():
                worker.kill()
                worker.wait()


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    books: Books
    arms: Sequence[ArmReport]
    """Of the experiment in which devices ask, when all tickets have expired and all workers are gone."""
    decided: Counter[int]
    acknowledged: int


def live_through(made: Site, happenings: Sequence[Callable[[], None]], workers: int = 3) -> Outcome:
    """Let a crowd send to so many workers while this happens; return the books after all have stopped."""
    for number in {*range(workers)} - {*made.workers}:
        made.start(number)
    ((identity,),) = made.rows("SELECT identity FROM identity")
    crowd = Crowd(made.listener.getsockname(), bytes(identity), asks=True)
    made.wait()
    with crowd.working():
        crowd.wait_for(10)
        begun = len(crowd.acknowledged)
        for happens in happenings:
            happens()
            time.sleep(made.rng.uniform(0, 0.4))
        crowd.wait_for(begun + ENOUGH)
    made.stop()
    assert len(crowd.acknowledged) >= ENOUGH
    return Outcome(audited(crowd, made.rows), later(made.url), crowd.decided, len(crowd.acknowledged))


def later(url: str) -> Sequence[ArmReport]:
    """Return what a worker says of the first experiment when all tickets have expired."""
    patch = pytest.MonkeyPatch()
    patch.setattr(postgres_module, "HEARTBEAT_TIMEOUT_S", 0.0)
    with closing(PostgresStore(url)) as store:
        service = Service(store, ENVIRONMENT, now=lambda: time.time() + 1e6)

        async def look() -> Sequence[ArmReport]:
            await service.forget()
            await service.refresh("bits")
            return (await service.report("bits")).arms

        try:
            return asyncio.run(look())
        finally:
            service.close()
            patch.undo()


def check(outcome: Outcome, *, is_exact: bool) -> None:
    """Acknowledged = nonces = responses = pulls; decisions are answered, missing or unaccepted, and none is pending."""
    assert outcome.books.agree, outcome.books
    for arm in outcome.arms:
        assert (arm.decisions, arm.pending) == (arm.pulls + arm.missing + arm.unaccepted, 0), outcome.arms
    if is_exact:  # a worker that is killed takes its last half second with it
        assert Counter({arm.arm: arm.decisions for arm in outcome.arms}) == outcome.decided


def test_whatever_happens_to_the_database_nothing_is_lost_or_doubled(postgres: Postgres, tmp_path: Path) -> None:
    """It crashes, ends sessions, and answers are lost, while clocks are a minute apart: all books agree to the bit."""
    with site(postgres, tmp_path) as made:
        kinds = [made.lose_an_answer, made.end_connections]
        happenings = [made.rng.choice(kinds) for _ in range(120 if FAULTS else 8)]
        for place in range(0, len(happenings), 10):
            happenings.insert(place, made.stop_the_database)
        outcome = live_through(made, happenings)
    check(outcome, is_exact=True)


def test_whatever_happens_to_workers_and_database_nothing_is_lost_or_doubled(
    postgres: Postgres, tmp_path: Path
) -> None:
    """The same, and workers are killed, too."""
    with site(postgres, tmp_path) as made:
        kinds = [made.kill_a_worker, made.kill_a_worker, made.lose_an_answer, made.end_connections]
        happenings = [made.rng.choice(kinds) for _ in range(150 if FAULTS else 6)]
        for place in range(3, len(happenings), 15):
            happenings.insert(place, made.stop_the_database)
        outcome = live_through(made, happenings)
    check(outcome, is_exact=False)


@pytest.mark.parametrize("point", ["before commit", "after commit"] if FAULTS else ["before commit"])
def test_workers_killed_at_a_point_lose_and_double_nothing(postgres: Postgres, tmp_path: Path, point: str) -> None:
    """Killed again and again at this point, beside another that is not, they agree with the crowd to the bit."""
    with site(postgres, tmp_path) as made:
        outcome = live_through(made, [lambda: die_at(made, point)] * (25 if FAULTS else 1), workers=2)
    check(outcome, is_exact=False)


def die_at(made: Site, point: str) -> None:
    """Put a worker in place of another that dies at a point by itself, and wait for that."""
    made.workers[0].kill()
    made.workers[0].wait()
    made.start(0, "--die-at", point, "--hit", str(made.rng.randrange(1, 15)))
    assert made.workers[0].wait(timeout=60) == -signal.SIGKILL
    made.start(0)


@pytest.mark.parametrize(
    ("fault", "point"), [("acknowledges early", "before commit"), ("tally outside", "between nonce and tally")]
)
def test_a_planted_fault_is_found(postgres: Postgres, tmp_path: Path, fault: str, point: str) -> None:
    """The same finds workers that acknowledge before they have committed, or tally in another transaction."""
    for _ in range(3):  # a machine that is busy may let the only chance pass
        with site(postgres, tmp_path, fault) as made:
            outcome = live_through(made, [lambda: die_at(made, point)], workers=2)
        if not outcome.books.agree:
            break
    assert not outcome.books.agree
    assert outcome.books.has_lost
