"""The proxy in front: its limits are those of the front door, and it tells nobody who asks. A real Caddy runs here.

It runs without TLS, on this machine; certificates from outside were not tried.
"""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.server.running import HEADLINE, PATIENCE, Running, running
from tests.tools import ROOT, tool

from ldpbandits.server.experiments.limits import LARGEST_EXPERIMENT_BYTES
from ldpbandits.server.process.front_door import FrontDoor

CADDYFILE = ROOT / "deploy" / "Caddyfile"
ADDRESS, MARKER = "127.0.0.77", "marker-of-a-person"


def adapted() -> Any:
    """Return the configuration as Caddy itself reads it."""
    command = [tool("caddy"), "adapt", "--adapter", "caddyfile", "--config", str(CADDYFILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    return json.loads(done.stdout)


def test_the_limits_are_those_of_the_front_door() -> None:
    """Of headers, times and bodies; and the proxy lets go of a connection to the server before the server does."""
    door = FrontDoor()
    (server,) = adapted()["apps"]["http"]["servers"].values()
    second = 1e9
    assert server["max_header_bytes"] == door.header_bytes
    assert server["read_header_timeout"] == door.head_seconds * second
    assert server["read_timeout"] == door.body_seconds * second
    assert server["idle_timeout"] == door.idle_seconds * second
    body, proxy = server["routes"][0]["handle"][0]["routes"][0]["handle"]
    assert body == {"handler": "request_body", "max_size": LARGEST_EXPERIMENT_BYTES}
    assert proxy["transport"]["keep_alive"]["idle_timeout"] < door.idle_seconds * second


def test_each_limit_names_the_option_that_it_is() -> None:
    """So that whoever changes one finds the other."""
    text = CADDYFILE.read_text()
    for name in ("header_bytes", "head_seconds", "body_seconds", "idle_seconds"):
        assert f"# {name}\n" in text


def test_caddy_finds_the_file_valid_and_well_formed(tmp_path: Path) -> None:
    """As it would be run."""
    environment = os.environ | {"XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    for verb in (["validate", "--adapter", "caddyfile", "--config"], ["fmt", "--diff"]):
        command = [tool("caddy"), *verb, str(CADDYFILE)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert done.returncode == 0, done
        assert not [line for line in done.stdout.splitlines() if line.startswith(("+", "-"))], done.stdout


@contextmanager
def caddy(folder: Path, upstream: str) -> Iterator[tuple[int, Path]]:
    """Run Caddy before a server; yield its port and its log."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    log = folder / "caddy.log"
    environment = os.environ | {
        "SITE": f"http://127.0.0.1:{port}",
        "UPSTREAM": upstream,
        "CADDY_ADMIN": "off",
        "XDG_DATA_HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
        "HOME": str(folder),
    }
    command = [tool("caddy"), "run", "--adapter", "caddyfile", "--config", str(CADDYFILE)]
    with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file, env=environment) as process:
        try:
            until = time.monotonic() + PATIENCE
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    assert process.poll() is None, log.read_text()
                    assert time.monotonic() < until, log.read_text()
                    time.sleep(0.05)
            yield port, log
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)
        finally:
            process.kill()


def ask(port: int, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    """Ask the proxy as somebody who tells much about themselves."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE, source_address=(ADDRESS, 0))) as connection:
        told = {"User-Agent": MARKER, "X-Forwarded-For": MARKER, **headers}
        connection.request(method, path, body or None, {name.replace("_", "-"): value for name, value in told.items()})
        with closing(connection.getresponse()) as reply:
            return reply.status, reply.read()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    """A server with an experiment."""
    with running(tmp_path) as made:
        assert made.ask("POST", "/v1/experiments", HEADLINE).status == 201
        yield made


def test_devices_take_part_through_the_proxy_and_nobody_else_is_let_in(server: Running, tmp_path: Path) -> None:
    """A response is counted; long headers and large bodies end at the proxy; when the server is gone it is a 502."""
    with caddy(tmp_path, f"{server.host}:{server.port}") as (port, log):
        key = f"Bearer {server.keys['client']}"
        status, said = ask(port, "POST", "/v1/experiments/headline/decisions", b"{}", Authorization=key)
        assert status == 200
        message = json.dumps({"ticket": json.loads(said)["ticket"], "response": 1}).encode()
        assert ask(port, "POST", "/v1/responses", message) == (200, b'{"status":"counted"}')
        assert ask(port, "GET", "/console/sign-in")[0] == 200
        assert ask(port, "GET", "/healthz", X_Long="x" * 40_000)[0] == 431
        large = b'{"name": "' + b"x" * LARGEST_EXPERIMENT_BYTES + b'"}'
        assert ask(port, "POST", "/v1/experiments", large, Authorization=f"Bearer {server.keys['admin']}")[0] >= 400
        assert server.stop() == 0
        assert ask(port, "GET", "/healthz")[0] == 502
    for mark in (ADDRESS, MARKER, server.keys["client"]):
        assert mark not in log.read_text()
    assert "connection refused" in log.read_text()  # that something is wrong is said


def test_the_server_is_not_told_who_asks(tmp_path: Path) -> None:
    """Neither an address nor what a browser says of itself reaches it."""
    seen: list[str] = []

    class Seen(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(str(self.headers))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Seen) as upstream:
        thread = Thread(target=upstream.serve_forever)
        thread.start()
        with caddy(tmp_path, f"127.0.0.1:{upstream.server_port}") as (port, _):
            assert ask(port, "GET", "/") == (200, b"")
        upstream.shutdown()
        thread.join()
    (headers,) = seen
    assert ADDRESS not in headers
    assert MARKER not in headers
