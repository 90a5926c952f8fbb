"""Counting a batch in PostgreSQL: one statement, one round trip, exactly once.

Nonce, response and tally are one transaction, the nonce is unique, and the reply follows the commit. When the outcome
is not known, since the connection was lost, the same batch is sent again: it waits for the old transaction, if that is
still under way, and finds its nonces there or not.
"""

from collections.abc import Mapping, Sequence
from secrets import randbelow
from typing import Any, NamedTuple

from psycopg import Connection
from psycopg.rows import TupleRow

from ldpbandits.server.store import Answer, Outcome

_COUNT = """
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(
        %(expiries)s::bigint[], %(nonces)s::bytea[], %(experiments)s::integer[], %(arms)s::integer[],
        %(cells)s::integer[], %(values)s::bigint[], %(reads)s::bigint[]
    ) WITH ORDINALITY AS given (expires_at, nonce, experiment, arm, cell, value, read, place)
),
gate AS MATERIALIZED (
    SELECT experiment FROM gates
    WHERE slot = %(slot)s AND open AND experiment IN (SELECT DISTINCT experiment FROM given)
    ORDER BY experiment FOR UPDATE
),
new AS (
    INSERT INTO nonces (expires_at, nonce, experiment, arm, cell, value, batch)
    SELECT expires_at, nonce, experiment, arm, cell, value, %(batch)s FROM given JOIN gate USING (experiment)
    ORDER BY expires_at, nonce
    ON CONFLICT DO NOTHING
    RETURNING expires_at, nonce, experiment, arm, cell, value
),
kept AS (
    INSERT INTO responses (experiment, arm, cell, value) SELECT experiment, arm, cell, value FROM new
),
added AS (
    INSERT INTO cells AS known (experiment, slot, arm, cell, pulls, total, read)
    SELECT new.experiment, %(slot)s, new.arm, new.cell, count(*), sum(new.value), sum(given.read)
    FROM new JOIN given USING (expires_at, nonce)
    GROUP BY new.experiment, new.arm, new.cell ORDER BY new.experiment, new.arm, new.cell
    ON CONFLICT (experiment, slot, arm, cell) DO UPDATE SET
        pulls = known.pulls + excluded.pulls, total = known.total + excluded.total, read = known.read + excluded.read
    RETURNING experiment, arm, cell, pulls, total, read
){events}
SELECT place, NULL::integer, NULL::integer, NULL::integer, NULL::bigint, NULL::bigint, NULL::bigint FROM given
WHERE NOT EXISTS (SELECT FROM new WHERE new.expires_at = given.expires_at AND new.nonce = given.nonce)
UNION ALL
SELECT NULL, experiment, arm, cell, pulls, total, read FROM added
{told}"""
# FOR UPDATE is what makes a closed experiment closed: the flag is read again once the lock is had. It is also a write,
# and that is needed: with a synchronous standby, a repeated statement that finds all its nonces would otherwise write
# nothing, not wait for the standby, and acknowledge what the first has not replicated yet.
# ORDER BY before the nonces are inserted: two workers with the same nonces in different orders would wait for each
# other. It also takes all gates first, since what is sorted is complete.
# The join of `new` and `given` is by nonce, and would count one twice that is given twice: `Batch` removes doubles.
# There is no NOTIFY: it would let one commit at a time through.

_LISTED = "SELECT id FROM workers WHERE id = %(worker)s FOR KEY SHARE"
_NOTE = """
INSERT INTO events (experiment, worker, arm, kind, count)
SELECT experiment, listed.id, arm, kind, count FROM listed, unnest(
    %(of)s::integer[], %(of_arms)s::integer[], %(kinds)s::text[], %(times)s::bigint[]
) AS happened (experiment, arm, kind, count)
ORDER BY experiment, arm, kind
ON CONFLICT (experiment, worker, arm, kind) DO UPDATE SET count = excluded.count
"""
# The numbers are absolute, so that the statement is idempotent. A worker that is no longer listed was taken for dead:
# its events were added to those of worker 0, and must not be counted twice. The lock makes `settle` wait, and lets the
# worker's own heartbeats through.

