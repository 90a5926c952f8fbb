"""A response is written down before it is first sent, and repeated unchanged until the agent has answered for it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.device.conftest import watch_posts

from ldpbandits import Client, Flushed, ServerError, TicketError
from ldpbandits.device.ledger import Ledger
from ldpbandits.device.outbox import Outbox
from ldpbandits.spec.protocol import FINAL

if TYPE_CHECKING:
    from tests.device.conftest import Clock, Device, FakeAgent

LAPLACE = {"mechanism": "laplace", "epsilon": 1.0}
"""Two draws of it are the same once in a million, so that a response that was drawn anew shows."""

MAY_PASS: list[str | tuple[int, object]] = [
    "drop",
    "lose",
    (500, {"code": "internal", "message": "a bug"}),
    (503, {"code": "retry", "message": "nothing was written"}),
    (503, b"<html>busy</html>"),
    (401, {"code": "unauthorized", "message": "a key is needed"}),
    (403, {"code": "forbidden", "message": "this needs the admin key"}),
    (404, b"Not Found"),
    (410, b"gone"),
    (429, {"message": "slowly"}),
    (422, {"code": ["impossible"]}),
    (302, {"status": "counted"}),
    (202, {"status": "counted"}),
    (200, b"<html>Welcome to the hotel</html>"),
    (200, b""),
    (200, b'{"status": "coun'),
    (200, b"[" * 100_000),
    (200, []),
    (200, "counted"),
    (200, {}),
    (200, {"status": None}),
    (200, {"status": ["counted"]}),
    (200, {"status": "refused", "code": "forged"}),
]


def entries(client: Client) -> Any:
    """What is in the outbox of this client."""
    return client._outbox.entries()


def test_the_response_is_on_disk_before_it_is_sent(agent: "FakeAgent", device: "Device", path: Path) -> None:
    """While the first request is under way, another process finds that response in the file, as one that has left."""
    agent.decision["curator"] = LAPLACE
    client = device()
    pull = client.decide()
    on_disk: list[float] = []

    def look(*_: object) -> None:
        other = Ledger(path)
        on_disk.extend(entry.response for entry in Outbox(other, agent.url, "headline").entries() if entry.has_left)
        other.close()

    watch_posts(client, before=look)
    pull.observe(0.5)
    client.leave()
    assert on_disk == [agent.counted[str(pull.ticket)]]


@pytest.mark.parametrize("failure", MAY_PASS, ids=lambda failure: repr(failure)[:40])
def test_what_may_pass_is_tried_again_with_the_same_bytes(
    agent: "FakeAgent", device: "Device", clock: "Clock", drawn: list[int], failure: Any
) -> None:
    """Whatever goes wrong on the way, one response is drawn, all that is sent is the same, and it counts once."""
    agent.decision["curator"] = LAPLACE
    client = device()
    ticket = str(client.decide().ticket)
    client.observe(ticket, 0.5)
    draws = sum(count > 8 for count in drawn)
    clock.wait(300)
    agent.script = [failure, failure, failure]  # a connection that was open and breaks is tried twice at once
    assert client.flush() == Flushed(acknowledged=0, waiting=1, refused=())
    agent.script = []
    assert client.flush().waiting == 1  # not yet
    clock.wait(1)
    assert client.flush() == Flushed(acknowledged=1, waiting=0, refused=())
    assert client.flush(now=1e12).acknowledged == 0
    bodies = agent.bodies(ticket)
    assert len(bodies) >= 2
    assert len(set(bodies)) == 1
    assert json.loads(bodies[0])["response"] == agent.counted[ticket]
    assert draws == sum(count > 8 for count in drawn) == 2  # for the default and for the reward


def test_a_connection_that_was_closed_meanwhile_is_opened_again_at_once(agent: "FakeAgent", device: "Device") -> None:
    """A server may hang up between two requests: nobody waits because of that, and nothing counts twice."""
    client = device()
    for _ in range(2):
        agent.script = ["hang up", "hang up"]
        client.decide()
        assert client.leave().acknowledged == 1
    assert len({request.connection for request in agent.requests}) == 4


def test_a_lost_reply_on_an_open_connection_is_settled_by_a_duplicate(agent: "FakeAgent", device: "Device") -> None:
    """The agent has counted, the reply is lost: the second try, at once, hears of a duplicate, and all is well."""
    client = device()
    client.decide()
    agent.script = ["lose"]
    assert client.leave().acknowledged == 1
    assert len(agent.bodies("ticket-1")) == 2
    assert len(agent.counted) == 1


def test_a_server_that_is_not_there(device: "Device", clock: "Clock", agent: "FakeAgent") -> None:
    """A decision says so; a response waits."""
    client = device()
    pull = client.decide()
    agent.close()
    with pytest.raises(ServerError, match="cannot be reached") as caught:
        client.decide()
    assert (caught.value.status, caught.value.code) == (0, "unreachable")
    assert pull.observe(1) is True
    clock.wait(400)
    assert client.flush().waiting == 1
    with pytest.raises(ServerError, match="cannot be reached"):
        device(url=f"http://{'x' * 70}.invalid").decide()


class Crash(Exception):  # noqa: N818 - reads as what it is
    """Whatever ends a program."""


def test_a_crash_just_before_sending_sends_what_was_written(
    agent: "FakeAgent", device: "Device", drawn: list[int]
) -> None:
    """The next client on the same ledger sends that response, without a draw and without the reward."""
    agent.decision["curator"] = LAPLACE
    client = device()
    client.decide().observe(0.5)

    def crash(*_: object) -> None:
        raise Crash

    watch_posts(client, before=crash)
    with pytest.raises(Crash):
        client.leave()
    (entry,) = entries(client)
    client.close(keep=True)
    again, before = device(), len(drawn)
    assert again.pulls() == []
    with pytest.raises(TicketError):
        again.observe("ticket-1", 0.5)
    assert again.flush().waiting == 1  # the one who took it may be sending it
    assert again.flush(now=entry.next_try).acknowledged == 1
    assert agent.counted == {"ticket-1": entry.response}
    assert len(drawn) == before


@pytest.mark.parametrize("code", sorted(FINAL))
def test_what_the_agent_will_never_take_is_dropped_and_told(agent: "FakeAgent", device: "Device", code: str) -> None:
    """flush() and leave() list it; it is not sent again, and what it cost stays spent."""
    client = device()
    refusal = (410, {"code": code, "message": "never"})
    for send in (client.leave, lambda: client.flush(now=1e12)):
        pull = client.decide()
        agent.script = [refusal]
        told = send()
        assert (told.acknowledged, told.waiting) == (0, 0)
        (error,) = told.refused
        assert (error.status, error.code) == (410, code)
        assert str(error) == "the server refuses (410): never"
        with pytest.raises(TicketError):
            pull.observe(1)
    assert entries(client) == []
    assert client.flush(now=1e13) == Flushed(0, 0, ())
    assert (client.spent(), client.remaining()) == (1, 9)


def test_waits_grow_to_five_minutes_and_differ_between_devices(
    agent: "FakeAgent", device: "Device", clock: "Clock"
) -> None:
    """The wait after the n-th failure is between half of 2^n seconds and all of it, never above 300, by chance."""
    clients = [device(ledger=Ledger(":memory:")) for _ in range(2)]
    waits: list[list[float]] = [[], []]
    for client, mine in zip(clients, waits, strict=True):
        client.decide()
        agent.script = [(503, {})] * 12
        client.leave()
        for _ in range(11):
            (entry,) = entries(client)
            mine.append(entry.next_try - clock.now)
            assert client.flush(now=entry.next_try - 0.001).waiting == 1
            clock.now = entry.next_try
            client.flush()
        client._ledger.close()
    assert len(agent.requests) == 2 * (1 + 12)
    for mine in waits:
        assert all(min(2**n, 300) / 2 <= wait <= min(2**n, 300) for n, wait in enumerate(mine))
    assert waits[0] != waits[1]


def test_a_server_that_is_away_for_weeks(agent: "FakeAgent", device: "Device", clock: "Clock") -> None:
    """The number of tries has no end: 2^1024 is more than a float holds, and nothing breaks there."""
    client = device()
    client.decide()
    agent.script = [(503, {})] * 2
    client.leave()
    client._ledger.database._connection.execute("UPDATE pulls SET tries = 5000")
    assert client.flush(now=1e12).waiting == 1
    assert 150 <= entries(client)[0].next_try - clock.now <= 300
    assert client.flush(now=1e13).acknowledged == 1


def test_an_acknowledgement_stands_though_it_cannot_be_written(agent: "FakeAgent", device: "Device") -> None:
    """A disk that is full after the response was sent makes no error of a success; the same is sent once more later."""
    client = device()
    client.decide()
    answer = agent.answer

    def fill_disk(path: str, message: Any) -> tuple[int, object]:
        client._ledger.database._connection.execute("PRAGMA query_only = ON")
        return answer(path, message)

    agent.answer = fill_disk  # type: ignore[method-assign]
    assert client.leave().acknowledged == 1
    client._ledger.database._connection.execute("PRAGMA query_only = OFF")
    assert client.flush(now=1e12).acknowledged == 1
    assert len(set(agent.bodies("ticket-1"))) == 1
    client._ledger.database._connection.execute("PRAGMA query_only = OFF")
