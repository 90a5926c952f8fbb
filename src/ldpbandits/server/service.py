"""What the server does, apart from HTTP: decisions, responses, and the experimenter's changes."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from time import time

from ldpbandits.errors import ParameterError
from ldpbandits.server import experiments, history, limits, reports
from ldpbandits.server.committer import LARGEST_BATCH, Committer
from ldpbandits.server.experiments import ArmRecord, LiveExperiment
from ldpbandits.server.export import csv
from ldpbandits.server.guardrails import check_room
from ldpbandits.server.keys import Keys, Role
from ldpbandits.server.limits import MOST_ARMS
from ldpbandits.server.links import Links
from ldpbandits.server.messages import (
    Counted,
    Decision,
    History,
    Key,
    NewArm,
    NewExperiment,
    NewKey,
    Report,
    ResponseMessage,
    ShippedArm,
    Summary,
    Tallies,
)
from ldpbandits.server.refusals import REFUSED, Refusal
from ldpbandits.server.store import CellTotal, Event, Exists, Outcome, Status, Store, StoredExperiment, Unavailable
from ldpbandits.server.warm_start import known_totals
from ldpbandits.spec.protocol import Code
from ldpbandits.types import Arm

CHUNK = 500
"""Used nonces are removed so many at a time: responses wait for no more than that."""

EXPORT_ROWS = 5000
"""An export is read and sent so many responses at a time."""


class Service:
    """An agent server. All of it runs in one event loop, but for the thread that writes."""

    def __init__(
        self,
        store: Store,
        environment: Mapping[str, str] | None = None,
        *,
        now: Callable[[], float] = time,
        largest_batch: int = LARGEST_BATCH,
    ) -> None:
        """Take up where the store was left."""
        self._store = store
        self._wall = now
        self.keys = Keys(store, environment or {})
        self.committer = Committer(store, self._take_over, largest=largest_batch)
        self.started_at = int(now())
        events: dict[int, list[Event]] = defaultdict(list)
        for event in store.events():
            events[event.experiment].append(event)
        self._numbered = {stored.number: self._restore(stored, events[stored.number]) for stored in store.experiments()}
        self.experiments = {experiment.name: experiment for experiment in self._numbered.values()}
        self.rejected: Counter[str] = Counter({event.kind: event.times for event in events[0]})
        self.changing = asyncio.Lock()
        """Held by an experimenter's change from its checks to its end: such changes happen one after the other."""
        self.links = Links(lambda: self.now, lambda: self.keys.hash_of(Role.ADMIN))
        self.ending = asyncio.Event()
        """Set when the server is about to stop: replies without an end are to end now."""

    def close(self) -> None:
        """Finish what is under way and close the store."""
        self.committer.close()
        self._store.close()

    @property
    def now(self) -> int:
        """The time in seconds. It never goes back behind the expiry of a nonce that has been removed."""
        return max(int(self._wall()), self._store.forgotten)

    def role(self, key: bytes) -> Role | None:
        """Return what the holder of this key may do, or None when it does not hold now."""
        return self.keys.role(key, self.now)

    def decide(self, name: str) -> Decision:
        """Hand out an arm; nothing is written."""
        experiment = self._find(name)
        if experiment.status == "paused":
            raise Refusal(409, Code.PAUSED, f"the experiment {name} is paused")
        if experiment.status == "closed":
            raise Refusal(410, Code.CLOSED, f"the experiment {name} is closed")
        if experiment.shipped is not None:
            return Decision(experiment.shipped, experiment.records[experiment.shipped].name)
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
            expires_in=experiment.ticket_lifetime,
        )

    async def respond(self, message: ResponseMessage) -> Counted:
        """Count a response, exactly once; return when that is on disk."""
        now = self.now
        ticket = self.keys.signer.read(message.ticket, now)
        experiment = None if ticket is None else self._numbered.get(ticket.experiment)
        # A ticket of ours may name an arm that we do not have when the database was restored from a copy.
        if ticket is None or experiment is None or ticket.arm >= len(experiment.records):
            raise self._forged()
        answer = experiment.answer(ticket, message)
        if ticket.expires_at <= now:
            outcome = Outcome.EXPIRED
        elif answer is None:
            outcome = Outcome.IMPOSSIBLE
        else:
            outcome = await self.committer.count(answer)
            if experiment.number not in self._numbered:  # it was deleted meanwhile
                raise self._forged()
        if outcome is Outcome.COUNTED or outcome is Outcome.DUPLICATE:
            experiment.answered(ticket, is_new=outcome is Outcome.COUNTED)
        if outcome is not Outcome.COUNTED:
            experiment.reject(ticket, outcome.value)
        if outcome in REFUSED:
            status, sentence = REFUSED[outcome]
            raise Refusal(status, outcome.value, sentence)
        return Counted(outcome.value)

    async def create(self, new: NewExperiment) -> Report:
        """Check what the types of a new experiment cannot, keep it and start it."""
        try:
            menu = limits.menu_from_json(new.curator)
            rule = limits.rule_of(new.rule, menu)
            known = [] if new.warm_start is None else known_totals(new.warm_start, new.arms, menu, rule)
            definition = experiments.define(new, menu, rule, self.now, known)
        except ParameterError as error:
            raise Refusal(422, Code.INVALID, str(error)) from None
        refusal = menu.transform.refusal(definition.default_reward)
        if refusal is not None:
            raise Refusal(422, Code.INVALID, refusal.replace("a reward", "the default reward", 1))
        if len(set(new.arms)) < len(new.arms):
            raise Refusal(422, Code.INVALID, "the arms of an experiment have different names")
        try:
            stored = await self.committer.run(self._store.create, definition, new.arms, known)
        except Exists:
            raise Refusal(409, Code.EXISTS, f"there is already an experiment {new.name}") from None
        experiment = self._restore(stored, ())
        self.experiments[new.name] = self._numbered[experiment.number] = experiment
        return await self.report(new.name)

    def summaries(self) -> list[Summary]:
        """Return every experiment in a line."""
        return [reports.summary(experiment) for experiment in self.experiments.values()]

    async def report(self, name: str) -> Report:
        """Return everything about an experiment; the intervals are worked out beside the event loop."""
        experiment = self._find(name)
        with suppress(Unavailable):  # then the forecast has what came since the start to go by
            await self._recall(experiment)
        experiment.expire(self.now)
        before = experiment.trail.at(experiment.responses / 2)
        return await asyncio.to_thread(reports.report, experiment.copy(), before, self.rejected[Code.FORGED])

    async def history(self, name: str) -> History:
        """Return how the estimates came about; worked out beside the event loop too."""
        experiment = self._find(name)
        await self._recall(experiment)
        moments = experiment.trail.moments(experiment.moment, reports.most_moments(experiment))
        return await asyncio.to_thread(reports.history, experiment.copy(), moments)

    async def _recall(self, experiment: LiveExperiment) -> None:
        """Read the responses from before the start, once, for what an experiment was like when there were fewer."""
        trail = experiment.trail
        async with trail.reading:
            if trail.unread:
                pieces = self._store.export(experiment.number, EXPORT_ROWS)
                trail.recall(await asyncio.to_thread(history.replay, pieces, trail.unread, trail.kept[0]))

    def tallies(self, name: str) -> Tallies:
        """Return all that the agent learns from."""
        return reports.tallies(self._find(name))

    def export(self, name: str) -> Iterator[str]:
        """Return the responses in the order in which they were counted, as CSV in pieces."""
        experiment = self._find(name)
        pieces = self._store.export(experiment.number, EXPORT_ROWS)
        return csv(pieces, experiment.menu, lambda arm: experiment.records[arm].name)

    async def set_status(self, name: str, status: Status) -> Report:
        """Pause: no more decisions, but responses that are out still count. Close: neither, and for good."""
        experiment = self._find(name)
        if experiment.status == "closed" and status != "closed":
            raise Refusal(409, Code.CLOSED, f"the experiment {name} is closed for good")
        await self._set_status(experiment, status)
        return await self.report(name)

    async def ship(self, name: str, chosen: ShippedArm) -> Report:
        """Give everybody this arm, and ask for no responses; those that are out still count."""
        experiment = self._find(name)
        self._check_not_closed(experiment)
        arm = experiment.number_of(chosen.arm)
        if arm is None:
            raise self._no_arm(experiment)
        if experiment.arms[arm].retired:
            raise Refusal(409, Code.RETIRED, f"the arm {experiment.records[arm].name} is retired")
        await self._set_status(experiment, "shipped", arm)
        return await self.report(name)

    async def delete(self, name: str) -> Summary:
        """Remove an experiment and all its responses, for good; tickets of it are those of nobody."""
        experiment = self._find(name)
        number, told = experiment.number, reports.summary(experiment)
        # It is gone from here on: nothing new may be written of it behind its deletion.
        del self.experiments[name], self._numbered[number]
        events = self.committer.forget_events(number)
        try:
            await self.committer.run(self._store.delete, number)
        except BaseException:
            self.experiments[name] = self._numbered[number] = experiment
            self.committer.put_back(events)
            raise
        return told

    async def _set_status(self, experiment: LiveExperiment, status: Status, shipped: int | None = None) -> None:
        await self.committer.run(self._store.set_status, experiment.number, status, shipped)
        experiment.status, experiment.shipped = status, shipped

    async def add_arm(self, name: str, new: NewArm) -> Report:
        """Add an arm; it gets the next number."""
        experiment = self._find(name)
        self._check_not_closed(experiment)
        if len(experiment.records) >= MOST_ARMS:
            raise Refusal(409, Code.FULL, f"an experiment has at most {MOST_ARMS} arms, retired ones included")
        try:
            check_room(experiment.settings, sum(not arm.retired for arm in experiment.arms) + 1)
        except ParameterError as error:
            raise Refusal(409, Code.FULL, str(error)) from None
        try:
            await self.committer.run(self._store.add_arm, experiment.number, new.name)
        except Exists:
            raise Refusal(409, Code.EXISTS, f"the experiment {name} has or had an arm of this name") from None
        experiment.agent.add_arm()
        experiment.records.append(ArmRecord(new.name))
        return await self.report(name)

    async def retire_arm(self, name: str, arm: int) -> Report:
        """Hand this arm out no more; responses of pulls that are out still count."""
        experiment = self._find(name)
        self._check_not_closed(experiment)
        arms = experiment.arms
        if not 0 <= arm < len(arms):
            raise self._no_arm(experiment)
        if not arms[arm].retired:
            if experiment.shipped == arm:
                raise Refusal(409, Code.SHIPPED, "everybody gets this arm: ship another one or resume first")
            if sum(not other.retired for other in arms) == 1:
                raise Refusal(409, Code.LAST, "the last arm cannot be retired: close the experiment instead")
            await self.committer.run(self._store.retire_arm, experiment.number, arm)
            experiment.agent.retire(Arm(arm))
        return await self.report(name)

    async def rotate(self, what: str, new: NewKey) -> Key:
        """Make a new key, or a new secret to sign tickets with."""
        match what:
            case "admin" | "viewer" | "client":
                role = Role(what)
                if self.keys.is_fixed(role):
                    raise Refusal(409, Code.ENVIRONMENT, f"the {what} key is set in the server's environment")
                return Key(what, await self.committer.run(self.keys.rotate, role, self.now, int(new.grace or 0)))
            case "signing":
                if self.keys.is_secret_fixed:
                    raise Refusal(409, Code.ENVIRONMENT, "the signing secret is set in the server's environment")
                longest = max((experiment.ticket_lifetime for experiment in self.experiments.values()), default=0)
                grace = longest if new.grace is None else int(new.grace)
                await self.committer.run(self.keys.rotate_secret, self.now, grace)
                return Key("signing", None)
            case _:
                raise Refusal(404, Code.NOT_FOUND, "a key is admin, viewer, client or signing")

    async def check(self) -> None:
        """Raise `Unavailable` when the store does not answer."""
        await self.committer.run(self._store.check)

    async def forget(self) -> None:
        """Remove what is no longer needed: nonces of expired tickets, in small chunks, and keys that no longer hold.

        Experiments that nobody asks for let go of their expired tickets here too.
        """
        for experiment in self.experiments.values():
            experiment.expire(self.now)
        while await self.committer.run(self._store.forget, self.now, CHUNK):
            pass
        await self.committer.run(self.keys.prune, self.now)

    async def write_events(self) -> None:
        """Write what has happened since the last commit."""
        await self.committer.write_events()

    def reject(self, reason: str) -> None:
        """Count a request that belongs to no experiment, and was refused."""
        self.rejected[reason] += 1
        self.committer.note(0, 0, reason)

    def _forged(self) -> Refusal:
        self.reject(Code.FORGED)
        return Refusal(403, Code.FORGED, "this is not a ticket of this server")

    def _restore(self, stored: StoredExperiment, events: Iterable[Event]) -> LiveExperiment:
        return experiments.restore(stored, events, self.committer.note, self.started_at)

    def _find(self, name: str) -> LiveExperiment:
        experiment = self.experiments.get(name)
        if experiment is None:
            raise Refusal(404, Code.NOT_FOUND, "there is no experiment of this name")
        return experiment

    @staticmethod
    def _no_arm(experiment: LiveExperiment) -> Refusal:
        told = f"the experiment {experiment.name} has no such arm; it has {experiment.listed}"
        return Refusal(404, Code.NOT_FOUND, told)

    @staticmethod
    def _check_not_closed(experiment: LiveExperiment) -> None:
        if experiment.status == "closed":
            raise Refusal(409, Code.CLOSED, f"the experiment {experiment.name} is closed for good")

    def _take_over(self, totals: list[CellTotal]) -> None:
        for cell in totals:
            if cell.experiment in self._numbered:  # it may have been deleted meanwhile
                self._numbered[cell.experiment].count(cell)
        for number in {cell.experiment for cell in totals} & self._numbered.keys():
            self._numbered[number].remember()
