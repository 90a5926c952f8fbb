"""Computes reports, histories and checks for stopping beside the event loop.

An interval takes a millisecond of Python. A thread computes those of a few arms, a separate process those of many:
threads share one interpreter lock, and decisions would wait for it. The process starts when it is first needed. It
receives snapshots of experiments and returns reports; it has no keys and no database. It ends with the server, however
that ends, because it reads the end of its input.
"""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import msgspec

from ldpbandits.server.api.messages import Best, History, Report, Tallies
from ldpbandits.server.experiments.history import Moment
from ldpbandits.server.experiments.live import LiveExperiment
from ldpbandits.server.reports import jobs, report
from ldpbandits.server.reports.jobs import BestJob, HistoryJob, Job, ReportJob, TalliesJob
from ldpbandits.server.reports.snapshot import Snapshot
from ldpbandits.server.single_flight import retrieve_error

MOST_THREAD_ARMS = 32
"""Arms whose intervals a thread computes, in a few hundredths of a second."""

_REPORT, _HISTORY, _TALLIES, _BEST = map(msgspec.msgpack.Decoder, (Report, History, Tallies, Best | None))
_log = logging.getLogger(__name__)


class ReportWorker:
    """Runs jobs on experiments, one at a time."""

    def __init__(self) -> None:
        """Set up without starting the process."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="beside")
        self._turn = asyncio.Lock()
        self._waiting: dict[tuple[str, int], asyncio.Task[bytes]] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    async def report(
        self, experiment: LiveExperiment, before: Callable[[], Moment], forged: Callable[[], int]
    ) -> Report:
        """Return the report of an experiment; `before` is its moment at half of the responses."""
        if _is_small(experiment):
            return await asyncio.to_thread(report.make_report, experiment.copy(), before(), forged())
        done = await self._share("report", experiment, lambda of: ReportJob(of, before(), forged()))
        return _REPORT.decode(done)  # type: ignore[no-any-return]

    async def history(self, experiment: LiveExperiment, moments: Callable[[], list[Moment]]) -> History:
        """Return the estimates at each of these moments."""
        if _is_small(experiment):
            return await asyncio.to_thread(report.make_history, experiment.copy(), moments())
        done = await self._share("history", experiment, lambda of: HistoryJob(of, moments()))
        return _HISTORY.decode(done)  # type: ignore[no-any-return]

    async def tallies(self, experiment: LiveExperiment) -> Tallies:
        """Return the totals that the agent learns from; for a few arms that is immediate."""
        if _is_small(experiment):
            return report.make_tallies(experiment)
        return _TALLIES.decode(await self._share("tallies", experiment, TalliesJob))  # type: ignore[no-any-return]

    async def best(self, experiment: LiveExperiment) -> Best | None:
        """Return the arm of largest mean so far, and whether it is separated."""
        if _is_small(experiment):
            return await asyncio.to_thread(jobs.best, experiment.copy())
        return _BEST.decode(await self._share("best", experiment, BestJob))  # type: ignore[no-any-return]

    def close(self) -> None:
        """Kill the process, with its running job."""
        self._closed = True
        if self._process is not None:
            self._process.kill()
        self._thread.shutdown()
        self._end()

    async def _share(self, kind: str, experiment: LiveExperiment, job: Callable[[Snapshot], Job]) -> bytes:
        """Share one job among all callers before its start: of each kind one runs, and at most one waits."""
        key = (kind, experiment.number)
        task = self._waiting.get(key)
        if task is None:
            task = self._waiting[key] = asyncio.create_task(self._do(key, experiment, job))
            task.add_done_callback(retrieve_error)
        return await asyncio.shield(task)

    async def _do(self, key: tuple[str, int], experiment: LiveExperiment, job: Callable[[Snapshot], Job]) -> bytes:
        async with self._turn:
            del self._waiting[key]  # later callers need a newer snapshot
            asked = msgspec.msgpack.encode(job(Snapshot.of(experiment)))
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._ask, asked)

    def _ask(self, asked: bytes) -> bytes:
        """Run a job in the process, or here if the process fails."""
        try:
            process = self._start()
            assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - they are pipes
            jobs.write(process.stdin, asked)
            reply = jobs.read(process.stdout)
        except (OSError, EOFError) as error:
            self._end()
            told = f"{type(error).__name__}: {error}"
        else:
            if reply.startswith(jobs.DONE):
                return reply[1:]
            told = reply[1:].decode()
        if not self._closed:
            _log.warning("the process for reports has failed, so the server does its work: %s", told)
        return jobs.do(asked)

    def _start(self) -> "subprocess.Popen[bytes]":
        if self._closed:
            raise EOFError("the server stops")
        if self._process is None:
            # The process must not see keys or secrets.
            environment = {name: value for name, value in os.environ.items() if not name.startswith("LDPBANDITS_")}
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(jobs.COMMAND, stdin=pipe, stdout=pipe, env=environment)  # noqa: S603 - ours
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    assert pipe is not None  # noqa: S101 - as above
                    pipe.close()
            process.wait()


def _is_small(experiment: LiveExperiment) -> bool:
    """Tell whether a thread is enough; a thread also has the parts registered in this process."""
    parts = (experiment.menu.first, experiment.menu.transform, experiment.rule)
    return len(experiment.records) <= MOST_THREAD_ARMS or not all(
        type(part).__module__.startswith("ldpbandits.") for part in parts
    )
