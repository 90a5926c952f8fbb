"""Webhooks: each verdict, stop and warning is told at least once, signed, in order, on each store; never a response."""

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from hmac import new
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import inf
from random import Random
from threading import Thread
from typing import Any

import pytest
from tests.server.both import Server
from tests.server.local import E

from ldpbandits.cli import main
from ldpbandits.errors import ParameterError
from ldpbandits.net import ServerAddress
from ldpbandits.server import webhooks
from ldpbandits.server.api.messages import ResponseMessage
from ldpbandits.server.experiments.stopping import stop_decided, watch_traffic
from ldpbandits.server.experiments.traffic import Traffic
from ldpbandits.server.process.clock import elapsed
from ldpbandits.server.webhooks import Receiver, Webhooks, encode, kind_of
from ldpbandits.spec.messages import Change

SECRET = b"s" * 32
VARIABLES = {"LDPBANDITS_WEBHOOK_SECRET": f"whsec_{b64encode(SECRET).decode()}"}
NOWHERE = ServerAddress(is_secure=False, host="127.0.0.1", port=9, prefix="")
DECISIVE: dict[str, Any] = {
    "name": "headline",
    "arms": ["blue", "green"],
    "curator": {"mechanism": "bernoulli", "epsilon": 4},
    "stop_after": 0,
}


class Heard(list[tuple[dict[str, str], bytes]]):
    """The requests that a receiver got, with the statuses that it answers, the last one for ever."""

    url: str
    statuses: tuple[int, ...] = (200,)

    @property
    def told(self) -> list[tuple[str, str]]:
        """The type and the detail of each webhook."""
        bodies = [json.loads(body) for _, body in self]
        return [(body["type"], body["data"]["detail"]) for body in bodies]


@contextmanager
def receiving() -> Iterator[Heard]:
    """Run a receiver on loopback."""
    heard = Heard()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Answer with the next status."""
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = heard.statuses[min(len(heard), len(heard.statuses) - 1)]
            heard.append((dict(self.headers), body))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    heard.url = f"http://127.0.0.1:{server.server_address[1]}/hook?token=t"
    try:
        yield heard
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def heard() -> Iterator[Heard]:
    """A receiver."""
    with receiving() as found:
        yield found


def telling(server: Server, heard: Heard) -> Webhooks:
    """Return what a worker tells this receiver with."""
    receiver = Receiver.of(heard.url, VARIABLES)
    assert receiver is not None
    return Webhooks(server.service, server.service._store, receiver)


def decide(server: Server) -> None:
    """Let visitors answer until the experiment is decided and has paused itself."""
    random = Random(5)
    assert server("POST", "/v1/experiments", DECISIVE).status == 201
    for _ in range(12):
        for _ in range(50):
            decision = server.service.decide("headline")
            liked = random.random() < {"blue": 0.1, "green": 0.9}[decision.name]
            server.do(server.service.respond(ResponseMessage(decision.ticket or "", float(liked))))
        server.do(stop_decided(server.service))
        if server.service.experiments["headline"].status == "paused":
            return
    raise AssertionError("it was not decided")


def test_a_verdict_and_the_stop_are_told_once_and_in_order(server: Server, heard: Heard) -> None:
    """What happened before there was a receiver is not; and nothing is sent again."""
    hooks = telling(server, heard)
    server.do(hooks.deliver())
    decide(server)
    for _ in range(3):
        server.do(hooks.deliver())
    assert heard.told == [("experiment.decided", "better: green"), ("experiment.stopped", "verdict: better")]
    assert server("POST", f"{E}/resume", {}).status == 200
    server.do(hooks.deliver())
    assert len(heard) == 2  # an experimenter knows what an experimenter has done


def test_requests_are_signed_as_the_standard_asks(server: Server, heard: Heard) -> None:
    """By HMAC-SHA256 of id, time and body; the id stays the same when a request is sent again."""
    heard.statuses = (500, 200)
    hooks = telling(server, heard)
    server.do(hooks.deliver())
    decide(server)
    server.do(hooks.deliver())
    hooks._retry_at = 0.0
    server.now += 2
    server.do(hooks.deliver())
    assert heard[0][0]["webhook-id"] == heard[1][0]["webhook-id"]
    assert len({headers["webhook-id"] for headers, _ in heard}) == 2
    for headers, body in heard:
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        expected = b64encode(new(SECRET, signed, sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{expected}"
        assert headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("statuses", [(500, 503, 200), (404, 200), (302, 200)])
def test_what_is_not_taken_is_sent_again_later(server: Server, heard: Heard, statuses: tuple[int, ...]) -> None:
    """After 1, 2, 4, ... seconds, whatever the receiver answers but success."""
    heard.statuses = statuses
    hooks = telling(server, heard)
    server.do(hooks.deliver())
    decide(server)
    pauses = []
    for _ in statuses[:-1]:
        server.do(hooks.deliver())
        pauses.append(round(hooks._retry_at - elapsed()))
        server.do(hooks.deliver())  # too early
        hooks._retry_at = 0.0
        server.now += 1000
    assert len(heard) == len(statuses) - 1
    assert pauses == [2**number for number in range(len(pauses))]
    server.do(hooks.deliver())
    assert heard.told[-2:] == [("experiment.decided", "better: green"), ("experiment.stopped", "verdict: better")]


def test_a_receiver_that_is_gone_keeps_nothing_from_going_on(server: Server, heard: Heard) -> None:
    """It is told when it is back, also by a worker that has just started."""
    hooks = telling(server, heard)
    server.do(hooks.deliver())
    gone = Webhooks(server.service, server.service._store, replace(hooks._receiver, address=NOWHERE))
    decide(server)
    server.do(gone.deliver())
    assert heard == []
    server.now += 1000
    server.do(telling(server, heard).deliver())
    assert len(heard) == 2


def test_one_worker_sends_at_a_time(server: Server, heard: Heard) -> None:
    """A worker that was killed while it sent is waited for, until its lease ends."""
    first, second = telling(server, heard), telling(server, heard)
    server.do(first.deliver())
    decide(server)
    store, now = server.service._store, server.service.now
    assert store.lease_webhook(first._receiver.name, now, now + webhooks.LEASE_S) is not None
    server.do(second.deliver())
    assert heard == []
    server.now += webhooks.LEASE_S
    server.do(second.deliver())
    assert len(heard) == 2
    server.do(first.deliver())
    assert len(heard) == 2


def test_a_new_receiver_is_told_what_happens_from_now_on(server: Server, heard: Heard) -> None:
    """Not the history of years."""
    server.do(telling(server, heard).deliver())
    decide(server)
    with receiving() as other:
        server.do(telling(server, other).deliver())
        assert other == []


def test_a_jump_of_the_traffic_is_told(server: Server, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a warning, once within two minutes, by however many workers it is noticed."""
    hooks = telling(server, heard)
    server.do(hooks.deliver())
    assert server("POST", "/v1/experiments", DECISIVE).status == 201
    experiment = server.service.experiments["headline"]
    experiment.fresh_until = inf  # as after a poll, where workers share a store
    monkeypatch.setattr(Traffic, "is_due", lambda *_: True)
    monkeypatch.setattr(Traffic, "sample", lambda *_: True)
    for _ in range(2):
        server.do(watch_traffic(server.service))
    server.do(hooks.deliver())
    assert experiment.incidents["jump"] == 2
    assert heard.told == [("experiment.warning", "the traffic has jumped within a minute")]


