"""A copy of a running server's database, and the database that is made of it."""

import json
import os
import re
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from tests.server.local import KEYS, NEW, E, Local
from tests.server.namespaces import in_a_namespace
from tests.server.running import HEADLINE, PATIENCE, Running, running

from ldpbandits.cli import main
from ldpbandits.server.keys import SECRET_VARIABLE
from ldpbandits.server.store.sqlite import copy as sqlite_copy
from ldpbandits.server.store.sqlite.schema import MIGRATIONS, migrate
from ldpbandits.server.store.sqlite.store import SqliteStore

SECRET = "a-signing-secret-of-the-environment"  # noqa: S105 - of these tests


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database with an experiment and three responses, at rest."""
    local = Local(tmp_path / "agent.db")
    local("POST", "/v1/experiments", NEW)
    for _ in range(3):
        assert local.respond(local.decide()["ticket"]) == (200, "counted")
    local.close()
    return tmp_path / "agent.db"


def run(*arguments: object) -> int:
    """Run a command."""
    return main([str(each) for each in arguments])


@contextmanager
def crowd(server: Running) -> Iterator[list[int]]:
    """Send responses all the time; the list has one number, of those that were acknowledged."""
    acknowledged, stop = [0], Event()

    def work() -> None:
        while not stop.is_set():
            assert server.respond(server.decide()["ticket"], 1).status == 200
            acknowledged[0] += 1

    worker = Thread(target=work)
    worker.start()
    try:
        yield acknowledged
    finally:
        stop.set()
        worker.join()


def test_a_running_server_is_backed_up_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """While responses come: the copy has all that were acknowledged before it began, and the books of both agree."""
    with running(tmp_path) as server:
        assert server.ask("POST", "/v1/experiments", HEADLINE).status == 201
        with crowd(server) as acknowledged:
            for number in range(3):
                while acknowledged[0] < 20 * (number + 1):
                    assert server.process.poll() is None
                before, copy = acknowledged[0], tmp_path / f"copy-{number}.db"
                assert run("backup", copy, "--database", tmp_path / "agent.db") == 0
                assert run("check", "--database", tmp_path / "agent.db") == 0
                capsys.readouterr()
                assert run("check", "--json", "--database", copy) == 0
                assert json.loads(capsys.readouterr().out)["responses"] >= before
        assert server.stop() == 0
    assert not list(tmp_path.glob(".*"))


def test_only_the_owner_can_read_a_copy(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the umask, and also while it is made; so for what is restored."""
    modes: list[int] = []
    put = sqlite_copy._put

    def looked_at(part: Path, target: Path) -> None:
        modes.append(stat.S_IMODE(part.stat().st_mode))
        put(part, target)

    monkeypatch.setattr(sqlite_copy, "_put", looked_at)
    before = os.umask(0)
    try:
        assert run("backup", tmp_path / "copy.db", "--database", database, "--json") == 0
        assert run("restore", tmp_path / "copy.db", "--database", tmp_path / "new.db", "--json") == 0
    finally:
        os.umask(before)
    for name in ("copy.db", "new.db"):
        modes.append(stat.S_IMODE((tmp_path / name).stat().st_mode))
        assert (tmp_path / name).stat().st_nlink == 1
    assert modes == [0o600] * 4
    assert '"seconds"' in capsys.readouterr().out


