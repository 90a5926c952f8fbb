"""One deadline for a whole exchange, whatever the server does; TLS where the URL says so; closed means closed."""

import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

import pytest
from tests.tools import tool

from ldpbandits import ServerError, net
from ldpbandits.device.wire import MAX_REPLY_BYTES, AgentConnection

LONG_LINE = 1 << 16
MANY_LINES = 1000
HELLO = b'HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{"said": "hello"}'


@contextmanager
def serving(answer: Callable[[socket.socket], None], context: ssl.SSLContext | None = None) -> Iterator[int]:
    """Let a server answer each connection so, until the block ends; give its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        over = Event()

        def serve() -> None:
            while not over.is_set():
                with suppress(OSError):
                    connection, _ = listener.accept()
                    connection.settimeout(5)
                    with context.wrap_socket(connection, server_side=True) if context else connection as secured:
                        answer(secured)

        thread = Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            thread.join()


def replying(*replies: bytes) -> Callable[[socket.socket], None]:
    """Give these replies on a connection, and hang up."""

    def answer(connection: socket.socket) -> None:
        for reply in replies:
            received = b""
            while not received.endswith(b"{}"):
                more = connection.recv(65536)
                if not more:
                    return
                received += more
            connection.sendall(reply)

    return answer


def hello(connection: socket.socket, times: int = 2) -> None:
    """Be polite, to so many requests."""
    replying(*[HELLO] * times)(connection)


def test_https(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose certificate is trusted is spoken to, on one connection; one whose is not, is not."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    files = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([tool("openssl"), *make.split(), *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    resolve(monkeypatch, lambda port: addresses("127.0.0.1", port))
    with serving(hello, context) as port:
        stranger = AgentConnection(f"https://localhost:{port}", "k", timeout=5)
        with pytest.raises(ServerError, match="certificate"):
            stranger.post("/", {})
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        trusted = AgentConnection(f"https://localhost:{port}", "k", timeout=5)
        for _ in range(2):
            assert trusted.post("/", {}) == {"said": "hello"}
        trusted.close()


def addresses(*hosts_and_port: str | int) -> list[tuple[object, ...]]:
    """Say that a name has these addresses."""
    *hosts, port = hosts_and_port
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in hosts]


def resolve(monkeypatch: pytest.MonkeyPatch, listed: Callable[[int], list[Any]]) -> None:
    """Let every name have these addresses."""
    monkeypatch.setattr(net, "getaddrinfo", lambda _, port, **__: listed(port))


def test_the_first_address_that_answers_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one does not answer, there is time left for the others."""
    with serving(hello) as port, socket.create_server(("127.0.0.2", 0), backlog=0) as full:
        held = [socket.socket() for _ in range(4)]
        for each in held:  # nobody accepts: the queue is full, and the next to connect waits
            each.settimeout(0)
            with suppress(BlockingIOError):
                each.connect(full.getsockname())
        first, second = ("127.0.0.2", full.getsockname()[1]), ("127.0.0.1", port)
        listed = [(*addresses("", 0)[0][:4], address) for address in (first, second)]
        resolve(monkeypatch, lambda _: listed)
        client = AgentConnection("http://agent.example", "k", timeout=2)
        assert client.post("/", {}) == {"said": "hello"}
        client.close()
        for each in held:
            each.close()


