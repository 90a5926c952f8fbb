"""The outbox: pulls under way, each with one stored response, which is retried until the agent acknowledges it.

A pull has a response as soon as its arm is accepted: that of the default. A reward that is observed before the pull's
reporting moment replaces it by its own response. At the reporting moment the device only sends the stored response, so
that neither time nor order nor size reveals whether there was a reward. A response that has left never changes.

A pull is kept until the agent has acknowledged its response, or has refused it for good. Everything is on disk, so that
a restart loses no pull and draws no response anew.
"""

import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from threading import Lock
from typing import Any

from ldpbandits.device.curators import Curator
from ldpbandits.device.database import Transaction
from ldpbandits.device.decision import Decision, Request, curator_from_text, curator_to_text
from ldpbandits.device.ledger import Ledger
from ldpbandits.device.limits import Limits
from ldpbandits.device.randomness import system_words
from ldpbandits.device.wire import AgentConnection, Message
from ldpbandits.errors import LedgerError, LimitError, ServerError, TicketError
from ldpbandits.spec.protocol import ACCEPTANCES, FINAL, RESPONSES, Acknowledged
from ldpbandits.types import Arm, Epsilon, Response

MAX_RETRY_WAIT_S = 300.0
"""Longest backoff between two tries to send a response."""
EXPIRY_MARGIN_S = 60.0
"""Seconds before the expiry of a ticket at which its default is sent, where rewards are sent at once."""
CLOCK_STEP_S = 60.0
"""Seconds of a step back that is normal for a clock; after a larger step back, no stored time can be trusted."""

MAX_REFUSALS = 100
"""Refusals that are kept for the next `flush`; older ones are dropped."""

_FIELDS = (
    "charge, ticket, arm, name, curator, accepted_at, report_at, at_once, response, is_observed, "
    "(SELECT left_at IS NOT NULL FROM spent WHERE number = charge), tries, next_try"
)
_HERE = "url = ? AND experiment = ?"


@dataclass(frozen=True, slots=True)
class Entry:
    """A pull under way: its arm, the curator that the agent asks for, and the current response."""

    charge: int
    """The number of its charge in the ledger; earlier pulls have smaller numbers."""
    ticket: str
    arm: Arm
    name: str
    curator: Curator
    accepted_at: float
    report_at: float
    """The Unix time at which the response is sent, whatever it is."""
    at_once: bool
    """The response to a reward is sent when the reward comes."""
    response: Response
    """The response to the default, or to the observed reward."""
    is_observed: bool = False
    has_left: bool = False
    """The response was sent, or was about to be: it never changes again."""
    tries: int = 0
    """The number of failed tries to send."""
    next_try: float = 0.0
    """The Unix time of the next try; no process sends the response before."""

    def is_over(self, now: float) -> bool:
        """Tell whether the reporting moment has passed, or may have: the clock was set back behind the pull."""
        return not self.accepted_at - CLOCK_STEP_S <= now < self.report_at

    def is_open(self, now: float) -> bool:
        """Tell whether a reward may be observed."""
        return not (self.is_observed or self.has_left or self.is_over(now))

    def is_due(self, now: float) -> bool:
        """Tell whether the response must be sent now."""
        return self.has_left or self.is_over(now) or (self.at_once and self.is_observed)


@dataclass(frozen=True, slots=True)
class Showing:
    """An arm to show, with its pull if the agent asks for a response."""

    arm: Arm
    name: str
    entry: Entry | None
    is_new: bool = False
    """The pull was accepted just now, by the caller."""


def lies_ahead(moment: float, now: float) -> bool:
    """Tell whether to wait until a time. A time beyond the longest wait is from before the clock was set back."""
    return now < moment <= now + MAX_RETRY_WAIT_S


def backoff(tries: int) -> float:
    """Return the seconds to wait after another failure, when `tries` have failed before."""
    return min(2.0 ** min(tries, 10), MAX_RETRY_WAIT_S) * (0.5 + system_words(1)[0] / 2**65)


