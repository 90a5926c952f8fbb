"""What is an asyncio client's own: many calls at once, a loop that is never held up, and an end that loses nothing.

All that it has in common with `Client` is tested with that: `device` makes either.
"""

import asyncio
import gc
import os
import sqlite3
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ldpbandits import AsyncClient, Client, Ledger, LedgerError, LimitError, Limits, ParameterError, Range
from ldpbandits.device.database import Database
from ldpbandits.device.wire import AgentConnection

if TYPE_CHECKING:
    from tests.device.conftest import FakeAgent

LIMITS = Limits(Range(0, 1), 1, 10)


def client_of(agent: "FakeAgent", ledger: Ledger | Path | str = ":memory:", **options: Any) -> AsyncClient:
    """Make a client of this agent."""
    return AsyncClient(agent.url, "headline", **{"key": "k", "limits": LIMITS, "ledger": ledger, **options})


def test_many_decisions_at_once_keep_to_the_budget(agent: "FakeAgent") -> None:
    """Of 60 calls together 20 fit into the budget: so many are charged, each on its ticket, on one connection."""

    async def take_part() -> tuple[list[Any], float, float]:
        async with client_of(agent) as client:
            answers = await asyncio.gather(*(client.decide() for _ in range(60)), return_exceptions=True)
            return answers, await client.spent(), await client.remaining()

    answers, spent, remaining = asyncio.run(take_part())
    tickets = {answer.ticket for answer in answers if not isinstance(answer, LimitError)}
    assert (len(tickets), spent, remaining) == (20, 10, 0)
    assert agent.counted.keys() == tickets
    assert len({request.connection for request in agent.requests}) == 1


def test_many_who_ask_for_a_sticky_arm_at_once_get_one_pull(agent: "FakeAgent") -> None:
    """One of them is charged, and all show what it got."""
    agent.decision["sticky"] = 1000

    async def take_part() -> tuple[set[str | None], float]:
        async with client_of(agent) as client:
            pulls = await asyncio.gather(*(client.decide() for _ in range(10)))
            return {pull.ticket for pull in pulls}, await client.spent()

    tickets, spent = asyncio.run(take_part())
    assert (len(tickets), spent) == (1, 0.5)


def test_clients_of_both_kinds_share_a_ledger(agent: "FakeAgent", path: Path) -> None:
    """What one has decided the other may observe, and the budget is one."""

    async def take_part(ticket: str) -> float:
        async with client_of(agent, path) as client:
            assert [pull.ticket for pull in await client.pulls()] == [ticket]
            assert await client.observe(ticket, 1) is True
            await client.decide()
            return await client.spent()

    with Client(agent.url, "headline", key="k", limits=LIMITS, ledger=path) as client:
        pull = client.decide()
        assert asyncio.run(take_part(str(pull.ticket))) == client.spent() == 1
        assert client.pulls() == []
    assert agent.counted.keys() == {"ticket-1", "ticket-2"}


