"""An agent that does what a test tells it, on loopback, and devices that talk to it."""

import asyncio
import json
import os
import socket
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Condition, Thread
from typing import Any, Self, TypeVar

import pytest

from ldpbandits import AsyncClient, AsyncPull, Client, Flushed, Ledger, Limits, Pull, Range
from ldpbandits.device import client, outbox, randomness

T = TypeVar("T")

CTB = {"mechanism": "bernoulli", "epsilon": 0.5}
DROP, LOSE, HANG_UP = "drop", "lose", "hang up"
"""Break off before counting; count and break off before the reply; reply, and then hang up without a word."""


@dataclass(frozen=True)
class Request:
    """What came over the wire."""

    path: str
    headers: Message
    body: bytes
    connection: int


class FakeAgent:
    """Hands out tickets, counts responses, or does next whatever is in `script`: DROP, LOSE, HANG_UP, or a reply."""

    def __init__(self) -> None:
        """Start to listen."""
        self.decision: dict[str, Any] = {
            "arm": 1,
            "name": "green",
            "curator": CTB,
            "default": 0,
            "report_after": 300,
            "sticky": 0,
            "expires_at": 0,
            "expires_in": 600,
        }
        self.script: list[str | tuple[int, object]] = []
        self.requests: list[Request] = []
        """Decisions and responses."""
        self.offers: list[Request] = []
        self.acceptances: list[Request] = []
        self.offer: dict[str, Any] = {}
        """What the offer says beside what the next decision asks for."""
        self.counted: dict[str, float] = {}
        self.accepted: set[str] = set()
        self._issued = self._connections = 0
        self._open: set[socket.socket] = set()
        self._news = Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = False  # so that closing waits for them
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a device may hang up on us
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Stop to listen, and end every thread."""
        self._server.shutdown()
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        self._server.server_close()
        self._thread.join()

    def bodies(self, ticket: str) -> list[bytes]:
        """Return every body that came for this ticket."""
        return [request.body for request in self.requests if f'"{ticket}"'.encode() in request.body]

    def until(self, is_so: Callable[[], bool]) -> bool:
        """Wait, for some seconds at the most, until the agent's news make it so."""
        with self._news:
            return self._news.wait_for(is_so, timeout=20)

    def answer(self, path: str, message: Mapping[str, Any]) -> tuple[int, object]:
        """Say what an honest agent says."""
        if path.endswith("/decisions"):
            self._issued += 1
            return 200, {"ticket": f"ticket-{self._issued}", **self.decision}
        ticket, response = message["ticket"], message["response"]
        if ticket in self.counted:
            same = self.counted[ticket] == response
            return (200, {"status": "duplicate"}) if same else (409, {"code": "changed", "message": "it was another"})
        self.counted[ticket] = response
        return 200, {"status": "counted"}

    def accept(self, ticket: str) -> tuple[int, object]:
        """Count an acceptance."""
        is_new = ticket not in self.accepted
        self.accepted.add(ticket)
        return 200, {"status": "accepted" if is_new else "duplicate"}

    def offered(self) -> tuple[int, object]:
        """Offer what the next decision asks for."""
        step = self.script[0] if self.script else ""
        said = step[1] if isinstance(step, tuple) and step[0] == 200 and isinstance(step[1], dict) else {}
        names = {"curator": "curator", "default": "default", "report_after": "report_after", "sticky": "sticky"}
        names["ticket_lifetime"] = "expires_in"
        asked = {name: said.get(old) or self.decision.get(old) for name, old in names.items()}
        return 200, {"status": "running", "shipped": None, "retired": [], "max_age": 0, **asked, **self.offer}

    def _handler(agent) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the handler's below
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                agent._open.add(self.connection)
                agent._connections += 1
                self.number = agent._connections

            def finish(self) -> None:
                agent._open.discard(self.connection)
                super().finish()

            def do_GET(self) -> None:
                with agent._news:
                    agent.offers.append(Request(self.path, self.headers, b"", self.number))
                    self._reply(*agent.offered())

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path.endswith("/v1/acceptances"):
                    with agent._news:
                        agent.acceptances.append(Request(self.path, self.headers, body, self.number))
                        self._reply(*agent.accept(json.loads(body)["ticket"]))
                        agent._news.notify_all()
                    return
                with agent._news:
                    agent.requests.append(Request(self.path, self.headers, body, self.number))
                    step = agent.script.pop(0) if agent.script else ""
                    status, said = agent.answer(self.path, json.loads(body)) if isinstance(step, str) else step
                    if step == DROP:
                        agent.counted.pop(json.loads(body).get("ticket"), None)
                    agent._news.notify_all()
                self.close_connection = step in (DROP, LOSE, HANG_UP)
                if step in (DROP, LOSE):
                    return
                self._reply(status, said)

            def _reply(self, status: int, said: object) -> None:
                text = said if isinstance(said, bytes) else json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@pytest.fixture
def agent() -> Iterator[FakeAgent]:
    """An agent, until the test ends."""
    agent = FakeAgent()
    yield agent
    agent.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where this test's ledger is."""
    return tmp_path / "ledger.db"


@pytest.fixture
def quick() -> Iterator[Ledger]:
    """A ledger that waits for no disk, for tests of how long something takes."""
    ledger = Ledger(":memory:")
    yield ledger
    ledger.close()


