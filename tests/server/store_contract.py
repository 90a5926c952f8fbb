"""What every store promises, as rules that any store is put through: test_store_contract.py runs them.

A rule is given a `Place`, which opens a store, and opens it again where it was left. To put a new store through the
rules, write its place and add it to PLACES there.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

import pytest

from ldpbandits.server.experiments.tickets import Ticket
from ldpbandits.server.store import (
    ACCEPTANCES,
    Answer,
    CellTotal,
    Definition,
    Event,
    Exists,
    Outcome,
    Status,
    Store,
    StoredArm,
    StoredHolder,
    StoredKey,
    StoredSecret,
    Unavailable,
    acceptance,
    dropped_cell,
)
from ldpbandits.server.store.nonces import HOUR_S
from ldpbandits.spec.messages import Change
from ldpbandits.types import Arm

COUNTED, DUPLICATE, CHANGED = Outcome.COUNTED, Outcome.DUPLICATE, Outcome.CHANGED
EXPIRED, CLOSED = Outcome.EXPIRED, Outcome.CLOSED
ACCEPTED, ANSWERED = Outcome.ACCEPTED, Outcome.ANSWERED
POINTS = ("between nonce and tally", "before commit")
"""Where the suite breaks a store: within `count`, and at the end of every change."""

Failpoint: TypeAlias = Callable[[str], None]


class Place(Protocol):
    """Where a store keeps things, which are still there when it is opened again."""

    fault: Exception
    """What the medium of this store raises when it is full or broken."""
    points: Sequence[str]
    """Of POINTS those that its `count` passes."""

    def open(self, failpoint: Failpoint) -> Store:
        """Open the store; it calls `failpoint` with the names of the points that it passes."""


Rule: TypeAlias = Callable[[Place], None]
CONTRACT: list[Rule] = []


def rule(check: Rule) -> Rule:
    """Add a rule to the contract."""
    CONTRACT.append(check)
    return check


@contextmanager
def opened(place: Place, failpoint: Failpoint = lambda _: None) -> Iterator[Store]:
    """Open a store, and close it at the end of the block."""
    store = place.open(failpoint)
    try:
        yield store
    finally:
        store.close()


def defined(name: str = "one") -> Definition:
    """Define an experiment."""
    return Definition(name, '{"curator": 1}', '{"rule": 2}', '{"settings": 3}', 3600, 0.25, 1_000)


def start(store: Store, name: str = "one", *arms: str) -> int:
    """Create an experiment, by default of two arms; return its number."""
    return store.create(defined(name), arms or ("a", "b")).number


def answer(
    nonce: int, value: int, *, experiment: int, arm: int = 0, expires_at: int = 100, cell: int = 0, read: int = 0
) -> Answer:
    """Answer the ticket of this nonce."""
    return Answer(Ticket(experiment, Arm(arm), expires_at, nonce.to_bytes(15, "big")), value, cell, read)


def arm_totals(store: Store, experiment: int) -> list[tuple[int, int]]:
    """Return pulls and total of each arm."""
    stored = next(each for each in store.experiments() if each.number == experiment)
    return [(arm.pulls, arm.total) for arm in stored.arms]


def exported(store: Store, experiment: int) -> list[tuple[int, int]]:
    """Return arm and value of each response, in the order of the export."""
    return [(arm, value) for piece in store.export(experiment, 3) for _, arm, value, _ in piece]


def everything(store: Store) -> object:
    """Return all that can be read of a store."""
    experiments = store.experiments()
    keys, secrets = store.keys(), store.secrets()
    return (
        experiments,
        [list(store.export(each.number, 10)) for each in experiments],
        sorted(store.events()),
        store.forgotten,
        sorted(keys, key=lambda key: key.hash),
        sorted(secrets, key=lambda secret: secret.number),
        store.changes(None, None, 100),
        sorted(store.holders(), key=lambda holder: holder.name),
        store.key_uses(),
    )


@rule
def a_new_store_is_empty_and_answers(place: Place) -> None:
    """It holds nothing, has forgotten nothing, and says that it is well."""
    with opened(place) as store:
        assert everything(store) == ([], [], [], 0, [], [], [], [], {})
        store.check()


@rule
def a_store_has_an_identity_for_good(place: Place) -> None:
    """16 bytes, the same after a restart, also when nothing was changed in between."""
    with opened(place) as store:
        identity = store.identity
        assert len(identity) == 16
        start(store)
        assert store.identity == identity
    with opened(place) as store:
        assert store.identity == identity


@rule
def an_experiment_is_kept_as_it_was_defined(place: Place) -> None:
    """Every field comes back, at once and after a restart, in the order of creation; the new one is running."""
    with opened(place) as store:
        first = store.create(defined("first"), ["b", "a"])
        second = store.create(defined("second"), ["größer 🎈"])
        assert (first.definition, first.status) == (defined("first"), "running")
        assert first.arms == (StoredArm("b"), StoredArm("a"))
        assert 0 < first.number != second.number > 0
    with opened(place) as store:
        assert store.experiments() == [first, second]


@rule
def a_taken_name_of_an_experiment_exists(place: Place) -> None:
    """The second experiment of a name is refused, also when the first is closed, and the first is as it was."""
    with opened(place) as store:
        number = start(store)
        store.set_status(number, "closed")
        before = everything(store)
        with pytest.raises(Exists):
            store.create(defined(), ["c"])
        assert everything(store) == before
        start(store, "another")


@rule
def a_taken_name_of_an_arm_exists(place: Place) -> None:
    """An experiment has each name once, also that of a retired arm; another experiment may have it too."""
    with opened(place) as store:
        with pytest.raises(Exists):
            start(store, "one", "a", "b", "a")
        assert store.experiments() == []
        one, two = start(store, "one", "a", "b"), start(store, "two", "c")
        store.retire_arm(one, 0)
        before = everything(store)
        with pytest.raises(Exists):
            store.add_arm(one, "a")
        assert everything(store) == before
        store.add_arm(two, "a")
        assert [arm.name for arm in store.experiments()[1].arms] == ["c", "a"]


@rule
def an_arm_gets_the_next_number_and_counts_when_retired(place: Place) -> None:
    """Arms stay in the order in which they came; a retired arm stays retired, and its last responses count."""
    with opened(place) as store:
        number = start(store)
        store.add_arm(number, "c")
        store.retire_arm(number, 1)
        store.add_arm(number, "d")
        batch = [answer(arm, 10 + arm, experiment=number, arm=arm) for arm in range(4)]
        assert store.count(batch)[0] == [COUNTED] * 4
    with opened(place) as store:
        assert store.experiments()[0].arms == (
            StoredArm("a", retired=False, cells=(CellTotal(number, 0, 0, 1, 10),)),
            StoredArm("b", retired=True, cells=(CellTotal(number, 1, 0, 1, 11),)),
            StoredArm("c", retired=False, cells=(CellTotal(number, 2, 0, 1, 12),)),
            StoredArm("d", retired=False, cells=(CellTotal(number, 3, 0, 1, 13),)),
        )


@rule
def each_response_counts_exactly_once(place: Place) -> None:
    """However often it comes, also after a restart; the totals that changed are returned, and no others."""
    with opened(place) as store:
        one, two = start(store, "one"), start(store, "two")
        batch = [
            answer(1, 5, experiment=one, arm=1),
            answer(2, 7, experiment=one, arm=1),
            answer(3, -1, experiment=two),
        ]
        outcomes, totals = store.count(batch)
        assert outcomes == [COUNTED] * 3
        assert sorted(totals) == [CellTotal(one, 1, 0, 2, 12), CellTotal(two, 0, 0, 1, -1)]
        assert store.count(batch) == ([DUPLICATE] * 3, [])
    with opened(place) as store:
        assert store.count(batch) == ([DUPLICATE] * 3, [])
        assert store.count([*batch, answer(4, 1, experiment=two)]) == (
            [DUPLICATE] * 3 + [COUNTED],
            [CellTotal(two, 0, 0, 2, 0)],
        )
        assert arm_totals(store, one) == [(0, 0), (2, 12)]
        assert arm_totals(store, two) == [(2, 0), (0, 0)]
        assert exported(store, one) == [(1, 5), (1, 7)]


@rule
def a_changed_value_is_refused(place: Place) -> None:
    """The first value of a ticket stands; another one is not counted, however often it comes."""
    with opened(place) as store:
        number = start(store)
        first, other = answer(1, 1, experiment=number), answer(1, 0, experiment=number)
        assert store.count([first])[0] == [COUNTED]
        assert store.count([other]) == store.count([other]) == ([CHANGED], [])
        assert store.count([first]) == ([DUPLICATE], [])
        assert arm_totals(store, number) == [(1, 1), (0, 0)]
        assert exported(store, number) == [(0, 1)]


@rule
def kinds_of_responses_are_told_apart(place: Place) -> None:
    """Each cell of an arm has its own sums, kept and exported; the same value in another cell is a changed one."""
    with opened(place) as store:
        number = start(store)
        batch = [
            answer(1, 1, experiment=number, cell=2, read=-7),
            answer(2, 1, experiment=number, cell=0),
            answer(3, 0, experiment=number, cell=2, read=2**40),
        ]
        outcomes, totals = store.count(batch)
        assert outcomes == [COUNTED] * 3
        assert sorted(totals) == [CellTotal(number, 0, 0, 1, 1), CellTotal(number, 0, 2, 2, 1, 2**40 - 7)]
        assert store.count(batch)[0] == [DUPLICATE] * 3
        elsewhere = answer(1, 1, experiment=number, cell=1)
        assert store.count([elsewhere]) == ([CHANGED], [])
        both = [answer(4, 1, experiment=number, cell=1), answer(4, 1, experiment=number, cell=0)]
        assert store.count(both) == ([COUNTED, CHANGED], [CellTotal(number, 0, 1, 1, 1)])
    with opened(place) as store:
        (arm, _) = store.experiments()[0].arms
        assert [(cell.cell, cell.pulls, cell.total) for cell in arm.cells] == [(0, 1, 1), (1, 1, 1), (2, 2, 1)]
        assert (arm.pulls, arm.total, arm.read) == (4, 3, 2**40 - 7)
        rows = [(row.value, row.cell) for piece in store.export(number, 3) for row in piece]
        assert rows == [(1, 2), (1, 0), (0, 2), (1, 1)]


@rule
def of_copies_in_one_batch_the_first_counts(place: Place) -> None:
    """Whether a ticket is new is settled in the transaction: copies that came together are duplicates or changed."""
    with opened(place) as store:
        number = start(store)
        one, two, three = (answer(nonce, nonce, experiment=number) for nonce in (1, 2, 3))
        changed = answer(1, 9, experiment=number)
        outcomes, totals = store.count([one, two, one, changed, three, two])
        assert outcomes == [COUNTED, COUNTED, DUPLICATE, CHANGED, COUNTED, DUPLICATE]
        assert totals == [CellTotal(number, 0, 0, 3, 6)]
        assert exported(store, number) == [(0, 1), (0, 2), (0, 3)]


@rule
def totals_are_exact_in_any_order(place: Place) -> None:
    """Sums beyond 2^53, where floats lose units, are right to the unit, however the responses are shuffled and cut."""
    rng = random.Random(1)
    values = [rng.randrange(-(2**55), 2**55) | 1 for _ in range(100)]
    with opened(place) as store:
        for name, size in (("one", 1), ("seven", 7), ("all", 100)):
            number = start(store, name)
            batch = [
                answer(nonce, value, experiment=number, arm=1) for nonce, value in enumerate(values, number * 1000)
            ]
            rng.shuffle(batch)
            for cut in range(0, len(batch), size):
                outcomes, (told,) = store.count(batch[cut : cut + size])
                assert set(outcomes) == {COUNTED}
            assert told == CellTotal(number, 1, 0, 100, sum(values))
            assert arm_totals(store, number) == [(0, 0), (100, sum(values))]


@rule
def a_total_is_right_or_the_store_unavailable(place: Place) -> None:
    """A number too large for the store is never cut off: the batch is refused whole, and others still count."""
    for huge in (2**62, 2**100):
        with opened(place) as store:
            number = start(store, f"to {huge}")
            assert store.count([answer(number * 1000, 2**62, experiment=number)])[0] == [COUNTED]
            before = everything(store)
            batch = [answer(number * 1000 + nonce, huge, experiment=number) for nonce in (1, 2, 3)]
            try:
                store.count(batch)
            except Unavailable:
                assert everything(store) == before
                batch = []
            assert arm_totals(store, number)[0] == (1 + len(batch), 2**62 + len(batch) * huge)
            assert store.count([answer(number * 1000 + 9, -1, experiment=number)])[0] == [COUNTED]


@rule
def a_response_to_no_arm_changes_nothing(place: Place) -> None:
    """A ticket for an arm or an experiment that there is not makes its batch Unavailable."""
    with opened(place) as store:
        number = start(store)
        before = everything(store)
        fine = answer(1, 1, experiment=number)
        for wrong in (answer(2, 1, experiment=number, arm=2), answer(2, 1, experiment=number + 1)):
            with pytest.raises(Unavailable):
                store.count([fine, wrong])
            assert everything(store) == before
        assert store.count([fine])[0] == [COUNTED]


@rule
def a_closed_experiment_counts_nothing_new(place: Place) -> None:
    """What was counted before is a duplicate or changed, and stays; the rest of the batch is counted, also later."""
    with opened(place) as store:
        closed, running = start(store, "closed"), start(store, "running")
        known = answer(1, 1, experiment=closed)
        store.count([known])
        store.set_status(closed, "closed")
        late = [known, answer(1, 0, experiment=closed), answer(2, 1, experiment=closed)]
        batch = [*late, answer(3, 4, experiment=running)]
        assert store.count(batch) == ([DUPLICATE, CHANGED, CLOSED, COUNTED], [CellTotal(running, 0, 0, 1, 4)])
    with opened(place) as store:
        assert store.experiments()[0].status == "closed"
        assert store.count(late) == ([DUPLICATE, CHANGED, CLOSED], [])
        assert arm_totals(store, closed) == [(1, 1), (0, 0)]


@rule
def a_paused_experiment_still_counts(place: Place) -> None:
    """A pause stops decisions, not responses; it is kept, and can be undone."""
    with opened(place) as store:
        number = start(store)
        store.set_status(number, "paused")
        assert store.count([answer(1, 1, experiment=number)])[0] == [COUNTED]
    with opened(place) as store:
        assert store.experiments()[0].status == "paused"
        store.set_status(number, "running")
        assert store.experiments()[0].status == "running"


@rule
def what_is_forgotten_is_expired_for_good(place: Place) -> None:
    """A nonce that is gone cannot be counted again, whatever the clock says, also after a restart; responses stay."""
    with opened(place) as store:
        number = start(store)
        times = {1: 50, 2: 60, 3: 70, 4: 80}
        batch = [answer(nonce, 1, experiment=number, expires_at=hour * HOUR_S) for nonce, hour in times.items()]
        store.count(batch)
        assert store.forget(50 * HOUR_S - 1, 10) == 0
        assert store.forgotten == 0
        assert sum(iter(lambda: store.forget(75 * HOUR_S, 10), 0)) == 3  # in one step or several, until none is left
        assert store.forgotten == 70 * HOUR_S  # no further than the last that is gone
        assert store.forget(75 * HOUR_S, 10) == store.forget(10, 10) == 0
        assert store.forgotten == 70 * HOUR_S
    with opened(place) as store:
        assert store.forgotten == 70 * HOUR_S
        assert store.count(batch) == ([EXPIRED] * 3 + [DUPLICATE], [])
        unseen = [answer(9, 1, experiment=number, expires_at=70 * HOUR_S + second) for second in (0, 1)]
        assert store.count(unseen)[0] == [EXPIRED, COUNTED]
        assert arm_totals(store, number) == [(5, 5), (0, 0)]
        assert exported(store, number) == [(0, 1)] * 5


@rule
def no_second_of_a_ticket_is_kept(place: Place) -> None:
    """Tickets of one hour are forgotten together, in the full hour at or after their expiry, and not before."""
    with opened(place) as store:
        number = start(store)
        batch = [answer(nonce, 1, experiment=number, expires_at=7 * HOUR_S + nonce) for nonce in (1, 2, HOUR_S)]
        assert store.count(batch)[0] == [COUNTED] * 3
        assert store.forget(8 * HOUR_S - 1, 10) == 0
        assert store.count(batch)[0] == [DUPLICATE] * 3
        assert sum(iter(lambda: store.forget(8 * HOUR_S, 10), 0)) > 0
        assert store.forgotten == 8 * HOUR_S
        assert store.count(batch)[0] == [EXPIRED] * 3


@rule
def forgetting_takes_the_first_to_expire_and_no_more_than_asked(place: Place) -> None:
    """In steps of two, also within one hour; the rest of that hour is expired too, though its nonces are there."""
    with opened(place) as store:
        number = start(store)
        batch = [answer(nonce, 1, experiment=number, expires_at=(50 + nonce // 3) * HOUR_S) for nonce in range(6)]
        store.count(batch)
        last = 100 * HOUR_S
        assert (store.forget(last, 2), store.forgotten) == (2, 50 * HOUR_S)
        assert store.count(batch)[0] == [EXPIRED] * 3 + [DUPLICATE] * 3
        assert (store.forget(last, 2), store.forgotten) == (2, 51 * HOUR_S)
        assert (store.forget(last, 2), store.forgotten) == (2, 51 * HOUR_S)
        assert (store.forget(last, 2), store.forgotten) == (0, 51 * HOUR_S)


def accepted(nonce: int, *, experiment: int, arm: int = 0, expires_at: int = 100) -> Answer:
    """Accept the pull of this nonce."""
    return acceptance(answer(nonce, 0, experiment=experiment, arm=arm, expires_at=expires_at).ticket)


def waiting(store: Store, experiment: int) -> list[int]:
    """Return the number of accepted pulls without a response of each arm."""
    stored = next(each for each in store.experiments() if each.number == experiment)
    return [0 if arm.acceptances is None else arm.acceptances.total for arm in stored.arms]


@rule
def each_acceptance_counts_exactly_once(place: Place) -> None:
    """However often it comes, before or after the response, also after a restart; no response is made of it."""
    with opened(place) as store:
        number = start(store)
        first, second = (accepted(nonce, experiment=number, arm=1) for nonce in (1, 2))
        outcomes, totals = store.count([first, second, first])
        assert outcomes == [ACCEPTED, ACCEPTED, DUPLICATE]
        assert [(*total[:3], total.total) for total in totals] == [(number, 1, ACCEPTANCES, 2)]
        assert store.count([second, first]) == ([DUPLICATE] * 2, [])
        assert exported(store, number) == []
        assert arm_totals(store, number) == [(0, 0), (0, 0)]
    with opened(place) as store:
        assert store.count([first]) == ([DUPLICATE], [])
        assert waiting(store, number) == [0, 2]


@rule
def a_response_takes_its_pull_from_those_that_wait(place: Place) -> None:
    """A response to an accepted pull is told from one to a pull that was not; both count once, and imply acceptance."""
    with opened(place) as store:
        number = start(store)
        store.count([accepted(nonce, experiment=number) for nonce in (1, 2)])
        batch = [answer(1, 1, experiment=number), answer(3, 1, experiment=number)]
        outcomes, totals = store.count(batch)
        assert outcomes == [ANSWERED, COUNTED]
        assert sorted((total.cell, total.total) for total in totals) == [(ACCEPTANCES, 1), (0, 2)]
        assert store.count(batch) == ([DUPLICATE] * 2, [])
        assert store.count([answer(1, 0, experiment=number)]) == ([CHANGED], [])
        late = [accepted(nonce, experiment=number) for nonce in (1, 3)]
        assert store.count(late) == ([DUPLICATE] * 2, [])
    with opened(place) as store:
        assert store.count([*late, *batch]) == ([DUPLICATE] * 4, [])
        assert waiting(store, number) == [1, 0]
        assert arm_totals(store, number) == [(2, 2), (0, 0)]
        assert exported(store, number) == [(0, 1)] * 2


@rule
def an_acceptance_beside_its_response_counts_the_pull_once(place: Place) -> None:
    """In one batch, in either order: the response counts, and no pull waits for one."""
    with opened(place) as store:
        number = start(store)
        for nonce, is_first in ((1, True), (2, False)):
            pair = [accepted(nonce, experiment=number), answer(nonce, 1, experiment=number)]
            outcomes, _ = store.count(pair if is_first else pair[::-1])
            told = dict(zip(("acceptance", "response"), outcomes if is_first else outcomes[::-1], strict=True))
            assert (told["acceptance"], told["response"]) in {(ACCEPTED, ANSWERED), (DUPLICATE, COUNTED)}
            assert store.count(pair)[0] == [DUPLICATE] * 2
        assert waiting(store, number) == [0, 0]
        assert arm_totals(store, number) == [(2, 2), (0, 0)]


@rule
def a_batch_of_every_kind_tells_each_answer_its_own_outcome(place: Place) -> None:
    """New, repeated and changed, accepted before or not, of an open or a closed experiment: none changes another's."""
    with opened(place) as store:
        number, closed = start(store), start(store, "two")
        store.count([accepted(nonce, experiment=number) for nonce in range(1, 7)])
        store.count([answer(nonce, 1, experiment=number) for nonce in (1, 2)])
        store.count([answer(9, 1, experiment=closed)])
        store.set_status(closed, "closed")
        batch = [
            (answer(3, 1, experiment=number), ANSWERED),
            (accepted(1, experiment=number), DUPLICATE),
            (answer(1, 1, experiment=number), DUPLICATE),
            (answer(2, 0, experiment=number), CHANGED),
            (accepted(7, experiment=number), ACCEPTED),
            (answer(8, 1, experiment=number), COUNTED),
            (answer(9, 1, experiment=closed), DUPLICATE),
            (answer(10, 1, experiment=closed), CLOSED),
            (answer(4, 0, experiment=number), ANSWERED),
        ]
        assert store.count([each for each, _ in batch])[0] == [outcome for _, outcome in batch]
        assert waiting(store, number) == [3, 0]
        assert arm_totals(store, number) == [(5, 4), (0, 0)]
        everything_so_far = [each for each, outcome in batch if outcome not in (CHANGED, CLOSED)]
        assert set(store.count(everything_so_far)[0]) == {DUPLICATE}


