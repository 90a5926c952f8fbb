"""Books that agree are said to agree, and each damaged row is named in a line."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.server.crowds import LIFETIME, answer
from tests.server.inprocess import ask

from ldpbandits.cli import main
from ldpbandits.errors import DatabaseError
from ldpbandits.server.api.app import application
from ldpbandits.server.api.messages import NewArm, NewExperiment
from ldpbandits.server.service import Service
from ldpbandits.server.store import integrity
from ldpbandits.server.store.integrity import Findings, verify
from ldpbandits.server.store.sqlite.integrity import open_sqlite_dump
from ldpbandits.server.store.sqlite.schema import MIGRATIONS, migrate
from ldpbandits.server.store.sqlite.store import SqliteStore

BITS = {"mechanism": "bernoulli", "epsilon": 2}


def found(path: Path) -> Findings:
    """Look into a database."""
    with open_sqlite_dump(path) as read:
        return verify(read)


async def live(service: Service) -> None:
    """Let experiments of every kind live: bits, Laplace, a menu, one that was deleted, some tickets forgotten."""
    for name, curator in (
        ("one", BITS),
        ("gone", BITS),
        ("steps", {"mechanism": "laplace", "epsilon": 0.5}),
        ("menu", {"mechanism": "bernoulli", "epsilon": [0.5, 2]}),
    ):
        await service.commands.create(NewExperiment(name, ["a", "b"], curator, None, LIFETIME, goal="earn"))
    await answer(service, {0: [1, 0, 1], 1: [0, 1]})
    await respond(service, "gone", 1.0)
    for value in (-2.5, 0.25, 3.0):
        await respond(service, "steps", value)
    await respond(service, "menu", 1, 0.5)
    await respond(service, "menu", 0, 2)
    await service.commands.delete("gone")
    await service.commands.add_arm("one", NewArm("c"))
    await service.commands.retire_arm("one", 0)


async def respond(service: Service, name: str, value: float, epsilon: float | None = None) -> None:
    """Decide and respond, over HTTP."""
    body = {"ticket": service.decide(name).ticket, "response": value}
    if epsilon is not None:
        body["epsilon"] = epsilon
    reply = await ask(application(service), "POST", "/v1/responses", body)
    assert reply.json == {"status": "counted"}, reply


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database after a full life, at rest."""
    path, clock = tmp_path / "agent.db", [1_000.0]
    store = SqliteStore(path)
    store.file.connection.execute("PRAGMA synchronous = OFF")  # nobody cuts the power here
    service = Service(store, now=lambda: clock[0])

    async def all_of_it() -> None:
        await live(service)
        clock[0] += LIFETIME
        await service.forget()
        for value in (1, 0):
            await respond(service, "one", value)

    asyncio.run(all_of_it())
    service.close()
    return path


