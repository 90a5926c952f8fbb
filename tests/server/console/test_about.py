"""The public page of an experiment: for anybody, where it is wanted, and without arms or results."""

import asyncio
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from tests.server.console.browsing import HEADLINE, Browser, Elements, text
from tests.server.console.life import answer, run

from ldpbandits.server.api.app import application
from ldpbandits.server.api.messages import NewExperiment, ShippedArm
from ldpbandits.server.service import Service

ABOUT = "/about/headline"


async def page(service: Service, path: str = ABOUT) -> tuple[int, str]:
    """Return the status and the page that somebody without a session gets."""
    reply = await Browser(application(service)).send("GET", path)
    return reply.status, reply.body.decode()


def test_it_says_what_is_asked_and_what_an_answer_tells(service: Service) -> None:
    """At epsilon 1: 27 and 73 of 100, and 73 % at even odds; the moment, the pause, and how to verify."""

    async def life(service: Service) -> None:
        status, html = await page(service)
        said = text(html)
        assert status == 200
        assert "compares 2 versions" in said
        assert "25 seconds after it showed you the version, whatever you did" in said
        assert "at most once in 7 days" in said
        assert "27 of 100 with the lowest reward" in said
        assert "73 of 100 with the highest reward" in said
        assert html.count('<circle class="one"') == 100
        assert "right about you with at most 73 %" in said
        assert "Global Privacy Control" in said
        assert "ldpbandits audit --curator" in said

    run(service, life, about_page=True)


def test_it_names_neither_arms_nor_results(service: Service) -> None:
    """Visitors who knew what is compared would behave otherwise."""

    async def life(service: Service) -> None:
        _, html = await page(service)
        assert not [arm for arm in ("Blüte", "Grün") if arm in html]
        await answer(service, {"Blüte": 0.9, "Grün": 0.1}, 200)
        assert (await page(service))[1] == html

    run(service, life, about_page=True, arms=["Blüte", "Grün"])


def test_there_is_none_unless_it_is_wanted(service: Service) -> None:
    """By default nobody learns more than the offer has; a name that nobody knows is refused as elsewhere."""

    async def life(service: Service) -> None:
        assert (await page(service))[0] == 404
        assert (await page(service, "/about/nobody"))[0] == 404

    run(service, life)


def test_one_that_asks_for_nothing_any_more_says_so(service: Service) -> None:
    """After ship no device answers."""

    async def life(service: Service) -> None:
        await service.commands.ship("headline", ShippedArm("blue"))
        said = text((await page(service))[1])
        assert "is shipped: it asks your device for nothing any more" in said

    run(service, life, about_page=True)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"report_after": 0}, "tells that you acted"),
        ({"retain": "tallies"}, "kept until the experiment is shipped or closed"),
        ({"curator": {"mechanism": "laplace", "epsilon": 0.5}}, "noise that is about 2 times as large"),
    ],
)
def test_it_follows_the_settings(service: Service, changes: dict[str, Any], expected: str) -> None:
    """What is true of one experiment only is said of that one only."""

    async def ask_both() -> tuple[str, str]:
        base = {**HEADLINE, "about_page": True}
        await service.commands.create(NewExperiment(**{**base, **changes}))
        await service.commands.create(NewExperiment(**{**base, "name": "plain"}))
        return text((await page(service))[1]), text((await page(service, "/about/plain"))[1])

    changed, plain = asyncio.run(ask_both())
    assert expected in changed
    assert expected not in plain


def test_its_links_lead_somewhere_also_behind_a_prefix(service: Service) -> None:
    """The style, the offer and the way to the API are there."""

    async def life(service: Service) -> None:
        visitor = Browser(application(service), prefix="/bandits")
        url = f"{visitor.origin}/bandits/about/headline"
        html = (await visitor.send("GET", url)).body.decode()
        ways = [urljoin(url, way) for way in Elements(html).values("href", "src") if not way.startswith("#")]
        assert any(urlsplit(way).path.endswith("/v1/experiments/headline/offer") for way in ways)
        for way in ways:
            assert (await visitor.send("GET", way)).status in {200, 303}, way

    run(service, life, about_page=True)
