"""Take part in an experiment: ask for an arm, observe the reward, and let nothing leave but the private response.

    limits = Limits(rewards=Range(0, 1), epsilon=1, budget=10)
    client = Client("https://agent.example", "headline", key="client-...", limits=limits)
    pull = client.decide()  # show the user pull.name
    pull.observe(reward)  # a response to it is drawn and written down; it is sent at the pull's reporting moment

The agent is not trusted: what it asks for is checked against the owner's limits and charged in the ledger before an arm
is accepted. Whether, when and in which order responses are sent does not depend on rewards: each pull has a response
from the start, that of the declared default, which the response to a reward replaces; and it is sent at a moment that
was known before there was a reward, or when the app leaves. A retry sends the same one.
"""

import atexit
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Self
from weakref import WeakSet

from ldpbandits.checks import brief
from ldpbandits.device.decision import read_decision
from ldpbandits.device.http import Http
from ldpbandits.device.keeper import Keeper
from ldpbandits.device.ledger import Ledger, default_path
from ldpbandits.device.limits import Limits
from ldpbandits.device.outbox import Entry, Outbox, Showing
from ldpbandits.device.sealed import sealed
from ldpbandits.device.sender import Flushed, Sender
from ldpbandits.errors import LDPBanditsError, LedgerError, LimitError
from ldpbandits.spec.protocol import decisions_path
from ldpbandits.types import Arm, Reward

PATIENCE = 2.0
"""How long leaving may take, in seconds: what was not sent by then is sent at the next start."""
GRACE = 0.3
"""How long to wait for what was told to end, in seconds, before it is left alone."""


@dataclass(frozen=True)
class Pull:
    """One arm to show, and the way to tell what came of it."""

    arm: Arm
    name: str
    ticket: str | None
    """None if no response is asked for: the experiment is over and its best arm shown, or this one is shown again."""
    epsilon: float
    """What its response costs: it is spent."""
    report_at: float | None
    """When its response is sent, in seconds since 1970: rewards count until then."""
    _respond: Callable[[Reward | float, bool], bool] = field(repr=False, compare=False)

    @sealed
    def observe(self, reward: Reward | float, *, clip: bool = True) -> bool:
        """Draw the response to a reward and keep it until it is sent; False if no response is asked for.

        A reward out of range counts as the nearest one in range. With `clip=False` it is an error; then the pull stays
        open, and what is sent at its moment is the response to the default, unless a right reward comes before.
        """
        return self._respond(reward, clip)


