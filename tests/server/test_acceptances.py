"""Acceptances: only a pull that a device has accepted can be missing, and each counts once."""

import asyncio
import logging
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from tests.server.local import CLIENT, NEW, E, Local
from tests.server.postgres_server import Postgres

from ldpbandits.server.experiments.tickets import Ticket
from ldpbandits.server.store import Answer, Outcome, Store
from ldpbandits.server.store.postgres import schema as postgres_schema
from ldpbandits.server.store.postgres.store import PostgresStore
from ldpbandits.server.store.sqlite.schema import MIGRATIONS, migrate
from ldpbandits.server.store.sqlite.store import SqliteStore
from ldpbandits.types import Arm

TRUTH = (0.1, 0.6)
LOAD_TEST = 7_484


def accept(local: Local, ticket: str) -> str:
    """Accept a pull, as a device does; return what the server says."""
    return str(local("POST", "/v1/acceptances", {"ticket": ticket}, None).json["status"])


def arms(local: Local, name: str = "headline") -> list[dict[str, int]]:
    """Read the arms of the report."""
    return list(local("GET", f"/v1/experiments/{name}").json["arms"])


def totals(local: Local, name: str = "headline") -> dict[str, int]:
    """Add up the counts of the report over its arms."""
    kinds = ("decisions", "pulls", "accepted", "pending", "missing", "unaccepted", "forgiven")
    return {kind: sum(arm[kind] for arm in arms(local, name)) for kind in kinds}


@pytest.mark.parametrize("missing", ["answered", "worst"])
def test_tickets_that_nobody_accepted_touch_no_verdict(tmp_path: Path, missing: str) -> None:
    """A load tester takes 7,484 tickets of a won experiment and answers none: the verdict and all intervals stay.

    The evidence of 1,200 duels of 10 % against 60 % is far beyond what is needed, whatever the seed.
    """
    local, rng = Local(tmp_path / "agent.db"), random.Random(7)
    new = NEW | {"goal": "decide", "missing": missing, "responses_per_hour": 0, "stop_when_decided": "never"}
    assert local("POST", "/v1/experiments", new).status == 201
    for number in range(1200):
        made = local.decide()
        if number % 2:
            assert accept(local, made["ticket"]) == "accepted"  # the others are of devices of before
        answer = rng.random() < 0.2689 + 0.4621 * (rng.random() < TRUTH[made["arm"]])
        assert local.respond(made["ticket"], float(answer)) == (200, "counted")
    before = local("GET", E).json
    assert before["verdict"]["kind"] == "better"
    for _ in range(LOAD_TEST):
        local.service.decide("headline")
    for seconds in (0, 4000):
        local.now.seconds += seconds
        after = local("GET", E).json
        assert (after["verdict"], after["comparisons"]) == (before["verdict"], before["comparisons"])
        for arm, old in zip(after["arms"], before["arms"], strict=True):
            for field in ("low", "high", "worst_low", "worst_high", "accepted", "missing", "missing_share"):
                assert arm[field] == old[field]
    assert totals(local)["unaccepted"] == LOAD_TEST
    assert after["warnings"] == []
    local.close()


def test_an_accepted_pull_is_missing_once_its_ticket_expires(local: Local) -> None:
    """Accepted, answered, missing and unaccepted add up to the decisions; duplicates change nothing."""
    tickets = [local.decide()["ticket"] for _ in range(6)]
    assert [accept(local, ticket) for ticket in tickets[:4]] == ["accepted"] * 4
    assert accept(local, tickets[0]) == "duplicate"
    assert local.respond(tickets[0]) == local.respond(tickets[5]) == (200, "counted")
    assert accept(local, tickets[5]) == "duplicate"
    counts = {"decisions": 6, "pulls": 2, "accepted": 5, "forgiven": 0}
    assert totals(local) == counts | {"pending": 4, "missing": 0, "unaccepted": 0}
    local.now.seconds += 3600
    assert totals(local) == counts | {"pending": 0, "missing": 3, "unaccepted": 1}


