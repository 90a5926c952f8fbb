"""Some workers on one PostgreSQL, in the process of the test: each is a service on a store of its own."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from ldpbandits.server.api.messages import AcceptanceMessage, NewExperiment, ResponseMessage
from ldpbandits.server.service import Service
from ldpbandits.server.store.postgres.store import PostgresStore

NEW = NewExperiment(
    "headline", ["blue", "green"], {"mechanism": "bernoulli", "epsilon": 1.0}, ticket_lifetime=100, goal="earn"
)
T = TypeVar("T")


class Workers:
    """Some workers in one process, whose clock stands still unless it is told otherwise."""

    def __init__(self, url: str, count: int) -> None:
        """Start so many."""
        self.url = url
        self.clock = [1_000_000.0] * count
        self.all = [Service(PostgresStore(url), now=partial(self.clock.__getitem__, number)) for number in range(count)]

    async def create(self, new: NewExperiment = NEW) -> None:
        """Create an experiment at the first worker."""
        await self.change(0, lambda: self.all[0].commands.create(new))

    async def change(self, worker: int, work: Callable[[], Awaitable[T]]) -> T:
        """Make a change at one worker, while the others look every now and then, as they do."""
        others = [asyncio.create_task(self._look(other)) for other in self.all if other is not self.all[worker]]
        try:
            return await self.all[worker].change(work)
        finally:
            for other in others:
                other.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    @staticmethod
    async def _look(worker: Service) -> None:
        assert worker.peers is not None
        while True:
            await worker.peers.poll()
            await asyncio.sleep(0.02)

    async def decide(self, worker: int, name: str = "headline", *, accepted_at: int | None = None) -> str:
        """Ask a worker for an arm, and accept it at another if one is given; return the ticket."""
        await self.all[worker].refresh(name)
        ticket = self.all[worker].decide(name).ticket
        assert ticket is not None
        if accepted_at is not None:
            assert (await self.all[accepted_at].accept(AcceptanceMessage(ticket))).status == "accepted"
        return ticket

    async def respond(self, worker: int, ticket: str, response: float = 1.0) -> str:
        """Send a response to a worker."""
        return (await self.all[worker].respond(ResponseMessage(ticket, response))).status

    async def look(self) -> None:
        """Let all write what happened, and look, twice: the first tells what the second sees."""
        for _ in range(2):
            for worker in self.all:
                assert worker.peers is not None
                await worker.write_events()
                await worker.peers.poll()

    async def shown(self, worker: int, name: str = "headline") -> tuple[int, int, int, int]:
        """Return responses, pending, missing and decisions of all arms, as a worker tells them."""
        await self.all[worker].refresh(name)
        arms = (await self.all[worker].report(name)).arms
        sums = (sum(getattr(arm, what) for arm in arms) for what in ("pulls", "pending", "missing", "decisions"))
        pulls, pending, missing, decisions = sums
        return pulls, pending, missing, decisions


@contextmanager
def working(url: str, count: int = 2) -> Iterator[Workers]:
    """Run workers for as long as the block lasts."""
    made = Workers(url, count)
    try:
        yield made
    finally:
        for worker in made.all:
            worker.close()
