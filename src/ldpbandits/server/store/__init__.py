"""The contract of every store: the records that a server keeps, and the methods that read and change them.

A store holds experiments and their arms, private responses and the nonces of their tickets, keys and secrets.
`sqlite` stores them in a file, `postgres` in a database that many workers share. To add another store, write one class
with the methods of `Store` that passes tests/server/store_contract.py, and hand it to `Service`. A store with the
methods of `SharedStore` as well may be used by several workers at once.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from ldpbandits.server.experiments.tickets import Ticket
from ldpbandits.spec.messages import Change
from ldpbandits.spec.protocol import Acknowledged, Code

Status: TypeAlias = Literal["running", "paused", "shipped", "closed"]

FRESH_FOR_S = 2.0
"""Seconds after the start of a poll for which a worker assigns arms by its result. A change waits for every worker that
may still do so. The clock runs on while machines sleep."""


ERASED_ROWS = 2000
"""Rows that one step of a deletion visits; responses are counted between two steps."""

DELETED = "deleted "
"""Prefix of the name of an experiment whose deletion has not ended; its number follows. No other name has a space."""


class Exists(Exception):  # noqa: N818 - a fact about the store, not a fault of it
    """The name is taken; nothing was changed."""


class Unavailable(Exception):  # noqa: N818 - a state, not a fault of the caller
    """The store cannot do this at the moment, as when its disk is full: retry later.

    The change was not made; or, when the connection to a database was lost, its outcome is unknown. Counting is
    idempotent, so a retry is safe in either case.
    """


class Replaced(Unavailable):
    """The database was replaced, or went back to an earlier state, while this worker ran: restart the worker."""


class Behind(Exception):  # noqa: N818 - as above
    """Another worker made a change after the last poll. This change was not made: poll, check again and retry."""


class Outcome(Enum):
    """Outcome of counting a response or an acceptance; the curator decides IMPOSSIBLE, the store all others.

    ANSWERED is a response that counts, to a pull that was accepted before; COUNTED one whose pull was not.
    """

    ACCEPTED = Acknowledged.ACCEPTED
    ANSWERED = "answered"
    COUNTED = Acknowledged.COUNTED
    DUPLICATE = Acknowledged.DUPLICATE
    CHANGED = Code.CHANGED
    EXPIRED = Code.EXPIRED
    CLOSED = Code.CLOSED
    IMPOSSIBLE = Code.IMPOSSIBLE


ACCEPTANCES = -1
"""The cell in which a store counts acceptances. Its `total` is the number of accepted pulls without a response: an
acceptance adds 1 to it, the response to an accepted pull subtracts 1. Both add 1 to its `pulls`, which only grow."""


def dropped_cell(cell: int) -> int:
    """Return the cell that has the sums of the dropped responses of a cell, and the other way round."""
    return ACCEPTANCES - 1 - cell


class Answer(NamedTuple):
    """A response as it is counted: the ticket that it came with, its value in whole units, and its cell.

    Cells, numbered from 0, separate kinds of responses, as those of different epsilons. `read` is the experiment rule's
    own reading of the response, if it has one; it follows from the rest. No store interprets these numbers, but for the
    cell ACCEPTANCES: there is an acceptance, not a response.
    """

    ticket: Ticket
    value: int
    cell: int = 0
    read: int = 0

    @property
    def is_acceptance(self) -> bool:
        """Tell whether this is no response: a device has accepted the pull."""
        return self.cell == ACCEPTANCES


def acceptance(ticket: Ticket) -> Answer:
    """Return the acceptance of a pull."""
    return Answer(ticket, 1, ACCEPTANCES)


def change_of_acceptances(answer: Answer) -> Answer:
    """Return what the response to an accepted pull changes in the cell of acceptances."""
    return Answer(answer.ticket, -1, ACCEPTANCES)


class CellTotal(NamedTuple):
    """The count of the responses of an arm and cell, and the exact sums of their values and readings."""

    experiment: int
    arm: int
    cell: int
    pulls: int
    total: int
    read: int = 0


class StoredResponse(NamedTuple):
    """A response as it is stored. Numbers grow, perhaps with gaps; a response has no time and no sender."""

    number: int
    arm: int
    value: int
    cell: int = 0


class Event(NamedTuple):
    """The number of `times` that an event happened: an arm was assigned, an answer is missing, a response was rejected.

    `kind` is a word that no store interprets. An event of no experiment has the experiment 0 and the arm 0.
    """

    experiment: int
    arm: int
    kind: str
    times: int


class Pending(NamedTuple):
    """The open tickets of an arm at a worker: tickets that it issued minus answers that it saw, and the last expiry.

    Any worker may receive an answer, so a count may be negative; the sum over all workers is the number of open
    tickets. `accepted` is the number of those that a device has accepted.
    """

    experiment: int
    arm: int
    tickets: int
    until: int
    accepted: int = 0


@dataclass(frozen=True)
class Definition:
    """The immutable part of an experiment. Curator, rule and settings are JSON, which no store interprets."""

    name: str
    curator: str
    rule: str
    settings: str
    ticket_lifetime: int
    default_reward: float
    created_at: int


@dataclass(frozen=True)
class StoredArm:
    """An arm and the totals of its responses. Its number is its index in the experiment, from 0."""

    name: str
    retired: bool = False
    cells: tuple[CellTotal, ...] = ()
    """The cells that have responses, ordered by number."""
    acceptances: CellTotal | None = None
    """The cell of its acceptances; None before the first."""
    has_dropped: bool = False
    """Whether single responses of it were dropped; `cells` still has their sums."""

    @property
    def pulls(self) -> int:
        """The number of responses of all cells."""
        return sum(cell.pulls for cell in self.cells)

    @property
    def total(self) -> int:
        """The sum of the responses of all cells, in units."""
        return sum(cell.total for cell in self.cells)

    @property
    def read(self) -> int:
        """The sum of the rule's readings of all cells."""
        return sum(cell.read for cell in self.cells)


