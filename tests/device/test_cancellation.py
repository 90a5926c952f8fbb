"""An asyncio client may be cancelled while it waits for anything: nothing is lost, and nothing is done twice."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest
from tests.device.test_sealed import REWARD, shows

from ldpbandits import AsyncClient, Ledger, Limits, Range, ServerError
from ldpbandits.device import client as client_module
from ldpbandits.device import randomness
from ldpbandits.device.database import Database
from ldpbandits.device.outbox import MAX_RETRY_WAIT_S
from ldpbandits.device.wire import AgentConnection

if TYPE_CHECKING:
    from tests.device.conftest import FakeAgent

CTB_50 = {"mechanism": "bernoulli", "epsilon": 50.0}
"""The response is the reward, but once in e^50."""
LIMITS = Limits(Range(0, 1), 50, 1e6, at_once=True)


class CancelledAt:
    """Waits as a coroutine does, and has its task cancelled at the n-th thing that it waits for.

    Either at once, or when that has happened but the coroutine does not know yet.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], at: int, *, late: bool) -> None:
        """Remember what to do."""
        self._coroutine, self._at, self._late = coroutine, at, late

    def __await__(self) -> Generator[Any, Any, Any]:
        """Pass on all that the coroutine waits for."""
        go_on: Callable[[], Any] = partial(self._coroutine.send, None)
        for number in count():
            try:
                awaited = go_on()
            except StopIteration as end:
                return end.value
            if number == self._at:
                self._cancel(awaited)
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001 - the coroutine gets it
                go_on = partial(self._coroutine.throw, error)
            else:
                go_on = partial(self._coroutine.send, None)
        return None

    def _cancel(self, awaited: "asyncio.Future[Any] | None") -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._late and awaited is not None:
            awaited.add_done_callback(lambda _: task.cancel())
        else:
            asyncio.get_running_loop().call_soon(task.cancel)


class Steps:
    """The steps of clients, in whichever thread: a transaction of the ledger, or a request to the agent.

    A call has its task cancelled at the n-th of them, before that is done or after. The thread goes on when the task
    has ended, so that what comes next is done for nobody.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Watch all clients."""
        self._cancel: Callable[[str], None] = lambda _: None
        transaction, post = Database.transaction, AgentConnection.post

        @contextmanager
        def watched_transaction(database: Database) -> Iterator[Any]:
            self._cancel("before")
            with transaction(database) as begun:
                yield begun
            self._cancel("after")

        def watched_post(*args: Any, **options: Any) -> Any:
            self._cancel("before")
            reply = post(*args, **options)
            self._cancel("after")
            return reply

        monkeypatch.setattr(Database, "transaction", watched_transaction)
        monkeypatch.setattr(AgentConnection, "post", watched_post)

    async def is_cancelled(self, coroutine: Coroutine[Any, Any, Any], at: int, *, late: bool) -> bool:
        """Tell whether there was a step at which it was cancelled."""
        loop, numbers = asyncio.get_running_loop(), count()

        async def cancel() -> None:
            task.cancel()
            await asyncio.wait([task])

        def cancel_at(when: str) -> None:
            if when == ("after" if late else "before") and next(numbers) == at:
                asyncio.run_coroutine_threadsafe(cancel(), loop).result(20)

        task = asyncio.ensure_future(coroutine)
        self._cancel = cancel_at
        await asyncio.wait([task])
        self._cancel = lambda _: None
        if not task.cancelled():
            task.result()
        return task.cancelled()


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """The steps of all clients of this test."""
    return Steps(monkeypatch)


async def is_cancelled(coroutine: Coroutine[Any, Any, Any], at: int, *, late: bool) -> bool:
    """Tell whether there was something to wait for at which it was cancelled."""

    async def wait() -> None:
        await CancelledAt(coroutine, at, late=late)

    task = asyncio.create_task(wait())
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
    return task.cancelled()


Prepare = Callable[[AsyncClient], Awaitable[Callable[[], Coroutine[Any, Any, Any]]]]


