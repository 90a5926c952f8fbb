"""Sends the responses of an outbox, each until the agent has answered for it, and remembers what the agent said."""

import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from threading import Lock
from typing import Any

from ldpbandits.device.limits import Limits
from ldpbandits.device.outbox import MAX_RETRY_WAIT_S, Entry, Outbox, lies_ahead
from ldpbandits.device.wire import AgentConnection, Message
from ldpbandits.errors import LedgerError, ServerError
from ldpbandits.spec.protocol import FINAL, RESPONSES, Acknowledged
from ldpbandits.types import Epsilon

MAX_REFUSALS = 100
"""The number of refusals that are remembered until somebody asks for them; older ones are forgotten."""


@dataclass(frozen=True)
class Flushed:
    """What became of responses: how many arrived since the last call, how many wait, and what the server refused."""

    acknowledged: int
    waiting: int
    """Their moment has come: they are sent, or sent again, when the agent can be reached and the budget has room."""
    refused: tuple[ServerError, ...]


class Sender:
    """Sends for one client. Others may send from the same outbox at the same time: each response has one sender."""

    def __init__(self, outbox: Outbox, limits: Limits, connection: AgentConnection, timeout: float) -> None:
        """Send what is in this outbox, within these limits; a request takes at most `timeout` seconds."""
        self._outbox, self._limits, self._connection, self._timeout = outbox, limits, connection, timeout
        self._hold = 0.0
        self._counts = Lock()
        self._acknowledged, self._refused = 0, deque[ServerError](maxlen=MAX_REFUSALS)

    def send(self, entry: Entry, now: float, deadline: float | None = None) -> bool | ServerError | None:
        """Send a response if it is due; True if it has arrived, the error if it never can, False if sending failed.

        None: it is not to be sent now. Its moment lies ahead, another sends it, or the owner's budget has no room. A
        caller in a hurry gives a deadline on the monotonic clock.
        """
        return self.deliver(self.take(entry, now, deadline), deadline)

    def take(self, entry: Entry, now: float, deadline: float | None = None) -> Entry | None:
        """Take a response, which only this sender sends from now on; None: it is not to be sent now."""
        if self.is_held(entry, now):
            return None
        with self._outbox.deadline(deadline):
            taken = self._outbox.take(entry.ticket, self._limits, now, lease=self._timeout + 1)
        if isinstance(taken, float):
            # The oldest goes first: what would fit in its place waits too. One that never fits holds up nobody.
            self._hold = 0.0 if taken == inf else now + min(taken, MAX_RETRY_WAIT_S)
        return taken if isinstance(taken, Entry) else None

    def deliver(self, taken: Entry | None, deadline: float | None = None) -> bool | ServerError | None:
        """Send a response that was taken, as `send` does, and note what has become of it."""
        if taken is None:
            return None
        outcome = self._post(taken, None if deadline is None else deadline - time.monotonic())
        with self._counts:
            self._acknowledged += outcome is True
            if isinstance(outcome, ServerError):
                self._refused.append(outcome)
        # What the agent has said stands, even if the ledger cannot be written now: then the same will be sent again.
        with suppress(LedgerError), self._outbox.deadline(deadline):
            if outcome is False:
                self._outbox.postpone(taken.ticket, taken.tries, time.time())
            else:
                self._outbox.done(taken.ticket)
        return outcome

    def is_held(self, entry: Entry, now: float) -> bool:
        """Tell whether a response has to wait until there is room in the budget, as far as is known."""
        return not entry.has_left and lies_ahead(self._hold, now)

    def until_due(self, entry: Entry, now: float) -> float:
        """Return the seconds until there is something to do for this pull."""
        if not entry.is_due(now):
            return entry.report_at - now
        moments = (entry.next_try, 0.0 if entry.has_left else self._hold)
        return max((moment - now for moment in moments if lies_ahead(moment, now)), default=0.0)

    def collect(self, waiting: int) -> Flushed:
        """Return what has become of responses since the last call."""
        with self._counts:
            news = Flushed(self._acknowledged, waiting, tuple(self._refused))
            self._acknowledged = 0
            self._refused.clear()
        return news

    def after_fork(self) -> None:
        """Start anew in a child process: the holder of the lock, and what it has counted, are in the parent."""
        self._counts = Lock()
        self.collect(0)

    def _post(self, entry: Entry, timeout: float | None) -> bool | ServerError:
        """Tell the agent a response, and return what became of it."""
        epsilon = Epsilon(entry.curator.spec.epsilon)
        message: Message = {"ticket": entry.ticket, "response": entry.response, "epsilon": epsilon}
        try:
            # The ticket is the credential: what need not be sent is not.
            reply = self._connection.post(RESPONSES, message, with_key=False, timeout=timeout)
        except ServerError as error:
            return error if error.code in FINAL else False
        return is_acknowledgement(reply)


def is_acknowledgement(reply: Mapping[str, Any]) -> bool:
    """Tell whether the agent says that a response is counted, now or before: a hotel's login page answers 200 too."""
    return reply.get("status") in tuple(Acknowledged)  # a tuple: the agent may have sent a list, which has no hash