@dataclass(frozen=True)
class StoredExperiment:
    """An experiment. Its number, from 1, is part of every ticket and never used for another."""

    number: int
    definition: Definition
    status: Status
    arms: tuple[StoredArm, ...]
    shipped: int | None = None
    """The arm that every user gets while the status is shipped."""
    metadata: str = "{}"
    """Title, owner and the like: JSON, which no store interprets."""
    stopped_at: int | None = None
    """When it was first paused, shipped or closed after it ran; None while it runs, or where that was not logged."""


@dataclass(frozen=True)
class StoredHolder:
    """A person or a machine with a key of its own: name, role, and the experiments that an editor may change."""

    name: str
    role: str
    experiments: tuple[str, ...] = ()
    added_at: int = 0


@dataclass(frozen=True)
class StoredKey:
    """The hash of a key, the role that it stands for or the name of its holder, and the second in which it expires."""

    hash: bytes
    role: str
    valid_until: int | None


@dataclass(frozen=True)
class StoredSecret:
    """A secret that signs tickets. The largest number is the newest; a number is never used again."""

    number: int
    secret: bytes = field(repr=False)
    valid_until: int | None


class Mark(NamedTuple):
    """The position of a poll in the store's history. A later poll has a larger mark; marks compare within one epoch."""

    epoch: int
    poll: int
    snapshot: str


@dataclass(frozen=True)
class PeerUpdates:
    """The result of a poll: changes, totals, events and open tickets of the other workers."""

    version: int
    experiments: Mapping[int, StoredExperiment | None]
    """The experiments changed after the version that this worker knew; None for a deleted one."""
    keys_changed: bool
    totals: Sequence[CellTotal]
    """Cells of the requested experiments that have more responses than this worker knew of."""
    events: Sequence[Event]
    """Event totals of all other workers: for every arm of the experiments in `whole`, and for the arms in `arms`."""
    pending: Sequence[Pending]
    """Open tickets of all other workers, for the same arms."""
    whole: Collection[int]
    """The experiments whose arms are all included, because no earlier mark of them is known."""
    arms: Collection[tuple[int, int]]
    """The arms of followed experiments, by experiment and number, that may have changed after their marks."""
    mark: Mark
    settled: Sequence[Pending] | None = None
    """The open tickets of this worker that its peers counted as missing, because its heartbeats stopped for too
    long."""


class StoreSizes(NamedTuple):
    """Bytes of a database, of its write-ahead log, and free on its disk; None where the size is unknown."""

    database: int | None
    log: int | None = None
    free: int | None = None


