"""Alive, ready, and what is said of it when the store cannot write: every 503 is counted, and some are logged."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Event
from typing import TypeAlias

import pytest
from tests.server.inprocess import Reply, ask
from tests.server.local import ADMIN, CLIENT, KEYS, NEW, E

from ldpbandits.cli import health
from ldpbandits.server import service as service_module
from ldpbandits.server.api.app import application
from ldpbandits.server.process.meters import Meters
from ldpbandits.server.service import Service
from ldpbandits.server.single_flight import SingleFlight
from ldpbandits.server.store import Unavailable
from ldpbandits.server.store.sqlite.store import SqliteStore


class Failing(SqliteStore):
    """A store whose disk is full while it is told so; it counts how often it is checked."""

    full = False
    checks = 0

    def __init__(self, path: Path) -> None:
        """Open the file."""
        super().__init__(path, failpoint=self._fail)

    def _fail(self, point: str) -> None:
        if self.full and point == "before commit":
            raise Unavailable("database or disk is full\nDETAIL: a row")

    def check(self) -> None:
        """Count this too."""
        self.checks += 1
        super().check()


Asking: TypeAlias = Callable[..., Awaitable[Reply]]


def with_a_server(folder: Path, work: Callable[[Failing, Asking], Awaitable[None]]) -> None:
    """Serve, and do some work that asks."""

    async def run() -> None:
        store = Failing(folder / "agent.db")
        service = Service(store, KEYS)
        app = application(service)

        async def asking(method: str, path: str, body: object = None, key: str | None = ADMIN) -> Reply:
            return await ask(app, method, path, body, key=key)

        try:
            await work(store, asking)
        finally:
            store.full = False
            service.close()

    asyncio.run(run())


def test_ready_is_a_write(tmp_path: Path) -> None:
    """Whoever is told that the server is ready may rely on a write: the log of the database has grown by it."""
    store = SqliteStore(tmp_path / "agent.db")
    log = tmp_path / "agent.db-wal"
    before = log.stat().st_size
    store.check()
    assert log.stat().st_size > before
    assert store.sizes().log == log.stat().st_size
    assert store.sizes().database == (tmp_path / "agent.db").stat().st_size
    assert (store.sizes().free or 0) > 0
    store.close()


def test_the_answer_comes_before_the_command_gives_up() -> None:
    """`ldpbandits health --ready` is told that the store cannot write, not left to think that no server answers."""
    assert service_module.READY_TIMEOUT_S + 0.5 < health.HEALTH_TIMEOUT_S


def test_alive_is_not_ready(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """When the disk is full, /healthz says ok and /readyz 503; every 503 is counted, and one in ten seconds logged."""

    async def work(store: Failing, asking: Asking) -> None:
        assert (await asking("POST", "/v1/experiments", NEW)).status == 201
        ticket = (await asking("POST", f"{E}/decisions", {}, CLIENT)).json["ticket"]
        response = {"ticket": ticket, "response": 1}
        assert (await asking("GET", "/readyz", key=None)).json == {"status": "ok"}
        await asyncio.sleep(service_module.READY_CACHE_S)
        store.full = True
        assert (await asking("GET", "/healthz", key=None)).json == {"status": "ok"}
        refused = [
            await asking("GET", "/readyz", key=None),
            await asking("POST", "/v1/responses", response, None),
            await asking("POST", f"{E}/pause", {}),
        ]
        assert [(reply.status, reply.json["code"], reply.headers["retry-after"]) for reply in refused] == [
            (503, "retry", "1")
        ] * 3
        batch = await asking("POST", "/v1/responses/batch", {"responses": [response, response]}, None)
        assert [result["code"] for result in batch.json] == ["retry", "retry"]
        counted = (await asking("GET", "/metrics")).body.decode()
        assert 'ldpbandits_unavailable_total{reason="store"} 5.0' in counted
        assert [record.message for record in caplog.records] == ["503, store: database or disk is full"]

    with_a_server(tmp_path, work)


def test_an_export_that_cannot_begin_is_503(tmp_path: Path) -> None:
    """It was 200 and broke off, which nobody counts and an old client takes for the end."""

    async def work(_: Failing, asking: Asking) -> None:
        assert (await asking("POST", "/v1/experiments", NEW)).status == 201
        assert (await asking("GET", f"{E}/responses.csv")).body.count(b"\n") == 1
        (tmp_path / "agent.db").unlink()
        assert (await asking("GET", f"{E}/responses.csv")).status == 503
        counted = (await asking("GET", "/metrics")).body.decode()
        assert 'ldpbandits_unavailable_total{reason="store"} 1.0' in counted

    with_a_server(tmp_path, work)


def test_asking_whether_it_is_ready_makes_no_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may ask: however many do at once, or within a second, the store writes once."""
    monkeypatch.setattr(service_module, "READY_CACHE_S", 60.0)  # a second, on a machine that is busy

    async def work(store: Failing, asking: Asking) -> None:
        replies = await asyncio.gather(*(asking("GET", "/readyz", key=None) for _ in range(50)))
        assert {reply.status for reply in replies} == {200}
        assert (await asking("GET", "/readyz", key=None)).status == 200
        assert store.checks == 1

    with_a_server(tmp_path, work)


