"""The agent server apart from HTTP: decisions, responses, reports. Commands are in experiments/commands.py."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from itertools import chain
from time import time
from typing import TypeVar

from ldpbandits.server.api.csv_export import csv
from ldpbandits.server.api.messages import (
    Counted,
    Decision,
    History,
    Report,
    ResponseMessage,
    Summary,
    Tallies,
)
from ldpbandits.server.api.refusals import REFUSED, Refusal
from ldpbandits.server.console_links import Links
from ldpbandits.server.experiments import history
from ldpbandits.server.experiments.allowances import Allowances
from ldpbandits.server.experiments.commands import Commands
from ldpbandits.server.experiments.live import MISSING, LiveExperiment, restore
from ldpbandits.server.experiments.tickets import Ticket
from ldpbandits.server.keys import Keys, Role
from ldpbandits.server.peers.peers import Peers
from ldpbandits.server.process.clock import Clock
from ldpbandits.server.process.meters import Meters
from ldpbandits.server.reports.report import most_moments, summarise
from ldpbandits.server.reports.worker import ReportWorker
from ldpbandits.server.single_flight import SingleFlight
from ldpbandits.server.store import (
    Answer,
    CellTotal,
    Event,
    Outcome,
    SharedStore,
    SizedStore,
    Store,
    StoredExperiment,
    StoreSizes,
    Unavailable,
)
from ldpbandits.server.store.committer import LARGEST_BATCH, Committer
from ldpbandits.spec.protocol import Code

NONCES_PER_DELETION = 500
"""Used nonces are removed so many at a time: responses wait for no more than that."""

READY_CACHE_S, READY_TIMEOUT_S = 1.0, 3.0
"""Seconds for which the answer to whether the store can write is good, and after which it is no.

The latter are fewer than those that `ldpbandits health` waits.
"""

RETRY_AFTER_CAP_S = 60
"""Seconds after which a response may be sent again that came above its experiment's responses_per_hour."""

SUMMARIES_A_TURN = 100
"""Summaries that are made before others get their turn: that takes a tenth of a millisecond."""

EXPORT_PAGE_ROWS = 5000
"""An export is read and sent so many responses at a time."""

T = TypeVar("T")