class Store(Protocol):
    """The durable state of a server.

    - A method that changes something has changed all of it, durably, when it returns. When it raises, it has changed
      nothing. It raises `Unavailable` when the medium fails, and `Exists` when a name is taken.
    - Methods are called one at a time: first by the thread that starts the server, then by the one thread of its
      `Committer`, which may be another. There are two exceptions: the event loop reads `forgotten` at any moment, and
      other threads step through an `export` meanwhile. `close` is the last call.
    - Experiments and arms are named by numbers that the store assigned; times are whole seconds of the caller's clock.
    - A change that is given as `log` is a line of the change log, written in the same transaction as the change itself.
    """

    @property
    def identity(self) -> bytes:
        """16 random bytes, made with the store and never changed: they distinguish this store from others.

        They are part of the signature of a ticket, so that no other store counts it. They are no secret.
        """

    @property
    def forgotten(self) -> int:
        """The last second whose nonces may be deleted: a ticket that expired by then is never counted.

        Every request reads it, so it must be quick. It never falls, not even by a restart.
        """

    def experiments(self) -> list[StoredExperiment]:
        """Return every experiment, in the order in which they were created."""

    def create(
        self,
        definition: Definition,
        arms: Sequence[str],
        known: Sequence[CellTotal] = (),
        *,
        metadata: str = "{}",
        log: Change | None = None,
    ) -> StoredExperiment:
        """Store a new running experiment; raise `Exists` when its name, or the name of one of its arms, is taken.

        `known` are the totals that it starts from, under the experiment number 0.
        """

    def add_arm(self, experiment: int, name: str, *, log: Change | None = None) -> None:
        """Add an arm under the next number; raise `Exists` when the experiment has one of this name, retired or not."""

    def retire_arm(self, experiment: int, arm: int, *, log: Change | None = None) -> None:
        """Retire an arm: it is not assigned any more, and responses for it still count."""

    def set_status(
        self, experiment: int, status: Status, shipped: int | None = None, *, log: Change | None = None
    ) -> None:
        """Pause, resume, ship to an arm or close an experiment. A closed experiment counts no new response.

        The moment of `log` is `stopped_at`, unless the experiment is stopped already; a resumed one has none.
        """

    def describe(self, experiment: int, metadata: str, *, log: Change | None = None) -> None:
        """Store title, owner and the like of an experiment, in the place of the former ones."""

    def add_events(self, experiment: int, events: Sequence[Event], *, log: Change | None = None) -> None:
        """Add events of an experiment as an experimenter's change, which no retry makes twice.

        They are of kinds that are never given to `count`.
        """

    def delete(self, experiment: int, *, log: Change | None = None) -> bool:
        """Remove an experiment, its arms, totals, responses and events; its name is free, its number is not.

        Its lines of the change log stay; the first call writes its last one.

        After the first call no worker finds the experiment. A store may remove many responses in steps, so that
        counting goes on in between: it returns True while more are left, and the caller calls it again. If a crash
        interrupts that, `forget` removes the rest.
        """

    def events(self) -> list[Event]:
        """Return the totals of all events, in any order."""

    def count(self, answers: Sequence[Answer], events: Sequence[Event] = ()) -> tuple[list[Outcome], list[CellTotal]]:
        """Count each response and acceptance whose ticket is new, all in one transaction: this must be fast.

        The same transaction adds the given events.

        Return the outcome of each, in their order, and the new totals of the cells that changed. The transaction that
        counts a ticket decides whether it is new: of two copies, even in one batch, the first counts:

        - ACCEPTED: an acceptance that counts: there was neither one nor a response.
        - COUNTED or ANSWERED: a response that counts, to a pull without or with an acceptance.
        - EXPIRED: the ticket's nonce may have been forgotten.
        - DUPLICATE or CHANGED: the ticket was counted before, with this value and cell or not; it stays counted. An
          acceptance after its response is a DUPLICATE; beside it in one batch it may be one.
        - CLOSED: the ticket was not counted before the experiment was closed, or deleted.
        """

    def forget(self, now: int, most: int) -> int:
        """Remove the nonces of at most `most` tickets that expire at or before `now`, the first to expire first.

        The expiry of a nonce is the first full hour at or after that of its ticket: no second of a ticket is kept.
        Return the number of removed nonces; 0 means that none is left. `forgotten` moves to the last expiry among them,
        and no further: a clock that was years ahead and is corrected must not block `forgotten` for years. Responses
        stay. A store may keep nonces longer, and remove them by ranges of their expiry instead. The rest of deleted
        experiments is removed too, and included in the number.
        """

    def export(self, experiment: int, rows: int) -> Iterator[Sequence[StoredResponse]]:
        """Yield the responses of an experiment in chunks of at most `rows`, in the order in which they were counted.

        Each response that was counted before the first chunk was requested is included once; later ones may be.
        """

    def drop_responses(self, experiment: int) -> tuple[bool, list[CellTotal]]:
        """Remove single responses of an experiment; totals and nonces stay.

        Their number and sum are added to the cells `dropped_cell(cell)`, in the same transaction, so that totals can
        still be checked. Return the new totals of these cells, and True while more responses are left, as `delete`.
        """

    def keys(self) -> list[StoredKey]:
        """Return every key, in any order; some may have expired."""

    def rotate_key(self, role: str, hashed: bytes, now: int, grace: int, *, log: Change | None = None) -> None:
        """Store a new key of a role or of a holder, whose earlier keys expire within `grace` seconds or before.

        Expired keys are removed at once: otherwise they would be valid again when the clock goes back.
        """

    def holders(self) -> list[StoredHolder]:
        """Return every holder, in any order."""

    def put_holder(self, holder: StoredHolder, hashed: bytes | None = None, *, log: Change | None = None) -> None:
        """Store a holder, in the place of one of this name, and a key of it if one is given; its other keys stay."""

    def remove_holder(self, name: str, *, log: Change | None = None) -> None:
        """Remove a holder with its keys, and the day of its last use."""

    def note_uses(self, names: Collection[str], day: int) -> None:
        """Store that these holders or roles used a key on this day, in days since 1970; an earlier day is no news."""

    def key_uses(self) -> dict[str, int]:
        """Return the day of the last use of each holder or role that used a key."""

    def secrets(self) -> list[StoredSecret]:
        """Return every secret, in any order; some may have expired."""

    def rotate_secret(self, secret: bytes, now: int, grace: int, *, log: Change | None = None) -> None:
        """Store a new secret under the next number; earlier secrets expire as in `rotate_key`."""

    def prune(self, now: int) -> None:
        """Remove the keys and secrets that have expired by `now`."""

    def changes(self, experiment: str | None, before: int | None, most: int) -> list[Change]:
        """Return the newest lines of the change log, the newest first: of an experiment, or of all and of keys.

        With `before` only those whose numbers are smaller.
        """

    def note(self, *, log: Change) -> None:
        """Write a line of the change log about something that the server has noticed."""

    def changes_after(self, number: int, most: int) -> list[Change]:
        """Return the oldest lines of the change log with larger numbers, the oldest first."""

    def lease_webhook(self, receiver: str, now: int, until: int) -> int | None:
        """Let the caller alone send webhooks until then; return the last line sent, None while another may send.

        A receiver that is new is sent what comes after the present end of the log.
        """

    def move_webhook(self, number: int, until: int) -> None:
        """Store the last line sent, and let others send from `until` on."""

    def check(self) -> None:
        """Make a durable write that changes nothing; raise `Unavailable` when the store cannot write."""

    def close(self) -> None:
        """Release all resources; this process or another may open the store again."""