def test_acceptances_outlast_a_restart(tmp_path: Path) -> None:
    """Those of open tickets are known by their number, and are missing when the last ticket must have expired."""
    first = Local(tmp_path / "agent.db")
    first("POST", "/v1/experiments", NEW)
    tickets = [first.decide()["ticket"] for _ in range(5)]
    for ticket in tickets[:3]:
        accept(first, ticket)
    first.do(first.service.write_events())
    first.close()
    second = Local(tmp_path / "agent.db")
    assert accept(second, tickets[0]) == "duplicate"
    assert accept(second, tickets[3]) == "accepted"
    assert second.respond(tickets[0]) == (200, "counted")
    assert totals(second)["accepted"] == 4
    second.now.seconds += 7200
    found = totals(second)
    assert (found["missing"], found["unaccepted"], found["pending"]) == (3, 1, 0)
    second.close()


def test_forgiving_makes_a_new_start_for_missing_answers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Those so far leave the counts and the worst case, for good and with a log line; later ones count."""
    path = tmp_path / "agent.db"
    local = Local(path)
    local("POST", "/v1/experiments", NEW)
    for _ in range(4):
        accept(local, local.decide()["ticket"])
    local.now.seconds += 3600
    assert totals(local)["missing"] == 4
    caplog.set_level(logging.INFO)
    told = local("POST", f"{E}/forgive", {})
    assert told.status == 200
    assert sum(arm["missing"] for arm in told.json["arms"]) == 0
    assert "admin: forgive headline (missing answers: 4)" in caplog.text
    accept(local, local.decide()["ticket"])
    local.now.seconds += 3600
    expected = {"missing": 1, "forgiven": 4, "accepted": 1, "decisions": 5}
    assert {kind: totals(local)[kind] for kind in expected} == expected
    local.do(local.service.write_events())
    local.close()
    again = Local(path)
    again.now.seconds += 7200
    assert {kind: totals(again)[kind] for kind in expected} == expected
    assert again("POST", f"{E}/forgive", {}, CLIENT).status == 403
    again.close()


def use(nonce: int, value: int = 1, expires_at: int = 100_000) -> Answer:
    """Answer the first arm of the first experiment."""
    return Answer(Ticket(1, Arm(0), expires_at, bytes([nonce]) * 13), value)


def check_migrated(store: Store) -> None:
    """Tickets that were used before the migration are duplicates or changed; missing answers count as accepted."""
    assert store.count([use(1), use(2, 0), use(3)])[0] == [Outcome.DUPLICATE, Outcome.CHANGED, Outcome.COUNTED]
    ((first, second),) = (stored.arms for stored in store.experiments())
    assert (first.pulls, second.pulls) == (3, 0)
    assert first.acceptances is None
    assert second.acceptances is not None
    assert second.acceptances.total == 5


BEFORE = (
    "INSERT INTO arms (experiment, number, name) VALUES (1, 0, 'a'), (1, 1, 'b')",
    "INSERT INTO responses (id, experiment, arm, value, cell) VALUES (1, 1, 0, 1, 0), (2, 1, 0, 1, 0)",
)


def test_a_sqlite_database_of_before_is_migrated(tmp_path: Path) -> None:
    """No nonce, no second and no number of a response is left in it, and each ticket still counts once."""
    path = tmp_path / "agent.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, MIGRATIONS[:5])
        connection.execute(
            "INSERT INTO experiments VALUES (1, 'one', '{}', '{}', '{}', 3600, 0.0, 'running', NULL, 1000)"
        )
        for statement in BEFORE:
            connection.execute(statement)
        connection.execute("INSERT INTO cells VALUES (1, 0, 0, 2, 2, 0)")
        connection.execute("INSERT INTO events VALUES (1, 1, 'missing', 5)")
        for nonce in (1, 2):
            row = (100_000, bytes([nonce]) * 13, nonce)
            connection.execute("INSERT INTO nonces VALUES (?, ?, ?)", row)
    with closing(SqliteStore(path)) as store:
        assert store.file.rows("SELECT DISTINCT expires_at FROM nonces") == [(100_800,)]
        columns = [row[1] for row in store.file.rows("PRAGMA table_info(nonces)")]
        assert columns == ["expires_at", "id", "experiment", "commitment", "accepted"]
        check_migrated(store)
    assert bytes([1]) * 13 not in path.read_bytes()


def test_a_postgresql_database_of_before_is_migrated(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, also for a ticket whose full hour is on the next day."""
    url = postgres.new()
    day, late = 86_400, 2 * 86_400 - 60
    with psycopg.connect(url, autocommit=True) as connection:
        monkeypatch.setattr(postgres_schema, "MIGRATIONS", postgres_schema.MIGRATIONS[:1])
        postgres_schema.migrate(connection, b"i" * 16)
        monkeypatch.undo()
        connection.execute(
            "INSERT INTO experiments OVERRIDING SYSTEM VALUE"
            " VALUES (1, 'one', '{}', '{}', '{}', 3600, 0.0, 1000, 'running', NULL)"
        )
        for statement in BEFORE:
            connection.execute(statement)
        connection.execute("SELECT setval('response_numbers', 1000)")
        connection.execute("INSERT INTO gates SELECT 1, generate_series(0, 15)")
        connection.execute("INSERT INTO cells VALUES (1, 0, 0, 0, 2, 2, 0)")
        connection.execute("INSERT INTO events VALUES (1, 7, 1, 'missing', 5)")
        connection.execute(f"CREATE TABLE nonces_{day} PARTITION OF nonces FOR VALUES FROM ({day}) TO ({2 * day})")
        connection.execute("INSERT INTO days VALUES (%s)", (day,))
        for nonce, expires_at in ((1, 100_000), (2, 100_000), (4, late)):
            row = (expires_at, 1, 1, 0, 0, 1, bytes([nonce]) * 13)
            connection.execute("INSERT INTO nonces VALUES (%s, %s, %s, %s, %s, %s, %s)", row)
    with closing(PostgresStore(url)) as store:
        check_migrated(store)
        assert store.count([use(4, expires_at=late)])[0] == [Outcome.DUPLICATE]
        found = store._rows("SELECT DISTINCT expires_at FROM nonces ORDER BY 1")
        assert found == [(100_800,), (2 * day,)]
        columns = {
            name
            for (name,) in store._rows("SELECT column_name FROM information_schema.columns WHERE table_name = 'nonces'")
        }
        assert columns == {"expires_at", "id", "experiment", "batch", "accepted", "commitment"}


