"""Offers, decisions, durable acceptances and responses a second, beside a hello-world; what more workers add.

The hello-world is Starlette and msgspec. Connections send a request as soon as the last is answered; rounds are taken
in turn, so that a machine's moods hit all alike. First one process on SQLite, and what group commit is worth on a disk
that takes 5 ms to flush: emulated by sleeping before each commit, in memory where the system has /dev/shm, so that the
real disk's own moods do not count. Then SQLite beside PostgreSQL (fsync on, on the same disk) with one and two workers.
The crowd itself takes a processor.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent.parent))

import msgspec
import psutil
import uvicorn
import uvloop
from crowd import KEYS, Measured, acceptances, create, decisions, greetings, measure, offers, responses
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.server.postgres_server import running_postgres
from tests.server.running import running

from ldpbandits.server.process.front_door import FrontDoor
from ldpbandits.server.process.server import Server
from ldpbandits.server.service import Service
from ldpbandits.server.store.committer import LARGEST_BATCH
from ldpbandits.server.store.postgres.store import PostgresStore
from ldpbandits.server.store.sqlite.store import SqliteStore

CONNECTIONS = 32
CROWDS = (32, 128, 256)
SECONDS = 3.0
ROUNDS = 5
FLUSH = 0.005
MOST = int(50_000 * SECONDS)
"""More responses than a round can take."""


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
    Server(Service(store, os.environ, largest_batch=largest), FrontDoor(client_rate=0)).serve_on(listener)


@contextmanager
def started(kind: str, folder: Path) -> Iterator[tuple[int, psutil.Process]]:
    """Run a server on a port of its own."""
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        port = listener.getsockname()[1]
        command = [sys.executable, __file__, "--serve", kind, "--folder", str(folder)]
        process = subprocess.Popen(
            [*command, "--socket", str(listener.fileno())], pass_fds=[listener.fileno()], env=os.environ | KEYS
        )
    try:
        yield port, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def identity_of(kind: str, folder: Path) -> bytes:
    """Make the database of a server that is yet to start; the crowd signs its own tickets, with this identity."""
    with closing(SqliteStore(folder / f"{kind}.db")) as store:
        return store.identity


def told(what: str, rates: list[float]) -> str:
    """Write a row."""
    return f"{what:<28}{median(rates):>9,.0f} a second  ({min(rates):,.0f} to {max(rates):,.0f})"


def ratio(what: str, above: list[float], below: list[float], wanted: float, *, at_most: bool = False) -> bool:
    """Print the median of ratios of one round; return whether it is missed."""
    found = median(a / b for a, b in zip(above, below, strict=True))
    missed = found > wanted if at_most else found < wanted
    print(f"{what}: {found:.2f}, at {'most' if at_most else 'least'} {wanted} wanted{': MISSED' if missed else ''}")
    return missed


def one_process() -> bool:
    """Measure one process on SQLite; return whether anything is missed."""
    kinds = ("hello", "agent", "slow-group", "slow-each")
    memory = Path("/dev/shm")  # noqa: S108 - for speed, not for secrets
    with ExitStack() as stack:
        disk = stack.enter_context(tempfile.TemporaryDirectory(dir=Path.cwd()))
        fast = stack.enter_context(tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None))
        folders = {kind: Path(fast if kind.startswith("slow") else disk) for kind in kinds}
        sign = {kind: partial(responses, identity_of(kind, folders[kind]), MOST) for kind in kinds[1:]}
        ports = {kind: stack.enter_context(started(kind, folders[kind]))[0] for kind in kinds}
        for kind in kinds[1:]:
            create(ports[kind])
        work: dict[str, tuple[int, Callable[[], Iterator[bytes]]]] = {
            "hello-world": (ports["hello"], greetings),
            "offers": (ports["agent"], offers),
            "decisions": (ports["agent"], decisions),
            "acceptances": (ports["agent"], partial(acceptances, sign["agent"].args[0], MOST)),
            "responses": (ports["agent"], sign["agent"]),
            "slow disk, group commit": (ports["slow-group"], sign["slow-group"]),
            "slow disk, one commit each": (ports["slow-each"], sign["slow-each"]),
        }
        rates: dict[str, list[float]] = {what: [] for what in work}
        for _ in range(ROUNDS):
            for what, (port, requests) in work.items():
                rates[what].append(uvloop.run(measure(port, requests(), SECONDS, CONNECTIONS)).rate)
    print(f"{CONNECTIONS} connections, median of {ROUNDS} rounds of {SECONDS:g} s")
    for what, measured in rates.items():
        print(told(what, measured))
    return any(
        [
            ratio("offers / hello-world", rates["offers"], rates["hello-world"], 0.9),
            ratio("acceptances / hello-world", rates["acceptances"], rates["hello-world"], 0.35),
            ratio("decisions / hello-world", rates["decisions"], rates["hello-world"], 0.6),
            ratio("responses / hello-world", rates["responses"], rates["hello-world"], 0.35),
            ratio(
                "slow disk, group commit / one commit each",
                rates["slow disk, group commit"],
                rates["slow disk, one commit each"],
                20,
            ),
        ]
    )


def many_workers() -> bool:
    """Measure SQLite beside PostgreSQL; return whether anything is missed."""
    with ExitStack() as stack:
        disk = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=Path.cwd())))
        postgres = stack.enter_context(running_postgres(fsync="on", autovacuum="on", shared_buffers="'128MB'"))
        database = psutil.Process(postgres.pid)
        port, process = stack.enter_context(started("hello", disk))
        work: dict[str, tuple[int, Callable[[], Iterator[bytes]], list[psutil.Process]]] = {
            "hello-world": (port, greetings, [process])
        }
        sign = partial(responses, identity_of("agent", disk), MOST)
        port, process = stack.enter_context(started("agent", disk))
        create(port)
        work["SQLite"] = (port, sign, [process])
        for workers in (1, 2):
            url = postgres.new()
            with closing(PostgresStore(url)) as store:
                sign = partial(responses, store.identity, MOST)
            folder = disk / str(workers)
            folder.mkdir()
            server = stack.enter_context(
                running(folder, database=url, options=["--workers", str(workers)], environment=KEYS)
            )
            create(server.port)
            spenders = [psutil.Process(server.process.pid), database]
            work[f"PostgreSQL, {workers} worker{'s' * (workers > 1)}"] = (server.port, sign, spenders)
        found: dict[tuple[str, int], list[Measured]] = {(what, crowd): [] for what in work for crowd in CROWDS}
        for _ in range(ROUNDS):
            for crowd in CROWDS:
                for what, (port, requests, who) in work.items():
                    found[what, crowd].append(uvloop.run(measure(port, requests(), SECONDS, crowd, who)))
    print(f"\ndurable responses a second, and CPU us a response: server + database; median of {ROUNDS} rounds")
    print(f"{'connections':<24}" + "".join(f"{crowd:>24}" for crowd in CROWDS))
    for what in work:
        cells = []
        for crowd in CROWDS:
            rates = [each.rate for each in found[what, crowd]]
            costs = zip(*(each.cpu for each in found[what, crowd]), strict=True)
            cells.append(f"{median(rates):,.0f}  " + " + ".join(f"{median(cost):.0f}" for cost in costs))
        print(f"{what:<24}" + "".join(f"{cell:>24}" for cell in cells))
    two, one, alone = (found[what, 128] for what in ("PostgreSQL, 2 workers", "PostgreSQL, 1 worker", "SQLite"))
    return any(
        [
            ratio(
                "responses at 128 connections: PostgreSQL with 2 workers / SQLite",
                [each.rate for each in two],
                [each.rate for each in alone],
                1.2,
            ),
            ratio(
                "CPU of a worker a response at 128 connections: PostgreSQL / SQLite",
                [each.cpu[0] for each in one],
                [each.cpu[0] for each in alone],
                1.0,
                at_most=True,
            ),
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--socket", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--part", choices=("one", "many"), help="one process, or many workers (default: both)")
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.folder, socket.socket(fileno=options.socket))
    else:
        parts = {"one": one_process, "many": many_workers}
        missed = [measured() for name, measured in parts.items() if options.part in {None, name}]
        sys.exit(any(missed))