class Outbox:
    """The pulls of one experiment, in the ledger's file. Each method is a transaction, or a part of the caller's."""

    def __init__(self, ledger: Ledger, url: str, experiment: str) -> None:
        """Hold the pulls of this experiment of the agent at `url`."""
        self._ledger, self.database = ledger, ledger.database
        self._experiment = (url, experiment)

    def showing(self, now: float) -> Showing | None:
        """Return the sticky arm of this device, with its pull while that can be observed; None if there is none."""
        with self.database.transaction() as transaction:
            row = transaction.execute(
                f"SELECT arm, name, ticket FROM sticky WHERE {_HERE} AND since <= ? AND until > ?",  # noqa: S608 - our names
                (*self._experiment, now + CLOCK_STEP_S, now),
            ).fetchone()
            if row is None:
                return None
            arm, name, ticket = row
            entry = self._entry_of(transaction, ticket)
        return Showing(arm, name, entry if entry is not None and entry.is_open(now) else None)

    def forget_sticky(self) -> None:
        """Show the sticky arm no more."""
        with self.database.transaction() as transaction:
            transaction.execute(f"DELETE FROM sticky WHERE {_HERE}", self._experiment)  # noqa: S608 - our names

    def check(self, request: Request, limits: Limits, now: float) -> None:
        """Raise LimitError unless the owner's limits allow what an agent offers, now."""
        limits.check_moment(request.report_after)
        with self.database.transaction() as transaction:
            for curator in request.curators[:-1]:
                with suppress(LimitError):
                    return self._ledger.check(transaction, limits, curator.spec, now)
            return self._ledger.check(transaction, limits, request.curators[-1].spec, now)

    def keep(self, decision: Decision, limits: Limits, now: float) -> Showing:
        """Charge a pull, draw the response to its default and store both, or neither. Return the pull.

        Where the agent offers a menu of epsilons, the first curator within the owner's limits is charged. When none is
        within them, the pull is refused, and so is a pull whose ticket is known already. If another thread or process
        has meanwhile begun to show a sticky arm, that arm is returned, and nothing is charged.
        """
        with self.database.transaction() as transaction:
            showing = self.showing(now)
            if showing is not None:
                return showing
            request = decision.request
            limits.check_moment(request.report_after)
            charge, curator = self._charge_first(transaction, request.curators, limits, now)
            if transaction.execute("SELECT 1 FROM pulls WHERE ticket = ?", (decision.ticket,)).fetchone():
                raise TicketError("the agent has issued this ticket before")
            at_once = request.report_after == 0
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
                    curator_to_text(curator),
                    now,
                    now + (decision.lifetime - margin if at_once else request.report_after),
                    at_once,
                    curator.respond(request.default),
                ),
            )
            transaction.execute(f"DELETE FROM sticky WHERE {_HERE}", self._experiment)  # noqa: S608 - our names
            if request.sticky:
                shown = (decision.arm, decision.name, decision.ticket, now, now + request.sticky)
                transaction.execute("INSERT INTO sticky VALUES (?, ?, ?, ?, ?, ?, ?)", (*self._experiment, *shown))
            (row,) = transaction.execute(f"SELECT {_FIELDS} FROM pulls WHERE charge = ?", (charge,))  # noqa: S608 - ours
        return Showing(decision.arm, decision.name, _entry(row, curator), is_new=True)

    def entries(self) -> list[Entry]:
        """Return every pull under way, the oldest first."""
        with self.database.transaction() as transaction:
            rows = transaction.execute(
                f"SELECT {_FIELDS} FROM pulls WHERE {_HERE} ORDER BY charge",  # noqa: S608 - our names
                self._experiment,
            ).fetchall()
        return [_entry(row) for row in rows]

    def find(self, ticket: str, now: float) -> Entry:
        """Return the pull of this ticket, which must await its reward."""
        with self.database.transaction() as transaction:
            entry = self._entry_of(transaction, ticket)
        if entry is None:
            raise TicketError("unknown pull: its response was sent, or it belongs to another device or experiment")
        if entry.is_observed:
            raise TicketError("this pull has had its reward")
        if not entry.is_open(now):
            raise TicketError("the reporting moment of this pull has passed: its reward can no longer be observed")
        return entry

    def observe(self, ticket: str, response: Response, now: float) -> None:
        """Replace the response to the default by the response to a reward, once and for good."""
        with self.database.transaction() as transaction:
            self.find(ticket, now)
            transaction.execute("UPDATE pulls SET response = ?, is_observed = 1 WHERE ticket = ?", (response, ticket))

    def report(self, tickets: Iterable[str], now: float) -> None:
        """Set the reporting moment of these pulls to now, if it lies ahead."""
        with self.database.transaction() as transaction:
            transaction.executemany(
                "UPDATE pulls SET report_at = ? WHERE ticket = ? AND report_at > ?",
                [(now, ticket, now) for ticket in tickets],
            )

    def take(self, ticket: str, limits: Limits, now: float, lease: float) -> Entry | float | None:
        """Take a response to send it: for `lease` seconds no other thread or process sends it.

        The ledger records it as having left, before its first byte leaves. Where the budget has no room for it, the
        response stays, and the seconds until there is room are returned. None: it must not be sent now.
        """
        with self.database.transaction() as transaction:
            entry = self._entry_of(transaction, ticket)
            if entry is None or not entry.is_due(now) or lies_ahead(entry.next_try, now):
                return None
            wait = self._ledger.let_leave(transaction, limits, entry.charge, now)
            until = now + min(wait or lease, MAX_RETRY_WAIT_S)
            transaction.execute("UPDATE pulls SET next_try = ? WHERE ticket = ?", (until, ticket))
        return wait or entry

    def postpone(self, ticket: str, tries: int, now: float) -> None:
        """Record another failure, after `tries` failures: the backoff is 2^tries seconds, at most 300.

        Random jitter takes off up to half of it, so that devices which failed together do not retry together.
        """
        wait = backoff(tries)
        with self.database.transaction() as transaction:
            transaction.execute(
                "UPDATE pulls SET tries = tries + 1, next_try = ? WHERE ticket = ?", (now + wait, ticket)
            )

    def done(self, ticket: str) -> None:
        """Delete a pull whose response was acknowledged, or refused for good. Its charge stays in the ledger."""
        with self.database.transaction() as transaction:
            transaction.execute("DELETE FROM pulls WHERE ticket = ?", (ticket,))

    def _charge_first(
        self, transaction: Transaction, curators: Sequence[Curator], limits: Limits, now: float
    ) -> tuple[int, Curator]:
        for curator in curators[:-1]:
            with suppress(LimitError):
                return self._ledger.charge(transaction, limits, curator.spec, now), curator
        return self._ledger.charge(transaction, limits, curators[-1].spec, now), curators[-1]

    def _entry_of(self, transaction: Transaction, ticket: str) -> Entry | None:
        row = transaction.execute(
            f"SELECT {_FIELDS} FROM pulls WHERE ticket = ? AND {_HERE}",  # noqa: S608 - our names
            (ticket, *self._experiment),
        ).fetchone()
        return None if row is None else _entry(row)


