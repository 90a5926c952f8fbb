"""Pulls under way: each has one response, which is drawn once, written down, and sent until the agent answers for it.

A pull is kept from the moment its arm is accepted until the agent has acknowledged its response, or has said that it
never will. First it awaits a reward, until it is due and a default takes the reward's place; then its response waits to
be sent. Everything is on disk, so that a restart loses no pull and draws no response anew.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ldpbandits.device.curators import Curator, curator_from_text
from ldpbandits.device.ledger import Ledger, Limits, Transaction
from ldpbandits.device.randomness import system_words
from ldpbandits.errors import LedgerError, LimitError, TicketError
from ldpbandits.types import Arm, Response

LONGEST_WAIT = 300.0
"""The longest wait between two tries, in seconds."""

_FIELDS = "ticket, arm, name, curator, default_reward, due, response, tries, next_try"


@dataclass(frozen=True, slots=True)
class Entry:
    """A pull under way: which arm, the curator that the agent asks for, and the response once it is drawn."""

    ticket: str
    arm: Arm
    name: str
    curator: Curator
    default_reward: float
    due: float
    """When the default takes the place of a reward that has not come."""
    response: Response | None = None
    tries: int = 0
    """How often sending has failed."""
    next_try: float = 0.0
    """When to send the response; nobody sends it before."""

    def has_to_wait(self, now: float) -> bool:
        """Tell whether nothing is to be done yet: the reward may still come, or the next try lies ahead."""
        if self.response is None:
            return now < self.due
        return now < self.next_try <= now + LONGEST_WAIT  # later still is from before the clock was set back


class Outbox:
    """The pulls of one experiment, in the file of the device's ledger. Each method is one transaction."""

    def __init__(self, ledger: Ledger, url: str, experiment: str) -> None:
        """Keep the pulls of this experiment of the agent at `url`."""
        self._ledger, self._database = ledger, ledger.database
        self._experiment = (url, experiment)

    def keep(self, offered: Sequence[Entry], limits: Limits, now: float) -> Entry:
        """Charge a pull and write it down, both or neither: no crash comes between them. Return it.

        Where the agent leaves a choice of epsilons, `offered` has the pull by each of them: the first that is within
        the owner's limits is kept. When none is, the pull is refused, and so is one with a ticket that is out already.
        """
        with self._database.transaction() as transaction:
            entry = self._charge_first(transaction, offered, limits, now)
            if transaction.execute("SELECT 1 FROM pulls WHERE ticket = ?", (entry.ticket,)).fetchone():
                raise TicketError("the agent has handed out this ticket before")
            transaction.execute(
                "INSERT INTO pulls (ticket, url, experiment, arm, name, curator, default_reward, due) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    entry.ticket,
                    *self._experiment,
                    entry.arm,
                    entry.name,
                    entry.curator.text,
                    entry.default_reward,
                    entry.due,
                ),
            )
        return entry

    def _charge_first(self, transaction: Transaction, offered: Sequence[Entry], limits: Limits, now: float) -> Entry:
        for entry in offered[:-1]:
            with suppress(LimitError):
                self._ledger.charge(transaction, limits, entry.curator.spec, now)
                return entry
        self._ledger.charge(transaction, limits, offered[-1].curator.spec, now)
        return offered[-1]

    def entries(self) -> list[Entry]:
        """Return every pull that is under way, the oldest first."""
        with self._database.transaction() as transaction:
            rows = transaction.execute(
                f"SELECT {_FIELDS} FROM pulls WHERE url = ? AND experiment = ? ORDER BY rowid",  # noqa: S608 - our names
                self._experiment,
            ).fetchall()
        return [_entry(row) for row in rows]

    def find(self, ticket: str) -> Entry:
        """Return the pull of this ticket, which must await its reward."""
        return _entry(self._open_row(ticket))

    def check_open(self, ticket: str) -> None:
        """Raise a TicketError unless the pull of this ticket awaits its reward."""
        self._open_row(ticket)

    def answer(self, ticket: str, response: Response, next_try: float) -> None:
        """Write down the one response that this pull will ever have.

        Whoever calls this sends it next. Until `next_try` no other thread or process does.
        """
        with self._database.transaction() as transaction:
            update = transaction.execute(
                "UPDATE pulls SET response = ?, next_try = ? WHERE ticket = ? AND response IS NULL",
                (response, next_try, ticket),
            )
            if update.rowcount != 1:
                raise TicketError("this pull has had its response")

    def postpone(self, ticket: str, tries: int, now: float) -> None:
        """Note that sending has failed again, after `tries` failures: the next try is in 2^tries seconds, at most 300.

        Up to half of that is taken off by chance, so that devices which failed together do not come back together.
        """
        wait = min(2.0 ** min(tries, 10), LONGEST_WAIT) * (0.5 + system_words(1)[0] / 2**65)
        with self._database.transaction() as transaction:
            transaction.execute(
                "UPDATE pulls SET tries = tries + 1, next_try = ? WHERE ticket = ?", (now + wait, ticket)
            )

    def done(self, ticket: str) -> None:
        """Forget a pull whose response has arrived, or never can. What it has cost stays in the ledger."""
        with self._database.transaction() as transaction:
            transaction.execute("DELETE FROM pulls WHERE ticket = ?", (ticket,))

    def _open_row(self, ticket: str) -> tuple[Any, ...]:
        with self._database.transaction() as transaction:
            row: tuple[Any, ...] | None = transaction.execute(
                f"SELECT {_FIELDS} FROM pulls "  # noqa: S608 - our names
                "WHERE ticket = ? AND url = ? AND experiment = ? AND response IS NULL",
                (ticket, *self._experiment),
            ).fetchone()
        if row is None:
            raise TicketError("this pull has had its response, or is not of this device and experiment")
        return row


def _entry(row: tuple[Any, ...]) -> Entry:
    ticket, arm, name, curator, default_reward, due, response, tries, next_try = row
    return Entry(ticket, arm, name, _curator(curator), default_reward, due, response, tries, next_try)


def _curator(text: str) -> Curator:
    try:
        return curator_from_text(text)
    except ValueError as error:  # of JSON, or of the spec
        raise LedgerError(f"the ledger is damaged: {error}") from None
