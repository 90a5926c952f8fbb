"""What keeps a server from a PostgreSQL database is said in one line, in which no password is."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier
from typing import Any

import psycopg
import pytest
from tests.server.postgres_server import Postgres

from ldpbandits.cli import main
from ldpbandits.errors import LDPBanditsError, MissingExtra
from ldpbandits.server.experiments.tickets import Ticket, new_nonce
from ldpbandits.server.keys import Keys, Role
from ldpbandits.server.service import Service
from ldpbandits.server.store import Unavailable
from ldpbandits.server.store.opening import open_store
from ldpbandits.server.store.postgres import connection as postgres_connection
from ldpbandits.server.store.postgres.store import PostgresStore
from ldpbandits.types import Arm

PASSWORD = "sesame"  # noqa: S105 - of nothing


def refusal(database: str) -> str:
    """Return why a database is not opened."""
    with pytest.raises(LDPBanditsError) as refused:
        open_store(database)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None  # no traceback tells more
    return str(refused.value)


@pytest.mark.parametrize(
    ("database", "reason"),
    [
        (f"postgresql://ldp:{PASSWORD}%zz@localhost/agent", "invalid percent-encoded token"),
        (f"postgresql://ldp:x {PASSWORD}@localhost/agent", "unexpected spaces found"),
        (f"postgresql://ldp:{PASSWORD}/x@localhost/agent", "it is ambiguous"),
        (f"postgresql://ldp:1/{PASSWORD}@localhost/agent", "it is ambiguous"),
        (f"postgresql://ldp:x@{PASSWORD}@localhost/agent", "it is ambiguous"),
        (f"postgresql://ldp:x@localhost/agent?password={PASSWORD}%zz", "invalid percent-encoded token"),
        (f"postgresql://ldp:{PASSWORD}@localhost:port/agent", "it is ambiguous"),
        (f"postgresql://ldp:{PASSWORD}@localhost/agent?colour=blue", "invalid URI query parameter"),
        (f"postgresql+psycopg://ldp:{PASSWORD}@localhost/agent", "got postgresql+psycopg://"),
        (f"mysql://ldp:{PASSWORD}@localhost/agent", "got mysql://"),
        (f"host=localhost user=ldp password={PASSWORD}", "got host="),
        (f"file:agent.db?key={PASSWORD}", "got file:..."),
    ],
)
def test_what_is_no_address_is_refused_and_its_password_not_shown(
    database: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is wrong with it: what a library says of it may quote the password, or a part that it took for one.

    Nor do other commands show it, or make a file of that name.
    """
    told = refusal(database)
    assert reason in told
    assert PASSWORD not in told
    for command in (["check"], ["backup", str(tmp_path / "copy")], ["restore", str(tmp_path / "copy")]):
        assert main([*command, "--database", database]) == 2
        assert PASSWORD not in capsys.readouterr().err
    assert "\n" not in told


@pytest.mark.parametrize(
    ("database", "reason"),
    [
        (f"postgresql://ldp:{PASSWORD}@/agent?host=/nowhere", "agent at /nowhere cannot be opened: connection"),
        (f"postgresql://ldp:{PASSWORD}@127.0.0.1:1/agent", "agent at 127.0.0.1 cannot be opened: connection"),
    ],
)
def test_nobody_there_is_one_line(database: str, reason: str) -> None:
    """The line says which database, and why."""
    told = refusal(database)
    assert reason in told
    assert PASSWORD not in told
    assert "\n" not in told


def test_a_database_that_is_not_there_or_not_ours_is_refused(postgres: Postgres) -> None:
    """Nor one of a newer version; nothing is changed in them."""
    assert 'database "nothing" does not exist' in refusal(postgres.url("nothing"))
    foreign, newer = postgres.new(), postgres.new()
    with psycopg.connect(foreign, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id integer)")
    assert refusal(foreign) == "the database is not an agent server's: it has a table 'orders'"
    PostgresStore(newer).close()
    with psycopg.connect(newer, autocommit=True) as connection:
        connection.execute("INSERT INTO migrations VALUES ('9999 the future', now())")
    assert refusal(newer) == "the database is from a newer version: it has the migration '9999 the future'"
    with psycopg.connect(foreign) as connection:
        assert connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall() == [
            ("orders",)
        ]


def test_a_database_that_was_restored_takes_no_ticket_from_before(postgres: Postgres) -> None:
    """By what docs/operating.md has its operator do before any worker starts; the secrets are those of before."""
    page = (Path(__file__).parents[2] / "docs" / "operating.md").read_text(encoding="utf-8")
    found = re.search(r"""^psql "\$LDPBANDITS_DATABASE" -c '(.+)'$""", page, re.MULTILINE)
    assert found is not None
    url, ticket = postgres.new(), Ticket(1, Arm(0), 5_000_000_000, new_nonce())
    with closing(PostgresStore(url)) as store:
        text = Keys(store, {}).signer.sign(ticket)
        assert Keys(store, {}).signer.read(text) == ticket
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(found[1].encode())
    with closing(PostgresStore(url)) as store:
        assert Keys(store, {}).signer.read(text) is None


