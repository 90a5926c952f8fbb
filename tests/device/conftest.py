"""An agent that does what a test tells it, on loopback, and devices that talk to it."""

import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Condition, Thread
from typing import Any

import pytest

from ldpbandits import Client, Ledger, Limits, Range
from ldpbandits.device import client as client_module
from ldpbandits.device import randomness
from ldpbandits.device import sender as sender_module

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
        self.counted: dict[str, float] = {}
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

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
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


Device = Callable[..., Client]


@pytest.fixture
def device(agent: FakeAgent, path: Path) -> Iterator[Device]:
    """Make clients of the agent, with one ledger and no thread unless told otherwise; they end with the test."""
    clients: list[Client] = []

    def make(experiment: str = "headline", **options: Any) -> Client:
        url = options.pop("url", agent.url)
        limits = Limits(Range(0, 1), 1, 10)
        usual: dict[str, Any] = {"key": "client-key", "limits": limits, "ledger": path, "background": False}
        clients.append(Client(url, experiment, **usual | {"timeout": 5} | options))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


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
    for module in (client_module, sender_module):
        monkeypatch.setattr(module, "time", clock)
    return clock
