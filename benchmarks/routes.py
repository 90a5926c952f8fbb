"""Processor time of every route, and how long decisions take beside a crowd that asks for a dear one.

A server has EXPERIMENTS experiments. First each route is asked over one connection, and the processor time of the
server is divided by the requests. Then one connection asks for decisions while a crowd asks for another route as fast
as it is answered; the 99th percentile of those decisions is printed beside that of the same crowd at `/healthz`, the
cheapest route, so that what is printed is a ratio of one run.
"""

import argparse
import asyncio
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from statistics import quantiles

sys.path.insert(0, str(Path(__file__).parent.parent))

import psutil
from crowd import EXPERIMENT, KEYS, create, spent

from ldpbandits.server.process.front_door import FrontDoor
from ldpbandits.server.process.server import Server
from ldpbandits.server.service import Service
from ldpbandits.server.store.sqlite.store import SqliteStore

EXPERIMENTS = 10_000
SECONDS = 2.0
ADMIN, VIEWER, CLIENT = (KEYS[f"LDPBANDITS_{role}_KEY"] for role in ("ADMIN", "VIEWER", "CLIENT"))
E, C = "/v1/experiments/bench", "/console/experiments/bench"
ROUTES = (
    ("POST", f"{E}/decisions", CLIENT),
    ("POST", f"{E}/decisions", "wrong"),
    ("POST", "/v1/responses", ""),
    ("GET", "/healthz", ""),
    ("GET", "/readyz", ""),
    ("GET", "/openapi.json", ""),
    ("GET", "/docs", ""),
    ("GET", "/nowhere", ""),
    ("GET", "/console/nowhere", ""),
    ("GET", "/console/sign-in", ""),
    ("POST", "/console/sign-in", ""),
    ("GET", "/console/enter/token", ""),
    ("GET", "/console/static/console.css", ""),
    ("GET", "/v1/experiments", VIEWER),
    ("GET", "/metrics", VIEWER),
    ("GET", E, VIEWER),
    ("GET", f"{E}/history", VIEWER),
    ("GET", f"{E}/tallies", VIEWER),
    ("GET", f"{E}/responses.csv", VIEWER),
    ("GET", "/console/", "session"),
    ("GET", C, "session"),
    ("GET", f"{C}/history.json", "session"),
    ("GET", f"{C}/report.html", "session"),
    ("GET", f"{C}/ship", "session"),
    ("GET", "/console/new", "session"),
    ("GET", "/console/epsilon?epsilon=1", "session"),
)
CROWDS = (
    (40, "/healthz", ""),
    (40, "/docs", ""),
    (40, "/openapi.json", ""),
    (40, "/console/sign-in", ""),
    (12, "/healthz", ""),
    (12, "/metrics", VIEWER),
    (12, "/v1/experiments", VIEWER),
    (4, "/healthz", ""),
    (4, "/console/", "session"),
    (4, "/console/?find=bench-99", "session"),
)


def fill(path: Path, experiments: int) -> None:
    """Write experiments like the first into a database."""
    store = SqliteStore(path)
    (first,) = store.experiments()
    arms = [arm.name for arm in first.arms]
    for number in range(1, experiments):
        store.create(replace(first.definition, name=f"bench-{number}"), arms)
    store.close()