NOTE = f"WITH listed AS MATERIALIZED ({_LISTED}) {_NOTE}"
COUNT = _COUNT.format(events="", told="")
COUNT_AND_NOTE = _COUNT.format(
    events=f",\nlisted AS MATERIALIZED ({_LISTED}),\nnoted AS ({_NOTE})",
    told="UNION ALL SELECT 0, NULL, NULL, NULL, NULL, NULL, NULL FROM listed",
)
"""It returns a row with place 0, which no response has, when the worker is listed and its events are written."""

_FIND = """
SELECT given.place, nonces.value, nonces.cell, nonces.batch
FROM unnest(%s::bigint[], %s::bytea[]) WITH ORDINALITY AS given (expires_at, nonce, place)
JOIN nonces ON nonces.expires_at = given.expires_at AND nonces.nonce = given.nonce
"""


def array(values: Sequence[int]) -> str:
    """Format an array of integers for PostgreSQL. psycopg takes three times as long for a list."""
    return "{" + ",".join(map(str, values)) + "}"


def bytes_array(values: Sequence[bytes]) -> str:
    """Format an array of bytes for PostgreSQL."""
    return '{"\\\\x' + '","\\\\x'.join([value.hex() for value in values]) + '"}' if values else "{}"


class Used(NamedTuple):
    """The response that a nonce was used for: its value and cell, and the batch that counted it."""

    value: int
    cell: int
    batch: int


class Batch:
    """Responses that are counted together: the database gets the first of each nonce, repeats are compared with it."""

    def __init__(self, answers: Sequence[Answer], forgotten: int) -> None:
        """Leave out tickets whose nonces may be forgotten."""
        self.number = randbelow(1 << 31)
        """Distinguishes responses that this batch has counted, perhaps in an attempt of unknown outcome, from
        others."""
        self._answers = answers
        self._place: dict[tuple[int, bytes], int] = {}
        self.given: list[Answer] = []
        for answer in answers:
            key = (answer.ticket.expires_at, answer.ticket.nonce)
            if answer.ticket.expires_at > forgotten and key not in self._place:
                self._place[key] = len(self.given)
                self.given.append(answer)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the statement."""
        given = self.given
        return {
            "expiries": array([answer.ticket.expires_at for answer in given]),
            "nonces": bytes_array([answer.ticket.nonce for answer in given]),
            "experiments": array([answer.ticket.experiment for answer in given]),
            "arms": array([answer.ticket.arm for answer in given]),
            "cells": array([answer.cell for answer in given]),
            "values": array([answer.value for answer in given]),
            "reads": array([answer.read for answer in given]),
            "batch": self.number,
        }

    def outcomes(self, left_out: Mapping[int, Used | None]) -> list[Outcome]:
        """Return the outcome of each. `left_out` maps the places that were not inserted to the use of their nonces.

        A second statement has read them: the snapshot of the first may not see a faster transaction.
        """
        outcomes = []
        seen: set[int] = set()
        for answer in self._answers:
            place = self._place.get((answer.ticket.expires_at, answer.ticket.nonce))
            if place is None:
                outcomes.append(Outcome.EXPIRED)
                continue
            first = self.given[place]
            used = left_out.get(place, Used(first.value, first.cell, self.number))
            if used is None:
                outcomes.append(Outcome.CLOSED)
            elif used.batch == self.number and place not in seen:
                outcomes.append(Outcome.COUNTED)
            else:
                same = used[:2] == (answer.value, answer.cell)
                outcomes.append(Outcome.DUPLICATE if same else Outcome.CHANGED)
            seen.add(place)
        return outcomes


def event_parameters(worker: int, happened: Mapping[tuple[int, int, str], int]) -> dict[str, Any]:
    """Return the parameters of a worker's event totals, by experiment, arm and kind."""
    return {
        "worker": worker,
        "of": array([key[0] for key in happened]),
        "of_arms": array([key[1] for key in happened]),
        "kinds": [key[2] for key in happened],
        "times": array(list(happened.values())),
    }


def find_used(connection: Connection[TupleRow], answers: Sequence[Answer]) -> list[Used | None]:
    """Return for each answer the use of its nonce; None where it was not used."""
    expiries = array([answer.ticket.expires_at for answer in answers])
    nonces = bytes_array([answer.ticket.nonce for answer in answers])
    found: list[Used | None] = [None] * len(answers)
    for place, *used in connection.execute(_FIND, (expiries, nonces)).fetchall():
        found[place - 1] = Used(*used)
    return found
