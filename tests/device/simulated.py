"""A device, a network and an agent in simulated time: everything that leaves is written down, to the byte."""

import asyncio
import random
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import BytesIO
from json import dumps, loads
from math import inf
from typing import Any, TypeAlias

import pytest

from ldpbandits import AsyncClient, Client, LDPBanditsError, Ledger, Limits, Range, net
from ldpbandits.device import async_client, client, offer, outbox, randomness, wire
from ldpbandits.device.background_sender import pause_after

START = 1_700_000_000.0
LOOK = 7.0
"""How long a user looks before a reward comes, in seconds."""
PAUSE = 50.0
"""How long after an arm the next one is asked for."""
END = 2_000.0
"""When the app ends, after the last arm."""
LIMITS = Limits(Range(0, 1), epsilon=1, budget=100)

Reward = float | None
"""What a user did; None: nothing."""


@dataclass(frozen=True)
class Sent:
    """A request as whoever listens sees it."""

    time: float
    connection: int
    head: bytes
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        """What is in it; a question for the offer has nothing."""
        message: dict[str, Any] = loads(self.body or b"{}")
        return message


@dataclass(frozen=True)
class Reply:
    """What an agent answers: a status and a body, after so many seconds, whole or cut off."""

    body: object
    status: int = 200
    delay: float = 0.1
    cut: int | None = None

    @property
    def raw(self) -> bytes:
        """The bytes."""
        body = self.body if isinstance(self.body, bytes) else dumps(self.body).encode()
        return (f"HTTP/1.1 {self.status} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)[: self.cut]


class Agent:
    """An honest agent. Those that are not change its decisions, and what it answers to responses."""

    decision: dict[str, Any] = {  # noqa: RUF012 - each agent has a copy
        "arm": 1,
        "name": "green",
        "curator": {"mechanism": "bernoulli", "epsilon": 1.0},
        "default": 0,
        "report_after": 300,
        "sticky": 0,
        "expires_at": 0,
        "expires_in": 3600,
    }

    def __init__(self, **changes: Any) -> None:
        """Ask for this."""
        self.decision = {**self.decision, **changes}
        self.issued = self.answered = 0

    def decide(self) -> Reply:
        """Hand out an arm."""
        self.issued += 1
        return Reply({"ticket": f"ticket-{self.issued}", **self.decision})

    def offer(self) -> Reply:
        """Offer what the decisions ask for."""
        asked = {name: self.decision[name] for name in ("curator", "default", "report_after", "sticky")}
        lifetime = self.decision["expires_in"]
        said = {"status": "running", "shipped": None, "retired": [], "max_age": 60, "ticket_lifetime": lifetime}
        return Reply({**said, **asked})

    def accept(self, _: dict[str, Any]) -> Reply:
        """Count an acceptance."""
        return Reply({"status": "accepted"})

    def respond(self, _: dict[str, Any]) -> Reply:
        """Count a response."""
        self.answered += 1
        return Reply({"status": "counted"})


@dataclass
class World:
    """Time, and all that was sent in it."""

    agent: Agent
    seed: int
    passed: float = 0.0
    sent: list[Sent] = field(default_factory=list)
    connections: int = 0

    def time(self) -> float:
        """Tell the time, as the module does."""
        return START + self.passed

    def monotonic(self) -> float:
        """Tell the time that has passed; ahead of the real one, by which nothing here waits."""
        return 1e7 + self.passed

    def connect(self, *_: object) -> "Socket":
        """Connect to the agent."""
        self.connections += 1
        return Socket(self, self.connections)

    def hear(self, connection: int, received: bytes) -> Reply | None:
        """Answer a request, once it is complete."""
        head, _, body = received.partition(b"\r\n\r\n")
        length = re.search(rb"Content-Length: (\d+)", head)
        is_whole = length is not None and len(body) >= int(length[1])
        if not is_whole and not (head.startswith(b"GET") and b"\r\n\r\n" in received):
            return None
        sent = Sent(self.passed, connection, head, body)
        self.sent.append(sent)
        if b"/offer " in head:
            return self.agent.offer()
        if b"/acceptances " in head:
            return self.agent.accept(sent.message)
        return self.agent.decide() if b"/decisions" in head else self.agent.respond(sent.message)

    @contextmanager
    def running(self, patch: pytest.MonkeyPatch) -> Iterator[None]:
        """Let devices live in this world. Noise, and how long to wait before a retry, come from a stream each."""
        with patch.context() as here:
            for module in (client, outbox, offer):
                here.setattr(module, "time", self)
            for module in (wire, net):
                here.setattr(module, "monotonic", self.monotonic)
            here.setattr(net, "connect", self.connect)
            here.setattr(async_client, "CallThread", AtOnce)
            here.setattr(randomness, "urandom", random.Random(f"noise {self.seed}").randbytes)
            jitter = random.Random(f"jitter {self.seed}")
            here.setattr(outbox, "system_words", lambda count: [jitter.getrandbits(64) for _ in range(count)])
            yield


class Socket:
    """One end of a connection; the agent is at the other."""

    def __init__(self, world: World, number: int) -> None:
        """Be connected."""
        self._world, self._number = world, number
        self._out, self._in, self._delay, self._timeout = b"", b"", 0.0, 0.0
        self._is_closed = False

    def sendall(self, data: bytes) -> None:
        """Send; a request that is complete is answered."""
        if self._is_closed:
            raise BrokenPipeError
        self._out += data
        reply = self._world.hear(self._number, self._out)
        if reply is not None:
            self._out, self._in, self._delay, self._is_closed = b"", reply.raw, reply.delay, reply.cut is not None

    def settimeout(self, seconds: float) -> None:
        """Wait for so long at the most."""
        self._timeout = seconds

    def recv_into(self, buffer: memoryview) -> int:
        """Receive, when the reply has come."""
        if self._delay > self._timeout:
            self._world.passed += self._timeout
            raise TimeoutError("timed out")
        self._world.passed += self._delay
        self._delay = 0.0
        count = min(len(buffer), len(self._in))
        buffer[:count], self._in = self._in[:count], self._in[count:]
        return count

    def makefile(self, _: str) -> BytesIO:
        """Return what HTTPResponse wants to close."""
        return BytesIO()

    def close(self) -> None:
        """Hang up."""
        self._is_closed = True


class AtOnce:
    """A thread for calls that is none: whatever waits, waits in the time of this world."""

    def __init__(self, _: str) -> None:
        """Have no name."""

    def submit(self, job: Callable[[], Any]) -> "Future[Any]":
        """Do it."""
        future: Future[Any] = Future()
        try:
            future.set_result(job())
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            future.set_exception(error)
        return future

    def stop(self) -> None:
        """Go on: there is no thread."""

    def join(self, timeout: float) -> None:
        """Go on: there is no thread."""


Make: TypeAlias = type[Client] | type[AsyncClient]


def session(
    patch: pytest.MonkeyPatch,
    world: World,
    rewards: list[Reward],
    make: Make = Client,
    limits: Limits = LIMITS,
    *,
    by_name: bool = False,
) -> list[Sent]:
    """Let a device take part once for each reward, and close its app at the end; return everything that left it.

    It observes by ticket, or by the name of the experiment.
    """
    with world.running(patch):
        ledger = Ledger(":memory:")
        options: dict[str, Any] = {"key": "k", "limits": limits, "ledger": ledger, "timeout": 10, "background": False}
        if issubclass(make, AsyncClient):
            asyncio.run(_take_part_async(make("http://agent", "one", **options), world, rewards, by_name=by_name))
        else:
            _take_part(make("http://agent", "one", **options), world, rewards, by_name=by_name)
        ledger.close()
    return world.sent


def _take_part(client: Client, world: World, rewards: list[Reward], *, by_name: bool) -> None:
    for number, reward in enumerate(rewards):
        _go_on(client, world, number * PAUSE)
        with suppress(LDPBanditsError):
            pull = client.decide()
            _go_on(client, world, world.passed + LOOK)
            if reward is not None:
                (client.observe_latest if by_name else pull.observe)(reward)
    _go_on(client, world, world.passed + END)
    client.close()


async def _take_part_async(client: AsyncClient, world: World, rewards: list[Reward], *, by_name: bool) -> None:
    async with client:
        inner = client._client
        assert inner is not None
        for number, reward in enumerate(rewards):
            _go_on(inner, world, number * PAUSE)
            with suppress(LDPBanditsError):
                pull = await client.decide()
                _go_on(inner, world, world.passed + LOOK)
                if reward is not None:
                    await (client.observe_latest if by_name else pull.observe)(reward)
        _go_on(inner, world, world.passed + END)


def _go_on(client: Client, world: World, until: float) -> None:
    """Let time pass, and do what the thread in the background does meanwhile."""
    while True:
        pause = pause_after(client._seconds_until_due(), 0)
        moment = inf if pause is None else world.passed + pause
        if moment > until:
            break
        world.passed = moment
        client._send_due()
    world.passed = max(world.passed, until)
