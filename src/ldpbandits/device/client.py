"""Take part in an experiment: ask for an arm, observe the reward, and let nothing leave but the private response.

    client = Client("https://agent.example", "headline", key="client-...", limits=Limits(epsilon=1, budget=10))
    pull = client.decide()  # show the user pull.name
    pull.observe(reward)  # a response to it is drawn, written down, and sent

The agent is not trusted: what it asks for is checked against the owner's limits and charged in the ledger before an arm
is accepted. A response is drawn once and written down before it is first sent; a retry sends the same one, so that
listening to retries tells no more. When no reward comes in time, the declared default is privatised and sent instead:
no response is missing because there was none.
"""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Thread
from typing import Any, Self, TypeGuard
from urllib.parse import quote
from weakref import WeakSet

from ldpbandits.checks import is_number, is_whole, shown
from ldpbandits.device.curators import curator_from_json
from ldpbandits.device.http import Http
from ldpbandits.device.ledger import Entry, Ledger, Limits, default_path
from ldpbandits.device.randomness import system_words
from ldpbandits.device.transforms import Refused, transformed
from ldpbandits.errors import LDPBanditsError, LedgerError, ServerError, SpecError, TicketError
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.types import Arm

SHORTEST_WAIT = 0.05
LONGEST_WAIT = 300.0
LONGEST_LIFETIME = 366 * 24 * 3600
LONGEST_TEXT = 1000
MOST_ARMS = 1 << 31
MARGIN = 60.0
FINAL = frozenset({"forged", "changed", "expired", "closed", "impossible", "malformed"})
"""What a server may say to a response that no retry will change. Anything else may be a proxy's word: it is retried."""


@dataclass(frozen=True)
class Pull:
    """One arm to show, and the way to tell what came of it."""

    arm: Arm
    name: str
    ticket: str
    _client: "Client" = field(repr=False, compare=False)

    def observe(self, reward: float, *, clip: bool = False) -> bool:
        """Privatise a reward and send the response; True if it has arrived, False if it will be sent again later."""
        try:
            return self._client.observe(self.ticket, reward, clip=clip)
        finally:
            del reward  # a traceback shows the variables of this frame to whoever collects errors


@dataclass(frozen=True)
class Flushed:
    """What became of what was waiting: how many have arrived, how many still wait, and what the server refused."""

    acknowledged: int
    waiting: int
    refused: tuple[ServerError, ...]


