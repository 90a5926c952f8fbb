"""An agent may say anything: what is no decision is refused in a sentence, and costs nothing."""

import json
import math
import socket
import sys
import time
from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest

from ldpbandits import LDPBanditsError, ServerError, TicketError
from ldpbandits.device import decision as device_decision
from ldpbandits.device.curators import CURATORS
from ldpbandits.spec import mechanisms

if TYPE_CHECKING:
    from tests.device.conftest import Device, FakeAgent

CTB = {"mechanism": "bernoulli", "epsilon": 0.5}
CONTROLS = ["\0", "\t", "\n", "\r", "\x1b", "\x1f", "\x7f", "\x80", "\x9f", "\u2028", "\u2029"]
CONTROLS += ["\u061c", "\u200e", "\u200f", "\u202a", "\u202e", "\u2066", "\u2069"]
NESTED: Any = json.loads("[" * 200 + "]" * 200)
BAD: dict[str, list[Any]] = {
    "arm": [None, "1", 1.5, True, [], -1, 2**63, 10**400, math.nan],
    "name": [None, 5, [], "\ud800", "x" * 100_000, *(f"gr{control}een" for control in CONTROLS)],
    "ticket": [None, "", 5, {}, "\udfff", "x" * 100_000],
    "default": [None, "0", 1.5, -0.1, math.nan, math.inf, 10**400, True, [0]],
    "report_after": [None, -1, 600, 601, math.nan, math.inf, -math.inf, 10**400, "60", True, False, [60]],
    "sticky": [None, -1, 366 * 24 * 3600 + 1, math.nan, math.inf, 10**400, "60", True, [60]],
    "expires_in": [None, 0, -1, math.nan, math.inf, -math.inf, 1e300, 10**400, "60", True, [60]],
    "curator": [None, [], "bernoulli", {}, {**CTB, "seed": 1}, {**CTB, "mechanism": "none"}],
}
EPSILONS: list[Any] = [0, -1, math.nan, math.inf, "1", None, 51, 10**400, []]
TRANSFORMS: list[Any] = [
    None,
    "sigmoid",
    NESTED,
    {"kind": []},
    {"kind": "real-line"},
    {"kind": "range", "low": 1, "high": 0},
    {"kind": "range", "low": 2, "high": 3},  # the default is not in it
]
CHANGES = [
    *((name, value) for name, values in BAD.items() for value in values),
    *(("curator", {**CTB, "epsilon": epsilon}) for epsilon in EPSILONS),
    *(("curator", {**CTB, "transform": transform}) for transform in TRANSFORMS),
]


def refused_for_nothing(agent: "FakeAgent", device: "Device") -> ServerError:
    """Ask for a decision that is refused; return how, once it is sure that nothing was charged."""
    client = device()
    with pytest.raises(ServerError) as caught:
        client.decide()
    assert client.spent() == 0
    assert client.pulls() == []
    assert len(str(caught.value)) < 700
    agent.script = []
    client.decide()  # and the next one is as good as ever
    return caught.value


@pytest.mark.parametrize(("name", "value"), CHANGES, ids=lambda part: repr(part)[:60])
def test_a_decision_with_nonsense_in_it(agent: "FakeAgent", device: "Device", name: str, value: Any) -> None:
    """A field that is missing, of a wrong type or out of range: the decision is refused, and nothing is charged."""
    agent.script = [(200, {"ticket": "t", **agent.decision, name: value})]
    error = refused_for_nothing(agent, device)
    assert error.code == "unreadable"
    assert "the agent" in str(error)