@rule
def acceptances_expire_and_close_as_responses_do(place: Place) -> None:
    """A closed or deleted experiment takes no new one, and knows the old; a forgotten nonce is expired."""
    with opened(place) as store:
        closed, gone = start(store, "closed"), start(store, "gone")
        store.count([accepted(1, experiment=closed), accepted(2, experiment=gone)])
        store.set_status(closed, "closed")
        late = [accepted(1, experiment=closed), accepted(3, experiment=closed), answer(1, 1, experiment=closed)]
        assert store.count(late) == ([DUPLICATE, CLOSED, CLOSED], [])
        store.delete(gone)
        assert store.count([accepted(2, experiment=gone)])[0] == [CLOSED]
        assert waiting(store, closed) == [1, 0]
        assert sum(iter(lambda: store.forget(HOUR_S, 10), 0)) > 0
        assert store.count([accepted(4, experiment=closed)])[0] == [EXPIRED]


ANNA = StoredHolder("anna", "editor", ("one", "two"), 60)
LINE = Change(60, "anna", "change", "one", "and how")

CHANGES: dict[str, Callable[[Store, int], Any]] = {
    "create": lambda store, _: store.create(defined("another"), ("a", "b"), log=LINE),
    "add arm": lambda store, number: store.add_arm(number, "c", log=LINE),
    "retire arm": lambda store, number: store.retire_arm(number, 0, log=LINE),
    "pause": lambda store, number: store.set_status(number, "paused", log=LINE),
    "count": lambda store, number: store.count(
        [answer(nonce, nonce, experiment=number, arm=nonce % 2) for nonce in (101, 102, 103)]
    ),
    "count events": lambda store, number: store.count([], [Event(number, 0, "decision", 1)]),
    "count some again": lambda store, number: store.count(
        [answer(nonce, nonce, experiment=number) for nonce in (1, 104, 104)]
    ),
    "count acceptances": lambda store, number: store.count(
        [accepted(105, experiment=number), answer(3, 3, experiment=number)]
    ),
    "describe": lambda store, number: store.describe(number, '{"title":"t"}', log=LINE),
    "add events": lambda store, number: store.add_events(number, [Event(number, 0, "forgiven", 2)], log=LINE),
    "prune": lambda store, _: store.prune(60),
    "rotate key": lambda store, _: store.rotate_key("admin", b"second", 60, 10, log=LINE),
    "put holder": lambda store, _: store.put_holder(ANNA, b"anna's", log=LINE),
    "note uses": lambda store, _: store.note_uses(["anna"], 1),
    "remove holder": lambda store, _: store.remove_holder("anna", log=LINE),
    "rotate secret": lambda store, _: store.rotate_secret(b"second", 60, 10, log=LINE),
    "forget": lambda store, _: store.forget(HOUR_S, 10),
    "ship": lambda store, number: store.set_status(number, "shipped", 1, log=LINE),
    "close": lambda store, number: store.set_status(number, "closed", log=LINE),
    "drop responses": lambda store, number: store.drop_responses(number),
    "delete": lambda store, number: store.delete(number, log=LINE),
}
"""Each changes what can be read, when they are made in this order."""


