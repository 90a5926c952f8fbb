"""One look in the console: before it, no page and no file tells how the arms do, to admins and viewers alike."""

import asyncio
import random
import re
from contextlib import closing
from typing import Any

import pytest
from tests.server.console.browsing import ENVIRONMENT, HEADLINE, browser, text
from tests.server.memory_store import MemoryStore

from ldpbandits.server.api.messages import NewExperiment, ResponseMessage
from ldpbandits.server.experiments.stopping import stop_decided
from ldpbandits.server.service import Service

PAGES = ("", "experiments/headline", "experiments/headline/ship", "experiments/headline/report.html")
FILES = ("experiments/headline/history.json", "experiments/headline/responses.csv", "experiments/headline/tallies.json")


def read(role: str, flip: int, count: int) -> tuple[list[tuple[int, str]], str]:
    """Return all pages and files after this number of responses, of which green says 1, or blue if flipped."""

    async def play(service: Service) -> tuple[list[tuple[int, str]], str]:
        settings: dict[str, Any] = HEADLINE | {"goal": None, "one_look": 60, "responses_per_hour": 0}
        await service.commands.create(NewExperiment(**settings))
        service.experiments["headline"].agent._random = random.Random(1)
        for _ in range(count):
            made = service.decide("headline")
            await service.respond(ResponseMessage(made.ticket or "", float(made.arm != flip)))
        await stop_decided(service)
        visitor = browser(service)
        await visitor.sign_in(role)
        home, found = visitor.url, []
        for path in (*PAGES, *FILES):
            visitor.url = home
            reply = await visitor.send("GET", path)
            shown = re.sub(r'name="csrf" value="[^"]*"', "", reply.body.decode())
            found.append((reply.status, shown))
        visitor.url = home
        await visitor.visit("experiments/headline")
        return found, text(visitor.page)

    with closing(Service(MemoryStore(), ENVIRONMENT, now=lambda: 1_800_000_000.0)) as service:
        return asyncio.run(play(service))


@pytest.mark.parametrize("role", ["admin", "viewer"])
def test_no_page_and_no_file_depends_on_the_bits_before_the_look(role: str) -> None:
    """With the same arms and opposite bits all of them are equal, to the last byte; exports are refused."""
    (first, page), (second, _) = read(role, 0, 59), read(role, 1, 59)
    assert first == second
    assert [status for status, _ in first[-3:]] == [200, 409, 409]
    assert "It is judged once: 59 of 60 responses are in." in page
    assert "The chart appears after the one look." in page
    assert "Comparisons" not in page
    assert "Retire" not in page


def test_after_the_look_the_page_has_the_p_value() -> None:
    """The verdict in words, the intervals of the textbook, and no curve of evidence, since there is one look."""
    _, page = read("viewer", 0, 60)
    assert "green is better than blue by" in page
    assert "Evidence of one look, at 60 responses: p = " in page
    assert "The intervals are those of the textbook" in page
    assert "Above the line the verdict is reached" not in page
