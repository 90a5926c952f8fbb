"""A service on a store in memory, and crowds of devices that answer it, or do not."""

import asyncio
from collections.abc import Callable, Iterable

from tests.server.memory_store import Memory, MemoryStore

from ldpbandits.server.api.messages import AcceptanceMessage, Decision, NewExperiment, ResponseMessage
from ldpbandits.server.experiments.tickets import Ticket, new_nonce
from ldpbandits.server.service import Service
from ldpbandits.types import Arm

LIFETIME = 100
EVEN = {"kind": "ucb", "width": 1e6}
"""So wide that the arm with the fewest pulls is next."""


def new(*arms: str, **settings: object) -> NewExperiment:
    """Write down an experiment of bits with even traffic."""
    curator = {"mechanism": "bernoulli", "epsilon": 2}
    first: dict[str, object] = {"stop_after": 0, "missing": "worst", "accept_drift_risk": True}
    return NewExperiment("one", list(arms), curator, EVEN, LIFETIME, **first | settings)  # type: ignore[arg-type]


class Place:
    """A store that can be opened again, a clock, and the service on them."""

    def __init__(self) -> None:
        """Start for the first time."""
        self.memory, self.clock, self.fault = Memory(), 1_000.0, False
        self.service = self._start()

    def _start(self) -> Service:
        def fail(_: str) -> None:
            if self.fault:
                raise MemoryError

        return Service(MemoryStore(self.memory, failpoint=fail), now=lambda: self.clock)

    def restart(self) -> Service:
        """End the service, and start another where it was left."""
        self.service.close()
        self.service = self._start()
        return self.service

    def expire(self) -> None:
        """Let the time of all tickets be over."""
        self.clock += LIFETIME


async def answer(service: Service, wanted: dict[int, Iterable[float]], together: int = 1000) -> None:
    """Count these responses of each arm, whatever the agent would have handed out, so many at a time."""
    number = service.experiments["one"].number
    pairs = [(arm, response) for arm, responses in wanted.items() for response in responses]
    for begin in range(0, len(pairs), together):
        messages = [
            ResponseMessage(
                service.keys.signer.sign(Ticket(number, Arm(arm), service.now + LIFETIME, new_nonce())), value
            )
            for arm, value in pairs[begin : begin + together]
        ]
        await asyncio.gather(*(service.respond(message) for message in messages))


async def visit(service: Service, count: int, respond: Callable[[Decision], float | None]) -> None:
    """Let so many devices ask for an arm and accept it; None: this one does not answer."""
    decisions = [service.decide("one") for _ in range(count)]
    answers = [(decision.ticket or "", respond(decision)) for decision in decisions]
    await asyncio.gather(*(service.accept(AcceptanceMessage(ticket)) for ticket, _ in answers))
    messages = [ResponseMessage(ticket, value) for ticket, value in answers if value is not None]
    await asyncio.gather(*(service.respond(message) for message in messages))


def bits(ones: int, zeros: int) -> list[float]:
    """Return so many of each, mixed."""
    total = ones + zeros
    return [float((place + 1) * ones // total > place * ones // total) for place in range(total)]
