"""A store of the tests' own runs through the live server: nothing in `src` knows of it."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.server.inprocess import Reply, ask
from tests.server.memory_store import MemoryStore

from ldpbandits.server.api.app import application
from ldpbandits.server.service import Service
from ldpbandits.server.store.nonces import HOUR_S

E = "/v1/experiments/headline"
LIFETIME = 100
HEADLINE = {
    "name": "headline",
    "arms": ["blue", "green"],
    "curator": {"mechanism": "bernoulli", "epsilon": 1},
    "goal": "earn",
    "ticket_lifetime": LIFETIME,
}


class Live:
    """The whole server over HTTP, in this process, on a store in memory."""

    def __init__(self) -> None:
        """Start it for the first time, and take the keys that it shows."""
        self.clock = 1_000
        self.fault: Exception | None = None
        self.store = MemoryStore(failpoint=self.fail)
        self.loop = asyncio.new_event_loop()
        self.start()
        self.keys = {role.value: key for role, key in self.service.keys.new.items()}

    def start(self) -> None:
        """Start a server on the store as it is."""
        self.service = Service(self.store, now=lambda: self.clock)
        self.app = application(self.service)

    def restart(self) -> None:
        """End the server, and start another on the same store."""
        self.service.close()
        self.start()

    def close(self) -> None:
        """End for good."""
        self.service.close()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def fail(self, _: str) -> None:
        """Break the store, while there is a fault."""
        if self.fault is not None:
            raise self.fault

    def ask(self, method: str, path: str, body: object = None, role: str = "admin") -> Reply:
        """Send a request, with the key of this role."""
        return self.loop.run_until_complete(ask(self.app, method, path, body, key=self.keys[role]))

    def decide(self) -> str:
        """Ask for an arm; return the ticket."""
        reply = self.ask("POST", f"{E}/decisions", {}, "client")
        assert reply.status == 200, reply
        text: str = reply.json["ticket"]
        return text

    def respond(self, ticket: str, value: float = 1) -> tuple[int, str]:
        """Send a response; return the status and what the server says."""
        reply = self.ask("POST", "/v1/responses", {"ticket": ticket, "response": value}, "client")
        return reply.status, reply.json["status" if reply.status == 200 else "code"]

    def pulls(self) -> dict[str, int]:
        """Return how many responses each arm has, as the experimenter is shown."""
        return {arm["name"]: arm["pulls"] for arm in self.ask("GET", E).json["arms"]}

    def tallies(self) -> Any:
        """Return the exact totals."""
        return [(arm["pulls"], arm["total"]) for arm in self.ask("GET", f"{E}/tallies").json["arms"]]


@pytest.fixture
def live() -> Iterator[Live]:
    """A server with one experiment."""
    server = Live()
    assert server.ask("POST", "/v1/experiments", HEADLINE).status == 201
    yield server
    server.close()


def test_each_response_is_counted_once_also_after_a_restart(live: Live) -> None:
    """Counted, a duplicate, changed, forged; and the same from the next server, which makes no new keys."""
    ticket, other = live.decide(), live.decide()
    assert live.respond(ticket) == (200, "counted")
    for _ in range(2):
        assert live.respond(ticket) == (200, "duplicate")
        assert live.respond(ticket, 0) == (409, "changed")
        assert live.respond(ticket[:-1]) == (403, "forged")
        assert sum(live.pulls().values()) == 1
        live.restart()
        assert not live.service.keys.new
    assert live.respond(other, 0) == (200, "counted")
    assert sorted(live.tallies()) == [(1, 0), (1, 1)]


def test_an_experiment_lives_through_its_changes(live: Live) -> None:
    """Pause, resume, an arm added and one retired, close: each is refused or done as with any store, and kept."""
    assert live.ask("POST", "/v1/experiments", HEADLINE).json["code"] == "exists"
    ticket, late = live.decide(), live.decide()
    assert live.ask("POST", f"{E}/pause").status == 200
    live.restart()
    assert live.ask("POST", f"{E}/decisions", {}, "client").json["code"] == "paused"
    assert live.respond(ticket) == (200, "counted")
    assert live.ask("POST", f"{E}/resume").status == 200
    assert live.ask("POST", f"{E}/arms", {"name": "red"}).status == 201
    assert live.ask("POST", f"{E}/arms", {"name": "blue"}).json["code"] == "exists"
    assert live.ask("POST", f"{E}/arms/0/retire").status == 200
    live.restart()
    assert list(live.pulls()) == ["blue", "green", "red"]
    assert live.ask("GET", E).json["arms"][0]["retired"] is True
    assert live.ask("POST", f"{E}/close").status == 200
    live.restart()
    assert live.respond(late) == (410, "closed")
    assert live.respond(ticket) == (200, "duplicate")
    assert live.ask("POST", f"{E}/resume").json["code"] == "closed"


def test_expired_tickets_are_refused_and_forgotten(live: Live) -> None:
    """In the second of its expiry a ticket is late, also when its nonce is gone and the clock goes back."""
    ticket, unseen = live.decide(), live.decide()
    assert live.respond(ticket) == (200, "counted")
    live.clock += LIFETIME
    assert live.respond(ticket) == live.respond(unseen) == (410, "expired")
    live.clock += HOUR_S
    live.loop.run_until_complete(live.service.forget())
    assert not live.store.memory.nonces
    live.clock -= LIFETIME + HOUR_S
    live.restart()
    assert live.respond(ticket) == live.respond(unseen) == (410, "expired")
    assert sum(live.pulls().values()) == 1


def test_keys_and_the_secret_are_rotated(live: Live) -> None:
    """An old key holds for its grace; a ticket of an old secret too; both end, also for the next server."""
    ticket, late = live.decide(), live.decide()
    new = live.ask("POST", "/v1/keys/client/rotate", {"grace": 10}).json["key"]
    assert live.ask("POST", "/v1/keys/signing/rotate", {"grace": 10}).status == 200
    live.restart()
    assert live.respond(ticket) == (200, "counted")
    live.clock += 10
    assert live.ask("POST", f"{E}/decisions", {}, "client").status == 401
    live.keys["client"] = new
    assert live.respond(late) == (403, "forged")
    assert live.respond(live.decide()) == (200, "counted")
    live.loop.run_until_complete(live.service.forget())
    assert (len(live.store.keys()), len(live.store.secrets())) == (3, 1)


def test_the_export_has_every_response(live: Live) -> None:
    """The CSV has the responses, shuffled, or in the order of counting where that is asked for."""
    for value in (1, 0, 1, 1):
        assert live.respond(live.decide(), value) == (200, "counted")
    for file, in_order in (("responses", False), ("responses-in-order", True)):
        reply = live.ask("GET", f"{E}/{file}.csv")
        head, *rows = reply.body.decode().splitlines()
        assert (reply.status, head) == (200, "response_number,arm,arm_name,response")
        told = [(int(row.split(",")[0]), float(row.split(",")[3])) for row in rows]
        assert [number for number, _ in told] == [1, 2, 3, 4]
        values = [value for _, value in told]
        assert (values if in_order else sorted(values)) == ([1, 0, 1, 1] if in_order else [0, 1, 1, 1])
    assert live.ask("GET", "/healthz").json == {"status": "ok"}


def test_a_store_without_room_is_503_and_the_same_is_counted_later(live: Live) -> None:
    """Responses and changes are told to try again, nothing is kept of them, and the next try succeeds."""
    ticket = live.decide()
    live.fault = MemoryError()
    assert live.respond(ticket) == (503, "retry")
    reply = live.ask("POST", f"{E}/arms", {"name": "red"})
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    live.fault = None
    assert live.pulls() == {"blue": 0, "green": 0}
    assert live.respond(ticket) == (200, "counted")
    assert live.ask("POST", f"{E}/arms", {"name": "red"}).status == 201
