"""An experiment in memory: its agent, its open tickets, and its counts of events."""

import json
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, inf
from typing import Any, TypeAlias

from ldpbandits.agent.agent import Agent
from ldpbandits.agent.bound_rule import BoundRule, bind_rule
from ldpbandits.agent.rules import Rule, rule_from_json, rule_to_json
from ldpbandits.agent.tally import ArmTally, LevelTally, Tally
from ldpbandits.errors import DatabaseError
from ldpbandits.server.api.messages import NewExperiment, ResponseMessage
from ldpbandits.server.experiments.guardrails import Guardrails, check_room
from ldpbandits.server.experiments.history import Moment, Trail
from ldpbandits.server.experiments.open_tickets import OpenTickets
from ldpbandits.server.experiments.settings import Settings, report_delay
from ldpbandits.server.experiments.tickets import Ticket, new_nonce
from ldpbandits.server.experiments.traffic import Traffic
from ldpbandits.server.process.clock import elapsed
from ldpbandits.server.store import Answer, CellTotal, Definition, Event, Status, StoredArm, StoredExperiment
from ldpbandits.spec.menu import Menu
from ldpbandits.types import Arm

READING_UNIT = 2.0**-20
"""The unit in which a rule's readings are stored as integers: sums are exact, and our rules lose nothing."""


MOST_LISTED = 20

DECISION, MISSING, STOPPED = "decision", "missing", "stopped"
"""Kinds of events; the other kinds are the outcomes of rejected responses. `stopped`: the experiment stopped itself."""

JUMP, CAPPED = "jump", "capped"
"""Kinds of incidents, which are events too: the traffic jumped; the experiment paused itself above its cap."""

INCIDENTS = {
    JUMP: "the traffic of the experiment %s has jumped within a minute: it will not ship an arm by itself",
    CAPPED: "the experiment %s paused itself: more responses came within an hour than its responses_per_hour",
}
"""The log line of each incident."""

_log = logging.getLogger(__name__)

Note: TypeAlias = Callable[[int, int, str, int], None]
"""Called with an event: experiment, arm, kind, and the number of times it happened."""


@dataclass
class ArmRecord:
    """An arm's name, its exact totals, in units, and the counts of its decisions and missing answers."""

    name: str
    cells: dict[int, CellTotal] = field(default_factory=dict)
    decided: int = 0
    """Decisions of this process."""
    decided_elsewhere: int = 0
    """Decisions before this process started, or by other workers."""
    missed: int = 0
    missed_elsewhere: int = 0
    out_elsewhere: int = 0
    """Open tickets that were not issued here."""
    out: int = 0
    """Open tickets of all workers."""
    others_elsewhere: Counter[str] = field(default_factory=Counter)
    """Events of other kinds, before this process started or by other workers."""

    @property
    def decisions(self) -> int:
        """The number of decisions for this arm."""
        return self.decided + self.decided_elsewhere

    @property
    def missing(self) -> int:
        """The number of its tickets that expired without an answer."""
        return max(0, self.missed + self.missed_elsewhere)

    @property
    def total(self) -> int:
        """The sum of its responses, in units."""
        return sum(cell.total for cell in self.cells.values())


