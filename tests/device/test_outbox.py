"""The outbox keeps each pull with its charge, each response for good, and each curator for as long as it is needed."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ldpbandits import BernoulliCurator, Ledger, LedgerError, LimitError, Limits, Range, TicketError
from ldpbandits.device.decision import Decision, Request, curator_from_text, curators_from_text
from ldpbandits.device.limits import DAY_S
from ldpbandits.device.outbox import Entry, Outbox
from ldpbandits.types import Arm, Response

if TYPE_CHECKING:
    from tests.device.conftest import Device

NOW = 1_000_000.0
HERE = ("https://agent.example", "headline")


def asked(ticket: str, epsilon: float = 0.1) -> Decision:
    """Make a decision that asks for this epsilon."""
    return Decision(Arm(0), "green", ticket, Request((BernoulliCurator(epsilon),), 0.0, report_after=300), lifetime=600)


def limits(epsilon: float, budget: float) -> Limits:
    """Allow rewards in [0, 1]."""
    return Limits(Range(0, 1), epsilon, budget)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """A new ledger, until the test ends."""
    ledger = Ledger(":memory:")
    yield ledger
    ledger.close()


def test_a_pull_is_kept_and_charged_or_neither(ledger: Ledger) -> None:
    """A limit keeps the pull out; a ticket that is out, or a pull that cannot be written, takes its charge back."""
    outbox, allowed = Outbox(ledger, *HERE), limits(1, 1)
    outbox.keep(asked("a", 0.75), allowed, NOW)
    with pytest.raises(LimitError):
        outbox.keep(asked("b", 0.5), allowed, NOW)
    with pytest.raises(TicketError, match="issued this ticket before"):
        outbox.keep(asked("a", 0.25), allowed, NOW)
    with pytest.raises(LedgerError):
        outbox.keep(replace(asked("c", 0.25), name=None), allowed, NOW)  # type: ignore[arg-type]
    assert ledger.spent(NOW, DAY_S) == 0.75
    assert [kept.ticket for kept in outbox.entries()] == ["a"]


def test_the_budget_is_one_for_all_experiments_and_agents(ledger: Ledger) -> None:
    """What one agent was told counts against what another may ask; a ticket is out for all of them."""
    allowed = limits(1, 1)
    Outbox(ledger, *HERE).keep(asked("a", 0.5), allowed, NOW)
    Outbox(ledger, HERE[0], "colour").keep(asked("b", 0.5), allowed, NOW)
    other = Outbox(ledger, "https://other.example", HERE[1])
    with pytest.raises(LimitError, match="on top of the 1 spent"):
        other.keep(asked("c", 0.5), allowed, NOW)
    with pytest.raises(TicketError):
        other.keep(asked("a", 0.5), limits(1, 10), NOW)
    assert other.entries() == []


def test_what_is_done_with_stays_charged(ledger: Ledger) -> None:
    """A pull is forgotten, its epsilon is not."""
    outbox = Outbox(ledger, *HERE)
    outbox.keep(asked("a", 0.5), limits(1, 1), NOW)
    outbox.done("a")
    assert outbox.entries() == []
    assert ledger.spent(NOW, DAY_S) == 0.5


def kept(outbox: Outbox, ticket: str) -> Entry:
    """Accept a pull."""
    entry = outbox.keep(asked(ticket), limits(1, 10), NOW).entry
    assert entry is not None
    return entry


def test_a_pull_is_observed_once(ledger: Ledger) -> None:
    """The response to its first reward is its last."""
    outbox = Outbox(ledger, *HERE)
    kept(outbox, "a")
    outbox.observe("a", Response(1.0), NOW)
    for call in (outbox.find, lambda ticket, now: outbox.observe(ticket, Response(0.0), now)):
        with pytest.raises(TicketError):
            call("a", NOW)
    assert outbox.entries()[0].response == 1.0


@pytest.mark.parametrize("is_observed", [False, True])
def test_what_is_taken_is_taken_by_one_and_stays_as_it_is(ledger: Ledger, is_observed: bool) -> None:  # noqa: FBT001 - a case
    """Before the moment nobody gets it; then one does, until the lease ends; and no reward changes it any more."""
    outbox, other, allowed = Outbox(ledger, *HERE), Outbox(ledger, *HERE), limits(1, 10)
    first = kept(outbox, "a")
    if is_observed:
        outbox.observe("a", Response(1.0 - first.response), NOW)
    assert outbox.take("a", allowed, NOW + 299, 10) is None
    taken = outbox.take("a", allowed, NOW + 300, 10)
    assert isinstance(taken, Entry)
    assert taken.response == (1.0 - first.response if is_observed else first.response)
    assert other.take("a", allowed, NOW + 309, 10) is None
    with pytest.raises(TicketError):
        outbox.observe("a", Response(0.0), NOW)  # the clock was set back meanwhile
    again = other.take("a", allowed, NOW + 310, 10)
    assert isinstance(again, Entry)
    assert again.response == taken.response
    outbox.done("a")
    assert outbox.take("a", allowed, NOW + 400, 10) is None


def test_all_of_a_pull_comes_back_from_the_file(path: Path) -> None:
    """What is written is read again, to the bit, by whoever opens the file next."""
    ledger, response = Ledger(path), Response(-1234567 / 2**20)
    outbox = Outbox(ledger, *HERE)
    first = kept(outbox, "a")
    assert outbox.find("a", NOW) == first
    outbox.observe("a", response, NOW + 5)
    observed = replace(first, response=response, is_observed=True)
    assert outbox.entries() == [observed]
    assert outbox.take("a", limits(1, 10), NOW + 300, 5) == observed
    assert outbox.entries() == [replace(observed, has_left=True, next_try=NOW + 305)]
    outbox.postpone("a", 0, NOW + 7)
    ledger.close()
    again = Ledger(str(path))
    (pull,) = Outbox(again, *HERE).entries()
    assert (pull.response, pull.tries) == (response, 1)
    assert NOW + 7.5 <= pull.next_try <= NOW + 8
    assert again.spent(NOW, DAY_S) == 0.1
    again.close()


def test_damage_inside_the_file_is_a_ledger_error(ledger: Ledger) -> None:
    """A row that cannot be read is not passed over."""
    outbox = Outbox(ledger, *HERE)
    kept(outbox, "a")
    for damage in ("nonsense", '{"mechanism": "bernoulli"}', "[]"):
        ledger.database._connection.execute("UPDATE pulls SET curator = ?", (damage,))
        for call in (outbox.entries, lambda: outbox.find("a", NOW)):
            with pytest.raises(LedgerError, match="damaged"):
                call()


def test_the_curator_of_a_pull_is_made_once(device: "Device", monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was checked against the owner's limits is used for all pulls; from the file, it is read once."""
    curators: list[BernoulliCurator] = []
    make = BernoulliCurator.__init__

    def watch(self: BernoulliCurator, *args: Any, **options: Any) -> None:
        curators.append(self)
        make(self, *args, **options)

    monkeypatch.setattr(BernoulliCurator, "__init__", watch)
    curator_from_text.cache_clear()
    curators_from_text.cache_clear()
    client = device()
    for _ in range(3):  # what asks for the same curator gets the same: it holds no state
        client.decide()
    assert len(curators) == 2  # the other is from the file, which has it in full
    for pull in client.pulls():
        assert pull.observe(1) is True
    assert client.leave().acknowledged == 3
    assert len(curators) == 2
