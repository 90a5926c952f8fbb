"""Single flight: concurrent callers of the same work share one run."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")

REST_RATIO, LONGEST_REST_S = 4, 1.0
"""The share of time that paced work may take, however many callers there are; a rest lasts at most a second."""


class SingleFlight(Generic[T]):
    """Callers during a run, or within some seconds of its start, get the same result or error."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> None:
        """Run this work when it is requested."""
        self._work = work
        self._seconds = seconds
        self._task: asyncio.Task[T] | None = None
        self._until = 0.0

    async def __call__(self) -> T:
        """Return the result of the shared run."""
        now = asyncio.get_running_loop().time()
        if self._task is None or (self._task.done() and now >= self._until):
            self._until = now + self._seconds
            self._task = asyncio.create_task(self._work())
            self._task.add_done_callback(retrieve_error)
        return await asyncio.shield(self._task)  # other callers may wait for it too


class Paced(Generic[T]):
    """Single flight that also limits the share of the processor that the work takes.

    Callers during a run, or while it waits for its turn, get the same result. After a run it rests for `REST_RATIO`
    times the seconds that this run took, so that a client that asks all the time waits instead of delaying others.
    """

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        """Run this work when it is requested."""
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self._rested_at = 0.0

    async def __call__(self) -> T:
        """Return the result of the shared run."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
            self._task.add_done_callback(retrieve_error)
        return await asyncio.shield(self._task)  # other callers may wait for it too

    async def _run(self) -> T:
        time = asyncio.get_running_loop().time
        await asyncio.sleep(self._rested_at - time())
        start = time()
        try:
            return await self._work()
        finally:
            self._rested_at = time() + min(REST_RATIO * (time() - start), LONGEST_REST_S)


def retrieve_error(task: "asyncio.Task[Any]") -> None:
    """Retrieve the error of a task whose callers may have left: asyncio logs errors that were never retrieved."""
    if not task.cancelled():
        task.exception()
