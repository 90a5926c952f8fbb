"""The agent server apart from HTTP: decisions, responses, reports. Commands are in experiments/commands.py."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain
from time import time
from typing import TYPE_CHECKING, TypeVar

from ldpbandits.checks import brief
from ldpbandits.server.api.csv_export import csv, shuffled
from ldpbandits.server.api.messages import AcceptanceMessage, Accepted, Counted, Decision, ResponseMessage
from ldpbandits.server.api.refusals import REFUSED, Refusal
from ldpbandits.server.console_links import Links
from ldpbandits.server.experiments import history, one_look
from ldpbandits.server.experiments.allowances import Allowances
from ldpbandits.server.experiments.commands import Commands
from ldpbandits.server.experiments.events import MISSING, UNACCEPTED
from ldpbandits.server.experiments.live import LiveExperiment
from ldpbandits.server.experiments.offers import EncodedOffer, make_offer
from ldpbandits.server.experiments.restoring import restore
from ldpbandits.server.experiments.tickets import Ticket
from ldpbandits.server.keys import Keys, Role
from ldpbandits.server.peers.peers import Peers
from ldpbandits.server.process.clock import Clock
from ldpbandits.server.process.front_door import DEFAULT
from ldpbandits.server.process.meters import Meters
from ldpbandits.server.reports.report import make_tallies, most_moments, summarise
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
    acceptance,
)
from ldpbandits.server.store.committer import LARGEST_BATCH, Committer
from ldpbandits.server.webhooks import Receiver, Webhooks
from ldpbandits.spec.messages import Change, History, KeyReport, Report, Summary, Tallies
from ldpbandits.spec.protocol import Code

if TYPE_CHECKING:
    from ldpbandits.server.proxy_sign_in import ProxySignIn

NONCES_PER_DELETION = 500
"""Nonces that are removed in one transaction, for which responses wait."""

READY_CACHE_S, READY_TIMEOUT_S = 1.0, 3.0
"""Seconds for which a readiness check is cached, and its timeout, which is shorter than that of `ldpbandits health`."""

RETRY_AFTER_CAP_S = 60
"""Seconds after which a device retries a response that exceeded responses_per_hour."""

SUMMARIES_A_TURN = 100
"""Summaries that are computed in one turn of the event loop: a tenth of a millisecond."""

CHANGES_PER_PAGE = 100
"""Lines of the change log in one reply."""

EXPORT_PAGE_ROWS = 5000
"""Responses in one chunk of an export."""

T = TypeVar("T")


class Service:
    """An agent server. It runs in one event loop, apart from the thread that writes."""

    def __init__(
        self,
        store: Store,
        environment: Mapping[str, str] | None = None,
        *,
        keep: Callable[[Mapping[Role, str]], Mapping[Role, str]] = lambda keys: keys,
        now: Callable[[], float] = time,
        largest_batch: int = LARGEST_BATCH,
    ) -> None:
        """Load the state of the store; new keys, if any, are passed to `keep` before they are valid."""
        self._store = store
        self._wall = now
        self._clock = Clock(now)
        self.peers = Peers(self, store) if isinstance(store, SharedStore) else None
        """The other workers on the same store; None where the store cannot be shared."""
        with store.startup_lock() if isinstance(store, SharedStore) else nullcontext():
            self.keys = Keys(store, environment or {}, keep, int(now()))
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
        """Serialises the changes of experimenters: each holds the lock from its checks to its end."""
        self.ready = SingleFlight(self.check, READY_CACHE_S)
        """Raises `Unavailable` when the store cannot write; single flight limits the rate of these writes."""
        self.commands = Commands(self, store)
        """The commands, as the server itself gives them; those of the holder of a key are `commands.of(holder)`."""
        self.allowances = Allowances(self.keys)
        self.links = Links(lambda: self.now, self.peers)
        self.proxy: ProxySignIn | None = None
        """The proxy in front that signs people in to the console, if any."""
        self.webhooks: Webhooks | None = None
        """Tells another server of verdicts and stops, if any."""
        self.offer_max_age = DEFAULT.offer_max_age
        """Seconds for which caches and devices may keep an offer."""
        self.ending = asyncio.Event()
        """Set when the server begins to stop: it ends the streams."""
        self.lost: str | None = None
        """Why the state in memory is invalid, so that the server must restart; None while it is valid."""

    def tell(self, receiver: Receiver | None) -> None:
        """Tell this receiver of verdicts and stops, if there is one."""
        self.webhooks = None if receiver is None else Webhooks(self, self._store, receiver)

    def close(self) -> None:
        """Finish running work and close the store."""
        self.report_worker.close()
        self.committer.close()
        if self.peers is not None:
            self.peers.close()
        self._store.close()

    async def change(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run an experimenter's change exclusively; return when every worker has applied it."""
        async with self.changing:
            return await (work() if self.peers is None else self.peers.change(work))

    async def poll_unknown(self) -> bool:
        """Poll the other workers for something unknown here; return False when there are none."""
        if self.peers is not None:
            await self.peers.poll_unknown()
        return self.peers is not None

    async def refresh(self, name: str) -> None:
        """Poll unless the state of an experiment is fresh; call this before a request uses it."""
        if self.peers is not None:
            if name not in self.experiments:
                await self.peers.poll_unknown()
            if name in self.experiments:
                await self.peers.refresh(self.experiments[name])

    async def refresh_keys(self) -> None:
        """Poll unless the keys are fresh; call this before a key is checked."""
        if self.peers is not None:
            await self.peers.refresh_keys()

    async def refresh_all(self, names: Iterable[str] | None = None) -> None:
        """Poll unless these experiments are fresh, by default all; call this before they are listed."""
        if self.peers is not None:
            listed = self.experiments if names is None else names
            await self.peers.refresh_all([self.experiments[name] for name in listed if name in self.experiments])

    @property
    def rejected(self) -> Counter[str]:
        """The number of refused requests that belong to no experiment, by reason."""
        return self._rejected_here + self._rejected_elsewhere

    def apply_peer_events(self, events: Iterable[Event]) -> None:
        """Apply events of no experiment from before the start or of other workers."""
        self._rejected_elsewhere = Counter({event.kind: event.times for event in events})

    def load(self, stored: StoredExperiment) -> LiveExperiment:
        """Load a new experiment, or apply the changes of a known one."""
        known = self.numbered.get(stored.number)
        if known is None:
            known = self._restore(stored, ())
        self.experiments[known.name] = self.numbered[known.number] = known
        known.apply_change(stored)
        return known

    def unload(self, number: int) -> None:
        """Remove a deleted experiment from memory."""
        experiment = self.numbered.pop(number, None)
        if experiment is not None and self.experiments.get(experiment.name) is experiment:
            del self.experiments[experiment.name]
        self.forget_events(number)

    def forget_events(self, number: int) -> list[Event]:
        """Drop the unwritten events of a deleted experiment, and return them."""
        if self.peers is not None:
            self.peers.forget(number)
        return self.committer.forget_events(number)

    @property
    def now(self) -> int:
        """The time in seconds; it is never before the expiry of a removed nonce."""
        return max(int(self._wall()), self._store.forgotten)

    def role(self, key: bytes) -> Role | None:
        """Return the role of this key, or None when it is not valid now."""
        return self.keys.role(key, self.now)

    def offer(self, name: str) -> EncodedOffer:
        """Return the present offer of an experiment, encoded once for each of its versions."""
        experiment = self.find(name)
        if experiment.offer is None:
            experiment.offer = make_offer(experiment, self.offer_max_age)
        return experiment.offer

    def decide(self, name: str, allowance: str | None = None) -> Decision:
        """Assign an arm, without a write."""
        experiment = self.find(name)
        if experiment.status == "paused":
            raise Refusal(409, Code.PAUSED, f"the experiment {name} is paused")
        if experiment.status == "closed":
            raise Refusal(410, Code.CLOSED, f"the experiment {name} is closed")
        if experiment.shipped is not None:
            shown = experiment.records[experiment.shipped].name
            return Decision(experiment.shipped, shown, offer=self.offer(name).version)
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
            offer=self.offer(name).version,
        )

    async def accept(self, message: AcceptanceMessage) -> Accepted:
        """Count a pull as accepted, exactly once; return when that is on disk."""
        ticket, experiment, now = await self._find_ticket(message.ticket)
        if ticket.expires_at <= now:
            outcome = Outcome.EXPIRED
        else:
            outcome = await self.committer.count(acceptance(ticket))
            if experiment.number not in self.numbered:  # it was deleted meanwhile
                raise self._forged()
        experiment.apply(ticket, outcome, now)
        _refuse(outcome)
        return Accepted("accepted" if outcome is Outcome.ACCEPTED else "duplicate")

    async def respond(self, message: ResponseMessage) -> Counted:
        """Count a response exactly once; return when it is on disk."""
        ticket, experiment, now = await self._find_ticket(message.ticket)
        answer = experiment.answer(ticket, message)
        if ticket.expires_at <= now:
            outcome = Outcome.EXPIRED
        elif answer is None:
            outcome = Outcome.IMPOSSIBLE
        else:
            outcome = await self._count(experiment, answer)
            if experiment.number not in self.numbered:  # it was deleted meanwhile
                raise self._forged()
        if not experiment.apply(ticket, outcome, now):
            experiment.count_event(ticket.arm, outcome.value)
        _refuse(outcome)
        return Counted("duplicate" if outcome is Outcome.DUPLICATE else "counted")

    async def _count(self, experiment: LiveExperiment, answer: Answer) -> Outcome:
        """Count a response unless the hour's cap is reached: then its device retries later."""
        if not experiment.admits_response():
            raise Refusal(
                429,
                Code.RETRY,
                "this experiment counts no more responses now; retry later",
                RETRY_AFTER_CAP_S,
            )
        experiment.traffic.counting += 1
        try:
            return await self.committer.count(answer)
        finally:
            experiment.traffic.counting -= 1

    def _on_counted_late(self, answer: Answer, outcome: Outcome) -> None:
        """Apply an answer that was counted after its request had ended: a retry is a duplicate."""
        experiment = self.numbered.get(answer.ticket.experiment)
        if experiment is not None:
            experiment.apply(answer.ticket, outcome, self.now)

    async def _find_ticket(self, text: str) -> tuple[Ticket, LiveExperiment, int]:
        """Verify a ticket, and return it with its experiment and the present second; refuse one that is not ours."""
        if self.peers is not None:
            await self.peers.refresh_secrets()
        now = self.now
        found = self._read(text, now)
        if found is None and await self.poll_unknown():
            found = self._read(text, now)
        if found is None:
            raise self._forged()
        return *found, now

    def _read(self, text: str, now: int) -> tuple[Ticket, LiveExperiment] | None:
        """Verify a ticket; None when it is not ours, or its experiment or arm is unknown.

        That may be a ticket of ours, where another worker has made them, or the database was restored from a copy.
        """
        ticket = self.keys.signer.read(text, now)
        experiment = None if ticket is None else self.numbered.get(ticket.experiment)
        if ticket is None or experiment is None or max(ticket.arm, ticket.rival or 0) >= len(experiment.records):
            return None
        return ticket, experiment

    async def summaries(self) -> list[Summary]:
        """Return a summary of every experiment; decisions are served in between."""
        await self.refresh_all()
        lines = []
        for number, experiment in enumerate(list(self.experiments.values()), 1):
            lines.append(summarise(experiment))
            if number % SUMMARIES_A_TURN == 0:
                await asyncio.sleep(0)
        return lines

    async def report(self, name: str) -> Report:
        """Return the report of an experiment; a worker beside the event loop computes the intervals."""
        experiment = self.find(name)
        experiment.expire(self.now)
        return await self.report_worker.report(experiment, lambda: self.rejected[Code.FORGED])

    async def history(self, name: str) -> History:
        """Return the estimates by number of responses, also computed beside the event loop."""
        experiment = self.find(name)
        await self._recall(experiment)
        trail, most = experiment.trail, most_moments(experiment)
        moments = lambda: trail.moments(experiment.moment, most)  # noqa: E731 - when its turn comes
        return await self.report_worker.history(experiment, moments)

    async def _recall(self, experiment: LiveExperiment) -> None:
        """Replay the responses from before the start, once, into the history."""
        trail = experiment.trail
        async with trail.reading:
            if trail.unread:
                pieces = self._store.export(experiment.number, EXPORT_PAGE_ROWS)
                levels = len(experiment.menu)
                unit, read = experiment.menu.unit, experiment.read_units
                replay = partial(history.replay, pieces, trail.unread, trail.kept[0], levels)
                trail.recall(await asyncio.to_thread(replay, lambda value: read(value * unit)))

    async def changes(self, name: str | None = None, before: int | None = None) -> list[Change]:
        """Return the newest lines of the change log, of an experiment or of all; a deleted one has its lines."""
        found = await self.committer.run(self._store.changes, name, before, CHANGES_PER_PAGE)
        if name is not None and not found and not await self.committer.run(self._store.changes, name, None, 1):
            self.find(name)  # a deleted experiment is not found, and has lines
        return found

    async def key_reports(self) -> list[KeyReport]:
        """Return all valid keys, without the keys themselves."""
        return await self.committer.run(self.keys.reports, self.now)

    async def tallies(self, name: str) -> Tallies:
        """Return the totals that the agent learns from."""
        return make_tallies(self._find_shown(name))

    async def export(self, name: str, *, in_order: bool = False) -> Iterator[str]:
        """Return the responses as chunks of CSV: shuffled, or in the order in which they were counted.

        The first are read now: a reply that has begun cannot say any more that the store is unavailable.
        """
        experiment = self._find_shown(name)
        if experiment.has_dropped:
            told = f"the single responses of {name} were dropped (retain = tallies): its tallies have their exact sums"
            raise Refusal(410, Code.DROPPED, told)
        read = partial(self._store.export, experiment.number, EXPORT_PAGE_ROWS)
        pieces = iter(read() if in_order else shuffled(read, experiment.responses))
        first = await asyncio.to_thread(next, pieces, ())
        has_rivals = experiment.agent.duels is not None
        return csv(
            chain([first], pieces), experiment.menu, lambda arm: experiment.records[arm].name, has_rivals=has_rivals
        )

    async def check(self) -> None:
        """Raise `Unavailable` when the store cannot write within `READY_TIMEOUT_S`."""
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                await self.committer.run(self._store.check)
        except TimeoutError:
            raise Unavailable(f"the store has committed nothing for {READY_TIMEOUT_S:g} s") from None

    async def sizes(self) -> StoreSizes:
        """Return the sizes of the store, where known, without waiting for the writing thread."""
        store = self._store
        return await asyncio.to_thread(store.sizes) if isinstance(store, SizedStore) else StoreSizes(None)

    async def forget(self) -> None:
        """Remove nonces of expired tickets, in small chunks, and expired keys.

        Experiments that nobody asks for let go of their expired tickets here too.
        """
        for experiment in self.experiments.values():
            experiment.expire(self.now)
        self.allowances.forget(self.now)
        expired = self._clock.last_expired(self._store.forgotten)  # a clock that leaps ahead must not make us forget
        while await self.committer.run(self._store.forget, expired, NONCES_PER_DELETION):
            pass
        if isinstance(self._store, SharedStore):
            await self.committer.run(self._store.settle, expired, MISSING, UNACCEPTED)
        await self.committer.run(self.keys.prune, expired)
        await self.committer.run(self.keys.write_uses, self.now)
        for experiment in list(self.numbered.values()):
            await self.drop_responses(experiment)

    async def drop_responses(self, experiment: LiveExperiment) -> None:
        """Drop the single responses of an experiment that keeps tallies only, once it is over; tallies stay."""
        is_left = True
        while is_left and experiment.drops_responses and experiment.number in self.numbered:
            is_left, totals = await self.committer.run(self._store.drop_responses, experiment.number)
            self.apply_totals(totals)

    async def write_events(self) -> None:
        """Write the events since the last commit."""
        await self.committer.write_events()

    def reject(self, reason: str) -> None:
        """Count a refused request that belongs to no experiment."""
        self._rejected_here[reason] += 1
        self.committer.note(0, 0, reason)

    def _forged(self) -> Refusal:
        self.reject(Code.FORGED)
        return Refusal(403, Code.FORGED, "this is not a ticket of this server")

    def _restore(self, stored: StoredExperiment, events: Iterable[Event]) -> LiveExperiment:
        note, is_shared = (self.committer.note, False) if self.peers is None else (self.peers.note, True)
        return restore(stored, events, note, self.started_at, is_shared=is_shared)

    def find(self, name: str) -> LiveExperiment:
        """Return an experiment by its name, or refuse with 404."""
        experiment = self.experiments.get(name)
        if experiment is None:
            raise Refusal(404, Code.NOT_FOUND, f"there is no experiment named {brief(name)}")
        return experiment

    def _find_shown(self, name: str) -> LiveExperiment:
        """Return an experiment whose responses may be seen, or refuse."""
        experiment = self.find(name)
        if experiment.is_hidden:
            told = (
                f"nobody sees the responses of {name} before its one look, at {experiment.settings.one_look:,} of them"
            )
            raise Refusal(409, Code.HIDDEN, told)
        return experiment

    async def take_look(self, experiment: LiveExperiment) -> None:
        """Write the sums of the first responses of an experiment with one look, once all of them are in."""
        count = experiment.settings.one_look
        if count is None or not experiment.is_look_due:
            return
        pieces = self._store.export(experiment.number, EXPORT_PAGE_ROWS)
        look = await asyncio.to_thread(one_look.first_sums, pieces, count, len(experiment.menu))
        is_whole = sum(sum(numbers[::2]) for numbers in look.values()) == count
        if is_whole and self.experiments.get(experiment.name) is experiment:
            for arm, kind in one_look.look_events(look).items():
                experiment.count_event(arm, kind)
            await self.write_events()

    def apply_totals(self, totals: Sequence[CellTotal]) -> None:
        """Apply the totals of cells as the store has them."""
        for cell in totals:
            if cell.experiment in self.numbered:  # it may have been deleted meanwhile
                self.numbered[cell.experiment].count(cell)
        for number in {cell.experiment for cell in totals} & self.numbered.keys():
            self.numbered[number].remember()


def _refuse(outcome: Outcome) -> None:
    """Raise the refusal of an answer that does not count, if it does not."""
    if outcome in REFUSED:
        status, sentence = REFUSED[outcome]
        raise Refusal(status, outcome.value, sentence)