def _breaks(place: Place, fault: Exception, heard: type[Exception]) -> None:
    """Let every change fail at every point that it passes, and look whether anything is left of it."""
    faults: dict[str, Exception] = {}
    passed: list[str] = []

    def failpoint(point: str) -> None:
        passed.append(point)
        if point in faults:
            raise faults[point]

    with opened(place) as store:
        number = start(store)
        store.count([answer(nonce, nonce, experiment=number) for nonce in (1, 2)])
        store.count([accepted(3, experiment=number)])
        for secret in (b"zeroth", b"first"):
            store.rotate_key("admin", secret, 40, 10)
            store.rotate_secret(secret, 40, 10)
    for name, change in CHANGES.items():
        with opened(place, failpoint) as store:
            before = everything(store)
            for point in place.points:
                passed.clear()
                faults[point] = fault
                if name.startswith("count") or point == "before commit":
                    with pytest.raises(heard):
                        change(store, number)
                    assert point in passed
                    assert everything(store) == before, f"{name}, broken {point}"
                faults.clear()
        with opened(place, failpoint) as store:
            assert everything(store) == before, f"{name}, broken, after a restart"
            change(store, number)
            assert everything(store) != before, f"{name}, when all is well again"


@rule
def nothing_is_changed_when_the_store_is_unavailable(place: Place) -> None:
    """Whatever the change and wherever the medium breaks: Unavailable, all is as before, and a new try succeeds."""
    _breaks(place, place.fault, Unavailable)


