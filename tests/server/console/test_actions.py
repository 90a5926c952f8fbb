"""What can be done to an experiment: each action says what will happen, does it once confirmed, and says so."""

import re
from typing import Any

import pytest
from tests.server.console.browsing import Browser, browser, text
from tests.server.console.conftest import Clock
from tests.server.console.life import answer, run

from ldpbandits.server.api.messages import AcceptanceMessage, NewArm, ShippedArm
from ldpbandits.server.console.actions import ACTIONS, DONE
from ldpbandits.server.service import Service


async def admin_at(service: Service, action: str) -> Browser:
    """Return an admin who looks at the page of an action."""
    visitor = browser(service)
    await visitor.sign_in("admin")
    assert (await visitor.visit(f"experiments/headline/{action}")).status == 200
    return visitor


def test_every_action_asks_first_and_says_what_it_did(service: Service) -> None:
    """Looking at a page changes nothing; its button does, and leads back with a word about it."""

    async def life(service: Service) -> None:
        experiment: Any = service.experiments["headline"]
        service.decide("headline")

        async def do(action: str, **fields: str) -> Browser:
            before = (
                experiment.status,
                experiment.shipped,
                len(experiment.records),
                [a.retired for a in experiment.arms],
            )
            visitor = await admin_at(service, action)
            assert before[0] == experiment.status
            await visitor.submit(action.partition("?")[0], fields)
            assert DONE[action.partition("?")[0]] in text(visitor.page)
            after = (
                experiment.status,
                experiment.shipped,
                len(experiment.records),
                [a.retired for a in experiment.arms],
            )
            assert before != after or action == "delete"
            return visitor

        visitor = await do("pause")
        assert visitor.url.endswith("/console/experiments/headline?done=pause")
        assert experiment.status == "paused"
        await do("resume")
        assert experiment.status == "running"
        await do("add-arm", arm=" red ")
        assert experiment.records[2].name == "red"
        await do("retire?arm=0", arm="0")
        assert experiment.arms[0].retired
        await do("ship", arm="2")
        assert (experiment.status, experiment.shipped) == ("shipped", 2)
        await do("resume")
        await do("close")
        assert experiment.status == "closed"
        visitor = await do("delete", name="headline")
        assert visitor.url.endswith("/console/?done=delete")
        assert service.experiments == {}

    run(service, life)


def test_missing_answers_are_forgiven_once_confirmed(service: Service, clock: Clock) -> None:
    """Their button is there while answers are missing; its page counts them, and only its own button forgives them."""

    async def life(service: Service) -> None:
        visitor = browser(service)
        await visitor.sign_in("admin")

        async def has_button() -> bool:
            await visitor.visit(f"{visitor.origin}/console/experiments/headline")
            return 'href="headline/forgive"' in visitor.page

        async def missing() -> tuple[int, int]:
            arms = (await service.report("headline")).arms
            return sum(arm.missing for arm in arms), sum(arm.forgiven for arm in arms)

        for _ in range(3):
            await service.accept(AcceptanceMessage(service.decide("headline").ticket or ""))
        assert not await has_button()
        clock.now += 7200
        assert await has_button()
        visitor = await admin_at(service, "forgive")
        assert "3 missing answers will count no more" in text(visitor.page)
        assert await missing() == (3, 0)
        await visitor.submit("forgive", {})
        assert DONE["forgive"] in text(visitor.page)
        assert await missing() == (0, 3)
        assert not await has_button()

    run(service, life)


def test_consequences_are_named(service: Service) -> None:
    """How many responses are pending, that a lead is not sure, that there is no way back."""

    async def life(service: Service) -> None:
        await answer(service, {"blue": 0.3, "green": 0.7}, 20)
        for _ in range(3):
            service.decide("headline")
        assert "3 pending responses will still count." in text((await admin_at(service, "pause")).page)
        ship = text((await admin_at(service, "ship")).page)
        assert re.search(r"It is not sure yet that (blue|green) is the best arm.", ship)
        assert "The server asks for no responses, and devices spend no epsilon." in ship
        closing = text((await admin_at(service, "close")).page)
        assert "It will refuse pending responses (3)." in closing
        assert "A closed experiment never runs again" in closing
        assert "20 responses and the estimates of all arms will be gone" in text(
            (await admin_at(service, "delete")).page
        )

    run(service, life)


