"""Whoever leaves sends what was decided there, reward or not, in a few seconds; the rest goes at the next start."""

import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ldpbandits import Flushed, Ledger, Limits, Range, TicketError
from ldpbandits.device import client as client_module
from ldpbandits.device.database import Database

if TYPE_CHECKING:
    from tests.device.conftest import Device, FakeAgent

CTB_50 = {"mechanism": "bernoulli", "epsilon": 50.0}
LIMITS = Limits(Range(0, 1), 50, 1000)


BEFORE: set[threading.Thread] = set()


@pytest.fixture(autouse=True)
def _threads_of_others() -> None:
    """Leave out the threads of clients that another test has not closed."""
    BEFORE.clear()
    BEFORE.update(threading.enumerate())


def ended() -> bool:
    """Tell whether the threads of all clients of this test end by themselves."""
    mine = [thread for thread in threading.enumerate() if thread not in BEFORE]
    threads = [thread for thread in mine if thread.name.startswith("ldpbandits")]
    for thread in threads:
        thread.join(20)
    return not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("way", ["leave", "close", "with"])
def test_leaving_sends_what_was_decided_here_reward_or_not(agent: "FakeAgent", device: "Device", way: str) -> None:
    """The kept response, or that of the default; after that no reward is taken."""
    agent.decision["curator"] = CTB_50
    client = device(limits=LIMITS)
    observed, silent = client.decide(), client.decide()
    observed.observe(1)
    if way == "with":
        with client:
            pass
    else:
        getattr(client, way)()
    assert agent.counted == {"ticket-1": 1.0, "ticket-2": 0.0}
    with pytest.raises(TicketError, match="unknown pull: its response was sent"):
        device(limits=LIMITS).observe(str(silent.ticket), 1)


def test_one_may_leave_and_go_on(agent: "FakeAgent", device: "Device") -> None:
    """As a page that is hidden and shown again."""
    client = device()
    for number in range(3):
        client.decide()
        assert client.leave() == Flushed(acknowledged=1, waiting=0, refused=())
        assert len(agent.counted) == number + 1
    assert client.leave() == Flushed(0, 0, ())
    assert len(agent.requests) == 6


def test_who_leaves_sends_nothing_of_others(agent: "FakeAgent", device: "Device") -> None:
    """A pull of another client that lives, or of before a restart, keeps its moment, though it was observed here."""
    other, client = device(), device()
    there = other.decide()
    client.decide()
    assert client.observe(str(there.ticket), 1) is True
    client.close()
    assert agent.counted.keys() == {"ticket-2"}
    assert other.leave().acknowledged == 1


def test_close_keep_leaves_pulls_as_they_are(agent: "FakeAgent", device: "Device") -> None:
    """For an app that goes on in another process: they keep their moments, and may be observed there."""
    client = device(background=True)
    pulls = [client.decide(), client.decide()]
    client.close(keep=True)
    assert agent.counted == {}
    again = device()
    assert again.pulls() == pulls
    assert [pull.observe(1) for pull in again.pulls()] == [True, True]
    assert again.flush(now=1e12).acknowledged == 2


def test_what_did_not_get_through_is_sent_at_the_next_start(
    agent: "FakeAgent", device: "Device", quick: Ledger
) -> None:
    """The first failure ends the attempt; all of them are due from then on, with the bytes that were tried."""
    client = device(ledger=quick)
    for _ in range(3):
        client.decide()
    agent.script = [(503, {})]
    client.close()
    assert len(agent.requests) == 4
    assert agent.counted == {}
    device(ledger=quick, background=True)
    assert agent.until(lambda: len(agent.counted) == 3)
    assert len(set(agent.bodies("ticket-1"))) == 1


def test_to_close_twice_or_without_a_ledger_is_harmless(agent: "FakeAgent", device: "Device", path: Path) -> None:
    """Whatever is gone by then, closing raises nothing."""
    client = device()
    client.decide()
    client._ledger.close()
    client.close()
    client.close()
    assert agent.counted == {}
    assert device().flush(now=1e12).acknowledged == 1


@pytest.mark.parametrize("background", [False, True])
def test_a_server_that_does_not_answer_holds_nobody_up(
    device: "Device",
    agent: "FakeAgent",
    monkeypatch: pytest.MonkeyPatch,
    quick: Ledger,
    background: bool,  # noqa: FBT001 - a case
) -> None:
    """Leaving takes its patience at the most, also when a request of the thread's hangs, and the response stays."""
    monkeypatch.setattr(client_module, "LEAVE_TIMEOUT_S", 0.5)
    agent.decision["report_after"] = 0.05 if background else 300
    client = device(background=background, timeout=60, ledger=quick)
    client.decide()
    answer, is_asked, may_answer = agent.answer, threading.Event(), threading.Event()

    def hang(path: str, message: Any) -> tuple[int, object]:
        is_asked.set()
        may_answer.wait(30)
        return answer(path, message)

    agent.answer = hang  # type: ignore[method-assign]
    if background:
        assert is_asked.wait(20)
    start = time.monotonic()
    client.close()
    assert time.monotonic() - start < 5
    assert is_asked.is_set()
    assert ended()
    may_answer.set()
    assert len(device(ledger=quick)._outbox.entries()) == 1