class Looping:
    """An event loop in a thread of its own, for as long as a test needs it."""

    def __init__(self) -> None:
        """Start when there is something to wait for."""
        self._loop: asyncio.AbstractEventLoop | None = None

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Let the event loop run this, and return what comes of it."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = Thread(target=self._loop.run_forever)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def close(self) -> None:
        """End the loop."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


class Blocking:
    """An `AsyncClient` that a test calls as it calls a `Client`."""

    def __init__(self, looping: Looping, *args: Any, **options: Any) -> None:
        """Open its ledger at once, as that of a Client is."""
        self._looping = looping
        self._client = AsyncClient(*args, **options)
        looping.wait(self._client.__aenter__())

    def __getattr__(self, name: str) -> Any:
        """Show what is inside: the asyncio client, or the client that it calls in threads."""
        return getattr(self._client if hasattr(self._client, name) else self._client._client, name)

    def decide(self, **options: Any) -> Pull:
        """Ask for an arm."""
        return self._pull(self._looping.wait(self._client.decide(**options)))

    def observe(self, ticket: str, reward: Any, **options: Any) -> bool:
        """Observe a reward."""
        return self._looping.wait(self._client.observe(ticket, reward, **options))

    def observe_latest(self, reward: Any, **options: Any) -> bool:
        """Observe the reward of the newest pull."""
        return self._looping.wait(self._client.observe_latest(reward, **options))

    def pulls(self) -> list[Pull]:
        """Return the pulls that are open."""
        return [self._pull(pull) for pull in self._looping.wait(self._client.pulls())]

    def spent(self) -> float:
        """Return what was spent."""
        return self._looping.wait(self._client.spent())

    def remaining(self) -> float:
        """Return what is left."""
        return self._looping.wait(self._client.remaining())

    def flush(self, **options: Any) -> Flushed:
        """Send what is due."""
        return self._looping.wait(self._client.flush(**options))

    def leave(self) -> Flushed:
        """Leave."""
        return self._looping.wait(self._client.leave())

    def close(self, **options: Any) -> None:
        """Close."""
        self._looping.wait(self._client.close(**options))

    def __enter__(self) -> Self:
        """Take part until the block ends."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the client."""
        self._looping.wait(self._client.__aexit__(*error))

    def _pull(self, pull: AsyncPull) -> Pull:
        def respond(reward: Any, clip: bool) -> bool:  # noqa: FBT001 - as Pull has it
            return self._looping.wait(pull.observe(reward, clip=clip))

        return Pull(pull.arm, pull.name, pull.ticket, pull.epsilon, pull.report_at, respond)


Device = Callable[..., Client]
"""What makes a Client, or an AsyncClient that is called like one."""
only_client = pytest.mark.parametrize("kind", ["Client"])
"""For what is different with asyncio, and is in `test_async_client`."""


@pytest.fixture(params=["Client", "AsyncClient"])
def kind(request: pytest.FixtureRequest) -> str:
    """Which client is tested."""
    return str(request.param)


@pytest.fixture
def device(agent: FakeAgent, path: Path, kind: str) -> Iterator[Device]:
    """Make clients of the agent, with one ledger and nothing in the background unless told; they end with the test."""
    clients: list[Any] = []
    looping = Looping()

    def make(experiment: str = "headline", **options: Any) -> Any:
        url = options.pop("url", agent.url)
        limits = Limits(Range(0, 1), 1, 10)
        usual: dict[str, Any] = {"key": "client-key", "limits": limits, "ledger": path, "background": False}
        given = usual | {"timeout": 5} | options
        make_one = Client if kind == "Client" else partial(Blocking, looping)
        clients.append(make_one(url, experiment, **given))
        return clients[-1]

    yield make
    for each in clients:
        each.close()
    looping.close()


def client_in(device: Any) -> Any:
    """Return the Client that a device is, or that its AsyncClient calls."""
    return device._client._client if isinstance(device, Blocking) else device


def watch_posts(
    client: Any, before: Callable[..., object] = lambda *_: None, after: Callable[[], object] = lambda: None
) -> None:
    """Let something happen before each request of a client is sent, with its path and message, or after its reply."""
    post = client._connection.post

    def watched(path: str, message: Any, **options: Any) -> Any:
        before(path, message)
        reply = post(path, message, **options)
        after()
        return reply

    client._connection.post = watched


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes were drawn, at each call: there is no other source of randomness on a device."""
    calls: list[int] = []

    def watched(count: int) -> bytes:
        calls.append(count)
        return real(count)

    real = os.urandom
    monkeypatch.setattr(randomness, "urandom", watched)
    return calls


class Clock:
    """A clock that stands still until it is set, beside one that nobody can set."""

    def __init__(self) -> None:
        """Start somewhere."""
        self.now, self._passed = 1_000_000.0, 0.0

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self._passed += seconds

    def time(self) -> float:
        """Tell the time, as the module does."""
        return self.now

    def monotonic(self) -> float:
        """Tell the time that has passed, since whenever."""
        return time.monotonic() + self._passed


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all clients."""
    clock = Clock()
    for module in (client, outbox):
        monkeypatch.setattr(module, "time", clock)
    return clock