def test_the_best_arm_is_offered_first(service: Service) -> None:
    """When an arm is to be shipped, the best so far is chosen already; to retire one, the one that was clicked on."""

    async def life(service: Service) -> None:
        await answer(service, {"blue": 0.0, "green": 1.0}, 60)
        ship = await admin_at(service, "ship")
        assert re.findall(r'value="(\d)" required checked', ship.page) == ["1"]
        retire = await admin_at(service, "retire?arm=0")
        assert re.findall(r'value="(\d)" required checked', retire.page) == ["0"]

    run(service, life)


@pytest.mark.parametrize(
    ("action", "fields", "status", "sentence"),
    [
        ("delete", {"name": "other"}, 422, "to delete it, type its name: headline"),
        ("delete", {}, 422, "to delete it, type its name: headline"),
        ("add-arm", {"arm": "blue"}, 409, "has or had an arm of this name"),
        ("add-arm", {"arm": ""}, 400, "name"),
        ("ship", {}, 404, "no such arm"),
        ("ship", {"arm": "7"}, 404, "no such arm"),
        ("ship", {"arm": "2"}, 409, "is retired"),
        ("retire", {"arm": "x"}, 404, "no such arm"),
        ("resume", {}, 409, "closed for good"),
    ],
)
def test_what_is_refused_is_said_on_the_page(
    service: Service, action: str, fields: dict[str, str], status: int, sentence: str
) -> None:
    """The sentence of the server, above the same form; nothing has changed."""

    async def life(service: Service) -> None:
        await service.commands.add_arm("headline", NewArm("red"))
        await service.commands.retire_arm("headline", 2)
        if action == "resume":
            await service.commands.set_status("headline", "closed")
        visitor = await admin_at(service, action)
        reply = await visitor.submit(action, fields)
        assert reply.status == status
        (problem,) = re.findall(r'(?s)<p class="problem" role="alert" id="problem">(.*?)</p>', visitor.page)
        assert sentence in text(problem)
        assert len(service.experiments["headline"].records) == 3

    run(service, life)


def test_only_what_makes_sense_has_a_button(service: Service) -> None:
    """A running experiment can be paused, a paused or shipped one resumed; a closed one only deleted."""

    async def life(service: Service) -> None:
        visitor = browser(service)
        await visitor.sign_in("admin")

        async def buttons() -> set[str]:
            await visitor.visit(f"{visitor.origin}/console/experiments/headline")
            return {action.word for action in ACTIONS if f'href="headline/{action.word}' in visitor.page}

        always = {"ship", "add-arm", "retire", "close", "delete"}
        assert await buttons() == always | {"pause"}
        await service.commands.set_status("headline", "paused")
        assert await buttons() == always | {"resume"}
        await service.commands.ship("headline", ShippedArm(0))
        assert await buttons() == always | {"resume"}
        assert 'href="headline/retire?arm=0"' not in visitor.page, "everybody gets it"
        await service.commands.retire_arm("headline", 1)
        assert await buttons() == (always - {"retire"}) | {"resume"}
        await service.commands.set_status("headline", "closed")
        assert await buttons() == {"delete"}

    run(service, life)


def test_an_action_of_another_experiment_or_of_none(service: Service) -> None:
    """There is no page for what there is not."""

    async def life(service: Service) -> None:
        visitor = browser(service)
        await visitor.sign_in("admin")
        assert (await visitor.send("GET", "experiments/headline/explode")).status == 404
        assert (await visitor.send("GET", "experiments/nobody/pause")).status == 404
        reply = await visitor.submit("experiments/nobody/pause", {})
        assert reply.status == 404

    run(service, life)
