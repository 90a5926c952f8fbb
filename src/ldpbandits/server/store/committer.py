"""Group commit: responses that queue while one commit runs share the next commit, and their replies wait for it.

A commit waits for the disk, so one commit for each response would limit the throughput to the disk's flushes a second.
No response waits for a batch to fill: the first after a quiet moment is committed at once, and those that arrive while
the disk is busy share the next commit. Clients that have just been answered often send more, and would always miss the
commit that is about to start: half of a crowd would wait while the other half is written, and no commit would hold more
than half of it. On a slow disk the next commit therefore starts when as many responses are queued as were answered, or
after `WAIT_SHARE` of the time that the last commit took. On a fast disk it starts at once.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import perf_counter
from typing import ParamSpec, TypeVar

from ldpbandits.server.store import Answer, CellTotal, Event, Outcome, Store, Unavailable

LARGEST_BATCH = 1000
WAIT_SHARE = 0.5
"""The share of the last commit's duration for which the next one waits, so that it holds more responses."""

SHORTEST_WAIT_S = 0.001
"""A shorter wait gains nothing, and event loops cannot measure it."""

COMMIT_TIMEOUT_S = 20.0
"""Seconds after which a request that waits for a commit fails with unknown outcome: a disk or a locked database may
hang for hours, and retries would fill the memory meanwhile."""

P = ParamSpec("P")
T = TypeVar("T")


def _ignore(_: int, __: int, ___: float) -> None:
    """Ignore a commit when nothing measures it."""


class Committer:
    """The one thread that writes. Responses queue for it; other changes run between two commits, one at a time."""

    def __init__(
        self, store: Store, apply_totals: Callable[[Sequence[CellTotal]], None], *, largest: int = LARGEST_BATCH
    ) -> None:
        """Count into this store; call `apply_totals` with the new totals of cells before any reply is sent."""
        self._store = store
        self._apply_totals = apply_totals
        self._largest = largest
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="writer")
        self._queue: list[tuple[Answer, asyncio.Future[Outcome]]] = []
        self._work: asyncio.Task[None] | None = None
        self._expected = 0
        self._batch_ready = asyncio.Event()
        self.commits = 0
        self.observe: Callable[[int, int, float], None] = _ignore
        """Called after every commit with its number of responses, the length of the queue, and its seconds."""
        self._events: Counter[tuple[int, int, str]] = Counter()
        self._is_hung = False
        self.on_counted_late: Callable[[Answer, Outcome], None] = lambda _, __: None
        """Called with an answer that was counted after its request had timed out or gone away."""

    def note(self, experiment: int, arm: int, kind: str, count: int = 1) -> None:
        """Count an event; the next commit writes it."""
        self._events[experiment, arm, kind] += count

    def forget_events(self, experiment: int) -> list[Event]:
        """Drop the unwritten events of a deleted experiment, and return them."""
        dropped = [Event(*key, count) for key, count in self._events.items() if key[0] == experiment]
        for event in dropped:
            del self._events[event[:3]]
        return dropped

    async def write_events(self) -> None:
        """Write the events that no commit of responses has written."""
        events = self._take_events()
        if events:
            try:
                await self.run(self._store.count, (), events)
            except BaseException:
                self.requeue_events(events)
                raise

    def _take_events(self) -> list[Event]:
        events, self._events = self._events, Counter()
        return [Event(*key, count) for key, count in events.items()]

    def requeue_events(self, events: list[Event]) -> None:
        """Queue events again after a failed write."""
        for event in events:
            self._events[event[:3]] += event.times

    @property
    def queued(self) -> int:
        """The number of responses that wait for the next commit."""
        return len(self._queue)

    async def count(self, answer: Answer) -> Outcome:
        """Return the outcome of a response, once it is on disk."""
        if self._is_hung:
            raise _commit_timeout()
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._queue.append((answer, future))
        if len(self._queue) >= self._expected:
            self._batch_ready.set()
        if self._work is None:
            self._work = asyncio.create_task(self._drain())
        return await future

    async def run(self, change: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call another method of the store in the writing thread, between two commits; pass on its exceptions.

        A call that the thread has not begun within `COMMIT_TIMEOUT_S` is cancelled.
        """
        if self._is_hung:
            raise _commit_timeout()
        work = self._thread.submit(change, *args, **kwargs)
        done = asyncio.wrap_future(work)
        timer = asyncio.get_running_loop().call_later(
            COMMIT_TIMEOUT_S, work.cancel
        )  # which does nothing once it has begun
        try:
            await asyncio.wait([done])
        finally:
            timer.cancel()
            done.cancel()
        if done.cancelled():
            raise _commit_timeout()
        return done.result()

    def close(self) -> None:
        """Finish the running commit, write the remaining events and end the thread."""
        events = self._take_events()
        if events:
            with suppress(Unavailable):  # a few counts, and never a response
                self._thread.submit(self._store.count, (), events).result()
        self._thread.shutdown()

    async def _drain(self) -> None:
        try:
            while self._queue:
                waiting = len(self._queue)
                batch, self._queue = self._queue[: self._largest], self._queue[self._largest :]
                start = perf_counter()
                is_on_disk = await self._commit(batch)
                seconds = perf_counter() - start
                self.observe(len(batch), waiting, seconds)
                if is_on_disk:
                    await self._gather(len(batch), WAIT_SHARE * seconds)
        finally:
            self._work = None

    async def _gather(self, answered: int, seconds: float) -> None:
        """Wait until as many responses are queued as have just been answered, for at most `seconds`."""
        if answered == 1 or seconds < SHORTEST_WAIT_S:
            return
        self._expected = min(len(self._queue) + answered, self._largest)
        if len(self._queue) >= self._expected:
            return
        self._batch_ready.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._batch_ready.wait()

    async def _commit(self, batch: list[tuple[Answer, "asyncio.Future[Outcome]"]]) -> bool:
        """Count a batch and resolve its futures; return whether it is on disk."""
        answers = [answer for answer, _ in batch]
        events = self._take_events()
        timer = asyncio.get_running_loop().call_later(COMMIT_TIMEOUT_S, self._give_up, batch)
        try:
            outcomes, totals = await asyncio.get_running_loop().run_in_executor(
                self._thread, self._store.count, answers, events
            )
            self.commits += 1
            self._apply_totals(totals)
        except Exception as error:  # noqa: BLE001 - every error must end the wait of every request
            self.requeue_events(events)
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return False
        finally:
            timer.cancel()
            self._is_hung = False
        for (answer, future), outcome in zip(batch, outcomes, strict=True):
            if not future.done():
                future.set_result(outcome)
            else:  # the request was told to retry, or has gone away
                self.on_counted_late(answer, outcome)
        return True

    def _give_up(self, batch: list[tuple[Answer, "asyncio.Future[Outcome]"]]) -> None:
        """Fail every request that waits for a commit that hangs, or for the next one; clients may retry."""
        self._is_hung = True
        waiting, self._queue = [*batch, *self._queue], []
        for _, future in waiting:
            if not future.done():
                future.set_exception(_commit_timeout())


def _commit_timeout() -> Unavailable:
    return Unavailable(f"the store has committed nothing for {COMMIT_TIMEOUT_S:g} s")
