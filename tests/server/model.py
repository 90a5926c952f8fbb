"""What the server promises, as a plain program: the state machine compares the two after every step."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeVar

K = TypeVar("K")


@dataclass
class Ticket:
    """A ticket as the device got it, and what has become of it; values are in units."""

    text: str
    experiment: str
    arm: int
    expires_at: int
    secret: int
    rival: int | None = None
    pending: bool = True
    """Counted as out; where some are out that expire together, any of them may be taken off first."""
    value: int | None = None
    is_accepted: bool = False

    def is_like(self, other: "Ticket") -> bool:
        """Tell whether both are of the same arm and expire together."""
        return (self.experiment, self.arm, self.expires_at) == (other.experiment, other.arm, other.expires_at)


@dataclass
class ModelArm:
    """An arm's tally, and its counts."""

    name: str
    retired: bool = False
    pulls: int = 0
    total: int = 0
    duels: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By rival: the number and the sum of the responses."""
    decisions: int = 0
    missing: int = 0
    """Tickets that expired unanswered, accepted or not."""
    lost: int = 0
    """Tickets from before a restart that may still be answered."""


@dataclass
class ModelExperiment:
    """An experiment: `cap` is None for bits, else how far responses may go beyond [0, 1], in units."""

    number: int
    cap: int | None
    lifetime: int
    arms: list[ModelArm]
    status: str = "running"
    shipped: int | None = None
    lost_until: int = 0
    rejected: Counter[str] = field(default_factory=Counter)

    @property
    def unit(self) -> float:
        """What responses are multiples of."""
        return 1.0 if self.cap is None else 2.0**-20

    @property
    def shown(self) -> list[int]:
        """The arms that are not retired."""
        return [number for number, arm in enumerate(self.arms) if not arm.retired]

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest response, in units."""
        return (0, 1) if self.cap is None else (-self.cap, (1 << 20) + self.cap)