class Client:
    """A device's part in one experiment. Several clients, processes and experiments may share one ledger."""

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

        The ledger is that of this user, unless another is given. With `background`, a thread sends what is due; without
        it, call `flush()` from time to time.
        """
        self._url = url.rstrip("/")
        self._experiment = experiment
        self._limits = limits
        self._http = Http(self._url, key, timeout)
        self._ledger = ledger if isinstance(ledger, Ledger) else Ledger(default_path() if ledger is None else ledger)
        self._owns_ledger = self._ledger is not ledger
        self._timeout = timeout
        self._wake = Condition()
        self._closed = False
        self._keeper: Thread | None = None
        self._background = background
        _clients.add(self)
        if background and self._ledger.pulls(self._url, experiment):  # from before a restart
            self._keep()

    def decide(self) -> Pull:
        """Ask which arm to pull; accept it only within the owner's limits."""
        reply = self._http.post(f"/v1/experiments/{quote(self._experiment, safe='')}/decisions", {})
        try:
            entry = _read_decision(reply, self._url, self._experiment)
        except RecursionError:  # lists in lists, which cannot even be shown
            raise ServerError("the agent's decision is nested without end", code="nonsense") from None
        self._ledger.charge(self._limits, entry, time.time())
        self._keep()
        return Pull(entry.arm, entry.name, entry.ticket, self)

    def observe(self, ticket: str, reward: float, *, clip: bool = False) -> bool:
        """Do as `Pull.observe`, for the pull of this ticket."""
        try:
            entry = self._ledger.pull(ticket, self._url, self._experiment)
            response = curator_from_json(entry.spec).respond(reward, clip=clip)
        finally:
            del reward
        self._ledger.answer(ticket, response, time.time() + self._timeout)
        sent = self._send(ticket, response, entry.tries)
        if isinstance(sent, ServerError):
            raise sent
        self._keep()
        return sent

    def pulls(self) -> list[Pull]:
        """Return the pulls of this experiment that still await a reward, also from before a restart."""
        entries = self._ledger.pulls(self._url, self._experiment)
        return [Pull(entry.arm, entry.name, entry.ticket, self) for entry in entries if entry.response is None]

    def spent(self) -> float:
        """Return the epsilon that this device has spent within the window of its owner, in all experiments."""
        return self._ledger.spent(time.time(), self._limits.window)

    def flush(self, *, now: float | None = None) -> Flushed:
        """Send what waits to be sent, and the default for pulls whose time is nearly up."""
        moment = time.time() if now is None else now
        sent = [self._settle(entry, moment) for entry in self._ledger.pulls(self._url, self._experiment)]
        refused = tuple(error for error in sent if isinstance(error, ServerError))
        return Flushed(sent.count(True), sent.count(False), refused)

    def close(self) -> None:
        """Stop the thread in the background, and let go of the ledger; what is written in it stays."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._keeper is not None:
            self._keeper.join()
        self._http.close()
        if self._owns_ledger:
            self._ledger.close()

    def __enter__(self) -> Self:
        """Take part until the block ends."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.close()

    def _settle(self, entry: Entry, moment: float) -> bool | ServerError | None:
        """Do what is due for a pull: as `_send`, or None when its reward is still awaited."""
        response = entry.response
        if response is None:
            if entry.due > moment:
                return None
            response = curator_from_json(entry.spec).respond(entry.default_reward)
            try:
                self._ledger.answer(entry.ticket, response, moment + self._timeout)
            except TicketError:  # a reward came at the last moment, in another thread or process
                return None
        elif moment < entry.next_try <= moment + LONGEST_WAIT:  # later is from a clock that has been set back since
            return False
        return self._send(entry.ticket, response, entry.tries)

    def _send(self, ticket: str, response: float, tries: int) -> bool | ServerError:
        """Send; True if it has arrived, False if it waits for another try, the error if it never can."""
        outcome: bool | ServerError
        try:
            reply = self._http.post("/v1/responses", {"ticket": ticket, "response": response})
        except ServerError as error:
            outcome = error if error.code in FINAL else False
        else:
            outcome = reply.get("status") in ("counted", "duplicate")  # a hotel's login page answers 200 as well
        # What the agent has said stands, even if the ledger cannot be written now: then the same will be sent again.
        with suppress(LedgerError):
            if outcome is False:
                # Twice as long after each failure, and not all devices at the same moment.
                spread = 0.5 + system_words(1)[0] / 2**65
                self._ledger.postpone(ticket, time.time() + min(2.0 ** min(tries, 10), LONGEST_WAIT) * spread)
            else:
                self._ledger.done(ticket)
        return outcome

    def _keep(self) -> None:
        """See that somebody flushes when it is time, as long as a pull is open or a response unsent."""
        if not self._background:
            return
        with self._wake:
            if self._keeper is None and not self._closed:
                self._keeper = Thread(target=self._flush_when_due, name="ldpbandits", daemon=True)
                self._keeper.start()
            self._wake.notify()

    def _flush_when_due(self) -> None:
        overdue = 0
        while True:
            with suppress(LDPBanditsError):  # the ledger may be locked or the disk full: there is another time
                for entry in self._ledger.pulls(self._url, self._experiment):
                    if self._closed:
                        return
                    self._settle(entry, time.time())
            with self._wake:
                if self._closed:
                    return
                wait = self._until_due()
                # What is due right after a flush could not be written down: the agent must not hear of it all the time.
                overdue = 0 if wait is None or wait > 0 else min(overdue + 1, 20)
                self._wake.wait(None if wait is None else min(LONGEST_WAIT, max(wait, SHORTEST_WAIT * 2**overdue)))

    def _until_due(self) -> float | None:
        """How long until there is something to do; None if until somebody calls."""
        try:
            entries = self._ledger.pulls(self._url, self._experiment)
        except LDPBanditsError:
            return LONGEST_WAIT
        moments = [entry.due if entry.response is None else entry.next_try for entry in entries]
        return min(moments) - time.time() if moments else None

    def _forked(self) -> None:
        """In a new process there is no thread in the background, and the connection is the parent's."""
        self._wake = Condition()
        self._keeper = None
        self._http.forked()


_clients: WeakSet[Client] = WeakSet()


def _tell_clients_of_fork() -> None:
    for client in list(_clients):
        client._forked()  # noqa: SLF001 - our own


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tell_clients_of_fork)


def _read_decision(reply: Mapping[str, Any], url: str, experiment: str) -> Entry:
    """Read what an agent says, which may be anything."""
    try:
        spec = CuratorSpec.from_json(reply.get("curator"))
    except SpecError as error:
        raise ServerError(f"the agent asks for a curator that there is not: {error}", code="nonsense") from None
    arm, name, ticket = reply.get("arm"), reply.get("name", ""), reply.get("ticket")
    default, lifetime = reply.get("default"), reply.get("expires_in")
    if not is_whole(arm) or not 0 <= arm < MOST_ARMS or not _is_text(name) or not _is_text(ticket) or not ticket:
        raise ServerError("the agent's decision has no arm, name and ticket", code="nonsense")
    if not is_number(lifetime) or not 0 < lifetime <= LONGEST_LIFETIME:
        raise ServerError(f"the agent's ticket must hold for up to a year, got {shown(lifetime)}", code="nonsense")
    if not is_number(default) or isinstance(transformed(spec.transform, default), Refused):
        raise ServerError("the agent's default is not a possible reward", code="nonsense")
    due = time.time() + lifetime - min(MARGIN, lifetime / 10)
    return Entry(ticket, url, experiment, Arm(arm), name, spec, float(default), due)


def _is_text(value: object) -> TypeGuard[str]:
    """Tell whether this can be kept and shown: half of a surrogate pair, which JSON can hold, cannot."""
    return isinstance(value, str) and len(value) <= LONGEST_TEXT and not any("\ud800" <= c <= "\udfff" for c in value)
