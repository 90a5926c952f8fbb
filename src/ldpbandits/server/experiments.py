"""An experiment while the server runs: its agent, its open tickets, and how often things have happened."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

from ldpbandits.agent.agent import Agent
from ldpbandits.agent.fit import Fitted, fitted
from ldpbandits.agent.rules import Rule, rule_from_json, rule_to_json
from ldpbandits.agent.tally import ArmTally, LevelTally, Tally
from ldpbandits.errors import DatabaseError, ParameterError
from ldpbandits.server.guardrails import Guardrails, check_room
from ldpbandits.server.history import Moment, Trail
from ldpbandits.server.messages import NewExperiment, ResponseMessage
from ldpbandits.server.settings import Settings, reporting_moment
from ldpbandits.server.store import Answer, CellTotal, Definition, Event, Status, StoredArm, StoredExperiment
from ldpbandits.server.tickets import OpenTickets, Ticket, new_nonce
from ldpbandits.spec.menu import Menu
from ldpbandits.types import Arm

READING_UNIT = 2.0**-20
"""What a rule reads of a response is kept as a whole number of these: sums are exact, and our rules lose nothing."""


MOST_LISTED = 20

DECISION, MISSING, STOPPED = "decision", "missing", "stopped"
"""Kinds of events; the others are the outcomes of responses that were not counted. An experiment stops by itself."""

Note: TypeAlias = Callable[[int, int, str, int], None]
"""Told of an event: experiment, arm, kind, and how often it has happened."""


@dataclass
class ArmRecord:
    """An arm's name, its exact totals, in units, and what became of its decisions."""

    name: str
    cells: dict[int, CellTotal] = field(default_factory=dict)
    decisions: int = 0
    missing: int = 0
    lost: int = 0
    """Tickets that are out, but not among the open ones: from before a restart, or because there were too many."""

    @property
    def total(self) -> int:
        """The sum of its responses, in units."""
        return sum(cell.total for cell in self.cells.values())


@dataclass
class LiveExperiment:
    """One experiment. Totals and events are in the store and here; which tickets are open is here only."""

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
    lost_until: int | None
    """When the last of the lost tickets expires; None when none is lost."""
    note: Note
    trail: Trail
    guardrails: Guardrails | None = None
    open: OpenTickets = field(default_factory=OpenTickets)
    rejected: Counter[str] = field(default_factory=Counter)
    stopped: bool = False
    """It has stopped by itself: whoever resumes it knows that."""
    looked_at: int = -1
    """How many responses there were when it was last looked at whether it is to stop."""

    @cached_property
    def curator(self) -> dict[str, Any]:
        """The curator as devices are told of it; with several epsilons, their owners pick one."""
        return self.menu.to_json()

    @property
    def arms(self) -> list[ArmTally]:
        """The arms' tallies."""
        return self.agent.tally.arms

    @property
    def listed(self) -> str:
        """The arms that are handed out, for people."""
        shown = [f"{n} ({record.name})" for n, record in enumerate(self.records) if not self.arms[n].retired]
        return ", ".join(shown[:MOST_LISTED]) + (", ..." if len(shown) > MOST_LISTED else "")

    def number_of(self, arm: int | str) -> int | None:
        """Return the number of an arm that is called by its number or name; None when there is none."""
        if isinstance(arm, int):
            return arm if 0 <= arm < len(self.records) else None
        return next((number for number, record in enumerate(self.records) if record.name == arm), None)

    def decide(self, now: int) -> Ticket:
        """Hand out an arm; nothing is written but that one more was."""
        self.expire(now)
        guardrails = self.guardrails
        arm = self.agent.issue(None if guardrails is None else guardrails.among(self.agent.tally))
        ticket = Ticket(self.number, arm, now + self.ticket_lifetime, new_nonce())
        for forgotten in self.open.add(ticket):
            self.agent.take_back(forgotten)
            self.records[forgotten].lost += 1
            self.lost_until = max(self.lost_until or 0, ticket.expires_at)
        self._decided(arm)
        return ticket

    def _decided(self, arm: Arm) -> None:
        self.records[arm].decisions += 1
        self.note(self.number, arm, DECISION, 1)

    def expire(self, now: float) -> None:
        """Stop waiting for tickets whose time is up."""
        for arm in self.open.expire(now):
            self.agent.take_back(arm)
            self._miss(arm, 1)
        if self.lost_until is not None and now >= self.lost_until:
            self.lost_until = None
            for number, record in enumerate(self.records):
                if record.lost:
                    self._miss(number, record.lost)
                    record.lost = 0

    def _miss(self, arm: int, count: int) -> None:
        self.records[arm].missing += count
        self.note(self.number, arm, MISSING, count)

    def answered(self, ticket: Ticket, *, is_new: bool) -> None:
        """Stop waiting for this ticket. One that was given up may come after all, when the clock was set back."""
        record = self.records[ticket.arm]
        if self.open.answered(ticket):
            self.agent.take_back(ticket.arm)
        elif is_new and record.lost:
            record.lost -= 1
        elif is_new and record.missing:
            self._miss(ticket.arm, -1)
        elif is_new:  # a crash has lost the decision
            self._decided(ticket.arm)

    def reject(self, ticket: Ticket, reason: str) -> None:
        """Count a response that does not count."""
        self.rejected[reason] += 1
        self.note(self.number, ticket.arm, reason, 1)

    def pending(self, arm: int) -> int:
        """Return how many tickets of this arm are out."""
        return self.arms[arm].out + self.records[arm].lost

    def answer(self, ticket: Ticket, message: ResponseMessage) -> Answer | None:
        """Return a response as it is counted: in the cell of its epsilon; None when it is not a possible one."""
        level = self.menu.level(message.epsilon)
        value = None if level is None else self.menu.curators[level].in_units(message.response)
        if level is None or value is None:
            return None
        read = self.agent.fitted.read(message.response)
        return Answer(ticket, value, level, 0 if read is None else round(read / READING_UNIT))

    @property
    def responses(self) -> int:
        """How many there are, those that were brought along included."""
        return self.agent.tally.responses

    @property
    def moment(self) -> Moment:
        """The totals of all cells, now."""
        return _moment(self.records)

    def remember(self) -> None:
        """Keep the present totals for the history, if it is time again."""
        if self.responses >= self.trail.due:
            self.trail.add(self.moment)

    def count(self, cell: CellTotal) -> None:
        """Take over the pulls and the sums of a cell as the store has them."""
        read = None if self.agent.fitted.reading is None else cell.read * READING_UNIT
        self.agent.tally.replace(Arm(cell.arm), cell.pulls, cell.total * self.menu.unit, read, cell.cell)
        self.records[cell.arm].cells[cell.cell] = cell

    def copy(self) -> "LiveExperiment":
        """Return the experiment as it is now, to be read in another thread; tickets are left out."""
        agent = _agent(self.rule, self.menu, [replace(arm, cells=arm.cells.copy()) for arm in self.arms])
        records = [replace(record, cells=record.cells.copy()) for record in self.records]
        return replace(self, agent=agent, records=records, open=OpenTickets(), rejected=self.rejected.copy())


