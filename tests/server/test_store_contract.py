"""Every store keeps the contract, the contract finds a store that does not, and SQL stands in one folder."""

import ast
import re
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from tests.server.memory_store import Memory, MemoryStore
from tests.server.postgres_server import Postgres
from tests.server.store_contract import (
    BY_TICKET,
    CONTRACT,
    POINTS,
    Failpoint,
    Place,
    Rule,
    a_closed_experiment_counts_nothing_new,
    a_new_key_ends_those_before_it_after_the_grace,
    a_new_secret_ends_those_before_it_and_numbers_are_used_once,
    nothing_is_changed_when_the_store_is_unavailable,
    of_copies_in_one_batch_the_first_counts,
    one_sender_of_webhooks_at_a_time_goes_on_where_the_last_stopped,
    totals_are_exact_in_any_order,
    what_is_forgotten_is_expired_for_good,
)

from ldpbandits.server.store import Answer, CellTotal, Event, Outcome, Store
from ldpbandits.server.store.nonces import place_of
from ldpbandits.server.store.postgres.nonces import Days
from ldpbandits.server.store.postgres.store import PostgresStore
from ldpbandits.server.store.sqlite.store import SqliteStore
from ldpbandits.spec.messages import Change


class SqlitePlace:
    """A file."""

    fault: Exception = sqlite3.OperationalError("database or disk is full")
    points: Sequence[str] = POINTS

    def __init__(self, folder: Path) -> None:
        """Keep it in this folder."""
        self._path = folder / "agent.db"

    def open(self, failpoint: Failpoint) -> Store:
        """Open the file."""
        return SqliteStore(self._path, failpoint=failpoint)


class MemoryPlace:
    """A memory that outlives its store, for any kind of store in memory."""

    fault: Exception = MemoryError()
    points: Sequence[str] = POINTS

    def __init__(self, kind: type[MemoryStore] = MemoryStore) -> None:
        """Start with nothing."""
        self._kind = kind
        self._memory = Memory()

    def open(self, failpoint: Failpoint) -> Store:
        """Open a store on what is there."""
        return self._kind(self._memory, failpoint=failpoint)


class PostgresPlace:
    """A database. Its days are one second long, so that it forgets as exactly as the others."""

    fault: Exception = psycopg.OperationalError("server closed the connection unexpectedly")
    points: Sequence[str] = ("before commit",)

    def __init__(self, url: str) -> None:
        """Keep it there."""
        self._url = url

    def open(self, failpoint: Failpoint) -> Store:
        """Open the database."""
        return PostgresStore(self._url, failpoint=failpoint, patience=0.0, days=Days(width=1, kept=0), ahead=0)


PLACES: dict[str, Callable[[Path], Place]] = {"sqlite": SqlitePlace, "memory": lambda _: MemoryPlace()}
"""Every store that needs nothing but a folder. A new one is added here."""


@pytest.mark.parametrize("promise", CONTRACT, ids=lambda promise: promise.__name__)
@pytest.mark.parametrize("place", PLACES)
def test_every_store_keeps_the_contract(place: str, promise: Rule, tmp_path: Path) -> None:
    """Each rule of the contract holds for each store."""
    promise(PLACES[place](tmp_path))


@pytest.mark.parametrize(
    "promise", [rule for rule in CONTRACT if rule not in BY_TICKET], ids=lambda rule: rule.__name__
)
def test_postgresql_keeps_the_contract(promise: Rule, postgres: Postgres) -> None:
    """Each rule holds for PostgreSQL, but for those on which nonces go first: here they go by days."""
    promise(PostgresPlace(postgres.new()))


class TalliesOutside(MemoryStore):
    """FAULT: nonces and responses in one transaction, the totals in another."""

    def count(
        self,
        answers: Sequence[Answer],
        events: Sequence[Event] = (),  # noqa: ARG002 - of no matter here
    ) -> tuple[list[Outcome], list[CellTotal]]:
        """Count, wrongly."""
        with self._transaction() as memory:
            outcomes = [self._use_nonce(memory, answer) for answer in answers]
        with self._transaction() as memory:
            self._failpoint("between nonce and tally")
            pairs = zip(answers, outcomes, strict=True)
            return outcomes, self._add(memory, [answer for answer, outcome in pairs if outcome is Outcome.COUNTED])


class LooksTooEarly(MemoryStore):
    """FAULT: looks for duplicates before the transaction, and believes it."""

    def count(self, answers: Sequence[Answer], events: Sequence[Event] = ()) -> tuple[list[Outcome], list[CellTotal]]:
        """Count, wrongly."""
        known = dict(self.memory.nonces)
        outcomes: list[Outcome] = []
        totals: dict[tuple[int, int], CellTotal] = {}
        for answer in answers:
            if place_of(answer.ticket) not in known:
                self.memory.nonces.pop(place_of(answer.ticket), None)
            (outcome,), changed = super().count([answer], events)
            outcomes.append(outcome)
            totals |= {(total.experiment, total.arm): total for total in changed}
        return outcomes, list(totals.values())


