"""Experiments that end by themselves once the best arm is separated."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.server.crowds import Place, answer, bits, new, visit

from ldpbandits.server.api.app import application
from ldpbandits.server.api.messages import NewArm
from ldpbandits.server.experiments.stopping import stop_decided
from ldpbandits.server.reports import conclusions
from ldpbandits.server.service import Service
from ldpbandits.server.store import Status, Unavailable
from ldpbandits.spec.messages import Report

APART = {0: bits(90, 210), 1: bits(210, 90)}
PATIENCE = 30.0


@pytest.fixture
def place() -> Iterator[Place]:
    """A service of its own."""
    made = Place()
    yield made
    made.service.close()


def state(service: Service) -> tuple[str, int | None]:
    """Return the status, and the arm that is shipped."""
    experiment = service.experiments["one"]
    return experiment.status, experiment.shipped


@pytest.mark.parametrize(("ending", "expected"), [("pause", ("paused", None)), ("ship", ("shipped", 1))])
def test_it_pauses_or_ships_the_best_arm_once_that_is_separated(
    place: Place, ending: str, expected: tuple[str, int | None]
) -> None:
    """Not before; then as it was told, for good, and the report says so."""

    async def play() -> str:
        service = place.service
        await service.commands.create(new("a", "b", stop_when_decided=ending))
        await stop_decided(service)
        await answer(service, {0: bits(10, 20), 1: bits(20, 10)})
        await stop_decided(service)
        assert state(service) == ("running", None)
        await answer(service, dict(APART))
        await stop_decided(service)
        return (await service.report("one")).forecast.sentence

    sentence = asyncio.run(play())
    assert state(place.service) == state(place.restart()) == expected
    assert sentence.startswith("b is better than a by ")
    assert sentence.endswith(f"; it was {expected[0]} by stop_when_decided")


def test_without_the_setting_nothing_stops(place: Place) -> None:
    """However far apart the arms are."""

    async def play() -> None:
        await place.service.commands.create(new("a", "b"))
        await answer(place.service, dict(APART))
        await stop_decided(place.service)

    asyncio.run(play())
    assert state(place.service) == ("running", None)


def test_missing_answers_keep_it_from_stopping(place: Place) -> None:
    """What those who have not answered would have said might change the order: it goes on."""

    async def play() -> None:
        await place.service.commands.create(new("a", "b", stop_when_decided="ship"))
        await answer(place.service, dict(APART))
        await visit(place.service, 400, lambda _: None)
        await stop_decided(place.service)

    asyncio.run(play())
    assert state(place.service) == ("running", None)


def test_one_arm_alone_is_better_than_none(place: Place) -> None:
    """Where there is nothing to compare an arm with, nothing stops."""

    async def play() -> None:
        await place.service.commands.create(new("a", stop_when_decided="ship"))
        await answer(place.service, {0: bits(200, 100)})
        await stop_decided(place.service)

    asyncio.run(play())
    assert state(place.service) == ("running", None)


def test_who_resumes_it_goes_on(place: Place) -> None:
    """It does not stop again, nor after a restart, unless the arms were not separated in between, as by a new arm."""

    async def play() -> None:
        service = place.service
        await service.commands.create(new("a", "b", stop_when_decided="pause"))
        await answer(service, dict(APART))
        await stop_decided(service)
        assert state(service)[0] == "paused"
        for is_restarted in (False, True):
            service = place.restart() if is_restarted else service
            await service.commands.set_status("one", "running")
            await answer(service, {1: bits(70, 30)})
            await stop_decided(service)
            assert state(service)[0] == "running"
        await service.commands.add_arm("one", NewArm("c"))
        await answer(service, {2: bits(1, 1)})
        await stop_decided(service)
        assert state(service)[0] == "running"
        await answer(service, {2: bits(150, 350)})
        await stop_decided(service)
        assert state(service)[0] == "paused"

    asyncio.run(play())
    assert "stopped" not in place.service.experiments["one"].rejected


def test_it_stops_again_for_a_verdict_on_an_arm_that_was_added(place: Place) -> None:
    """Also where responses decide before the next check, so that none has found it undecided."""

    async def play() -> None:
        service = place.service
        await service.commands.create(new("a", "b", stop_when_decided="pause"))
        await answer(service, dict(APART))
        await stop_decided(service)
        await service.commands.add_arm("one", NewArm("c"))
        await service.commands.set_status("one", "running")
        await answer(service, {2: bits(150, 350)})
        await stop_decided(service)

    asyncio.run(play())
    assert state(place.service)[0] == "paused"


def test_it_looks_only_when_there_is_something_new(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals are worked out once for each number of responses, and not for experiments that do not run."""
    looks: list[str] = []
    facts = conclusions.facts

    def counted(experiment: Any) -> Any:
        looks.append(experiment.name)
        return facts(experiment)

    async def play() -> None:
        service = place.service
        await service.commands.create(new("a", "b", stop_when_decided="pause"))
        monkeypatch.setattr(conclusions, "facts", counted)
        for wanted, expected in (([], 0), ([], 0), ([1.0], 1), ([], 1)):
            await answer(service, {0: wanted})
            await stop_decided(service)
            assert len(looks) == expected
        monkeypatch.setattr(conclusions, "facts", facts)
        await service.commands.set_status("one", "paused")
        await answer(service, {0: [1.0]})
        monkeypatch.setattr(conclusions, "facts", counted)
        await stop_decided(service)
        assert len(looks) == 2

    asyncio.run(play())


def test_a_full_disk_does_not_keep_it_from_stopping_later(place: Place) -> None:
    """What cannot be written is tried again, without any new response."""

    async def play() -> None:
        service = place.service
        await service.commands.create(new("a", "b", stop_when_decided="ship"))
        await answer(service, dict(APART))
        place.fault = True
        with pytest.raises(Unavailable):
            await stop_decided(service)
        assert state(service) == ("running", None)
        place.fault = False
        await stop_decided(service)
        assert state(service) == ("shipped", 1)

    asyncio.run(play())


def test_it_waits_for_a_change_that_is_under_way(place: Place) -> None:
    """An experimenter who closes the experiment at the same moment is first: it is left as it is."""

    async def play() -> None:
        service = place.service
        await service.commands.create(new("a", "b", stop_when_decided="ship"))
        await answer(service, dict(APART))
        async with service.changing:
            look = asyncio.create_task(stop_decided(service))
            await asyncio.sleep(0)
            assert not look.done()
            await service.commands.set_status("one", "closed")
        await look
        assert state(service) == ("closed", None)

    asyncio.run(play())


def test_a_server_looks_by_itself(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the application runs; nobody has to ask."""

    async def play() -> None:
        service = place.service
        await service.commands.create(new("a", "b", stop_when_decided="pause"))
        await answer(service, dict(APART))
        app, is_done, set_status = application(service), asyncio.Event(), service.commands.set_status

        async def told(name: str, status: Status, why: str = "") -> Report:
            report = await set_status(name, status, why)
            is_done.set()
            return report

        monkeypatch.setattr(service.commands, "set_status", told)
        async with app.router.lifespan_context(app), asyncio.timeout(PATIENCE):
            await is_done.wait()

    asyncio.run(play())
    assert state(place.service)[0] == "paused"
