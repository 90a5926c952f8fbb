"""A synchronous standby: what was acknowledged is there when it takes over. These run in `make faults`."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.server.postgres_server import SETTINGS, Postgres, running_postgres
from tests.server.store_contract import COUNTED, answer, arm_totals, defined, start
from tests.server.test_postgres_faults import check, live_through, site

from ldpbandits.server.store.postgres import retry
from ldpbandits.server.store.postgres.counting import COUNT
from ldpbandits.server.store.postgres.store import PostgresStore

pytestmark = pytest.mark.skipif("LDPBANDITS_FAULTS" not in os.environ, reason="for `make faults`: it takes a while")

WAITING = "SELECT {} FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'ldpbandits'"


class Standby(Postgres):
    """A copy of another cluster, which follows it."""

    def __init__(self, primary: Postgres, folder: Path) -> None:
        """Make the copy; it does not run yet."""
        self.folder, self.data = folder, folder / "data"
        self._user, self._binaries, self._numbers = primary._user, primary._binaries, primary._numbers
        if self._user is not None:
            shutil.chown(folder, self._user)
        self.run("pg_basebackup", "-D", self.data, "-h", primary.folder, "-U", "ldp", "-R", "-c", "fast", "--no-sync")
        self.configure(**SETTINGS, unix_socket_directories=f"'{folder}'")


class Pair:
    """A primary and its synchronous standby."""

    def __init__(self, primary: Postgres, standby: Standby) -> None:
        """From now on, a commit is done when both have it."""
        self.primary, self.standby = primary, standby
        self.ask("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.ask("SELECT pg_reload_conf()")
        self.wait_for("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'")

    def ask(self, sql: str) -> list[Any]:
        """Ask the primary."""
        with psycopg.connect(self.primary.url("postgres"), autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def wait_for(self, sql: str) -> None:
        """Wait until a query returns rows."""
        give_up = time.monotonic() + 30
        while not self.ask(sql):
            assert time.monotonic() < give_up
            time.sleep(0.02)

    def url(self, database: str) -> str:
        """Return an address with both, of which the one counts that can be written to."""
        hosts = f"{self.primary.folder},{self.standby.folder}"
        return f"postgresql://ldp@/{database}?host={hosts}&target_session_attrs=read-write"

    def new(self) -> str:
        """Make an empty database; return its address."""
        name = f"pair{next(self.primary._numbers)}"
        self.ask(f"CREATE DATABASE {name}")
        return self.url(name)


@contextmanager
def pair() -> Iterator[Pair]:
    """Run both for as long as the block lasts."""
    with running_postgres() as primary, tempfile.TemporaryDirectory(prefix="ldpbandits-standby-") as folder:
        standby = Standby(primary, Path(folder))
        standby.start()
        try:
            yield Pair(primary, standby)
        finally:
            with suppress(AssertionError):
                standby.stop()
            with suppress(AssertionError):
                primary.start()  # what started it stops it


@pytest.fixture(scope="module")
def both() -> Iterator[Pair]:
    """A pair for tests that leave it whole."""
    with pair() as made:
        yield made


def interrupt(both: Pair, how: str) -> None:
    """Wait until a worker's commit waits for the standby, and interrupt that wait."""
    both.wait_for(WAITING.format("pid"))
    both.ask(WAITING.format(f"{how}(pid)"))


def is_done_early(both: Pair, how: str, waiting: "Future[Any]") -> bool:
    """Interrupt the wait twice while the standby is away; tell whether that was taken for its answer."""
    for _ in range(2):
        with suppress(AssertionError):
            interrupt(both, how)
        time.sleep(0.5)
        if waiting.done():
            return True
    return False


INTERRUPTIONS = ("pg_cancel_backend", "pg_terminate_backend")


@pytest.mark.parametrize("how", INTERRUPTIONS)
def test_a_response_is_acknowledged_when_the_standby_has_it(both: Pair, how: str) -> None:
    """A commit whose wait is cancelled is here and perhaps nowhere else; sent again, it waits again."""
    with closing(PostgresStore(both.new())) as store, ThreadPoolExecutor(1) as thread:
        number = start(store)
        assert store.count([answer(1, 1, experiment=number)])[0] == [COUNTED]
        both.standby.stop()
        try:
            waiting = thread.submit(store.count, [answer(2, 1, experiment=number)])
            assert not is_done_early(both, how, waiting)
        finally:
            both.standby.start()
        assert waiting.result(30)[0] == [COUNTED]
        assert arm_totals(store, number) == [(2, 2), (0, 0)]


@pytest.mark.parametrize("how", INTERRUPTIONS)
def test_a_change_is_made_when_the_standby_has_it(both: Pair, how: str) -> None:
    """The same with what an experimenter changes."""
    with closing(PostgresStore(both.new())) as store, ThreadPoolExecutor(1) as thread:
        both.standby.stop()
        try:
            waiting = thread.submit(store.create, defined(), ["a"])
            assert not is_done_early(both, how, waiting)
        finally:
            both.standby.start()
        assert store.experiments() == [waiting.result(30)]
        assert store.basis == 1


def test_a_store_that_only_reads_what_it_finds_is_found(both: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """FAULT: without FOR UPDATE a repeated statement writes nothing, and so waits for nobody."""
    monkeypatch.setattr(retry, "COUNT", COUNT.replace(" FOR UPDATE", ""))
    with closing(PostgresStore(both.new())) as store, ThreadPoolExecutor(1) as thread:
        number = start(store)
        store.count([answer(1, 1, experiment=number)])
        both.standby.stop()
        try:
            waiting = thread.submit(store.count, [answer(2, 1, experiment=number)])
            assert is_done_early(both, "pg_terminate_backend", waiting)
        finally:
            both.standby.start()


def test_nothing_is_lost_when_the_standby_takes_over(tmp_path: Path) -> None:
    """The primary is killed while workers count, the standby promoted: they follow, and all books agree."""
    for turn in range(3):
        folder = tmp_path / str(turn)
        folder.mkdir()
        with pair() as both, site(both.primary, folder, url=both.new()) as made:

            def take_over(both: Pair = both) -> None:
                both.primary.stop()
                both.standby.promote()

            def follow(made: Any = made, both: Pair = both) -> None:
                made.url = made.url.replace(f"{both.primary.folder},", "")

            made.rng.seed(turn)
            outcome = live_through(made, [made.end_connections, take_over, follow, made.end_connections])
        check(outcome, is_exact=False)