@rule
def nothing_is_changed_whatever_is_raised(place: Place) -> None:
    """An error that nobody thought of is passed on as it is, and leaves nothing half done."""
    _breaks(place, ZeroDivisionError("nobody thought of this"), ZeroDivisionError)


LOGGED: dict[str, Callable[[Store, int, Change], Any]] = {
    "create": lambda store, _, log: store.create(defined("another"), ("a",), log=log),
    "add arm": lambda store, number, log: store.add_arm(number, "c", log=log),
    "retire arm": lambda store, number, log: store.retire_arm(number, 0, log=log),
    "ship": lambda store, number, log: store.set_status(number, "shipped", 1, log=log),
    "pause": lambda store, number, log: store.set_status(number, "paused", log=log),
    "describe": lambda store, number, log: store.describe(number, "{}", log=log),
    "forgive": lambda store, number, log: store.add_events(number, [Event(number, 0, "forgiven", 2)], log=log),
    "forgive none": lambda store, number, log: store.add_events(number, [], log=log),
    "close": lambda store, number, log: store.set_status(number, "closed", log=log),
    "delete": lambda store, number, log: store.delete(number, log=log),
    "put holder, rotate": lambda store, _, log: store.put_holder(ANNA, b"anna's", log=log),
    "remove holder, rotate": lambda store, _, log: store.remove_holder("anna", log=log),
    "rotate key": lambda store, _, log: store.rotate_key("admin", b"key", 0, 0, log=log),
    "rotate secret": lambda store, _, log: store.rotate_secret(b"secret", 0, 0, log=log),
}


