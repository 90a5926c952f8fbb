"""The file behind ledger and outbox is its owner's alone, outlasts crashes, and is never mistaken for another."""

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from ldpbandits import BernoulliCurator, Ledger, LedgerError, LimitError, Limits
from ldpbandits.device.ledger import DAY
from ldpbandits.device.outbox import Entry, Outbox
from ldpbandits.types import Arm, Response

NOW = 1_000_000.0
HERE = ("https://agent.example", "headline")
CHARGE = "INSERT INTO spent VALUES (0, 1)"

VERSION_0_1 = """
CREATE TABLE spent (at REAL NOT NULL, epsilon REAL NOT NULL);
CREATE TABLE pulls (
    ticket TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    experiment TEXT NOT NULL,
    arm INTEGER NOT NULL,
    name TEXT NOT NULL,
    curator TEXT NOT NULL,
    default_reward REAL NOT NULL,
    due REAL NOT NULL,
    response REAL,
    tries INTEGER NOT NULL DEFAULT 0,
    next_try REAL NOT NULL DEFAULT 0
);
PRAGMA application_id = 1279545410;
PRAGMA user_version = 1;
INSERT INTO spent VALUES (999900.0, 0.5), (999950.0, 0.5);
INSERT INTO pulls VALUES
('open', 'https://agent.example', 'headline', 1, 'green',
 '{"mechanism": "bernoulli", "epsilon": 0.5, "transform": {"kind": "range", "low": 0.0, "high": 1.0}}',
 0.0, 1000600.0, NULL, 0, 0.0),
('sent', 'https://agent.example', 'headline', 0, 'red',
 '{"mechanism": "bernoulli", "epsilon": 0.5, "transform": {"kind": "range", "low": 0.0, "high": 1.0}}',
 0.0, 1000600.0, 1.0, 3, 1000010.0);
"""
"""A file as version 0.1.0 writes it."""


def test_a_ledger_of_version_0_1_goes_on(path: Path) -> None:
    """What it says was spent counts, its pulls are under way, and new ones are written beside them."""
    connection = sqlite3.connect(path)
    connection.executescript(VERSION_0_1)
    connection.close()
    ledger = Ledger(path)
    outbox, curator = Outbox(ledger, *HERE), BernoulliCurator(0.5)
    still_open = Entry("open", Arm(1), "green", curator, 0.0, NOW + 600)
    assert outbox.entries() == [
        still_open,
        Entry("sent", Arm(0), "red", curator, 0.0, NOW + 600, Response(1), 3, NOW + 10),
    ]
    assert outbox.find("open") == still_open
    outbox.answer("open", Response(0.0), NOW)
    outbox.done("sent")
    another = Entry("new", Arm(0), "red", curator, 0.0, NOW + 600)
    with pytest.raises(LimitError, match="on top of the 1 spent"):
        outbox.keep([another], Limits(1, 1), NOW)
    outbox.keep([another], Limits(1, 1.5), NOW)
    assert [entry.ticket for entry in outbox.entries()] == ["open", "new"]
    ledger.close()


def test_a_new_ledger_has_the_tables_of_version_0_1(tmp_path: Path) -> None:
    """So that an older version of the library, which shares the file, can read what this one writes."""
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    connection = sqlite3.connect(old)
    connection.executescript(VERSION_0_1)
    connection.close()
    Ledger(new).close()
    layouts = []
    for file in (old, new):
        connection = sqlite3.connect(file)
        tables = [connection.execute(f"PRAGMA table_info({table})").fetchall() for table in ("spent", "pulls")]
        marks = [connection.execute(f"PRAGMA {mark}").fetchone() for mark in ("application_id", "user_version")]
        layouts.append((tables, marks))
        connection.close()
    assert layouts[0] == layouts[1]


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
    """A SQLite file with other tables, or of another version of the ledger, is refused."""
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="something else than a ledger"):
        Ledger(path)
    assert path.read_bytes() == before
    path.unlink()
    Ledger(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    with pytest.raises(LedgerError, match="of another version"):
        Ledger(path)


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
        ledger.spent(NOW, DAY)


def test_a_ledger_that_is_locked_for_long_is_a_ledger_error(path: Path) -> None:
    """Who cannot have the file to himself does not charge."""
    ledger, other = Ledger(path), sqlite3.connect(path, isolation_level=None)
    ledger.database._connection.execute("PRAGMA busy_timeout = 10")
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match="locked"), ledger.database.transaction() as transaction:
        transaction.execute(CHARGE)
    other.execute("ROLLBACK")
    assert ledger.spent(NOW, DAY) == 0
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
    assert ledger.spent(0, DAY) == 1
    other.close()
    ledger.close()
