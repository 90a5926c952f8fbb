"""A database whose tables are those of no released version is refused, in words that promise no other time."""

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from tests.server.postgres_server import Postgres

from ldpbandits.cli import main
from ldpbandits.errors import DatabaseError
from ldpbandits.server.store.opening import open_store

ODD = {
    "another column": "ALTER TABLE responses RENAME COLUMN cell TO level",
    "a table less": "DROP TABLE events",
    "other keys": "ALTER TABLE keys RENAME COLUMN role TO kind",
}
HALF = "DELETE FROM migrations WHERE name LIKE '0002%' OR name LIKE '0003%'"
"""It is as after these steps, and says that it has not seen them."""

SAID = "the database has a schema that this version does not know: "


@pytest.mark.parametrize("change", [*ODD.values(), HALF])
def test_a_file_of_no_released_version_is_refused(
    change: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a server and by `check`, in one line that says what is odd and what to do."""
    path = tmp_path / "agent.db"
    open_store(str(path)).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(change)
    with pytest.raises(DatabaseError, match=SAID) as refused:
        open_store(str(path))
    assert "restore a backup" in str(refused.value)
    assert "now" not in str(refused.value).replace("know", "")
    if change != HALF:
        assert main(["check", "--database", str(path)]) == 2
        assert SAID in capsys.readouterr().err


@pytest.mark.parametrize("change", ODD.values())
def test_a_postgres_database_of_no_released_version_is_refused(change: str, postgres: Postgres) -> None:
    """The same holds for PostgreSQL."""
    url = postgres.new(kept=True)
    open_store(url).close()
    with psycopg.connect(url) as connection:
        connection.execute(change)
    with pytest.raises(DatabaseError, match=SAID):
        open_store(url)


def test_tables_of_others_are_left_alone(tmp_path: Path) -> None:
    """A table that no step makes does no harm."""
    path = tmp_path / "agent.db"
    open_store(str(path)).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE notes_of_mine (text TEXT)")
    open_store(str(path)).close()
