"""Take part in an experiment from an asyncio program: `Client`, in threads that the event loop does not wait for.

    async with AsyncClient("https://agent.example", "headline", key="client-...", limits=limits) as client:
        pull = await client.decide()  # show the user pull.name
        await pull.observe(reward)

The promises are those of `Client`, because each call is a call of one. The ledger is a file that outlasts a loss of
power: a write waits for the disk, and perhaps for another process. An agent may take seconds to answer. A client
therefore has two threads: calls that ask the agent take turns in one, calls that need only the ledger in the other.

A call may be cancelled at any time. A call that still waits for its turn is not made. A call that has begun finishes
in its thread: a charged pull is in `pulls()`, and its response, that of the default unless a reward is observed, is
sent at its reporting moment; a reward is observed, or its pull is still open.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial, wraps
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, ParamSpec, Self, TypeAlias, TypeVar
from weakref import finalize

from ldpbandits.device.client import (
    LEAVE_TIMEOUT_S,
    SHUTDOWN_TIMEOUT_S,
    Allowance,
    Client,
    Pull,
    Shown,
    check_arguments,
    leave_deadline,
)
from ldpbandits.device.ledger import Ledger
from ldpbandits.device.limits import Limits
from ldpbandits.device.outbox import Flushed
from ldpbandits.device.sealed import without_frames
from ldpbandits.errors import LedgerError, ParameterError
from ldpbandits.types import Reward

P = ParamSpec("P")
T = TypeVar("T")

CLOSED = "the ledger cannot be used: this client is closed"


def sealed_async(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Seal a coroutine function, also against exceptions thrown in from outside, as when a task is cancelled."""

    @wraps(function)
    async def seal(*args: P.args, **kwargs: P.kwargs) -> T:
        coroutine = function(*args, **kwargs)
        del args, kwargs  # as above
        try:
            return await coroutine
        except BaseException as error:  # noqa: BLE001 - as above
            failure = error
        finally:
            del coroutine
        try:
            raise without_frames(failure)
        finally:
            del failure  # as above

    return seal


@dataclass(frozen=True)
class AsyncPull(Shown):
    """One arm to show, with the method that observes its reward, of an `AsyncClient`."""

    _respond: Callable[[Reward | float, bool], Awaitable[bool]] = field(repr=False, compare=False)

    @sealed_async
    async def observe(self, reward: Reward | float, *, clip: bool = True) -> bool:
        """Draw the response to a reward and keep it until it is sent, as `Pull.observe` does."""
        return await self._respond(reward, clip)