def test_a_host_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error in a sentence."""
    resolve(monkeypatch, lambda _: [])
    with pytest.raises(ServerError, match="the server cannot be reached: the host has no address"):
        AgentConnection("http://agent.example", "k", timeout=2).post("/", {})


def test_a_connection_that_breaks_does_not_double_the_time() -> None:
    """The second attempt has what the first has left."""
    drips = Event()

    def polite_once(connection: socket.socket) -> None:
        if not drips.is_set():
            drips.set()
            hello(connection, times=1)
            connection.recv(1)
            time.sleep(2)  # and hang up on the second request, late
            return
        with suppress(OSError):
            for _ in range(100):
                connection.sendall(b"H")
                time.sleep(0.05)

    with serving(polite_once) as port:
        client = AgentConnection(f"http://127.0.0.1:{port}", "k", timeout=3)
        client.post("/", {})
        start = time.monotonic()
        with pytest.raises(ServerError, match="timed out"):
            client.post("/", {})
        assert time.monotonic() - start < 4.5  # and not 2 + 3
        client.close()


def test_a_client_that_is_closed_speaks_no_more() -> None:
    """Not even on a new connection."""
    with serving(hello) as port:
        client = AgentConnection(f"http://127.0.0.1:{port}", "k", timeout=5)
        client.post("/", {})
        client.close()
        with pytest.raises(ServerError, match="this client is closed"):
            client.post("/", {})


@pytest.mark.parametrize(
    "reply",
    [
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8;x=y\r\n{"said":\r\n9\r\n "hello"}\r\n0\r\n\r\n',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11\r\n{"said": "hello"}\r\n0\r\nX: y\r\n\r\n',
        b"HTTP/1.1 100 Continue\r\n\r\n" + HELLO,
        b'HTTP/1.1 200 OK\nContent-Length: 17\n\n{"said": "hello"}',
        b'HTTP/1.1 200 OK\r\n\r\n{"said": "hello"}',
        b'HTTP/1.0 200 OK\r\n\r\n{"said": "hello"}',
        b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 17\r\n\r\n{"said": "hello"}',
    ],
    ids=["chunks", "trailer", "100", "lines", "until the end", "1.0", "close"],
)
def test_a_reply_in_any_form_that_http_has(reply: bytes) -> None:
    """By its length, in chunks, or until the server hangs up: it is read as it is meant, time after time."""
    with serving(replying(reply)) as port:
        client = AgentConnection(f"http://127.0.0.1:{port}", "k", timeout=5)
        for _ in range(3):
            assert client.post("/", {}) == {"said": "hello"}
        client.close()


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * LONG_LINE,
        b"HTTP/1.1 100 Continue\r\n\r\n" * LONG_LINE,
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * MANY_LINES,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * MANY_LINES,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 5000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n200000\r\n" + b" " * MAX_REPLY_BYTES,
        b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (MAX_REPLY_BYTES + 1),
        b'HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{"said": "hel',
    ],
    ids=lambda reply: repr(reply[-40:]),
)
def test_a_reply_that_is_too_much_or_cut_off(reply: bytes) -> None:
    """It is an error in a sentence, and the next request is made on a new connection."""
    with serving(replying(reply)) as port:
        client = AgentConnection(f"http://127.0.0.1:{port}", "k", timeout=5)
        for _ in range(2):
            with pytest.raises(ServerError, match=r"^the (server|reply).{0,500}$"):
                client.post("/", {})
        client.close()


@pytest.mark.parametrize("reply", [b"HTTP/1.0 200 OK\r\n\r\n{", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"])
def test_a_reply_that_stops_leaves_no_connection_behind(reply: bytes) -> None:
    """Whoever keeps the error keeps no socket open with it."""
    heard: SimpleQueue[bytes] = SimpleQueue()

    def stop(connection: socket.socket) -> None:
        replying(reply)(connection)
        heard.put(connection.recv(1))

    with serving(stop) as port:
        client = AgentConnection(f"http://127.0.0.1:{port}", "k", timeout=1)
        with pytest.raises(ServerError, match="timed out") as kept:
            client.post("/", {})
        assert heard.get(timeout=4) == b""
        assert kept.value.code == "unreachable"
        client.close()


def test_who_has_no_time_sends_nothing() -> None:
    """What is to be over already is not begun."""
    with serving(hello) as port:
        client = AgentConnection(f"http://127.0.0.1:{port}", "k", timeout=5)
        assert client.post("/", {}) == {"said": "hello"}
        for timeout in (0, -1):
            with pytest.raises(ServerError, match="cannot be reached: timed out"):
                client.post("/", {}, timeout=timeout)
        client.close()
