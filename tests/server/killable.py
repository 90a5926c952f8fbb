"""A server that dies at a given moment, or has a planted fault: tests run it in a process of its own.

python killable.py DATABASE SOCKET [--die-at POINT --hit N] [--fault NAME] [--clock SECONDS] [--ready FILE]
"""

import argparse
import os
import signal
import socket
import time
from asyncio import Future, sleep
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ldpbandits.server.process.server import Server
from ldpbandits.server.service import Service
from ldpbandits.server.store import Answer, CellTotal, Event, Outcome, Store
from ldpbandits.server.store.committer import Committer
from ldpbandits.server.store.nonces import commitment_of, place_of
from ldpbandits.server.store.opening import is_shared
from ldpbandits.server.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    import sqlite3

LINGER = 0.03
"""A disk takes its time: whoever was told too early has heard it before the end."""

EARLY = 0.2
"""Seconds from the check of `ChecksEarly` to its commit."""


def dying(point: str | None, hit: int) -> Callable[[str], None]:
    """Return a failpoint that kills this process, at once and without mercy, when it is there for the hit-th time."""
    left = [hit]

    def failpoint(name: str) -> None:
        if name == point:
            left[0] -= 1
            if left[0] == 0:
                time.sleep(LINGER)
                os.kill(os.getpid(), signal.SIGKILL)

    return failpoint


class TallyOutside(SqliteStore):
    """FAULT: nonces in one transaction, the tally in another."""

    def count(
        self,
        answers: Sequence[Answer],
        events: Sequence[Event] = (),  # noqa: ARG002 - of no matter here
    ) -> tuple[list[Outcome], list[CellTotal]]:
        """Count, wrongly."""
        with self.file.transaction() as connection:
            outcomes = [self._use_nonce(connection, answer) for answer in answers]
            pairs = list(zip(answers, outcomes, strict=True))
            counted = [answer for answer, outcome in pairs if outcome in {Outcome.COUNTED, Outcome.ANSWERED}]
            self._insert_responses(connection, counted)
        self._failpoint("between nonce and tally")
        with self.file.transaction() as connection:
            totals = self._add_to_totals(connection, counted)
        self._last_response += len(counted)
        return outcomes, totals


class AcknowledgesEarly(Committer):
    """FAULT: whoever has queued is told that the response is on disk, and then it is written."""

    async def _commit(self, batch: list[tuple[Answer, Future[Outcome]]]) -> bool:
        for _, future in batch:
            future.set_result(Outcome.COUNTED)
        return await super()._commit(batch)


class ChecksEarly(Committer):
    """FAULT: duplicates are looked for when a response comes, some time before the transaction that counts it."""

    async def count(self, answer: Answer) -> Outcome:
        """Count, wrongly."""
        assert isinstance(self._store, SqliteStore)
        place = place_of(answer.ticket)
        of_this_kind = "true" if answer.is_acceptance else "commitment IS NOT NULL"
        sql = f"SELECT 1 FROM nonces WHERE (expires_at, id) = (?, ?) AND {of_this_kind}"  # noqa: S608 - ours
        if self._store.file.rows(sql, place):
            return Outcome.DUPLICATE
        await sleep(EARLY)  # long enough for a copy to arrive on a busy machine
        return await super().count(answer)


class CountsUnchecked(SqliteStore):
    """The store that believes `ChecksEarly`."""

    def _use_nonce(self, connection: "sqlite3.Connection", answer: Answer) -> Outcome:
        row = (*place_of(answer.ticket), answer.ticket.experiment, commitment_of(answer), answer.is_acceptance)
        connection.execute("INSERT OR REPLACE INTO nonces VALUES (?, ?, ?, ?, ?)", row)
        return Outcome.ACCEPTED if answer.is_acceptance else Outcome.COUNTED


STORES = {"tally outside": TallyOutside, "checks early": CountsUnchecked}
COMMITTERS = {"acknowledges early": AcknowledgesEarly, "checks early": ChecksEarly}


def opened(database: str, fault: str | None, failpoint: Callable[[str], None]) -> Store:
    """Open the database, by a store that may have a fault."""
    if is_shared(database):
        from tests.server.faulty_postgres import store_with  # noqa: PLC0415 - it takes a while

        return store_with(fault)(database, failpoint=failpoint)
    return STORES.get(fault or "", SqliteStore)(Path(database), failpoint=failpoint)


def main() -> None:
    """Serve on a socket that somebody else holds open, until told to stop or killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("database")
    parser.add_argument("socket", type=int)
    parser.add_argument("--die-at")
    parser.add_argument("--hit", type=int, default=1)
    parser.add_argument("--fault")
    parser.add_argument("--clock", type=float, default=0.0, help="how far it is ahead")
    parser.add_argument("--ready", type=Path, help="a file to be made when requests are answered")
    options = parser.parse_args()
    store = opened(options.database, options.fault, dying(options.die_at, options.hit))
    service = Service(store, os.environ, now=lambda: time.time() + options.clock)
    service.committer.close()
    service.committer = COMMITTERS.get(options.fault, Committer)(store, service.apply_totals)
    server = Server(service)
    if options.ready is not None:
        server.when_ready = options.ready.touch
    server.serve_on(socket.socket(fileno=options.socket))


if __name__ == "__main__":
    main()