def test_a_pooler_that_hands_sessions_round_is_refused(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two connections through it are one session, in which what is meant for one holds for both."""
    connect, made = psycopg.connect, list[psycopg.Connection[Any]]()

    def hand_round(*given: Any, **more: Any) -> psycopg.Connection[Any]:
        if not made:
            made.append(connect(*given, **more))
        return made[0]

    url = postgres.new()
    monkeypatch.setattr(psycopg, "connect", hand_round)
    assert "must be in session mode" in refusal(url)


def test_an_older_postgresql_is_refused(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line says which would do."""
    monkeypatch.setattr(postgres_connection, "OLDEST_VERSION", 99)
    told = refusal(postgres.new())
    assert told.startswith("PostgreSQL must be 99 or newer, got ")


def test_a_database_that_cannot_hold_every_name_is_refused(postgres: Postgres) -> None:
    """In Latin-1 there is no balloon."""
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE latin ENCODING latin1 TEMPLATE template0 LOCALE 'C'")
    assert refusal(postgres.url("latin")) == "the encoding of the database must be UTF8, got LATIN1"


def test_a_standby_is_refused(postgres: Postgres) -> None:
    """A server must be able to write, from its start on."""
    url = postgres.new() + "&options=-c%20default_transaction_read_only%3Don"
    assert "read-only transaction" in refusal(url)


def test_without_a_free_connection_a_server_says_so(postgres: Postgres) -> None:
    """One that starts, in one line; one that runs is Unavailable for as long as that lasts, and then goes on."""
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as connection:
        connection.execute("CREATE ROLE guest LOGIN CONNECTION LIMIT 1")
        connection.execute("CREATE DATABASE few OWNER guest")
        url = postgres.url("few").replace("ldp@", "guest@")
        assert refusal(url).endswith('FATAL:  too many connections for role "guest"')
        connection.execute("ALTER ROLE guest CONNECTION LIMIT 2")
        with closing(PostgresStore(url)) as store:
            connection.execute("ALTER ROLE guest CONNECTION LIMIT 1")
            store._poller.link.close()
            with pytest.raises(Unavailable, match="too many connections for role"):
                store.refresh([], {})
            connection.execute("ALTER ROLE guest CONNECTION LIMIT 2")
            store.refresh([], {})


@pytest.mark.parametrize(
    ("setting", "value", "needed"),
    [
        ("synchronous_commit", "off", "on"),
        ("synchronous_commit", "remote_apply", "remote_apply"),
        ("default_transaction_isolation", "serializable", "read committed"),
        ("client_min_messages", "error", "warning"),
        ("statement_timeout", "1min", "0"),
        ("lock_timeout", "1min", "0"),
        ("idle_session_timeout", "1min", "0"),
    ],
)
def test_settings_of_a_role_weaken_nothing(postgres: Postgres, setting: str, value: str, needed: str) -> None:
    """Acknowledged is on disk, locks are seen under, warnings are heard: whatever the database is set to."""
    url = postgres.new()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER ROLE ldp IN DATABASE {connection.info.dbname} SET {setting} = '{value}'")
    try:
        with closing(PostgresStore(url)) as store:
            store.refresh([], {})
            assert store._writer.rows(f"SHOW {setting}") == [(needed,)]
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"ALTER ROLE ldp IN DATABASE {connection.info.dbname} RESET ALL")


def test_eight_workers_start_at_once_on_an_empty_database(postgres: Postgres) -> None:
    """They set it up together, and one of them makes the first keys."""
    url, ready = postgres.new(), Barrier(8)

    def start(_: int) -> tuple[list[Role], bytes, int]:
        ready.wait()
        service = Service(PostgresStore(url))
        found = list(service.keys.new), service._store.identity, len(service._store.keys())
        service.close()
        return found

    with ThreadPoolExecutor(8) as threads:
        started = list(threads.map(start, range(8)))
    assert sorted(len(keys) for keys, _, _ in started) == [0] * 7 + [3]
    assert len({identity for _, identity, _ in started}) == 1
    assert {count for _, _, count in started} == {3}


def test_a_worker_that_hangs_while_it_starts_does_not_keep_others_from_it(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database cuts off who holds its lock and says nothing; a machine that has vanished says nothing for hours."""
    monkeypatch.setattr(postgres_connection, "_SESSION", "SET idle_in_transaction_session_timeout = '300ms'")
    with closing(PostgresStore(postgres.new())) as store, closing(PostgresStore(store._url)) as other:
        hung = store.startup_lock()
        hung.__enter__()
        with other.startup_lock():
            assert other.version == 0
        with pytest.raises(Unavailable):
            hung.__exit__(None, None, None)


def test_what_is_missing_is_named() -> None:
    """Without psycopg, or with one that finds no library of PostgreSQL, the line says what to install."""
    program = "from ldpbandits.server.store.opening import open_store; open_store('postgresql://localhost/agent')"
    for before, package in (
        ("import sys; sys.modules['psycopg'] = None; ", "psycopg"),
        ("import os; os.environ['PSYCOPG_IMPL'] = 'c'; ", "a library"),
    ):
        done = subprocess.run([sys.executable, "-c", before + program], capture_output=True, text=True, check=False)
        assert done.stderr.splitlines()[-1].endswith(f"needs {package}: pip install '.[postgres]' in the source folder")
        assert MissingExtra.__name__ in done.stderr
