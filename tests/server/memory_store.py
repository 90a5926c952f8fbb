"""A store of the tests' own: everything in memory, nothing of it in `src`. Ends with the process that holds it."""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ldpbandits.server.store import (
    ACCEPTANCES,
    Answer,
    CellTotal,
    Definition,
    Event,
    Exists,
    Outcome,
    Status,
    StoredArm,
    StoredExperiment,
    StoredHolder,
    StoredKey,
    StoredResponse,
    StoredSecret,
    Unavailable,
    change_of_acceptances,
    dropped_cell,
)
from ldpbandits.server.store.nonces import commitment_of, place_of
from ldpbandits.spec.messages import Change

K = TypeVar("K", StoredKey, StoredSecret)


@dataclass
class Memory:
    """What a store keeps. It outlives the store, as a file does."""

    identity: bytes = field(default_factory=lambda: os.urandom(16))
    experiments: dict[int, StoredExperiment] = field(default_factory=dict)
    last_experiment: int = 0
    events: dict[tuple[int, int, str], int] = field(default_factory=dict)
    nonces: dict[tuple[int, bytes], tuple[int, bytes | None]] = field(default_factory=dict)
    """The experiment, and the commitment to the response or None, by hour and id."""
    accepted: frozenset[tuple[int, bytes]] = frozenset()
    """The nonces of pulls that were accepted before their response."""
    responses: list[Answer | None] = field(default_factory=list)
    dropped: dict[tuple[int, int, int], CellTotal] = field(default_factory=dict)
    """The sums of dropped responses."""
    keys: list[StoredKey] = field(default_factory=list)
    holders: dict[str, StoredHolder] = field(default_factory=dict)
    key_uses: dict[str, int] = field(default_factory=dict)
    secrets: list[StoredSecret] = field(default_factory=list)
    last_secret: int = 0
    forgotten: int = 0
    log: list[Change] = field(default_factory=list)
    webhook: tuple[str, int, int] = ("", 0, 0)