def test_no_webhook_has_a_response_or_a_key() -> None:
    """It has a line of the change log, in the form of the standard."""
    body = json.loads(encode(Change(1_700_000_000, "server", "decided", "headline", "better: green", 7)))
    assert body == {
        "type": "experiment.decided",
        "timestamp": "2023-11-14T22:13:20Z",
        "data": {"experiment": "headline", "what": "decided", "detail": "better: green", "number": 7},
    }
    assert kind_of(Change(0, "anna", "pause", "headline")) is None
    assert kind_of(Change(0, "server", "rotate-key")) is None


@pytest.mark.parametrize(
    ("url", "secrets", "message"),
    [
        ("", VARIABLES, "there is nobody to tell"),
        ("https://example.org/hook", {}, "needs LDPBANDITS_WEBHOOK_SECRET of the form whsec_"),
        ("https://example.org/hook", {"LDPBANDITS_WEBHOOK_SECRET": "whsec_c2hvcnQ="}, "24 to 64 random bytes"),
        ("https://example.org/hook", {"LDPBANDITS_WEBHOOK_SECRET": "whsec_%%%"}, "24 to 64 random bytes"),
        ("ftp://example.org", VARIABLES, "https://agent.example"),
    ],
)
def test_bad_options_are_refused_without_quoting_the_secret(url: str, secrets: dict[str, str], message: str) -> None:
    """One line each."""
    with pytest.raises(ParameterError, match=message) as error:
        Receiver.of(url, secrets)
    assert not [secret for secret in secrets.values() if secret in str(error.value)]


def test_there_is_none_by_default() -> None:
    """Nobody is told anything unless the operator says whom."""
    assert Receiver.of("", {}) is None


def test_serve_takes_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    """And refuses it without the secret, before it makes a database."""
    assert main(["serve", "--webhook-url", "https://example.org/hook", "--database", "never.db"]) == 2
    assert "LDPBANDITS_WEBHOOK_SECRET" in capsys.readouterr().err
