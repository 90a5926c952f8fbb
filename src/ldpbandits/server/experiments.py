"""An experiment while the server runs: its agent, its open tickets, and what has happened since the start."""

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property

from ldpbandits.agent.live import LiveAgent, LiveArm
from ldpbandits.agent.rules import UCB
from ldpbandits.server.messages import CuratorMessage, NewExperiment, Status, curator_message, paper_rule
from ldpbandits.server.open_tickets import OpenTickets
from ldpbandits.server.possible import unit
from ldpbandits.server.store import Store
from ldpbandits.server.tickets import Ticket, new_nonce
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.transforms import Range
from ldpbandits.types import Arm


@dataclass
class ArmRecord:
    """An arm's name and exact total, in units, and what has happened to it since the server started."""

    name: str
    total: int = 0
    decisions: int = 0
    missing: int = 0


@dataclass
class Experiment:
    """One experiment. Its tally is on disk and here; the rest of what changes is here only, and a crash forgets it."""

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
        """Take over a tally as it is on disk."""
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


def create(store: Store, new: NewExperiment, spec: CuratorSpec, now: int) -> Experiment:
    """Write a new experiment to disk, and load it."""
    rule = paper_rule(spec) if new.rule is None else new.rule.to_rule()
    with store.transaction() as connection:
        number = connection.execute(
            "INSERT INTO experiments (name, curator, rule, ticket_lifetime, default_reward, status, created_at)"
            " VALUES (?, ?, ?, ?, ?, 'running', ?)",
            (
                new.name,
                json.dumps(spec.to_json()),
                json.dumps(rule.to_json()),
                int(new.ticket_lifetime),
                default_reward(new, spec),
                now,
            ),
        ).lastrowid
        arms = [(number, arm, name) for arm, name in enumerate(new.arms)]
        connection.executemany("INSERT INTO arms (experiment, number, name) VALUES (?, ?, ?)", arms)
    return next(experiment for experiment in load(store) if experiment.number == number)


def load(store: Store) -> list[Experiment]:
    """Read every experiment, with its tally."""
    experiments = []
    for number, name, curator, rule, lifetime, default, status, created_at in store.rows(
        "SELECT id, name, curator, rule, ticket_lifetime, default_reward, status, created_at FROM experiments"
    ):
        spec, ucb = CuratorSpec.from_json(json.loads(curator)), UCB.from_json(json.loads(rule))
        arms = store.rows(
            "SELECT name, retired, pulls, total FROM arms WHERE experiment = ? ORDER BY number", (number,)
        )
        agent = LiveAgent(
            ucb, [LiveArm(pulls, total * unit(spec), 0, bool(retired)) for _, retired, pulls, total in arms]
        )
        records = [ArmRecord(arm_name, total) for arm_name, _, _, total in arms]
        experiments.append(Experiment(number, name, spec, ucb, lifetime, default, status, created_at, agent, records))
    return experiments


def add_arm(store: Store, experiment: Experiment, name: str) -> None:
    """Write a new arm to disk."""
    with store.transaction() as connection:
        arm = (experiment.number, len(experiment.records), name)
        connection.execute("INSERT INTO arms (experiment, number, name) VALUES (?, ?, ?)", arm)


def retire_arm(store: Store, experiment: Experiment, arm: int) -> None:
    """Write to disk that an arm is handed out no more."""
    with store.transaction() as connection:
        key = (experiment.number, arm)
        connection.execute("UPDATE arms SET retired = 1 WHERE (experiment, number) = (?, ?)", key)
