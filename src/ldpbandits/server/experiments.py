"""An experiment while the server runs: its agent, its open tickets, and what has happened since the start."""

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property

from ldpbandits.agent.live import LiveAgent, LiveArm
from ldpbandits.agent.rules import UCB
from ldpbandits.server.messages import CuratorMessage, NewExperiment, curator_message, paper_rule
from ldpbandits.server.open_tickets import OpenTickets
from ldpbandits.server.possible import unit
from ldpbandits.server.store import Definition, Status, StoredExperiment
from ldpbandits.server.tickets import Ticket, new_nonce
from ldpbandits.types import Arm
from ldpbandits.wire import CuratorSpec, Range


@dataclass
class ArmRecord:
    """An arm's name and exact total, in units, and what has happened to it since the server started."""

    name: str
    total: int = 0
    decisions: int = 0
    missing: int = 0


@dataclass
class Experiment:
    """One experiment. Its totals are in the store and here; what else changes is here only, and a crash forgets it."""

    number: int
    name: str
    spec: CuratorSpec
    rule: UCB
    ticket_lifetime: int
    default_reward: float
    status: Status
    created_at: int
    agent: LiveAgent
    records: list[ArmRecord]
    open: OpenTickets = field(default_factory=OpenTickets)
    rejected: Counter[str] = field(default_factory=Counter)

    @cached_property
    def curator(self) -> CuratorMessage:
        """The curator as devices are told of it."""
        return curator_message(self.spec)

    def decide(self, now: int) -> Ticket:
        """Hand out an arm; nothing is written."""
        self.expire(now)
        arm = self.agent.issue()
        ticket = Ticket(self.number, arm, now + self.ticket_lifetime, new_nonce())
        for forgotten in self.open.add(ticket):
            self.agent.take_back(forgotten)
        self.records[arm].decisions += 1
        return ticket

    def expire(self, now: float) -> None:
        """Stop waiting for tickets whose time is up."""
        for arm in self.open.expire(now):
            self.agent.take_back(arm)
            self.records[arm].missing += 1

    def answered(self, ticket: Ticket) -> None:
        """Stop waiting for this ticket, if we remember that it is out."""
        if self.open.answered(ticket):
            self.agent.take_back(ticket.arm)

    def count(self, arm: int, pulls: int, total: int) -> None:
        """Take over an arm's pulls and total as the store has them."""
        self.agent.count(Arm(arm), pulls, total * unit(self.spec))
        self.records[arm].total = total

    def copy(self) -> "Experiment":
        """Return the experiment as it is now, to be read in another thread; tickets are left out."""
        agent = LiveAgent(self.rule, [replace(arm) for arm in self.agent.arms])
        records = [replace(record) for record in self.records]
        return replace(self, agent=agent, records=records, open=OpenTickets(), rejected=self.rejected.copy())


def default_reward(new: NewExperiment, spec: CuratorSpec) -> float:
    """Return the declared default, or 0, or the least reward where 0 is out of range."""
    if new.default_reward is not None:
        return float(new.default_reward)
    transform = spec.transform
    return transform.low if isinstance(transform, Range) and not transform.low <= 0 <= transform.high else 0.0


def define(new: NewExperiment, spec: CuratorSpec, now: int) -> Definition:
    """Write down a new experiment as a store keeps it."""
    rule = paper_rule(spec) if new.rule is None else new.rule.to_rule()
    return Definition(
        name=new.name,
        curator=json.dumps(spec.to_json()),
        rule=json.dumps(rule.to_json()),
        ticket_lifetime=int(new.ticket_lifetime),
        default_reward=default_reward(new, spec),
        created_at=now,
    )


def restore(stored: StoredExperiment) -> Experiment:
    """Take an experiment up where the store has left it, with nothing out."""
    definition = stored.definition
    spec = CuratorSpec.from_json(json.loads(definition.curator))
    rule = UCB.from_json(json.loads(definition.rule))
    return Experiment(
        number=stored.number,
        name=definition.name,
        spec=spec,
        rule=rule,
        ticket_lifetime=definition.ticket_lifetime,
        default_reward=definition.default_reward,
        status=stored.status,
        created_at=definition.created_at,
        agent=LiveAgent(rule, [LiveArm(arm.pulls, arm.total * unit(spec), 0, arm.retired) for arm in stored.arms]),
        records=[ArmRecord(arm.name, arm.total) for arm in stored.arms],
    )