async def to_decide(client: AsyncClient) -> Callable[[], Coroutine[Any, Any, Any]]:
    """Ask for an arm."""
    return client.decide


async def to_observe(client: AsyncClient) -> Callable[[], Coroutine[Any, Any, Any]]:
    """Observe a reward; it is sent at once where the agent asks for that."""
    pull = await client.decide()
    return lambda: pull.observe(1)


async def to_flush(client: AsyncClient) -> Callable[[], Coroutine[Any, Any, Any]]:
    """Send what is due."""
    for _ in range(2):
        await (await client.decide()).observe(1)
    return lambda: client.flush(now=1e12)


async def to_leave(client: AsyncClient) -> Callable[[], Coroutine[Any, Any, Any]]:
    """Send what was decided here."""
    for _ in range(2):
        await (await client.decide()).observe(1)
    return client.leave


async def to_close(client: AsyncClient) -> Callable[[], Coroutine[Any, Any, Any]]:
    """Leave and close."""
    for _ in range(2):
        await (await client.decide()).observe(1)
    return client.close


CALLS: list[Prepare] = [to_decide, to_observe, to_flush, to_leave, to_close]


async def settle(agent: "FakeAgent", ledger: Ledger) -> None:
    """Observe what is open and send everything that is left, with another client."""
    again = AsyncClient(agent.url, "headline", key="k", limits=LIMITS, ledger=ledger, background=False)
    for pull in await again.pulls():
        assert await pull.observe(1)
    for now in count(2e12, MAX_RETRY_WAIT_S + 1):  # what somebody has taken to send is his for a while
        await again.flush(now=now)
        assert again._client is not None
        if not again._client._outbox.entries():
            break
    await again.close()


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("report_after", [300, 0], ids=["at its moment", "at once"])
@pytest.mark.parametrize("prepare", CALLS)
def test_nothing_is_lost_or_done_twice(
    agent: "FakeAgent",
    steps: Steps,
    prepare: Prepare,
    report_after: float,
    late: bool,  # noqa: FBT001 - a case
) -> None:
    """At whichever step it is cancelled: what was charged is sent, once, with the reward that was observed."""

    async def cancel(at: int) -> bool:
        ledger = Ledger(":memory:")
        client = AsyncClient(agent.url, "headline", key="k", limits=LIMITS, ledger=ledger, background=False)
        call = await prepare(client)
        cancelled = await steps.is_cancelled(call(), at, late=late)
        await client.close(keep=True)
        await settle(agent, ledger)
        with ledger.database.transaction() as transaction:
            charged = transaction.execute("SELECT count(*) FROM spent").fetchone()[0]
        ledger.close()
        counted = {ticket: value for ticket, value in agent.counted.items() if ticket not in before}
        assert set(counted.values()) <= {1.0}
        assert len(counted) == charged
        assert all(len(set(agent.bodies(ticket))) == 1 for ticket in counted)
        before.update(counted)  # a request of these that was cut off may reach the agent's thread as late as it likes
        return cancelled

    before: set[str] = set()
    agent.decision |= {"curator": CTB_50, "report_after": report_after}
    for at in count():
        if not asyncio.run(cancel(at)):
            break
    assert at >= (4 if report_after and prepare is not to_observe else 1)  # so many steps there are


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_a_request_that_is_cancelled_is_no_answer_to_the_next(
    agent: "FakeAgent",
    steps: Steps,
    late: bool,  # noqa: FBT001 - a case
) -> None:
    """The reply to it may still come: the next request gets its own."""

    async def take_part() -> None:
        async with AsyncClient(agent.url, "headline", key="k", limits=LIMITS, ledger=":memory:") as client:
            await client.decide()
            for at in count():
                agent.decision["name"] = f"arm {at}"
                if not await steps.is_cancelled(client.decide(), at, late=late):
                    break
                agent.decision["name"] = "the next"
                assert (await client.decide()).name == "the next"

    asyncio.run(take_part())