def test_nothing_is_replaced(database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A copy, a link, a folder, a log that was left behind: one line, exit code 2, and all is as it was."""
    copy, link, new = tmp_path / "copy.db", tmp_path / "link.db", tmp_path / "new.db"
    assert run("backup", copy, "--database", database) == 0
    link.symlink_to(tmp_path / "nowhere")
    capsys.readouterr()
    content = copy.read_bytes()
    for taken in (copy, link, tmp_path):
        assert run("backup", taken, "--database", database) == 2
        assert run("restore", copy, "--database", taken) == 2
    for suffix in ("-wal", "-shm", "-journal"):
        beside = Path(f"{new}{suffix}")
        beside.write_text("left behind")
        assert run("restore", copy, "--database", new) == 2
        beside.unlink()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 9
    assert all("exists already" in line for line in lines)
    assert copy.read_bytes() == content
    assert not new.exists()
    assert run("backup", tmp_path / "nowhere" / "copy.db", "--database", database) == 2
    assert "No such file or directory" in capsys.readouterr().err


def test_a_name_that_was_taken_meanwhile_is_not_replaced(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody else was quicker: their file stays, and nothing is left of ours."""
    copy, sync = tmp_path / "copy.db", sqlite_copy._sync

    def slow(path: Path) -> None:
        copy.write_text("quicker")
        sync(path)

    monkeypatch.setattr(sqlite_copy, "_sync", slow)
    assert run("backup", copy, "--database", database) == 2
    assert "File exists" in capsys.readouterr().err
    assert copy.read_text() == "quicker"
    assert not list(tmp_path.glob("*.part")) + list(tmp_path.glob(".*"))


def test_a_database_in_use_is_not_made_anew(database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A server whose file was deleted still has its place."""
    copy = tmp_path / "copy.db"
    assert run("backup", copy, "--database", database) == 0
    with closing(SqliteStore(database)):
        for suffix in ("", "-wal", "-shm"):
            Path(f"{database}{suffix}").unlink()
        assert run("restore", copy, "--database", database) == 2
    assert "is in use by another server" in capsys.readouterr().err
    assert not database.exists()
    assert run("restore", copy, "--database", database) == 0


@pytest.mark.parametrize("environment", [KEYS, {**KEYS, SECRET_VARIABLE: SECRET}], ids=["stored", "environment"])
def test_tickets_of_the_other_copy_are_void(environment: dict[str, str], tmp_path: Path) -> None:
    """Wherever the secret comes from: after a restore, tickets from before are forged, those from then on count.

    The first database lives on: it has an experiment of its own under the number that the second gives to another.
    """
    first = Local(tmp_path / "agent.db", environment)
    first("POST", "/v1/experiments", NEW)
    tickets = [first.decide()["ticket"] for _ in range(2)]
    assert first.respond(tickets[0]) == (200, "counted")
    assert run("backup", tmp_path / "copy.db", "--database", tmp_path / "agent.db") == 0
    first("POST", "/v1/experiments", {**NEW, "name": "later"})
    tickets.append(first.decide("later")["ticket"])
    assert run("restore", tmp_path / "copy.db", "--database", tmp_path / "new.db") == 0
    second = Local(tmp_path / "new.db", environment)
    second("POST", "/v1/experiments", {**NEW, "name": "another"})
    assert [second.respond(ticket) for ticket in tickets] == [(403, "forged")] * 3
    assert second.respond(second.decide()["ticket"]) == (200, "counted")
    assert second("GET", E).json["responses"] == 2
    assert first.respond(second.decide()["ticket"]) == (403, "forged")
    assert [first.respond(ticket) for ticket in tickets[1:]] == [(200, "counted")] * 2
    first.close()
    second.close()


def test_a_restored_database_is_new_but_for_what_was_counted(database: Path, tmp_path: Path) -> None:
    """Other identity and secret, of which the old one is not to be found; no nonces; time starts with the clock."""
    with closing(SqliteStore(database)) as store:
        store.forget(5_000_000_000, 1)
        with store.file.transaction() as connection:
            connection.execute("UPDATE forgotten SET before = 4000000000")
        store.rotate_secret(b"an old secret of the backup, to be removed", 0, 0)
        before = (store.identity, store.experiments(), sorted(store.events()))
    copy, new = tmp_path / "copy.db", tmp_path / "new.db"
    assert run("backup", copy, "--database", database) == 0
    assert run("restore", copy, "--database", new) == 0
    assert b"an old secret of the backup" in copy.read_bytes()
    assert b"an old secret of the backup" not in new.read_bytes()
    with closing(SqliteStore(new)) as store:
        assert (store.experiments(), sorted(store.events())) == before[1:]
        assert store.identity != before[0]
        assert store.forgotten == 0
        assert store.file.rows("SELECT count(*) FROM nonces") == [(0,)]
        (secret,) = store.secrets()
        assert secret.number == 3  # and so larger than all before it
        assert [len(piece) for piece in store.export(1, 10)] == [3]


def test_a_backup_of_an_older_version_can_be_restored(tmp_path: Path) -> None:
    """It is brought up to date like any database."""
    with closing(sqlite3.connect(tmp_path / "old.db", isolation_level=None)) as connection:
        migrate(connection, MIGRATIONS[:1])
    assert run("restore", tmp_path / "old.db", "--database", tmp_path / "new.db") == 0
    assert run("check", "--database", tmp_path / "new.db") == 0


def test_what_is_no_backup_is_refused(database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing there, a text, another program's, PostgreSQL's, from a newer version: one line, and nothing is made."""
    text, other = tmp_path / "text.db", tmp_path / "other.db"
    text.write_text("no database" * 1000)
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE customers (name TEXT)")
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("INSERT INTO migrations VALUES ('9999 from the future', 0)")
    for source in (tmp_path / "nowhere.db", text, other, database):
        assert not list(tmp_path.glob("new.db*"))
        assert run("restore", source, "--database", tmp_path / "new.db") == 2
        assert capsys.readouterr().err.count("\n") == 1
    for command in (["backup", "copy.db"], ["restore", "copy.db"]):
        assert run(*command, "--database", "postgresql://host/name") == 2
        assert "a PostgreSQL database has its own tools: pg_" in capsys.readouterr().err
    assert not (tmp_path / "new.db").exists()
    assert not list(tmp_path.glob(".*"))


def test_a_damaged_backup_is_not_restored(database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that was not copied to its end, by a few bytes: what can be copied of it would pass for a database."""
    copy = tmp_path / "copy.db"
    assert run("backup", copy, "--database", database) == 0
    copy.write_bytes(copy.read_bytes()[:-100])
    capsys.readouterr()
    assert run("restore", copy, "--database", tmp_path / "new.db") == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    # The bytes at the end may be of a table or of the schema.
    assert re.search("is damaged, and 'ldpbandits check' says where|cannot be copied|cannot be read: malformed", told)
    assert not list(tmp_path.glob("new.db*"))


def command(*arguments: object) -> list[str]:
    """Return a command to be run by itself."""
    return [sys.executable, "-m", "ldpbandits", *map(str, arguments)]


def test_a_full_disk_leaves_nothing(database: Path, tmp_path: Path) -> None:
    """One line, exit code 1: it is no fault of the input."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = in_a_namespace('mount -t tmpfs -o size=20k tmpfs "$1"', disk)
    look = ["sh", "-c", '"$@"; code=$?; ls -A "$0"; exit $code', str(disk)]
    done = subprocess.run(
        [*mounted, *look, *command("backup", disk / "copy.db", "--database", database)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "database or disk is full" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_database_in_a_folder_that_cannot_be_written_to_is_checked(database: Path) -> None:
    """As from a snapshot of a disk."""
    mounted = in_a_namespace('mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"', database.parent)
    done = subprocess.run(
        [*mounted, *command("check", "--database", database)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout == f"{database}: 1 experiment, 3 responses, 3 nonces; all agree\n"
