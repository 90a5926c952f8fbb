"""The outbox keeps each pull with its charge, each response for good, and each curator for as long as it is needed."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ldpbandits import BernoulliCurator, Ledger, LedgerError, LimitError, Limits, TicketError
from ldpbandits.device.curators import curator_from_text, curators_from_text
from ldpbandits.device.ledger import DAY
from ldpbandits.device.outbox import Entry, Outbox
from ldpbandits.types import Arm, Response

if TYPE_CHECKING:
    from tests.device.conftest import Device

NOW = 1_000_000.0
HERE = ("https://agent.example", "headline")


def entry(ticket: str, epsilon: float = 0.1) -> Entry:
    """Make a pull that asks for this epsilon."""
    return Entry(ticket, Arm(0), "green", BernoulliCurator(epsilon), 0.0, NOW + 600)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """A new ledger, until the test ends."""
    ledger = Ledger(":memory:")
    yield ledger
    ledger.close()


def test_a_pull_is_kept_and_charged_or_neither(ledger: Ledger) -> None:
    """A limit keeps the pull out; a ticket that is out, or a pull that cannot be written, takes its charge back."""
    outbox, limits = Outbox(ledger, *HERE), Limits(1, 1)
    outbox.keep([entry("a", 0.75)], limits, NOW)
    with pytest.raises(LimitError):
        outbox.keep([entry("b", 0.5)], limits, NOW)
    with pytest.raises(TicketError, match="handed out this ticket before"):
        outbox.keep([entry("a", 0.25)], limits, NOW)
    with pytest.raises(LedgerError):
        outbox.keep([replace(entry("c", 0.25), name=None)], limits, NOW)  # type: ignore[arg-type]
    assert ledger.spent(NOW, DAY) == 0.75
    assert [kept.ticket for kept in outbox.entries()] == ["a"]


def test_the_budget_is_one_for_all_experiments_and_agents(ledger: Ledger) -> None:
    """What one agent was told counts against what another may ask; a ticket is out for all of them."""
    limits = Limits(1, 1)
    Outbox(ledger, *HERE).keep([entry("a", 0.5)], limits, NOW)
    Outbox(ledger, HERE[0], "colour").keep([entry("b", 0.5)], limits, NOW)
    other = Outbox(ledger, "https://other.example", HERE[1])
    with pytest.raises(LimitError, match="on top of the 1 spent"):
        other.keep([entry("c", 0.5)], limits, NOW)
    with pytest.raises(TicketError):
        other.keep([entry("a", 0.5)], Limits(1, 10), NOW)
    assert other.entries() == []


def test_what_is_done_with_stays_charged(ledger: Ledger) -> None:
    """A pull is forgotten, its epsilon is not."""
    outbox = Outbox(ledger, *HERE)
    outbox.keep([entry("a", 0.5)], Limits(1, 1), NOW)
    outbox.done("a")
    assert outbox.entries() == []
    assert ledger.spent(NOW, DAY) == 0.5


def test_a_pull_is_answered_once(ledger: Ledger) -> None:
    """Its first response is its last."""
    outbox = Outbox(ledger, *HERE)
    outbox.keep([entry("a")], Limits(1, 10), NOW)
    outbox.check_open("a")
    outbox.answer("a", Response(1.0), NOW)
    for call in (outbox.check_open, outbox.find, lambda ticket: outbox.answer(ticket, Response(0.0), NOW)):
        with pytest.raises(TicketError):
            call("a")
    assert outbox.entries()[0].response == 1.0


def test_all_of_a_pull_comes_back_from_the_file(path: Path) -> None:
    """What is written is read again, to the bit, by whoever opens the file next."""
    ledger, response = Ledger(path), Response(-1234567 / 2**20)
    outbox = Outbox(ledger, *HERE)
    outbox.keep([entry("a")], Limits(1, 10), NOW)
    assert outbox.find("a") == entry("a")
    outbox.answer("a", response, NOW + 5)
    assert outbox.entries() == [replace(entry("a"), response=response, next_try=NOW + 5)]
    outbox.postpone("a", 0, NOW + 7)
    ledger.close()
    again = Ledger(str(path))
    (pull,) = Outbox(again, *HERE).entries()
    assert (pull.response, pull.tries) == (response, 1)
    assert NOW + 7.5 <= pull.next_try <= NOW + 8
    assert again.spent(NOW, DAY) == 0.1
    again.close()


def test_damage_inside_the_file_is_a_ledger_error(ledger: Ledger) -> None:
    """A row that cannot be read is not passed over."""
    outbox = Outbox(ledger, *HERE)
    outbox.keep([entry("a")], Limits(1, 10), NOW)
    for damage in ("nonsense", '{"mechanism": "bernoulli"}', "[]"):
        ledger.database._connection.execute("UPDATE pulls SET curator = ?", (damage,))
        for call in (outbox.entries, lambda: outbox.find("a")):
            with pytest.raises(LedgerError, match="damaged"):
                call()


def test_the_curator_of_a_pull_is_made_once(device: "Device", monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was checked against the owner's limits draws the response: no JSON is read again for a reward."""
    curators: list[BernoulliCurator] = []
    make = BernoulliCurator.__init__

    def watch(self: BernoulliCurator, *args: Any, **options: Any) -> None:
        curators.append(self)
        make(self, *args, **options)

    monkeypatch.setattr(BernoulliCurator, "__init__", watch)
    curator_from_text.cache_clear()
    curators_from_text.cache_clear()
    client = device()
    pull = client.decide()
    assert len(curators) == 1
    assert pull.observe(1) is True
    assert len(curators) == 1
    for _ in range(3):  # what asks for the same curator gets the same: it holds no state
        client.decide()
    assert len(curators) == 1
    for again in client.pulls():  # as after a restart, from the file, which has it in full
        assert again.observe(1) is True
    assert len(curators) == 2
