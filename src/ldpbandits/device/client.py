"""Take part in an experiment: ask for an arm, observe the reward, and let nothing leave but the private response.

    limits = Limits(rewards=Range(0, 1), epsilon=1, budget=10)
    client = Client("https://agent.example", "headline", key="client-...", limits=limits)
    pull = client.decide()  # show the user pull.name
    pull.observe(reward)  # draws and stores the response; it is sent at the pull's reporting moment

The agent is not trusted: the client reads what the agent offers, and asks for an arm only if the owner's limits and
budget allow it. It charges the ledger before it accepts an arm, and then says so: an accepted pull without a response
is missing, a refused one never. Whether, when and in which order responses are sent does not depend on rewards: each
pull has a response from the start, that of the declared default, which the response to a reward replaces; the client
sends it at a time that was fixed before there was a reward, or when the app leaves. A retry sends the same response.
"""

import atexit
import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Self, TypeAlias
from weakref import WeakSet

from ldpbandits.checks import brief, is_number
from ldpbandits.device.background_sender import BackgroundSender
from ldpbandits.device.decision import Decision, Request, read_decision
from ldpbandits.device.ledger import Ledger, default_path
from ldpbandits.device.limits import Limits
from ldpbandits.device.offer import Offer, Offers
from ldpbandits.device.outbox import Entry, Flushed, Outbox, Sender, Showing
from ldpbandits.device.sealed import sealed
from ldpbandits.device.wire import AgentConnection
from ldpbandits.errors import LDPBanditsError, LedgerError, LimitError, ParameterError, ServerError
from ldpbandits.net import UNREACHABLE, UNREADABLE, ServerAddress, bearer_header
from ldpbandits.spec.protocol import Code, decisions_path, offer_path
from ldpbandits.types import Arm, Reward

Allowance: TypeAlias = str | Callable[[], str] | None
"""The text that the site's backend has signed for a decision, or a function that returns it."""

LEAVE_TIMEOUT_S = 2.0
"""Most seconds that `leave` takes: a response that was not sent by then is sent at the next start."""

SHUTDOWN_TIMEOUT_S = 0.3
"""Seconds that `close` waits for each thread and connection to end, before it abandons it."""


def leave_deadline() -> float:
    """Return the deadline of a `leave` that begins now, on the monotonic clock."""
    return time.monotonic() + LEAVE_TIMEOUT_S


@dataclass(frozen=True)
class Shown:
    """One arm to show, and the epsilon of its response."""

    arm: Arm
    name: str
    ticket: str | None
    """None if no response is asked for: the experiment is over and its best arm shown, or this one is shown again."""
    epsilon: float
    """The epsilon of its response, which is charged already."""
    report_at: float | None
    """The Unix time at which its response is sent: rewards count until then."""


