"""A thread or a task sends what is due, while a client is open and not a moment longer."""

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.device.conftest import only_client

from ldpbandits import Client, Limits, Range, TicketError
from ldpbandits.device.background_sender import MAX_PAUSE_S
from ldpbandits.device.decision import YEAR_S
from ldpbandits.device.ledger import Ledger

if TYPE_CHECKING:
    from tests.device.conftest import Device, FakeAgent


LIMITS = Limits(Range(0, 1), 1, 10)


def background_threads() -> list[threading.Thread]:
    """The threads in the background, of all clients."""
    return [thread for thread in threading.enumerate() if thread.name == "ldpbandits"]


@pytest.mark.parametrize("is_observed", [False, True])
def test_a_response_is_sent_at_its_moment_without_a_call(
    agent: "FakeAgent",
    device: "Device",
    is_observed: bool,  # noqa: FBT001 - a case
) -> None:
    """With a reward and without, the thread sends it once, and not before."""
    agent.decision["report_after"] = 0.3
    client = device(background=True)
    pull = client.decide()
    if is_observed:
        pull.observe(1)
    assert agent.until(lambda: len(agent.counted) == 1)
    assert pull.report_at is not None
    assert time.time() >= pull.report_at
    with pytest.raises(TicketError):
        pull.observe(1)
    client.close()
    assert len(agent.bodies("ticket-1")) == 1


def test_what_failed_is_sent_again_without_a_call(agent: "FakeAgent", device: "Device") -> None:
    """The thread repeats the same bytes when the wait is over."""
    client = device(background=True)
    client.decide()
    agent.script = [(503, {})]
    assert client.leave().waiting == 1
    assert agent.until(lambda: "ticket-1" in agent.counted)
    assert len(set(agent.bodies("ticket-1"))) == 1


def test_what_an_earlier_client_left_is_sent_without_a_call(agent: "FakeAgent", device: "Device") -> None:
    """After a restart it is enough to make the client."""
    agent.decision["report_after"] = 0.01
    earlier = device()
    earlier.decide()
    earlier.decide()
    earlier.close(keep=True)
    kept = {entry.ticket: entry.response for entry in device()._outbox.entries()}
    device(background=True)
    assert agent.until(lambda: len(agent.counted) == 2)
    assert agent.counted == kept


def test_the_thread_ends_with_the_client(agent: "FakeAgent", path: Path) -> None:
    """A client starts a thread with its first pull, `with` ends it, and to close twice does no harm."""
    with Client(agent.url, "headline", key="k", limits=LIMITS, ledger=path) as client:
        assert background_threads() == []
        client.decide()
        (thread,) = background_threads()
        client.decide()
        assert background_threads() == [thread]
    assert background_threads() == []
    client.close()
    assert not thread.is_alive()


def test_a_closed_client_sends_no_more(agent: "FakeAgent", device: "Device") -> None:
    """What was kept when it was closed is left to the next one."""
    agent.decision["report_after"] = 1.5
    client = device(background=True)
    client.decide()
    client.close(keep=True)
    assert not threading.Event().wait(1.7)
    assert agent.counted == {}
    assert device().flush(now=1e12).acknowledged == 1


def test_close_waits_for_one_request_at_the_most(agent: "FakeAgent", device: "Device") -> None:
    """However much waits to be sent from before, the thread ends after what is under way."""
    agent.decision["report_after"] = 0.01
    first = device()
    for _ in range(10):
        first.decide()
    first.close(keep=True)
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
    while not client._background._is_closed:  # type: ignore[union-attr]
        threading.Event().wait(0.001)
    may_answer.set()
    closing.join(5)
    assert not closing.is_alive()
    assert len(agent.counted) == 1


def test_without_background_there_is_no_thread(agent: "FakeAgent", device: "Device") -> None:
    """Then only calls send."""
    client = device(background=False)
    client.decide()
    assert background_threads() == []
    assert client.flush(now=1e12).acknowledged == 1


def test_a_ledger_that_cannot_be_written_does_not_make_the_thread_flood_the_agent(
    agent: "FakeAgent", device: "Device", path: Path
) -> None:
    """An acknowledgement that cannot be written down is asked for again after longer and longer, not all the time."""
    agent.decision["report_after"] = 0.01
    ledger = Ledger(path)
    device(ledger=ledger).decide()
    ledger.database._connection.execute(
        "CREATE TEMP TRIGGER full BEFORE DELETE ON pulls BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
    )
    ledger.database._connection.execute(
        "CREATE TEMP TRIGGER free AFTER UPDATE OF next_try ON pulls BEGIN UPDATE pulls SET next_try = 0; END"
    )
    client = device(background=True, ledger=ledger)
    assert agent.until(lambda: len(agent.bodies("ticket-1")) >= 3)
    assert not threading.Event().wait(0.5)
    assert len(agent.bodies("ticket-1")) <= 5  # 10 more without the growing wait
    client.close()
    ledger.close()


@only_client
def test_no_wait_is_too_long_for_a_lock(agent: "FakeAgent", device: "Device", monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a ticket of a year the thread looks again every five minutes: clocks are set, computers sleep."""
    waits: list[float | None] = []
    agent.decision |= {"expires_in": YEAR_S, "report_after": YEAR_S / 2}
    client = device(background=True)
    assert client._background is not None
    news = client._background._wakeup
    wait = news.wait

    def watched(timeout: float | None) -> bool:
        waits.append(timeout)
        return wait(0.01)

    monkeypatch.setattr(news, "wait", watched)
    client.decide()
    while len(waits) < 2:
        threading.Event().wait(0.001)
    client.close()
    assert set(waits) == {MAX_PAUSE_S}


FORK = """
import os, sys
from ldpbandits import Client, Limits, Range
limits = Limits(Range(0, 1), 1, 1000, at_once=True)
client = Client(sys.argv[1], "headline", key="k", limits=limits, ledger=sys.argv[2])
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
    assert client._background._thread.is_alive()
client.close()
if children[-1]:
    sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
"""


def test_a_client_goes_on_after_fork(agent: "FakeAgent", path: Path) -> None:
    """Parent and children speak over connections of their own, hold no lock of each other, and have their threads."""
    agent.decision["report_after"] = 0
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
