"""Whatever is killed, and when: each acknowledged response is counted, once. And the test of it can fail."""

import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.server.books import ENVIRONMENT, Books, Crowd, audited, create

from ldpbandits.server.store.sqlite.store import SqliteStore

POINTS = ("before transaction", "between nonce and tally", "before commit", "after commit")
FAULTS = "LDPBANDITS_FAULTS" in os.environ
"""Set by `make faults`: many more deaths."""

ENOUGH = 60


@dataclass(frozen=True)
class Death:
    """How a server ends: at the hit-th passage of a point, or (without a point) after so many seconds."""

    point: str | None
    hit: int = 1
    after: float = 0.0


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
            assert server.wait(timeout=60) == 0
            with closing(SqliteStore(database)) as store:
                crowd = Crowd(address, store.identity)
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
            assert server.wait(timeout=60) == 0
        finally:
            server.kill()
            server.wait()
    assert len(crowd.acknowledged) >= ENOUGH
    with closing(sqlite3.connect(database)) as connection:
        return audited(crowd, lambda sql: connection.execute(sql).fetchall())


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
    assert counted > acknowledged if fault == "checks early" else books.has_lost
