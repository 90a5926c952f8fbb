"""One deadline for a whole exchange, whatever the server does; TLS where the URL says so; closed means closed."""

import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from ldpbandits import ServerError, timely
from ldpbandits.device.http import Http

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


def hello(connection: socket.socket, times: int = 2) -> None:
    """Be polite, to so many requests."""
    for _ in range(times):
        received = b""
        while not received.endswith(b"{}"):
            more = connection.recv(65536)
            if not more:
                return
            received += more
        connection.sendall(HELLO)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_https(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose certificate is trusted is spoken to, on one connection; one whose is not, is not."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    files = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make.split(), *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    monkeypatch.setattr(timely, "getaddrinfo", lambda _, port, **__: addresses("127.0.0.1", port))
    with serving(hello, context) as port:
        stranger = Http(f"https://localhost:{port}", "k", timeout=5)
        with pytest.raises(ServerError, match="certificate"):
            stranger.post("/", {})
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        trusted = Http(f"https://localhost:{port}", "k", timeout=5)
        for _ in range(2):
            assert trusted.post("/", {}) == {"said": "hello"}
        trusted.close()


def addresses(*hosts_and_port: str | int) -> list[tuple[object, ...]]:
    """Say that a name has these addresses."""
    *hosts, port = hosts_and_port
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in hosts]


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
        monkeypatch.setattr(timely, "getaddrinfo", lambda *_, **__: listed)
        client = Http("http://agent.example", "k", timeout=2)
        assert client.post("/", {}) == {"said": "hello"}
        client.close()
        for each in held:
            each.close()


def test_a_host_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error in a sentence."""
    monkeypatch.setattr(timely, "getaddrinfo", lambda *_, **__: [])
    with pytest.raises(ServerError, match="the server cannot be reached: the host has no address"):
        Http("http://agent.example", "k", timeout=2).post("/", {})


def test_a_connection_that_breaks_does_not_double_the_time() -> None:
    """The second attempt has what the first has left."""
    drips = Event()

    def polite_once(connection: socket.socket) -> None:
        if not drips.is_set():
            drips.set()
            hello(connection, times=1)
            connection.recv(1)
            time.sleep(0.3)  # and hang up on the second request, late
            return
        with suppress(OSError):
            for _ in range(100):
                connection.sendall(b"H")
                time.sleep(0.05)

    with serving(polite_once) as port:
        client = Http(f"http://127.0.0.1:{port}", "k", timeout=0.6)
        client.post("/", {})
        start = time.monotonic()
        with pytest.raises(ServerError, match="timed out"):
            client.post("/", {})
        assert time.monotonic() - start < 3
        client.close()


def test_a_client_that_is_closed_speaks_no_more() -> None:
    """Not even on a new connection."""
    with serving(hello) as port:
        client = Http(f"http://127.0.0.1:{port}", "k", timeout=5)
        client.post("/", {})
        client.close()
        with pytest.raises(ServerError, match="this client is closed"):
            client.post("/", {})