class AddsAsFloats(MemoryStore):
    """FAULT: totals go through a float."""

    def _add(self, memory: Memory, answers: Sequence[Answer]) -> list[CellTotal]:
        return super()._add(memory, [answer._replace(value=int(float(answer.value))) for answer in answers])


class ForgetsWhatItForgot(MemoryStore):
    """FAULT: how far nonces were removed is in memory only, and a restart loses it."""

    def __init__(self, memory: Memory | None = None, *, failpoint: Failpoint = lambda _: None) -> None:
        """Start again from 0."""
        super().__init__(memory, failpoint=failpoint)
        self.memory.forgotten = 0


class ClosesTheBooks(MemoryStore):
    """FAULT: tells a device whose response was counted that the experiment is closed."""

    def _use_nonce(self, memory: Memory, answer: Answer) -> Outcome:
        closed = memory.experiments[answer.ticket.experiment].status == "closed"
        return Outcome.CLOSED if closed else super()._use_nonce(memory, answer)


class ExtendsKeys(MemoryStore):
    """FAULT: an emergency rotation leaves an old key the long grace that it had."""

    def rotate_key(self, role: str, hashed: bytes, now: int, grace: int, *, log: Change | None = None) -> None:
        """Rotate, wrongly."""
        before = {key.hash: key for key in self.keys() if key.valid_until is not None}
        super().rotate_key(role, hashed, now, grace, log=log)
        left = [key for key in self.keys() if key.hash not in before]
        self.memory.keys = [*before.values(), *left]


class NumbersSecretsAgain(MemoryStore):
    """FAULT: the number of a secret is how many there are."""

    def rotate_secret(self, secret: bytes, now: int, grace: int, *, log: Change | None = None) -> None:
        """Rotate, wrongly."""
        super().rotate_secret(secret, now, grace, log=log)
        *old, new = self.memory.secrets
        self.memory.secrets = [*old, replace(new, number=len(old) + 1)]


class LogsOutside(MemoryStore):
    """FAULT: the line of the log is written before the change, in a transaction of its own."""

    def retire_arm(self, experiment: int, arm: int, *, log: Change | None = None) -> None:
        """Retire, wrongly."""
        if log is not None:
            self.memory.log = [*self.memory.log, log]
        super().retire_arm(experiment, arm)


class SendsTwice(MemoryStore):
    """FAULT: a lease excludes nobody."""

    def lease_webhook(self, receiver: str, now: int, until: int) -> int | None:
        """Lease, wrongly."""
        self.memory.webhook = (*self.memory.webhook[:2], 0)
        return super().lease_webhook(receiver, now, until)


MUTANTS: dict[type[MemoryStore], Rule] = {
    TalliesOutside: nothing_is_changed_when_the_store_is_unavailable,
    LooksTooEarly: of_copies_in_one_batch_the_first_counts,
    AddsAsFloats: totals_are_exact_in_any_order,
    ForgetsWhatItForgot: what_is_forgotten_is_expired_for_good,
    ClosesTheBooks: a_closed_experiment_counts_nothing_new,
    SendsTwice: one_sender_of_webhooks_at_a_time_goes_on_where_the_last_stopped,
    LogsOutside: nothing_is_changed_when_the_store_is_unavailable,
    ExtendsKeys: a_new_key_ends_those_before_it_after_the_grace,
    NumbersSecretsAgain: a_new_secret_ends_those_before_it_and_numbers_are_used_once,
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_contract_finds_a_store_that_breaks_it(mutant: type[MemoryStore]) -> None:
    """Each planted fault is found by the rule that it breaks."""
    with pytest.raises(AssertionError):
        MUTANTS[mutant](MemoryPlace(mutant))


SQL = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE FROM|CREATE TABLE|DROP|ALTER|PRAGMA|BEGIN|COMMIT|ROLLBACK)\b")


def speaks_sql(source: str) -> bool:
    """Tell whether a module imports sqlite3 or psycopg, or has a string that starts as SQL does."""
    nodes = list(ast.walk(ast.parse(source)))
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    strings = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return bool(imported & {"sqlite3", "psycopg"}) or any(SQL.match(string) for string in strings)


def test_nobody_but_the_stores_knows_sql(root: Path) -> None:
    """In all of `src` only the stores speak SQL, and on the other side of the boundary the device's ledger."""
    package = root / "src" / "ldpbandits"
    speakers = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if speaks_sql(path.read_text(encoding="utf-8"))
    }
    device = {f"device/{name}.py" for name in ("database", "ledger", "outbox", "prefix_sums")}
    assert {path for path in speakers if not path.startswith("server/store/")} == device
    shared = {path for path in speakers if path in {"server/store/__init__.py", "server/store/opening.py"}}
    assert not shared