def define(new: NewExperiment, menu: Menu, rule: Rule, now: int, known: Sequence[CellTotal] = ()) -> Definition:
    """Write down a new experiment, which starts from known totals, as a store keeps it."""
    brought = [sum(cell.pulls for cell in known if cell.arm == arm) for arm in range(len(new.arms))]
    settings = Settings(
        report_after=reporting_moment(new.report_after, int(new.ticket_lifetime)),
        sticky=new.sticky,
        minimum_share=new.minimum_share,
        warm_up=None if new.warm_up is None else int(new.warm_up),
        ramp=new.ramp,
        stop_when_separated=new.stop_when_separated,
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
    agent.tally = Tally(arms, agent.fitted.levels)
    return agent


def _moment(records: Iterable[ArmRecord]) -> Moment:
    cells = tuple(cell for record in records for cell in record.cells.values())
    return Moment(sum(cell.pulls for cell in cells), cells)


def tally_of(arm: StoredArm, menu: Menu, plays_by: Fitted) -> ArmTally:
    """Return an arm as its agent sees it."""
    kept = {cell.cell: LevelTally(cell.pulls, cell.total * menu.unit) for cell in arm.cells}
    levels = 0 if plays_by.levels is None else plays_by.levels.count
    return ArmTally(
        pulls=arm.pulls,
        total=arm.total * menu.unit,
        retired=arm.retired,
        read=None if plays_by.reading is None else arm.read * READING_UNIT,
        cells=[kept.get(level, LevelTally()) for level in range(levels)],
    )


def restore(stored: StoredExperiment, events: Iterable[Event], note: Note, now: int) -> LiveExperiment:
    """Take an experiment up where the store has left it.

    Which tickets are out is not known, but how many: decisions that are neither answered nor missing. Until they must
    have expired, they count as pending.
    """
    definition = stored.definition
    settings = Settings.from_json(definition.settings)
    records = [ArmRecord(arm.name, {cell.cell: cell for cell in arm.cells}) for arm in stored.arms]
    rejected: Counter[str] = Counter()
    stopped = False
    for _, arm, kind, count in events:
        if kind == DECISION:
            records[arm].decisions += count
        elif kind == MISSING:
            records[arm].missing += count
        elif kind == STOPPED:
            stopped = True
        else:
            rejected[kind] += count
    for number, record in enumerate(records):
        settled = stored.arms[number].pulls - settings.warm(number) + record.missing
        record.decisions = max(record.decisions, settled)  # a crash may have lost the last of them
        record.lost = record.decisions - settled
    try:
        menu = Menu.from_json(json.loads(definition.curator))
        rule = rule_from_json(json.loads(definition.rule))
        plays_by = fitted(rule, menu)
    except ParameterError as error:
        needs = "if it has a mechanism, a transform or a rule of your own, load the module that registers it"
        raise DatabaseError(f"the experiment {definition.name} cannot be taken up: {error} ({needs})") from None
    return LiveExperiment(
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
        lost_until=now + definition.ticket_lifetime,
        note=note,
        trail=Trail(_moment(records), unread=sum(arm.pulls for arm in stored.arms) - sum(settings.warm_pulls)),
        guardrails=Guardrails.of(settings),
        rejected=rejected,
        stopped=stopped,
    )
