"""What tests of the server start from."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.both import Server
from tests.server.local import NEW, Local
from tests.server.postgres_server import Postgres, running_postgres
from tests.server.several import Workers, working

from ldpbandits.server.store.postgres.store import PostgresStore
from ldpbandits.server.store.sqlite.store import SqliteStore


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    """A server with one experiment."""
    made = Local(tmp_path / "agent.db")
    assert made("POST", "/v1/experiments", NEW).status == 201
    yield made
    made.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL of this test process; each test makes databases of its own in it."""
    with running_postgres() as made:
        yield made


@pytest.fixture(autouse=True)
def _recycled(request: pytest.FixtureRequest) -> Iterator[None]:
    """Databases are used again by the next test, empty."""
    yield
    if "postgres" in request.fixturenames:
        request.getfixturevalue("postgres").recycle()


@pytest.fixture
def workers(postgres: Postgres) -> Iterator[Workers]:
    """Two workers on a new database."""
    with working(postgres.new()) as made:
        yield made


@pytest.fixture(params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server on each store."""
    if request.param == "sqlite":
        made = Server(SqliteStore(tmp_path / "agent.db"))
    else:
        made = Server(PostgresStore(request.getfixturevalue("postgres").new()))
    yield made
    made.close()