@rule
def each_change_writes_its_line(place: Place) -> None:
    """Of every method that changes something for an experimenter, as it was given, under growing numbers, for good."""
    given: list[Change] = []
    with opened(place) as store:
        number = start(store)
        for at, (what, change) in enumerate(LOGGED.items()):
            log = Change(at, "anna", what, None if "rotate" in what else "one", f"detail {at}")
            change(store, number, log)
            given.insert(0, log)
    with opened(place) as store:
        found = store.changes(None, None, 100)
        assert [replace(line, number=0) for line in found] == given
        numbers = [line.number for line in found]
        assert numbers == sorted(set(numbers), reverse=True)


@rule
def the_log_is_read_in_pages_of_an_experiment_or_of_all(place: Place) -> None:
    """The newest first; an experiment that is deleted has its lines, and no other's."""
    with opened(place) as store:
        one = store.create(defined("one"), ("a",), log=Change(1, "anna", "create", "one")).number
        store.create(defined("two"), ("a",), log=Change(2, "ben", "create", "two"))
        store.rotate_key("admin", b"key", 0, 0, log=Change(3, "anna", "rotate-key"))
        store.delete(one, log=Change(4, "anna", "delete", "one"))
        newest, *_ = store.changes(None, None, 1)
        assert (newest.at, len(store.changes(None, None, 1))) == (4, 1)
        assert [line.at for line in store.changes(None, newest.number, 2)] == [3, 2]
        assert [line.at for line in store.changes("one", None, 100)] == [4, 1]
        assert [line.at for line in store.changes("one", newest.number, 100)] == [1]
        assert store.changes("three", None, 100) == []