@contextmanager
def serving(path: Path) -> Iterator[tuple[int, psutil.Process]]:
    """Serve a database in a process of its own; yield its port and the process."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        command = [sys.executable, __file__, "--serve", str(path), "--fd", str(listener.fileno())]
        process = subprocess.Popen(command, pass_fds=[listener.fileno()], env={**os.environ, **KEYS})
    try:
        _ask(port, "GET", "/healthz", {})
        yield port, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def serve(path: Path, descriptor: int) -> None:
    """Serve without limits of the rate: what is measured is the cost of a request."""
    limits = FrontDoor(admin_rate=0, viewer_rate=0, client_rate=0)
    Server(Service(SqliteStore(path), os.environ), limits).serve_on(socket.socket(fileno=descriptor))


def _ask(port: int, method: str, path: str, headers: dict[str, str], body: bytes | None = None) -> tuple[str, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request(method, path, body, headers)
    reply = connection.getresponse()
    told = reply.getheader("Set-Cookie", ""), reply.read()
    connection.close()
    return told


def sign_in(port: int) -> str:
    """Return the cookie of a session."""
    headers = {"Origin": f"http://127.0.0.1:{port}", "Content-Type": "application/x-www-form-urlencoded"}
    cookie, _ = _ask(port, "POST", "/console/sign-in", headers, f"key={ADMIN}".encode())
    return cookie.partition(";")[0]


def headers_of(who: str, cookie: str, port: int) -> dict[str, str]:
    """Return the headers that say who asks."""
    form = {"Origin": f"http://127.0.0.1:{port}", "Content-Type": "application/x-www-form-urlencoded"}
    return {"Cookie": cookie} if who == "session" else {"Authorization": f"Bearer {who}"} if who else form


def cost(port: int, server: psutil.Process, route: tuple[str, str, str], cookie: str) -> tuple[float, int, int]:
    """Return milliseconds of processor time for a request of a route, its status and the bytes of its reply."""
    method, path, who = route
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    headers = headers_of(who, cookie, port)
    bodies = {"/console/sign-in": b"key=wrong", "/v1/responses": b'{"ticket": "none", "response": 1}'}
    until, before, asked, status, size = time.monotonic() + SECONDS, spent(server), 0, 0, 0
    while time.monotonic() < until:
        connection.request(method, path, bodies.get(path, b"") if method == "POST" else None, headers)
        reply = connection.getresponse()
        status, size, asked = reply.status, len(reply.read()), asked + 1
    connection.close()
    return 1e3 * (spent(server) - before) / asked, status, size


async def _crowd(port: int, path: str, headers: dict[str, str]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    told = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    try:
        while True:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n{told}\r\n".encode())
            await _reply(reader)
    finally:
        writer.close()


async def _reply(reader: asyncio.StreamReader) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = re.search(rb"content-length: (\d+)", head)
    if length is not None:
        await reader.readexactly(int(length[1]))
        return
    while size := int((await reader.readuntil(b"\r\n")), 16):
        await reader.readexactly(size + 2)
    await reader.readexactly(2)


async def _decide(port: int, seconds: float) -> list[float]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = f"POST {E}/decisions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {CLIENT}\r\nContent-Length: 0\r\n\r\n"
    took, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        start = time.perf_counter()
        writer.write(request.encode())
        await _reply(reader)
        took.append(1e3 * (time.perf_counter() - start))
        await asyncio.sleep(0.005)
    writer.close()
    return took


async def beside(port: int, connections: int, path: str, headers: dict[str, str], seconds: float) -> list[float]:
    """Return the milliseconds of each decision beside a crowd."""
    crowd = [asyncio.create_task(_crowd(port, path, headers)) for _ in range(connections)]
    await asyncio.sleep(0.5)
    took = await _decide(port, seconds)
    for task in crowd:
        task.cancel()
    await asyncio.gather(*crowd, return_exceptions=True)
    return took


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=EXPERIMENTS)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--fd", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve, options.fd)
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:  # noqa: S108 - memory
        path = Path(folder) / "agent.db"
        with serving(path) as (port, _):
            create(port)
        fill(path, options.experiments)
        with serving(path) as (port, server):
            cookie = sign_in(port)
            print(f"{EXPERIMENT['name']} and {options.experiments - 1:,} more experiments")
            for route in ROUTES:
                took, status, size = cost(port, server, route, cookie)
                who = {ADMIN: "admin", VIEWER: "viewer", CLIENT: "client"}.get(route[2], route[2] or "anybody")
                print(f"{route[0]:4} {route[1]:40} {who:8} {status} {took:10.2f} ms {size:11,} bytes", flush=True)
            floors: dict[int, float] = {}
            for connections, asked, key in CROWDS:
                headers = headers_of(key, cookie, port) if key else {}
                waits = asyncio.run(beside(port, connections, asked, headers, 2 * SECONDS))
                tail = quantiles(waits, n=100)[-1] if len(waits) > 1 else waits[0]
                floors.setdefault(connections, tail)
                ratio = tail / floors[connections]
                print(f"{connections:3} x GET {asked:20} decisions: p99 {tail:9.1f} ms, {ratio:6.1f} times", flush=True)


if __name__ == "__main__":
    main()
