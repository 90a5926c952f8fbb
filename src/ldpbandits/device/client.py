"""Take part in an experiment: ask for an arm, observe the reward, and let nothing leave but the private response.

    client = Client("https://agent.example", "headline", key="client-...", limits=Limits(epsilon=1, budget=10))
    pull = client.decide()  # show the user pull.name
    pull.observe(reward)  # a response to it is drawn, written down, and sent

The agent is not trusted: what it asks for is checked against the owner's limits and charged in the ledger before an arm
is accepted. A response is drawn once and written down before it is first sent; a retry sends the same one, so that
listening to retries tells no more. When no reward comes in time, the declared default is privatised and sent instead:
no response is missing because there was none.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeGuard
from weakref import WeakSet

from ldpbandits.checks import brief
from ldpbandits.device.curators import Refused, curators_from_text, transformed
from ldpbandits.device.http import NONSENSE, Http, Message
from ldpbandits.device.keeper import Keeper
from ldpbandits.device.ledger import Ledger, Limits, default_path
from ldpbandits.device.outbox import Entry, Outbox
from ldpbandits.errors import LedgerError, LimitError, ServerError, SpecError, TicketError
from ldpbandits.spec.protocol import FINAL, RESPONSES, Acknowledged, decisions_path
from ldpbandits.types import Arm, Epsilon, Response, Reward

LONGEST_LIFETIME = 366 * 24 * 3600
LONGEST_TEXT = 1000
"""An agent must not fill a device's disk."""
MOST_ARMS = 1 << 31
MARGIN = 60.0
"""How long before a ticket expires its default is sent at the latest, in seconds."""


@dataclass(frozen=True)
class Pull:
    """One arm to show, and the way to tell what came of it."""

    arm: Arm
    name: str
    ticket: str
    epsilon: float
    """What its response costs: it is spent."""
    _respond: Callable[[Reward | float, bool], bool] = field(repr=False, compare=False)

    def observe(self, reward: Reward | float, *, clip: bool = False) -> bool:
        """Privatise a reward and send the response; True if it has arrived, False if it will be sent again later.

        With `clip`, a reward out of range counts as the nearest one in range.
        """
        try:
            return self._respond(reward, clip)
        finally:
            del reward  # a traceback shows the variables of this frame to whoever collects errors


@dataclass(frozen=True)
class Flushed:
    """What became of the responses in the outbox: how many arrived, how many wait, and what the server refused."""

    acknowledged: int
    waiting: int
    refused: tuple[ServerError, ...]


class Client:
    """A device's part in one experiment. Several clients, processes and experiments may share one ledger.

    >>> limits = Limits(epsilon=1, budget=10)
    >>> with Client(url, "headline", key=key, limits=limits, ledger=":memory:") as client:
    ...     pull = client.decide()  # show the user pull.name
    ...     pull.observe(1)  # the reward stays here; one random bit is sent
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
        self._timeout = timeout
        self._keeper = Keeper(self._settle_all, self._until_due) if background else None
        _clients.add(self)
        if background and self._outbox.entries():  # from before a restart
            self._wake()

    def decide(self, *, epsilon: float | None = None) -> Pull:
        """Ask which arm to pull; accept it only within the owner's limits.

        Where the agent leaves a choice of epsilons, it is the one named here, else the largest within the limits. It is
        made and charged now, before there is a reward: a choice that depended on the reward would tell of it.
        """
        reply = self._http.post(self._decisions, {})
        now = time.time()
        offered = read_decision(reply, now)
        chosen = [entry for entry in offered if epsilon is None or entry.curator.spec.epsilon == epsilon]
        if not chosen:
            listed = ", ".join(f"{entry.curator.spec.epsilon:g}" for entry in reversed(offered))
            raise LimitError(f"the agent offers epsilon = {listed}, and not {brief(epsilon)}")
        entry = self._outbox.keep(chosen, self._limits, now)
        self._wake()
        return self._pull(entry)

    def observe(self, ticket: str, reward: Reward | float, *, clip: bool = False) -> bool:
        """Privatise the reward of the pull with this ticket and send the response, as `Pull.observe` does."""
        try:
            return self._pull(self._outbox.find(ticket)).observe(reward, clip=clip)
        finally:
            del reward

    def pulls(self) -> list[Pull]:
        """Return the pulls of this experiment that still await a reward, also from before a restart."""
        return [self._pull(entry) for entry in self._outbox.entries() if entry.response is None]

    def spent(self) -> float:
        """Return the epsilon that this device has spent within the window of its owner, in all experiments."""
        return self._ledger.spent(time.time(), self._limits.window)

    def flush(self, *, now: float | None = None) -> Flushed:
        """Send what waits to be sent, and the default for pulls whose time is nearly up."""
        outcomes = list(self._settle_all(now))
        refused = tuple(error for error in outcomes if isinstance(error, ServerError))
        return Flushed(outcomes.count(True), outcomes.count(False), refused)

    def close(self) -> None:
        """End the thread in the background and close the connection and the ledger; what is written in it stays."""
        if self._keeper is not None:
            self._keeper.close()
        self._http.close()
        if self._owns_ledger:
            self._ledger.close()

    def __enter__(self) -> Self:
        """Take part until the block ends."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the client."""
        self.close()

    def _pull(self, entry: Entry) -> Pull:
        return Pull(entry.arm, entry.name, entry.ticket, entry.curator.spec.epsilon, partial(self._respond, entry))

    def _respond(self, entry: Entry, reward: Reward | float, clip: bool) -> bool:  # noqa: FBT001 - see Pull
        """Draw the response to a reward, write it down, and send it; a refusal is raised."""
        try:
            self._outbox.check_open(entry.ticket)
            response = entry.curator.respond(reward, clip=clip)
        finally:
            del reward
        self._outbox.answer(entry.ticket, response, time.time() + self._timeout)
        outcome = self._send(entry, response, tries=0)
        if isinstance(outcome, ServerError):
            raise outcome
        self._wake()
        return outcome

    def _settle_all(self, now: float | None = None) -> Iterator[bool | ServerError | None]:
        """Settle each pull in turn; `now` stands still if it is given."""
        for entry in self._outbox.entries():
            yield self._settle(entry, time.time() if now is None else now)

    def _settle(self, entry: Entry, now: float) -> bool | ServerError | None:
        """Do what is due for a pull; return what came of its response, None if it has none that we are to send."""
        response = entry.response
        if entry.has_to_wait(now):
            return None if response is None else False
        if response is None:
            response = entry.curator.respond(entry.default_reward)
            try:
                self._outbox.answer(entry.ticket, response, now + self._timeout)
            except TicketError:  # a reward came at the last moment, in another thread or process
                return None
        return self._send(entry, response, entry.tries)

    def _send(self, entry: Entry, response: Response, tries: int) -> bool | ServerError:
        """Send a response; True if it has arrived, False if it waits for another try, the error if it never can."""
        outcome: bool | ServerError
        ticket = entry.ticket
        message: Message = {"ticket": ticket, "response": response, "epsilon": Epsilon(entry.curator.spec.epsilon)}
        try:
            outcome = is_acknowledgement(self._http.post(RESPONSES, message))
        except ServerError as error:
            outcome = error if error.code in FINAL else False
        # What the agent has said stands, even if the ledger cannot be written now: then the same will be sent again.
        with suppress(LedgerError):
            if outcome is False:
                self._outbox.postpone(ticket, tries, time.time())
            else:
                self._outbox.done(ticket)
        return outcome

    def _wake(self) -> None:
        if self._keeper is not None:
            self._keeper.wake()

    def _until_due(self) -> float | None:
        """Return the seconds until a pull is due or a response is to be sent again; None if none is open."""
        moments = [entry.due if entry.response is None else entry.next_try for entry in self._outbox.entries()]
        return min(moments) - time.time() if moments else None

    def _after_fork(self) -> None:
        self._http.after_fork()
        if self._keeper is not None:
            self._keeper.after_fork()


