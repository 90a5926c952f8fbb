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

import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from ldpbandits.device.exchange import Steps, run
from ldpbandits.device.http import Http
from ldpbandits.device.keeper import Keeper
from ldpbandits.device.ledger import Ledger
from ldpbandits.device.limits import Limits
from ldpbandits.device.outbox import Showing
from ldpbandits.device.participant import GRACE, Allowance, Participant, latest
from ldpbandits.device.pull import Pull, shown
from ldpbandits.device.sealed import sealed
from ldpbandits.device.sender import Flushed
from ldpbandits.errors import LDPBanditsError
from ldpbandits.types import Reward

T = TypeVar("T")


class Client(Participant):
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
        super().__init__(url, experiment, limits, timeout, allowance)
        self._http = Http(self._url, key, timeout)
        self._keeper = Keeper(lambda: self._run(self._send_all()), self._until_due) if background else None
        self._open(ledger)

    def decide(self, *, epsilon: float | None = None) -> Pull:
        """Ask which arm to pull; accept it only within the owner's limits.

        Where the agent leaves a choice of epsilons, it is the one named here, else the largest within the limits. It is
        made and charged now, before there is a reward: a choice that depended on the reward would tell of it. An arm
        that is sticky is shown again without asking.
        """
        return self._pull(self._run(self._decide(epsilon)))

    @sealed
    def observe(self, ticket: str, reward: Reward | float, *, clip: bool = True) -> bool:
        """Draw the response to the reward of the pull with this ticket and keep it, as `Pull.observe` does."""
        return self._run(self._respond(ticket, reward, clip))

    def pulls(self) -> list[Pull]:
        """Return the pulls of this experiment that still await a reward, also from before a restart."""
        return [self._pull(showing) for showing in self._awaiting()]

    def spent(self) -> float:
        """Return the epsilon that this device has spent within the window of its owner, in all experiments."""
        return self._spent()

    def remaining(self) -> float:
        """Return what is left of the owner's budget: what further pulls may cost within the window."""
        return self._remaining()

    def flush(self, *, now: float | None = None) -> Flushed:
        """Send what is due; tell what has become of responses since the last call, also of those sent by themselves."""
        return self._run(self._and_go_on(self._flush(now)))

    def leave(self) -> Flushed:
        """Send now what was decided here, reward or not, as on leaving a page; tell what has become of it.

        Pulls that were open can be observed no more. It takes a few seconds at the most; what could not be sent by then
        is sent later, or at the next start.
        """
        return self._run(self._and_go_on(self._leave(latest())))

    def close(self, *, keep: bool = False) -> None:
        """Leave, end the thread in the background, and close the connection and the ledger; to close twice is harmless.

        With `keep`, pulls stay as they are, for an app that goes on in another process: there their rewards may be
        observed, and what is due is sent.
        """
        self._close(latest(), keep=keep)

    def __enter__(self) -> Self:
        """Take part until the block ends."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the client."""
        self.close()

    def _run(self, steps: Steps[T]) -> T:
        return run(steps, self._http.post)

    def _pull(self, showing: Showing) -> Pull:
        observe = _no_response if showing.entry is None else partial(self._observe, showing.entry.ticket)
        return Pull(*shown(showing), observe)

    def _observe(self, ticket: str, reward: Reward | float, clip: bool) -> bool:  # noqa: FBT001 - see Pull
        return self._run(self._respond(ticket, reward, clip))

    def _close(self, until: float, *, keep: bool) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._keeper is not None:
            self._keeper.stop()
        if not keep:
            with suppress(LDPBanditsError):  # what cannot be sent now is sent at the next start
                self._run(self._leave(until))
        if self._keeper is not None:
            self._keeper.join(until - time.monotonic())
        self._http.close(GRACE)  # which breaks off a request of the thread's that still goes on
        if self._keeper is not None:
            self._keeper.join(GRACE)
        self._close_ledger()

    def _end(self, until: float) -> None:
        self._close(until, keep=False)

    def _wake(self) -> None:
        if self._keeper is not None:
            self._keeper.wake()

    def _after_fork(self) -> None:
        super()._after_fork()
        self._http.after_fork()
        if self._keeper is not None:
            self._keeper.after_fork()


def _no_response(reward: Reward | float, clip: bool) -> bool:  # noqa: ARG001, FBT001 - nothing is done with it
    return False
