"""Retention: an export tells no order unless asked, and single responses are dropped where tallies are enough."""

import asyncio
import csv
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import permutations
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.server.local import ADMIN, CLIENT, NEW, E, Local
from tests.server.postgres_server import Postgres, running_postgres
from tests.server.several import NEW as SHARED
from tests.server.several import Workers, working

from ldpbandits.errors import DatabaseError
from ldpbandits.server.api.csv_export import shuffled
from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.store import ERASED_ROWS, StoredResponse
from ldpbandits.server.store.integrity import verify
from ldpbandits.server.store.postgres.integrity import open_postgres_dump
from ldpbandits.server.store.postgres.store import PostgresStore
from ldpbandits.server.store.sqlite.integrity import open_sqlite_dump
from ldpbandits.server.store.sqlite.store import SqliteStore

BITS = [1.0] * 40 + [0.0] * 40
"""Their order tells when they came."""


def exported(local: Local, file: str = "responses") -> list[float]:
    """Read the responses of an export, in the order of its rows."""
    reply = local("GET", f"{E}/{file}.csv")
    assert reply.status == 200, reply
    return [float(row["response"]) for row in csv.DictReader(reply.body.decode().splitlines())]


def played(path: Path, **settings: object) -> Local:
    """Start an experiment with these settings that has the responses `BITS`."""
    local = Local(path)
    assert local("POST", "/v1/experiments", NEW | settings).status == 201
    for bit in BITS:
        assert local.respond(local.decide()["ticket"], bit) == (200, "counted")
    return local


def stored(local: Local) -> int:
    """Count the single responses in the database."""
    store = local.service._store
    assert isinstance(store, SqliteStore)
    ((count,),) = store.file.rows("SELECT count(*) FROM responses")
    return int(count)


@pytest.fixture
def dropping(tmp_path: Path) -> Iterator[Local]:
    """An experiment that keeps tallies only."""
    local = played(tmp_path / "agent.db", retain="tallies")
    yield local
    local.close()


def test_an_export_tells_no_order_unless_asked(tmp_path: Path) -> None:
    """By chance the 80 bits come out in order with probability 1 / C(80, 40), below 1e-23, in each of five exports."""
    local = played(tmp_path / "agent.db")
    assert exported(local, "responses-in-order") == BITS
    found = [exported(local) for _ in range(5)]
    assert [sorted(each, reverse=True) for each in found] == [BITS] * 5
    assert BITS not in found
    assert len({tuple(each) for each in found}) > 1
    local.close()


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_all_orders_of_an_export_are_equally_likely(rows: int) -> None:
    """In one group or several: of 6,000 shuffles each of 24 orders comes 250 times, less or more 110: 7 sigma."""
    responses = [StoredResponse(number, 0, 0) for number in (3, 4, 5, 9)]

    def read() -> Iterator[Sequence[StoredResponse]]:
        yield from (responses[:3], responses[3:])

    found = Counter(tuple(each.number for piece in shuffled(read, 4, rows) for each in piece) for _ in range(6000))
    assert found.keys() == set(permutations((3, 4, 5, 9)))
    assert all(140 <= count <= 360 for count in found.values())


@pytest.mark.parametrize("ending", ["ship", "close"])
def test_single_responses_are_dropped_at_the_end_and_exact_tallies_stay(dropping: Local, ending: str) -> None:
    """Until then they are exported; afterwards an export says what has become of them, and the report is the same."""
    assert sorted(exported(dropping), reverse=True) == BITS
    before, tallies = dropping("GET", E).json, dropping("GET", f"{E}/tallies").json
    assert before["settings"]["retain"] == "tallies"
    assert dropping("POST", f"{E}/{ending}", {"arm": 1} if ending == "ship" else {}).status == 200
    for file in ("responses", "responses-in-order"):
        refused = dropping("GET", f"{E}/{file}.csv")
        assert (refused.status, refused.json["code"]) == (410, "dropped")
        assert "tallies" in refused.json["message"]
    assert dropping("GET", f"{E}/tallies").json == tallies
    after = dropping("GET", E).json
    assert [(arm["pulls"], arm["mean"], arm["low"]) for arm in after["arms"]] == [
        (arm["pulls"], arm["mean"], arm["low"]) for arm in before["arms"]
    ]
    assert dropping("GET", f"{E}/history").json["responses"] == [80]  # its first moments are one response apart


def test_no_single_response_is_left_on_the_disk(tmp_path: Path) -> None:
    """The table is empty, and the check of the database still finds each tally right, or a wrong one."""
    path = tmp_path / "agent.db"
    local = played(path, retain="tallies")
    local("POST", f"{E}/ship", {"arm": 0})
    local.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute("SELECT count(*) FROM responses").fetchall() == [(0,)]
        assert connection.execute("SELECT sum(pulls) FROM cells WHERE cell >= 0").fetchall() == [(80,)]
    with open_sqlite_dump(path) as dump:
        assert verify(dump).damage == []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE cells SET total = total + 1 WHERE cell = 0 AND arm = 1")
    with open_sqlite_dump(path) as dump:
        (line,) = verify(dump).damage
    assert "it is not the sum of its responses" in line


