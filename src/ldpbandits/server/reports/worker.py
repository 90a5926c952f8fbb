"""Computes reports, histories and checks for stopping beside the event loop.

An interval takes a millisecond of Python. A thread computes those of a few arms, a process pool those of many: threads
share one interpreter lock, and decisions would wait for it. The pool has one process, which starts when it is first
needed. It gets copies of experiments, without keys, tickets or single responses, and it ends with the server.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any, TypeVar

from ldpbandits.server.experiments.history import Moment
from ldpbandits.server.experiments.live import LiveExperiment
from ldpbandits.server.process.title import set_title
from ldpbandits.server.reports import conclusions, report
from ldpbandits.server.reports.verdicts import Finding, find_verdict
from ldpbandits.server.single_flight import retrieve_error
from ldpbandits.spec.messages import History, Report

MOST_THREAD_ARMS = 32
"""Arms whose intervals a thread computes, in a few hundredths of a second."""

POOL_NICENESS = 5
"""The niceness of the pool's process relative to the server."""

SECRET_PREFIX = "LDPBANDITS_"  # noqa: S105 - the variables' names
"""Environment variables of this prefix, some of which are keys, are hidden from the pool's process."""

T = TypeVar("T")
Arguments = Callable[[LiveExperiment], tuple[Any, ...]]
_log = logging.getLogger(__name__)


class ReportWorker:
    """Runs functions on copies of experiments; those on many arms run one at a time."""

    def __init__(self) -> None:
        """Set up without starting the process."""
        self._turn = asyncio.Lock()
        self._waiting: dict[tuple[Callable[..., Any], int], asyncio.Task[Any]] = {}
        self._pool: ProcessPoolExecutor | None = None
        self._closed = False

    async def report(self, experiment: LiveExperiment, forged: Callable[[], int]) -> Report:
        """Return the report of an experiment."""
        return await self._run(report.make_report, experiment, lambda copy: (copy, forged()))

    async def history(self, experiment: LiveExperiment, moments: Callable[[], list[Moment]]) -> History:
        """Return the estimates at each of these moments, and cache them."""
        trail = experiment.trail
        history, trail.estimates, trail.evidence = await self._run(
            report.make_history, experiment, lambda copy: (copy, moments(), trail.estimates, trail.evidence)
        )
        return history

    async def verdict(self, experiment: LiveExperiment) -> Finding:
        """Return the verdict on an experiment."""
        return await self._run(_find_verdict, experiment, lambda copy: (copy,))

    def close(self) -> None:
        """Kill the process, with its running job."""
        self._closed = True
        self._drop_pool()

    async def _run(self, work: Callable[..., T], experiment: LiveExperiment, arguments: Arguments) -> T:
        """Run the work on a copy of the experiment, in a thread or in the pool.

        Callers share a run in the pool that has not begun: of each kind one runs, and at most one waits.
        """
        if _is_small(experiment):
            return await asyncio.to_thread(work, *arguments(experiment.copy()))
        key = (work, experiment.number)
        task = self._waiting.get(key)
        if task is None:
            task = self._waiting[key] = asyncio.create_task(self._run_in_turn(work, experiment, arguments))
            task.add_done_callback(retrieve_error)
        return await asyncio.shield(task)

    async def _run_in_turn(self, work: Callable[..., T], experiment: LiveExperiment, arguments: Arguments) -> T:
        async with self._turn:
            del self._waiting[work, experiment.number]  # later callers need a newer copy
            return await self._run_in_pool(work, *arguments(experiment.copy()))

    async def _run_in_pool(self, work: Callable[..., T], *arguments: object) -> T:
        """Run the work in the pool, or in a thread if that fails, as when the pool's process dies."""
        try:
            with _without_secrets():  # the first job starts the process
                future = self._start_pool().submit(work, *arguments)
            return await asyncio.wrap_future(future)
        except Exception as error:  # noqa: BLE001 - the thread raises it again, unless it was the pool's
            if isinstance(error, BrokenProcessPool):
                self._drop_pool()
            if not self._closed:
                _log.warning("the report process failed; a thread computes this report: %s", error)
        return await asyncio.to_thread(work, *arguments)

    def _start_pool(self) -> ProcessPoolExecutor:
        if self._closed:
            raise BrokenProcessPool("the server stops")
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, get_context("spawn"), _prepare_process)
        return self._pool

    def _drop_pool(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            for process in list((pool._processes or {}).values()):  # noqa: SLF001 - public as kill_workers in 3.14
                process.kill()
            pool.shutdown()


@contextmanager
def _without_secrets() -> Iterator[None]:
    """Remove our variables from the environment, which a process that starts meanwhile inherits."""
    hidden = {name: value for name, value in os.environ.items() if name.startswith(SECRET_PREFIX)}
    for name in hidden:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(hidden)


def _prepare_process() -> None:
    """Lower the priority, leave signals to the server, and end with it however it ends."""
    set_title("calc")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(POOL_NICENESS)
    Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)


def _find_verdict(experiment: LiveExperiment) -> Finding:
    return find_verdict(experiment, conclusions.facts(experiment), with_comparisons=False)


def _is_small(experiment: LiveExperiment) -> bool:
    """Tell whether a thread is enough; a thread also has the parts registered in this process."""
    parts = (experiment.menu.first, experiment.menu.transform, experiment.rule)
    return len(experiment.records) <= MOST_THREAD_ARMS or not all(
        type(part).__module__.startswith("ldpbandits.") for part in parts
    )
