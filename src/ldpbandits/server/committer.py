"""Group commit: what has queued while one commit ran is the next commit, and replies wait for it.

A commit waits for the disk, so one commit for each response would allow no more responses a second than the disk can
flush. Here no response waits for a batch to fill: the first of a quiet moment is committed at once, and those that come
while the disk is busy share the next commit. Those who have just been answered often have more to say, and would always
miss the commit that is about to start: half of a crowd would wait while the other half is written, and no commit would
hold more than half of it. So on a slow disk the next commit starts when as many are back as were answered, or when half
of the time that the last commit took is over. A fast disk waits for nobody.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import perf_counter
from typing import ParamSpec, TypeVar

from ldpbandits.server.store import Claim, Outcome, Store, Tally

LARGEST_BATCH = 1000
WORTH = 0.5
"""The share of a commit's own time for which it is worth waiting, so that the next one holds more."""

SHORTEST_WAIT = 0.001
"""Less is not worth it, and less than event loops can measure."""

P = ParamSpec("P")
T = TypeVar("T")


class Unavailable(Exception):  # noqa: N818 - a state, not a fault of the caller
    """The database cannot be written at the moment; nothing was changed."""


class Committer:
    """The one thread that writes. Responses queue for it; other changes are done in between, one at a time."""

    def __init__(self, store: Store, counted: Callable[[list[Tally]], None], *, largest: int = LARGEST_BATCH) -> None:
        """Count into this store; call `counted` with the new tallies before anybody is told."""
        self._store = store
        self._counted = counted
        self._largest = largest
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="writer")
        self._queue: list[tuple[Claim, asyncio.Future[Outcome]]] = []
        self._work: asyncio.Task[None] | None = None
        self._hoped = 0
        self._all_back = asyncio.Event()
        self.commits = 0

    async def count(self, claim: Claim) -> Outcome:
        """Return what became of a response, once that is on disk."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._queue.append((claim, future))
        if len(self._queue) >= self._hoped:
            self._all_back.set()
        if self._work is None:
            self._work = asyncio.create_task(self._drain())
        return await future

    async def run(self, change: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make another change, between two commits."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: change(*args, **kwargs))
        except sqlite3.IntegrityError:
            raise
        except sqlite3.Error as error:
            raise Unavailable(str(error)) from error

    def close(self) -> None:
        """Finish what is under way."""
        self._thread.shutdown()

    async def _drain(self) -> None:
        try:
            while self._queue:
                batch, self._queue = self._queue[: self._largest], self._queue[self._largest :]
                start = perf_counter()
                if await self._commit(batch):
                    await self._gather(len(batch), WORTH * (perf_counter() - start))
        finally:
            self._work = None

    async def _gather(self, answered: int, seconds: float) -> None:
        """Wait for as many responses as have just been answered, but not for longer than that."""
        if answered == 1 or seconds < SHORTEST_WAIT:
            return
        self._hoped = min(len(self._queue) + answered, self._largest)
        if len(self._queue) >= self._hoped:
            return
        self._all_back.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._all_back.wait()

    async def _commit(self, batch: list[tuple[Claim, "asyncio.Future[Outcome]"]]) -> bool:
        """Count a batch and tell everybody in it; return whether it is on disk."""
        claims = [claim for claim, _ in batch]
        try:
            outcomes, tallies = await asyncio.get_running_loop().run_in_executor(
                self._thread, self._store.count, claims
            )
            self.commits += 1
            self._counted(tallies)
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody may wait for ever
            # An overflow is a total that does not fit in 64 bits.
            known = isinstance(error, sqlite3.Error | OverflowError)
            for _, future in batch:
                if not future.done():
                    future.set_exception(Unavailable(str(error)) if known else error)
            return False
        for (_, future), outcome in zip(batch, outcomes, strict=True):
            if not future.done():  # whoever asked may have gone away
                future.set_result(outcome)
        return True
