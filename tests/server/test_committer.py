"""Group commit: who queues while a commit runs shares the next one, and nobody waits for nothing."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from tests.server.memory_store import MemoryStore

from ldpbandits.server.experiments.tickets import Ticket, new_nonce
from ldpbandits.server.store import Answer, CellTotal, Definition, Outcome, Unavailable
from ldpbandits.server.store import Event as Happened
from ldpbandits.server.store import committer as module
from ldpbandits.server.store.committer import Committer
from ldpbandits.server.store.sqlite.store import SqliteStore
from ldpbandits.types import Arm


class FakeStore(MemoryStore):
    """A store that notes its batches, and waits in each for the test."""

    def __init__(self) -> None:
        """Start with no batch, and with the first one held back."""
        super().__init__()
        self.batches: list[int] = []
        self.go_on = Event()
        self.fault: Exception | None = None

    def count(
        self,
        answers: Sequence[Answer],
        events: Sequence[Happened] = (),  # noqa: ARG002 - of no matter here
    ) -> tuple[list[Outcome], list[CellTotal]]:
        """Count nothing."""
        self.batches.append(len(answers))
        assert self.go_on.wait(20)
        if self.fault is not None:
            raise self.fault
        return [Outcome.COUNTED] * len(answers), []


class Begun:
    """A thread that has begun what it is given before anybody can take it back."""

    def __init__(self, thread: ThreadPoolExecutor, begun: Event) -> None:
        """Hand on to this one, whose work says that it has begun."""
        self._thread, self._begun = thread, begun
        self.shutdown = thread.shutdown

    def submit(self, work: Callable[[], str]) -> "Future[str]":
        """Hand it on."""
        future = self._thread.submit(work)
        assert self._begun.wait(20)
        return future


def answer() -> Answer:
    """Make a response to a new ticket."""
    return Answer(Ticket(1, Arm(0), 100, new_nonce()), 1)


async def turns(count: int = 20) -> None:
    """Let the event loop turn."""
    for _ in range(count):
        await asyncio.sleep(0.001)


def test_who_queues_while_a_commit_runs_shares_the_next() -> None:
    """One response is committed at once; the 50 that come meanwhile are the second commit, and there is no third."""
    store = FakeStore()

    async def play() -> list[Outcome]:
        committer = Committer(store, lambda _: None)
        first = asyncio.create_task(committer.count(answer()))
        await turns()
        rest = [asyncio.create_task(committer.count(answer())) for _ in range(50)]
        await turns()
        assert store.batches == [1]
        assert not any(task.done() for task in (first, *rest))
        store.go_on.set()
        outcomes = await asyncio.gather(first, *rest)
        committer.close()
        return outcomes

    assert asyncio.run(play()) == [Outcome.COUNTED] * 51
    assert store.batches == [1, 50]


def test_a_full_queue_is_not_kept_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a batch ready, the next commit starts at once, however long it would be worth waiting."""
    monkeypatch.setattr(module, "WAIT_SHARE", 1e6)
    store = FakeStore()
    store.go_on.set()

    async def play() -> None:
        committer = Committer(store, lambda _: None, largest=10)
        await asyncio.wait_for(asyncio.gather(*(committer.count(answer()) for _ in range(40))), 20)
        committer.close()

    asyncio.run(play())
    assert store.batches == [10, 10, 10, 10]


def test_those_who_come_back_are_waited_for_on_a_slow_disk(tmp_path: Path) -> None:
    """32 that ask again as soon as they are answered share all but a few commits of a disk that takes 10 ms."""

    def slow(point: str) -> None:
        if point == "before commit":
            time.sleep(0.01)

    store = SqliteStore(tmp_path / "agent.db", failpoint=slow)
    store.create(Definition("one", "{}", "{}", "{}", 60, 0.0, 0), ["a"])

    async def device(committer: Committer) -> None:
        for _ in range(10):
            assert await committer.count(answer()) is Outcome.COUNTED

    async def play() -> int:
        committer = Committer(store, lambda _: None)
        await asyncio.gather(*(device(committer) for _ in range(32)))
        committer.close()
        return committer.commits

    commits = asyncio.run(play())
    (arm,) = store.experiments()[0].arms
    assert (arm.pulls, arm.total) == (320, 320)
    store.close()
    assert commits <= 15  # 10 at the least; 20 when half of them always waited for the other half