@dataclass
class LiveExperiment:
    """One experiment. The store holds its totals and events too; open tickets are counted in memory only."""

    number: int
    name: str
    menu: Menu
    rule: Rule
    settings: Settings
    ticket_lifetime: int
    default_reward: float
    status: Status
    shipped: int | None
    created_at: int
    agent: Agent
    records: list[ArmRecord]
    open: OpenTickets
    lost_until: int | None
    """When the last ticket from before the start expires; None afterwards, or where workers share the store."""
    note: Note
    trail: Trail
    traffic: Traffic
    is_shared: bool = False
    """Whether other workers assign arms and count responses, too."""
    fresh_until: float = inf
    """The time, of a monotonic clock, until which arms may be assigned by the last poll."""
    is_followed: bool = True
    """Whether the peers' updates were polled when the traffic was last sampled."""
    asked_at: float = -inf
    """When the last request for it arrived, by a monotonic clock."""
    guardrails: Guardrails | None = None
    rejected_here: Counter[str] = field(default_factory=Counter)
    others_elsewhere: Counter[str] = field(default_factory=Counter)
    """The sum of the arms' `others_elsewhere`."""
    incidents_here: Counter[str] = field(default_factory=Counter)
    stopped: bool = False
    """Whether it has stopped itself; an experimenter who resumes it knows that."""
    stops_elsewhere: int = 0
    """The number of such stops before the start or by another worker."""
    checked_at: int = -1
    """The number of responses at the last check whether to stop."""

    @cached_property
    def curator(self) -> dict[str, Any]:
        """The curator as devices receive it; with several epsilons, their owners pick one."""
        return self.menu.to_json()

    @property
    def arms(self) -> list[ArmTally]:
        """The tallies of all arms, by number."""
        return self.agent.tally.arms

    @property
    def listed(self) -> str:
        """The arms in use, for messages."""
        shown = [f"{n} ({record.name})" for n, record in enumerate(self.records) if not self.arms[n].retired]
        return ", ".join(shown[:MOST_LISTED]) + (", ..." if len(shown) > MOST_LISTED else "")

    def number_of(self, arm: int | str) -> int | None:
        """Return the number of an arm given by number or name; None when there is none."""
        if isinstance(arm, int):
            return arm if 0 <= arm < len(self.records) else None
        return next((number for number, record in enumerate(self.records) if record.name == arm), None)

    @property
    def rejected(self) -> Counter[str]:
        """The number of rejected responses, by reason."""
        counts = self.rejected_here + self.others_elsewhere
        for kind in (STOPPED, *INCIDENTS):
            del counts[kind]
        return counts

    @property
    def incidents(self) -> Counter[str]:
        """The number of jumps of the traffic, and of pauses above the cap."""
        return Counter({kind: self.incidents_here[kind] + self.others_elsewhere[kind] for kind in INCIDENTS})

    def report_incident(self, kind: str) -> None:
        """Count an incident in the store, and log it."""
        self.incidents_here[kind] += 1
        self.note(self.number, 0, kind, 1)
        _log.warning(INCIDENTS[kind], self.name, extra={"event": kind, "experiment": self.name})

    def decide(self, now: int, expires_at: int | None = None, nonce: bytes | None = None) -> Ticket:
        """Assign an arm and count the decision, without a write. A ticket has a random nonce by default."""
        self.expire(now)
        guardrails = self.guardrails
        arm = self.agent.select(None if guardrails is None else guardrails.among(self.agent.tally))
        ticket = Ticket(self.number, arm, expires_at or now + self.ticket_lifetime, nonce or new_nonce())
        self._change_open(ticket, 1)
        self._decided(arm)
        return ticket

    def _decided(self, arm: Arm) -> None:
        self.records[arm].decided += 1
        self.note(self.number, arm, DECISION, 1)

    def _change_open(self, ticket: Ticket, by: int) -> None:
        self.open.change(ticket.arm, ticket.expires_at, by)
        self.update_open(ticket.arm)

    def update_open(self, arm: Arm) -> None:
        """Set the agent's number of open tickets of this arm, here and elsewhere, that will be answered.

        It is rounded up: an arm with any open ticket must not look as if it had never been pulled.
        """
        record = self.records[arm]
        record.out = max(0, self.open.counts[arm] + record.out_elsewhere)
        self.agent.tally.set_out(arm, ceil(self.traffic.weight * record.out))

    def watch_traffic(self, now: int) -> None:
        """Sample the traffic when due, update the weight of open tickets, and report a jump.

        Without requests for the experiment, the peers' updates are not polled here. Updates that arrive together after
        such a time are no jump.
        """
        if self.fresh_until < elapsed():
            self.is_followed = False
            return
        if not self.is_followed:
            self.is_followed = True
            self.start_traffic(now)
        if not self.traffic.is_due(now):
            return
        weight, out = self.traffic.weight, sum(record.out for record in self.records)
        if self.traffic.sample(now, self.decisions, self._counted, out):
            self.report_incident(JUMP)
        if self.traffic.weight != weight:
            for number, record in enumerate(self.records):
                if record.out:
                    self.update_open(Arm(number))

    def start_traffic(self, now: int) -> None:
        """Start to sample the traffic with the present counts."""
        settled = sum(self.settled(arm) for arm in range(len(self.records)))
        self.traffic.start(now, settled, self._counted)

    @property
    def decisions(self) -> int:
        """The number of decisions for all arms."""
        return sum(record.decisions for record in self.records)

    @property
    def _counted(self) -> int:
        """The number of counted responses of all workers, without those of a warm start."""
        return self.responses - sum(self.settings.warm_pulls)

    def admits_response(self) -> bool:
        """Tell whether one more response may be counted within this hour."""
        return self.traffic.admits(self._counted)

    def expire(self, now: float) -> None:
        """Count expired open tickets as missing."""
        for arm, count in self.open.expire(now).items():
            self.miss(arm, count)
            self.update_open(arm)
        if self.lost_until is not None and now >= self.lost_until:
            self.lost_until = None
            for number, record in enumerate(self.records):
                if record.out_elsewhere:
                    self.miss(number, record.out_elsewhere)
                    record.out_elsewhere = 0
                    self.update_open(Arm(number))

    def miss(self, arm: int, count: int) -> None:
        """Count `count` more tickets of an arm as expired without an answer."""
        self.records[arm].missed += count
        self.note(self.number, arm, MISSING, count)

    def answered(self, ticket: Ticket, now: int) -> None:
        """Remove an open ticket whose response has been counted.

        A single process knows where a ticket belongs: it is open, here or from before the start; or it was counted as
        missing, as when the clock was set back; or a crash has lost its decision. With several workers it belongs to
        one of them, and the sums over all are right.
        """
        if not self.settings.allowance_required:  # an allowance's ticket does not show when it was issued
            self.traffic.answered(now - ticket.expires_at + self.ticket_lifetime)
        record = self.records[ticket.arm]
        if self.is_shared or self.open.has(ticket.arm, ticket.expires_at):
            self._change_open(ticket, -1)
        elif record.out_elsewhere:
            record.out_elsewhere -= 1
            self.update_open(ticket.arm)
        elif record.missing:
            self.miss(ticket.arm, -1)
        else:
            self._decided(ticket.arm)

    def settled(self, arm: int) -> int:
        """Return the number of decisions of an arm that are answered or missing."""
        return self.arms[arm].pulls - self.settings.warm(arm) + self.records[arm].missing

    def apply_peer_events(self, events: Iterable[Event], arms: Iterable[int] | None = None) -> None:
        """Apply the event totals from before the start and of peers, at these arms, or at every arm."""
        kinds: dict[int, Counter[str]] = defaultdict(Counter)
        for _, arm, kind, count in events:
            kinds[arm][kind] += count
        for number in range(len(self.records)) if arms is None else arms:
            record, counts = self.records[number], kinds[number]
            record.missed_elsewhere = counts.pop(MISSING, 0)
            record.decided_elsewhere = counts.pop(DECISION, 0)
            self.count_lost_decisions(number)
            if counts or record.others_elsewhere:
                self.others_elsewhere.subtract(record.others_elsewhere)
                self.others_elsewhere.update(counts)
                record.others_elsewhere = counts
        stops = self.others_elsewhere[STOPPED]
        if stops > self.stops_elsewhere:
            self.stopped, self.stops_elsewhere = True, stops

    def count_lost_decisions(self, arm: int) -> None:
        """Count answered decisions that no worker has published: a crash loses the last ones."""
        record = self.records[arm]
        record.decided_elsewhere = max(record.decided_elsewhere, self.settled(arm) - record.decided)

    def apply_change(self, stored: StoredExperiment) -> None:
        """Apply an experimenter's change that another worker has made; this is idempotent."""
        self.set_status(stored.status, stored.shipped)
        for arm in stored.arms[len(self.records) :]:
            self.agent.add_arm()
            self.records.append(ArmRecord(arm.name))
        for number, arm in enumerate(stored.arms):
            if arm.retired and not self.arms[number].retired:
                self.agent.retire(Arm(number))

    def set_status(self, status: Status, shipped: int | None) -> None:
        """Run, pause, ship or close; a resumed experiment begins a new hour of its cap."""
        is_resumed = status == "running" != self.status
        self.status, self.shipped = status, shipped
        if is_resumed:
            self.traffic.resume(self.decisions, self._counted)

    def reject(self, ticket: Ticket, reason: str) -> None:
        """Count a rejected response by its reason."""
        self.rejected_here[reason] += 1
        self.note(self.number, ticket.arm, reason, 1)

    def pending(self, arm: int) -> int:
        """Return the number of open tickets of this arm."""
        return self.records[arm].out

    def answer(self, ticket: Ticket, message: ResponseMessage) -> Answer | None:
        """Return a response as it is counted: in the cell of its epsilon; None when it is not a possible one."""
        level = self.menu.level(message.epsilon)
        value = None if level is None else self.menu.curators[level].in_units(message.response)
        if level is None or value is None:
            return None
        read = self.agent.bound_rule.read(message.response)
        return Answer(ticket, value, level, 0 if read is None else round(read / READING_UNIT))

    @property
    def responses(self) -> int:
        """The number of responses, those of a warm start included."""
        return self.agent.tally.responses

    @property
    def moment(self) -> Moment:
        """The present totals of all cells."""
        return _moment(self.records)

    def remember(self) -> None:
        """Add the present totals to the history, if due."""
        if self.responses >= self.trail.due:
            self.trail.add(self.moment)

    def count(self, cell: CellTotal) -> None:
        """Apply the totals of a cell as the store has them, unless newer ones are known.

        With several workers, totals come from our own commits and from polls, in any order.
        """
        known = self.records[cell.arm].cells.get(cell.cell)
        if known is not None and known.pulls > cell.pulls:
            return
        read = None if self.agent.bound_rule.reading is None else cell.read * READING_UNIT
        self.agent.tally.replace(Arm(cell.arm), cell.pulls, cell.total * self.menu.unit, read, cell.cell)
        self.records[cell.arm].cells[cell.cell] = cell

    def copy(self) -> "LiveExperiment":
        """Return a snapshot of the experiment for another thread, without open tickets."""
        agent = _agent(self.rule, self.menu, [replace(arm, cells=arm.cells.copy()) for arm in self.arms])
        records = [replace(record, cells=record.cells.copy()) for record in self.records]
        return replace(
            self,
            agent=agent,
            records=records,
            open=OpenTickets(self.ticket_lifetime),
            rejected_here=self.rejected,
            incidents_here=self.incidents,
            others_elsewhere=Counter(),
        )