@runtime_checkable
class SizedStore(Store, Protocol):
    """A store that reports its size. For other stores `/metrics` has no sizes."""

    def sizes(self) -> StoreSizes:
        """Return the present sizes; safe in any thread. Raise `Unavailable` or OSError when they cannot be read."""


@runtime_checkable
class SharedStore(Store, Protocol):
    """A store that several workers use at once, each through an object of its own.

    A worker checks an experimenter's change against the state that it knows; the store commits it only if no worker has
    changed anything since, and raises `Behind` otherwise. The polling thread calls `refresh`, `acknowledge`,
    `is_acknowledged` and the methods of notes, one at a time; another thread calls the rest.
    """

    version: int
    """The version of the last change that this worker has applied."""

    basis: int
    """The version against which the next change is checked; a change adds 1."""

    @property
    def worker(self) -> int:
        """The number of this worker; no other has it or had it."""

    def startup_lock(self) -> AbstractContextManager[None]:
        """Hold a lock that lets one worker start at a time."""

    def queue_updates(self, pending: Sequence[Pending], events: Sequence[Event]) -> None:
        """Queue changed counts of open tickets and new events for the next `refresh`; this writes nothing.

        It is safe while another method runs. These events have other kinds than those given to `count`.
        """

    def refresh(self, in_use: Collection[int], followed: Mapping[int, Mark]) -> PeerUpdates:
        """Send a heartbeat with all queued updates in one transaction, then return the updates of the peers.

        Totals, events and open tickets are those of the experiments in use. For an experiment in `followed`, everything
        up to its mark is applied, so the result needs only what changed after it.
        """

    def acknowledge(self, version: int) -> None:
        """Publish that this worker has applied all changes up to this version."""

    def is_acknowledged(self, version: int) -> bool:
        """Tell whether all workers that assign arms have applied this version."""

    def put_note(self, name: bytes, note: bytes, until: int) -> None:
        """Store a note, such as a session, that all workers can read until this second; `name` is its key."""

    def find_note(self, name: bytes) -> bytes | None:
        """Return the note of this name, which may have expired; None when there is none."""

    def find_notes(self, start: bytes, now: int) -> dict[bytes, bytes]:
        """Return the notes whose names begin with `start` and that have not expired, by name."""

    def take_note(self, name: bytes) -> bytes | None:
        """Remove the note of this name and return it: of several concurrent callers, one gets it."""

    def settle(self, now: int, missing: str, unaccepted: str) -> None:
        """Settle the open tickets of dead workers: those that have expired become events of these two kinds."""
