"""A device's part in an experiment, whoever waits for the network: what `Client` and `AsyncClient` have in common.

Whatever is decided, charged, drawn, written down and sent, and when, is decided here, once. The two clients differ only
in how they wait, for the agent and until something is due.
"""

import atexit
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias
from weakref import WeakSet

from ldpbandits.checks import brief, is_number
from ldpbandits.device.decision import read_decision
from ldpbandits.device.exchange import Request, Steps
from ldpbandits.device.ledger import Ledger, default_path
from ldpbandits.device.limits import Limits
from ldpbandits.device.outbox import Entry, Outbox, Showing
from ldpbandits.device.sender import Flushed, Sender
from ldpbandits.errors import LedgerError, LimitError, ParameterError
from ldpbandits.spec.protocol import decisions_path
from ldpbandits.timely import Place
from ldpbandits.types import Reward

Allowance: TypeAlias = str | Callable[[], str] | None
"""What the site's backend has signed for a decision, or what gets it."""

PATIENCE = 2.0
"""How long leaving may take, in seconds: what was not sent by then is sent at the next start."""
GRACE = 0.3
"""How long to wait for what was told to end, in seconds, before it is left alone."""


def latest() -> float:
    """Return when leaving must be over that begins now, on the monotonic clock."""
    return time.monotonic() + PATIENCE


