"""`ldpbandits check` reads the books of a PostgreSQL database, also while workers count."""

import asyncio

import psycopg
import pytest
from tests.server.postgres_server import Postgres
from tests.server.several import working
from tests.server.test_integrity import live

from ldpbandits.cli import main
from ldpbandits.server.store.postgres.store import PostgresStore


@pytest.fixture(scope="module")
def url(postgres: Postgres) -> str:
    """A database in which experiments of every kind have lived."""
    made = postgres.new(kept=True)
    with working(made, 1) as workers:
        asyncio.run(live(workers.all[0]))
    return made


def test_books_that_agree_are_said_to_agree(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In one line, without the address, which may hold a password."""
    assert main(["check", "--database", url]) == 0
    assert capsys.readouterr().out.strip() == "the database: 3 experiments, 10 responses, 10 nonces; all agree"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("UPDATE cells SET total = total + 1 WHERE experiment = 1 AND arm = 0", "it is not the sum of its responses"),
        ("DELETE FROM responses WHERE experiment = 1", "tickets were answered, and it has 0 responses"),
        ("INSERT INTO cells VALUES (1, 0, 0, -1, 2, 1, 0)", "accepted pulls wait for a response after 2 changes"),
        ("UPDATE responses SET value = 7 WHERE id = (SELECT min(id) FROM responses)", "not a possible response"),
        ("UPDATE gates SET open = false WHERE experiment = 1", "its gates contradict"),
        ("DELETE FROM cells WHERE experiment = 1 AND arm = 1", "responses and no tally"),
    ],
)
def test_each_damaged_row_is_a_line(damage: str, said: str, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A tally, a response, a gate that was changed by another hand is named; the exit code is 1."""
    template = url.split("?", maxsplit=1)[0].rpartition("/")[2]
    copy = f"{template}_{abs(hash(damage)) % 10**6}"
    with psycopg.connect(url.replace(f"/{template}?", "/postgres?"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {copy} TEMPLATE {template} STRATEGY file_copy")
    damaged = url.replace(f"/{template}?", f"/{copy}?")
    with psycopg.connect(damaged, autocommit=True) as connection:
        connection.execute(damage)
    assert main(["check", "--database", damaged]) == 1
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            "INSERT INTO migrations VALUES ('9999 of tomorrow', now())",
            "is from a newer version: it has the migration '9999 of t",
        ),
        ("DELETE FROM migrations", "is from an older version: start the server on it once"),
    ],
)
def test_books_of_another_version_are_not_read(
    change: str, said: str, postgres: Postgres, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said whether they are newer: to start this server on them would not help then."""
    made = postgres.new()
    PostgresStore(made).close()
    with psycopg.connect(made, autocommit=True) as connection:
        connection.execute(change)
    assert main(["check", "--database", made]) == 2
    assert said in capsys.readouterr().err
