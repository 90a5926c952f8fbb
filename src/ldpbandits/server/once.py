"""Work that many ask for at once is done once."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
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


def take_note(task: "asyncio.Task[Any]") -> None:
    """Look at an error though everybody who asked may have left: asyncio complains about those that nobody saw."""
    if not task.cancelled():
        task.exception()