def define(new: NewExperiment, menu: Menu, rule: Rule, now: int, known: Sequence[CellTotal] = ()) -> Definition:
    """Return the stored definition of a new experiment, which starts from these known totals."""
    brought = [0] * len(new.arms)
    for cell in known:
        brought[cell.arm] += cell.pulls
    settings = Settings(
        report_after=report_delay(new.report_after, int(new.ticket_lifetime)),
        sticky=new.sticky,
        minimum_share=new.minimum_share,
        warm_up=None if new.warm_up is None else int(new.warm_up),
        ramp=new.ramp,
        stop_when_separated=new.stop_when_separated,
        stop_after=new.stop_after,
        responses_per_hour=int(new.responses_per_hour) or None,
        allowance_required=new.allowance_required,
        first_arms=len(new.arms),
        warm_pulls=tuple(brought) if any(brought) else (),
    )
    check_room(settings, len(new.arms))
    default = menu.transform.default_reward if new.default_reward is None else float(new.default_reward)
    return Definition(
        name=new.name,
        curator=json.dumps(menu.to_json()),
        rule=json.dumps(rule_to_json(rule)),
        settings=settings.to_json(),
        ticket_lifetime=int(new.ticket_lifetime),
        default_reward=default,
        created_at=now,
    )


def _agent(rule: Rule, menu: Menu, arms: list[ArmTally]) -> Agent:
    agent = Agent(rule, len(arms), curator=menu)
    agent.tally = Tally(arms, agent.bound_rule.levels)
    return agent


