"""Take part in an experiment from an asyncio program: what `Client` does, without ever blocking the event loop.

    async with AsyncClient("https://agent.example", "headline", key="client-...", limits=limits) as client:
        pull = await client.decide()  # show the user pull.name
        await pull.observe(reward)

The promises are those of `Client`, because the steps are: both go through those of `Participant`, on the same ledger.
The network is asyncio's. The ledger is a file that outlasts a loss of power: a write waits for the disk, and perhaps
for another process. So each step on it is done in a thread of the client, one after the other.

A call may be cancelled at any moment. A step that has begun in the thread is finished there; the next is not begun. So
nothing is lost, and nothing is done twice: a pull that was charged is in `pulls()`, and its response is sent at its
moment; a reward is observed, or its pull is still open; a response that may have left is sent again as it is.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from ldpbandits.device.async_http import AsyncHttp
from ldpbandits.device.async_keeper import AsyncKeeper
from ldpbandits.device.exchange import Reply, Request, Steps, advance, run
from ldpbandits.device.http import Http
from ldpbandits.device.ledger import Ledger
from ldpbandits.device.limits import Limits
from ldpbandits.device.outbox import Showing
from ldpbandits.device.participant import GRACE, Allowance, Participant, latest
from ldpbandits.device.pull import AsyncPull, shown
from ldpbandits.device.sealed import sealed_async
from ldpbandits.device.sender import Flushed
from ldpbandits.device.worker import CLOSED, Worker
from ldpbandits.errors import LDPBanditsError, LedgerError, ParameterError, ServerError
from ldpbandits.types import Reward

T = TypeVar("T")


class AsyncClient(Participant):
    """A device's part in one experiment, for asyncio. It belongs to the event loop that first uses it.

    >>> import asyncio
    >>> from ldpbandits import Range
    >>> limits = Limits(rewards=Range(0, 1), epsilon=1, budget=10)
    >>> async def take_part():
    ...     async with AsyncClient(url, "headline", key=key, limits=limits, ledger=":memory:") as client:
    ...         pull = await client.decide()  # show the user pull.name
    ...         await pull.observe(1)  # the reward stays here; one random bit is sent, at the end of this block
    ...         return await client.spent(), await client.remaining()
    >>> asyncio.run(take_part())
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
        """Take part in this experiment of the agent at `url`; the ledger is opened with the block, or at first use.

        The ledger is that of this user, unless you name another. With `background`, a task sends what is due; without
        it, call `flush()` from time to time. An `allowance` is what the site's backend has signed for a decision, where
        the experiment needs one; a function is called for each decision.
        """
        super().__init__(url, experiment, limits, timeout, allowance)
        self._named_ledger, self._client_key = ledger, key
        self._http = AsyncHttp(self._url, key, timeout)
        self._worker = Worker()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_open = False
        self._keeper = (
            AsyncKeeper(lambda: self._run(self._send_all()), lambda: self._step(self._until_due), self._http.hang_up)
            if background
            else None
        )

    async def decide(self, *, epsilon: float | None = None) -> AsyncPull:
        """Ask which arm to pull; accept it only within the owner's limits, as `Client.decide` does.

        If it is cancelled, the pull was charged or was not: `pulls()` has it if it was.
        """
        return self._pull(await self._run(self._decide(epsilon)))

    @sealed_async
    async def observe(self, ticket: str, reward: Reward | float, *, clip: bool = True) -> bool:
        """Draw the response to the reward of the pull with this ticket and keep it, as `AsyncPull.observe` does."""
        return await self._run(self._respond(ticket, reward, clip))

    async def pulls(self) -> list[AsyncPull]:
        """Return the pulls of this experiment that still await a reward, also from before a restart."""
        return [self._pull(showing) for showing in await self._step(self._awaiting)]

    async def spent(self) -> float:
        """Return the epsilon that this device has spent within the window of its owner, in all experiments."""
        return await self._step(self._spent)

    async def remaining(self) -> float:
        """Return what is left of the owner's budget: what further pulls may cost within the window."""
        return await self._step(self._remaining)

    async def flush(self, *, now: float | None = None) -> Flushed:
        """Send what is due; tell what has become of responses since the last call, also of those sent by themselves."""
        return await self._run(self._and_go_on(self._flush(now)))

    async def leave(self) -> Flushed:
        """Send now what was decided here, reward or not, as on leaving a page; tell what has become of it.

        Pulls that were open can be observed no more. It takes a few seconds at the most; what could not be sent by then
        is sent later, or at the next start.
        """
        try:
            async with asyncio.timeout(latest() - time.monotonic() + GRACE):
                return await self._run(self._and_go_on(self._leave(latest())))
        except TimeoutError:
            raise LedgerError("the ledger cannot be used: another step is using it") from None

    async def close(self, *, keep: bool = False) -> None:
        """Leave, end the task in the background, and close the connection and the ledger; to close twice is harmless.

        With `keep`, pulls stay as they are, for an app that goes on in another process: there their rewards may be
        observed, and what is due is sent.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._loop is not None:  # else it was never used
                await self._close(latest(), keep=keep)
        finally:
            self._http.shut()
            if self._loop is not None:
                self._worker.submit(self._close_ledger)
            self._worker.stop()
            _open_clients.discard(self)

    async def __aenter__(self) -> Self:
        """Open the ledger, and take part until the block ends."""
        try:
            await self._step(lambda: None)
        except BaseException:  # the block is not entered: nobody else would close this client
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the client."""
        await self.close()

    async def _run(self, steps: Steps[T]) -> T:
        """Go through the steps in the thread, and wait for the agent's reply at each request."""
        said: Reply | ServerError | None = None
        try:
            while isinstance(reached := await self._step(partial(advance, steps, said)), Request):
                try:
                    said = await self._http.post(
                        reached.path, reached.message, with_key=reached.with_key, patience=reached.patience
                    )
                except ServerError as error:
                    said = error
        except BaseException:
            self._worker.submit(steps.close)  # in the thread: there a step may still be under way
            raise
        return reached.value

    async def _step(self, job: Callable[[], T]) -> T:
        """Do this in the thread, where it may wait for the ledger."""
        loop = asyncio.get_running_loop()
        self._loop = self._loop or loop
        if self._loop is not loop:
            raise ParameterError("an AsyncClient belongs to the event loop that first used it")
        return await asyncio.wrap_future(self._worker.submit(partial(self._with_ledger, job)))

    def _with_ledger(self, job: Callable[[], T]) -> T:
        if not self._is_open:
            if self._is_closed:
                raise LedgerError(CLOSED)
            self._open(self._named_ledger)
            self._is_open = True
            _open_clients.add(self)
        return job()

    def _pull(self, showing: Showing) -> AsyncPull:
        observe = _no_response if showing.entry is None else partial(self._observe, showing.entry.ticket)
        return AsyncPull(*shown(showing), observe)

    async def _observe(self, ticket: str, reward: Reward | float, clip: bool) -> bool:  # noqa: FBT001 - see Pull
        return await self._run(self._respond(ticket, reward, clip))

    async def _close(self, until: float, *, keep: bool) -> None:
        if self._keeper is not None:
            self._keeper.stop()
        with suppress(LDPBanditsError, TimeoutError):  # what cannot be sent now is sent at the next start
            async with asyncio.timeout(until - time.monotonic()):
                if not keep:
                    await self._run(self._leave(until))
        if self._keeper is not None:
            await self._keeper.join(until - time.monotonic())
        await self._http.close(GRACE)
        with suppress(LDPBanditsError, TimeoutError):
            async with asyncio.timeout(GRACE):
                await self._step(self._close_ledger)

    def _end(self, until: float) -> None:
        """Leave without an event loop, which has ended before the program: the steps are the same."""
        if self._is_closed:
            return
        self._is_closed = True
        http = Http(self._url, self._client_key, self._timeout)
        with suppress(LDPBanditsError):
            run(self._leave(until), http.post)
        http.close(GRACE)
        self._close_ledger()

    def _wake(self) -> None:
        """Wake the task, from the thread."""
        if self._keeper is not None and self._loop is not None:
            with suppress(RuntimeError):  # the event loop has ended
                self._loop.call_soon_threadsafe(self._keeper.wake)


async def _no_response(reward: Reward | float, clip: bool) -> bool:  # noqa: ARG001, FBT001 - nothing is done with it
    return False


_open_clients: set[AsyncClient] = set()
"""Those that were not closed. When the event loop has ended, nobody else remembers that they have something to send."""
