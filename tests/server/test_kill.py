"""Whatever is killed, and when: each acknowledged response is counted, once. And the test of it can fail."""

import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Event, Thread

import pytest

from ldpbandits.agent.laplace_rules import mean_excess
from ldpbandits.server.tickets import Signer, Ticket, new_nonce
from ldpbandits.types import Arm

POINTS = ("before transaction", "between nonce and tally", "before commit", "after commit")
FAULTS = "LDPBANDITS_FAULTS" in os.environ
"""Set by `make faults`: many more deaths."""

ENVIRONMENT = {
    "LDPBANDITS_ADMIN_KEY": "admin-key-of-this-test",
    "LDPBANDITS_CLIENT_KEY": "client-key-of-this-test",
    "LDPBANDITS_SIGNING_SECRET": "signing-secret-of-this-test",
}
EXPERIMENTS = (
    {"name": "bits", "arms": ["a", "b", "c"], "curator": {"mechanism": "bernoulli", "epsilon": 1}},
    {"name": "steps", "arms": ["a", "b"], "curator": {"mechanism": "laplace", "epsilon": 0.5}},
    {
        "name": "menu",
        "arms": ["a", "b"],
        "curator": {"mechanism": "bernoulli", "epsilon": [0.5, 2]},
        "rule": {"kind": "kl-ucb++"},
    },
)
MENU = [0.5, 2]
WORKERS = 6
ENOUGH = 60


@dataclass(frozen=True)
class Death:
    """How a server ends: at the hit-th passage of a point, or (without a point) after so many seconds."""

    point: str | None
    hit: int = 1
    after: float = 0.0


@dataclass
class Crowd:
    """Devices that send responses, some of them twice at once, each again until it is acknowledged."""

    address: tuple[str, int]
    stop: Event = field(default_factory=Event)
    acknowledged: dict[bytes, tuple[int, int, int, int]] = field(default_factory=dict)
    """By nonce: experiment, arm, cell and value, in units. Each worker writes only its own."""

    @contextmanager
    def working(self) -> Iterator[None]:
        """Send until the block ends, and then until all that was sent is acknowledged."""
        workers = [Thread(target=self._work, args=(random.Random(number),)) for number in range(WORKERS)]
        for worker in workers:
            worker.start()
        try:
            yield
        finally:
            self.stop.set()
            for worker in workers:
                worker.join()

    def wait_for(self, acknowledged: int) -> None:
        """Wait until so many are acknowledged: on a machine that is busy with other things it takes its time."""
        give_up = time.monotonic() + 30
        while len(self.acknowledged) < acknowledged and time.monotonic() < give_up:
            time.sleep(0.05)

    def _work(self, rng: random.Random) -> None:
        signer = Signer({0: ENVIRONMENT["LDPBANDITS_SIGNING_SECRET"].encode()})
        while not self.stop.is_set():
            experiment, cell = rng.choice((1, 2, 3)), 0
            arm = rng.randrange(3 if experiment == 1 else 2)
            value = rng.randrange(-3 << 20, 3 << 20) if experiment == 2 else rng.randrange(2)
            ticket = Ticket(experiment, Arm(arm), int(time.time()) + 3600, new_nonce())
            message = {"ticket": signer.sign(ticket), "response": value / 2**20 if experiment == 2 else value}
            if experiment == 3:
                cell = rng.randrange(2)
                message["epsilon"] = MENU[cell]
            while not self._send(message, copies=rng.choice((1, 2))):
                time.sleep(0.01)
            self.acknowledged[ticket.nonce] = (experiment, arm, cell, value)

    def _send(self, message: object, copies: int) -> bool:
        """Tell whether any copy was acknowledged; copies are under way at the same time."""
        body = json.dumps(message)
        headers = {"Authorization": f"Bearer {ENVIRONMENT['LDPBANDITS_CLIENT_KEY']}"}
        connections = [HTTPConnection(*self.address, timeout=20) for _ in range(copies)]
        done = False
        for connection in connections:
            try:
                connection.request("POST", "/v1/responses", body, headers)
            except (OSError, HTTPException):
                connection.close()
        for connection in connections:
            try:
                reply = connection.getresponse()
                said = json.loads(reply.read())
                assert reply.status in {200, 503}, said
                done |= reply.status == 200
            except (OSError, HTTPException):
                pass
            finally:
                connection.close()
        return done


@dataclass(frozen=True)
class Books:
    """What the crowd was told, and what the database holds, by experiment, arm and cell."""

    acknowledged: dict[tuple[int, int, int], tuple[int, int]]
    responses: dict[tuple[int, int, int], tuple[int, int]]
    tallies: dict[tuple[int, int, int], tuple[int, int]]
    nonces: int
    is_read: bool
    """What the rule of the second experiment reads of its responses adds up to what is kept."""

    @property
    def agree(self) -> bool:
        """Acknowledged = nonces = responses = pulls, and the sums are equal to the bit."""
        count = sum(count for count, _ in self.acknowledged.values())
        return self.acknowledged == self.responses == self.tallies and self.nonces == count and self.is_read


