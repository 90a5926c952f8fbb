"""What the server keeps, and the verbs by which it is kept: the contract of every store.

The server keeps experiments and their arms, private responses and the nonces of their tickets, keys and secrets. Only
this folder knows in what: `sqlite.py` keeps them in a file, `postgres.py` in a database that many workers share.
Another store is one class with the verbs of `Store`, which passes tests/server/store_contract.py; it is handed to
`Service`, and nothing else changes. With the verbs of `SharedStore` as well, several workers may use it at once.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from ldpbandits.errors import DatabaseError
from ldpbandits.server.experiments.tickets import Ticket
from ldpbandits.spec.protocol import Acknowledged, Code

Status: TypeAlias = Literal["running", "paused", "shipped", "closed"]

FRESH_FOR_S = 2.0
"""For so many seconds after a look at the others has begun, a worker hands out arms by what it found, and whoever
changes something waits for it. They pass while machines sleep."""


ERASED_ROWS = 2000
"""Rows that a deletion looks at before responses are counted again."""

DELETED = "deleted "
"""With its number, the name of an experiment of which a deletion has left some responses; no name has a space."""


class Exists(Exception):  # noqa: N818 - a fact about the store, not a fault of it
    """The name is taken; nothing was changed."""


class Unavailable(Exception):  # noqa: N818 - a state, not a fault of the caller
    """The store cannot do this at the moment, as when its disk is full: try again later.

    Nothing was changed; or, where a store is asked over a network, perhaps all of it: the answer was lost. Counting
    again is safe in either case.
    """


class Replaced(Unavailable):
    """The database is in an earlier state than this worker has seen, or is another one: it must start anew."""


class Behind(Exception):  # noqa: N818 - as above
    """Another worker has changed something since this one last looked. Nothing was changed: look, and check again."""


class Outcome(Enum):
    """What became of a response. All but IMPOSSIBLE, which needs the curator to tell, come from the store."""

    COUNTED = Acknowledged.COUNTED
    DUPLICATE = Acknowledged.DUPLICATE
    CHANGED = Code.CHANGED
    EXPIRED = Code.EXPIRED
    CLOSED = Code.CLOSED
    IMPOSSIBLE = Code.IMPOSSIBLE


class Answer(NamedTuple):
    """A response as it is counted: the ticket that it came with, its value in whole units, and its cell.

    A cell, from 0, tells kinds of responses apart, as those of different epsilons. `read` is what the experiment's rule
    reads of the response, if it reads it in a way of its own; it follows from the rest. What they mean, no store knows.
    """

    ticket: Ticket
    value: int
    cell: int = 0
    read: int = 0


class CellTotal(NamedTuple):
    """How many responses of an arm and cell have been counted, and the exact sums of their values and readings."""

    experiment: int
    arm: int
    cell: int
    pulls: int
    total: int
    read: int = 0


class StoredResponse(NamedTuple):
    """A response for good. Numbers grow, perhaps with gaps; there is no time in it and nothing of who sent it."""

    number: int
    arm: int
    value: int
    cell: int = 0


class Event(NamedTuple):
    """Something that happened so many times: an arm was handed out, an answer is missing, a response was rejected.

    Its kind is a word that no store looks into. What belongs to no experiment has the number 0, and the arm 0.
    """

    experiment: int
    arm: int
    kind: str
    times: int


class Pending(NamedTuple):
    """How many more tickets of an arm a worker has handed out than it has seen answered, and when the last expires.

    Answers go to any worker, so that a count may be negative; those of all workers add up to what is out.
    """

    experiment: int
    arm: int
    tickets: int
    until: int


@dataclass(frozen=True)
class Definition:
    """What an experimenter fixes for good. Curator, rule and settings are JSON, which no store looks into."""

    name: str
    curator: str
    rule: str
    settings: str
    ticket_lifetime: int
    default_reward: float
    created_at: int


@dataclass(frozen=True)
class StoredArm:
    """An arm, with all that was ever counted for it. Its number is its place in the experiment, from 0."""

    name: str
    retired: bool = False
    cells: tuple[CellTotal, ...] = ()
    """Those in which there are responses, by their numbers."""

    @property
    def pulls(self) -> int:
        """The number of its responses."""
        return sum(cell.pulls for cell in self.cells)

    @property
    def total(self) -> int:
        """Their sum, in units."""
        return sum(cell.total for cell in self.cells)

    @property
    def read(self) -> int:
        """The sum of what the rule reads of them."""
        return sum(cell.read for cell in self.cells)


@dataclass(frozen=True)
class StoredExperiment:
    """An experiment. Its number, from 1, is part of every ticket and never used for another."""

    number: int
    definition: Definition
    status: Status
    arms: tuple[StoredArm, ...]
    shipped: int | None = None
    """The arm that everybody gets, while the status is shipped."""


@dataclass(frozen=True)
class StoredKey:
    """The hash of a key, what its owner may do, and the second from which it no longer holds."""

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
    """When a look was, as its store has it. Later ones are larger, and those of another era are worth nothing."""

    era: int
    look: int
    place: str


@dataclass(frozen=True)
class News:
    """What a worker finds when it looks at what the others did."""

    version: int
    experiments: Mapping[int, StoredExperiment | None]
    """Those that were changed since the version that this worker knew; None for one that was deleted."""
    keys_changed: bool
    totals: Sequence[CellTotal]
    """Cells, of the experiments asked for, that have more responses than this worker knew of."""
    events: Sequence[Event]
    """What happened at all other workers, in all: at every arm of the experiments in `whole`, at those in `arms`."""
    pending: Sequence[Pending]
    """The same for tickets that are out."""
    whole: Collection[int]
    """The experiments of which every arm is told, as when they were not followed."""
    arms: Collection[tuple[int, int]]
    """Arms of those that were, by experiment and number, of which something may be other than at their marks."""
    mark: Mark
    given_up: Sequence[Pending] | None = None
    """This worker was silent for so long that the others have settled what it had told: what was pending is missing."""


class StoreSizes(NamedTuple):
    """Bytes of a database, of its write-ahead log, and free on the disk that it grows on; None where nobody knows."""

    database: int | None
    log: int | None = None
    free: int | None = None


class Store(Protocol):
    """The server's memory.

    - A verb that changes something has changed all of it, durably, when it returns. When it raises, it has changed
      nothing. Trouble with the medium is `Unavailable`, a name that is taken is `Exists`.
    - Verbs are called one at a time: by whoever starts the server, then all by the one thread of its `Committer`, which
      may be another. Two are free of this: the event loop reads `forgotten` at any moment, and other threads step
      through an `export` while the rest goes on. `close` is the last call.
    - Experiments and arms are named by numbers that the store gave out, times are whole seconds of the caller's clock.
    """

    @property
    def identity(self) -> bytes:
        """16 random bytes, made when there was nothing here yet and kept for good: they tell this store from others.

        They are part of what signs a ticket, so that no other store counts it. They are no secret.
        """

    @property
    def forgotten(self) -> int:
        """Nonces of tickets that expired up to this second may be gone: no such ticket is ever counted again.

        It is read at every request, so it is quick; and it never falls, not even by a restart.
        """

    def experiments(self) -> list[StoredExperiment]:
        """Return every experiment, in the order in which they were created."""

    def create(self, definition: Definition, arms: Sequence[str], known: Sequence[CellTotal] = ()) -> StoredExperiment:
        """Keep a new experiment, which is running; raise `Exists` when its name, or one of its arms', is taken.

        `known` are totals that it starts from; for the number of the experiment they have a 0.
        """

    def add_arm(self, experiment: int, name: str) -> None:
        """Add an arm under the next number; raise `Exists` when the experiment has one of this name, retired or not."""

    def retire_arm(self, experiment: int, arm: int) -> None:
        """Keep in mind that an arm is handed out no more; responses for it still count."""

    def set_status(self, experiment: int, status: Status, shipped: int | None = None) -> None:
        """Pause, resume, ship to an arm or close an experiment. From a close on nothing new is counted for it."""

    def delete(self, experiment: int) -> bool:
        """Remove an experiment, its arms, totals, responses and events; its name is free, its number is not.

        From the first call on it is gone for everybody, for good. A store may remove some of very many responses at a
        time, so that counting goes on in between: it returns True while there are more, and is called again. Where that
        ends early, as by a crash, `forget` removes the rest.
        """

    def events(self) -> list[Event]:
        """Return how often each thing has happened, in all, in any order."""

    def count(self, answers: Sequence[Answer], events: Sequence[Event] = ()) -> tuple[list[Outcome], list[CellTotal]]:
        """Count each response whose ticket is new, all in one transaction: this is the verb that must be fast.

        What has happened besides is added to the events in the same transaction.

        Return what became of each, in their order, and the new totals of the cells that changed. Whether a ticket is
        new is settled in the transaction that counts it, so that of two copies, even in one batch, the first counts:

        - EXPIRED: the ticket's nonce may have been forgotten.
        - DUPLICATE or CHANGED: the ticket was counted before, with this value and cell or not; it stays counted.
        - CLOSED: the ticket was not counted before the experiment was closed, or deleted.
        """

    def forget(self, now: int, most: int) -> int:
        """Remove the nonces of at most `most` tickets that expire at or before `now`, the first to expire first.

        Return how many were removed; 0 means that none is left. `forgotten` moves to the last expiry among them, and no
        further: a clock that is set right after it was years ahead must not stand still for years. Responses stay. A
        store may keep nonces longer, and remove them by ranges of their expiry instead. What is left of deleted
        experiments is removed too, and counted.
        """

    def export(self, experiment: int, rows: int) -> Iterator[Sequence[StoredResponse]]:
        """Yield the responses of an experiment in pieces of at most `rows`, in the order in which they were counted.

        All that were counted before the first piece was asked for are in it, once each; later ones may be.
        """

    def keys(self) -> list[StoredKey]:
        """Return every key, in any order; some may hold no longer."""

    def rotate_key(self, role: str, hashed: bytes, now: int, grace: int) -> None:
        """Keep a new key of a role. Those before it hold for `grace` seconds more at most, never longer than they did.

        Keys that have ended by now are removed at once: else they would hold again when the clock goes back.
        """

    def secrets(self) -> list[StoredSecret]:
        """Return every secret, in any order; some may hold no longer."""

    def rotate_secret(self, secret: bytes, now: int, grace: int) -> None:
        """Keep a new secret under the next number; with those before it do as `rotate_key` does."""

    def prune(self, now: int) -> None:
        """Remove the keys and secrets that have ended by now."""

    def check(self) -> None:
        """Write something that changes nothing, durably; raise `Unavailable` when the store cannot write."""

    def close(self) -> None:
        """Let go of everything; the store may be opened again, by this process or another."""


def other_shape(why: str) -> DatabaseError:
    """Return what is raised for a database whose tables are those of no released version: time does not help it."""
    ways = "use the version that made it, or restore a backup of a released one"
    return DatabaseError(f"the database has a shape that this version does not know: {why} ({ways})")


def listed(columns: Iterable[str] | None) -> str:
    """Write the columns of a table for people."""
    return ", ".join(columns or ()) or "of no table"


@runtime_checkable
class SizedStore(Store, Protocol):
    """A store that knows how large it is. The others are served as well, and `/metrics` is silent on their sizes."""

    def sizes(self) -> StoreSizes:
        """Return the sizes now, in any thread while the rest goes on; raise `Unavailable` or OSError when it cannot."""


@runtime_checkable
class SharedStore(Store, Protocol):
    """A store that several workers use at once, each through an object of its own.

    A change by an experimenter is checked by the worker that makes it, against what it knows; the store makes it only
    if nobody has changed anything since, and raises `Behind` otherwise. `refresh`, `knows`, `is_acknowledged` and what
    concerns notes are called one at a time, by another thread than the rest.
    """

    version: int
    """The last change that this worker has taken over."""

    basis: int
    """The change after which the next one was checked; a change adds 1."""

    @property
    def worker(self) -> int:
        """The number of this worker; no other has it or had it."""

    def starting(self) -> AbstractContextManager[None]:
        """Be the only worker that starts, for as long as the block lasts."""

    def tell(self, pending: Sequence[Pending], events: Sequence[Event]) -> None:
        """Take note of what has changed of what is pending here, and of what has happened; nothing is written yet.

        It may be called while another verb is under way. These events are of other kinds than those given to `count`.
        """

    def refresh(self, in_use: Collection[int], followed: Mapping[int, Mark]) -> News:
        """Say that this worker lives and what it was told, all at once, then return what the others did.

        Totals, events and what is pending are those of the experiments in use. Of those that are followed, all that the
        look of this mark has found was taken over: what is other than then is enough.
        """

    def knows(self, version: int) -> None:
        """Say that this worker has taken over all changes up to this version."""

    def is_acknowledged(self, version: int) -> bool:
        """Tell whether all workers that hand out arms have taken over this version."""

    def put_note(self, name: bytes, note: bytes, until: int) -> None:
        """Let all workers know something until this second, as who is signed in; `name` tells it from all else."""

    def find_note(self, name: bytes) -> bytes | None:
        """Return what was put under this name; None when nothing was, or it was taken. It may have ended."""

    def find_notes(self, start: bytes, now: int) -> dict[bytes, bytes]:
        """Return all whose names start so and that have not ended, by name."""

    def take_note(self, name: bytes) -> bytes | None:
        """Return the same, and let nobody find it again: of several who ask at once, one gets it."""

    def settle(self, now: int, kind: str) -> None:
        """Settle what workers left that live no more: pending tickets that have expired become events of this kind."""
