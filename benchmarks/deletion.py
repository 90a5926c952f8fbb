"""How long a response waits while an experiment of a million responses is deleted, in pieces and at once.

One experiment is filled and deleted, while responses to another come one after the other, each as soon as the last is
counted. It is done twice for each store in one run: with pieces of ERASED_ROWS rows, as the server deletes, and with
all rows in one piece. The longest wait of both is printed, and how long each deletion took.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from crowd import EXPERIMENT
from tests.server.postgres_server import running_postgres

from ldpbandits.server.api.messages import NewExperiment, ResponseMessage
from ldpbandits.server.experiments.tickets import Ticket, new_nonce
from ldpbandits.server.service import Service
from ldpbandits.server.store import ERASED_ROWS, Answer
from ldpbandits.server.store.opening import open_store
from ldpbandits.server.store.postgres import changes as postgres_changes
from ldpbandits.server.store.sqlite import store as sqlite
from ldpbandits.types import Arm

RESPONSES = 1_000_000
BATCH = 5_000
ALL = 1 << 40


async def run(database: str, responses: int, rows: int) -> tuple[float, float]:
    """Delete an experiment; return the seconds that this took, and the longest that a response waited meanwhile."""
    store = open_store(database)
    service = Service(store)
    for name in ("large", "small"):
        new: dict[str, Any] = {**EXPERIMENT, "name": name}
        await service.commands.create(NewExperiment(**new))
    number = service.find("large").number
    for batch in _answers(number, responses):
        await service.committer.run(store.count, batch)
    sqlite.ERASED_ROWS = postgres_changes.ERASED_ROWS = rows  # type: ignore[attr-defined]
    await _wait(service)
    start, longest = time.perf_counter(), 0.0
    deletion = asyncio.create_task(service.change(lambda: service.commands.delete("large")))
    while not deletion.done():
        longest = max(longest, await _wait(service))
    took = time.perf_counter() - start
    await deletion
    service.close()
    return took, longest


def _answers(experiment: int, count: int) -> Iterator[list[Answer]]:
    until = int(time.time()) + 3600
    for start in range(0, count, BATCH):
        numbers = range(start, min(start + BATCH, count))
        yield [Answer(Ticket(experiment, Arm(n % 10), until, new_nonce()), n % 2) for n in numbers]


async def _wait(service: Service) -> float:
    """Count a response; return the seconds that it took."""
    if service.peers is not None:
        await service.refresh("small")
    ticket = service.decide("small").ticket
    start = time.perf_counter()
    await service.respond(ResponseMessage(ticket or "", 1.0))
    return time.perf_counter() - start


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--responses", type=int, default=RESPONSES)
    parser.add_argument("--store", choices=["sqlite", "postgres"], action="append")
    options = parser.parse_args()
    for store in options.store or ["sqlite", "postgres"]:
        waits = []
        for rows in (ERASED_ROWS, ALL):
            with ExitStack() as stack:
                if store == "sqlite":
                    folder = stack.enter_context(tempfile.TemporaryDirectory())
                    database = str(Path(folder) / "agent.db")
                else:
                    database = stack.enter_context(running_postgres(fsync="on")).new()
                took, longest = asyncio.run(run(database, options.responses, rows))
            waits.append(longest)
            told = f"{rows:,} rows at a time" if rows < ALL else "all at once"
            print(f"{store:8} {told:22} {took:6.1f} s, longest wait {1e3 * longest:8.1f} ms", flush=True)
        print(f"{store:8} in pieces the longest wait is {waits[1] / waits[0]:.0f} times shorter")


if __name__ == "__main__":
    main()
