"""Counting a batch in PostgreSQL: one statement, one round trip, exactly once.

Nonce, response and tally are one transaction, the nonce is unique, and the reply follows the commit. When the outcome
is not known, since the connection was lost, the same batch is sent again: it waits for the old transaction, if that is
still under way, and finds its nonces there or not.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from secrets import randbelow
from typing import Any, NamedTuple

from psycopg import Connection
from psycopg.rows import TupleRow

from ldpbandits.server.store import ACCEPTANCES, Answer, Outcome
from ldpbandits.server.store.nonces import commitment_of, place_of

_COUNT = """
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(
        %(expiries)s::bigint[], %(ids)s::bytea[], %(experiments)s::integer[], %(arms)s::integer[],
        %(cells)s::integer[], %(values)s::bigint[], %(reads)s::bigint[], %(commitments)s::bytea[]
    ) WITH ORDINALITY AS given (expires_at, id, experiment, arm, cell, value, read, commitment, place)
),
gate AS MATERIALIZED (
    SELECT experiment FROM gates
    WHERE slot = %(slot)s AND open AND experiment IN (SELECT DISTINCT experiment FROM given)
    ORDER BY experiment FOR UPDATE
),
new AS (
    INSERT INTO nonces (expires_at, id, experiment, batch, accepted, commitment)
    SELECT expires_at, id, experiment, %(batch)s, commitment IS NULL, commitment FROM given JOIN gate USING (experiment)
    ORDER BY expires_at, id
    ON CONFLICT (expires_at, id) DO UPDATE SET commitment = excluded.commitment, batch = excluded.batch
    WHERE nonces.commitment IS NULL AND excluded.commitment IS NOT NULL
    RETURNING expires_at, id, accepted
),
used AS (SELECT given.*, accepted FROM new JOIN given USING (expires_at, id)),
kept AS (
    INSERT INTO responses (experiment, arm, cell, value)
    SELECT experiment, arm, cell, value FROM used WHERE commitment IS NOT NULL ORDER BY place
),
tallied AS (
    SELECT experiment, arm, cell, value, read FROM used
    UNION ALL SELECT experiment, arm, {acceptances}, -1, 0 FROM used WHERE commitment IS NOT NULL AND accepted
),
added AS (
    INSERT INTO cells AS known (experiment, slot, arm, cell, pulls, total, read)
    SELECT experiment, %(slot)s, arm, cell, count(*), sum(value), sum(read)
    FROM tallied GROUP BY experiment, arm, cell ORDER BY experiment, arm, cell
    ON CONFLICT (experiment, slot, arm, cell) DO UPDATE SET
        pulls = known.pulls + excluded.pulls, total = known.total + excluded.total, read = known.read + excluded.read
    RETURNING experiment, arm, cell, pulls, total, read
){events}
SELECT place, NULL::integer, NULL::integer, NULL::integer, NULL::bigint, NULL::bigint, NULL::bigint FROM given
WHERE NOT EXISTS (SELECT FROM new WHERE new.expires_at = given.expires_at AND new.id = given.id)
UNION ALL
SELECT -place, NULL, NULL, NULL, NULL, NULL, NULL FROM used WHERE commitment IS NOT NULL AND accepted
UNION ALL
SELECT NULL, experiment, arm, cell, pulls, total, read FROM added
{told}"""
# The rows are: the places that were not used now; the places, negative, of responses to accepted pulls; the new totals.
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
COUNT = _COUNT.format(acceptances=ACCEPTANCES, events="", told="")
COUNT_AND_NOTE = _COUNT.format(
    acceptances=ACCEPTANCES,
    events=f",\nlisted AS MATERIALIZED ({_LISTED}),\nnoted AS ({_NOTE})",
    told="UNION ALL SELECT 0, NULL, NULL, NULL, NULL, NULL, NULL FROM listed",
)
"""It returns a row with place 0, which no response has, when the worker is listed and its events are written."""

_FIND = """
SELECT given.place, nonces.commitment, nonces.accepted, nonces.batch
FROM unnest(%s::bigint[], %s::bytea[]) WITH ORDINALITY AS given (expires_at, id, place)
JOIN nonces ON nonces.expires_at = given.expires_at AND nonces.id = given.id
"""


def array(values: Sequence[int]) -> str:
    """Format an array of integers for PostgreSQL. psycopg takes three times as long for a list."""
    return "{" + ",".join(map(str, values)) + "}"


def bytes_array(values: Sequence[bytes | None]) -> str:
    """Format an array of bytes for PostgreSQL."""
    return "{" + ",".join(["NULL" if value is None else f'"\\\\x{value.hex()}"' for value in values]) + "}"


class Used(NamedTuple):
    """The use of a nonce: its commitment, whether its pull was accepted first, and the batch that counted it last."""

    commitment: bytes | None
    accepted: bool
    batch: int


class Batch:
    """Responses and acceptances that are counted together: the database gets one of each nonce.

    That is the first response, or else the acceptance; the others are compared with it.
    """

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
            if answer.ticket.expires_at <= forgotten:
                continue
            place = self._place.setdefault(key, len(self.given))
            if place == len(self.given):
                self.given.append(answer)
            elif self.given[place].is_acceptance:
                self.given[place] = answer

    @cached_property
    def keys(self) -> list[tuple[int, bytes]]:
        """The keys of the nonces in their table."""
        return [place_of(answer.ticket) for answer in self.given]

    @cached_property
    def _commitments(self) -> list[bytes | None]:
        return [commitment_of(answer) for answer in self.given]

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the statement."""
        given = self.given
        return {
            "expiries": array([expires_at for expires_at, _ in self.keys]),
            "ids": bytes_array([each for _, each in self.keys]),
            "commitments": bytes_array(self._commitments),
            "experiments": array([answer.ticket.experiment for answer in given]),
            "arms": array([answer.ticket.arm for answer in given]),
            "cells": array([answer.cell for answer in given]),
            "values": array([answer.value for answer in given]),
            "reads": array([answer.read for answer in given]),
            "batch": self.number,
        }

    def outcomes(self, left_out: Mapping[int, Used | None], answered: Collection[int]) -> list[Outcome]:
        """Return the outcome of each. `answered` are the places of responses to pulls that were accepted before.

        `left_out` maps the places that were not used now to the earlier use of their nonces. A second statement has
        read them: the snapshot of the first may not see a faster transaction.
        """
        outcomes = []
        seen: set[int] = set()
        for answer in self._answers:
            place = self._place.get((answer.ticket.expires_at, answer.ticket.nonce))
            if place is None:
                outcomes.append(Outcome.EXPIRED)
                continue
            mine = self._commitments[place]
            used = left_out.get(place, Used(mine, mine is None or place in answered, self.number))
            is_counted = used is not None and used.batch == self.number and used.commitment == mine
            if is_counted and place not in seen and answer.is_acceptance == (mine is None):
                seen.add(place)
                outcomes.append(_counted(used))
            else:
                outcomes.append(_repeated(answer, used))
        return outcomes