@pytest.mark.parametrize("background", [False, True])
def test_a_ledger_that_is_locked_holds_nobody_up(
    device: "Device",
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    background: bool,  # noqa: FBT001 - a case
) -> None:
    """What is in it is sent later; a thread that waits for it is left alone, and ends by itself."""
    monkeypatch.setattr(client_module, "LEAVE_TIMEOUT_S", 0.2)
    client = device(background=background)
    client.decide()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    client._wake()
    start = time.monotonic()
    client.close()
    assert time.monotonic() - start < 5
    other.execute("ROLLBACK")
    other.close()
    assert ended()
    client._ledger.close()
    assert device().flush(now=1e12).acknowledged == 1


START = """
import os, sys
from ldpbandits import Client, Limits, Range
url, path = sys.argv[1:]
limits = Limits(Range(0, 1), 50, 1000)
client = Client(url, "headline", key="k", limits=limits, ledger=path, background={background})
client.decide().observe(1)
client.decide()
"""

ENDS = {
    "end": "",
    "sys.exit": "sys.exit(0)",
    "unhandled": "raise SystemExit",
    "lost": "del client",
    "closed": "client.close()",
}

FORK = """
child = os.fork()
if child == 0:
    client.decide().observe(1)
    sys.exit({child_ends})
assert os.waitpid(child, 0)[1] == 0
os.write(1, b"parent\\n")
sys.stdin.readline()
client.close(keep=True)
"""


def run(script: str, url: str, path: Path, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a program that takes part."""
    command = [sys.executable, "-W", "ignore", "-c", script, url, str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


@pytest.mark.parametrize(("ending", "background"), [*((ending, True) for ending in ENDS), ("end", False)])
def test_a_program_that_ends_leaves(
    agent: "FakeAgent",
    path: Path,
    ending: str,
    background: bool,  # noqa: FBT001 - a case
) -> None:
    """However it ends, short of a crash: both responses have arrived, once, and nothing is printed."""
    agent.decision["curator"] = CTB_50
    done = run(START.format(background=background) + ENDS[ending], agent.url, path)
    assert (done.returncode, done.stderr) == (0, "")
    assert agent.counted == {"ticket-1": 1.0, "ticket-2": 0.0}
    assert len(agent.requests) == 4


def test_a_program_that_is_killed_leaves_it_to_the_next(agent: "FakeAgent", device: "Device", path: Path) -> None:
    """After a crash pulls wait for their moment; nothing is lost."""
    agent.decision["curator"] = CTB_50
    done = run(START.format(background=True) + "os.kill(os.getpid(), 9)", agent.url, path)
    assert done.returncode == -9
    assert agent.counted == {}
    again = device(limits=LIMITS)
    assert [pull.ticket for pull in again.pulls()] == ["ticket-2"]
    assert again.flush().acknowledged == 0
    assert again.flush(now=1e12).acknowledged == 2
    assert agent.counted == {"ticket-1": 1.0, "ticket-2": 0.0}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("child_ends", ["0", "client.close()"])
def test_a_child_sends_nothing_of_its_parents_at_its_end(
    agent: "FakeAgent", device: "Device", path: Path, child_ends: str
) -> None:
    """What the child decided is sent when it ends; what the parent decided goes on to wait for its moment."""
    script = START.format(background=True) + FORK.format(child_ends=child_ends)
    done = run(script, agent.url, path, input="\n")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "parent\n")
    assert agent.counted.keys() == {"ticket-3"}
    assert [pull.ticket for pull in device().pulls()] == ["ticket-2"]


def test_an_exit_takes_a_few_seconds_at_the_most_and_prints_nothing(agent: "FakeAgent", path: Path) -> None:
    """Two clients, and a server that has stopped to answer: they share the patience of one."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        away = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        script = START.format(background=True) + (
            "from ldpbandits.device import client as client_module\n"
            "from ldpbandits.device.wire import AgentConnection\n"
            "import time\n"
            "again = Client(url, 'colour', key='k', limits=limits, ledger=path)\n"
            "again.decide()\n"
            "for each in (client, again):\n"
            f"    each._connection = each._sender._connection = AgentConnection({away!r}, 'k', 10)\n"
            "client_module.LEAVE_TIMEOUT_S = 0.5\n"
            "import atexit\n"
            "start = time.monotonic()\n"
            "atexit._run_exitfuncs()\n"
            "print(time.monotonic() - start < 5)\n"
        )
        done = run(script, agent.url, path)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "True\n")
    assert agent.counted == {}


@pytest.mark.parametrize(
    ("fails_by", "printed"), [("KeyboardInterrupt", ""), ("SystemExit", ""), ("AssertionError", "AssertionError")]
)
def test_an_exit_hides_no_bug_of_ours(agent: "FakeAgent", path: Path, fails_by: str, printed: str) -> None:
    """An interrupt ends leaving without a word; an error that nobody expects is shown."""
    script = START.format(background=False) + (
        f"def fail(*_, **__):\n    raise {fails_by}\nclient._connection.post = fail\n"
    )
    done = run(script, agent.url, path)
    assert done.returncode == 0
    assert (printed in done.stderr) if printed else done.stderr == ""
    assert agent.counted == {}


def test_leaving_writes_its_first_response_down_in_one_transaction(
    agent: "FakeAgent", device: "Device", monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that reports, looks for and takes it, and one when it has arrived."""
    client = device()
    client.decide()
    begun: list[float] = []
    begin = Database._transaction_of

    def watched(*args: Any) -> Any:
        begun.append(time.monotonic())
        return begin(*args)

    monkeypatch.setattr(Database, "_transaction_of", watched)
    assert client.leave().acknowledged == 1
    assert len(begun) == 2
