"""Parts of the server by themselves: what a test over HTTP would meet too rarely."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette

from ldpbandits.errors import DatabaseError
from ldpbandits.server import service as service_module
from ldpbandits.server.api import app as app_module
from ldpbandits.server.api.app import application
from ldpbandits.server.api.messages import NewExperiment
from ldpbandits.server.api.operation import Text
from ldpbandits.server.api.operations import OPERATIONS
from ldpbandits.server.experiments.tickets import Ticket, new_nonce
from ldpbandits.server.keys import Keys, Role
from ldpbandits.server.service import Service
from ldpbandits.server.store import Answer, Outcome, Store, Unavailable
from ldpbandits.server.store.sqlite.store import SqliteStore
from ldpbandits.types import Arm

NEW = NewExperiment("headline", ["blue", "green"], {"mechanism": "bernoulli", "epsilon": 1.0}, ticket_lifetime=100)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A new database."""
    made = SqliteStore(tmp_path / "agent.db")
    yield made
    made.close()


def test_experiments_that_nobody_asks_for_let_go_of_their_tickets(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keeper expires tickets too: an experiment that is paused for good holds none."""
    clock = [1_000.0]
    service = Service(store, now=lambda: clock[0])
    monkeypatch.setattr(service_module, "NONCES_PER_DELETION", 1)

    async def life() -> None:
        await service.commands.create(NEW)
        for _ in range(10):
            service.decide("headline")
        assert service.experiments["headline"].open.total == 10
        clock[0] += 100
        await service.forget()
        assert service.experiments["headline"].open.total == 0

    asyncio.run(life())
    service.committer.close()


def test_a_clock_set_right_after_years_ahead_does_not_stand_still(store: Store) -> None:
    """Removing nonces while the clock is wrong binds us to their expiries only, not to the wrong time."""
    clock = [1_000.0]
    service = Service(store, now=lambda: clock[0])

    async def life() -> None:
        await service.commands.create(NEW)
        ticket = Ticket(1, Arm(0), 1_100, new_nonce())
        assert await service.committer.count(Answer(ticket, 1)) is Outcome.COUNTED
        clock[0] = 4e9
        await service.forget()
        clock[0] = 1_001
        assert service.now == 3_600  # the first full hour at or after the expiry
        assert await service.committer.count(Answer(ticket, 1)) is Outcome.EXPIRED
        clock[0] = 3_700
        assert service.now == 3_700

    asyncio.run(life())
    service.committer.close()


def test_a_key_of_the_environment_holds_at_every_moment(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """While keys are read anew in another thread, the event loop never sees them half read."""
    keys = Keys(store, {Role.ADMIN.variable: "admin-key-of-the-tests"})
    seen = []

    def set_and_look(self: Keys, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        seen.append(self.role(b"admin-key-of-the-tests", 0))

    monkeypatch.setattr(Keys, "__setattr__", set_and_look)
    keys.prune(10)
    keys.rotate(Role.CLIENT, 10, 0)
    assert set(seen) == {Role.ADMIN}


def test_an_emergency_rotation_ends_all_keys_before(store: Store) -> None:
    """After a rotation without grace only the newest key holds, also where one before had been given a long grace."""
    keys = Keys(store, {})
    first = keys.new[Role.CLIENT]
    second = keys.rotate(Role.CLIENT, 10, 1_000)
    assert keys.role(first.encode(), 11) is keys.role(second.encode(), 11) is Role.CLIENT
    third = keys.rotate(Role.CLIENT, 12, 0)
    assert [keys.role(key.encode(), 11) for key in (first, second, third)] == [None, None, Role.CLIENT]


def test_metrics_are_sent_in_one_piece(store: Store) -> None:
    """A page of metrics is one piece of the reply, not one for each character."""
    service = Service(store)
    operation = next(operation for operation in OPERATIONS if operation.path == "/metrics")
    made = asyncio.run(operation.handler(service, {}, None))
    assert isinstance(made, Text)
    assert len(list(made.pieces)) == 1
    service.committer.close()


def test_a_database_has_one_lock_by_whatever_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second server is refused also through a link; and ':memory:' is a file like any other, on disk."""
    monkeypatch.chdir(tmp_path)
    first = SqliteStore(Path("agent.db"))
    Path("link.db").symlink_to("agent.db")
    with pytest.raises(DatabaseError, match="in use"):
        SqliteStore(Path("link.db"))
    first.close()
    SqliteStore(Path(":memory:")).close()
    assert Path(":memory:").stat().st_size > 0


def test_a_background_task_outlives_a_fault(
    monkeypatch: pytest.MonkeyPatch, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """A background task that fails is named in the log and tried again, and the service is closed in the end."""
    service, tries = Service(store), []

    async def fails() -> None:
        tries.append(1)
        raise RuntimeError("once more")

    monkeypatch.setattr(service, "forget", fails)
    monkeypatch.setattr(app_module, "FORGET_INTERVAL_S", 0.001)

    async def play() -> None:
        app = application(service)
        assert isinstance(app, Starlette)
        async with app.router.lifespan_context(app):
            await asyncio.sleep(0.1)

    asyncio.run(play())
    assert len(tries) > 1
    assert "background task forget failed; next try in 0.001 s" in caplog.text
    with pytest.raises(Unavailable, match="closed"):
        store.check()
