"""A full disk: what cannot be written is not acknowledged, and what is sent again later is counted once."""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.server.namespaces import in_a_namespace
from tests.server.running import HEADLINE, Running, running

from ldpbandits import Client, Limits, Range

SIZE = 8 << 20
MOUNT = f'mount -t tmpfs -o size={SIZE} tmpfs "$1"'
TICKETS = 8
TURNS = 5
"""Enough for SQLite to move its log, of 1,000 pages, into the database while the disk is full or nearly so."""


class Disk:
    """The small disk of a running server, as seen from outside."""

    def __init__(self, server: Running, folder: Path) -> None:
        """Look into the namespace of the server."""
        self._ballast = Path(f"/proc/{server.process.pid}/root{folder}/ballast")

    def fill(self) -> None:
        """Leave no room."""
        with self._ballast.open("wb", buffering=0) as file:
            for size in (4096, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def free(self) -> None:
        """Make room again."""
        self._ballast.unlink()


@contextmanager
def on_a_small_disk(tmp_path: Path) -> Iterator[tuple[Running, Disk]]:
    """Run a server with an experiment, on a disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with running(tmp_path, before=in_a_namespace(MOUNT, folder), database=folder / "agent.db") as server:
        assert os.listdir(folder) == []  # noqa: PTH208 - the disk is in the server's namespace only
        assert server.ask("POST", "/v1/experiments", HEADLINE).status == 201
        yield server, Disk(server, folder)


def test_responses_wait_for_room_and_then_each_counts_once(tmp_path: Path) -> None:
    """Full: 503 'retry' to responses and changes, not ready; decisions and reads work. Room again: retries count."""
    with on_a_small_disk(tmp_path) as (server, disk):
        tickets = [server.decide()["ticket"] for _ in range(TICKETS)]
        assert server.respond(tickets[0], 1).json == {"status": "counted"}
        disk.fill()
        for _ in range(2):
            for ticket in tickets[1:]:
                reply = server.respond(ticket, 1)
                assert (reply.status, reply.json["code"], reply.headers["retry-after"]) == (503, "retry", "1")
        for path in ("/v1/experiments", "/v1/experiments/headline/pause", "/v1/keys/client/rotate"):
            reply = server.ask("POST", path, {**HEADLINE, "name": "other"} if path == "/v1/experiments" else {})
            assert (reply.status, reply.json["code"]) == (503, "retry")
        tickets.append(server.decide()["ticket"])
        report = server.ask("GET", "/v1/experiments/headline").json
        assert (report["responses"], report["status"]) == (1, "running")
        for path in ("/v1/experiments/headline/tallies", "/v1/experiments", "/metrics", "/healthz"):
            assert server.ask("GET", path).status == 200
        assert server.ask("GET", "/readyz", role=None).status == 503
        assert server.ask("GET", "/v1/experiments/headline/responses.csv").body.count(b"\n") == 2
        assert 1 <= server.printed().count("503, store: ") <= 3
        disk.free()
        assert {server.respond(ticket, 1).json["status"] for ticket in tickets[1:]} == {"counted"}
        assert {server.respond(ticket, 1).json["status"] for ticket in tickets} == {"duplicate"}
        tallies = server.ask("GET", "/v1/experiments/headline/tallies").json
        assert sum(arm["total"] for arm in tallies["arms"]) == sum(arm["pulls"] for arm in tallies["arms"]) == 9
        assert server.ask("GET", "/v1/experiments/headline/responses.csv").body.count(b"\n") == 10
        assert server.stop() == 0
        assert "Traceback" not in server.printed()


def test_a_full_disk_does_not_lose_what_was_acknowledged(tmp_path: Path) -> None:
    """The disk fills up while responses come: those acknowledged before, between and after are all there, once."""
    with on_a_small_disk(tmp_path) as (server, disk):
        sent = refused = 0
        for _ in range(TURNS):
            waiting = [server.decide()["ticket"] for _ in range(20)]
            sent += len(waiting)
            disk.fill()
            # Some may find room in what the log has already taken.
            waiting = [ticket for ticket in waiting if server.respond(ticket, 1).status != 200]
            refused += len(waiting)
            disk.free()
            waiting += [server.decide()["ticket"] for _ in range(60)]
            sent += 60
            assert {server.respond(ticket, 1).json["status"] for ticket in waiting} == {"counted"}
        assert refused
        assert server.ask("GET", "/v1/experiments/headline").json["responses"] == sent
        assert server.stop() == 0


def test_a_device_sends_again_when_there_is_room(tmp_path: Path) -> None:
    """The device keeps the response that could not be counted, and delivers the same one later."""
    with on_a_small_disk(tmp_path) as (server, disk):
        limits, ledger = Limits(rewards=Range(0, 1), epsilon=1, budget=10), tmp_path / "ledger"
        with Client(
            server.url, "headline", key=server.keys["client"], limits=limits, ledger=ledger, background=False
        ) as client:
            pull = client.decide()
            disk.fill()
            assert pull.observe(1.0) is True
            assert client.leave().waiting == 1
            later = client.flush(now=time.time() + 1000)
            assert (later.acknowledged, later.waiting, later.refused) == (0, 1, ())
            disk.free()
            assert client.flush(now=time.time() + 1000).acknowledged == 1
            assert client.flush(now=time.time() + 1000).acknowledged == 0
            assert client.spent() == 1
        assert server.ask("GET", "/v1/experiments/headline").json["responses"] == 1
