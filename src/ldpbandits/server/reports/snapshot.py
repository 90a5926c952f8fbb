"""A snapshot of an experiment as plain data, from which another process computes a report.

It contains no keys, no tickets, and no single response.
"""

import json
from collections import Counter, defaultdict
from typing import Literal

from msgspec import Struct

from ldpbandits.agent.rules import rule_to_json
from ldpbandits.server.experiments.live import LiveExperiment, restore
from ldpbandits.server.store import CellTotal, Definition, Status, StoredArm, StoredExperiment


class Snapshot(Struct, frozen=True, array_like=True):
    """Lists have an entry for each arm; `cells` are the non-empty ones."""

    number: int
    name: str
    curator: str
    rule: str
    settings: str
    ticket_lifetime: int
    default_reward: float
    created_at: int
    status: Status
    shipped: int | None
    stopped: bool
    names: list[str]
    retired: list[Literal[0, 1]]
    decisions: list[int]
    missing: list[int]
    pending: list[int]
    cells: list[CellTotal]
    rejected: dict[str, int]
    incidents: dict[str, int]

    @classmethod
    def of(cls, experiment: LiveExperiment) -> "Snapshot":
        """Return a snapshot of an experiment; for 10,000 arms this takes some milliseconds."""
        records, arms = experiment.records, experiment.arms
        return cls(
            number=experiment.number,
            name=experiment.name,
            curator=json.dumps(experiment.menu.to_json()),
            rule=json.dumps(rule_to_json(experiment.rule)),
            settings=experiment.settings.to_json(),
            ticket_lifetime=experiment.ticket_lifetime,
            default_reward=experiment.default_reward,
            created_at=experiment.created_at,
            status=experiment.status,
            shipped=experiment.shipped,
            stopped=experiment.stopped,
            names=[record.name for record in records],
            retired=[1 if arm.retired else 0 for arm in arms],
            decisions=[record.decisions for record in records],
            missing=[record.missing for record in records],
            pending=[experiment.pending(number) for number in range(len(records))],
            cells=[cell for record in records for cell in record.cells.values()],
            rejected=dict(experiment.rejected),
            incidents=dict(experiment.incidents),
        )

    def experiment(self) -> LiveExperiment:
        """Return an experiment with the same report; it counts nothing."""
        cells = defaultdict(list)
        for cell in self.cells:
            cells[cell.arm].append(cell)
        arms = tuple(
            StoredArm(name, bool(retired), tuple(cells[arm]))
            for arm, (name, retired) in enumerate(zip(self.names, self.retired, strict=True))
        )
        definition = Definition(
            self.name,
            self.curator,
            self.rule,
            self.settings,
            self.ticket_lifetime,
            self.default_reward,
            self.created_at,
        )
        stored = StoredExperiment(self.number, definition, self.status, arms, self.shipped)
        made = restore(stored, (), lambda *_: None, 0)
        for number, record in enumerate(made.records):
            record.decided, record.decided_elsewhere = self.decisions[number], 0
            record.missed, record.missed_elsewhere = self.missing[number], 0
            record.out = self.pending[number]
        made.rejected_here, made.others_elsewhere = Counter(self.rejected), Counter()
        made.incidents_here = Counter(self.incidents)
        made.stopped = self.stopped
        return made