def test_many_at_once_and_half_of_them_cancelled(agent: "FakeAgent") -> None:
    """A hundred calls together, of which every second is cancelled somewhere: each charge has one response."""

    async def take_part(ledger: Ledger) -> int:
        client = AsyncClient(agent.url, "headline", key="k", limits=LIMITS, ledger=ledger)

        async def pull() -> None:
            await (await client.decide()).observe(1)

        calls = [is_cancelled(pull(), at // 2 % 2 if at % 2 else 10**6, late=at % 4 == 1) for at in range(100)]
        done = await asyncio.gather(*calls)
        await client.close()
        await settle(agent, ledger)
        return done.count(False)

    agent.decision["curator"] = CTB_50
    ledger = Ledger(":memory:")
    whole = asyncio.run(take_part(ledger))
    with ledger.database.transaction() as transaction:
        charged = transaction.execute("SELECT count(*) FROM spent").fetchone()[0]
    ledger.close()
    assert 50 <= whole <= charged == len(agent.counted) <= 100
    assert all(len(set(agent.bodies(ticket))) == 1 for ticket in agent.counted)


def test_a_timeout_of_the_app_is_kept(agent: "FakeAgent") -> None:
    """A server that does not answer, or a ledger that is locked, does not hold whoever has less patience."""

    def answer_late(*_: object) -> tuple[int, object]:
        agent._news.wait(0.5)
        return 503, {}

    agent.answer = answer_late  # type: ignore[method-assign,assignment]

    async def take_part() -> None:
        async with AsyncClient(agent.url, "headline", key="k", limits=LIMITS, ledger=":memory:") as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await client.decide()
            assert client._client is not None
            with client._client._ledger.database.transaction(), pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await client.spent()
            assert await client.spent() == 0

    asyncio.run(take_part())


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_a_call_that_is_cancelled_shows_no_reward(
    agent: "FakeAgent",
    late: bool,  # noqa: FBT001 - a case
) -> None:
    """No frame of the traceback that whoever cancels it gets holds the reward."""
    agent.decision["report_after"] = 0

    async def take_part() -> int:
        async with AsyncClient(agent.url, "headline", key="k", limits=LIMITS, ledger=":memory:") as client:
            for at in count():
                pull = await client.decide()
                try:
                    await CancelledAt(pull.observe(REWARD), at, late=late)
                except asyncio.CancelledError as error:
                    assert not shows(error)  # noqa: PT017 - it is not to leave this task
                    task = asyncio.current_task()
                    assert task is not None
                    task.uncancel()
                else:
                    return at
        return 0

    assert asyncio.run(take_part()) > 0


def test_an_error_shows_no_reward(agent: "FakeAgent", monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither that of a reward that is refused nor that of the randomness, whichever way a reward is observed."""

    def fail(_: int) -> bytes:
        raise MemoryError

    async def take_part() -> None:
        async with AsyncClient(agent.url, "headline", key="k", limits=LIMITS, ledger=":memory:") as client:
            pull = await client.decide()
            ways: list[Callable[..., Awaitable[bool]]] = [pull.observe, partial(client.observe, str(pull.ticket))]
            for observe in ways:
                with pytest.raises(ValueError, match="a reward must lie") as caught:
                    await observe(7.12345, clip=False)
                assert not shows(caught.value, 7.12345)
            with monkeypatch.context() as patch:
                patch.setattr(randomness, "urandom", fail)
                for observe in ways:
                    with pytest.raises(MemoryError) as failed:
                        await observe(REWARD)
                    assert not shows(failed.value)
            assert await pull.observe(REWARD) is True

    asyncio.run(take_part())


def test_a_refusal_is_raised_in_the_task_that_asked(agent: "FakeAgent") -> None:
    """Of calls that wait together, each gets its own answer."""

    async def take_part() -> list[Any]:
        async with AsyncClient(agent.url, "headline", key="k", limits=LIMITS, ledger=":memory:") as client:
            return await asyncio.gather(*(client.decide() for _ in range(6)), return_exceptions=True)

    agent.script = [
        (200, {"ticket": f"t{number}", **agent.decision}) if number % 2 else (503, {}) for number in range(6)
    ]
    answers = asyncio.run(take_part())
    assert [isinstance(answer, ServerError) for answer in answers] == [True, False] * 3
    assert [answer.ticket for answer in answers[1::2]] == ["t1", "t3", "t5"]


def hang(agent: "FakeAgent") -> tuple[Event, Event]:
    """Let the agent keep its answers back; say when it is asked, and let it answer."""
    answer, is_asked, may_answer = agent.answer, Event(), Event()

    def answer_late(path: str, message: Any) -> tuple[int, object]:
        is_asked.set()
        may_answer.wait(30)
        return answer(path, message)

    agent.answer = answer_late  # type: ignore[method-assign]
    return is_asked, may_answer


def test_a_decision_that_is_cancelled_may_be_charged_and_is_answered_with_the_default(agent: "FakeAgent") -> None:
    """Its pull is in `pulls()`, may be observed, and has the response of the default when the device leaves."""
    agent.decision |= {"curator": CTB_50, "default": 1}
    is_asked, may_answer = hang(agent)

    async def take_part() -> None:
        async with AsyncClient(agent.url, "headline", key="k", limits=LIMITS, ledger=":memory:") as client:
            deciding = asyncio.create_task(client.decide())
            await asyncio.to_thread(is_asked.wait, 20)
            deciding.cancel()
            await asyncio.wait([deciding])
            assert await client.pulls() == []
            may_answer.set()
            await client.flush()  # which comes after it in its thread
            (pull,) = await client.pulls()
            assert (pull.ticket, await client.spent()) == ("ticket-1", 50)

    asyncio.run(take_part())
    assert agent.counted == {"ticket-1": 1.0}


def test_a_call_that_still_waits_for_its_turn_is_not_made(agent: "FakeAgent") -> None:
    """Of three decisions the second is cancelled while the first is under way: nobody asks for it."""
    is_asked, may_answer = hang(agent)

    async def take_part() -> float:
        async with AsyncClient(agent.url, "headline", key="k", limits=LIMITS, ledger=":memory:") as client:
            first, second, third = (asyncio.create_task(client.decide()) for _ in range(3))
            await asyncio.to_thread(is_asked.wait, 20)
            second.cancel()
            await asyncio.wait([second])
            may_answer.set()
            await asyncio.wait([first, third])
            return await client.spent()

    assert asyncio.run(take_part()) == 1
    assert agent.counted.keys() == {"ticket-1", "ticket-2"}


@pytest.mark.parametrize("is_closed", [False, True], ids=["open", "closed"])
def test_a_cancelled_call_holds_up_neither_the_loop_nor_leaving(
    agent: "FakeAgent",
    monkeypatch: pytest.MonkeyPatch,
    is_closed: bool,  # noqa: FBT001 - a case
) -> None:
    """An agent that never answers has a timeout of a minute: the loop ends at once, and leaving in its time."""
    monkeypatch.setattr(client_module, "LEAVE_TIMEOUT_S", 0.5)
    is_asked, may_answer = hang(agent)

    async def take_part() -> AsyncClient:
        client = AsyncClient(agent.url, "headline", key="k", limits=LIMITS, ledger=":memory:", timeout=60)
        deciding = asyncio.create_task(client.decide())
        await asyncio.to_thread(is_asked.wait, 20)
        deciding.cancel()
        await asyncio.wait([deciding])
        if is_closed:
            await client.close()
        return client

    start = monotonic()
    client = asyncio.run(take_part())
    assert monotonic() - start < 10
    may_answer.set()
    if is_closed:  # its request was broken off: nothing is charged
        assert agent.until(lambda: len(agent.requests) == 1)
    elif client._client is not None:
        client._client.close()
