"""Pulls under way: each has one response, which is written down, and sent until the agent answers for it.

A pull has a response from the moment its arm is accepted: that of the default. A reward that is observed before the
pull's reporting moment puts its own response in that one's place. At the moment there is nothing left to do but to send
what is there, so that neither time nor order nor size tells whether there was a reward. What has left stays as it is.

A pull is kept until the agent has acknowledged its response, or has said that it never will. Everything is on disk, so
that a restart loses no pull and draws no response anew.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

from ldpbandits.device.curators import Curator, curator_from_text
from ldpbandits.device.database import Transaction
from ldpbandits.device.decision import Decision
from ldpbandits.device.ledger import Ledger
from ldpbandits.device.limits import Limits
from ldpbandits.device.randomness import system_words
from ldpbandits.errors import LedgerError, LimitError, TicketError
from ldpbandits.types import Arm, Response

MAX_RETRY_WAIT_S = 300.0
"""The longest wait between two tries to send a response."""
EXPIRY_MARGIN_S = 60.0
"""How long before a ticket expires its default is sent at the latest, where rewards are sent at once."""
CLOCK_STEP_S = 60.0
"""Clocks are set back by some seconds now and then; after a larger step back, no moment can be trusted."""

_FIELDS = (
    "charge, ticket, arm, name, curator, accepted_at, report_at, at_once, response, is_observed, "
    "(SELECT left_at IS NOT NULL FROM spent WHERE number = charge), tries, next_try"
)
_HERE = "url = ? AND experiment = ?"


@dataclass(frozen=True, slots=True)
class Entry:
    """A pull under way: which arm, the curator that the agent asks for, and the response as it is now."""

    charge: int
    """The number of its charge in the ledger; who was accepted first has the smaller one."""
    ticket: str
    arm: Arm
    name: str
    curator: Curator
    accepted_at: float
    report_at: float
    """When its response is sent, whatever it is."""
    at_once: bool
    """The response to a reward is sent when it comes."""
    response: Response
    """That to the default, or to the reward that was observed."""
    is_observed: bool = False
    has_left: bool = False
    """It has been sent, or was about to be: nothing changes it any more."""
    tries: int = 0
    """How often sending has failed."""
    next_try: float = 0.0
    """When to send the response; nobody sends it before."""

    def is_over(self, now: float) -> bool:
        """Tell whether the reporting moment has passed. If the clock was set back behind the pull, nobody knows."""
        return not self.accepted_at - CLOCK_STEP_S <= now < self.report_at

    def is_open(self, now: float) -> bool:
        """Tell whether a reward may be observed."""
        return not (self.is_observed or self.has_left or self.is_over(now))

    def is_due(self, now: float) -> bool:
        """Tell whether the response is to be sent."""
        return self.has_left or self.is_over(now) or (self.at_once and self.is_observed)

    def has_to_wait(self, now: float) -> bool:
        """Tell whether nothing is to be done yet: the moment lies ahead, or the next try."""
        return not self.is_due(now) or lies_ahead(self.next_try, now)


@dataclass(frozen=True, slots=True)
class Showing:
    """An arm to show, and its pull if a response is asked for."""

    arm: Arm
    name: str
    entry: Entry | None
    is_new: bool = False
    """The pull was accepted just now, by the caller."""


def lies_ahead(moment: float, now: float) -> bool:
    """Tell whether to wait until a moment. One further ahead than any wait is from before the clock was set back."""
    return now < moment <= now + MAX_RETRY_WAIT_S


class Outbox:
    """The pulls of one experiment, in the ledger's file. Each method is a transaction, or a part of the caller's."""

    def __init__(self, ledger: Ledger, url: str, experiment: str) -> None:
        """Keep the pulls of this experiment of the agent at `url`."""
        self._ledger, self._database = ledger, ledger.database
        self._experiment = (url, experiment)

    def deadline(self, deadline: float | None) -> AbstractContextManager[None]:
        """Wait for the ledger until this deadline on the monotonic clock at most, while in the block."""
        return self._database.deadline(deadline)

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Let the calls in the block be one transaction."""
        return self._database.transaction()

    def showing(self, now: float) -> Showing | None:
        """Return the arm that this device goes on to show, with its pull while that can be observed; None if none."""
        with self._database.transaction() as transaction:
            return self._showing(transaction, now)

    def keep(self, decision: Decision, limits: Limits, now: float) -> Showing:
        """Charge a pull, draw the response to its default and write both down, or neither. Return it.

        Where the agent leaves a choice of epsilons, the first curator that is within the owner's limits is kept. When
        none is, the pull is refused, and so is one with a ticket that is out already. If another thread or process has
        meanwhile begun to show an arm that is sticky, that is returned, and nothing is charged.
        """
        with self._database.transaction() as transaction:
            showing = self._showing(transaction, now)
            if showing is not None:
                return showing
            limits.check_moment(decision.report_after)
            charge, curator = self._charge_first(transaction, decision.curators, limits, now)
            if transaction.execute("SELECT 1 FROM pulls WHERE ticket = ?", (decision.ticket,)).fetchone():
                raise TicketError("the agent has handed out this ticket before")
            at_once = decision.report_after == 0
            margin = min(EXPIRY_MARGIN_S, decision.lifetime / 10)
            transaction.execute(
                "INSERT INTO pulls (charge, ticket, url, experiment, arm, name, curator, accepted_at, report_at, "
                "at_once, response) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    charge,
                    decision.ticket,
                    *self._experiment,
                    decision.arm,
                    decision.name,
                    curator.text,
                    now,
                    now + (decision.lifetime - margin if at_once else decision.report_after),
                    at_once,
                    curator.respond(decision.default),
                ),
            )
            self._stick(transaction, decision, now)
            (row,) = transaction.execute(f"SELECT {_FIELDS} FROM pulls WHERE charge = ?", (charge,))  # noqa: S608 - ours
        return Showing(decision.arm, decision.name, _entry(row, curator), is_new=True)

    def entries(self) -> list[Entry]:
        """Return every pull that is under way, the oldest first."""
        with self._database.transaction() as transaction:
            rows = transaction.execute(
                f"SELECT {_FIELDS} FROM pulls WHERE {_HERE} ORDER BY charge",  # noqa: S608 - our names
                self._experiment,
            ).fetchall()
        return [_entry(row) for row in rows]

    def find(self, ticket: str, now: float) -> Entry:
        """Return the pull of this ticket, which must await its reward."""
        with self._database.transaction() as transaction:
            return self._open_entry(transaction, ticket, now)

    def observe(self, ticket: str, response: Response, now: float) -> None:
        """Put the response to a reward in the place of that to the default, once and for good."""
        with self._database.transaction() as transaction:
            self._open_entry(transaction, ticket, now)
            transaction.execute("UPDATE pulls SET response = ?, is_observed = 1 WHERE ticket = ?", (response, ticket))

    def report(self, tickets: Iterable[str], now: float) -> None:
        """Let the reporting moment of these pulls be now, if it lies ahead."""
        with self._database.transaction() as transaction:
            transaction.executemany(
                "UPDATE pulls SET report_at = ? WHERE ticket = ? AND report_at > ?",
                [(now, ticket, now) for ticket in tickets],
            )

    def take(self, ticket: str, limits: Limits, now: float, lease: float) -> Entry | float | None:
        """Take a response to send it: until the lease ends, in seconds, no other thread or process does.

        It is noted in the ledger as having left, before its first byte leaves. Where the budget has no room for it, it
        stays, and the seconds until there is room are returned. None: it is not to be sent now.
        """
        with self._database.transaction() as transaction:
            entry = self._entry_of(transaction, ticket)
            if entry is None or entry.has_to_wait(now):
                return None
            wait = self._ledger.let_leave(transaction, limits, entry.charge, now)
            until = now + min(wait or lease, MAX_RETRY_WAIT_S)
            transaction.execute("UPDATE pulls SET next_try = ? WHERE ticket = ?", (until, ticket))
        return wait or entry

    def postpone(self, ticket: str, tries: int, now: float) -> None:
        """Note that sending has failed again, after `tries` failures: the next try is in 2^tries seconds, at most 300.

        Up to half of that is taken off by chance, so that devices which failed together do not come back together.
        """
        wait = min(2.0 ** min(tries, 10), MAX_RETRY_WAIT_S) * (0.5 + system_words(1)[0] / 2**65)
        with self._database.transaction() as transaction:
            transaction.execute(
                "UPDATE pulls SET tries = tries + 1, next_try = ? WHERE ticket = ?", (now + wait, ticket)
            )

    def done(self, ticket: str) -> None:
        """Forget a pull whose response has arrived, or never can. What it has cost stays in the ledger."""
        with self._database.transaction() as transaction:
            transaction.execute("DELETE FROM pulls WHERE ticket = ?", (ticket,))

    def _charge_first(
        self, transaction: Transaction, curators: Sequence[Curator], limits: Limits, now: float
    ) -> tuple[int, Curator]:
        for curator in curators[:-1]:
            with suppress(LimitError):
                return self._ledger.charge(transaction, limits, curator.spec, now), curator
        return self._ledger.charge(transaction, limits, curators[-1].spec, now), curators[-1]

    def _showing(self, transaction: Transaction, now: float) -> Showing | None:
        row = transaction.execute(
            f"SELECT arm, name, ticket FROM sticky WHERE {_HERE} AND since <= ? AND until > ?",  # noqa: S608 - our names
            (*self._experiment, now + CLOCK_STEP_S, now),
        ).fetchone()
        if row is None:
            return None
        arm, name, ticket = row
        entry = self._entry_of(transaction, ticket)
        return Showing(arm, name, entry if entry is not None and entry.is_open(now) else None)

    def _stick(self, transaction: Transaction, decision: Decision, now: float) -> None:
        transaction.execute(f"DELETE FROM sticky WHERE {_HERE}", self._experiment)  # noqa: S608 - our names
        if decision.sticky:
            kept = (decision.arm, decision.name, decision.ticket, now, now + decision.sticky)
            transaction.execute("INSERT INTO sticky VALUES (?, ?, ?, ?, ?, ?, ?)", (*self._experiment, *kept))

    def _entry_of(self, transaction: Transaction, ticket: str) -> Entry | None:
        row = transaction.execute(
            f"SELECT {_FIELDS} FROM pulls WHERE ticket = ? AND {_HERE}",  # noqa: S608 - our names
            (ticket, *self._experiment),
        ).fetchone()
        return None if row is None else _entry(row)

    def _open_entry(self, transaction: Transaction, ticket: str, now: float) -> Entry:
        entry = self._entry_of(transaction, ticket)
        if entry is None:
            raise TicketError("this pull is over and its response sent, or it is not of this device and experiment")
        if entry.is_observed:
            raise TicketError("this pull has had its reward")
        if not entry.is_open(now):
            raise TicketError("the reporting moment of this pull has passed: no reward is taken for it any more")
        return entry


def _entry(row: tuple[Any, ...], curator: Curator | None = None) -> Entry:
    charge, ticket, arm, name, text, accepted_at, report_at, at_once, response, is_observed, has_left, *tries = row
    curator = _curator(text) if curator is None else curator
    drawn = response, bool(is_observed), bool(has_left)
    return Entry(charge, ticket, arm, name, curator, accepted_at, report_at, bool(at_once), *drawn, *tries)


def _curator(text: str) -> Curator:
    try:
        return curator_from_text(text)
    except ValueError as error:  # of JSON, or of the spec
        raise LedgerError(f"the ledger is damaged: {error}") from None