class AsyncClient:
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

        The ledger is that of this user, unless you name another. With `background`, a thread sends due responses;
        without it, call `flush()` from time to time. An `allowance` is the text that the site's backend has signed for
        a decision, where the experiment needs one; a function is called for each decision, in a thread.
        """
        check_arguments(url, experiment, key, limits, timeout)
        self._make_client = partial(
            Client,
            url,
            experiment,
            key=key,
            limits=limits,
            ledger=ledger,
            allowance=allowance,
            timeout=timeout,
            background=background,
        )
        self._client: Client | None = None
        self._opening = Lock()
        self._agent_calls, self._ledger_calls = CallThread("ldpbandits-agent"), CallThread("ldpbandits-ledger")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    async def decide(self, *, epsilon: float | None = None) -> AsyncPull:
        """Ask which arm to pull; accept it only within the owner's limits, as `Client.decide` does.

        If it is cancelled, the pull may still be charged: then `pulls()` has it, and its response is sent on time.
        """
        return self._async_pull(await self._call(self._agent_calls, lambda client: client.decide(epsilon=epsilon)))

    @sealed_async
    async def observe(self, ticket: str, reward: Reward | float, *, clip: bool = True) -> bool:
        """Draw the response to the reward of the pull with this ticket and keep it, as `AsyncPull.observe` does."""
        return await self._observe(ticket, reward, clip)

    @sealed_async
    async def observe_latest(self, reward: Reward | float, *, clip: bool = True) -> bool:
        """Observe the reward of the newest pull that awaits one, as `Client.observe_latest` does."""
        return await self._call(self._ledger_calls, lambda client: client.observe_latest(reward, clip=clip))

    async def pulls(self) -> list[AsyncPull]:
        """Return the pulls of this experiment that still await a reward, also from before a restart."""
        return [self._async_pull(pull) for pull in await self._call(self._ledger_calls, Client.pulls)]

    async def spent(self) -> float:
        """Return the epsilon that this device has spent within the window of its owner, in all experiments."""
        return await self._call(self._ledger_calls, Client.spent)

    async def remaining(self) -> float:
        """Return the rest of the owner's budget: the epsilon that further pulls may cost within the window."""
        return await self._call(self._ledger_calls, Client.remaining)

    async def flush(self, *, now: float | None = None) -> Flushed:
        """Send due responses; return the outcomes since the last call, including those of the background thread."""
        return await self._call(self._agent_calls, lambda client: client.flush(now=now))

    async def leave(self) -> Flushed:
        """Send the responses of this client's pulls now, reward or not, as on leaving a page; return the outcomes.

        Open pulls can be observed no more. It takes a few seconds at most; a response that was not sent by then is
        sent later, or at the next start.
        """
        leaving = CallThread("ldpbandits-leave")  # it waits for no other call
        try:
            return await self._call(leaving, Client.leave, LEAVE_TIMEOUT_S)
        finally:
            leaving.stop()

    async def close(self, *, keep: bool = False) -> None:
        """Leave, stop the threads, and close the connection and the ledger; closing twice is harmless.

        With `keep`, pulls stay unchanged, for an app that goes on in another process: there their rewards may be
        observed, and due responses are sent. If it is cancelled, a thread goes on to close.
        """
        if self._is_closed:
            return
        self._is_closed = True
        if self._loop is not None:  # else it was never used
            closed: Future[None] = Future()
            closed.set_running_or_notify_cancel()  # from now on nobody cancels it
            Thread(target=self._close, args=(closed, leave_deadline(), keep), name="ldpbandits", daemon=True).start()
            await asyncio.wrap_future(closed)

    async def __aenter__(self) -> Self:
        """Open the ledger; close the client if that fails."""
        try:
            await self._call(self._ledger_calls, lambda _: None)
        except BaseException:  # the block is not entered: nobody else would close this client
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave and close, as `close` does."""
        await self.close()

    async def _observe(self, ticket: str, reward: Reward | float, clip: bool) -> bool:  # noqa: FBT001 - see Pull
        return await self._call(self._ledger_calls, lambda client: client.observe(ticket, reward, clip=clip))

    def _async_pull(self, pull: Pull) -> AsyncPull:
        observe = _no_response if pull.ticket is None else partial(self._observe, pull.ticket)
        return AsyncPull(pull.arm, pull.name, pull.ticket, pull.epsilon, pull.report_at, observe)

    async def _call(self, thread: "CallThread", call: Callable[[Client], T], open_timeout: float = -1) -> T:
        """Make a call in this thread when its turn comes, and wait for the result."""
        loop = asyncio.get_running_loop()
        self._loop = self._loop or loop
        if self._loop is not loop:
            raise ParameterError("an AsyncClient belongs to the event loop that first used it")
        if self._is_closed:
            raise LedgerError(CLOSED)
        return await asyncio.wrap_future(thread.submit(lambda: call(self._open_client(open_timeout))))

    def _open_client(self, timeout: float) -> Client:
        """Return the client; the first call opens its ledger. Wait at most `timeout` seconds for another that does."""
        if not self._opening.acquire(timeout=timeout):
            raise LedgerError("the ledger cannot be used: another call is still opening it")
        try:
            if self._is_closed:
                raise LedgerError(CLOSED)
            if self._client is None:
                client = self._make_client()
                if self._is_closed:  # meanwhile: `close` does not wait for the ledger forever
                    client.close(keep=True)
                    raise LedgerError(CLOSED)
                _open_clients.add(client)
                self._client = client
            return self._client
        finally:
            self._opening.release()

    def _close(self, closed: "Future[None]", deadline: float, keep: bool) -> None:  # noqa: FBT001 - of a thread
        """Close the client before this deadline on the monotonic clock, then wait for the calls under way."""
        try:
            if self._opening.acquire(timeout=LEAVE_TIMEOUT_S):
                self._opening.release()
            if self._client is not None:
                self._client._close(deadline, keep=keep)  # noqa: SLF001 - our own
                _open_clients.discard(self._client)
            for thread in (self._agent_calls, self._ledger_calls):
                thread.stop()
                thread.join(SHUTDOWN_TIMEOUT_S)
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            closed.set_exception(error)
        else:
            closed.set_result(None)


class CallThread:
    """A queue of calls and the thread that makes them in their order. The first call starts the thread.

    The thread is a daemon: a program that exits waits neither for an agent nor for a locked ledger. The thread ends
    when it is stopped, or when its client is garbage-collected: a caller whose ledger cannot be opened may not close.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: _Calls = SimpleQueue()
        self._thread: Thread | None = None
        finalize(self, self._calls.put, None).atexit = False

    def submit(self, call: Callable[[], T]) -> "Future[T]":
        """Queue a call; it is not made if its future is cancelled before its turn."""
        future: Future[T] = Future()
        self._calls.put((future, call))
        if self._thread is None:
            self._thread = Thread(target=_make_calls, args=(self._calls,), name=self._name, daemon=True)
            self._thread.start()
        return future

    def stop(self) -> None:
        """Let the thread end after the calls that are queued now."""
        self._calls.put(None)

    def join(self, timeout: float) -> None:
        """Wait at most `timeout` seconds until the thread has ended."""
        if self._thread is not None:
            self._thread.join(timeout)


_Calls: TypeAlias = "SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]"


def _make_calls(calls: _Calls) -> None:
    while (item := calls.get()) is not None:
        future, call = item
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                future.set_exception(error)
        del item, future, call  # the call may hold a reward


async def _no_response(reward: Reward | float, clip: bool) -> bool:  # noqa: ARG001, FBT001 - the reward is ignored
    return False


_open_clients: set[Client] = set()
"""Strong references to open clients: after the end of the event loop, the exit handler still sends their responses."""
