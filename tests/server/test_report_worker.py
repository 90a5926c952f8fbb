"""A process pool computes the reports of many arms: its results are those of a thread, and it ends with the server."""

import asyncio
import os
import pickle
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.server.local import KEYS
from tests.server.running import running
from tests.server.threaded import until

from ldpbandits.server.api.messages import NewExperiment, ResponseMessage
from ldpbandits.server.experiments.settings import Settings
from ldpbandits.server.reports import report, worker
from ldpbandits.server.service import Service
from ldpbandits.server.store.sqlite.store import SqliteStore

ARMS = 6
"""Of many, here: intervals take their time."""

NEW = NewExperiment(
    "many", [f"arm {number}" for number in range(ARMS)], {"mechanism": "bernoulli", "epsilon": 1}, warm_up=2
)


@pytest.fixture(autouse=True)
def fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let four arms be few."""
    monkeypatch.setattr(worker, "MOST_THREAD_ARMS", 4)


def process_of(service: Service) -> int:
    """Return the number of the pool's process."""
    pool = service.report_worker._pool
    assert pool is not None
    (pid,) = pool._processes
    return pid


def serving(folder: Path, work: Callable[[Service], Awaitable[None]]) -> None:
    """Play an experiment of many arms for a while, and do this."""

    async def run() -> None:
        service = Service(SqliteStore(folder / "agent.db"), KEYS)
        try:
            await service.commands.create(NEW)
            for turn in range(4 * ARMS):
                ticket = service.decide("many").ticket or ""
                if turn % 3:
                    await service.respond(ResponseMessage(ticket, float(turn % 2)))
            await work(service)
        finally:
            service.close()

    asyncio.run(run())


def test_the_pool_returns_what_a_thread_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Report, history and the best arm are the same, to the last digit, in the pool and in a thread."""

    async def work(service: Service) -> None:
        await service.commands.retire_arm("many", 3)
        experiment = service.experiments["many"]

        async def results() -> list[object]:
            best = await service.report_worker.verdict(experiment)
            return [await service.report("many"), await service.history("many"), best]

        there = await results()
        assert process_of(service)
        monkeypatch.setattr(worker, "MOST_THREAD_ARMS", ARMS)
        experiment.trail.estimates.clear()
        assert there == await results()
        copied = pickle.loads(pickle.dumps(experiment.copy()))  # noqa: S301 - ours
        assert report.make_tallies(copied) == report.make_tallies(experiment)
        assert report.summarise(copied) == report.summarise(experiment)

    serving(tmp_path, work)


def test_a_killed_process_is_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """When the process is killed, a thread computes the report that it was to compute, a new process the next one."""

    async def work(service: Service) -> None:
        before = await service.report("many")
        first = process_of(service)
        os.kill(first, signal.SIGKILL)
        assert await service.report("many") == before
        assert "the report process failed" in caplog.text
        assert await service.report("many") == before
        assert process_of(service) != first

    serving(tmp_path, work)


def test_the_process_ends_with_the_service(tmp_path: Path) -> None:
    """No process is left behind when the service is closed."""
    pids = []

    async def work(service: Service) -> None:
        await service.report("many")
        pids.append(process_of(service))

    serving(tmp_path, work)
    assert not Path(f"/proc/{pids[0]}").exists()


def test_the_process_ends_in_the_middle_of_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that is closed during a report ends the process at once, and does not wait for the report."""
    pids = []

    async def work(service: Service) -> None:
        monkeypatch.setattr(service.experiments["many"], "copy", lambda: 600)
        run = service.report_worker._run
        task = asyncio.create_task(run(time.sleep, service.experiments["many"], lambda seconds: (seconds,)))
        while service.report_worker._pool is None or not service.report_worker._pool._processes:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        pids.append(process_of(service))
        task.cancel()

    serving(tmp_path, work)
    assert not Path(f"/proc/{pids[0]}").exists()


def test_parts_of_others_stay_in_the_process_that_knows_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule or a mechanism that somebody has registered is unknown elsewhere: its reports are made in a thread."""

    async def work(service: Service) -> None:
        service.report_worker.close()  # creating was a report too
        service.report_worker = worker.ReportWorker()
        monkeypatch.setattr(type(service.experiments["many"].rule), "__module__", "their.rules")
        await service.report("many")
        assert service.report_worker._pool is None

    serving(tmp_path, work)


def test_concurrent_callers_share_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many callers there are, one report runs and one waits, which includes every earlier decision."""
    runs: list[object] = []

    async def work(service: Service) -> None:
        run, begun = service.report_worker._run_in_pool, asyncio.Event()

        async def counted(*job: Any) -> Any:
            runs.append(job)
            begun.set()
            return await run(*job)

        monkeypatch.setattr(service.report_worker, "_run_in_pool", counted)
        tasks = [asyncio.create_task(service.report("many"))]
        await begun.wait()
        service.decide("many")
        tasks += [asyncio.create_task(service.report("many")) for _ in range(20)]
        first, *others = [sum(arm.decisions for arm in report.arms) for report in await asyncio.gather(*tasks)]
        assert len(runs) == 2
        assert others == [first + 1] * 20

    serving(tmp_path, work)


def children(pid: int) -> list[int]:
    """Return the processes that this one has started."""
    listed = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for one in listed for child in one.read_text().split()]


def test_it_has_no_secrets_and_does_not_outlive_a_killed_server(tmp_path: Path) -> None:
    """The process has none of the server's variables, ignores Ctrl-C, and ends when the server is killed."""
    keys = {role: f"{role}-of-the-environment" for role in ("admin", "viewer", "client")}
    environment = {f"LDPBANDITS_{role.upper()}_KEY": key for role, key in keys.items()}
    with running(tmp_path, environment=environment, keys=keys) as server:
        body = {
            "name": "many",
            "arms": [f"arm {number}" for number in range(40)],
            "curator": {"mechanism": "bernoulli", "epsilon": 1},
        }
        assert server.ask("POST", "/v1/experiments", body).status == 201
        started = children(server.process.pid)
        assert len(started) == 2  # the pool's process, and the resource tracker of multiprocessing
        for child in started:
            assert b"LDPBANDITS_" not in Path(f"/proc/{child}/environ").read_bytes()
            os.kill(child, signal.SIGINT)
            os.kill(child, signal.SIGTERM)
        assert server.ask("GET", "/v1/experiments/many").status == 200
        assert children(server.process.pid) == started
        server.process.kill()
        until(lambda: not any(map(_runs, started)))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    except FileNotFoundError:
        return False


def test_a_job_that_fails_in_the_pool_runs_in_a_thread(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A job that cannot be pickled, or that a process cannot be started for, runs in the server."""

    async def work(service: Service) -> None:
        service.experiments["many"].settings = Unpicklable(service.experiments["many"].settings)  # type: ignore[assignment]
        assert len((await service.report("many")).arms) == ARMS
        assert "the report process failed" in caplog.text

    serving(tmp_path, work)


class Unpicklable:
    """Settings that cannot be pickled."""

    def __init__(self, settings: Settings) -> None:
        """Wrap these settings."""
        self._settings = settings

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the settings."""
        return getattr(self.__dict__["_settings"], name)

    def __reduce__(self) -> str:
        """Refuse."""
        raise TypeError("these settings cannot be pickled")
