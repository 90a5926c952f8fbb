"""One server, one file, one name: else what was acknowledged could be lost, and a response be counted twice."""

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.server.namespaces import in_a_namespace
from tests.server.running import HEADLINE, PATIENCE, running
from tests.server.store_contract import answer, arm_totals, start

from ldpbandits.errors import DatabaseError
from ldpbandits.server.store import Outcome, Unavailable
from ldpbandits.server.store.sqlite.file import check_mounts
from ldpbandits.server.store.sqlite.store import SqliteStore

STORE = "ldpbandits.server.store.sqlite.store"
OPEN = f"import pathlib, sys; from {STORE} import SqliteStore; SqliteStore(pathlib.Path(sys.argv[1]))"


def refused(before: list[str], database: Path) -> str:
    """Open a database in another process, which must fail; return why."""
    command = [*before, sys.executable, "-c", OPEN, str(database)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1, done
    line = done.stderr.splitlines()[-1]
    assert "DatabaseError: " in line
    return line


def test_a_file_that_is_mounted_alone_is_refused(tmp_path: Path) -> None:
    """Its log would be written beside the place where it is mounted, and be lost with that."""
    outside, inside = tmp_path / "outside.db", tmp_path / "a place" / "agent.db"
    SqliteStore(outside).close()
    inside.parent.mkdir()
    inside.touch()
    line = refused(in_a_namespace('mount --bind "$1" "$2"', outside, inside), inside)
    assert f"the database {inside} is mounted as a single file" in line
    assert "mount its folder" in line


def test_a_database_in_use_is_refused_by_whatever_name(tmp_path: Path) -> None:
    """Through a link to the file, a hard link that was made meanwhile, or its folder mounted elsewhere."""
    folder, elsewhere, other = (tmp_path / name for name in ("folder", "elsewhere", "other"))
    for each in (folder, elsewhere, other):
        each.mkdir()
    database = folder / "agent.db"
    with closing(SqliteStore(database)) as store:
        (other / "link.db").symlink_to(database)
        assert "is in use by another server" in refused([], other / "link.db")
        (other / "hard.db").hardlink_to(database)
        assert "is in use by another server" in refused([], other / "hard.db")
        (other / "hard.db").unlink()
        mounted = in_a_namespace('mount --bind "$1" "$2"', folder, elsewhere)
        assert "is in use by another server" in refused(mounted, elsewhere / "agent.db")
        assert store.count([answer(1, 1, experiment=start(store))])[0] == [Outcome.COUNTED]


def test_nobody_else_can_read_or_lock_what_is_beside_a_database(tmp_path: Path) -> None:
    """Whoever may read the file of the lock could hold it, and so keep a server from starting."""
    before = os.umask(0)
    try:
        with closing(SqliteStore(tmp_path / "agent.db")):
            modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("agent.db", "agent.db-lock", "agent.db-shm", "agent.db-wal"), 0o600)


def test_a_file_that_was_made_beforehand_is_closed_to_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An empty one is made a database of, for its owner alone; of one that is open to others the log says so."""
    database = tmp_path / "agent.db"
    database.touch()
    database.chmod(0o644)
    with closing(SqliteStore(database)):
        assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    assert not caplog.records
    database.chmod(0o640)
    with closing(SqliteStore(database)):
        assert database.stat().st_mode & 0o777 == 0o640
    (line,) = caplog.messages
    assert line == f"other users may use the database {database}, which holds the signing secret: chmod 600"


def test_a_file_of_several_names_is_refused(tmp_path: Path) -> None:
    """The log is found by one of the names only; with one name it is opened again."""
    SqliteStore(tmp_path / "agent.db").close()
    (tmp_path / "hard.db").hardlink_to(tmp_path / "agent.db")
    for name in ("agent.db", "hard.db"):
        with pytest.raises(DatabaseError, match="has 2 names"):
            SqliteStore(tmp_path / name)
    (tmp_path / "hard.db").unlink()
    SqliteStore(tmp_path / "agent.db").close()


def replace(path: Path) -> None:
    """Put a copy in the place of a file, under its name."""
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def move_the_folder(path: Path) -> None:
    """Move the database and all that is beside it."""
    path.parent.rename(path.parent.with_name("elsewhere"))


def without(suffix: str) -> Callable[[Path], None]:
    """Delete a file that SQLite keeps beside the database."""
    return lambda path: path.with_name(path.name + suffix).unlink()


LOSSES: dict[str, Callable[[Path], None]] = {
    "deleted": Path.unlink,
    "replaced": replace,
    "moved": move_the_folder,
    "without its log": without("-wal"),
    "without its index": without("-shm"),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_what_may_be_lost_is_not_acknowledged(loss: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once its file is gone, a store is unavailable, for good, and says so once; before, it was not."""
    database = tmp_path / "data" / "agent.db"
    database.parent.mkdir()
    with closing(SqliteStore(database)) as store:
        number = start(store)
        for nonce in range(3):
            assert store.count([answer(nonce, 1, experiment=number)])[0] == [Outcome.COUNTED]
        store.check()
        LOSSES[loss](database)
        for nonce in range(3, 6):
            with pytest.raises(Unavailable, match="was deleted, moved or replaced"):
                store.count([answer(nonce, 1, experiment=number)])
            with pytest.raises(Unavailable, match="was deleted, moved or replaced"):
                store.check()
            with pytest.raises(Unavailable, match="was deleted, moved or replaced"):
                next(store.export(number, 10))
    (line,) = caplog.records
    assert line.levelno == logging.ERROR
    assert "counts no more responses" in line.getMessage()


