"""Group commit: what has queued while one commit ran is the next commit, and replies wait for it.

A commit waits for the disk, so one commit for each response would allow no more responses a second than the disk can
flush. Here no response waits for a batch to fill: the first of a quiet moment is committed at once, and those that come
while the disk is busy share the next commit. Those who have just been answered often have more to say, and would always
miss the commit that is about to start: half of a crowd would wait while the other half is written, and no commit would
hold more than half of it. So on a slow disk the next commit starts when as many are back as were answered, or when half
of the time that the last commit took is over. A fast disk waits for nobody.
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
"""The share of a commit's own time for which it is worth waiting, so that the next one holds more."""

SHORTEST_WAIT_S = 0.001
"""Less is not worth it, and less than event loops can measure."""

COMMIT_TIMEOUT_S = 20.0
"""Seconds after which whoever waits for a commit is told that its outcome is not known: a disk or a database may hang
for hours, as behind a lock that somebody holds, and those who send again would fill the memory meanwhile."""

P = ParamSpec("P")
T = TypeVar("T")


def _ignore(_: int, __: int, ___: float) -> None:
    """Take no note of a commit."""


class Committer:
    """The one thread that writes. Responses queue for it; other changes are done in between, one at a time."""

    def __init__(
        self, store: Store, apply_totals: Callable[[Sequence[CellTotal]], None], *, largest: int = LARGEST_BATCH
    ) -> None:
        """Count into this store; call `apply_totals` with the new totals of cells before anybody is told."""
        self._store = store
        self._apply_totals = apply_totals
        self._largest = largest
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="writer")
        self._queue: list[tuple[Answer, asyncio.Future[Outcome]]] = []
        self._work: asyncio.Task[None] | None = None
        self._hoped = 0
        self._all_back = asyncio.Event()
        self.commits = 0
        self.observe: Callable[[int, int, float], None] = _ignore
        """Told of every commit: how many responses it had, how many waited, and how many seconds it took."""
        self._events: Counter[tuple[int, int, str]] = Counter()
        self._hangs = False
        self.counted_late: Callable[[Answer], None] = lambda _: None
        """Told of a response that was counted after all, when nobody waited for it any more."""

    def note(self, experiment: int, arm: int, kind: str, count: int = 1) -> None:
        """Count that something has happened; it is written with the next commit."""
        self._events[experiment, arm, kind] += count

    def forget_events(self, experiment: int) -> list[Event]:
        """Drop what has happened in an experiment that is no more, and return it."""
        dropped = [Event(*key, count) for key, count in self._events.items() if key[0] == experiment]
        for event in dropped:
            del self._events[event[:3]]
        return dropped

    async def write_events(self) -> None:
        """Write what has happened, where no commit of responses has done so."""
        events = self._take_events()
        if events:
            try:
                await self.run(self._store.count, (), events)
            except BaseException:
                self.put_back(events)
                raise

    def _take_events(self) -> list[Event]:
        events, self._events = self._events, Counter()
        return [Event(*key, count) for key, count in events.items()]

    def put_back(self, events: list[Event]) -> None:
        """Take events to be written after all."""
        for event in events:
            self._events[event[:3]] += event.times

    @property
    def queued(self) -> int:
        """How many responses wait for the next commit."""
        return len(self._queue)

    async def count(self, answer: Answer) -> Outcome:
        """Return what became of a response, once that is on disk."""
        if self._hangs:
            raise _nothing_written()
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._queue.append((answer, future))
        if len(self._queue) >= self._hoped:
            self._all_back.set()
        if self._work is None:
            self._work = asyncio.create_task(self._drain())
        return await future

    async def run(self, change: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call another verb of the store in the thread that writes, between two commits; pass on what it raises.

        What that thread has not begun within some seconds is not done at all: nobody waits for hours to hear of it.
        """
        if self._hangs:
            raise _nothing_written()
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
            raise _nothing_written()
        return done.result()

    def close(self) -> None:
        """Write what has happened and end the thread, once what is under way is done."""
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
        """Wait for as many responses as have just been answered, but not for longer than that."""
        if answered == 1 or seconds < SHORTEST_WAIT_S:
            return
        self._hoped = min(len(self._queue) + answered, self._largest)
        if len(self._queue) >= self._hoped:
            return
        self._all_back.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._all_back.wait()

    async def _commit(self, batch: list[tuple[Answer, "asyncio.Future[Outcome]"]]) -> bool:
        """Count a batch and tell everybody in it; return whether it is on disk."""
        answers = [answer for answer, _ in batch]
        events = self._take_events()
        timer = asyncio.get_running_loop().call_later(COMMIT_TIMEOUT_S, self._give_up, batch)
        try:
            outcomes, totals = await asyncio.get_running_loop().run_in_executor(
                self._thread, self._store.count, answers, events
            )
            self.commits += 1
            self._apply_totals(totals)
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody may wait for ever
            self.put_back(events)
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return False
        finally:
            timer.cancel()
            self._hangs = False
        for (answer, future), outcome in zip(batch, outcomes, strict=True):
            if not future.done():
                future.set_result(outcome)
            elif outcome is Outcome.COUNTED:  # whoever asked was told to send again, or has gone away
                self.counted_late(answer)
        return True

    def _give_up(self, batch: list[tuple[Answer, "asyncio.Future[Outcome]"]]) -> None:
        """Leave nobody waiting for a commit that does not end, or for the next; the same may be sent again."""
        self._hangs = True
        waiting, self._queue = [*batch, *self._queue], []
        for _, future in waiting:
            if not future.done():
                future.set_exception(_nothing_written())


def _nothing_written() -> Unavailable:
    return Unavailable(f"the store has written nothing for {COMMIT_TIMEOUT_S:g} s")
