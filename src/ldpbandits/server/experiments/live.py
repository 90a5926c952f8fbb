"""An experiment in memory: its agent, its open tickets, and its counts of events."""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, inf
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from ldpbandits.agent.agent import Agent
from ldpbandits.agent.duels import Choice
from ldpbandits.agent.rules import Rule
from ldpbandits.agent.tally import ArmTally
from ldpbandits.server.api.messages import ResponseMessage
from ldpbandits.server.experiments import metadata
from ldpbandits.server.experiments.arm_record import ArmRecord
from ldpbandits.server.experiments.cells import by_level, cell_of, split_cell
from ldpbandits.server.experiments.events import (
    DECISION,
    FORGIVEN,
    INCIDENTS,
    JUMP,
    MISSING,
    OF_TICKETS,
    STOPPED,
    UNACCEPTED,
    UNKNOWN_VERDICT,
)
from ldpbandits.server.experiments.guardrails import Guardrails
from ldpbandits.server.experiments.history import MOST_RIVALS, Moment, Trail
from ldpbandits.server.experiments.kept_verdicts import KeptVerdict, is_kept_verdict, read_verdicts
from ldpbandits.server.experiments.one_look import Look, is_look, read_look
from ldpbandits.server.experiments.settings import Settings
from ldpbandits.server.experiments.stored_agent import READING_UNIT, agent_with
from ldpbandits.server.experiments.tickets import OpenTickets, Ticket, new_nonce
from ldpbandits.server.experiments.traffic import Traffic
from ldpbandits.server.process.clock import elapsed
from ldpbandits.server.store import ACCEPTANCES, Answer, CellTotal, Event, Outcome, Status, StoredExperiment
from ldpbandits.spec.menu import Menu
from ldpbandits.spec.messages import Metadata
from ldpbandits.types import Arm

if TYPE_CHECKING:
    from ldpbandits.server.experiments.offers import EncodedOffer

MOST_LISTED = 20

_log = logging.getLogger(__name__)

