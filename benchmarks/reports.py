"""How long decisions wait while somebody asks for reports of an experiment with as many arms as there may be.

One connection asks for decisions, a hundred a second or so, and each is timed from the request to its reply: first
alone, then while another connection asks for a report as soon as it has the last. Every tenth decision is followed by a
batch of a hundred responses, so that every report has new intervals to work out. The rounds are taken in turn.
"""

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from statistics import median, quantiles

from ldpbandits.server.process.front_door import FrontDoor
from ldpbandits.server.process.server import Server
from ldpbandits.server.service import Service
from ldpbandits.server.store.sqlite.store import SqliteStore

ARMS = 256
RESPONSES = 2000
DECISIONS = 400
PAUSE = 0.005
ROUNDS = 5
RNG = random.Random(1)
MOST = 2.0
"""The ratio of the 99th percentiles that is bearable."""
KEYS = {f"LDPBANDITS_{role}_KEY": f"{role.lower()}-key-of-the-benchmark" for role in ("ADMIN", "VIEWER", "CLIENT")}
NEW = {
    "name": "bench",
    "arms": [f"arm {number}" for number in range(ARMS)],
    "curator": {"mechanism": "bernoulli", "epsilon": 1},
    "responses_per_hour": 0,
}


class Asking:
    """A connection with a key."""

    def __init__(self, port: int, role: str) -> None:
        """Connect."""
        self._connection = HTTPConnection("127.0.0.1", port, timeout=60)
        self._connection.connect()
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._headers = {"Authorization": f"Bearer {KEYS[f'LDPBANDITS_{role}_KEY']}"}

    def ask(self, method: str, path: str, body: object = None) -> bytes:
        """Send a request; anything but success ends the run."""
        raw = None if body is None else json.dumps(body).encode()
        self._connection.request(method, path, raw, self._headers)
        reply = self._connection.getresponse()
        said = reply.read()
        if reply.status not in {200, 201}:
            raise SystemExit(said.decode())
        return said


def play(client: Asking) -> None:
    """Let a hundred people take part."""
    decided = json.loads(client.ask("POST", "/v1/experiments/bench/decisions/batch", {"count": 100}))
    answers = [{"ticket": one["ticket"], "response": RNG.randrange(2)} for one in decided]
    client.ask("POST", "/v1/responses/batch", {"responses": answers})


def prepare(port: int) -> None:
    """Create the experiment and count some responses to each arm."""
    admin = Asking(port, "ADMIN")
    admin.ask("POST", "/v1/experiments", NEW)
    for _ in range(RESPONSES // 100):
        play(admin)


def decisions(port: int) -> list[float]:
    """Return how many seconds each of many decisions took."""
    client, took = Asking(port, "CLIENT"), []
    for number in range(DECISIONS):
        if number % 10 == 0:
            play(client)
        start = time.perf_counter()
        client.ask("POST", "/v1/experiments/bench/decisions", {})
        took.append(time.perf_counter() - start)
        time.sleep(PAUSE)
    return took


def beside_reports(port: int) -> tuple[list[float], list[float]]:
    """Return the same, and how long each of the reports took, which were asked for all the time meanwhile."""
    done, reports = threading.Event(), []

    def ask() -> None:
        viewer = Asking(port, "ADMIN")
        while not done.is_set():
            start = time.perf_counter()
            viewer.ask("GET", "/v1/experiments/bench")
            reports.append(time.perf_counter() - start)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        took = decisions(port)
    finally:
        done.set()
        asking.join()
    return took, reports


def p99(took: list[float]) -> float:
    """Return the 99th percentile, in milliseconds."""
    return 1000 * quantiles(took, n=100)[-1]


def main() -> None:
    """Measure in turn, and print."""
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        port = listener.getsockname()[1]
        command = [sys.executable, __file__, "--serve", folder, "--socket", str(listener.fileno())]
        process = subprocess.Popen(command, pass_fds=[listener.fileno()], env=os.environ | KEYS)
        try:
            prepare(port)
            decisions(port)
            rounds = [(decisions(port), *beside_reports(port)) for _ in range(ROUNDS)]
        finally:
            process.terminate()
            process.wait()
    alone = [p99(first) for first, _, _ in rounds]
    beside = [p99(second) for _, second, _ in rounds]
    ratio = median(b / a for a, b in zip(alone, beside, strict=True))
    reports = [1000 * second for _, _, third in rounds for second in third]
    print(f"{ARMS} arms, median of {ROUNDS} rounds of {DECISIONS} decisions")
    print(f"p99 of decisions alone: {median(alone):.2f} ms; beside reports: {median(beside):.2f} ms")
    print(f"a report: {median(reports):.0f} ms, {len(reports)} of them")
    print(f"ratio of p99: {ratio:.1f}, at most {MOST:g} wanted{'' if ratio <= MOST else ': MISSED'}")
    sys.exit(ratio > MOST)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--socket", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        service = Service(SqliteStore(options.serve / "agent.db"), os.environ)
        Server(service, FrontDoor(client_rate=0)).serve_on(socket.socket(fileno=options.socket))
    else:
        main()
