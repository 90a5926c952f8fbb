"""Work that many ask for at once is done once."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")

REST_RATIO, LONGEST_REST_S = 4, 1.0
"""Work that is paced takes a fifth of the time, however many ask for it; nobody waits for a rest of over a second."""


class SingleFlight(Generic[T]):
    """Whoever asks while the work is under way, or within some seconds of its start, gets the same result or error."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> None:
        """Do this work when it is asked for."""
        self._work = work
        self._seconds = seconds
        self._task: asyncio.Task[T] | None = None
        self._until = 0.0

    async def __call__(self) -> T:
        """Return its result."""
        now = asyncio.get_running_loop().time()
        if self._task is None or (self._task.done() and now >= self._until):
            self._until = now + self._seconds
            self._task = asyncio.create_task(self._work())
            self._task.add_done_callback(take_note)
        return await asyncio.shield(self._task)  # others may wait for it too


class Paced(Generic[T]):
    """Work that many ask for at once is done once, and takes at most a share of the processor.

    Whoever asks while it is under way, or waits for its turn, gets the same result. After a run it rests for a multiple
    of the seconds that this run took, so that whoever asks all the time waits instead of keeping others waiting.
    """

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        """Do this work when it is asked for."""
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self._rested_at = 0.0

    async def __call__(self) -> T:
        """Return its result."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
            self._task.add_done_callback(take_note)
        return await asyncio.shield(self._task)  # others may wait for it too

    async def _run(self) -> T:
        time = asyncio.get_running_loop().time
        await asyncio.sleep(self._rested_at - time())
        start = time()
        try:
            return await self._work()
        finally:
            self._rested_at = time() + min(REST_RATIO * (time() - start), LONGEST_REST_S)


def take_note(task: "asyncio.Task[Any]") -> None:
    """Look at an error though everybody who asked may have left: asyncio complains about those that nobody saw."""
    if not task.cancelled():
        task.exception()
