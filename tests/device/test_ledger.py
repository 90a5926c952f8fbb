"""The ledger adds up what a device has spent, and no limit of its owner is ever broken."""

import math
import os
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from ldpbandits import (
    CuratorSpec,
    LedgerError,
    LimitError,
    Limits,
    ParameterError,
    RealLine,
    TicketError,
)
from ldpbandits.device import ledger as ledger_module
from ldpbandits.device.ledger import DAY, Entry, Ledger, default_path
from ldpbandits.spec import mechanisms
from ldpbandits.types import Arm, Response

NOW = 1_000_000.0
HERE = ("https://agent.example", "headline")


def entry(ticket: object, epsilon: float = 0.1, url: str = HERE[0], experiment: str = HERE[1]) -> Entry:
    """Make a pull that asks for this epsilon."""
    spec = CuratorSpec(mechanisms.Bernoulli(epsilon))
    return Entry(str(ticket), url, experiment, Arm(0), "green", spec, 0.0, NOW + 600)


def charge_until_refused(ledger: Ledger, limits: Limits, epsilon: float, at_most: int = 1000) -> int:
    """Charge this epsilon again and again; return how often it went."""
    for i in range(at_most):
        try:
            ledger.charge(limits, entry(i, epsilon), NOW)
        except LimitError:
            return i
    return at_most


@pytest.mark.parametrize(
    ("epsilon", "budget", "times"),
    [(0.1, 1, 10), (0.07, 7, 100), (0.3, 0.9, 3), (1 / 3, 1, 3), (0.1, 0.99, 9), (5, 4, 0)],
)
def test_what_adds_up_to_the_budget_fits_and_nothing_more(epsilon: float, budget: float, times: int) -> None:
    """Ten times 0.1 fit in a budget of 1 and a hundred times 0.07 in 7, however floats round; one more never does."""
    ledger = Ledger(":memory:")
    assert charge_until_refused(ledger, Limits(50, budget), epsilon) == times
    assert ledger.spent(NOW, DAY) == pytest.approx(times * epsilon)
    assert len(ledger.pulls(*HERE)) == times
    ledger.close()


def test_a_refused_charge_leaves_no_trace_and_smaller_ones_still_fit() -> None:
    """What is left of the budget after a refusal is what was left before it."""
    ledger, limits = Ledger(":memory:"), Limits(1, 1)
    ledger.charge(limits, entry("a", 0.75), NOW)
    with pytest.raises(LimitError, match=r"epsilon = 0\.5 on top of the 0\.75 spent .* allows 1 within 30 days"):
        ledger.charge(limits, entry("b", 0.5), NOW)
    ledger.charge(limits, entry("c", 0.25), NOW)
    assert ledger.spent(NOW, DAY) == 1
    assert [pull.ticket for pull in ledger.pulls(*HERE)] == ["a", "c"]
    ledger.close()


def test_the_cap_on_a_single_response() -> None:
    """An epsilon above the owner's is refused, whatever is left of the budget."""
    ledger = Ledger(":memory:")
    ledger.charge(Limits(1, 50), entry("a", 1), NOW)
    with pytest.raises(LimitError, match=r"asks for epsilon = 1\.5 a response; the owner of this device allows 1$"):
        ledger.charge(Limits(1, 50), entry("b", 1.5), NOW)
    assert ledger.spent(NOW, DAY) == 1
    ledger.close()


def test_the_real_line_must_be_allowed_by_name() -> None:
    """There epsilon holds only for rewards within 1 of each other: without the owner's word it is refused."""
    ledger, spec = Ledger(":memory:"), CuratorSpec(mechanisms.Laplace(1), RealLine())
    asked = Entry("a", *HERE, Arm(0), "green", spec, 0.0, NOW)
    with pytest.raises(LimitError, match="real line"):
        ledger.charge(Limits(1, 10), asked, NOW)
    assert ledger.spent(NOW, DAY) == 0
    ledger.charge(Limits(1, 10, real_line=True), asked, NOW)
    assert ledger.pulls(*HERE)[0].spec == spec
    ledger.close()


def test_the_budget_is_one_for_all_experiments_and_agents() -> None:
    """What one agent was told counts against what another may ask."""
    ledger, limits = Ledger(":memory:"), Limits(1, 1)
    ledger.charge(limits, entry("a", 0.5), NOW)
    ledger.charge(limits, entry("b", 0.5, experiment="colour"), NOW)
    with pytest.raises(LimitError, match="on top of the 1 spent"):
        ledger.charge(limits, entry("c", 0.5, url="https://other.example"), NOW)
    ledger.close()


def test_the_window_slides() -> None:
    """A spend counts for exactly one window, and what is done with stays charged."""
    ledger, limits = Ledger(":memory:"), Limits(1, 1, window=100)
    ledger.charge(limits, entry("a", 0.6), NOW)
    ledger.done("a")
    ledger.charge(limits, entry("b", 0.4), NOW + 50)
    with pytest.raises(LimitError):
        ledger.charge(limits, entry("c", 0.6), NOW + 99.9)
    ledger.charge(limits, entry("d", 0.6), NOW + 100)
    with pytest.raises(LimitError):
        ledger.charge(limits, entry("e", 0.4), NOW + 149)
    assert ledger.spent(NOW + 100, 100) == 1
    assert ledger.spent(NOW + 100, 1000) == pytest.approx(1.6)
    ledger.close()


