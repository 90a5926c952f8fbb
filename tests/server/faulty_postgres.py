"""Stores on PostgreSQL with planted faults."""

from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from ldpbandits.server.store import ACCEPTANCES
from ldpbandits.server.store.postgres.account import EventKey
from ldpbandits.server.store.postgres.counting import COUNT, Batch
from ldpbandits.server.store.postgres.retry import Counting
from ldpbandits.server.store.postgres.store import PostgresStore

_NO_TALLY = COUNT.replace("FROM tallied GROUP", "FROM tallied WHERE false GROUP")
_ADD = (
    "INSERT INTO cells AS known VALUES (%s, %s, %s, %s, 1, %s, %s) ON CONFLICT (experiment, slot, arm, cell) DO UPDATE"
    " SET pulls = known.pulls + 1, total = known.total + excluded.total, read = known.read + excluded.read"
    " RETURNING NULL::bigint, experiment, arm, cell, pulls, total, read"
)


class TallyApart(Counting):
    """FAULT: nonces in one transaction, the tally in another."""

    def _send(
        self,
        connection: Connection[TupleRow],
        batch: Batch,
        worker: int,  # noqa: ARG002 - of no matter here
        happened: dict[EventKey, int],  # noqa: ARG002 - as above
    ) -> tuple[list[Any], bool]:
        rows = connection.execute(_NO_TALLY, batch.parameters() | {"slot": self.slot}).fetchall()
        self._failpoint("between nonce and tally")
        left = {place for place, *_ in rows if place > 0}
        answered = {place for place, *_ in rows if place < 0}
        added = []
        for place, (ticket, value, cell, read) in enumerate(batch.given, 1):
            if place not in left:
                row = (ticket.experiment, self.slot, ticket.arm, cell, value, read)
                added += connection.execute(_ADD, row).fetchall()
            if -place in answered:
                row = (ticket.experiment, self.slot, ticket.arm, ACCEPTANCES, -1, 0)
                added += connection.execute(_ADD, row).fetchall()
        return rows + added, True


class StoreApart(PostgresStore):
    """A store that counts so."""

    counting = TallyApart


def store_with(fault: str | None) -> type[PostgresStore]:
    """Return the store with this fault, if it is one of a store."""
    return StoreApart if fault == "tally outside" else PostgresStore
