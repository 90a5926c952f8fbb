"""Decisions and durable responses a second beside a hello-world in Starlette and msgspec; what group commit is worth.

One worker each, 32 connections that send a request as soon as the last is answered, rounds taken in turn. The last two
rows commit through a disk that takes 5 ms to flush, emulated by sleeping before each commit, in memory where the system
has /dev/shm, so that the real disk's own moods do not count.
"""

import argparse
import asyncio
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import cast

import msgspec
import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ldpbandits.server.committer import LARGEST_BATCH
from ldpbandits.server.process import Server
from ldpbandits.server.service import Service
from ldpbandits.server.store.sqlite import SqliteStore
from ldpbandits.server.tickets import Signer, Ticket, new_nonce
from ldpbandits.types import Arm

CONNECTIONS = 32
SECONDS = 3.0
ROUNDS = 5
FLUSH = 0.005
MOST = int(20_000 * SECONDS)
"""More responses than a round can take."""
KEYS = {
    "LDPBANDITS_ADMIN_KEY": "admin-" + secrets.token_urlsafe(24),
    "LDPBANDITS_CLIENT_KEY": "client-" + secrets.token_urlsafe(24),
    "LDPBANDITS_SIGNING_SECRET": secrets.token_urlsafe(24),
}
ARMS = 10
EXPERIMENT = {
    "name": "bench",
    "arms": [f"arm {number}" for number in range(ARMS)],
    "curator": {"mechanism": "bernoulli", "epsilon": 1},
}


class Greeting(msgspec.Struct):
    """What hello-world takes."""

    ticket: str
    response: float


async def _hello(request: Request) -> Response:
    greeting = msgspec.json.decode(await request.body(), type=Greeting)
    return Response(msgspec.json.encode({"hello": greeting.ticket}), media_type="application/json")


def _slow(point: str) -> None:
    if point == "before commit":
        time.sleep(FLUSH)


def serve(kind: str, folder: Path, listener: socket.socket) -> None:
    """Serve one of the things to measure."""
    if kind == "hello":
        app = Starlette(routes=[Route("/", _hello, methods=["POST"])])
        uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listener])
        return
    path = folder / f"{kind}.db"
    store = SqliteStore(path, failpoint=_slow) if kind.startswith("slow") else SqliteStore(path)
    largest = 1 if kind == "slow-each" else LARGEST_BATCH
    Server(Service(store, os.environ, largest_batch=largest)).serve_on(listener)


class Connection(asyncio.Protocol):
    """Sends a request, waits for its reply, sends the next."""

    def __init__(self, requests: Iterator[bytes], count: list[int]) -> None:
        """Take requests from here; count the replies there."""
        self._requests, self._count, self._data = requests, count, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        """Take a reply; anything but success ends the run."""
        self._data += data
        head, separator, body = self._data.partition(b"\r\n\r\n")
        if not separator or len(body) < int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]):
            return
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(self._data.decode())
        self._data = b""
        self._count[0] += 1
        self._transport.write(next(self._requests))


def _request(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEYS['LDPBANDITS_CLIENT_KEY']}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def responses(count: int = MOST) -> Iterator[bytes]:
    """Responses to so many new tickets, made beforehand: the crowd's own work is not what is measured."""
    signer, expires_at = Signer({0: KEYS["LDPBANDITS_SIGNING_SECRET"].encode()}), int(time.time()) + 3600
    tickets = [signer.sign(Ticket(1, Arm(number % ARMS), expires_at, new_nonce())) for number in range(count)]
    return iter([_request("/v1/responses", b'{"ticket": "%s", "response": 1}' % ticket.encode()) for ticket in tickets])


def decisions() -> Iterator[bytes]:
    """Decisions."""
    return cycle([_request("/v1/experiments/bench/decisions", b"{}")])


def greetings() -> Iterator[bytes]:
    """The same size of message, to hello-world."""
    return cycle([_request("/", b'{"ticket": "%s", "response": 1}' % (b"x" * 64))])


async def rate(port: int, requests: Iterator[bytes], seconds: float) -> float:
    """Return the replies a second."""
    loop, count = asyncio.get_running_loop(), [0]
    made = [
        await loop.create_connection(lambda: Connection(requests, count), "127.0.0.1", port) for _ in range(CONNECTIONS)
    ]
    await asyncio.sleep(seconds / 10)  # warm
    before, start = count[0], time.perf_counter()
    await asyncio.sleep(seconds)
    done = (count[0] - before) / (time.perf_counter() - start)
    for transport, _ in made:
        transport.abort()
    await asyncio.sleep(0.2)
    return done


def start(kind: str, folder: Path) -> tuple["subprocess.Popen[bytes]", int]:
    """Start a server on a port of its own."""
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        port = listener.getsockname()[1]
        command = [
            sys.executable,
            __file__,
            "--serve",
            kind,
            "--folder",
            str(folder),
            "--socket",
            str(listener.fileno()),
        ]
        process = subprocess.Popen(command, pass_fds=[listener.fileno()], env=os.environ | KEYS)
    return process, port


def create(port: int) -> None:
    """Create the experiment."""
    from http.client import HTTPConnection  # noqa: PLC0415

    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Authorization": f"Bearer {KEYS['LDPBANDITS_ADMIN_KEY']}"}
    connection.request("POST", "/v1/experiments", msgspec.json.encode(EXPERIMENT), headers)
    reply = connection.getresponse()
    if reply.status != 201:  # noqa: PLR2004 - created
        raise SystemExit(reply.read().decode())
    connection.close()


def main() -> None:
    """Measure everything in turn, and print."""
    kinds = ("hello", "agent", "slow-group", "slow-each")
    memory = Path("/dev/shm")  # noqa: S108 - for speed, not for secrets
    with (
        tempfile.TemporaryDirectory(dir=Path.cwd()) as disk,
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as fast,
    ):
        started = {kind: start(kind, Path(fast if kind.startswith("slow") else disk)) for kind in kinds}
        try:
            ports = {kind: port for kind, (_, port) in started.items()}
            for kind in kinds[1:]:
                create(ports[kind])
            work = {
                "hello-world": (ports["hello"], greetings),
                "decisions": (ports["agent"], decisions),
                "responses": (ports["agent"], responses),
                "slow disk, group commit": (ports["slow-group"], responses),
                "slow disk, one commit each": (ports["slow-each"], responses),
            }
            rates: dict[str, list[float]] = {what: [] for what in work}
            for _ in range(ROUNDS):
                for what, (port, requests) in work.items():
                    rates[what].append(uvloop.run(rate(port, requests(), SECONDS)))
        finally:
            for process, _ in started.values():
                process.terminate()
                process.wait()
    print(f"{CONNECTIONS} connections, median of {ROUNDS} rounds of {SECONDS:g} s")
    for what, measured in rates.items():
        print(f"{what:<28}{median(measured):>9,.0f} a second  ({min(measured):,.0f} to {max(measured):,.0f})")
    missed = False
    for what, beside, least in (
        ("decisions", "hello-world", 0.6),
        ("responses", "hello-world", 0.35),
        ("slow disk, group commit", "slow disk, one commit each", 20),
    ):
        ratio = median(a / b for a, b in zip(rates[what], rates[beside], strict=True))
        missed |= ratio < least
        print(f"{what} / {beside}: {ratio:.2f}, at least {least} wanted{'' if ratio >= least else ': MISSED'}")
    sys.exit(missed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--socket", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.folder, socket.socket(fileno=options.socket))
    else:
        main()