def test_a_store_that_hangs_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When nothing is written for some seconds, the answer is 503 and not silence; and the server is alive."""
    monkeypatch.setattr(service_module, "READY_TIMEOUT_S", 0.05)
    go_on = Event()

    async def work(store: Failing, asking: Asking) -> None:
        monkeypatch.setattr(store, "check", lambda: go_on.wait(60))
        try:
            assert (await asking("GET", "/readyz", key=None)).status == 503
            assert (await asking("GET", "/healthz", key=None)).status == 200
        finally:
            go_on.set()

    with_a_server(tmp_path, work)


def test_the_log_has_a_line_in_ten_seconds_for_each_reason(caplog: pytest.LogCaptureFixture) -> None:
    """The first is said at once, then one in ten seconds, with how many were left out; all are counted."""
    now = 0.0
    meters = Meters(lambda: now)
    for tenth in range(250):
        now = tenth / 10
        meters.refuse("store", "full")
    meters.refuse("connections", "all\x1b[2J")
    assert [record.message for record in caplog.records] == [
        "503, store: full",
        "503, store: full (99 more since the last line on this)",
        "503, store: full (99 more since the last line on this)",
        "503, connections: all?[2J",
    ]
    assert (meters.unavailable["store"], meters.unavailable["connections"]) == (250, 1)


def test_shared_work_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks while it is under way, or shortly after, shares the result or the error; who leaves, disturbs nobody."""
    done: list[int] = []
    ahead = 0.0

    async def work() -> int:
        done.append(len(done))
        await asyncio.sleep(0.01)
        if done[-1] % 2:
            raise Unavailable
        return done[-1]

    async def run() -> None:
        nonlocal ahead
        loop = asyncio.get_running_loop()
        clock = loop.time
        monkeypatch.setattr(loop, "time", lambda: clock() + ahead)
        shared = SingleFlight(work, 3600)
        leaves = asyncio.create_task(shared())
        await asyncio.sleep(0)
        leaves.cancel()
        assert await asyncio.gather(*(shared() for _ in range(10))) == [0] * 10
        assert await shared() == 0
        ahead += 3600
        for _ in range(3):
            with pytest.raises(Unavailable):
                await shared()
        assert done == [0, 1]

    asyncio.run(run())


def test_what_is_said_of_readiness_is_json(tmp_path: Path) -> None:
    """HEAD is answered as GET, without the body."""

    async def work(_: Failing, asking: Asking) -> None:
        for path in ("/healthz", "/readyz"):
            reply = await asking("HEAD", path, key=None)
            assert (reply.status, reply.body, reply.headers["content-length"]) == (200, b"", "15")
            assert json.loads((await asking("GET", path, key=None)).body) == {"status": "ok"}

    with_a_server(tmp_path, work)
