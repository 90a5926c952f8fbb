"""Reports of very many arms are worked out in a process of its own, which says the same and outlives nothing."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.server.local import KEYS
from tests.server.running import running
from tests.server.threaded import until

from ldpbandits.server.api.messages import NewExperiment, ResponseMessage
from ldpbandits.server.reports import jobs, worker
from ldpbandits.server.reports import report as report_module
from ldpbandits.server.reports.snapshot import Snapshot
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


def test_the_process_says_what_a_thread_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Report, history and the look at the best arm are the same, to the last digit, by whomever they are worked out."""

    async def work(service: Service) -> None:
        await service.commands.retire_arm("many", 3)
        experiment = service.experiments["many"]
        there = [
            await service.report("many"),
            await service.history("many"),
            await service.report_worker.best(experiment),
        ]
        assert service.report_worker._process is not None
        monkeypatch.setattr(worker, "MOST_THREAD_ARMS", ARMS)
        here = [
            await service.report("many"),
            await service.history("many"),
            await service.report_worker.best(experiment),
        ]
        assert there == here
        assert len(there[0].arms) == ARMS  # type: ignore[union-attr]
        revived = Snapshot.of(experiment).experiment()
        assert report_module.make_tallies(revived) == report_module.make_tallies(experiment)
        assert report_module.summarise(revived) == report_module.summarise(experiment)

    serving(tmp_path, work)


def test_a_process_that_dies_is_missed_by_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """When it is killed, the report that it was asked for is worked out here, and the next one by a new process."""

    async def work(service: Service) -> None:
        before = await service.report("many")
        first = service.report_worker._process
        assert first is not None
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        assert await service.report("many") == before
        assert "the process for reports has failed" in caplog.text
        assert await service.report("many") == before
        second = service.report_worker._process
        assert second is not None
        assert second.pid != first.pid

    serving(tmp_path, work)


def test_the_process_ends_with_the_service(tmp_path: Path) -> None:
    """No process is left behind when the service is closed, also in the middle of a report."""
    pids = []

    async def work(service: Service) -> None:
        await service.report("many")
        assert service.report_worker._process is not None
        pids.append(service.report_worker._process.pid)

    serving(tmp_path, work)
    assert not Path(f"/proc/{pids[0]}").exists()


def test_parts_of_others_stay_in_the_process_that_knows_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule or a mechanism that somebody has registered is unknown elsewhere: its reports are made in a thread."""

    async def work(service: Service) -> None:
        service.report_worker.close()  # creating was a report too
        service.report_worker = worker.ReportWorker()
        monkeypatch.setattr(type(service.experiments["many"].rule), "__module__", "their.rules")
        await service.report("many")
        assert service.report_worker._process is None

    serving(tmp_path, work)


def test_who_asks_at_once_shares_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ask at a time, one report is at work and one waits, which sees all that was there before."""
    done: list[bytes] = []

    async def work(service: Service) -> None:
        ask, loop, begun = service.report_worker._ask, asyncio.get_running_loop(), asyncio.Event()

        def asked(job: bytes) -> bytes:
            done.append(job)
            loop.call_soon_threadsafe(begun.set)
            return ask(job)

        monkeypatch.setattr(service.report_worker, "_ask", asked)
        tasks = [asyncio.create_task(service.report("many"))]
        await begun.wait()
        service.decide("many")
        tasks += [asyncio.create_task(service.report("many")) for _ in range(20)]
        first, *others = [sum(arm.decisions for arm in report.arms) for report in await asyncio.gather(*tasks)]
        assert len(done) == 2
        assert others == [first + 1] * 20

    serving(tmp_path, work)


def children(pid: int) -> list[int]:
    """Return the processes that this one has started."""
    listed = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for one in listed for child in one.read_text().split()]


def test_it_has_no_secrets_and_does_not_outlive_a_killed_server(tmp_path: Path) -> None:
    """The process knows none of the server's variables, ignores Ctrl-C, and ends when the server is killed."""
    keys = {role: f"{role}-of-the-environment" for role in ("admin", "viewer", "client")}
    environment = {f"LDPBANDITS_{role.upper()}_KEY": key for role, key in keys.items()}
    with running(tmp_path, environment=environment, keys=keys) as server:
        body = {
            "name": "many",
            "arms": [f"arm {number}" for number in range(40)],
            "curator": {"mechanism": "bernoulli", "epsilon": 1},
        }
        assert server.ask("POST", "/v1/experiments", body).status == 201
        (child,) = children(server.process.pid)
        assert b"LDPBANDITS_" not in Path(f"/proc/{child}/environ").read_bytes()
        os.kill(child, signal.SIGINT)
        os.kill(child, signal.SIGTERM)
        assert server.ask("GET", "/v1/experiments/many").status == 200
        assert children(server.process.pid) == [child]
        server.process.kill()
        until(lambda: not _runs(child))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    except FileNotFoundError:
        return False


def test_a_job_that_fails_there_is_done_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the process cannot do, the server tries itself."""
    monkeypatch.setattr(jobs, "COMMAND", ("no such program",))

    async def work(service: Service) -> None:
        assert len((await service.report("many")).arms) == ARMS

    serving(tmp_path, work)