class Service:
    """An agent server. All of it runs in one event loop, but for the thread that writes."""

    def __init__(
        self,
        store: Store,
        environment: Mapping[str, str] | None = None,
        *,
        keep: Callable[[Mapping[Role, str]], Mapping[Role, str]] = lambda keys: keys,
        now: Callable[[], float] = time,
        largest_batch: int = LARGEST_BATCH,
    ) -> None:
        """Take up where the store was left; new keys, if any, are handed to `keep` before they hold."""
        self._store = store
        self._wall = now
        self._clock = Clock(now)
        self.peers = Peers(self, store) if isinstance(store, SharedStore) else None
        """What deals with other workers on the same store; None where there can be none."""
        with store.startup_lock() if isinstance(store, SharedStore) else nullcontext():
            self.keys = Keys(store, environment or {}, keep)
        self.committer = Committer(store, self.apply_totals, largest=largest_batch)
        self.meters = Meters()
        self.committer.observe = self.meters.committed
        self.committer.on_counted_late = self._on_counted_late
        self.report_worker = ReportWorker()
        self.started_at = int(now())
        events: dict[int, list[Event]] = defaultdict(list)
        for event in store.events():
            events[event.experiment].append(event)
        self.numbered = {stored.number: self._restore(stored, events[stored.number]) for stored in store.experiments()}
        self.experiments = {experiment.name: experiment for experiment in self.numbered.values()}
        self._rejected_here: Counter[str] = Counter()
        self._rejected_elsewhere: Counter[str] = Counter()
        self.apply_peer_events(events[0])
        self.changing = asyncio.Lock()
        """Held by an experimenter's change from its checks to its end: such changes happen one after the other."""
        self.ready = SingleFlight(self.check, READY_CACHE_S)
        """Raises `Unavailable` when the store cannot write; whoever may ask this often makes it write no more often."""
        self.commands = Commands(self, store)
        """What an experimenter may change."""
        self.allowances = Allowances(self.keys)
        self.links = Links(lambda: self.now, lambda: self.keys.hash_of(Role.ADMIN), self.peers)
        self.ending = asyncio.Event()
        """Set when the server is about to stop: replies without an end are to end now."""
        self.lost: str | None = None
        """Why all that is known here is worth nothing any more, and the server is to start anew."""

    def close(self) -> None:
        """Finish what is under way and close the store."""
        self.report_worker.close()
        self.committer.close()
        if self.peers is not None:
            self.peers.close()
        self._store.close()

    async def change(self, work: Callable[[], Awaitable[T]]) -> T:
        """Make an experimenter's change, alone; return when it holds everywhere."""
        async with self.changing:
            return await (work() if self.peers is None else self.peers.change(work))

    async def poll_unknown(self) -> bool:
        """Look whether other workers know what we do not; False when there are none."""
        if self.peers is not None:
            await self.peers.poll_unknown()
        return self.peers is not None

    async def refresh(self, name: str) -> None:
        """Know of an experiment what the other workers know, if there are any; to be called before it is asked for."""
        if self.peers is not None:
            if name not in self.experiments:
                await self.peers.poll_unknown()
            if name in self.experiments:
                await self.peers.refresh(self.experiments[name])

    async def refresh_keys(self) -> None:
        """Know which keys hold; to be called before one is looked at."""
        if self.peers is not None:
            await self.peers.refresh_keys()

    async def refresh_secrets(self) -> None:
        """Know which signing secrets hold; to be called before a ticket is looked at."""
        if self.peers is not None:
            await self.peers.refresh_secrets()

    async def refresh_all(self, names: Iterable[str] | None = None) -> None:
        """Know the same of these experiments, by default of all; to be called before they are listed."""
        if self.peers is not None:
            listed = self.experiments if names is None else names
            await self.peers.refresh_all([self.experiments[name] for name in listed if name in self.experiments])

    @property
    def rejected(self) -> Counter[str]:
        """How many requests were refused that belong to no experiment, by reason."""
        return self._rejected_here + self._rejected_elsewhere

    def apply_peer_events(self, events: Iterable[Event]) -> None:
        """Take over what happened that belongs to no experiment, before the start or at other workers."""
        self._rejected_elsewhere = Counter({event.kind: event.times for event in events})

    def load(self, stored: StoredExperiment) -> LiveExperiment:
        """Take up an experiment that is new here, or what was changed of one that is known."""
        known = self.numbered.get(stored.number)
        if known is None:
            known = self._restore(stored, ())
        self.experiments[known.name] = self.numbered[known.number] = known
        known.apply_change(stored)
        return known

    def unload(self, number: int) -> None:
        """Forget an experiment that is no more."""
        experiment = self.numbered.pop(number, None)
        if experiment is not None and self.experiments.get(experiment.name) is experiment:
            del self.experiments[experiment.name]
        self.forget_events(number)

    def forget_events(self, number: int) -> list[Event]:
        """Drop what has happened in an experiment that is no more and is not written yet, and return it."""
        if self.peers is not None:
            self.peers.forget(number)
        return self.committer.forget_events(number)

    @property
    def now(self) -> int:
        """The time in seconds. It never goes back behind the expiry of a nonce that has been removed."""
        return max(int(self._wall()), self._store.forgotten)

    def role(self, key: bytes) -> Role | None:
        """Return what the holder of this key may do, or None when it does not hold now."""
        return self.keys.role(key, self.now)

    def decide(self, name: str, allowance: str | None = None) -> Decision:
        """Hand out an arm; nothing is written."""
        experiment = self.find(name)
        if experiment.status == "paused":
            raise Refusal(409, Code.PAUSED, f"the experiment {name} is paused")
        if experiment.status == "closed":
            raise Refusal(410, Code.CLOSED, f"the experiment {name} is closed")
        if experiment.shipped is not None:
            return Decision(experiment.shipped, experiment.records[experiment.shipped].name)
        if experiment.settings.allowance_required:
            ticket = self.allowances.decide(experiment, allowance, self.now)
        else:
            ticket = experiment.decide(self.now)
        return Decision(
            arm=ticket.arm,
            name=experiment.records[ticket.arm].name,
            ticket=self.keys.signer.sign(ticket),
            curator=experiment.curator,
            default=experiment.default_reward,
            report_after=experiment.settings.report_after,
            sticky=experiment.settings.sticky,
            expires_at=ticket.expires_at,
            expires_in=ticket.expires_at - self.now,
        )

    async def respond(self, message: ResponseMessage) -> Counted:
        """Count a response, exactly once; return when that is on disk."""
        await self.refresh_secrets()
        now = self.now
        found = self._read(message.ticket, now)
        if found is None and await self.poll_unknown():
            found = self._read(message.ticket, now)
        if found is None:
            raise self._forged()
        ticket, experiment = found
        answer = experiment.answer(ticket, message)
        if ticket.expires_at <= now:
            outcome = Outcome.EXPIRED
        elif answer is None:
            outcome = Outcome.IMPOSSIBLE
        else:
            outcome = await self._count(experiment, answer)
            if experiment.number not in self.numbered:  # it was deleted meanwhile
                raise self._forged()
        if outcome is Outcome.COUNTED:
            experiment.answered(ticket, now)
        else:
            experiment.reject(ticket, outcome.value)
        if outcome in REFUSED:
            status, sentence = REFUSED[outcome]
            raise Refusal(status, outcome.value, sentence)
        return Counted(outcome.value)

    async def _count(self, experiment: LiveExperiment, answer: Answer) -> Outcome:
        """Count a response, unless there were too many within the hour: then its device may send it again later."""
        if not experiment.admits_response():
            raise Refusal(
                429,
                Code.RETRY,
                "this experiment counts no more responses now; send the same again later",
                RETRY_AFTER_CAP_S,
            )
        experiment.traffic.counting += 1
        try:
            return await self.committer.count(answer)
        finally:
            experiment.traffic.counting -= 1

    def _on_counted_late(self, answer: Answer) -> None:
        """Take note of a response that was counted though nobody is told: sent again, it is a duplicate."""
        experiment = self.numbered.get(answer.ticket.experiment)
        if experiment is not None:
            experiment.answered(answer.ticket, self.now)

    def _read(self, text: str, now: int) -> tuple[Ticket, LiveExperiment] | None:
        """Read a ticket; None when it is not ours, or we do not know its experiment or arm.

        That may be a ticket of ours, where another worker has made them, or the database was restored from a copy.
        """
        ticket = self.keys.signer.read(text, now)
        experiment = None if ticket is None else self.numbered.get(ticket.experiment)
        if ticket is None or experiment is None or ticket.arm >= len(experiment.records):
            return None
        return ticket, experiment

    async def summaries(self) -> list[Summary]:
        """Return every experiment in a line; decisions get their turn in between."""
        await self.refresh_all()
        lines = []
        for number, experiment in enumerate(list(self.experiments.values()), 1):
            lines.append(summarise(experiment))
            if number % SUMMARIES_A_TURN == 0:
                await asyncio.sleep(0)
        return lines

    async def report(self, name: str) -> Report:
        """Return everything about an experiment; the intervals are worked out beside the event loop."""
        experiment = self.find(name)
        with suppress(Unavailable):  # then the forecast has what came since the start to go by
            await self._recall(experiment)
        experiment.expire(self.now)
        before = lambda: experiment.trail.at(experiment.responses / 2)  # noqa: E731 - as it is when its turn comes
        return await self.report_worker.report(experiment, before, lambda: self.rejected[Code.FORGED])

    async def history(self, name: str) -> History:
        """Return how the estimates came about; worked out beside the event loop too."""
        experiment = self.find(name)
        await self._recall(experiment)
        most = most_moments(experiment)
        return await self.report_worker.history(experiment, lambda: experiment.trail.moments(experiment.moment, most))

    async def _recall(self, experiment: LiveExperiment) -> None:
        """Read the responses from before the start, once, for what an experiment was like when there were fewer."""
        trail = experiment.trail
        async with trail.reading:
            if trail.unread:
                pieces = self._store.export(experiment.number, EXPORT_PAGE_ROWS)
                trail.recall(await asyncio.to_thread(history.replay, pieces, trail.unread, trail.kept[0]))

    async def tallies(self, name: str) -> Tallies:
        """Return all that the agent learns from."""
        return await self.report_worker.tallies(self.find(name))

    async def export(self, name: str) -> Iterator[str]:
        """Return the responses in the order in which they were counted, as CSV in pieces.

        The first are read now: a reply that has begun cannot say any more that the store is unavailable.
        """
        experiment = self.find(name)
        pieces = self._store.export(experiment.number, EXPORT_PAGE_ROWS)
        first = await asyncio.to_thread(next, pieces, ())
        return csv(chain([first], pieces), experiment.menu, lambda arm: experiment.records[arm].name)

    async def check(self) -> None:
        """Raise `Unavailable` when the store cannot write, or not within some seconds."""
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                await self.committer.run(self._store.check)
        except TimeoutError:
            raise Unavailable(f"the store has written nothing for {READY_TIMEOUT_S:g} s") from None

    async def sizes(self) -> StoreSizes:
        """Return how large the store is, where it knows; this is asked beside the thread that writes."""
        store = self._store
        return await asyncio.to_thread(store.sizes) if isinstance(store, SizedStore) else StoreSizes(None)

    async def forget(self) -> None:
        """Remove what is no longer needed: nonces of expired tickets, in small chunks, and keys that no longer hold.

        Experiments that nobody asks for let go of their expired tickets here too.
        """
        for experiment in self.experiments.values():
            experiment.expire(self.now)
        self.allowances.forget(self.now)
        expired = self._clock.last_expired(self._store.forgotten)  # a clock that leaps ahead must not make us forget
        while await self.committer.run(self._store.forget, expired, NONCES_PER_DELETION):
            pass
        if isinstance(self._store, SharedStore):
            await self.committer.run(self._store.settle, expired, MISSING)
        await self.committer.run(self.keys.prune, expired)

    async def write_events(self) -> None:
        """Write what has happened since the last commit."""
        await self.committer.write_events()

    def reject(self, reason: str) -> None:
        """Count a request that belongs to no experiment, and was refused."""
        self._rejected_here[reason] += 1
        self.committer.note(0, 0, reason)

    def _forged(self) -> Refusal:
        self.reject(Code.FORGED)
        return Refusal(403, Code.FORGED, "this is not a ticket of this server")

    def _restore(self, stored: StoredExperiment, events: Iterable[Event]) -> LiveExperiment:
        note, is_shared = (self.committer.note, False) if self.peers is None else (self.peers.note, True)
        return restore(stored, events, note, self.started_at, is_shared=is_shared)

    def find(self, name: str) -> LiveExperiment:
        """Return an experiment by its name, or refuse."""
        experiment = self.experiments.get(name)
        if experiment is None:
            raise Refusal(404, Code.NOT_FOUND, "there is no experiment of this name")
        return experiment

    def apply_totals(self, totals: Sequence[CellTotal]) -> None:
        """Take over the totals of cells, as the store has them."""
        for cell in totals:
            if cell.experiment in self.numbered:  # it may have been deleted meanwhile
                self.numbered[cell.experiment].count(cell)
        for number in {cell.experiment for cell in totals} & self.numbered.keys():
            self.numbered[number].remember()