def _counted(used: Used | None) -> Outcome:
    """Return the outcome of the answer that has used a nonce now."""
    if used is None or used.commitment is None:
        return Outcome.ACCEPTED
    return Outcome.ANSWERED if used.accepted else Outcome.COUNTED


def _repeated(answer: Answer, used: Used | None) -> Outcome:
    """Return the outcome of an answer whose nonce another has used, or could not use any more."""
    if used is None or (used.commitment is None and not answer.is_acceptance):
        return Outcome.CLOSED
    is_same = answer.is_acceptance or used.commitment == commitment_of(answer)
    return Outcome.DUPLICATE if is_same else Outcome.CHANGED


def event_parameters(worker: int, happened: Mapping[tuple[int, int, str], int]) -> dict[str, Any]:
    """Return the parameters of a worker's event totals, by experiment, arm and kind."""
    return {
        "worker": worker,
        "of": array([key[0] for key in happened]),
        "of_arms": array([key[1] for key in happened]),
        "kinds": [key[2] for key in happened],
        "times": array(list(happened.values())),
    }


def find_used(connection: Connection[TupleRow], batch: Batch, places: Sequence[int]) -> dict[int, Used | None]:
    """Return the earlier use of the nonces at these places of a batch; None where there was none."""
    keys = [batch.keys[place] for place in places]
    rows = connection.execute(_FIND, (array([each for each, _ in keys]), bytes_array([each for _, each in keys])))
    found: dict[int, Used | None] = dict.fromkeys(places)
    for place, *used in rows.fetchall():
        found[places[place - 1]] = Used(*used)
    return found
