"""A task that sends what is due, so that an app need not think of it: what `Keeper` is, on an event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from ldpbandits.device.keeper import LONGEST_SLEEP, Pace
from ldpbandits.errors import LDPBanditsError


class AsyncKeeper:
    """Works in rounds: one when it is woken, one whenever something is due. It has no task before it is first woken.

    `work` does what is due now, and ends soon once the client is closed. `until_due` tells how many seconds it is until
    there is more to do, or None when nothing is open. `at_end` is called when the event loop ends before the client.
    """

    def __init__(
        self,
        work: Callable[[], Awaitable[object]],
        until_due: Callable[[], Awaitable[float | None]],
        at_end: Callable[[], None],
    ) -> None:
        """Remember what to do; `wake` starts the task."""
        self._work, self._until_due, self._at_end = work, until_due, at_end
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def wake(self) -> None:
        """Say that there may be something new to do. It is called on the event loop."""
        self._news.set()
        if self._task is None and not self._is_closed:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="ldpbandits")

    def stop(self) -> None:
        """Let the task end after the round that it is in."""
        self._is_closed = True
        self._news.set()

    async def join(self, patience: float) -> None:
        """Wait until the task has ended, for so many seconds at the most; then end it."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=max(patience, 0))
            self._task.cancel()
            await asyncio.wait([self._task])

    def after_fork(self) -> None:
        """Start anew in a child process: the task is in the parent."""
        self._news, self._task = asyncio.Event(), None

    async def _run(self) -> None:
        pace = Pace()
        try:
            while not self._is_closed:
                self._news.clear()
                with suppress(LDPBanditsError):  # the ledger may be locked, the disk full: the next round may do better
                    await self._work()
                pause = pace.pause(await self._seconds_until_due())
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._news.wait()
        except asyncio.CancelledError:
            self._at_end()
            raise

    async def _seconds_until_due(self) -> float | None:
        try:
            return await self._until_due()
        except LDPBanditsError:  # as above
            return LONGEST_SLEEP