_clients: WeakSet[Client] = WeakSet()


def _tell_clients_of_fork() -> None:
    for client in list(_clients):
        client._after_fork()  # noqa: SLF001 - our own


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tell_clients_of_fork)


def read_decision(reply: Mapping[str, Any], now: float) -> list[Entry]:
    """Return the pull that an agent has asked for now, or say what is wrong with its reply.

    If it leaves a choice, the pull is there by each epsilon, the largest first.
    """
    try:
        return _read_decision(reply, now)
    except RecursionError:  # lists in lists, which cannot even be shown
        raise ServerError("the agent's decision is nested without end", code=NONSENSE) from None


def is_acknowledgement(reply: Mapping[str, Any]) -> bool:
    """Tell whether the agent says that a response is counted, now or before: a hotel's login page answers 200 too."""
    return reply.get("status") in tuple(Acknowledged)  # a tuple: the agent may have sent a list, which has no hash


def _read_decision(reply: Mapping[str, Any], now: float) -> list[Entry]:
    try:
        curators = curators_from_text(json.dumps(reply.get("curator"), sort_keys=True))
    except SpecError as error:
        raise ServerError(f"the agent asks for a curator that there is not: {error}", code=NONSENSE) from None
    arm, name, ticket = reply.get("arm"), reply.get("name", ""), reply.get("ticket")
    default, lifetime = reply.get("default"), reply.get("expires_in")
    if (
        not _is_number(arm)
        or not isinstance(arm, int)
        or not 0 <= arm < MOST_ARMS
        or not _is_text(name)
        or not _is_text(ticket)
        or not ticket
    ):
        raise ServerError("the agent's decision has no arm, name and ticket", code=NONSENSE)
    if not _is_number(lifetime) or not 0 < lifetime <= LONGEST_LIFETIME:
        raise ServerError(f"the agent's ticket must hold for up to a year, got {brief(lifetime)}", code=NONSENSE)
    if not _is_number(default) or isinstance(transformed(curators[0].spec.transform, default), Refused):
        raise ServerError("the agent's default is not a possible reward", code=NONSENSE)
    due = now + lifetime - min(MARGIN, lifetime / 10)
    return [Entry(ticket, Arm(arm), name, curator, float(default), due) for curator in reversed(curators)]


def _is_number(value: object) -> TypeGuard[float]:
    """Tell whether JSON has a number here, of any size; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: object) -> TypeGuard[str]:
    """Tell whether a text can be kept and shown: half of a surrogate pair, which JSON can hold, cannot."""
    return isinstance(value, str) and len(value) <= LONGEST_TEXT and not any("\ud800" <= c <= "\udfff" for c in value)
