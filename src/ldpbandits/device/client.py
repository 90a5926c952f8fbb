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
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self, TypeAlias
from weakref import WeakSet

from ldpbandits.checks import brief, is_number
from ldpbandits.device.background_sender import BackgroundSender
from ldpbandits.device.decision import read_decision
from ldpbandits.device.ledger import Ledger, default_path
from ldpbandits.device.limits import Limits
from ldpbandits.device.outbox import Entry, Outbox, Showing
from ldpbandits.device.pull import Pull
from ldpbandits.device.sealed import sealed
from ldpbandits.device.sender import Flushed, Sender
from ldpbandits.device.wire import AgentConnection
from ldpbandits.errors import LDPBanditsError, LedgerError, LimitError, ParameterError
from ldpbandits.net import ServerAddress, bearer_header
from ldpbandits.spec.protocol import decisions_path
from ldpbandits.types import Reward

Allowance: TypeAlias = str | Callable[[], str] | None
"""The text that the site's backend has signed for a decision, or a function that returns it."""

LEAVE_TIMEOUT_S = 2.0
"""The longest that leaving may take: a response that was not sent by then is sent at the next start."""

SHUTDOWN_TIMEOUT_S = 0.3
"""How long closing waits for each part that was told to end, before it is left alone."""


def leave_deadline() -> float:
    """Return when leaving must be over that begins now, on the monotonic clock."""
    return time.monotonic() + LEAVE_TIMEOUT_S