def _entry(row: tuple[Any, ...], curator: Curator | None = None) -> Entry:
    charge, ticket, arm, name, text, since, until, at_once, response, observed, left, tries, next_try = row
    try:
        curator = curator_from_text(text) if curator is None else curator
    except ValueError as error:  # of JSON, or of the spec
        raise LedgerError(f"the ledger is damaged: {error}") from None
    states = bool(observed), bool(left)
    return Entry(charge, ticket, arm, name, curator, since, until, bool(at_once), response, *states, tries, next_try)


@dataclass(frozen=True)
class Flushed:
    """The outcomes of responses: how many arrived since the last call, how many wait, and the refusals."""

    acknowledged: int
    waiting: int
    """Due responses, which are sent or retried when the agent can be reached and the budget has room."""
    refused: tuple[ServerError, ...]


class Sender:
    """The sender of one client. Several may share an outbox at the same time: each response has one sender."""

    def __init__(self, outbox: Outbox, limits: Limits, connection: AgentConnection, timeout: float) -> None:
        """Send the responses of this outbox, within these limits; a request takes at most `timeout` seconds."""
        self._outbox, self._limits, self._connection, self._timeout = outbox, limits, connection, timeout
        self._database = outbox.database
        self._hold = 0.0
        self._counts = Lock()
        self._acknowledged, self._refused = 0, deque[ServerError](maxlen=MAX_REFUSALS)
        self._unaccepted: dict[str, tuple[int, float]] = {}
        """By ticket whose acceptance is not acknowledged: the failed tries, and the Unix time of the next one."""

    def owe_acceptances(self, entries: Iterable[Entry]) -> None:
        """Send the acceptances of these pulls soon. None is stored: a repeat is harmless, a response implies it."""
        self._unaccepted.update({entry.ticket: (0, 0.0) for entry in entries if not entry.has_left})

    def accept(self, now: float) -> None:
        """Send each acceptance that is not acknowledged, unless the response has left, which implies it.

        It is sent as soon as the pull is charged, before there is a reward, so it tells nothing of one.
        """
        unaccepted = self._unaccepted.copy()
        is_open = {entry.ticket for entry in self._outbox.entries() if not entry.has_left} if unaccepted else set()
        for ticket, (tries, next_try) in unaccepted.items():
            if ticket not in is_open:
                self._unaccepted.pop(ticket, None)
            elif not lies_ahead(next_try, now):
                if not self._post_acceptance(ticket):
                    self._unaccepted[ticket] = tries + 1, time.time() + backoff(tries)
                    return  # the others would fail, too; they wait for their turn
                self._unaccepted.pop(ticket, None)

    def _post_acceptance(self, ticket: str) -> bool:
        """Send an acceptance; True if it was acknowledged, or refused for good."""
        try:
            reply = self._connection.post(ACCEPTANCES, {"ticket": ticket}, with_key=False)
        except ServerError as error:
            return error.code in FINAL
        return reply.get("status") in (Acknowledged.ACCEPTED, Acknowledged.DUPLICATE)

    def until_acceptance(self, entry: Entry, now: float) -> float | None:
        """Return the seconds until the acceptance of this pull is sent; None if it needs none."""
        if entry.has_left or entry.ticket not in self._unaccepted:
            return None
        next_try = self._unaccepted[entry.ticket][1]
        return next_try - now if lies_ahead(next_try, now) else 0.0

    def send(self, entry: Entry, now: float, deadline: float | None = None) -> bool | ServerError | None:
        """Send a due response; True if it was acknowledged, the error of a final refusal, False if sending failed.

        None: it must not be sent now, because it is not due, another sender has it, or the owner's budget has no room.
        `deadline` is on the monotonic clock.
        """
        return self.deliver(self.take(entry, now, deadline), deadline)

    def take(self, entry: Entry, now: float, deadline: float | None = None) -> Entry | None:
        """Take a response, which only this sender sends from now on; None: it must not be sent now."""
        if not entry.has_left and lies_ahead(self._hold, now):
            return None
        with self._database.deadline(deadline):
            taken = self._outbox.take(entry.ticket, self._limits, now, lease=self._timeout + 1)
        if isinstance(taken, float):
            # The oldest goes first: younger responses that would fit wait too. One that never fits delays no other.
            self._hold = 0.0 if taken == inf else now + min(taken, MAX_RETRY_WAIT_S)
        return taken if isinstance(taken, Entry) else None

    def deliver(self, taken: Entry | None, deadline: float | None = None) -> bool | ServerError | None:
        """Send a response that was taken, as `send` does, and record the outcome."""
        if taken is None:
            return None
        epsilon = Epsilon(taken.curator.spec.epsilon)
        message: Message = {"ticket": taken.ticket, "response": taken.response, "epsilon": epsilon}
        timeout = None if deadline is None else deadline - time.monotonic()
        outcome: bool | ServerError
        try:
            # The ticket is the credential: the key need not be sent.
            reply = self._connection.post(RESPONSES, message, with_key=False, timeout=timeout)
            # A hotel's login page answers 200 too. The tuple: an agent may send a list, which has no hash.
            outcome = reply.get("status") in (Acknowledged.COUNTED, Acknowledged.DUPLICATE)
        except ServerError as error:
            outcome = error if error.code in FINAL else False
        with self._counts:
            self._acknowledged += outcome is True
            if isinstance(outcome, ServerError):
                self._refused.append(outcome)
        # The outcome stands even if the ledger cannot be written now: then a retry sends the same bytes again.
        with suppress(LedgerError), self._database.deadline(deadline):
            if outcome is False:
                self._outbox.postpone(taken.ticket, taken.tries, time.time())
            else:
                self._outbox.done(taken.ticket)
        return outcome

    def until_due(self, entry: Entry, now: float) -> float:
        """Return the seconds until the response of this pull is due, or its next try."""
        if not entry.is_due(now):
            return entry.report_at - now
        moments = (entry.next_try, 0.0 if entry.has_left else self._hold)
        return max((moment - now for moment in moments if lies_ahead(moment, now)), default=0.0)

    def collect(self, waiting: int) -> Flushed:
        """Return the outcomes of responses since the last call."""
        with self._counts:
            flushed = Flushed(self._acknowledged, waiting, tuple(self._refused))
            self._acknowledged = 0
            self._refused.clear()
        return flushed

    def after_fork(self) -> None:
        """Reset in a child process: acceptances, the holder of the lock, and its counts are the parent's."""
        self._unaccepted.clear()
        self._counts = Lock()
        self.collect(0)