def test_an_acceptance_is_acknowledged_only_when_it_is_on_disk(local: Local) -> None:
    """It shares the commits of responses: together they take one."""
    tickets = [local.decide()["ticket"] for _ in range(20)]
    before = local.service.committer.commits

    async def send_all() -> None:
        from ldpbandits.server.api.messages import AcceptanceMessage, ResponseMessage  # noqa: PLC0415

        accepting = [local.service.accept(AcceptanceMessage(ticket)) for ticket in tickets[:10]]
        responding = [local.service.respond(ResponseMessage(ticket, 1.0)) for ticket in tickets[10:]]
        await asyncio.gather(*accepting, *responding)

    local.do(send_all())
    assert local.service.committer.commits - before <= 2  # the first goes at once, the others share the next
    assert totals(local)["accepted"] == 20


@pytest.mark.parametrize(("silent", "said"), [(5, "It stands whatever"), (900, "it would need at most ")])
def test_a_verdict_says_what_the_missing_could_change(tmp_path: Path, silent: int, said: str) -> None:
    """With few missing it stands whatever they would have said; else it says how many may miss, and why that is so.

    10 % against 60 %, 1,200 answers at epsilon 1: the evidence is far beyond what is needed, whatever the seed.
    """
    local, rng = Local(tmp_path / "agent.db"), random.Random(11)
    new = NEW | {"goal": "decide", "responses_per_hour": 0, "stop_when_decided": "never"}
    local("POST", "/v1/experiments", new)
    for number in range(1200 + silent):
        made = local.decide()
        accept(local, made["ticket"])
        if number >= silent:
            answer = rng.random() < 0.2689 + 0.4621 * (rng.random() < TRUTH[made["arm"]])
            local.respond(made["ticket"], float(answer))
    local.now.seconds += 3600
    verdict = local("GET", E).json["verdict"]
    assert verdict["kind"] == "better"
    assert said in verdict["sentence"]
    if silent > 100:
        share = float(verdict["sentence"].split("at most ")[1].split(" %")[0]) / 100
        missing = round(1200 * share / (1 - share))
        assert 0 < missing < silent
    local.close()