def test_books_that_agree(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After a full life: nothing to say, exit code 0; also while the server runs."""
    assert main(["check", "--database", str(database)]) == 0
    assert capsys.readouterr().out == f"{database}: 3 experiments, 12 responses, 12 nonces; all agree\n"
    with closing(SqliteStore(database)):
        assert main(["check", "--database", str(database), "--json"]) == 0
    assert '"damage": []' in capsys.readouterr().out


DAMAGE = {
    "a pull too many": (
        "UPDATE cells SET pulls = pulls + 1 WHERE (experiment, arm) = (1, 1)",
        ["the tally of cell 0 of arm 1 of experiment 1: it is not the sum of its responses: pulls 3, not 2"],
    ),
    "another total": (
        "UPDATE cells SET total = total - 1 WHERE (experiment, arm) = (1, 1)",
        ["the tally of cell 0 of arm 1 of experiment 1: it is not the sum of its responses: total 0, not 1"],
    ),
    "other readings": (
        "UPDATE cells SET read = read + 1 WHERE (experiment, arm) = (3, 0)",
        ["of arm 0 of experiment 3: it is not the sum of its responses: readings"],
    ),
    "no tally": (
        "DELETE FROM cells WHERE (experiment, arm) = (1, 1)",
        ["cell 0 of arm 1 of experiment 1: it has 2 responses and no tally"],
    ),
    "no response": (
        "DELETE FROM responses WHERE id = 13",
        ["it is not the sum of its responses: pulls 2, not 1"],
    ),
    "more nonces than responses": (
        "INSERT INTO nonces SELECT 7200, value, 1, x'00', 0 FROM json_each('[1,2,3,4,5,6,7,8,9]')",
        ["experiment 1: 16 tickets were answered, and it has 7 responses"],
    ),
    "more accepted than waiting": (
        "INSERT INTO nonces VALUES (7200, x'00', 1, NULL, 1)",
        ["experiment 1: 1 accepted tickets wait for a response, and by its tallies 0"],
    ),
    "impossible acceptances": (
        "INSERT INTO cells VALUES (1, 0, -1, 2, 3, 0)",
        ["the tally of cell -1 of arm 0 of experiment 1: 3 accepted pulls wait for a response after 2 changes"],
    ),
    "a number twice": (
        "UPDATE responses SET id = 1 WHERE id = 11",
        ["response 1 of experiment 4: another response has this number"],
    ),
    "an impossible value": (
        "UPDATE responses SET value = 7 WHERE id = 1",
        ["response 1 of experiment 1: it is not a possible response", "total 2, not 8"],
    ),
    "a value that is no number": (
        "UPDATE responses SET value = 'x' WHERE id = 1",
        ["response 1 of experiment 1: a column is not an integer"],
    ),
    "a cell that there is not": (
        "UPDATE responses SET cell = 9 WHERE id = 1",
        ["response 1 of experiment 1: it is not"],
    ),
    "an arm that there is not": (
        "UPDATE responses SET arm = 9 WHERE id = 1",
        ["response 1 of experiment 1: the experiment has no arm 9"],
    ),
    "an experiment that there is not": (
        "INSERT INTO responses VALUES (99, 9, 0, 1, 0)",
        ["response 99 of experiment 9: its experiment does not exist"],
    ),
    "a tally of no arm": ("DELETE FROM arms WHERE experiment = 1 AND number = 1", ["a row of cells", "have gaps"]),
    "a curator that cannot be read": (
        "UPDATE experiments SET curator = '{' WHERE id = 1",
        ["the experiment one cannot"],
    ),
    "settings that cannot be read": (
        "UPDATE experiments SET settings = '{' WHERE id = 1",
        ["experiment 1: the settings"],
    ),
    "no identity": ("DELETE FROM identity", ["the table identity: it has 0 rows"]),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_named(damage: str, database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each damaged row is a line, and the exit code is 1; nothing is changed, and nothing else is named."""
    sql, expected = DAMAGE[damage]
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(sql)
    before = database.read_bytes()
    assert main(["check", "--database", str(database)]) == 1
    out = capsys.readouterr().out
    for line in expected:
        assert line in out
    assert len(out.splitlines()) <= 8
    assert database.read_bytes() == before


@pytest.mark.parametrize("seed", range(4))
def test_a_file_with_holes_is_damaged(seed: int, database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A page of nonsense, wherever it is: lines, exit code 1 or 2, and no traceback."""
    pages = database.stat().st_size // 4096
    with database.open("r+b") as file:
        file.seek((1 + seed * (pages - 2) // 3) * 4096)
        file.write(b"\x9d" * 4096)
    assert main(["check", "--database", str(database)]) in {1, 2}
    said = capsys.readouterr()
    assert said.out + said.err


def test_there_are_not_too_many_lines(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that is damaged throughout is described by some lines, and a number."""
    monkeypatch.setattr(integrity, "MOST_LINES", 3)
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE responses SET value = 'x'")
    findings = found(database)
    assert len(findings.damage) == 3
    assert findings.unsaid >= 9


def test_what_was_brought_along_has_no_responses(tmp_path: Path) -> None:
    """Totals that an experiment starts from are no damage; one pull more or less is."""
    path = tmp_path / "agent.db"
    service = Service(SqliteStore(path), now=lambda: 1_000.0)

    async def warm() -> None:
        app = application(service)
        key = next(key for role, key in service.keys.new.items() if role.value == "admin")
        first = {"name": "first", "arms": ["a", "b"], "curator": BITS, "goal": "earn"}
        assert (await ask(app, "POST", "/v1/experiments", first, key=key)).status == 201
        for value in (1, 0, 1):
            await respond(service, "first", value)
        tallies = (await ask(app, "GET", "/v1/experiments/first/tallies", key=key)).json
        second = {**first, "name": "second", "warm_start": tallies}
        reply = await ask(app, "POST", "/v1/experiments", second, key=key)
        assert reply.status == 201, reply
        await respond(service, "second", 1)

    asyncio.run(warm())
    service.close()
    assert found(path).damage == []
    for change, damaged in ((1, 1), (-2, 1), (1, 0), (-3, 2)):
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE cells SET pulls = pulls + ? WHERE (experiment, arm) = (2, 0)", (change,))
        assert len(found(path).damage) == damaged


def test_what_is_no_database_of_this_version_is_refused(tmp_path: Path, database: Path) -> None:
    """Nothing there, an empty file, another program's, an older one, a newer one: one line each."""
    empty, other, old = tmp_path / "empty.db", tmp_path / "other.db", tmp_path / "old.db"
    empty.touch()
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE customers (name TEXT)")
    with closing(sqlite3.connect(old, isolation_level=None)) as connection:
        migrate(connection, MIGRATIONS[:3])
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("INSERT INTO migrations VALUES ('9999 from the future', 0)")
    for path, reason in (
        (tmp_path / "nowhere.db", "there is no database"),
        (empty, "it is empty"),
        (other, "it has a table 'customers'"),
        (old, "from an older version"),
        (database, "from a newer version"),
    ):
        with pytest.raises(DatabaseError, match=reason):
            found(path)
