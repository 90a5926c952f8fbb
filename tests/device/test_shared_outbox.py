"""Several processes and threads share an outbox: each response is sent by one of them."""

import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldpbandits import Client, Ledger, Limits, Range, TicketError

if TYPE_CHECKING:
    from tests.device.conftest import Device, FakeAgent

PULLS = 12
LIMITS = Limits(Range(0, 1), 1, 1000)

TAKE_PART = """
import sys
from ldpbandits import Client, Limits, Range
limits = Limits(Range(0, 1), 1, 1000)
client = Client(sys.argv[1], "headline", key="k", limits=limits, ledger=sys.argv[2], background=False)
print("ready", flush=True)
sys.stdin.readline()
told = client.flush(now=1e12)
while client._outbox.entries():
    client.flush(now=1e12)
client.close()
"""


def sent(agent: "FakeAgent") -> Counter[bytes]:
    """How often each body with a response came."""
    return Counter(request.body for request in agent.requests if request.path.endswith("/responses"))


def hoard(device: "Device") -> None:
    """Leave pulls behind, as a crash would."""
    client = device(limits=LIMITS)
    for _ in range(PULLS):
        client.decide()
    client.close(keep=True)


def test_processes_that_start_together_send_each_response_once(
    agent: "FakeAgent", device: "Device", path: Path
) -> None:
    """Three processes find the same responses due: between them each is sent, and none twice."""
    hoard(device)
    command = [sys.executable, "-c", TAKE_PART, agent.url, str(path)]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    children = [subprocess.Popen(command, text=True, **pipes) for _ in range(3)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    assert [child.communicate(timeout=60)[1] for child in children] == [""] * 3
    assert len(agent.counted) == PULLS
    assert set(sent(agent).values()) == {1}


def test_threads_send_each_response_once(agent: "FakeAgent", device: "Device", quick: Ledger) -> None:
    """Two clients of one process with a thread each, and calls from others beside them."""
    agent.decision["report_after"] = 0.05
    clients: list[Client] = [device(limits=LIMITS, ledger=quick, background=True) for _ in range(2)]

    def take_part(client: Client) -> None:
        for number in range(PULLS // 4):
            pull = client.decide()
            with suppress(TicketError):  # this machine may be slow
                assert number % 2 or pull.observe(1)
            client.flush()

    threads = [threading.Thread(target=take_part, args=(client,)) for client in clients * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert agent.until(lambda: len(agent.counted) == PULLS)
    for client in clients:
        client.close()
    assert set(sent(agent).values()) == {1}


def test_who_died_while_sending_is_followed_by_another(agent: "FakeAgent", device: "Device") -> None:
    """A response that somebody took is left to him for the length of a request, and then sent by whoever looks."""
    agent.decision["report_after"] = 0.001
    hoard(device)
    dead, client = device(limits=LIMITS, timeout=5), device(limits=LIMITS)
    entries = dead._outbox.entries()
    now = max(entry.report_at for entry in entries)
    for entry in entries:
        assert dead._outbox.take(entry.ticket, LIMITS, now, lease=6) is not None
    assert client.flush(now=now + 5.9).waiting == PULLS
    assert client.flush(now=now + 6).acknowledged == PULLS