def test_a_mechanism_that_this_device_cannot_draw(
    agent: "FakeAgent", device: "Device", monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be in the protocol: a device that has no curator for it refuses before it is charged."""
    monkeypatch.delitem(CURATORS._by_mechanism, mechanisms.Laplace)
    agent.script = [(200, {"ticket": "t", **agent.decision, "curator": {"mechanism": "laplace", "epsilon": 0.5}})]
    assert "no curator for the mechanism laplace" in str(refused_for_nothing(agent, device))


@pytest.mark.parametrize("missing", ["arm", "ticket", "curator", "default", "report_after", "expires_in"])
def test_a_decision_with_a_field_left_out(agent: "FakeAgent", device: "Device", missing: str) -> None:
    """All but the name, and whether the arm is sticky, are needed."""
    decision = {"ticket": "t", **agent.decision}
    del decision[missing]
    agent.script = [(200, decision)]
    assert refused_for_nothing(agent, device).code == "unreadable"


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (200, b"", "unreadable"),
        (200, b"<html>", "unreadable"),
        (200, b"\xff\xfe\xfa", "unreadable"),
        (200, b"[]", "unreadable"),
        (200, b"null", "unreadable"),
        (200, b'"decision"', "unreadable"),
        (200, b"1" * 5000, "unreadable"),
        (200, b'{"arm": ' + b"1" * 5000 + b"}", "unreadable"),
        (200, b"[" * 900_000, "unreadable"),
        (200, b'{"a":' * 150_000, "unreadable"),
        (200, b'{"arm": "' + b"x" * (1 << 21) + b'"}', "unreadable"),
        (500, b"<html>", "unreadable"),
        (409, b'{"code": "paused", "message": "the experiment is paused"}', "paused"),
        (404, b'{"code": "not_found", "message": ["no", "such"]}', "not_found"),
        (400, b'{"code": {"a": 1}}', "unreadable"),
        (307, b'{"code": "moved", "message": "elsewhere"}', "moved"),
        (500, b'{"code": "' + b"c" * 5000 + b'", "message": "' + b"m" * 5000 + b'"}', "c" * 100),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_reply_that_is_no_decision(agent: "FakeAgent", device: "Device", status: int, body: bytes, code: str) -> None:
    """HTML, other JSON, too much of it, nested without end, or a refusal: an error with the agent's status and code."""
    agent.script = [(status, body)]
    error = refused_for_nothing(agent, device)
    assert (error.status, error.code) == (status, code)


def test_nesting_just_below_what_json_can_read(agent: "FakeAgent", device: "Device") -> None:
    """At every depth around the interpreter's limit a nested curator is an error of ours, and costs nothing."""
    client, limit = device(), sys.getrecursionlimit()
    for depth in range(limit - 150, limit + 10):
        nested = b'{"arm": 0, "ticket": "t", "curator": ' + b"[" * depth + b"]" * depth + b"}"
        agent.script = [(200, nested)]
        with pytest.raises(LDPBanditsError):
            client.decide()
    assert client.spent() == 0


def test_nesting_that_can_be_read_but_not_shown(
    agent: "FakeAgent", device: "Device", monkeypatch: pytest.MonkeyPatch
) -> None:
    """How deep Python reads and how deep it writes differs between its versions: neither limit breaks a device."""

    def too_deep(_: object) -> str:
        raise RecursionError

    monkeypatch.setattr(device_decision, "brief", too_deep)
    agent.script = [(200, {"ticket": "t", **agent.decision, "expires_in": NESTED})]
    assert refused_for_nothing(agent, device).code == "unreadable"


def test_a_ticket_that_was_handed_out_before(agent: "FakeAgent", device: "Device") -> None:
    """Its response would be drawn twice: it is refused, also under another name, and the first pull stays as it is."""
    client = device()
    pull = client.decide()
    decision = {**agent.decision, "ticket": pull.ticket, "arm": 0}
    for other in (client, device("colour"), device(url=f"{agent.url}/other")):
        agent.script = [(200, decision)]
        with pytest.raises(TicketError, match="issued this ticket before"):
            other.decide()
    assert client.spent() == 0.5
    assert client.pulls() == [pull]


@pytest.mark.parametrize("control", CONTROLS, ids=ascii)
def test_an_agents_words_are_shown_without_control_characters(
    agent: "FakeAgent", device: "Device", control: str
) -> None:
    """Neither its sentences and codes nor the names that it makes up reach a terminal or a log as they are."""
    client = device()
    unknown = {**agent.decision, "ticket": "t", "curator": {**CTB, f"se{control}ed": 1}}
    replies = [(409, {"code": f"pau{control}sed", "message": f"not{control}now"}), (200, unknown)]
    for reply in replies:
        agent.script = [reply]
        with pytest.raises(ServerError, match=r"not[?]now|se[?]ed") as caught:
            client.decide()
        assert control not in str(caught.value) + repr(caught.value) + caught.value.code


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 99999 what\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n{}",
        b"HTTP/1.1 200 " + b"O" * 100_000 + b"\r\n\r\n{}",
        b"\x1b[2J\x07 nonsense\r\n\r\n",
    ],
    ids=lambda reply: repr(reply)[:50],
)
def test_what_is_not_even_http(device: "Device", reply: bytes) -> None:
    """A broken reply is an error in a sentence."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            for _ in range(2):
                connection, _address = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(reply)

        thread = Thread(target=answer)
        thread.start()
        client = device(url=f"http://127.0.0.1:{listener.getsockname()[1]}")
        for _ in range(2):
            with pytest.raises(ServerError) as caught:
                client.decide()
            assert str(caught.value).isprintable()
        thread.join()
        assert client.spent() == 0


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"], ids=["head", "body"])
def test_a_server_that_sends_a_byte_now_and_then(device: "Device", head: bytes) -> None:
    """The timeout is for the whole reply: nobody can hold a device by being slow."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        enough = Event()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.recv(65536)
                connection.sendall(head)
                while not enough.wait(0.05):
                    connection.sendall(b"H")

        thread = Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        start = time.monotonic()
        with pytest.raises(ServerError, match="timed out"):
            device(url=url, timeout=0.4).decide()
        assert time.monotonic() - start < 10
        enough.set()
        thread.join()
