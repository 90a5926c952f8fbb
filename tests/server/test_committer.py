"""Group commit: who queues while a commit runs shares the next one, and nobody waits for nothing."""

import asyncio
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Event

import pytest

from ldpbandits.server import committer as module
from ldpbandits.server.committer import Committer, Unavailable
from ldpbandits.server.store import Claim, Outcome, Store, Tally
from ldpbandits.server.tickets import Ticket, new_nonce
from ldpbandits.types import Arm


class FakeStore(Store):
    """A store that notes its batches, and waits in each for the test."""

    def __init__(self) -> None:
        """Start."""
        self.batches: list[int] = []
        self.go_on = Event()
        self.fault: Exception | None = None

    def count(self, claims: Sequence[Claim]) -> tuple[list[Outcome], list[Tally]]:
        """Count nothing."""
        self.batches.append(len(claims))
        assert self.go_on.wait(20)
        if self.fault is not None:
            raise self.fault
        return [Outcome.COUNTED] * len(claims), []


def claim() -> Claim:
    """Make a response."""
    return Claim(Ticket(1, Arm(0), 100, new_nonce()), 1)


async def turns(count: int = 20) -> None:
    """Let the event loop turn."""
    for _ in range(count):
        await asyncio.sleep(0.001)


def test_who_queues_while_a_commit_runs_shares_the_next() -> None:
    """One response is committed at once; the 50 that come meanwhile are the second commit, and there is no third."""
    store = FakeStore()

    async def play() -> list[Outcome]:
        committer = Committer(store, lambda _: None)
        first = asyncio.create_task(committer.count(claim()))
        await turns()
        rest = [asyncio.create_task(committer.count(claim())) for _ in range(50)]
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
    monkeypatch.setattr(module, "WORTH", 1e6)
    store = FakeStore()
    store.go_on.set()

    async def play() -> None:
        committer = Committer(store, lambda _: None, largest=10)
        await asyncio.wait_for(asyncio.gather(*(committer.count(claim()) for _ in range(40))), 20)
        committer.close()

    asyncio.run(play())
    assert store.batches == [10, 10, 10, 10]


def test_those_who_come_back_are_waited_for_on_a_slow_disk(tmp_path: Path) -> None:
    """32 that ask again as soon as they are answered share all but a few commits of a disk that takes 10 ms."""

    def slow(point: str) -> None:
        if point == "before commit":
            time.sleep(0.01)

    store = Store(tmp_path / "agent.db", failpoint=slow)
    connection = store.connection
    connection.execute(
        "INSERT INTO experiments VALUES (1, 'one', '{}', '{}', 60, 0, 'running', 0)",
    )
    connection.execute("INSERT INTO arms (experiment, number, name) VALUES (1, 0, 'a')")

    async def device(committer: Committer) -> None:
        for _ in range(10):
            assert await committer.count(claim()) is Outcome.COUNTED

    async def play() -> int:
        committer = Committer(store, lambda _: None)
        await asyncio.gather(*(device(committer) for _ in range(32)))
        committer.close()
        return committer.commits

    commits = asyncio.run(play())
    assert store.rows("SELECT pulls, total FROM arms") == [(320, 320)]
    store.close()
    assert commits <= 15  # 10 at the least; 20 when half of them always waited for the other half


@pytest.mark.parametrize(
    ("fault", "heard"), [(sqlite3.OperationalError("full"), Unavailable), (KeyError("x"), KeyError)]
)
def test_whatever_fails_everybody_hears_of_it(fault: Exception, heard: type[Exception]) -> None:
    """A commit that fails is told to all who wait for it, and the next is tried."""
    store = FakeStore()
    store.fault = fault
    store.go_on.set()

    async def play() -> None:
        committer = Committer(store, lambda _: None)
        heard_by = await asyncio.gather(*(committer.count(claim()) for _ in range(5)), return_exceptions=True)
        assert [type(each) for each in heard_by] == [heard] * 5
        store.fault = None
        assert await committer.count(claim()) is Outcome.COUNTED
        committer.close()

    asyncio.run(play())


def test_a_fault_in_the_books_leaves_nobody_waiting() -> None:
    """An error after the commit, while tallies are taken over, is told too."""
    store = FakeStore()
    store.go_on.set()

    def broken(_: list[Tally]) -> None:
        raise KeyError("x")

    async def play() -> None:
        committer = Committer(store, broken)
        with pytest.raises(KeyError):
            await asyncio.wait_for(committer.count(claim()), 20)
        committer.close()

    asyncio.run(play())