def test_nothing_is_waited_for_on_the_event_loop(
    agent: "FakeAgent", path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger is opened, used and closed in a thread; there the agent is asked, and certificates are read."""
    here, elsewhere = threading.get_ident(), list[str]()

    def watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def watch(*args: Any, **options: Any) -> Any:
            assert threading.get_ident() != here, name
            elsewhere.append(name)
            return function(*args, **options)

        return watch

    steps = [(Database, "__init__"), (Database, "transaction"), (Database, "close"), (AgentConnection, "post")]
    for owner, name in steps:
        monkeypatch.setattr(owner, name, watched(name, getattr(owner, name)))
    certificates = watched("certificates", ssl.create_default_context)
    monkeypatch.setattr(ssl, "_create_default_https_context", certificates)  # which http.client calls

    async def take_part() -> None:
        async with client_of(agent, path) as client:
            await (await client.decide()).observe(1)
            await client.decide()
            await client.pulls()
            await client.spent()
            await client.remaining()
            await client.flush(now=1e12)
            await client.leave()
        async with AsyncClient("https://127.0.0.1:9", "x", key="k", limits=LIMITS, ledger=path) as other:
            with pytest.raises(Exception, match="cannot be reached"):
                await other.decide()

    asyncio.run(take_part())
    assert set(elsewhere) == {"__init__", "transaction", "close", "post", "certificates"}


def test_a_ledger_that_is_locked_holds_up_nobody_else(agent: "FakeAgent", path: Path) -> None:
    """While another process is at the ledger, the event loop goes on; then the call does."""

    async def take_part() -> None:
        async with client_of(agent, path) as client:
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            asked = asyncio.create_task(client.decide())
            for _ in range(20):
                await asyncio.sleep(0.005)
            assert not asked.done()
            other.execute("ROLLBACK")
            other.close()
            assert (await asked).name == "green"

    asyncio.run(take_part())


def test_a_client_that_is_made_touches_nothing(agent: "FakeAgent", path: Path) -> None:
    """The ledger is opened at first use, or with the block; one that was never used closes without a trace."""

    async def take_part() -> None:
        client = client_of(agent, path)
        assert threads() == []
        await client.close()
        assert not os.path.exists(path)  # noqa: ASYNC240, PTH110 - a test
        async with client_of(agent, path):
            assert os.path.exists(path)  # noqa: ASYNC240, PTH110 - as above

    asyncio.run(take_part())
    assert agent.requests == []


WRONG: dict[str, list[Any]] = {
    "url": [None, "", "agent.example", 5, b"http://a"],
    "experiment": [None, "", 5, b"headline", "half \ud83d"],
    "key": [None, "", "a\nb", 5, b"k"],
    "limits": [None, 5, {"epsilon": 1}, Limits],
    "timeout": [None, 0, -1, float("nan"), float("inf"), "10", True],
}


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_wrong_arguments_are_refused_before_anything_is_awaited(kind: Any, name: str, value: Any) -> None:
    """They are checked when the client is made, of either kind, by the rule: what came of `os.environ.get`, too."""
    given = {"url": "http://a", "experiment": "headline", "key": "k", "limits": LIMITS, "ledger": ":memory:"}
    with pytest.raises(ParameterError, match=r"must be|looks like|a key must") as error:
        kind(**{**given, name: value})
    assert "\n" not in str(error.value)


def test_a_client_belongs_to_one_event_loop(agent: "FakeAgent") -> None:
    """Another is told so; the first can still close it."""
    with asyncio.Runner() as first, asyncio.Runner() as second:
        client = client_of(agent)
        first.run(client.decide())
        with pytest.raises(ParameterError, match="belongs to the event loop that first used it"):
            second.run(client.decide())
        first.run(client.close())
    assert len(agent.counted) == 1


def threads() -> list[threading.Thread]:
    """The threads of all clients."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("ldpbandits")]


def has_ended() -> bool:
    """Tell whether the threads of all clients end by themselves."""
    for thread in threads():
        thread.join(5)
    return threads() == []


def test_nothing_is_left_of_a_client_that_is_closed(agent: "FakeAgent", path: Path) -> None:
    """Neither a task nor one of its three threads; its ledger is closed, and to call it is an error in a sentence."""

    async def take_part() -> None:
        async with client_of(agent, path) as client:
            pull = await client.decide()
            assert {thread.name for thread in threads()} == {"ldpbandits", "ldpbandits-agent", "ldpbandits-ledger"}
        assert asyncio.all_tasks() == {asyncio.current_task()}
        for call in (client.decide, client.spent, lambda: pull.observe(1), client.leave):
            with pytest.raises(LedgerError, match="this client is closed"):
                await call()
        await client.close()

    asyncio.run(take_part())
    assert has_ended()


def test_nothing_is_left_of_a_client_whose_ledger_cannot_be_opened(agent: "FakeAgent", path: Path) -> None:
    """Of one in a block, which is not entered, and of one that is forgotten after its first call, no thread stays."""
    path.write_bytes(b"not a ledger" * 100)

    async def enter() -> None:
        async with client_of(agent, path):
            pytest.fail("the block was entered")

    async def ask() -> None:
        await client_of(agent, path).decide()

    for call in (enter, ask):
        with pytest.raises(LedgerError):
            asyncio.run(call())
        until = time.monotonic() + 5
        while threads() and time.monotonic() < until:
            gc.collect()  # again: the thread may have been in its last step
        assert threads() == []


@pytest.mark.parametrize("at", range(1, 7))
def test_a_close_that_is_cancelled_still_closes(agent: "FakeAgent", path: Path, at: int) -> None:
    """What could not be sent is sent at the next start; the thread ends."""

    async def take_part() -> None:
        client = client_of(agent, path)
        await client.decide()
        closing = asyncio.create_task(client.close())
        for _ in range(at):
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        with pytest.raises(LedgerError, match="this client is closed"):
            await client.spent()

    asyncio.run(take_part())
    assert has_ended()

    async def start_again() -> None:
        async with client_of(agent, path, background=False) as client:
            await client.flush(now=1e12)

    asyncio.run(start_again())
    assert len(agent.counted) == 1
    assert len(set(agent.bodies("ticket-1"))) == 1


START = """
import asyncio, os, sys
from ldpbandits import AsyncClient, Limits, Range
url, path = sys.argv[1:]
limits = Limits(Range(0, 1), 50, 1000)

async def main():
    client = AsyncClient(url, "headline", key="k", limits=limits, ledger=path, background={background})
    await (await client.decide()).observe(1)
    await client.decide()
    {ending}
    return client

"""
ENDS = {
    "kept": ("", "client = asyncio.run(main())"),
    "lost": ("", "asyncio.run(main())"),
    "exit": ("sys.exit(0)", "asyncio.run(main())"),
    "cancelled": ("asyncio.current_task().cancel(); await asyncio.sleep(1)", "asyncio.run(main())"),
    "closed": ("await client.close()", "asyncio.run(main())"),
    "no run": ("", "loop = asyncio.new_event_loop(); loop.run_until_complete(main())"),
}


@pytest.mark.parametrize(("end", "background"), [*((end, True) for end in ENDS), ("lost", False)])
def test_a_program_that_ends_leaves(
    agent: "FakeAgent",
    path: Path,
    end: str,
    background: bool,  # noqa: FBT001 - a case
) -> None:
    """Also when its event loop has ended before: both responses have arrived, once, and we print nothing."""
    agent.decision["curator"] = {"mechanism": "bernoulli", "epsilon": 50.0}
    ending, call = ENDS[end]
    script = START.format(background=background, ending=ending) + call
    done = subprocess.run(
        [sys.executable, "-c", script, agent.url, str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    said = "CancelledError" if end == "cancelled" else ""
    assert said in done.stderr  # what asyncio says of any program that ends so
    assert said or (done.returncode, done.stderr) == (0, "")
    assert agent.counted == {"ticket-1": 1.0, "ticket-2": 0.0}
    assert len(agent.requests) == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_sends_nothing_of_its_parents(agent: "FakeAgent", path: Path) -> None:
    """What the parent decided goes on to wait for its moment when a child ends."""
    fork = """
    child = os.fork()
    if child == 0:  # which must leave the event loop alone, as that of its parent
        import atexit
        atexit._run_exitfuncs()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    await client.close(keep=True)
"""
    script = START.format(background=True, ending=fork.strip()) + "asyncio.run(main())"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, agent.url, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert agent.counted == {}