class Client:
    """A device's part in one experiment. Several clients, processes and experiments may share one ledger.

    >>> from ldpbandits import Range
    >>> limits = Limits(rewards=Range(0, 1), epsilon=1, budget=10)
    >>> with Client(url, "headline", key=key, limits=limits, ledger=":memory:") as client:
    ...     pull = client.decide()  # show the user pull.name
    ...     pull.observe(1)  # the reward stays here; one random bit is sent, at the end of this block
    ...     client.spent()
    True
    1.0
    """

    def __init__(  # noqa: PLR0913 - each is a choice of the owner or of the app
        self,
        url: str,
        experiment: str,
        *,
        key: str,
        limits: Limits,
        ledger: Ledger | Path | str | None = None,
        timeout: float = 10.0,
        background: bool = True,
    ) -> None:
        """Take part in this experiment of the agent at `url`.

        The ledger is that of this user, unless you name another. With `background`, a thread sends what is due; without
        it, call `flush()` from time to time.
        """
        url = url.rstrip("/")
        self._decisions = decisions_path(experiment)
        self._limits = limits
        self._http = Http(url, key, timeout)
        self._ledger = ledger if isinstance(ledger, Ledger) else Ledger(default_path() if ledger is None else ledger)
        self._owns_ledger = self._ledger is not ledger
        self._outbox = Outbox(self._ledger, url, experiment)
        self._sender = Sender(self._outbox, self._http, limits, timeout)
        self._mine: dict[str, float] = {}
        """The pulls that were decided here, and when they are over by a clock that nobody sets."""
        self._is_closed = False
        self._keeper = Keeper(self._send_all, self._until_due) if background else None
        _clients.add(self)
        if background and self._outbox.entries():  # from before a restart
            self._wake()

    def decide(self, *, epsilon: float | None = None) -> Pull:
        """Ask which arm to pull; accept it only within the owner's limits.

        Where the agent leaves a choice of epsilons, it is the one named here, else the largest within the limits. It is
        made and charged now, before there is a reward: a choice that depended on the reward would tell of it. An arm
        that is sticky is shown again without asking.
        """
        showing = self._outbox.showing(time.time())
        if showing is None:
            decision = read_decision(self._http.post(self._decisions, {}))
            if decision.ticket is None:
                return self._pull(Showing(decision.arm, decision.name, None))
            chosen = tuple(curator for curator in decision.curators if epsilon is None or curator.epsilon == epsilon)
            if not chosen:
                listed = ", ".join(f"{curator.epsilon:g}" for curator in reversed(decision.curators))
                raise LimitError(f"the agent offers epsilon = {listed}, and not {brief(epsilon)}")
            now = time.time()
            showing = self._outbox.keep(replace(decision, curators=chosen), self._limits, now)
            if showing.is_new and showing.entry is not None:
                self._mine[showing.entry.ticket] = time.monotonic() + showing.entry.report_at - now
                self._wake()
        return self._pull(showing)

    @sealed
    def observe(self, ticket: str, reward: Reward | float, *, clip: bool = True) -> bool:
        """Draw the response to the reward of the pull with this ticket and keep it, as `Pull.observe` does."""
        return self._respond(ticket, reward, clip)

    def pulls(self) -> list[Pull]:
        """Return the pulls of this experiment that still await a reward, also from before a restart."""
        self._catch_up()
        now = time.time()
        entries = [entry for entry in self._outbox.entries() if entry.is_open(now)]
        return [self._pull(Showing(entry.arm, entry.name, entry)) for entry in entries]

    def spent(self) -> float:
        """Return the epsilon that this device has spent within the window of its owner, in all experiments."""
        return self._ledger.spent(time.time(), self._limits.window)

    def flush(self, *, now: float | None = None) -> Flushed:
        """Send what is due; tell what has become of responses since the last call, also of those sent by themselves."""
        waiting = sum(is_waiting for is_waiting in self._send_all(now))
        if waiting:
            self._wake()
        return self._sender.collect(waiting)

    def leave(self) -> Flushed:
        """Send now what was decided here, reward or not, as on leaving a page; tell what has become of it.

        Pulls that were open can be observed no more. It takes a few seconds at the most; what could not be sent by then
        is sent later, or at the next start.
        """
        left = self._leave(time.monotonic() + PATIENCE)
        if left.waiting:
            self._wake()
        return left

    def close(self, *, keep: bool = False) -> None:
        """Leave, end the thread in the background, and close the connection and the ledger; to close twice is harmless.

        With `keep`, pulls stay as they are, for an app that goes on in another process: there their rewards may be
        observed, and what is due is sent.
        """
        self._close(time.monotonic() + PATIENCE, keep=keep)

    def __enter__(self) -> Self:
        """Take part until the block ends."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the client."""
        self.close()

    def _pull(self, showing: Showing) -> Pull:
        entry = showing.entry
        if entry is None:
            return Pull(showing.arm, showing.name, None, 0.0, None, _no_response)
        respond = partial(self._respond, entry.ticket)
        return Pull(entry.arm, entry.name, entry.ticket, entry.curator.epsilon, entry.report_at, respond)

    def _respond(self, ticket: str, reward: Reward | float, clip: bool) -> bool:  # noqa: FBT001 - see Pull
        """Draw the response to a reward and write it down; send it only where that is to be done at once."""
        self._catch_up()
        entry = self._outbox.find(ticket, time.time())
        response = entry.curator.respond(reward, clip=clip)
        del reward
        self._outbox.observe(ticket, response, time.time())
        if entry.at_once:
            with suppress(LedgerError):  # it is kept: whatever is wrong now, it is sent later
                self._sender.send(entry, time.time())
            self._wake()
        return True

    def _catch_up(self) -> None:
        """Report the pulls of ours that are over by the monotonic clock, though not by one that was set back."""
        moment = time.monotonic()
        over = [ticket for ticket, report_at in self._mine.copy().items() if report_at <= moment]
        if over:
            self._outbox.report(over, time.time())

    def _send_all(self, now: float | None = None) -> Iterator[bool]:
        """Send each response that is due, in turn; say of each pull whether its response is due and still here.

        `now` stands still if it is given.
        """
        self._catch_up()
        for entry in self._entries():
            moment = time.time() if now is None else now
            outcome = self._sender.send(entry, moment) if entry.is_due(moment) else None
            yield entry.is_due(moment) and (outcome is None or outcome is False)

    def _leave(self, until: float) -> Flushed:
        mine = set(self._mine)
        if mine:
            with self._ledger.database.hurry(until):
                self._outbox.report(mine, time.time())
                for entry in self._entries():
                    left = until - time.monotonic()
                    outcome = self._sender.send(entry, time.time(), left) if entry.ticket in mine and left > 0 else None
                    if outcome is False:  # the agent cannot be reached now
                        break
                    if outcome is not None:
                        mine.remove(entry.ticket)
                        self._mine.pop(entry.ticket, None)
        return self._sender.collect(len(mine & self._mine.keys()))

    def _entries(self) -> list[Entry]:
        """Return every pull that is under way, the oldest first; of ours, forget those that are not any more."""
        mine = set(self._mine)
        entries = self._outbox.entries()
        for ticket in mine - {entry.ticket for entry in entries}:
            self._mine.pop(ticket, None)
        return entries

    def _close(self, until: float, *, keep: bool) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._keeper is not None:
            self._keeper.stop()
        if not keep:
            with suppress(LDPBanditsError):  # what cannot be sent now is sent at the next start
                self._leave(until)
        if self._keeper is not None:
            self._keeper.join(until - time.monotonic())
        self._http.close(GRACE)  # which breaks off a request of the thread's that still goes on
        if self._keeper is not None:
            self._keeper.join(GRACE)
        if self._owns_ledger:
            with suppress(LedgerError), self._ledger.database.hurry(time.monotonic() + GRACE):
                self._ledger.close()

    def _wake(self) -> None:
        if self._keeper is not None:
            self._keeper.wake()

    def _until_due(self) -> float | None:
        """Return the seconds until a pull is due or a response is to be sent again; None if none is under way."""
        now, moment = time.time(), time.monotonic()
        waits = [self._sender.until_due(entry, now) for entry in self._entries()]
        ours = [report_at - moment for report_at in self._mine.copy().values() if report_at > moment]
        return min([*waits, *ours], default=None)

    def _after_fork(self) -> None:
        """Start anew in a child process: what the parent decided, the parent sends."""
        self._mine.clear()
        self._http.after_fork()
        self._sender.after_fork()
        if self._keeper is not None:
            self._keeper.after_fork()


def _no_response(reward: Reward | float, clip: bool) -> bool:  # noqa: ARG001, FBT001 - nothing is done with it
    return False


_clients: WeakSet[Client] = WeakSet()


def _tell_clients_of_fork() -> None:
    for client in list(_clients):
        client._after_fork()  # noqa: SLF001 - our own


def _tell_clients_of_exit() -> None:
    """Leave with every client that is still open, in the time of one: an exit is not held up, and does not fail."""
    until = time.monotonic() + PATIENCE
    with suppress(BaseException):  # Ctrl-C: then somebody has no patience
        for client in list(_clients):
            client._close(until, keep=False)  # noqa: SLF001 - our own


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tell_clients_of_fork)
atexit.register(_tell_clients_of_exit)
