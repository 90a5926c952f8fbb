"""How long a backup, a check and a look at the history take where a million responses are, while more are counted.

The database is on the disk of the temporary folder, with the nonces of all its responses. Meanwhile a response is
counted each hundredth of a second, as on a small server. `VACUUM INTO`, which `ldpbandits backup` uses, reads one
moment of it. SQLite's own way, a hundred pages at a time as its shell does it, starts again after each response. The
history is read last, by itself, in seconds of the processor.
"""

import asyncio
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ldpbandits.server.api.messages import NewExperiment
from ldpbandits.server.experiments.history import Moment, replay
from ldpbandits.server.experiments.tickets import Ticket, new_nonce
from ldpbandits.server.service import Service
from ldpbandits.server.store import Answer
from ldpbandits.server.store.sqlite.store import SqliteStore
from ldpbandits.types import Arm

RESPONSES = 1_000_000
BATCH = 1000
PAUSE = 0.01
PATIENCE = 60.0
"""Seconds after which SQLite's own way has had its chance."""
EXPIRES_AT = 5_000_000_000
OURS = (sys.executable, "-m", "ldpbandits")
SHELL = (
    sys.executable,
    "-c",
    "import sqlite3, sys; source, copy = map(sqlite3.connect, sys.argv[1:]); source.backup(copy, pages=100, sleep=0)",
)


def answers(number: int) -> list[Answer]:
    """Return responses to new tickets of both arms."""
    return [Answer(Ticket(1, Arm(one % 2), EXPIRES_AT, new_nonce()), one % 3 % 2) for one in range(number)]


@contextmanager
def counting(store: SqliteStore) -> Iterator[None]:
    """Count one response after the other, until the block ends."""
    ended = threading.Event()

    def count() -> None:
        while not ended.wait(PAUSE):
            store.count(answers(1))

    thread = threading.Thread(target=count)
    thread.start()
    yield
    ended.set()
    thread.join()


def say(what: str, *command: object) -> None:
    """Run a command, and print how long it took."""
    start = time.monotonic()
    try:
        subprocess.run([str(word) for word in command], check=True, capture_output=True, timeout=PATIENCE)
        more = ""
    except subprocess.TimeoutExpired:
        more = ", and it had not ended"
    print(f"{what:<44}{time.monotonic() - start:8.2f} s{more}")


def cpu(work: Callable[[], object]) -> float:
    """Return how long something takes the processor."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Fill a database, and measure."""
    with tempfile.TemporaryDirectory() as folder:
        database, copy = Path(folder) / "agent.db", Path(folder) / "copy.db"
        store = SqliteStore(database)
        service = Service(store)
        new = NewExperiment("bench", ["a", "b"], {"mechanism": "bernoulli", "epsilon": 1})
        asyncio.run(service.commands.create(new))
        for _ in range(RESPONSES // BATCH):
            store.count(answers(BATCH))
        with counting(store):
            say(f"backup of {RESPONSES:,} responses", *OURS, "backup", copy, "--database", database)
            print(f"{'size of the copy':<44}{copy.stat().st_size / 1e6:8.0f} MB")
            say("check of the copy", *OURS, "check", "--database", copy)
            say("a backup by 100 pages at a time", *SHELL, database, Path(folder) / "shell.db")
        (stored,) = store.experiments()
        end = Moment(0, tuple(cell for arm in stored.arms for cell in arm.cells))
        taken = cpu(lambda: replay(store.export(1, 5_000), sum(cell.pulls for cell in end.cells), end, 1, lambda _: 0))
        print(f"{'history, found again by reading the responses':<44}{taken:8.2f} s of a processor")
        service.close()


if __name__ == "__main__":
    main()