@dataclass(frozen=True)
class Pull(Shown):
    """One arm to show, with the method that observes its reward."""

    _respond: Callable[[Reward | float, bool], bool] = field(repr=False, compare=False)

    @sealed
    def observe(self, reward: Reward | float, *, clip: bool = True) -> bool:
        """Draw the response to a reward and keep it until it is sent; False if no response is asked for.

        A reward out of range counts as the nearest one in range. With `clip=False` it is an error; then the pull stays
        open, and the client sends the response to the default, unless a valid reward comes in time.
        """
        return self._respond(reward, clip)


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

        The ledger is that of this user, unless you name another. With `background`, a thread sends due responses;
        without it, call `flush()` from time to time. An `allowance` is the text that the site's backend has signed for
        a decision, where the experiment needs one; a function is called for each decision.
        """
        check_arguments(url, experiment, key, limits, timeout)
        self._decisions_path, self._limits, self._allowance = decisions_path(experiment), limits, allowance
        self._connection = AgentConnection(url.rstrip("/"), key, timeout)
        self._offers = Offers(self._connection, offer_path(experiment))
        self._background = BackgroundSender(self._send_due, self._seconds_until_due) if background else None
        self._report_times: dict[str, float] = {}
        """The tickets of this client's own pulls, with their reporting moments on the monotonic clock."""
        self._is_closed = False
        self._ledger = ledger if isinstance(ledger, Ledger) else Ledger(default_path() if ledger is None else ledger)
        self._owns_ledger = self._ledger is not ledger
        self._outbox = Outbox(self._ledger, url.rstrip("/"), experiment)
        self._sender = Sender(self._outbox, self._limits, self._connection, timeout)
        _clients.add(self)
        entries = self._outbox.entries()  # from before a restart
        self._sender.owe_acceptances(entries)
        if entries:
            self._wake()

    def decide(self, *, epsilon: float | None = None) -> Pull:
        """Ask which arm to pull; accept it only within the owner's limits.

        Where the agent offers a menu of epsilons, the pull gets `epsilon`, or else the largest within the limits. The
        choice is charged now, before there is a reward: a choice that depended on the reward would reveal it. A sticky
        arm is shown again without asking, as long as the agent's offer keeps it.
        """
        showing = self._outbox.showing(time.time())
        try:
            offer = self._offers.current()
        except ServerError as error:
            if showing is None or not _may_pass(error):
                raise
            return self._pull(showing)  # the agent cannot be asked: its arm stays
        if showing is not None:
            if offer.keeps(showing.arm):
                return self._pull(showing)
            self._outbox.forget_sticky()
        return self._pull(self._ask_for_arm(offer, epsilon))

    @sealed
    def observe(self, ticket: str, reward: Reward | float, *, clip: bool = True) -> bool:
        """Draw the response to the reward of the pull with this ticket and keep it, as `Pull.observe` does."""
        return self._respond(ticket, reward, clip)

    @sealed
    def observe_latest(self, reward: Reward | float, *, clip: bool = True) -> bool:
        """Observe the reward of the newest pull that awaits one, also from before a restart; False if none does.

        A program need not hand a pull on to where the reward comes: the name of the experiment is enough.
        """
        pulls = self.pulls()
        return pulls[-1]._respond(reward, clip) if pulls else False  # noqa: SLF001 - our own

    def pulls(self) -> list[Pull]:
        """Return the pulls of this experiment that still await a reward, also from before a restart."""
        with self._ledger.database.transaction():
            self._outbox.report(self._overdue(), time.time())
            now = time.time()
            entries = [entry for entry in self._outbox.entries() if entry.is_open(now)]
        return [self._pull(Showing(entry.arm, entry.name, entry)) for entry in entries]

    def spent(self) -> float:
        """Return the epsilon that this device has spent within the window of its owner, in all experiments."""
        return self._ledger.spent(time.time(), self._limits.window)

    def remaining(self) -> float:
        """Return the rest of the owner's budget: the epsilon that further pulls may cost within the window."""
        return self._ledger.remaining(time.time(), self._limits)

    def flush(self, *, now: float | None = None) -> Flushed:
        """Send due responses; return the outcomes since the last call, including those of the background thread."""
        return self._wake_if_waiting(lambda: self._sender.collect(self._send_due(now)))

    def leave(self) -> Flushed:
        """Send the responses of this client's pulls now, reward or not, as on leaving a page; return the outcomes.

        Open pulls can be observed no more. It takes a few seconds at most; a response that was not sent by then is
        sent later, or at the next start.
        """
        return self._wake_if_waiting(lambda: self._leave(leave_deadline()))

    def close(self, *, keep: bool = False) -> None:
        """Leave, stop the background thread, and close the connection and the ledger; closing twice is harmless.

        With `keep`, pulls stay unchanged, for an app that goes on in another process: there their rewards may be
        observed, and due responses are sent.
        """
        self._close(leave_deadline(), keep=keep)

    def __enter__(self) -> Self:
        """Take part until the block ends."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave and close, as `close` does."""
        self.close()

    def _ask_for_arm(self, offer: Offer, epsilon: float | None) -> Showing:
        """Ask the agent for an arm if its offer is within the limits; charge its pull before anybody sees the arm."""
        if offer.shipped is not None:
            return Showing(*offer.shipped, None)
        offer.check_running()
        self._outbox.check(_chosen(offer.request, epsilon), self._limits, time.time())
        decision = read_decision(self._connection.post(self._decisions_path, self._request()))
        if decision.ticket is None:
            return Showing(decision.arm, decision.name, None)
        self._check_decision(decision, offer)
        asked = replace(decision, request=_chosen(decision.request, epsilon))
        now = time.time()
        showing = self._outbox.keep(asked, self._limits, now)
        if showing.is_new and showing.entry is not None:
            self._report_times[showing.entry.ticket] = time.monotonic() + showing.entry.report_at - now
            self._accept(showing.entry)
        return showing

    def _check_decision(self, decision: Decision, offer: Offer) -> None:
        """Refuse a decision that asks for anything but the offer, which may have changed since it was read."""
        if not offer.agrees_with(decision) and not self._offers.fresh().agrees_with(decision):
            raise ServerError("the agent's decision asks for something else than its offer", code=UNREADABLE)

    def _accept(self, entry: Entry) -> None:
        """Send the acceptance of a new pull: in the background, or else now, once; `flush` retries it."""
        self._sender.owe_acceptances([entry])
        if self._background is not None:
            self._background.wake()
        else:
            with suppress(LedgerError):
                self._sender.accept(time.time())

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
        """Draw the response to a reward and store it; send it now only where the agent asks for it at once."""
        overdue = self._overdue()
        if overdue:  # a transaction of its own: an error below must not roll it back
            self._outbox.report(overdue, time.time())
        with self._ledger.database.transaction():
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
        """Send each due response, in turn, until the client is closed; return the number of those still unsent.

        If `now` is given, it does not advance.
        """
        waiting = 0
        if not self._is_closed:
            self._sender.accept(time.time() if now is None else now)
            for _, outcome in self._send_each(self._overdue(), lambda entry, moment: entry.is_due(moment), now):
                waiting += outcome is None or outcome is False
                if self._is_closed:
                    break
        return waiting

    def _leave(self, deadline: float) -> Flushed:
        """Send the responses of this client's pulls, reward or not, before this deadline on the monotonic clock."""
        mine = set(self._report_times)
        if mine:
            for entry, outcome in self._send_each(mine, lambda entry, _: entry.ticket in mine, deadline=deadline):
                if outcome is not None and outcome is not False:
                    mine.remove(entry.ticket)
                    self._report_times.pop(entry.ticket, None)
                elif outcome is False:  # the agent cannot be reached now
                    break
        return self._sender.collect(len(mine & self._report_times.keys()))

    def _send_each(
        self,
        reported: Collection[str],
        is_chosen: Callable[[Entry, float], bool],
        now: float | None = None,
        deadline: float | None = None,
    ) -> Iterator[tuple[Entry, bool | ServerError | None]]:
        """Report these pulls, then send the response of each chosen pull, the oldest first.

        Reporting, listing and taking the first response are one transaction, and so one write to the disk.
        """
        with self._ledger.database.deadline(deadline), self._ledger.database.transaction():
            self._outbox.report(reported, time.time())
            moment = time.time() if now is None else now
            entries = self._entries()
            first = next((entry for entry in entries if is_chosen(entry, moment)), None)
            taken = None if first is None else self._sender.take(first, moment, deadline)
        for entry in entries:
            moment = time.time() if now is None else now
            if entry is not first and not is_chosen(entry, moment):
                continue
            if deadline is not None and deadline <= time.monotonic():
                return
            if entry is not first:
                taken = self._sender.take(entry, moment, deadline)
            yield entry, self._sender.deliver(taken, deadline)

    def _wake_if_waiting(self, send: Callable[[], Flushed]) -> Flushed:
        """Call `send`; wake the background thread if responses still wait, also if `send` is interrupted."""
        try:
            flushed = send()
        except BaseException:
            self._wake()
            raise
        if flushed.waiting:
            self._wake()
        return flushed

    def _overdue(self) -> list[str]:
        """Return the tickets of this client's pulls whose moment has passed on the monotonic clock.

        By the wall clock it may not have passed: that may have been set back.
        """
        moment = time.monotonic()
        return [ticket for ticket, report_at in self._report_times.copy().items() if report_at <= moment]

    def _entries(self) -> list[Entry]:
        """Return every pull under way, the oldest first; forget the tickets of this client's settled pulls."""
        mine = set(self._report_times)
        entries = self._outbox.entries()
        for ticket in mine - {entry.ticket for entry in entries}:
            self._report_times.pop(ticket, None)
        return entries

    def _seconds_until_due(self) -> float | None:
        """Return the seconds until a response is due or a retry is; None if no pull is under way."""
        now, moment = time.time(), time.monotonic()
        entries = self._entries()
        waits = [self._sender.until_due(entry, now) for entry in entries]
        waits += [wait for entry in entries if (wait := self._sender.until_acceptance(entry, now)) is not None]
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
            with suppress(LDPBanditsError):  # the next start sends the rest
                self._leave(deadline)
        if self._background is not None:
            self._background.join(deadline - time.monotonic())
        self._connection.close(SHUTDOWN_TIMEOUT_S)  # aborts a request of the background thread
        if self._background is not None:
            self._background.join(SHUTDOWN_TIMEOUT_S)
        if self._owns_ledger:
            with suppress(LedgerError), self._ledger.database.deadline(time.monotonic() + SHUTDOWN_TIMEOUT_S):
                self._ledger.close()

    def _wake(self) -> None:
        if self._background is not None:
            self._background.wake()

    def _after_fork(self) -> None:
        """Reset in a child process: the parent sends the responses of its own pulls."""
        self._report_times.clear()
        self._sender.after_fork()
        self._connection.after_fork()
        if self._background is not None:
            self._background.after_fork()


