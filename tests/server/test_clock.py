"""A clock that was years ahead does not make a server forget, and does not stop its time."""

import asyncio
import logging

import pytest
from tests.server.memory_store import Memory, MemoryStore

from ldpbandits.server.api.messages import NewExperiment, NewKey, ResponseMessage
from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.process.clock import CLOCK_TOLERANCE_S, LEAP_CONFIRMATION_S, START_CONFIRMATION_S, Clock, elapsed
from ldpbandits.server.service import Service
from ldpbandits.server.store.nonces import HOUR_S

START = 1_700_000_000
YEARS = 10 * 365 * 86_400
LIFETIME = 100


class Times:
    """A wall clock that can be set, and a steady one that cannot."""

    def __init__(self) -> None:
        """Begin."""
        self.wall, self.steady = float(START), 5_000.0

    def pass_by(self, seconds: float) -> None:
        """Let time pass."""
        self.wall += seconds
        self.steady += seconds

    def clock(self) -> Clock:
        """Look at both."""
        return Clock(lambda: self.wall, lambda: self.steady)


def believed() -> tuple[Times, Clock]:
    """Return a clock that has been believed since its start."""
    times = Times()
    clock = times.clock()
    assert clock.last_expired(0) == 0
    times.pass_by(START_CONFIRMATION_S)
    assert clock.last_expired(0) == times.wall
    return times, clock


def test_the_first_time_is_believed_after_minutes() -> None:
    """A machine that starts with a wrong clock has minutes to set it; each time that it does, they start again."""
    times = Times()
    clock = times.clock()
    for _ in range(3):
        times.wall += YEARS
        assert clock.last_expired(0) == 0
        times.pass_by(START_CONFIRMATION_S - 1)
        assert clock.last_expired(0) == 0
    times.pass_by(1)
    assert clock.last_expired(0) == times.wall


def test_a_leap_ahead_is_believed_after_a_day(caplog: pytest.LogCaptureFixture) -> None:
    """Until then the time goes on as if there had been none; it is said once."""
    times, clock = believed()
    before = times.wall
    times.wall += YEARS
    for _ in range(10):
        assert clock.last_expired(0) == before
        times.pass_by(LEAP_CONFIRMATION_S / 10)
        before += LEAP_CONFIRMATION_S / 10
    assert clock.last_expired(0) == times.wall
    (line,) = caplog.messages
    assert "jumped ahead by 3650.0 days" in line


def test_a_leap_that_was_undone_has_not_been() -> None:
    """The clock is set right, and believed at once, whatever it said meanwhile; the next leap waits a day again."""
    times, clock = believed()
    for _ in range(2):
        times.wall += YEARS
        clock.last_expired(0)
        times.pass_by(LEAP_CONFIRMATION_S - 1)
        assert clock.last_expired(0) == times.wall - YEARS
        times.wall -= YEARS
        assert clock.last_expired(0) == times.wall


def test_a_leap_back_is_believed_at_once() -> None:
    """To take too early a time is always right; from there a leap ahead is a leap."""
    times, clock = believed()
    times.wall -= YEARS
    assert clock.last_expired(0) == times.wall
    times.wall += YEARS
    assert clock.last_expired(0) == times.wall - YEARS


def test_small_steps_are_no_leaps(caplog: pytest.LogCaptureFixture) -> None:
    """A clock that is set a little, again and again, is believed all the time."""
    times, clock = believed()
    for step in (CLOCK_TOLERANCE_S - 1, -3, CLOCK_TOLERANCE_S - 1, 0.5) * 10:
        times.wall += step
        times.pass_by(60)
        assert clock.last_expired(0) == int(times.wall)
    assert not caplog.messages


def test_what_is_forgotten_has_expired(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the clock says; and when it is far behind, that is said once, each time."""
    times, clock = believed()
    ahead = int(times.wall) + YEARS
    for _ in range(3):
        assert clock.last_expired(ahead) == ahead
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "is 3650.0 days behind" in caplog.messages[0]
    times.wall += YEARS
    clock.last_expired(ahead)
    times.wall -= YEARS
    clock.last_expired(ahead)
    assert sum("days behind" in line for line in caplog.messages) == 2


def test_simulated_time_is_believed() -> None:
    """Without a steady clock there is nothing to compare with; with that of the machine there is."""
    assert Clock(lambda: 17.5).last_expired(3) == 17
    assert Clock().last_expired(3) == 3
    assert elapsed() <= elapsed()


def test_a_server_whose_clock_was_years_ahead_goes_on() -> None:
    """Each ticket counts once, before, in and after those years, and then time is what it is, at once."""
    times, memory = Times(), Memory()

    async def live() -> None:
        service = Service(MemoryStore(memory), now=lambda: times.wall)
        service._clock = times.clock()
        for _ in range(2):
            await service.forget()
            times.pass_by(START_CONFIRMATION_S)
        await service.commands.create(
            NewExperiment("one", ["a"], {"mechanism": "bernoulli", "epsilon": 1}, None, LIFETIME)
        )
        first = await counted(service)
        times.wall += YEARS
        second = await counted(service)
        for _ in range(2 + HOUR_S // LIFETIME):  # both have expired, by this clock, to the full hour
            times.pass_by(LIFETIME)
            await service.forget()
        assert await said(service, first) == await said(service, second) == "expired"
        assert len(memory.nonces) == 1
        times.wall -= YEARS
        assert service.now == times.wall
        assert service.decide("one").expires_at == times.wall + LIFETIME
        assert await said(service, first) == "expired"
        assert await said(service, second) == "duplicate"
        await counted(service)
        assert service.experiments["one"].responses == 3
        service.close()

    asyncio.run(live())


def test_a_clock_that_was_years_ahead_ends_no_secret_before_its_time() -> None:
    """A ticket that was signed before a rotation counts within its grace, whatever the clock said in between."""
    times = Times()

    async def live() -> None:
        service = Service(MemoryStore(Memory()), now=lambda: times.wall)
        service._clock = times.clock()
        for _ in range(2):
            await service.forget()
            times.pass_by(START_CONFIRMATION_S)
        await service.commands.create(
            NewExperiment("one", ["a"], {"mechanism": "bernoulli", "epsilon": 1}, None, LIFETIME)
        )
        ticket = service.decide("one").ticket
        assert ticket is not None
        await service.commands.rotate("signing", NewKey())
        times.wall += YEARS
        await service.forget()
        times.wall -= YEARS
        assert await said(service, ticket) == "counted"
        service.close()

    asyncio.run(live())


async def counted(service: Service) -> str:
    """Decide and respond; return the ticket."""
    ticket = service.decide("one").ticket
    assert ticket is not None
    assert await said(service, ticket) == "counted"
    return ticket


async def said(service: Service, ticket: str) -> str:
    """Respond; return what becomes of it."""
    try:
        return (await service.respond(ResponseMessage(ticket, 1))).status
    except Refusal as refusal:
        return refusal.code
