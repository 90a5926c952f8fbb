"""Strangers with the public client key: what a flood of lies, or of questions, can do to an experiment."""

import asyncio
from collections.abc import Callable, Iterator
from random import Random

import pytest
from tests.server.crowds import Place, visit

from ldpbandits.server.api.messages import Decision, NewExperiment, ResponseMessage
from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.experiments.stopping import stop_decided, watch_traffic
from ldpbandits.server.service import Service
from ldpbandits.spec.mechanisms import response_mean
from ldpbandits.spec.messages import Report
from ldpbandits.spec.protocol import Code

DAY_S, MINUTE_S = 86_400, 60
EPSILON = 1.0


@pytest.fixture
def place() -> Iterator[Place]:
    """A service of its own."""
    made = Place()
    yield made
    made.service.close()


def experiment(**settings: object) -> NewExperiment:
    """Write down what a site declares that wants the best arm shipped, and else the defaults."""
    curator = {"mechanism": "bernoulli", "epsilon": EPSILON}
    settings = {"goal": "earn", "stop_when_decided": "ship", "accept_drift_risk": True, **settings}
    return NewExperiment("one", ["a", "b"], curator, **settings)  # type: ignore[arg-type]


def lies(random: Random) -> Callable[[Decision], float | None]:
    """Return how a stranger answers who wants arm b: a reward of 1 for it and 0 for the other, through the curator."""

    def respond(decision: Decision) -> float:
        return float(random.random() < response_mean(float(decision.arm == 1), EPSILON))

    return respond


async def minutes(place: Place, count: int) -> None:
    """Let the server's own clock go on, and do what it does from time to time."""
    for _ in range(count):
        place.clock += MINUTE_S
        await watch_traffic(place.service)
        await stop_decided(place.service)


async def flood(place: Place, count: int, seed: int) -> None:
    """Send this many lies within a second."""
    await visit(place.service, count, lies(Random(seed)))
    await watch_traffic(place.service)
    await stop_decided(place.service)


def state(service: Service) -> tuple[str, int | None]:
    """Return the status, and the arm that is shipped."""
    return service.experiments["one"].status, service.experiments["one"].shipped


@pytest.mark.parametrize("seed", range(6))
def test_a_burst_of_lies_ships_no_arm(place: Place, seed: int) -> None:
    """Not at once, nor after the least time; it is warned of, and a restart does not forget it.

    2,000 lies at epsilon 1 separate the arms: the defences decide here, not chance.
    """

    async def play() -> Report:
        await place.service.commands.create(experiment())
        await flood(place, 2000, seed)
        report = await place.service.report("one")
        assert report.best is not None
        assert report.best.separated
        assert state(place.service) == ("running", None)
        await minutes(place, 2)
        place.restart()
        place.clock += DAY_S
        await minutes(place, 2)
        return await place.service.report("one")

    report = asyncio.run(play())
    assert state(place.service) == ("paused", None)
    assert any("jumped within a minute" in warning for warning in report.warnings)


def test_honest_traffic_ships_after_a_day(place: Place) -> None:
    """The same experiment with three visitors a minute: no jump, no warning, and the best arm is shipped."""

    async def play() -> Report:
        await place.service.commands.create(experiment(minimum_share=0.3))
        respond = lies(Random(1))
        for minute in range(1500):
            await visit(place.service, 3, respond)
            place.clock += MINUTE_S
            await watch_traffic(place.service)
            if minute % 100 == 99:
                await stop_decided(place.service)
                assert state(place.service) == ("running", None) or minute * MINUTE_S >= DAY_S
        return await place.service.report("one")

    report = asyncio.run(play())
    assert state(place.service) == ("shipped", 1)
    assert not [warning for warning in report.warnings if "jumped" in warning]


def test_above_its_cap_an_experiment_pauses_itself_and_counts_no_more(place: Place) -> None:
    """Also when thousands of tickets are out; whoever resumes it begins a new hour."""

    async def send(tickets: list[str | None]) -> int:
        answers = [place.service.respond(ResponseMessage(ticket or "", 1.0)) for ticket in tickets]
        results = await asyncio.gather(*answers, return_exceptions=True)
        refused = [result for result in results if isinstance(result, Refusal)]
        assert all((each.status, each.code) == (429, Code.RETRY) and each.retry_after for each in refused)
        return len(results) - len(refused)

    async def play() -> Report:
        service = place.service
        await service.commands.create(experiment(responses_per_hour=1000))
        tickets = [service.decide("one").ticket for _ in range(3000)]
        assert await send(tickets) == 1000
        assert state(service) == ("running", None)
        await watch_traffic(service)
        assert state(service) == ("paused", None)
        assert await send(tickets[1000:]) == 0
        told = await service.report("one")
        await service.commands.set_status("one", "running")
        assert await send(tickets[1000:]) == 1000
        await watch_traffic(service)
        assert state(service) == ("paused", None)
        return told

    report = asyncio.run(play())
    assert any("paused itself once: more than responses_per_hour = 1,000" in told for told in report.warnings)
    assert place.restart().experiments["one"].incidents["capped"] == 2
    assert not place.service.experiments["one"].rejected


def test_an_experiment_from_before_the_cap_has_none(place: Place) -> None:
    """Settings that a store has kept mean what they meant."""

    async def play() -> None:
        await place.service.commands.create(experiment(responses_per_hour=0, stop_after=0))
        await visit(place.service, 20_000, lies(Random(2)))
        await stop_decided(place.service)

    asyncio.run(play())
    settings = place.service.experiments["one"].settings
    assert "responses_per_hour" not in settings.to_json()
    assert "stop_after" not in settings.to_json()
    assert state(place.service) == ("shipped", 1)


def test_asking_without_answering_does_not_keep_the_rule_from_exploring(place: Place) -> None:
    """Tickets of strangers are written off once their answers are due; honest ones that are out count."""

    async def play() -> tuple[int, int]:
        service = place.service
        await service.commands.create(experiment(responses_per_hour=0, report_after=300))
        waiting: list[tuple[float, str]] = []
        for _ in range(40):
            decisions = [service.decide("one") for _ in range(210)]
            waiting += [(place.clock + 300, decision.ticket or "") for decision in decisions[::21]]
            place.clock += MINUTE_S
            due = [ticket for moment, ticket in waiting if moment <= place.clock]
            waiting = [(moment, ticket) for moment, ticket in waiting if moment > place.clock]
            await asyncio.gather(*(service.respond(ResponseMessage(ticket, 1.0)) for ticket in due))
            await watch_traffic(service)
        arms, records = service.experiments["one"].arms, service.experiments["one"].records
        return sum(arm.out for arm in arms), sum(record.out for record in records)

    weighed, out = asyncio.run(play())
    assert out > 8000
    assert 40 <= weighed <= 100  # ten honest devices a minute, for some five minutes


def test_a_report_shows_every_ticket_that_is_out(place: Place) -> None:
    """What the rule writes off is not missing before its ticket has expired: intervals allow for it."""

    async def play() -> Report:
        await place.service.commands.create(experiment())
        await visit(place.service, 40, lambda _: None)
        await minutes(place, 30)
        return await place.service.report("one")

    report = asyncio.run(play())
    assert sum(arm.pending for arm in report.arms) == 40