@pytest.mark.parametrize("link", ["agent.db", "."])
def test_a_link_that_leads_elsewhere_is_a_loss(link: str, tmp_path: Path) -> None:
    """A new start would follow the link, of the file or of its folder, and not find what was acknowledged."""
    now, later = tmp_path / "now", tmp_path / "later"
    for folder in (now, later):
        folder.mkdir()
    given, newer = tmp_path / "current" / link, tmp_path / "newer"
    if link == ".":
        given.symlink_to(now)
        newer.symlink_to(later)
    else:
        given.parent.mkdir()
        given.symlink_to(now / link)
        newer.symlink_to(later / link)
    with closing(SqliteStore(tmp_path / "current" / "agent.db")) as store:
        number = start(store)
        assert store.count([answer(1, 1, experiment=number)])[0] == [Outcome.COUNTED]
        newer.replace(given)
        with pytest.raises(Unavailable, match=r"current/agent\.db was deleted, moved or replaced"):
            store.count([answer(2, 1, experiment=number)])
    assert not list(later.iterdir())


def test_a_log_that_is_deleted_takes_nothing_with_it(tmp_path: Path) -> None:
    """What was acknowledged is written to the database when the loss is noticed, and is there after a crash."""
    database = tmp_path / "agent.db"
    with closing(SqliteStore(database)) as store:
        number = start(store)
        assert store.count([answer(1, 1, experiment=number)])[0] == [Outcome.COUNTED]
        without("-wal")(database)
        with pytest.raises(Unavailable):
            store.check()
        shutil.copy(database, tmp_path / "crashed.db")
    with closing(SqliteStore(tmp_path / "crashed.db")) as store:
        assert arm_totals(store, number) == [(1, 1), (0, 0)]


def test_a_server_whose_database_is_gone_says_so(tmp_path: Path) -> None:
    """Responses get 503, one line is logged, and what is there now is left alone, also by the end of the server."""
    with running(tmp_path) as server:
        assert server.ask("POST", "/v1/experiments", HEADLINE).status == 201
        tickets = [server.decide()["ticket"] for _ in range(3)]
        assert server.respond(tickets[0], 1).status == 200
        for name in ("agent.db", "agent.db-wal"):
            (tmp_path / name).unlink()
            (tmp_path / name).write_text("another file")
        for ticket in tickets:
            assert (server.respond(ticket, 1).status, server.respond(ticket, 1).json["code"]) == (503, "retry")
        server.stop()
        assert server.printed().count("counts no more responses") == 1
    assert [(tmp_path / name).read_text() for name in ("agent.db", "agent.db-wal")] == ["another file"] * 2


MOUNTS = rb"""22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
24 22 0:22 / /proc rw - proc proc rw
30 22 254:0 /var/agent.db /data/agent.db rw,relatime - ext4 /dev/vda rw
31 22 254:0 /var/one\040name /a\040place/agent\134.db rw,relatime shared:1 - ext4 /dev/vda rw
40 22 0:40 / /remote rw,relatime - nfs4 host:/export rw
41 40 254:0 / /remote/local rw,relatime - ext4 /dev/vdb rw
42 22 254:0 / /covered rw,relatime - ext4 /dev/vdb rw
43 42 0:41 / /covered rw,relatime - cifs //host/share rw
"""


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/data/agent.db", "is mounted as a single file"),
        ("/a place/agent\\.db", "is mounted as a single file"),
        ("/remote/folder/agent.db", "is on a network file system (nfs4)"),
        ("/covered/agent.db", "is on a network file system (cifs)"),
        ("/data/agent.db-2", None),
        ("/remote/local/agent.db", None),
        ("/remotely/agent.db", None),
    ],
)
def test_mounts_are_read_as_the_kernel_writes_them(path: str, reason: str | None) -> None:
    """Names with spaces, a mount over another, a local disk within a remote one."""
    if reason is None:
        check_mounts(Path(path), MOUNTS)
    else:
        with pytest.raises(DatabaseError) as error:
            check_mounts(Path(path), MOUNTS)
        assert f"the database {path} {reason}" in str(error.value)


def test_the_mounts_of_this_machine_can_be_read(tmp_path: Path) -> None:
    """Where the system has none to read, there is nothing to say."""
    check_mounts(tmp_path / "agent.db")
    check_mounts(tmp_path / "agent.db", b"")
