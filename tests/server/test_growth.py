"""What a server does costs the same however much there is already: counted in steps of SQLite and calls of Python."""

import asyncio
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import count
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.server.crowds import new
from tests.server.memory_store import MemoryStore
from tests.server.store_contract import answer, defined, exported

from ldpbandits.server.service import Service
from ldpbandits.server.store.sqlite.store import SqliteStore

FEW, MANY = 3, 300


def steps(connection: sqlite3.Connection, work: Callable[[], object]) -> int:
    """Count the steps that SQLite takes for something."""
    taken = count()
    connection.set_progress_handler(lambda: next(taken) < 0, 1)
    work()
    connection.set_progress_handler(None, 1)
    return next(taken)


@contextmanager
def store_of(folder: Path, experiments: int) -> Iterator[SqliteStore]:
    """Open a store of so many experiments."""
    with closing(SqliteStore(folder / f"{experiments}.db")) as store:
        store.file.connection.execute("PRAGMA synchronous = OFF")
        for number in range(experiments):
            store.create(defined(f"number {number}"), ["a", "b"])
        yield store


def test_creating_an_experiment_reads_no_other(tmp_path: Path) -> None:
    """The 301st takes as many steps of SQLite as the 4th."""

    def steps_beside(experiments: int) -> int:
        with store_of(tmp_path, experiments) as store:
            return steps(store.file.connection, lambda: store.create(defined("one"), ["a", "b"]))

    assert steps_beside(FEW) == steps_beside(MANY)


def test_creating_an_experiment_looks_at_no_other() -> None:
    """The server makes as many calls for the 301st as for the 4th, but for what waiting for a thread takes."""

    async def calls_beside(experiments: int) -> int:
        service, made = Service(MemoryStore(), now=lambda: 1_000.0), count()
        for number in range(experiments):
            await service.commands.create(replace(new("a", "b"), name=f"number {number}"))
        sys.setprofile(lambda *_: next(made))
        await service.commands.create(new("a", "b"))
        sys.setprofile(None)
        service.close()
        return next(made)

    few, many = asyncio.run(calls_beside(FEW)), asyncio.run(calls_beside(MANY))
    assert abs(few - many) < MANY // 2


def test_an_export_reads_nothing_of_other_experiments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes as many steps beside 10,000 responses of another experiment as beside a few."""
    counted: list[int] = []

    def reading() -> AbstractContextManager[sqlite3.Connection]:
        return _counting(original(), counted)

    with store_of(tmp_path, FEW) as store:
        original = store.file.reading
        monkeypatch.setattr(store.file, "reading", reading)
        store.count([answer(nonce, 1, experiment=2) for nonce in range(10)])
        for more in (FEW, 10_000):
            store.count([answer(1_000_000 + nonce, 0, experiment=1) for nonce in range(more)])
            store.count([answer(9_000_000 + more, 1, experiment=2)])
            assert len(exported(store, 2)) == 10 + (1 if more == FEW else 2)
    few, many = counted
    assert many - few < few


@contextmanager
def _counting(opened: AbstractContextManager[sqlite3.Connection], counted: list[int]) -> Iterator[sqlite3.Connection]:
    """Count the steps that are taken on a connection."""
    taken = count()
    with opened as connection:
        connection.set_progress_handler(lambda: next(taken) < 0, 1)
        yield connection
    counted.append(next(taken))