@rule
def one_sender_of_webhooks_at_a_time_goes_on_where_the_last_stopped(place: Place) -> None:
    """A lease that has not ended excludes others; a new receiver is sent what comes after the end of the log."""
    with opened(place) as store:
        store.note(log=Change(1, "server", "decided", "one"))
        first = store.lease_webhook("a", 100, 160)
        assert first == store.changes(None, None, 1)[0].number
        assert store.lease_webhook("a", 159, 219) is None
        store.note(log=Change(2, "server", "warning", "one"))
        store.note(log=Change(3, "server", "warning", "two"))
        assert [line.at for line in store.changes_after(first, 100)] == [2, 3]
        (second,) = store.changes_after(first, 1)
        store.move_webhook(second.number, 160)
    with opened(place) as store:
        assert store.lease_webhook("a", 160, 220) == second.number
        assert [line.at for line in store.changes_after(second.number, 100)] == [3]
        newest = store.changes(None, None, 1)[0].number
        assert store.lease_webhook("b", 161, 221) == newest
        assert store.lease_webhook("b", 162, 222) is None


@rule
def a_new_key_ends_those_before_it_after_the_grace(place: Place) -> None:
    """Keys of the role hold no longer than the grace, nor than they did; what has ended is gone; others stay."""
    with opened(place) as store:
        store.rotate_key("client", b"other", 0, 0)
        store.rotate_key("admin", b"1", 0, 0)
        store.rotate_key("admin", b"2", 10, 100)
        store.rotate_key("admin", b"3", 20, 1_000)
        expected = {StoredKey(b"other", "client", None), StoredKey(b"1", "admin", 110), StoredKey(b"2", "admin", 1_020)}
        assert set(store.keys()) == expected | {StoredKey(b"3", "admin", None)}
    with opened(place) as store:
        store.rotate_key("admin", b"4", 30, 0)
        assert set(store.keys()) == {StoredKey(b"other", "client", None), StoredKey(b"4", "admin", None)}


@rule
def metadata_is_kept_as_it_is_given(place: Place) -> None:
    """From the creation on, and until it is replaced, whatever the status."""
    with opened(place) as store:
        number = store.create(defined(), ("a",), metadata='{"title":"one"}').number
        start(store, "two")
        assert [each.metadata for each in store.experiments()] == ['{"title":"one"}', "{}"]
        store.set_status(number, "closed")
        store.describe(number, '{"owner":"\u00e9\U0001f600"}')
    with opened(place) as store:
        assert [each.metadata for each in store.experiments()] == ['{"owner":"\u00e9\U0001f600"}', "{}"]


@rule
def the_moment_of_a_stop_is_kept_until_it_runs_again(place: Place) -> None:
    """It is that of the first stop, also when a ship or a close follows."""
    with opened(place) as store:
        number = start(store)
        steps: list[tuple[Status, int, int | None]] = [
            ("paused", 10, 10),
            ("running", 20, None),
            ("shipped", 30, 30),
            ("paused", 40, 30),
            ("closed", 50, 30),
        ]
        for status, at, expected in steps:
            store.set_status(number, status, log=Change(at, "anna", "change", "one"))
            assert store.experiments()[0].stopped_at == expected
    with opened(place) as store:
        assert store.experiments()[0].stopped_at == 30