def _moment(records: Iterable[ArmRecord]) -> Moment:
    cells = tuple(cell for record in records for cell in record.cells.values())
    return Moment(sum(cell.pulls for cell in cells), cells)


def tally_of(arm: StoredArm, menu: Menu, plays_by: BoundRule) -> ArmTally:
    """Return the agent's tally of a stored arm."""
    kept = {cell.cell: LevelTally(cell.pulls, cell.total * menu.unit) for cell in arm.cells}
    levels = 0 if plays_by.levels is None else plays_by.levels.count
    return ArmTally(
        pulls=arm.pulls,
        total=arm.total * menu.unit,
        retired=arm.retired,
        read=None if plays_by.reading is None else arm.read * READING_UNIT,
        cells=[kept.get(level, LevelTally()) for level in range(levels)],
    )


def played_by(definition: Definition) -> tuple[Menu, Rule, BoundRule]:
    """Parse the menu and the rule of an experiment, and fit the rule; raise DatabaseError when one is unknown."""
    try:
        menu = Menu.from_json(json.loads(definition.curator))
        rule = rule_from_json(json.loads(definition.rule))
        return menu, rule, bind_rule(rule, menu)
    except ValueError as error:
        needs = "if it has a mechanism, a transform or a rule of your own, load the module that registers it"
        raise DatabaseError(f"the experiment {definition.name} cannot be loaded: {error} ({needs})") from None