class MemoryStore:
    """A `Store` without a disk. Where memory ends, Python raises MemoryError, and the store is `Unavailable`."""

    def __init__(self, memory: Memory | None = None, *, failpoint: Callable[[str], None] = lambda _: None) -> None:
        """Take up what is in this memory, or start with an empty one."""
        self.memory = Memory() if memory is None else memory
        self._failpoint = failpoint

    @contextmanager
    def _transaction(self, log: Change | None = None) -> Iterator[Memory]:
        """Change everything in the block, and log it, or nothing."""
        before = {name: copy(value) for name, value in vars(self.memory).items()}
        try:
            yield self.memory
            if log is not None:
                self.memory.log = [*self.memory.log, replace(log, number=len(self.memory.log) + 1)]
            self._failpoint("before commit")
        except BaseException as error:
            vars(self.memory).update(before)
            if isinstance(error, MemoryError):
                raise Unavailable("no memory is left") from error
            raise

    @property
    def identity(self) -> bytes:
        """What tells this memory from others."""
        return self.memory.identity

    @property
    def forgotten(self) -> int:
        """The last second of which nonces may be gone."""
        return self.memory.forgotten

    def experiments(self) -> list[StoredExperiment]:
        """Return every experiment."""
        return list(self.memory.experiments.values())

    def create(
        self,
        definition: Definition,
        arms: Sequence[str],
        known: Sequence[CellTotal] = (),
        *,
        metadata: str = "{}",
        log: Change | None = None,
    ) -> StoredExperiment:
        """Keep a new experiment."""
        names = {experiment.definition.name for experiment in self.experiments()}
        if definition.name in names or len(set(arms)) < len(arms):
            raise Exists(definition.name)
        with self._transaction(log) as memory:
            memory.last_experiment = number = memory.last_experiment + 1
            cells = [cell._replace(experiment=number) for cell in known]
            stored = tuple(
                StoredArm(name, cells=tuple(cell for cell in cells if cell.arm == arm)) for arm, name in enumerate(arms)
            )
            memory.experiments[number] = StoredExperiment(number, definition, "running", stored, metadata=metadata)
            return memory.experiments[number]

    def add_arm(self, experiment: int, name: str, *, log: Change | None = None) -> None:
        """Add an arm."""
        arms = self.memory.experiments[experiment].arms
        if name in {arm.name for arm in arms}:
            raise Exists(name)
        with self._transaction(log) as memory:
            memory.experiments[experiment] = replace(memory.experiments[experiment], arms=(*arms, StoredArm(name)))

    def retire_arm(self, experiment: int, arm: int, *, log: Change | None = None) -> None:
        """Retire an arm."""
        with self._transaction(log) as memory:
            _set_arm(memory, experiment, arm, replace(memory.experiments[experiment].arms[arm], retired=True))

    def set_status(
        self, experiment: int, status: Status, shipped: int | None = None, *, log: Change | None = None
    ) -> None:
        """Pause, resume, ship or close an experiment."""
        with self._transaction(log) as memory:
            stored = memory.experiments[experiment]
            at = None if log is None else log.at
            stopped_at = None if status == "running" else at if stored.stopped_at is None else stored.stopped_at
            memory.experiments[experiment] = replace(stored, status=status, shipped=shipped, stopped_at=stopped_at)

    def describe(self, experiment: int, metadata: str, *, log: Change | None = None) -> None:
        """Replace the metadata."""
        with self._transaction(log) as memory:
            memory.experiments[experiment] = replace(memory.experiments[experiment], metadata=metadata)

    def add_events(self, experiment: int, events: Sequence[Event], *, log: Change | None = None) -> None:  # noqa: ARG002
        """Add these events."""
        with self._transaction(log) as memory:
            for event in events:
                memory.events[event[:3]] = memory.events.get(event[:3], 0) + event.times

    def delete(self, experiment: int, *, log: Change | None = None) -> bool:
        """Remove an experiment; its responses leave gaps in the numbers."""
        with self._transaction(log) as memory:
            del memory.experiments[experiment]
            memory.events = {key: count for key, count in memory.events.items() if key[0] != experiment}
            memory.nonces = {key: used for key, used in memory.nonces.items() if used[0] != experiment}
            memory.responses = [None if _is_of(known, experiment) else known for known in memory.responses]
        return False

    def events(self) -> list[Event]:
        """Return how often each thing has happened."""
        return [Event(*key, count) for key, count in self.memory.events.items()]

    def count(self, answers: Sequence[Answer], events: Sequence[Event] = ()) -> tuple[list[Outcome], list[CellTotal]]:
        """Count the responses whose tickets are new."""
        with self._transaction() as memory:
            for event in events:
                memory.events[event[:3]] = memory.events.get(event[:3], 0) + event.times
            outcomes = [self._use_nonce(memory, answer) for answer in answers]
            self._failpoint("between nonce and tally")
            pairs = list(zip(answers, outcomes, strict=True))
            new = [answer for answer, outcome in pairs if outcome in {Outcome.COUNTED, Outcome.ANSWERED}]
            memory.responses += new
            accepted = [answer for answer, outcome in pairs if outcome is Outcome.ACCEPTED]
            answered = [change_of_acceptances(answer) for answer, outcome in pairs if outcome is Outcome.ANSWERED]
            return outcomes, self._add(memory, [*new, *accepted, *answered])

    def _use_nonce(self, memory: Memory, answer: Answer) -> Outcome:
        """Keep a response when its ticket is new; say what became of it."""
        ticket = answer.ticket
        if ticket.expires_at <= memory.forgotten:
            return Outcome.EXPIRED
        place, commitment = place_of(ticket), commitment_of(answer)
        is_known, known = place in memory.nonces, memory.nonces.get(place, (0, None))[1]
        if is_known and (answer.is_acceptance or known is not None):
            return Outcome.DUPLICATE if answer.is_acceptance or known == commitment else Outcome.CHANGED
        experiment = memory.experiments.get(ticket.experiment)
        if experiment is None and ticket.experiment <= memory.last_experiment:  # it was deleted
            return Outcome.CLOSED
        if experiment is not None and experiment.status == "closed":
            return Outcome.CLOSED
        memory.nonces[place] = ticket.experiment, commitment
        if answer.is_acceptance:
            memory.accepted |= {place}
            return Outcome.ACCEPTED
        return Outcome.ANSWERED if place in memory.accepted else Outcome.COUNTED

    def _add(self, memory: Memory, answers: Sequence[Answer]) -> list[CellTotal]:
        """Add responses to the totals of their arms."""
        totals: dict[tuple[int, int, int], CellTotal] = {}
        for (experiment, arm, *_), value, cell, read in answers:
            if experiment not in memory.experiments or arm >= len(memory.experiments[experiment].arms):
                raise Unavailable("a response to an arm that there is not")
            stored = memory.experiments[experiment].arms[arm]
            cells = {known.cell: known for known in (*stored.cells, stored.acceptances) if known is not None}
            before = cells.get(cell, CellTotal(experiment, arm, cell, 0, 0))
            after = before._replace(pulls=before.pulls + 1, total=before.total + value, read=before.read + read)
            cells[cell] = totals[experiment, arm, cell] = after
            accepted = cells.pop(ACCEPTANCES, None)
            kept = replace(stored, cells=tuple(cells[key] for key in sorted(cells)), acceptances=accepted)
            _set_arm(memory, experiment, arm, kept)
        return list(totals.values())

    def forget(self, now: int, most: int) -> int:
        """Remove the nonces of tickets that have expired, the first to expire first."""
        with self._transaction() as memory:
            gone = sorted(key for key in memory.nonces if key[0] <= now)[:most]
            for key in gone:
                del memory.nonces[key]
            memory.forgotten = max([memory.forgotten, *(expires_at for expires_at, _ in gone)])
            return len(gone)

    def export(self, experiment: int, rows: int) -> Iterator[Sequence[StoredResponse]]:
        """Yield the responses in pieces."""
        last = 0
        while piece := [
            StoredResponse(number, known.ticket.arm, known.value, known.cell)
            for number, known in enumerate(self.memory.responses, 1)
            if known is not None and known.ticket.experiment == experiment and number > last
        ][:rows]:
            last = piece[-1].number
            yield piece

    def drop_responses(self, experiment: int) -> tuple[bool, list[CellTotal]]:
        """Remove the responses, and keep their sums."""
        with self._transaction() as memory:
            gone = [known for known in memory.responses if known is not None and _is_of(known, experiment)]
            memory.responses = [None if _is_of(known, experiment) else known for known in memory.responses]
            for arm in {known.ticket.arm for known in gone}:
                stored = memory.experiments[experiment].arms[arm]
                _set_arm(memory, experiment, arm, replace(stored, has_dropped=True))
            totals: dict[tuple[int, int], CellTotal] = {}
            for (_, arm, *_), value, cell, _ in gone:
                place = arm, dropped_cell(cell)
                known = memory.dropped.get((experiment, *place), CellTotal(experiment, *place, 0, 0))
                totals[place] = known._replace(pulls=known.pulls + 1, total=known.total + value)
                memory.dropped = {**memory.dropped, (experiment, *place): totals[place]}
            return False, list(totals.values())

    def keys(self) -> list[StoredKey]:
        """Return every key."""
        return list(self.memory.keys)

    def rotate_key(self, role: str, hashed: bytes, now: int, grace: int, *, log: Change | None = None) -> None:
        """Keep a new key, and cut those before it short."""
        with self._transaction(log) as memory:
            cut = [_cut(key, now + grace) if key.role == role else key for key in memory.keys]
            memory.keys = [key for key in cut if not _has_ended(key, now)]
            memory.keys.append(StoredKey(hashed, role, None))

    def holders(self) -> list[StoredHolder]:
        """Return every holder."""
        return list(self.memory.holders.values())

    def put_holder(self, holder: StoredHolder, hashed: bytes | None = None, *, log: Change | None = None) -> None:
        """Keep a holder, and a key of it."""
        with self._transaction(log) as memory:
            memory.holders = {**memory.holders, holder.name: holder}
            if hashed is not None:
                memory.keys = [*memory.keys, StoredKey(hashed, holder.name, None)]

    def remove_holder(self, name: str, *, log: Change | None = None) -> None:
        """Remove a holder with all that is its own."""
        with self._transaction(log) as memory:
            memory.holders = {key: holder for key, holder in memory.holders.items() if key != name}
            memory.key_uses = {key: day for key, day in memory.key_uses.items() if key != name}
            memory.keys = [key for key in memory.keys if key.role != name]

    def note_uses(self, names: Collection[str], day: int) -> None:
        """Keep the latest day."""
        with self._transaction() as memory:
            memory.key_uses |= {name: max(day, memory.key_uses.get(name, 0)) for name in names}

    def key_uses(self) -> dict[str, int]:
        """Return the day of each last use."""
        return dict(self.memory.key_uses)

    def secrets(self) -> list[StoredSecret]:
        """Return every secret."""
        return list(self.memory.secrets)

    def rotate_secret(self, secret: bytes, now: int, grace: int, *, log: Change | None = None) -> None:
        """Keep a new secret, and cut those before it short."""
        with self._transaction(log) as memory:
            memory.last_secret += 1
            cut = [_cut(old, now + grace) for old in memory.secrets]
            memory.secrets = [old for old in cut if not _has_ended(old, now)]
            memory.secrets.append(StoredSecret(memory.last_secret, secret, None))

    def prune(self, now: int) -> None:
        """Remove what has ended."""
        with self._transaction() as memory:
            memory.keys = [key for key in memory.keys if not _has_ended(key, now)]
            memory.secrets = [secret for secret in memory.secrets if not _has_ended(secret, now)]

    def changes(self, experiment: str | None, before: int | None, most: int) -> list[Change]:
        """Return the newest lines of the log."""
        return [
            line
            for line in reversed(self.memory.log)
            if experiment in {None, line.experiment} and (before is None or line.number < before)
        ][:most]

    def note(self, *, log: Change) -> None:
        """Keep a line of the log."""
        with self._transaction(log):
            pass

    def changes_after(self, number: int, most: int) -> list[Change]:
        """Return the oldest lines after this one."""
        return [line for line in self.memory.log if line.number > number][:most]

    def lease_webhook(self, receiver: str, now: int, until: int) -> int | None:
        """Take the lease, unless another has it."""
        with self._transaction() as memory:
            known, sent, lease = memory.webhook
            if known != receiver:
                sent, lease = max((line.number for line in memory.log), default=0), 0
            memory.webhook = (receiver, sent, lease if lease > now else until)
            return None if lease > now else sent

    def move_webhook(self, number: int, until: int) -> None:
        """Keep the last line that was sent."""
        with self._transaction() as memory:
            memory.webhook = (memory.webhook[0], number, until)

    def check(self) -> None:
        """Answer: memory is always there."""

    def close(self) -> None:
        """Leave the memory as it is: another service may take it up."""


def _is_of(answer: Answer | None, experiment: int) -> bool:
    return answer is not None and answer.ticket.experiment == experiment


def _set_arm(memory: Memory, experiment: int, arm: int, new: StoredArm) -> None:
    stored = memory.experiments[experiment]
    arms = (*stored.arms[:arm], new, *stored.arms[arm + 1 :])
    memory.experiments[experiment] = replace(stored, arms=arms)


def _cut(key: K, until: int) -> K:
    return replace(key, valid_until=until if key.valid_until is None else min(key.valid_until, until))


def _has_ended(key: StoredKey | StoredSecret, now: int) -> bool:
    return key.valid_until is not None and key.valid_until <= now