@rule
def a_holder_has_keys_of_its_own(place: Place) -> None:
    """Its rights change and its keys stay; they are rotated apart from others, and go with it; others stay."""
    with opened(place) as store:
        store.rotate_key("admin", b"admin's", 0, 0)
        store.put_holder(ANNA, b"first")
        store.put_holder(StoredHolder("ben", "viewer"), b"ben's")
        store.rotate_key("anna", b"second", 10, 100)
        store.put_holder(replace(ANNA, role="admin", experiments=()))
        store.note_uses(["anna", "ben"], 7)
    with opened(place) as store:
        assert set(store.holders()) == {StoredHolder("anna", "admin", (), 60), StoredHolder("ben", "viewer")}
        kept = {StoredKey(b"admin's", "admin", None), StoredKey(b"ben's", "ben", None)}
        assert set(store.keys()) == kept | {StoredKey(b"first", "anna", 110), StoredKey(b"second", "anna", None)}
        store.remove_holder("anna")
        assert (store.holders(), store.key_uses()) == ([StoredHolder("ben", "viewer")], {"ben": 7})
        assert set(store.keys()) == kept
        store.remove_holder("anna")


@rule
def the_last_day_of_use_is_kept(place: Place) -> None:
    """Of each name; an earlier day, as another worker may write it, changes nothing."""
    with opened(place) as store:
        store.note_uses(["anna", "admin"], 7)
        store.note_uses(["anna"], 9)
        store.note_uses(["anna"], 8)
        store.note_uses([], 10)
    with opened(place) as store:
        assert store.key_uses() == {"anna": 9, "admin": 7}


@rule
def a_new_secret_ends_those_before_it_and_numbers_are_used_once(place: Place) -> None:
    """Secrets end as keys do. The newest has the largest number, and no number comes again, else tickets would too."""
    with opened(place) as store:
        for secret, now, grace in ((b"1", 0, 0), (b"2", 10, 100), (b"3", 20, 1_000)):
            store.rotate_secret(secret, now, grace)
        first, second, third = sorted(store.secrets(), key=lambda secret: secret.number)
        assert (first.secret, first.valid_until, second.secret, second.valid_until) == (b"1", 110, b"2", 1_020)
        assert (third.secret, third.valid_until) == (b"3", None)
        store.rotate_secret(b"4", 30, 0)
        (fourth,) = store.secrets()
        assert fourth.number > third.number
    with opened(place) as store:
        store.rotate_secret(b"5", 40, 0)
        (fifth,) = store.secrets()
        assert fifth == StoredSecret(fifth.number, b"5", None)
        assert fifth.number > fourth.number
        assert "5" not in repr(fifth).replace(str(fifth.number), "")


@rule
def keys_and_secrets_that_have_ended_are_pruned(place: Place) -> None:
    """In the second in which they end, and not before."""
    with opened(place) as store:
        for value in (b"1", b"2"):
            store.rotate_key("admin", value, 0, 50)
            store.rotate_secret(value, 0, 50)
        store.prune(49)
        assert (len(store.keys()), len(store.secrets())) == (2, 2)
        store.prune(50)
        (key,), (secret,) = store.keys(), store.secrets()
        assert (key.hash, secret.secret) == (b"2", b"2")


@rule
def an_export_is_in_the_order_of_counting_in_pieces(place: Place) -> None:
    """Numbers grow, no piece is too long or empty, all are there once, and nothing of another experiment."""
    with opened(place) as store:
        one, two = start(store, "one"), start(store, "two")
        assert list(store.export(one, 5)) == []
        for nonce in range(0, 40, 4):
            pair = [answer(nonce + more, nonce + more, experiment=one, arm=more) for more in (0, 1)]
            store.count([*pair, answer(nonce + 2, -1, experiment=two), pair[0]])
        expected = [(nonce + arm, arm) for nonce in range(0, 40, 4) for arm in (0, 1)]
        for rows in (1, 3, 20, 1000):
            pieces = list(store.export(one, rows))
            responses = [response for piece in pieces for response in piece]
            assert all(0 < len(piece) <= rows for piece in pieces)
            assert [(response.value, response.arm) for response in responses] == expected
            numbers = [response.number for response in responses]
            assert numbers == sorted(set(numbers))
        assert exported(store, two) == [(0, -1)] * 10


@rule
def dropped_responses_leave_their_sums(place: Place) -> None:
    """Their totals and nonces stay, also after a restart; other experiments keep theirs, and later ones add up."""
    with opened(place) as store:
        one, two = start(store, "one"), start(store, "two")
        store.count([answer(1, 5, experiment=one), answer(2, 7, experiment=one, arm=1), answer(3, 1, experiment=two)])
        store.count([answer(4, 2, experiment=one), accepted(5, experiment=one)])
        assert not any(arm.has_dropped for stored in store.experiments() for arm in stored.arms)
        is_left, dropped = store.drop_responses(one)
        while is_left:
            is_left, more = store.drop_responses(one)
            dropped += more
        assert sorted(dropped) == [CellTotal(one, 0, dropped_cell(0), 2, 7), CellTotal(one, 1, dropped_cell(0), 1, 7)]
        assert (exported(store, one), exported(store, two)) == ([], [(0, 1)])
        assert arm_totals(store, one) == [(2, 7), (1, 7)]
        assert store.drop_responses(two)[0] is False
    with opened(place) as store:
        assert (exported(store, one), arm_totals(store, one), waiting(store, one)) == ([], [(2, 7), (1, 7)], [1, 0])
        assert [arm.has_dropped for arm in store.experiments()[0].arms] == [True, True]
        late = store.count([answer(1, 5, experiment=one), answer(4, 3, experiment=one), answer(6, 1, experiment=one)])
        assert late[0] == [DUPLICATE, CHANGED, COUNTED]
        assert exported(store, one) == [(0, 1)]
        assert CellTotal(one, 0, dropped_cell(0), 3, 8) in store.drop_responses(one)[1]