def restore(
    stored: StoredExperiment, events: Iterable[Event], note: Note, now: int, *, is_shared: bool = False
) -> LiveExperiment:
    """Load an experiment from the store.

    Which tickets are open is not stored, but their number is known: decisions that are neither answered nor missing.
    They count as pending until they must have expired. Where workers share the store, its `pending` table has them.
    """
    definition = stored.definition
    settings = Settings.from_json(definition.settings)
    menu, rule, plays_by = played_by(definition)
    records = [ArmRecord(arm.name, {cell.cell: cell for cell in arm.cells}) for arm in stored.arms]
    restored = LiveExperiment(
        number=stored.number,
        name=definition.name,
        menu=menu,
        rule=rule,
        settings=settings,
        ticket_lifetime=definition.ticket_lifetime,
        default_reward=definition.default_reward,
        status=stored.status,
        shipped=stored.shipped,
        created_at=definition.created_at,
        agent=_agent(rule, menu, [tally_of(arm, menu, plays_by) for arm in stored.arms]),
        records=records,
        open=OpenTickets(definition.ticket_lifetime),
        lost_until=None if is_shared else now + definition.ticket_lifetime,
        note=note,
        trail=Trail(_moment(records), unread=sum(arm.pulls for arm in stored.arms) - sum(settings.warm_pulls)),
        traffic=Traffic(settings.responses_per_hour, settings.report_after, definition.ticket_lifetime),
        is_shared=is_shared,
        fresh_until=-inf if is_shared else inf,
        guardrails=Guardrails.of(settings),
    )
    restored.apply_peer_events(events)
    restored.start_traffic(now)
    if not is_shared:
        for number, record in enumerate(records):
            record.out_elsewhere = record.decisions - restored.settled(number)
            restored.update_open(Arm(number))
    return restored