class Model:
    """The server, without any of its machinery."""

    adds_up = True
    """Each decision is answered, pending, missing or unaccepted."""

    def __init__(self, now: int) -> None:
        """Start with nothing."""
        self.clock = now
        self.forgotten = 0
        self.experiments: dict[str, ModelExperiment] = {}
        self.deleted: dict[str, ModelExperiment] = {}
        """By a name that none can have."""
        self.tickets: list[Ticket] = []
        self.nonces: list[Ticket] = []
        self.forged = 0
        self.secrets: dict[int, int | None] = {1: None}
        self.keys: dict[str, int | None] = {}

    @property
    def now(self) -> int:
        """The time, which does not go back behind a removed nonce."""
        return max(self.clock, self.forgotten)

    @property
    def newest(self) -> int:
        """The secret that signs."""
        return max(self.secrets)

    def is_valid(self, key: str) -> bool:
        """Tell whether a client key holds."""
        return key in self.keys and _holds(self.keys[key], self.now)

    def of(self, ticket: Ticket) -> ModelExperiment:
        """Return the experiment of a ticket, which may be gone."""
        return {**self.experiments, **self.deleted}[ticket.experiment]

    def delete(self, name: str) -> None:
        """Remove an experiment; its tickets are those of nobody, and its nonces are not needed."""
        experiment = self.experiments.pop(name)
        gone = f"deleted {experiment.number}"
        self.deleted[gone] = experiment
        self.nonces = [ticket for ticket in self.nonces if ticket.experiment != name]
        for ticket in self.tickets:
            if ticket.experiment == name:
                ticket.experiment, ticket.pending, ticket.value = gone, False, None

    def respond(self, ticket: Ticket, value: int | None) -> tuple[int, str]:
        """Return the status and the code of a response; None stands for an impossible value."""
        experiment = self.of(ticket)
        is_signed = ticket.secret in self.secrets and _holds(self.secrets[ticket.secret], self.now)
        if ticket.experiment in self.deleted or not is_signed:
            self.forged += 1
            return 403, "forged"
        if ticket.expires_at <= self.now:
            return self._reject(experiment, 410, "expired")
        if value is None:
            return self._reject(experiment, 422, "impossible")
        if ticket.value is not None:
            same = ticket.value == value
            return self._reject(experiment, *((200, "duplicate") if same else (409, "changed")))
        if experiment.status == "closed":
            return self._reject(experiment, 410, "closed")
        arm = experiment.arms[ticket.arm]
        self.answered(ticket, arm)
        ticket.value = value
        if not ticket.is_accepted:
            self.nonces.append(ticket)
        arm.pulls += 1
        arm.total += value
        if ticket.rival is not None:
            pulls, total = arm.duels.get(ticket.rival, (0, 0))
            arm.duels[ticket.rival] = (pulls + 1, total + value)
        return 200, "counted"

    def accept(self, ticket: Ticket) -> tuple[int, str]:
        """Return the status and the code of an acceptance."""
        experiment = self.of(ticket)
        is_signed = ticket.secret in self.secrets and _holds(self.secrets[ticket.secret], self.now)
        if ticket.experiment in self.deleted or not is_signed:
            self.forged += 1
            return 403, "forged"
        if ticket.expires_at <= self.now:
            return 410, "expired"
        if ticket.is_accepted or ticket.value is not None:
            return 200, "duplicate"
        if experiment.status == "closed":
            return 410, "closed"
        ticket.is_accepted = True
        self.nonces.append(ticket)
        return 200, "accepted"

    def waiting(self, name: str, number: int) -> int:
        """Count the accepted pulls of an arm without a response, open or not."""
        accepted = [each for each in self.tickets if each.is_accepted and each.value is None]
        return sum((each.experiment, each.arm) == (name, number) for each in accepted)

    def decided(self, ticket: Ticket) -> None:
        """A ticket was handed out."""
        self.experiments[ticket.experiment].arms[ticket.arm].decisions += 1
        self.tickets.append(ticket)

    def answered(self, ticket: Ticket, arm: ModelArm) -> None:
        """One ticket fewer is out, or was given up."""
        # Which of those that are out and expire together is answered makes no difference to what is told.
        twin = next((each for each in self.tickets if each.pending and each.is_like(ticket)), None)
        if twin is not None:
            twin.pending = False
        elif arm.lost:
            arm.lost -= 1
        elif arm.missing:
            arm.missing -= 1

    def shown(self, name: str, number: int) -> tuple[int, int, int]:
        """Return how many tickets of an arm are pending and missing, and how many were handed out, as is told."""
        arm = self.experiments[name].arms[number]
        return self.open(name, number) + arm.lost, arm.missing, arm.decisions

    @staticmethod
    def _reject(experiment: ModelExperiment, status: int, code: str) -> tuple[int, str]:
        experiment.rejected[code] += 1
        return status, code

    def rotate_secret(self, grace: int | None) -> None:
        """Sign with a new secret; no grace means the longest lifetime."""
        longest = max((experiment.lifetime for experiment in self.experiments.values()), default=0)
        newest = self.newest
        self.secrets = _ended(self.secrets, self.now, longest if grace is None else grace)
        self.secrets[newest + 1] = None

    def rotate_key(self, key: str, grace: int) -> None:
        """Take over a new client key."""
        self.keys = _ended(self.keys, self.now, grace)
        self.keys[key] = None

    def forget(self) -> None:
        """Remove what is no longer needed."""
        gone = [hour for hour in map(full_hour, self.nonces) if hour <= self.now]
        self.forgotten = max([self.forgotten, *gone])
        self.nonces = [ticket for ticket in self.nonces if full_hour(ticket) > self.now]
        self.secrets = {number: until for number, until in self.secrets.items() if _holds(until, self.now)}
        self.keys = {key: until for key, until in self.keys.items() if _holds(until, self.now)}

    def expire(self) -> None:
        """Stop waiting for tickets whose time is up."""
        for ticket in self.tickets:
            if ticket.pending and ticket.expires_at <= self.now:
                ticket.pending = False
                self.experiments[ticket.experiment].arms[ticket.arm].missing += 1
        for experiment in self.experiments.values():
            for arm in experiment.arms if self.now >= experiment.lost_until else ():
                arm.missing, arm.lost = arm.missing + arm.lost, 0

    def restart(self) -> None:
        """Forget what is in memory only: which tickets are out, but not how many."""
        for ticket in self.tickets:
            if ticket.pending:
                ticket.pending = False
                self.experiments[ticket.experiment].arms[ticket.arm].lost += 1
        for experiment in self.experiments.values():
            experiment.lost_until = self.clock + experiment.lifetime

    def open(self, name: str, arm: int) -> int:
        """Count the tickets of an arm that the server knows to be out."""
        return sum(t.pending for t in self.tickets if (t.experiment, t.arm) == (name, arm))


def full_hour(ticket: Ticket) -> int:
    """Return the first full hour at or after the expiry: when the nonce may be removed."""
    return -(-ticket.expires_at // 3600) * 3600


def _holds(until: int | None, now: int) -> bool:
    return until is None or now < until


def _ended(all_of: dict[K, int | None], now: int, grace: int) -> dict[K, int | None]:
    cut = {key: now + grace if until is None else min(until, now + grace) for key, until in all_of.items()}
    return {key: until for key, until in cut.items() if now < until}