class Participant:
    """What a device does in one experiment, as steps for a client to go through."""

    _ledger: Ledger
    _outbox: Outbox
    _sender: Sender

    def __init__(self, url: str, experiment: str, limits: Limits, timeout: float, allowance: Allowance = None) -> None:
        """Take part in this experiment of the agent at `url`, once there is a ledger."""
        Place.of(url)  # which says what a URL looks like
        _check_name(experiment)
        if not isinstance(limits, Limits):
            raise ParameterError(f"limits must be Limits(...), what this device's owner allows, got {brief(limits)}")
        if not is_number(timeout) or timeout <= 0:
            raise ParameterError(f"timeout must be finite and > 0, got {brief(timeout)}")
        self._url, self._experiment = url.rstrip("/"), experiment
        self._decisions = decisions_path(experiment)
        self._limits, self._timeout, self._allowance = limits, timeout, allowance
        self._owns_ledger = False
        self._mine: dict[str, float] = {}
        """The pulls that were decided here, and when they are over by a clock that nobody sets."""
        self._is_closed = False

    def _open(self, ledger: Ledger | Path | str | None) -> None:
        """Open the ledger: that of this user, unless another is named. Send what is in it from before a restart."""
        self._ledger = ledger if isinstance(ledger, Ledger) else Ledger(default_path() if ledger is None else ledger)
        self._owns_ledger = self._ledger is not ledger
        self._outbox = Outbox(self._ledger, self._url, self._experiment)
        self._sender = Sender(self._outbox, self._limits, self._timeout)
        _participants.add(self)
        if self._outbox.entries():
            self._wake()

    def _decide(self, epsilon: float | None) -> Steps[Showing]:
        """Ask for an arm unless one is sticky, and charge it before it is known to anybody."""
        showing = self._outbox.showing(time.time())
        if showing is None:
            decision = read_decision((yield Request(self._decisions, self._asking())))
            if decision.ticket is None:
                return Showing(decision.arm, decision.name, None)
            chosen = tuple(curator for curator in decision.curators if epsilon is None or curator.epsilon == epsilon)
            if not chosen:
                listed = ", ".join(f"{curator.epsilon:g}" for curator in reversed(decision.curators))
                raise LimitError(f"the agent offers epsilon = {listed}, and not {brief(epsilon)}")
            now = time.time()
            showing = self._outbox.keep(replace(decision, curators=chosen), self._limits, now)
            if showing.is_new and showing.entry is not None:
                self._mine[showing.entry.ticket] = time.monotonic() + showing.entry.report_at - now
                self._wake()
        return showing

    def _asking(self) -> dict[str, str]:
        """Return what is said when an arm is asked for: an allowance, if there is one."""
        allowance = self._allowance() if callable(self._allowance) else self._allowance
        if allowance is not None and not isinstance(allowance, str):
            raise ParameterError(f"an allowance must be a string, got {brief(allowance)}")
        return {} if allowance is None else {"allowance": allowance}

    def _respond(self, ticket: str, reward: Reward | float, clip: bool) -> Steps[bool]:  # noqa: FBT001 - see Pull
        """Draw the response to a reward and write it down; send it only where that is to be done at once."""
        self._catch_up()
        entry = self._outbox.find(ticket, time.time())
        response = entry.curator.respond(reward, clip=clip)
        del reward
        self._outbox.observe(ticket, response, time.time())
        if entry.at_once:
            try:
                with suppress(LedgerError):  # it is kept: whatever is wrong now, it is sent later
                    yield from self._sender.send(entry, time.time())
            finally:
                self._wake()
        return True

    def _awaiting(self) -> list[Showing]:
        """Return the pulls of this experiment that still await a reward."""
        self._catch_up()
        now = time.time()
        return [Showing(entry.arm, entry.name, entry) for entry in self._outbox.entries() if entry.is_open(now)]

    def _spent(self) -> float:
        """Return the epsilon that this device has spent within the window of its owner, in all experiments."""
        return self._ledger.spent(time.time(), self._limits.window)

    def _remaining(self) -> float:
        """Return what is left of the owner's budget within the window."""
        return self._ledger.remaining(time.time(), self._limits)

    def _flush(self, now: float | None) -> Steps[Flushed]:
        """Send what is due, and tell what has become of responses since the last call."""
        waiting = yield from self._send_all(now)
        return self._sender.collect(waiting)

    def _send_all(self, now: float | None = None) -> Steps[int]:
        """Send each response that is due, in turn, until the client is closed; return how many are due and still here.

        `now` stands still if it is given.
        """
        self._catch_up()
        waiting = 0
        for entry in self._entries():
            moment = time.time() if now is None else now
            if self._is_closed:
                break
            if entry.is_due(moment):
                outcome = yield from self._sender.send(entry, moment)
                waiting += outcome is None or outcome is False
        return waiting

    def _leave(self, until: float) -> Steps[Flushed]:
        """Send what was decided here, reward or not, before this moment of the monotonic clock."""
        mine = set(self._mine)
        if mine:
            with self._outbox.hurry(until):
                self._outbox.report(mine, time.time())
                entries = self._entries()
            for entry in entries:
                if entry.ticket not in mine or until <= time.monotonic():
                    continue
                outcome = yield from self._sender.send(entry, time.time(), until)
                if outcome is False:  # the agent cannot be reached now
                    break
                if outcome is not None:
                    mine.remove(entry.ticket)
                    self._mine.pop(entry.ticket, None)
        return self._sender.collect(len(mine & self._mine.keys()))

    def _and_go_on(self, steps: Steps[Flushed]) -> Steps[Flushed]:
        """Go through these steps; what is left to do after them, also if they are broken off, is for the background."""
        is_over = False
        try:
            told = yield from steps
            is_over = told.waiting == 0
        finally:
            if not is_over:
                self._wake()
        return told

    def _catch_up(self) -> None:
        """Report the pulls of ours that are over by the monotonic clock, though not by one that was set back."""
        moment = time.monotonic()
        over = [ticket for ticket, report_at in self._mine.copy().items() if report_at <= moment]
        if over:
            self._outbox.report(over, time.time())

    def _entries(self) -> list[Entry]:
        """Return every pull that is under way, the oldest first; of ours, forget those that are not any more."""
        mine = set(self._mine)
        entries = self._outbox.entries()
        for ticket in mine - {entry.ticket for entry in entries}:
            self._mine.pop(ticket, None)
        return entries

    def _until_due(self) -> float | None:
        """Return the seconds until a pull is due or a response is to be sent again; None if none is under way."""
        now, moment = time.time(), time.monotonic()
        waits = [self._sender.until_due(entry, now) for entry in self._entries()]
        ours = [report_at - moment for report_at in self._mine.copy().values() if report_at > moment]
        return min([*waits, *ours], default=None)

    def _close_ledger(self) -> None:
        """Close the ledger if it is ours, without waiting for others for long."""
        if self._owns_ledger:
            with suppress(LedgerError), self._ledger.database.hurry(time.monotonic() + GRACE):
                self._ledger.close()

    def _wake(self) -> None:
        """Say that there may be something new to do in the background."""
        raise NotImplementedError

    def _end(self, until: float) -> None:
        """Leave and close, as the program ends, before this moment of the monotonic clock."""
        raise NotImplementedError

    def _after_fork(self) -> None:
        """Start anew in a child process: what the parent decided, the parent sends."""
        self._mine.clear()
        self._sender.after_fork()


def _check_name(experiment: object) -> None:
    """Check that this is a text; half a character, which cannot be sent, is not printable."""
    if not isinstance(experiment, str) or not experiment or not experiment.isprintable():
        raise ParameterError(f"experiment must be a text, printable and not empty, got {brief(experiment)}")


_participants: WeakSet[Participant] = WeakSet()


def _tell_of_fork() -> None:
    for participant in list(_participants):
        participant._after_fork()  # noqa: SLF001 - our own


def _tell_of_exit() -> None:
    """Leave with every client that is still open, in the time of one: an exit is not held up, and does not fail."""
    until = latest()
    with suppress(BaseException):  # Ctrl-C: then somebody has no patience
        for participant in list(_participants):
            participant._end(until)  # noqa: SLF001 - our own


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tell_of_fork)
atexit.register(_tell_of_exit)
