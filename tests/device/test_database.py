"""The file behind ledger and outbox is its owner's alone, outlasts crashes, and is never mistaken for another."""

import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest

from ldpbandits import Ledger, LedgerError
from ldpbandits.device import database
from ldpbandits.device.limits import DAY_S

NOW = 1_000_000.0
CHARGE = "INSERT INTO spent (accepted_at, epsilon) VALUES (0, 1)"


VERSION_0_1 = """
CREATE TABLE spent (at REAL NOT NULL, epsilon REAL NOT NULL);
PRAGMA application_id = 1279545410;
PRAGMA user_version = 1;
INSERT INTO spent VALUES (999900.0, 0.5);
"""
"""A file as version 0.1.0 writes it, in part."""


@pytest.mark.parametrize("script", [VERSION_0_1, VERSION_0_1.replace("version = 1", "version = 3")])
def test_a_ledger_of_another_version_is_refused_and_left_as_it_is(path: Path, script: str) -> None:
    """To read it wrongly would forget what was spent."""
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.close()
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="the file given as the ledger is of another version, and left as it is"):
        Ledger(path)
    assert path.read_bytes() == before


def test_an_empty_file_is_damaged_and_not_new(path: Path) -> None:
    """A ledger that lost all it held, as after a full disk or a careless copy, is not taken for one without charges."""
    path.touch()
    with pytest.raises(LedgerError, match=r"ledger\.db is damaged: the file is empty, and left as it is"):
        Ledger(path)
    assert path.read_bytes() == b""


def test_a_new_ledger_appears_when_it_is_complete(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks while it is made sees no file of its name; what is left of a crash in between is no ledger."""
    make, there = database._make_tables, []

    def look(connection: sqlite3.Connection) -> None:
        there.append(path.exists())
        make(connection)
        there.append(path.exists())

    monkeypatch.setattr(database, "_make_tables", look)
    ledger = Ledger(path)
    assert there == [False, False]
    assert [file.name for file in path.parent.iterdir()] == ["ledger.db"]
    ledger.close()

    def crash(_: sqlite3.Connection) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(database, "_make_tables", crash)
    path.unlink()
    with pytest.raises(KeyboardInterrupt):
        Ledger(path)
    assert list(path.parent.iterdir()) == []


def test_who_comes_second_takes_the_ledger_that_is_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that start together share one ledger: what the first has written stays, with links or without."""
    for without_links in (False, True):
        path.unlink(missing_ok=True)
        make = database._make_file

        def come_second(where: Path, make: Callable[[Path], None] = make) -> None:
            make(where)
            connection = sqlite3.connect(where)
            connection.execute(CHARGE)
            connection.commit()
            connection.close()
            make(where)

        with monkeypatch.context() as patch:
            patch.setattr(database, "_make_file", come_second)
            if without_links:
                patch.setattr(Path, "hardlink_to", no_links)
            ledger = Ledger(path)
        assert ledger.spent(0, DAY_S) == 1
        ledger.close()
        assert [file.name for file in path.parent.iterdir()] == ["ledger.db"]


def no_links(*_: object) -> None:
    """Be a file system that has none."""
    raise PermissionError("no links here")


def test_only_its_owner_can_read_it(path: Path) -> None:
    """The file has mode 0600 whatever the umask, and so has its journal."""
    umask = os.umask(0)
    try:
        ledger = Ledger(path)
        with ledger.database.transaction() as transaction:
            transaction.execute(CHARGE)
            files = [path, path.with_name("ledger.db-journal")]
            assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600, 0o600]
        ledger.close()
    finally:
        os.umask(umask)


def test_what_is_committed_outlasts_a_loss_of_power(path: Path) -> None:
    """With a rollback journal only synchronous=EXTRA (3) flushes the folder too: FULL may forget the last commit."""
    ledger = Ledger(path)
    assert ledger.database._connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert ledger.database._connection.execute("PRAGMA synchronous").fetchone() == (3,)
    ledger.close()


def test_the_ledger_is_where_it_was_when_the_folder_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path is that of the folder in which the ledger was opened: a fork elsewhere opens the same file."""
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("ledger.db")
    assert ledger.path == tmp_path / "ledger.db"
    ledger.close()


@pytest.mark.parametrize("content", [b"this is not a database" * 99, b"SQLite format 3\0" * 99])
def test_a_file_that_is_no_ledger_is_refused_and_left_as_it_is(path: Path, content: bytes) -> None:
    """To start anew would forget what was spent."""
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"ledger\.db cannot be opened: file is not a database"):
        Ledger(path)
    assert path.read_bytes() == content


def test_another_programs_database_is_left_as_it_is(path: Path) -> None:
    """A SQLite file with other tables is refused."""
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="is not a ledger"):
        Ledger(path)
    assert path.read_bytes() == before


def test_a_place_that_cannot_be_written_is_a_ledger_error(tmp_path: Path) -> None:
    """A file as the folder, a folder as the file, no name at all, or a ledger that was closed."""
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "ledger.db", tmp_path, "", "nul\0"):
        with pytest.raises(LedgerError, match=r"the ledger .* cannot be"):
            Ledger(place)
    ledger = Ledger(":memory:")
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerError):
        ledger.spent(NOW, DAY_S)


def test_a_ledger_that_is_locked_for_long_is_a_ledger_error(path: Path) -> None:
    """Who cannot have the file to himself does not charge."""
    ledger, other = Ledger(path), sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with (
        pytest.raises(LedgerError, match="locked"),
        ledger.database.deadline(monotonic() + 0.05),
        ledger.database.transaction() as transaction,
    ):
        transaction.execute(CHARGE)
    other.execute("ROLLBACK")
    assert ledger.spent(NOW, DAY_S) == 0
    other.close()
    ledger.close()


def test_an_interrupt_at_any_moment_leaves_the_ledger_usable(path: Path) -> None:
    """Ctrl-C in a transaction rolls it back and holds no lock."""
    ledger = Ledger(path)

    def interrupt() -> None:
        with ledger.database.transaction() as transaction:
            transaction.execute(CHARGE)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    other = Ledger(path)
    with other.database.transaction() as transaction:
        transaction.execute(CHARGE)
    assert ledger.spent(0, DAY_S) == 1
    other.close()
    ledger.close()


def test_a_transaction_within_another_is_a_part_of_it(path: Path) -> None:
    """Both are written together, or neither; the next one is its own."""
    opened = database.Database(path)
    add = "INSERT INTO spent (accepted_at, epsilon) VALUES (1, 1)"
    for fails in (True, False):
        with suppress(ZeroDivisionError), opened.transaction() as outer:
            with opened.transaction() as inner:
                inner.execute(add)
            outer.execute(add)
            assert 1 / (not fails)
    with opened.transaction() as later:
        assert later.execute("SELECT count(*) FROM spent").fetchone() == (2,)
    opened.close()