@rule
def counting_goes_on_during_an_export(place: Place) -> None:
    """An export that other threads step through has all that was there at its start, and holds nobody up."""
    with opened(place) as store, ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        number = start(store)
        store.count([answer(nonce, nonce, experiment=number) for nonce in range(6)])
        export = store.export(number, 2)
        values: list[int] = []
        for step in range(3):
            piece = (one, other)[step % 2].submit(next, export).result(20)
            values += [response.value for response in piece]
            assert store.count([answer(100 + step, 100 + step, experiment=number)])[0] == [COUNTED]
        values += [response.value for piece in export for response in piece]
        assert values[:6] == list(range(6))
        assert values == sorted(set(values))
        assert set(values) <= {*range(6), 100, 101, 102}


@rule
def another_thread_than_the_one_that_opened_it_may_use_it(place: Place) -> None:
    """The server opens a store in one thread, writes in a second, and reads `forgotten` and closes in the first."""
    with opened(place) as store, ThreadPoolExecutor(1) as writer:
        number = writer.submit(start, store).result(20)
        assert writer.submit(store.count, [answer(1, 1, experiment=number)]).result(20)[0] == [COUNTED]
        assert writer.submit(store.forget, HOUR_S, 1).result(20) == 1
        assert store.forgotten == HOUR_S


@rule
def an_experiment_may_start_from_known_totals(place: Place) -> None:
    """What is known beforehand is there at once and after a restart, under the new number, and counting adds to it."""
    known = [CellTotal(0, 1, 0, 40, 25, 7), CellTotal(0, 1, 2, 3, 1)]
    with opened(place) as store:
        start(store, "other")
        made = store.create(defined(), ["a", "b"], known)
        cells = tuple(cell._replace(experiment=made.number) for cell in known)
        assert made.arms == (StoredArm("a"), StoredArm("b", cells=cells))
        _, totals = store.count([answer(1, 1, experiment=made.number, arm=1)])
        assert totals == [CellTotal(made.number, 1, 0, 41, 26, 7)]
    with opened(place) as store:
        assert arm_totals(store, made.number) == [(0, 0), (44, 27)]
        assert exported(store, made.number) == [(1, 1)]


@rule
def a_shipped_experiment_says_to_which_arm(place: Place) -> None:
    """The arm is kept beside the status until the next status; responses that are out still count."""
    with opened(place) as store:
        number = start(store)
        store.set_status(number, "shipped", 1)
        assert store.count([answer(1, 1, experiment=number)])[0] == [COUNTED]
    with opened(place) as store:
        (stored,) = store.experiments()
        assert (stored.status, stored.shipped) == ("shipped", 1)
        store.set_status(number, "running")
        (stored,) = store.experiments()
        assert (stored.status, stored.shipped) == ("running", None)


@rule
def a_deleted_experiment_is_gone_and_its_number_with_it(place: Place) -> None:
    """Arms, totals, responses and events are removed, others stay; the name is free, the number is not used again."""
    with opened(place) as store:
        kept, gone = start(store, "kept"), start(store, "gone")
        store.count([answer(1, 1, experiment=kept), answer(2, 0, experiment=gone)], [Event(gone, 0, "decision", 2)])
        store.count([answer(3, 1, experiment=gone)], [Event(kept, 0, "decision", 1)])
        store.delete(gone)
        assert [each.number for each in store.experiments()] == [kept]
        assert store.events() == [Event(kept, 0, "decision", 1)]
        assert exported(store, gone) == []
    with opened(place) as store:
        again = start(store, "gone")
        assert again not in {kept, gone}
        assert arm_totals(store, again) == [(0, 0), (0, 0)]
        assert exported(store, kept) == [(0, 1)]
        assert store.count([answer(4, 1, experiment=again)])[0] == [COUNTED]
        assert exported(store, again) == [(0, 1)]


@rule
def a_response_to_a_deleted_experiment_spoils_no_other(place: Place) -> None:
    """One that was on its way when the experiment was deleted does not count, and those beside it do."""
    with opened(place) as store:
        kept, gone = start(store, "kept"), start(store, "gone")
        store.count([answer(1, 1, experiment=gone)])
        store.delete(gone)
        both = [answer(1, 1, experiment=gone), answer(2, 1, experiment=kept), answer(3, 0, experiment=gone)]
        assert store.count(both)[0] == [CLOSED, COUNTED, CLOSED]
        assert exported(store, gone) == []
        assert exported(store, kept) == [(0, 1)]


@rule
def events_add_up_over_commits_and_restarts(place: Place) -> None:
    """What happened is added to what had happened, by experiment, arm and kind, also when no response came with it."""
    with opened(place) as store:
        number = start(store)
        store.count([], [Event(number, 0, "decision", 3), Event(number, 1, "decision", 1), Event(0, 0, "forged", 1)])
    with opened(place) as store:
        store.count(
            [answer(1, 1, experiment=number)], [Event(number, 0, "decision", 2), Event(number, 0, "missing", 1)]
        )
    with opened(place) as store:
        assert sorted(store.events()) == [
            Event(0, 0, "forged", 1),
            Event(number, 0, "decision", 5),
            Event(number, 0, "missing", 1),
            Event(number, 1, "decision", 1),
        ]


BY_TICKET = (forgetting_takes_the_first_to_expire_and_no_more_than_asked,)
"""Rules of stores that remove nonces one by one. A store that removes whole ranges of expiries has rules of its own."""