Note: TypeAlias = Callable[[int, int, str, int], None]
"""Called with an event: experiment, arm, kind, and the number of times it happened."""


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
    accepted: OpenTickets
    """Those of the open tickets that were accepted."""
    lost_until: int | None
    """When the last ticket from before the start expires; None afterwards, or where workers share the store."""
    note: Note
    trail: Trail
    traffic: Traffic
    metadata: Metadata = field(default_factory=Metadata)
    """The title, the owner and the like, which nothing here depends on."""
    stopped_at: int | None = None
    """When it stopped assigning arms by its rule; None while it runs, or unknown."""
    is_shared: bool = False
    """Whether other workers assign arms and count responses, too."""
    fresh_until: float = inf
    """The time, of a monotonic clock, until which arms may be assigned by the last poll."""
    is_followed: bool = True
    """Whether the peers' updates were polled when the traffic was last sampled."""
    asked_at: float = -inf
    """When the last request for it arrived, by a monotonic clock."""
    guardrails: Guardrails | None = None
    stopped_by: str | None = None
    """The kind of the verdict by which it has stopped itself; an experimenter who resumes it knows that."""
    stops_elsewhere: int = 0
    """The number of such stops before the start or by another worker."""
    checked_at: tuple[int, str, bool] | None = None
    """The state at the last check for a verdict."""
    offer: "EncodedOffer | None" = None
    """The present offer, encoded; None after a change, until somebody asks."""

    @cached_property
    def curator(self) -> dict[str, Any]:
        """The curator as devices receive it; with several epsilons, their owners pick one."""
        return self.menu.to_json()

    @property
    def stopped(self) -> bool:
        """Whether it has stopped itself."""
        return self.stopped_by is not None

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
        counts: Counter[str] = Counter()
        for record in self.records:
            counts.update(record.here)
            counts.update(record.elsewhere)
        notes = (kind for kind in counts if is_kept_verdict(kind) or is_look(kind))
        for kind in (*OF_TICKETS, FORGIVEN, STOPPED, *INCIDENTS, *notes):
            del counts[kind]
        return +counts

    @property
    def look(self) -> Look | None:
        """The responses that are judged once, where the experiment has one look, and it is taken."""
        if self.settings.one_look is None:
            return None
        arms = enumerate(self.records)
        events = ((arm, kind) for arm, record in arms for kind in (*record.here, *record.elsewhere) if is_look(kind))
        return read_look(events, self.settings.one_look)

    @property
    def is_look_due(self) -> bool:
        """Whether all responses of its one look are in, and it is not taken yet."""
        count = self.settings.one_look
        return count is not None and self.responses >= count and self.look is None

    @property
    def is_hidden(self) -> bool:
        """Whether nobody may see any result yet; one that is closed before its look has none."""
        is_waiting = self.settings.one_look is not None and self.look is None
        return is_waiting and (self.status != "closed" or self.is_look_due)

    @property
    def kept_verdict(self) -> KeptVerdict | None:
        """The earliest verdict on all arms in use, better before no gain; None where there is none."""
        found = [
            kept
            for number, record in enumerate(self.records)
            for kept in read_verdicts(number, filter(is_kept_verdict, (*record.here, *record.elsewhere)))
        ]
        newest = max((number for number, arm in enumerate(self.arms) if not arm.retired), default=0)
        current = [
            kept
            for kept in found
            if newest < kept.arms
            and (kept.kind == "no-gain" or (kept.kind == "better" and not self.arms[kept.arm].retired))
        ]
        return min(current, key=lambda kept: (kept.kind != "better", kept.responses), default=None)

    @property
    def drops_responses(self) -> bool:
        """Whether its single responses are to be dropped now: it is shipped or closed, and its one look is taken."""
        is_over = self.status in {"shipped", "closed"}
        return self.settings.retain == "tallies" and is_over and not self.is_hidden

    @property
    def has_dropped(self) -> bool:
        """Whether single responses were dropped."""
        return any(record.has_dropped for record in self.records)

    def is_kept(self, found: KeptVerdict) -> bool:
        """Tell whether such a verdict was reached before."""
        record = self.records[found.arm]
        known = read_verdicts(found.arm, filter(is_kept_verdict, (*record.here, *record.elsewhere)))
        return any((kept.kind, kept.arms) == (found.kind, found.arms) for kept in known)

    def keep_verdict(self, found: KeptVerdict | None) -> None:
        """Write a verdict that was reached as an event, once."""
        if found is not None and not self.is_kept(found):
            self.count_event(found.arm, found.event_kind)

    @property
    def incidents(self) -> Counter[str]:
        """The number of jumps of the traffic, and of pauses above the cap, which are events of the first arm."""
        events = self.records[0].here + self.records[0].elsewhere
        return Counter({kind: events[kind] for kind in INCIDENTS})

    def count_event(self, arm: int, kind: str, times: int = 1) -> None:
        """Count an event of an arm, here and in the store."""
        self.records[arm].here[kind] += times
        self.note(self.number, arm, kind, times)

    def report_incident(self, kind: str) -> None:
        """Count an incident in the store, and log it."""
        self.count_event(0, kind)
        _log.warning(INCIDENTS[kind], self.name, extra={"event": kind, "experiment": self.name})

    def decide(self, now: int, expires_at: int | None = None, nonce: bytes | None = None) -> Ticket:
        """Assign an arm and count the decision, without a write. A ticket has a random nonce by default."""
        self.expire(now)
        guardrails = self.guardrails
        arm, rival = self.agent.choose(None if guardrails is None else guardrails.among(self.agent.tally))
        ticket = Ticket(self.number, arm, expires_at or now + self.ticket_lifetime, nonce or new_nonce(), rival)
        self.open.change(arm, ticket.expires_at, 1)
        self._change_out(arm, 1)
        self.count_event(arm, DECISION)
        return ticket

    def _change_out(self, arm: Arm, here: int = 0, elsewhere: int = 0) -> None:
        """Add open tickets of an arm, and set the agent's number of those that will be answered.

        It is rounded up: an arm with any open ticket must not look as if it had never been pulled.
        """
        record = self.records[arm]
        record.out_here += here
        record.out_elsewhere += elsewhere
        self.agent.tally.set_out(arm, ceil(self.traffic.weight * record.out))

    def set_out_elsewhere(self, arm: int, tickets: int) -> None:
        """Set the number of open tickets of an arm that were not issued here."""
        change = tickets - self.records[arm].out_elsewhere
        if change:
            self._change_out(Arm(arm), elsewhere=change)

    def watch_traffic(self, now: int) -> bool:
        """Sample the traffic when due, and update the weight of open tickets; return whether it jumped, as is logged.

        Without requests for the experiment, the peers' updates are not polled here. Updates that arrive together after
        such a time are no jump.
        """
        if self.fresh_until < elapsed():
            self.is_followed = False
            return False
        if not self.is_followed:
            self.is_followed = True
            self.start_traffic(now)
        if not self.traffic.is_due(now):
            return False
        weight, out = self.traffic.weight, sum(record.out for record in self.records)
        has_jumped = self.traffic.sample(now, self.decisions, self._counted, out)
        if has_jumped:
            self.report_incident(JUMP)
        if self.traffic.weight != weight:
            for number, record in enumerate(self.records):
                if record.out:
                    self._change_out(Arm(number))
        return has_jumped

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
        """Count expired open tickets as missing if they were accepted, else as unaccepted."""
        gone, missing = self.open.expire(now), self.accepted.expire(now)
        for arm in gone.keys() | missing.keys():
            self._count_expired(arm, gone[arm], missing[arm])
            self._change_out(arm, -gone[arm])
        if self.lost_until is not None and now >= self.lost_until:
            self.lost_until = None
            for number, record in enumerate(self.records):
                missing_now = record.waiting - record.missing_events - self.accepted.count(Arm(number))
                self._count_expired(number, record.out_elsewhere, max(0, missing_now))
                self.set_out_elsewhere(number, 0)

    def _count_expired(self, arm: int, tickets: int, accepted: int) -> None:
        """Count expired tickets, by whether they were accepted; an event of 0 times is none."""
        for kind, times in ((MISSING, accepted), (UNACCEPTED, tickets - accepted)):
            if times:
                self.count_event(arm, kind, times)

    def apply(self, ticket: Ticket, outcome: Outcome, now: int) -> bool:
        """Apply what was counted of a ticket to the open ones; return whether anything was."""
        match outcome:
            case Outcome.ACCEPTED:
                self.accepted.change(ticket.arm, ticket.expires_at, 1)
            case Outcome.ANSWERED:
                self._take_accepted(ticket)
                self._answered(ticket, now)
            case Outcome.COUNTED:
                self._answered(ticket, now)
            case _:
                return False
        return True

    def _take_accepted(self, ticket: Ticket) -> None:
        """Remove an accepted ticket from the open ones; one from before the start is known by its number only.

        A ticket that was counted as missing, as when the clock was set back, is so no longer.
        """
        record = self.records[ticket.arm]
        is_open = self.accepted.change(ticket.arm, ticket.expires_at, -1, if_open=not self.is_shared)
        if not is_open and record.missing_events > record.waiting:
            self._count_expired(ticket.arm, 0, -1)

    def _answered(self, ticket: Ticket, now: int) -> None:
        """Remove an open ticket whose response has been counted.

        A single process knows where a ticket belongs: it is open, here or from before the start; or it was counted as
        missing, as when the clock was set back; or a crash has lost its decision. With several workers it belongs to
        one of them, and the sums over all are right.
        """
        if not self.settings.allowance_required:  # an allowance's ticket does not show when it was issued
            self.traffic.answered(now - ticket.expires_at + self.ticket_lifetime)
        record = self.records[ticket.arm]
        if self.open.change(ticket.arm, ticket.expires_at, -1, if_open=not self.is_shared):
            self._change_out(ticket.arm, -1)
        elif record.out_elsewhere:
            self._change_out(ticket.arm, elsewhere=-1)
        elif record.unaccepted:
            self.count_event(ticket.arm, UNACCEPTED, -1)
        else:
            self.count_event(ticket.arm, DECISION)

    def settled(self, arm: int) -> int:
        """Return the number of decisions of an arm that are answered or expired."""
        return self.arms[arm].pulls - self.settings.warm(arm) + self.records[arm].expired

    def apply_peer_events(self, events: Iterable[Event], arms: Iterable[int] | None = None) -> None:
        """Apply the event totals from before the start and of peers, at these arms, or at every arm."""
        kinds: dict[int, Counter[str]] = defaultdict(Counter)
        for _, arm, kind, count in events:
            kinds[arm][kind] += count
        for number in range(len(self.records)) if arms is None else arms:
            self.records[number].elsewhere = kinds[number]
            self.count_lost_decisions(number)
        stops = sum(record.elsewhere[STOPPED] for record in self.records)
        if stops > self.stops_elsewhere:
            self.stopped_by, self.stops_elsewhere = UNKNOWN_VERDICT, stops

    def count_lost_decisions(self, arm: int) -> None:
        """Count answered decisions that no worker has published: a crash loses the last ones."""
        record = self.records[arm]
        record.elsewhere[DECISION] = max(record.elsewhere[DECISION], self.settled(arm) - record.here[DECISION])

    def apply_change(self, stored: StoredExperiment) -> None:
        """Apply an experimenter's change that another worker has made; this is idempotent."""
        self.set_status(stored.status, stored.shipped, stored.stopped_at)
        self.metadata = metadata.from_json(stored.metadata)
        for arm in stored.arms[len(self.records) :]:
            self.add_arm(arm.name)
        for number, arm in enumerate(stored.arms):
            if arm.retired and not self.arms[number].retired:
                self.retire_arm(number)

    def add_arm(self, name: str) -> None:
        """Add an arm under the next number."""
        self.agent.add_arm()
        self.records.append(ArmRecord(name))
        self.stopped_by = None  # by a verdict on other arms

    def retire_arm(self, number: int) -> None:
        """Assign this arm no more."""
        self.agent.retire(Arm(number))
        self.offer = None

    def set_status(self, status: Status, shipped: int | None, stopped_at: int | None = None) -> None:
        """Run, pause, ship or close; a resumed experiment begins a new hour of its cap."""
        is_resumed = status == "running" != self.status
        self.status, self.shipped, self.stopped_at, self.offer = status, shipped, stopped_at, None
        if is_resumed:
            self.traffic.resume(self.decisions, self._counted)

    def answer(self, ticket: Ticket, message: ResponseMessage) -> Answer | None:
        """Return a response as it is counted: in the cell of its epsilon and rival; None when it is not possible."""
        level = self.menu.level(message.epsilon)
        value = None if level is None else self.menu.curators[level].in_units(message.response)
        if level is None or value is None:
            return None
        cell = cell_of(level, ticket.rival, len(self.menu))
        return Answer(ticket, value, cell, self.read_units(message.response))

    def read_units(self, response: float) -> int:
        """Return the rule's own reading of a response, in units; 0 where it has none."""
        read = self.agent.bound_rule.read(response)
        return 0 if read is None else round(read / READING_UNIT)

    @property
    def responses(self) -> int:
        """The number of responses, those of a warm start included."""
        return self.agent.tally.responses

    def remember(self) -> None:
        """Add the present totals to the history, if due."""
        if self.responses >= self.trail.due:
            self.trail.add(self.moment)

    @property
    def moment(self) -> Moment:
        """The present totals, for the history."""
        return moment_of(self.records, len(self.menu))

    def count(self, cell: CellTotal) -> None:
        """Apply the totals of a cell as the store has them, unless newer ones are known.

        With several workers, totals come from our own commits and from polls, in any order. The agent counts the
        difference to the known totals.
        """
        if cell.cell == ACCEPTANCES:
            known = self.records[cell.arm].acceptances
            if known is None or known.pulls < cell.pulls:
                self.records[cell.arm].acceptances = cell
            return
        if cell.cell < ACCEPTANCES:
            self.records[cell.arm].has_dropped = True
            self.trail = Trail(self.moment)  # the moments of the one before may be one response apart
            return
        cells = self.records[cell.arm].cells
        known = cells.get(cell.cell)
        pulls, total, read = cell.pulls, cell.total, cell.read
        if known is not None:
            if known.pulls > pulls:
                return
            pulls, total, read = pulls - known.pulls, total - known.total, read - known.read
        level, rival = split_cell(cell.cell, len(self.menu))
        is_read = self.agent.bound_rule.reading is not None
        counted = read * READING_UNIT if is_read else None
        self.agent.count(Choice(Arm(cell.arm), rival), pulls, total * self.menu.unit, counted, level)
        cells[cell.cell] = cell

    def copy(self) -> "LiveExperiment":
        """Return a copy of the experiment for another thread or process, without open tickets and history."""
        arms = [replace(arm, cells=arm.cells.copy()) for arm in self.arms]
        agent = agent_with(self.rule, self.menu, arms, Random(0))  # noqa: S311 - a copy draws nothing, and is pickled
        if agent.duels is not None and self.agent.duels is not None:
            agent.duels.cells = {place: cells.copy() for place, cells in self.agent.duels.cells.items()}
        records = [
            replace(record, cells=record.cells.copy(), here=record.here.copy(), elsewhere=record.elsewhere.copy())
            for record in self.records
        ]
        return replace(
            self,
            agent=agent,
            records=records,
            open=OpenTickets(self.ticket_lifetime),
            accepted=OpenTickets(self.ticket_lifetime),
            note=_ignore,
            trail=Trail(Moment(0, ())),
            guardrails=None,
            offer=None,
        )


def moment_of(records: Sequence[ArmRecord], levels: int) -> Moment:
    """Return the present totals of all arms: by level of the menu, and by rival unless there are too many arms."""
    if len(records) <= MOST_RIVALS:
        cells = tuple(cell for record in records for cell in record.cells.values() if cell.pulls)
    else:
        cells = tuple(cell for record in records for cell in by_level(record.cells.values(), levels))
    return Moment(sum(cell.pulls for cell in cells), cells)


def _ignore(_experiment: int, _arm: int, _kind: str, _times: int) -> None:
    """Ignore the events of a copy."""