def check_arguments(url: object, experiment: object, key: object, limits: object, timeout: object) -> None:
    """Validate the arguments of a client, before a file or a connection is opened."""
    ServerAddress.from_url(url)
    bearer_header(key)
    if not isinstance(experiment, str) or not experiment or not experiment.isprintable():  # half a character is not
        raise ParameterError(f"experiment must be a text, printable and not empty, got {brief(experiment)}")
    if not isinstance(limits, Limits):
        raise ParameterError(f"limits must be Limits(...), set by this device's owner, got {brief(limits)}")
    if not is_number(timeout) or timeout <= 0:
        raise ParameterError(f"timeout must be finite and > 0, got {brief(timeout)}")


def _chosen(request: Request, epsilon: float | None) -> Request:
    """Return what an agent asks for with this epsilon only, if one is given."""
    chosen = tuple(curator for curator in request.curators if epsilon is None or curator.epsilon == epsilon)
    if not chosen:
        listed = ", ".join(f"{curator.epsilon:g}" for curator in reversed(request.curators))
        raise LimitError(f"the agent offers epsilon = {listed}, and not {brief(epsilon)}")
    return replace(request, curators=chosen)


def _may_pass(error: ServerError) -> bool:
    """Tell whether an agent that could not be read may be readable later."""
    return error.code in {UNREACHABLE, Code.RETRY} or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR


def _no_response(reward: Reward | float, clip: bool) -> bool:  # noqa: ARG001, FBT001 - the reward is ignored
    return False


_clients: WeakSet[Client] = WeakSet()


def _start_anew_after_fork() -> None:
    for client in list(_clients):
        client._after_fork()  # noqa: SLF001 - our own


def _leave_at_exit() -> None:
    """Leave with every open client, before one common deadline, so that the exit is not delayed."""
    deadline = leave_deadline()
    with suppress(KeyboardInterrupt, SystemExit):  # the user interrupts the exit: the next start sends
        for client in list(_clients):
            client._close(deadline, keep=False)  # noqa: SLF001 - our own


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew_after_fork)
atexit.register(_leave_at_exit)