@pytest.mark.parametrize("fault", [Unavailable("full"), KeyError("x")])
def test_whatever_fails_everybody_hears_of_it(fault: Exception) -> None:
    """A commit that fails is told to all who wait for it, and the next is tried."""
    store = FakeStore()
    store.fault = fault
    store.go_on.set()

    async def play() -> None:
        committer = Committer(store, lambda _: None)
        heard_by = await asyncio.gather(*(committer.count(answer()) for _ in range(5)), return_exceptions=True)
        assert [type(each) for each in heard_by] == [type(fault)] * 5
        store.fault = None
        assert await committer.count(answer()) is Outcome.COUNTED
        committer.close()

    asyncio.run(play())


def test_a_fault_in_the_books_leaves_nobody_waiting() -> None:
    """An error after the commit, while totals are taken over, is told too."""
    store = FakeStore()
    store.go_on.set()

    def broken(_: Sequence[CellTotal]) -> None:
        raise KeyError("x")

    async def play() -> None:
        committer = Committer(store, broken)
        with pytest.raises(KeyError):
            await asyncio.wait_for(committer.count(answer()), 20)
        committer.close()

    asyncio.run(play())


def test_a_store_that_hangs_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those in the commit and behind it are told to send again, newcomers at once; when it goes on, so do all."""
    monkeypatch.setattr(module, "COMMIT_TIMEOUT_S", 0.05)
    store = FakeStore()

    async def play() -> None:
        committer, late = Committer(store, lambda _: None), asyncio.Queue[Answer]()
        committer.on_counted_late = lambda answer, _: late.put_nowait(answer)
        given = [answer() for _ in range(3)]
        waiting = [asyncio.create_task(committer.count(given[0]))]
        await turns(2)
        waiting += [asyncio.create_task(committer.count(each)) for each in given[1:]]
        told = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(each) for each in told] == [Unavailable] * 3
        with pytest.raises(Unavailable, match="has committed nothing for"):
            await committer.count(answer())
        assert committer.queued == 0
        store.go_on.set()
        assert await late.get() is given[0]  # it was counted, and nobody has heard of it
        assert await committer.count(answer()) is Outcome.COUNTED
        committer.close()

    asyncio.run(play())
    assert store.batches == [1, 1]


def test_a_change_behind_a_store_that_hangs_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever pauses an experiment is told so, and not hours later that it was done; others are told at once."""
    monkeypatch.setattr(module, "COMMIT_TIMEOUT_S", 0.05)
    store, made = FakeStore(), list[str]()

    async def play() -> None:
        committer = Committer(store, lambda _: None)
        counting = asyncio.create_task(committer.count(answer()))
        await turns(2)
        with pytest.raises(Unavailable, match="has committed nothing for"):
            await asyncio.wait_for(committer.run(made.append, "behind"), 20)
        with pytest.raises(Unavailable):
            await counting
        monkeypatch.setattr(module, "COMMIT_TIMEOUT_S", 1e6)
        with pytest.raises(Unavailable, match="has committed nothing for"):
            await asyncio.wait_for(committer.run(made.append, "later"), 20)
        store.go_on.set()
        while committer._work is not None:
            await turns(1)
        await committer.run(made.append, "when it goes on")
        committer.close()

    asyncio.run(play())
    assert made == ["when it goes on"]


def test_a_change_that_has_begun_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it does is known when it ends: nobody may be told before that it was not made."""
    monkeypatch.setattr(module, "COMMIT_TIMEOUT_S", 0.0)
    begun, go_on = Event(), Event()

    def slow() -> str:
        begun.set()
        assert go_on.wait(20)
        return "made"

    async def play() -> str:
        committer = Committer(FakeStore(), lambda _: None)
        monkeypatch.setattr(committer, "_thread", Begun(committer._thread, begun))
        changing = asyncio.create_task(committer.run(slow))
        await turns()
        assert not changing.done()
        go_on.set()
        told = await changing
        committer.close()
        return told

    assert asyncio.run(play()) == "made"