def test_responses_that_come_after_the_end_are_dropped_too(tmp_path: Path) -> None:
    """A shipped experiment still counts those that are out; a resumed one drops at its end what it has got since."""
    local = played(tmp_path / "agent.db", retain="tallies")
    late = [local.decide()["ticket"] for _ in range(3)]
    local("POST", f"{E}/ship", {"arm": 0})
    assert [local.respond(ticket) for ticket in late[:2]] == [(200, "counted")] * 2
    assert stored(local) == 2
    local.do(local.service.forget())
    assert stored(local) == 0
    local("POST", f"{E}/resume", {})
    assert local.respond(late[2]) == (200, "counted")
    local.do(local.service.forget())
    assert stored(local) == 1
    assert local("GET", f"{E}/responses.csv").json["code"] == "dropped"  # the others are gone
    local("POST", f"{E}/close", {})
    assert stored(local) == 0
    assert sum(arm["pulls"] for arm in local("GET", E).json["arms"]) == 83
    local.close()
    again = Local(tmp_path / "agent.db")
    assert again("GET", f"{E}/responses.csv").json["code"] == "dropped"
    assert again("GET", f"{E}/history").json["responses"][-1] == 83
    again.close()


def test_an_experiment_with_one_look_drops_nothing_before_it(tmp_path: Path) -> None:
    """Its look reads the first responses: an experiment that is shipped before keeps them until the look is taken."""
    local = Local(tmp_path / "agent.db")
    new = NEW | {"goal": "decide", "one_look": 10, "retain": "tallies"}
    assert local("POST", "/v1/experiments", new).status == 201
    tickets = [local.decide()["ticket"] for _ in range(10)]
    assert [local.respond(ticket) for ticket in tickets[:9]] == [(200, "counted")] * 9
    local("POST", f"{E}/ship", {"arm": 0})
    assert local.respond(tickets[9]) == (200, "counted")
    local.do(local.service.forget())
    experiment = local.service.find("headline")
    assert experiment.is_look_due
    local.do(local.service.take_look(experiment))
    assert local("GET", f"{E}/responses.csv").status == 200
    local.do(local.service.forget())
    assert experiment.look is not None
    assert local("GET", f"{E}/responses.csv").json["code"] == "dropped"
    local.close()


def test_many_responses_are_dropped_in_steps(tmp_path: Path) -> None:
    """Counting goes on between two steps; all are gone at the end."""
    local = played(tmp_path / "agent.db", retain="tallies")
    store = local.service._store
    assert isinstance(store, SqliteStore)
    with store.file.transaction() as connection:
        number = local.service.find("headline").number
        rows = [(1000 + place, number, 0, 1, 0) for place in range(2 * ERASED_ROWS)]
        connection.executemany("INSERT INTO responses VALUES (?, ?, ?, ?, ?)", rows)
    steps: list[bool] = []
    while not steps or steps[-1]:
        steps.append(store.drop_responses(number)[0])
    assert steps == [True, True, False]
    local.close()


def test_each_worker_knows_what_another_has_dropped(postgres: Postgres) -> None:
    """No worker exports the rest, and the tallies are those of all; the check of the database agrees."""
    url = postgres.new()

    async def life(workers: Workers) -> None:
        await workers.create(replace(SHARED, retain="tallies"))
        for number in range(20):
            await workers.respond(number % 2, await workers.decide(number // 2 % 2), float(number % 2))
        await workers.change(1, lambda: workers.all[1].commands.set_status("headline", "closed"))
        await workers.look()
        for worker, service in enumerate(workers.all):
            with pytest.raises(Refusal) as refused:
                await service.export("headline")
            assert refused.value.code == "dropped"
            assert (await workers.shown(worker))[0] == 20

    with working(url) as workers:
        asyncio.run(life(workers))
    with open_postgres_dump(url) as dump:
        findings = verify(dump)
    assert (findings.damage, findings.responses) == ([], 0)


def test_only_those_who_may_read_export(dropping: Local) -> None:
    """The order needs the viewer key, as the rest does."""
    assert dropping("GET", f"{E}/responses-in-order.csv", key=CLIENT).status == 403
    assert dropping("GET", f"{E}/responses-in-order.csv", key=ADMIN).status == 200


def test_a_database_that_keeps_the_time_of_each_commit_is_refused() -> None:
    """PostgreSQL would know the second of each response, by the transaction number of its row."""
    told = "track_commit_timestamp of PostgreSQL must be off"
    with running_postgres(track_commit_timestamp="on") as timed, pytest.raises(DatabaseError, match=told):
        PostgresStore(timed.new())
