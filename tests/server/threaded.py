"""A real server in a thread of this process, talked to by raw sockets: for what is said before there is a request."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

from tests.server.local import ADMIN, CLIENT, KEYS, NEW
from tests.server.running import PATIENCE

from ldpbandits.server.process.front_door import FrontDoor
from ldpbandits.server.process.server import Server
from ldpbandits.server.service import Service
from ldpbandits.server.store.sqlite.store import SqliteStore

__all__ = ["ADMIN", "CLIENT", "NEW", "Threaded", "threaded"]


class Threaded:
    """A server that runs, and its port."""

    def __init__(self, server: Server, thread: Thread, port: int) -> None:
        """Take what runs."""
        self.server = server
        self.thread = thread
        self.port = port
        self._made: list[socket.socket] = []

    def connect(self, sent: bytes = b"") -> socket.socket:
        """Connect, and send this."""
        connection = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        self._made.append(connection)
        connection.sendall(sent)
        return connection

    def ask(self, sent: bytes) -> bytes:
        """Connect, send this and return all that is said until the server closes."""
        with self.connect(sent) as connection:
            return all_of(connection)

    @property
    def closed(self) -> dict[str, int]:
        """How many connections were closed by which limit."""
        return dict(self.server.connections.closed)

    def stop(self) -> None:
        """Stop it, and wait for that."""
        self.server.stop()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()
        for connection in self._made:
            connection.close()


def request(path: str = "/healthz", *more: str, key: str | None = None, body: bytes | None = None) -> bytes:
    """Write a request with these headers more; a GET unless there is a body, or a header that says that there will."""
    is_post = body is not None or any(line.startswith(("Content-Length", "Transfer")) for line in more)
    lines = [f"{'POST' if is_post else 'GET'} {path} HTTP/1.1", "Host: x", *more]
    lines += [] if key is None else [f"Authorization: Bearer {key}"]
    lines += [] if body is None else [f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def reply(connection: socket.socket) -> bytes:
    """Read one reply that has a length, and return it; the connection stays open."""
    said = b""
    while True:
        head, end, body = said.partition(b"\r\n\r\n")
        if end and len(body) >= int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]):
            return said
        got = connection.recv(65536)
        assert got, said
        said += got


def all_of(connection: socket.socket) -> bytes:
    """Read until the server closes."""
    said = b""
    try:
        while got := connection.recv(65536):
            said += got
    except ConnectionResetError:
        pass
    return said


def pour(connection: socket.socket, data: bytes, most: int = 64 << 20, pause: float = 0.0) -> bool:
    """Send this again and again; tell whether the server has cut that off before so many bytes were sent."""
    sent = 0
    try:
        while sent < most:
            sent += connection.send(data)
            sleep(pause)
    except OSError:
        return True
    return False


def until(happens: Callable[[], bool]) -> None:
    """Wait until something is true."""
    end = monotonic() + PATIENCE
    while not happens():
        assert monotonic() < end
        sleep(0.005)


@contextmanager
def threaded(folder: Path, failpoint: Callable[[str], None] = lambda _: None, **limits: float) -> Iterator[Threaded]:
    """Run a server with an experiment, behind these limits."""
    service = Service(SqliteStore(folder / "agent.db", failpoint=failpoint), KEYS)
    server = Server(service, FrontDoor(**limits))  # type: ignore[arg-type]
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    live = Threaded(server, thread, listener.getsockname()[1])
    try:
        until(lambda: server.started)
        yield live
    finally:
        live.stop()
