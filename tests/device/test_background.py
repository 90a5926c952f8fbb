"""A thread sends what is due, while a client is open and not a moment longer."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ldpbandits import Client, Limits, TicketError
from ldpbandits.device.client import LONGEST_LIFETIME
from ldpbandits.device.keeper import LONGEST_SLEEP
from ldpbandits.device.ledger import Ledger
from ldpbandits.types import Response

if TYPE_CHECKING:
    from tests.device.conftest import Device, FakeAgent


def keepers() -> list[threading.Thread]:
    """The threads in the background, of all clients."""
    return [thread for thread in threading.enumerate() if thread.name == "ldpbandits"]


def test_the_default_is_sent_without_a_call(agent: "FakeAgent", device: "Device") -> None:
    """No reward comes: when the ticket's time is nearly up, the thread privatises the default and sends it, once."""
    agent.decision["expires_in"] = 0.2
    client = device(background=True)
    pull = client.decide()
    assert agent.until(lambda: pull.ticket in agent.counted)
    with pytest.raises(TicketError):
        pull.observe(1)
    client.close()
    assert len(agent.bodies(pull.ticket)) == 1


def test_what_failed_is_sent_again_without_a_call(agent: "FakeAgent", device: "Device") -> None:
    """The thread repeats the same bytes when the wait is over."""
    client = device(background=True)
    pull = client.decide()
    agent.script = [(503, {})]
    assert pull.observe(1) is False
    assert agent.until(lambda: pull.ticket in agent.counted)
    assert len(set(agent.bodies(pull.ticket))) == 1


def test_what_an_earlier_client_left_is_sent_without_a_call(agent: "FakeAgent", device: "Device") -> None:
    """After a restart it is enough to make the client."""
    agent.decision["expires_in"] = 0.01
    earlier = device()
    answered, unanswered = earlier.decide(), earlier.decide()
    earlier._outbox.answer(answered.ticket, Response(1.0), 0)
    earlier.close()
    device(background=True)
    assert agent.until(lambda: len(agent.counted) == 2)
    assert agent.counted[answered.ticket] == 1.0
    assert unanswered.ticket in agent.counted


def test_the_thread_ends_with_the_client(agent: "FakeAgent", path: Path) -> None:
    """A client starts a thread with its first pull, `with` ends it, and to close twice does no harm."""
    with Client(agent.url, "headline", key="k", limits=Limits(1, 10), ledger=path) as client:
        assert keepers() == []
        client.decide()
        (keeper,) = keepers()
        client.decide()
        assert keepers() == [keeper]
    assert keepers() == []
    client.close()
    assert not keeper.is_alive()


def test_a_closed_client_sends_no_more(agent: "FakeAgent", device: "Device") -> None:
    """What was open when it was closed is left to the next one."""
    agent.decision["expires_in"] = 0.2
    client = device(background=True)
    client.decide()
    client.close()
    assert not threading.Event().wait(0.3)
    assert agent.counted == {}
    assert device().flush(now=1e12).acknowledged == 1


def test_close_waits_for_one_request_at_the_most(agent: "FakeAgent", device: "Device") -> None:
    """However much waits to be sent, the thread ends after what is under way."""
    agent.decision["expires_in"] = 0.01
    first = device()
    for _ in range(10):
        first.decide()
    answer, is_asked, may_answer = agent.answer, threading.Event(), threading.Event()

    def answer_slowly(path: str, message: Any) -> tuple[int, object]:
        is_asked.set()
        may_answer.wait(5)
        return answer(path, message)

    agent.answer = answer_slowly  # type: ignore[method-assign]
    client = device(background=True)
    assert is_asked.wait(5)
    closing = threading.Thread(target=client.close)
    closing.start()
    while not client._keeper._is_closed:  # type: ignore[union-attr]
        threading.Event().wait(0.001)
    may_answer.set()
    closing.join(5)
    assert not closing.is_alive()
    assert len(agent.counted) == 1


def test_without_background_there_is_no_thread(agent: "FakeAgent", device: "Device") -> None:
    """Then only calls send."""
    agent.decision["expires_in"] = 0.01
    client = device(background=False)
    client.decide()
    assert keepers() == []
    assert client.flush(now=1e12).acknowledged == 1


def test_a_ledger_that_cannot_be_written_does_not_make_the_thread_flood_the_agent(
    agent: "FakeAgent", device: "Device", path: Path
) -> None:
    """An acknowledgement that cannot be written down is asked for again after longer and longer, not all the time."""
    ledger = Ledger(path)
    earlier = device(ledger=ledger)
    pull = earlier.decide()
    earlier._outbox.answer(pull.ticket, Response(1.0), 0)
    ledger.database._connection.execute(
        "CREATE TEMP TRIGGER full BEFORE DELETE ON pulls BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
    )
    client = device(background=True, ledger=ledger)
    assert agent.until(lambda: len(agent.bodies(pull.ticket)) >= 3)
    assert not threading.Event().wait(0.5)
    assert len(agent.bodies(pull.ticket)) <= 5  # 10 more without the growing wait
    client.close()
    ledger.close()


def test_no_wait_is_too_long_for_a_lock(agent: "FakeAgent", device: "Device", monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a ticket of a year the thread looks again every five minutes: clocks are set, computers sleep."""
    waits: list[float | None] = []
    agent.decision["expires_in"] = LONGEST_LIFETIME
    client = device(background=True)
    assert client._keeper is not None
    news = client._keeper._news
    wait = news.wait

    def watched(timeout: float | None) -> bool:
        waits.append(timeout)
        return wait(0.01)

    monkeypatch.setattr(news, "wait", watched)
    client.decide()
    while len(waits) < 2:
        threading.Event().wait(0.001)
    client.close()
    assert set(waits) == {LONGEST_SLEEP}


FORK = """
import os, sys
from ldpbandits import Client, Limits
client = Client(sys.argv[1], "headline", key="k", limits=Limits(1, 1000), ledger=sys.argv[2])
client.decide().observe(1)
children = []
for _ in range(3):
    child = os.fork()
    children.append(child)
    if child == 0:
        break
for _ in range(15):
    assert client.decide().observe(1) is True
if children[-1] == 0:
    assert client._keeper._thread.is_alive()
client.close()
if children[-1]:
    sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
"""


def test_a_client_goes_on_after_fork(agent: "FakeAgent", path: Path) -> None:
    """Parent and children speak over connections of their own, hold no lock of each other, and have their threads."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK, agent.url, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(agent.counted) == 1 + 4 * 15
    assert len(agent.requests) == 2 * len(agent.counted)
    assert len({request.connection for request in agent.requests}) == 4