class Client:
    """A device's part in one experiment. Several clients, processes and experiments may share one ledger.

    >>> from ldpbandits import Range
    >>> limits = Limits(rewards=Range(0, 1), epsilon=1, budget=10)
    >>> with Client(url, "headline", key=key, limits=limits, ledger=":memory:") as client:
    ...     pull = client.decide()  # show the user pull.name
    ...     pull.observe(1)  # the reward stays here; one random bit is sent, at the end of this block
    ...     client.spent(), client.remaining()
    True
    (1.0, 9.0)
    """

    def __init__(  # noqa: PLR0913 - each is a choice of the owner or of the app
        self,
        url: str,
        experiment: str,
        *,
        key: str,
        limits: Limits,
        ledger: Ledger | Path | str | None = None,
        allowance: Allowance = None,
        timeout: float = 10.0,
        background: bool = True,
    ) -> None:
        """Take part in this experiment of the agent at `url`.

        The ledger is that of this user, unless you name another. With `background`, a thread sends what is due; without
        it, call `flush()` from time to time. An `allowance` is what the site's backend has signed for a decision, where
        the experiment needs one; a function is called for each decision.
        """
        check_arguments(url, experiment, key, limits, timeout)
        self._decisions_path, self._limits, self._allowance = decisions_path(experiment), limits, allowance
        self._connection = AgentConnection(url.rstrip("/"), key, timeout)
        self._background = BackgroundSender(self._send_due, self._seconds_until_due) if background else None
        self._report_times: dict[str, float] = {}
        """The pulls that were decided here, and when they are over by the monotonic clock, which nobody sets."""
        self._is_closed = False
        self._ledger = ledger if isinstance(ledger, Ledger) else Ledger(default_path() if ledger is None else ledger)
        self._owns_ledger = self._ledger is not ledger
        self._outbox = Outbox(self._ledger, url.rstrip("/"), experiment)
        self._sender = Sender(self._outbox, self._limits, self._connection, timeout)
        _clients.add(self)
        if self._outbox.entries():  # from before a restart
            self._wake()

    def decide(self, *, epsilon: float | None = None) -> Pull:
        """Ask which arm to pull; accept it only within the owner's limits.

        Where the agent leaves a choice of epsilons, it is the one named here, else the largest within the limits. It is
        made and charged now, before there is a reward: a choice that depended on the reward would tell of it. An arm
        that is sticky is shown again without asking.
        """
        showing = self._outbox.showing(time.time())
        return self._pull(self._ask_for_arm(epsilon) if showing is None else showing)

    @sealed
    def observe(self, ticket: str, reward: Reward | float, *, clip: bool = True) -> bool:
        """Draw the response to the reward of the pull with this ticket and keep it, as `Pull.observe` does."""
        return self._respond(ticket, reward, clip)

    def pulls(self) -> list[Pull]:
        """Return the pulls of this experiment that still await a reward, also from before a restart."""
        self._report_overdue()
        now = time.time()
        entries = [entry for entry in self._outbox.entries() if entry.is_open(now)]
        return [self._pull(Showing(entry.arm, entry.name, entry)) for entry in entries]

    def spent(self) -> float:
        """Return the epsilon that this device has spent within the window of its owner, in all experiments."""
        return self._ledger.spent(time.time(), self._limits.window)

    def remaining(self) -> float:
        """Return what is left of the owner's budget: what further pulls may cost within the window."""
        return self._ledger.remaining(time.time(), self._limits)

    def flush(self, *, now: float | None = None) -> Flushed:
        """Send what is due; tell what has become of responses since the last call, also of those sent by themselves."""
        return self._wake_if_waiting(lambda: self._sender.collect(self._send_due(now)))

    def leave(self) -> Flushed:
        """Send now what was decided here, reward or not, as on leaving a page; tell what has become of it.

        Pulls that were open can be observed no more. It takes a few seconds at the most; what could not be sent by then
        is sent later, or at the next start.
        """
        return self._wake_if_waiting(lambda: self._leave(leave_deadline()))

    def close(self, *, keep: bool = False) -> None:
        """Leave, end the thread in the background, and close the connection and the ledger; to close twice is harmless.

        With `keep`, pulls stay as they are, for an app that goes on in another process: there their rewards may be
        observed, and what is due is sent.
        """
        self._close(leave_deadline(), keep=keep)

    def __enter__(self) -> Self:
        """Take part until the block ends."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave and close, as `close` does."""
        self.close()

    def _ask_for_arm(self, epsilon: float | None) -> Showing:
        """Ask the agent for an arm, and charge its pull before anybody sees the arm."""
        decision = read_decision(self._connection.post(self._decisions_path, self._request()))
        if decision.ticket is None:
            return Showing(decision.arm, decision.name, None)
        chosen = tuple(curator for curator in decision.curators if epsilon is None or curator.epsilon == epsilon)
        if not chosen:
            listed = ", ".join(f"{curator.epsilon:g}" for curator in reversed(decision.curators))
            raise LimitError(f"the agent offers epsilon = {listed}, and not {brief(epsilon)}")
        now = time.time()
        showing = self._outbox.keep(replace(decision, curators=chosen), self._limits, now)
        if showing.is_new and showing.entry is not None:
            self._report_times[showing.entry.ticket] = time.monotonic() + showing.entry.report_at - now
            self._wake()
        return showing

    def _request(self) -> dict[str, str]:
        """Return the message that asks for an arm: an allowance, if there is one."""
        allowance = self._allowance() if callable(self._allowance) else self._allowance
        if allowance is not None and not isinstance(allowance, str):
            raise ParameterError(f"an allowance must be a string, got {brief(allowance)}")
        return {} if allowance is None else {"allowance": allowance}

    def _pull(self, showing: Showing) -> Pull:
        entry = showing.entry
        if entry is None:
            return Pull(showing.arm, showing.name, None, 0.0, None, _no_response)
        respond = partial(self._respond, entry.ticket)
        return Pull(entry.arm, entry.name, entry.ticket, entry.curator.epsilon, entry.report_at, respond)

    def _respond(self, ticket: str, reward: Reward | float, clip: bool) -> bool:  # noqa: FBT001 - see Pull
        """Draw the response to a reward and write it down; send it now only where the agent asks for it at once."""
        self._report_overdue()
        entry = self._outbox.find(ticket, time.time())
        response = entry.curator.respond(reward, clip=clip)
        del reward
        self._outbox.observe(ticket, response, time.time())
        if entry.at_once:
            try:
                with suppress(LedgerError):  # the response is kept: it is sent later
                    self._sender.send(entry, time.time())
            finally:
                self._wake()
        return True

    def _send_due(self, now: float | None = None) -> int:
        """Send each response that is due, in turn, until the client is closed; return how many are due and still here.

        `now` stands still if it is given.
        """
        self._report_overdue()
        waiting = 0
        for entry in self._entries():
            moment = time.time() if now is None else now
            if self._is_closed:
                break
            if entry.is_due(moment):
                outcome = self._sender.send(entry, moment)
                waiting += outcome is None or outcome is False
        return waiting

    def _leave(self, deadline: float) -> Flushed:
        """Send what was decided here, reward or not, before this deadline on the monotonic clock."""
        mine = set(self._report_times)
        if mine:
            with self._outbox.deadline(deadline), self._outbox.transaction():  # one write to the disk
                self._outbox.report(mine, time.time())
                entries = [entry for entry in self._entries() if entry.ticket in mine]
                taken = self._sender.take(entries[0], time.time(), deadline) if entries else None
            for entry in entries:
                if deadline <= time.monotonic():
                    break
                if entry is not entries[0]:
                    taken = self._sender.take(entry, time.time(), deadline)
                outcome = self._sender.deliver(taken, deadline)
                if outcome is False:  # the agent cannot be reached now
                    break
                if outcome is not None:
                    mine.remove(entry.ticket)
                    self._report_times.pop(entry.ticket, None)
        return self._sender.collect(len(mine & self._report_times.keys()))

    def _wake_if_waiting(self, send: Callable[[], Flushed]) -> Flushed:
        """Send; leave to the background what still waits, also if sending is broken off."""
        try:
            flushed = send()
        except BaseException:
            self._wake()
            raise
        if flushed.waiting:
            self._wake()
        return flushed

    def _report_overdue(self) -> None:
        """Report the pulls of ours that are over by the monotonic clock, though not by one that was set back."""
        moment = time.monotonic()
        overdue = [ticket for ticket, report_at in self._report_times.copy().items() if report_at <= moment]
        if overdue:
            self._outbox.report(overdue, time.time())

    def _entries(self) -> list[Entry]:
        """Return every pull that is under way, the oldest first; of ours, forget those that are not any more."""
        mine = set(self._report_times)
        entries = self._outbox.entries()
        for ticket in mine - {entry.ticket for entry in entries}:
            self._report_times.pop(ticket, None)
        return entries

    def _seconds_until_due(self) -> float | None:
        """Return the seconds until a pull is due or a response is to be sent again; None if none is under way."""
        now, moment = time.time(), time.monotonic()
        waits = [self._sender.until_due(entry, now) for entry in self._entries()]
        ours = [report_at - moment for report_at in self._report_times.copy().values() if report_at > moment]
        return min([*waits, *ours], default=None)

    def _close(self, deadline: float, *, keep: bool) -> None:
        """Close before this deadline on the monotonic clock."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._background is not None:
            self._background.stop()
        if not keep:
            with suppress(LDPBanditsError):  # what cannot be sent now is sent at the next start
                self._leave(deadline)
        if self._background is not None:
            self._background.join(deadline - time.monotonic())
        self._connection.close(SHUTDOWN_TIMEOUT_S)  # which breaks off a request of the thread's that still goes on
        if self._background is not None:
            self._background.join(SHUTDOWN_TIMEOUT_S)
        if self._owns_ledger:
            with suppress(LedgerError), self._outbox.deadline(time.monotonic() + SHUTDOWN_TIMEOUT_S):
                self._ledger.close()

    def _wake(self) -> None:
        """Tell the background that there may be something new to do."""
        if self._background is not None:
            self._background.wake()

    def _after_fork(self) -> None:
        """Start anew in a child process: what the parent decided, the parent sends."""
        self._report_times.clear()
        self._sender.after_fork()
        self._connection.after_fork()
        if self._background is not None:
            self._background.after_fork()


def check_arguments(url: object, experiment: object, key: object, limits: object, timeout: object) -> None:
    """Refuse the arguments of a client that cannot be right, before a file or a connection is touched."""
    ServerAddress.from_url(url)
    bearer_header(key)
    if not isinstance(experiment, str) or not experiment or not experiment.isprintable():  # half a character is not
        raise ParameterError(f"experiment must be a text, printable and not empty, got {brief(experiment)}")
    if not isinstance(limits, Limits):
        raise ParameterError(f"limits must be Limits(...), what this device's owner allows, got {brief(limits)}")
    if not is_number(timeout) or timeout <= 0:
        raise ParameterError(f"timeout must be finite and > 0, got {brief(timeout)}")


def _no_response(reward: Reward | float, clip: bool) -> bool:  # noqa: ARG001, FBT001 - nothing is done with it
    return False


_clients: WeakSet[Client] = WeakSet()


def _start_anew_after_fork() -> None:
    for client in list(_clients):
        client._after_fork()  # noqa: SLF001 - our own


def _leave_at_exit() -> None:
    """Leave with every client that is still open, in the time of one, so that an exit is not held up."""
    deadline = leave_deadline()
    with suppress(KeyboardInterrupt, SystemExit):  # the user is in a hurry: the next start sends
        for client in list(_clients):
            client._close(deadline, keep=False)  # noqa: SLF001 - our own


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew_after_fork)
atexit.register(_leave_at_exit)