def reading(value: int) -> int:
    """What the default rule of the second experiment reads of a response, in units of 2^-20, as responses are."""
    excess = round(mean_excess(0.5) * 2**20)
    return -excess if value < 0 else 2**20 + excess if value > 2**20 else value


def audited(database: Path, crowd: Crowd) -> Books:
    """Read the books."""
    acknowledged: dict[tuple[int, int, int], tuple[int, int]] = {}
    for experiment, arm, cell, value in crowd.acknowledged.values():
        count, total = acknowledged.get((experiment, arm, cell), (0, 0))
        acknowledged[experiment, arm, cell] = (count + 1, total + value)
    connection = sqlite3.connect(database)
    try:
        responses = connection.execute(
            "SELECT experiment, arm, cell, count(*), sum(value) FROM responses GROUP BY experiment, arm, cell"
        ).fetchall()
        tallies = connection.execute("SELECT experiment, arm, cell, pulls, total FROM cells").fetchall()
        values = connection.execute("SELECT arm, value FROM responses WHERE experiment = 2").fetchall()
        read = dict(connection.execute("SELECT arm, read FROM cells WHERE experiment = 2").fetchall())
        (nonces,) = connection.execute("SELECT count(*) FROM nonces").fetchone()
    finally:
        connection.close()
    readings = {arm: sum(reading(value) for one, value in values if one == arm) for arm in read}
    by_cell = [{row[:3]: row[3:] for row in rows} for rows in (responses, tallies)]
    return Books(acknowledged, by_cell[0], by_cell[1], nonces, is_read=readings == read)


def create(address: tuple[str, int]) -> None:
    """Create the experiments."""
    connection = HTTPConnection(*address, timeout=20)
    headers = {"Authorization": f"Bearer {ENVIRONMENT['LDPBANDITS_ADMIN_KEY']}"}
    for experiment in EXPERIMENTS:
        connection.request("POST", "/v1/experiments", json.dumps(experiment), headers)
        reply = connection.getresponse()
        assert reply.status == 201, reply.read()
        reply.read()
    connection.close()


def live_through(folder: Path, deaths: Sequence[Death], fault: str | None = None) -> Books:
    """Let a crowd send while servers die one after the other; return the books after the last is told to stop."""
    database = folder / "agent.db"
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:

        def start(death: Death | None) -> "subprocess.Popen[bytes]":
            command = [sys.executable, str(Path(__file__).with_name("killable.py")), str(database)]
            command.append(str(listener.fileno()))
            if death is not None and death.point is not None:
                command += ["--die-at", death.point, "--hit", str(death.hit)]
            if fault is not None:
                command += ["--fault", fault]
            return subprocess.Popen(command, pass_fds=[listener.fileno()], env=os.environ | ENVIRONMENT)

        address = listener.getsockname()
        server = start(None)
        try:
            create(address)
            server.terminate()
            assert server.wait(timeout=20) == 0
            crowd = Crowd(address)
            with crowd.working():
                for death in deaths:
                    server = start(death)
                    if death.point is None:
                        time.sleep(death.after)
                        server.kill()
                    assert server.wait(timeout=60) == -signal.SIGKILL
                server = start(None)
                time.sleep(1.5)
                crowd.wait_for(ENOUGH)
            server.terminate()
            assert server.wait(timeout=20) == 0
        finally:
            server.kill()
            server.wait()
    assert len(crowd.acknowledged) >= ENOUGH
    return audited(database, crowd)


@pytest.mark.parametrize("point", POINTS)
def test_a_server_killed_at_a_point_loses_and_doubles_nothing(tmp_path: Path, point: str) -> None:
    """Killed again and again at this point of its transaction, the server agrees with the crowd to the bit."""
    rng = random.Random(point)
    deaths = [Death(point, hit=rng.randrange(1, 30)) for _ in range(25 if FAULTS else 2)]
    books = live_through(tmp_path, deaths)
    assert books.agree, books


def test_a_server_killed_at_any_moment_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Killed from outside at random moments, from its start on, the server agrees with the crowd to the bit."""
    rng = random.Random(1)
    deaths = [Death(None, after=rng.uniform(0.3, 1.5)) for _ in range(100 if FAULTS else 3)]
    books = live_through(tmp_path, deaths)
    assert books.agree, books


@pytest.mark.parametrize(
    ("fault", "point"),
    [
        ("acknowledges early", "before commit"),
        ("tally outside", "between nonce and tally"),
        ("checks early", None),
    ],
)
def test_a_planted_fault_is_found(tmp_path: Path, fault: str, point: str | None) -> None:
    """The same test finds a server that acknowledges, tallies or checks for duplicates outside the transaction."""
    deaths = [Death(point, hit) for hit in (3, 9)] if point is not None else []
    books = live_through(tmp_path, deaths, fault)
    assert not books.agree
    acknowledged, counted = (sum(count for count, _ in tally.values()) for tally in (books.acknowledged, books.tallies))
    if fault == "checks early":
        assert counted > acknowledged
    else:
        assert counted < acknowledged
