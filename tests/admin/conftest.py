"""A real server for all tests of a module, and one that says what a test tells it."""

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Event, Thread

import pytest
from tests.server.running import Running, running

from ldpbandits import Admin


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server in a process of its own."""
    with running(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def admin(server: Running) -> Admin:
    """Who holds its admin key."""
    return Admin(server.url, server.keys["admin"])


@dataclass
class Saying:
    """Sends the same to everyone who connects, byte for byte, then hangs up; or waits, when it is to drip."""

    says: bytes
    drips: bool = False
    heard: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start to listen."""
        self._stop, self._listener = Event(), socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        """Stop to listen."""
        self._stop.set()
        with socket.create_connection(("127.0.0.1", self.port)):
            self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection:
                if self._stop.is_set():
                    return
                self.heard.append(connection.recv(1 << 16))
                try:
                    connection.sendall(self.says)
                    while self.drips and not self._stop.wait(0.02):
                        connection.sendall(b" ")
                except OSError:  # whoever asked has heard enough
                    continue


@pytest.fixture
def saying() -> Iterator[Callable[..., Saying]]:
    """Make servers that say what they are told; they end with the test."""
    made: list[Saying] = []

    def make(says: bytes, *, drips: bool = False) -> Saying:
        made.append(Saying(says, drips))
        return made[-1]

    yield make
    for each in made:
        each.close()


def reply(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """Return a reply as it goes over the wire."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