def test_a_clock_that_goes_back_forgets_nothing() -> None:
    """A spend that seems to lie ahead counts."""
    ledger, limits = Ledger(":memory:"), Limits(1, 1, window=100)
    ledger.charge(limits, entry("a", 0.6), NOW)
    for now in (NOW - 1, NOW - 1e6, 0.0):
        with pytest.raises(LimitError):
            ledger.charge(limits, entry("b", 0.6), now)
    ledger.close()


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, "1", None, True])
@pytest.mark.parametrize("name", ["epsilon", "budget", "window"])
def test_limits_are_finite_and_positive(name: str, bad: Any) -> None:
    """A limit that limits nothing, or everything, is a mistake."""
    with pytest.raises(ParameterError, match=f"{name} must be finite and > 0"):
        Limits(**{"epsilon": 1, "budget": 1} | {name: bad})


def test_a_ticket_is_charged_once_and_answered_once() -> None:
    """A ticket that is out is not taken again, and its first response is its last."""
    ledger, limits = Ledger(":memory:"), Limits(1, 10)
    ledger.charge(limits, entry("a"), NOW)
    with pytest.raises(TicketError, match="handed out this ticket before"):
        ledger.charge(limits, entry("a"), NOW)
    assert ledger.spent(NOW, DAY) == pytest.approx(0.1)
    ledger.answer("a", Response(1.0), NOW)
    with pytest.raises(TicketError):
        ledger.answer("a", Response(0.0), NOW)
    with pytest.raises(TicketError):
        ledger.pull("a", *HERE)
    assert ledger.pulls(*HERE)[0].response == 1.0
    ledger.close()


def test_all_of_a_pull_comes_back_from_the_file(path: Path) -> None:
    """What is written is read again, to the bit, by whoever opens the file next."""
    ledger, response = Ledger(path), Response(-1234567 / 2**20)
    ledger.charge(Limits(1, 10), entry("a", 0.1), NOW)
    assert ledger.pull("a", *HERE) == entry("a", 0.1)
    ledger.answer("a", response, NOW + 5)
    ledger.postpone("a", NOW + 7)
    ledger.close()
    again = Ledger(str(path))
    (pull,) = again.pulls(*HERE)
    assert (pull.response, pull.tries, pull.next_try) == (response, 1, NOW + 7)
    assert again.spent(NOW, DAY) == 0.1
    again.close()


def test_only_its_owner_can_read_it(path: Path) -> None:
    """The file has mode 0600 whatever the umask, and so has its journal."""
    umask = os.umask(0)
    try:
        ledger = Ledger(path)
        with ledger._transaction() as connection:
            connection.execute("INSERT INTO spent VALUES (0, 1)")
            files = [path, path.with_name("ledger.db-journal")]
            assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600, 0o600]
        ledger.close()
    finally:
        os.umask(umask)


def test_what_is_committed_outlasts_a_loss_of_power(path: Path) -> None:
    """With a rollback journal only synchronous=EXTRA (3) flushes the folder too: FULL may forget the last commit."""
    ledger = Ledger(path)
    assert ledger._connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert ledger._connection.execute("PRAGMA synchronous").fetchone() == (3,)
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


def test_damage_inside_the_file_is_a_ledger_error(path: Path) -> None:
    """A row that cannot be read is not passed over."""
    ledger = Ledger(path)
    ledger.charge(Limits(1, 10), entry("a"), NOW)
    for damage in ("nonsense", '{"mechanism": "bernoulli"}', "[]"):
        ledger._connection.execute("UPDATE pulls SET curator = ?", (damage,))
        with pytest.raises(LedgerError, match="damaged"):
            ledger.pulls(*HERE)
    ledger.close()


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
    ledger._connection.execute("PRAGMA busy_timeout = 10")
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match="locked"):
        ledger.charge(Limits(1, 10), entry("a"), NOW)
    other.execute("ROLLBACK")
    assert ledger.spent(NOW, DAY) == 0
    other.close()
    ledger.close()


def test_an_interrupt_at_any_moment_leaves_the_ledger_usable(path: Path) -> None:
    """Ctrl-C in a transaction rolls it back and holds no lock."""
    ledger = Ledger(path)

    def interrupt() -> None:
        with ledger._transaction() as connection:
            connection.execute("INSERT INTO spent VALUES (0, 1)")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    other = Ledger(path)
    other.charge(Limits(1, 10), entry("a"), NOW)
    assert ledger.spent(0, DAY) == pytest.approx(0.1)
    other.close()
    ledger.close()


def test_the_default_place_is_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All that take part from one account share one ledger."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_path() == tmp_path / "ldpbandits" / "ledger.db"
    assert ledger_module.default_path().is_relative_to(tmp_path)
