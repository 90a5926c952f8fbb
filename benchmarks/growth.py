"""What grows with what there is: creating the 10,000th experiment, and the export of one among many responses.

CPU time, in memory where the system has /dev/shm, so that a disk's own moods do not count. `count` is timed beside it,
in batches of 100, for what the order of the responses on disk costs those who write them.
"""

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time

from ldpbandits.server.api.messages import NewExperiment
from ldpbandits.server.experiments.tickets import Ticket, new_nonce
from ldpbandits.server.service import Service
from ldpbandits.server.store import Answer
from ldpbandits.server.store.sqlite.store import SqliteStore
from ldpbandits.types import Arm

EXPERIMENTS = 10_000
ACTIVE = 10
"""Experiments that have responses."""
RESPONSES = 300_000
EXPIRES_AT = 5_000_000_000


def seconds(work: Callable[[], object]) -> float:
    """Return how long something takes."""
    start = process_time()
    work()
    return process_time() - start


def named(number: int) -> NewExperiment:
    """Write down an experiment."""
    return NewExperiment(f"number {number}", ["a", "b"], {"mechanism": "bernoulli", "epsilon": 1})


async def create(service: Service) -> list[float]:
    """Create the experiments one after the other; return how long each took."""
    taken = []
    for number in range(EXPERIMENTS):
        start = process_time()
        await service.commands.create(named(number))
        taken.append(process_time() - start)
    return taken


def main() -> None:
    """Measure, and print."""
    memory = Path("/dev/shm")  # noqa: S108 - for speed, not for secrets
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        store = SqliteStore(Path(folder) / "agent.db")
        service = Service(store)
        taken = asyncio.run(create(service))
        for first in (0, EXPERIMENTS - 100):
            told = f"creating experiments {first + 1:,} to {first + 100:,}"
            print(f"{told:<44}{sorted(taken[first : first + 100])[50] * 1e3:8.2f} ms each (median)")
        counting = 0.0
        for start in range(0, RESPONSES, 100):
            batch = [
                Answer(Ticket(1 + number % ACTIVE, Arm(0), EXPIRES_AT + start // 10_000, new_nonce()), 1)
                for number in range(start, start + 100)
            ]
            counting += seconds(lambda batch=batch: store.count(batch))  # type: ignore[misc]
        print(f"{'counting, in batches of 100':<44}{counting / RESPONSES * 1e6:8.2f} us a response")
        one = seconds(lambda: list(store.export(1, 5_000)))
        none = seconds(lambda: list(store.export(EXPERIMENTS, 5_000)))
        print(f"{f'export of {RESPONSES // ACTIVE:,} responses of {RESPONSES:,}':<44}{one * 1e3:8.2f} ms")
        print(f"{f'export of none of {RESPONSES:,}':<44}{none * 1e3:8.2f} ms")
        service.close()


if __name__ == "__main__":
    main()
