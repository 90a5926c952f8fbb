"""The page at /docs says what /openapi.json says, to anybody, and its examples are right."""

import asyncio
import re
import shlex
from html import unescape
from typing import Any

import msgspec
import pytest
from tests.server.console.browsing import KEYS, Elements, browser, text
from tests.server.inprocess import ask

from ldpbandits.server.api.app import application
from ldpbandits.server.api.openapi import openapi
from ldpbandits.server.api.operation import Operation
from ldpbandits.server.api.operations import OPERATIONS
from ldpbandits.server.api.reference import GROUPS, example, messages, requests
from ldpbandits.server.console import replies
from ldpbandits.server.service import Service

DESCRIBED = openapi(OPERATIONS)
CALLS = re.compile(r"<pre[^>]*>(.*?)</pre>", re.DOTALL)


async def shown(service: Service) -> str:
    """The page, as somebody without a key gets it."""
    reply = await browser(service).send("GET", "/docs")
    assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    return reply.body.decode()


def test_it_has_every_request_and_every_message_once(service: Service) -> None:
    """With what each is for, what it may be refused for, and all fields; links within the page lead somewhere."""
    page = asyncio.run(shown(service))
    told = text(page)
    for operation in OPERATIONS:
        assert told.count(f"{operation.method} {operation.path} {operation.summary}") == 1
    elements = Elements(page)
    anchors = [attributes["id"] for tag, attributes in elements.all if tag == "article"]
    assert anchors == list(DESCRIBED["components"]["schemas"])
    for schema in DESCRIBED["components"]["schemas"].values():
        for one in schema.get("anyOf", [schema]):
            for name, field in one.get("properties", {}).items():
                assert f"<code>{name}</code>" in page
                assert field.get("description", "") in unescape(page)
    inside = {href[1:] for href in elements.values("href") if href.startswith("#")}
    assert inside - {"main"} <= set(anchors)
    assert "#Report" in elements.values("href")


def test_it_is_rendered_once(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may ask for the page, so after the first request no template is rendered for it."""

    async def life() -> tuple[str, str]:
        first = await shown(service)
        monkeypatch.delattr(replies, "templates")
        return first, await shown(service)

    first, again = asyncio.run(life())
    assert first == again


def test_each_request_is_in_one_part_of_the_page() -> None:
    """Also those that are added later."""
    for operation in OPERATIONS:
        assert sum(is_in(operation) for _, is_in in GROUPS.values()) == 1
    assert sum(map(len, requests(OPERATIONS, DESCRIBED).values())) == len(OPERATIONS)


def test_it_asks_for_nothing_and_runs_nothing_of_its_own(service: Service) -> None:
    """What it loads is what every page of the console loads: no script is needed to read it."""
    page = asyncio.run(shown(service))
    loaded = [
        value
        for tag, attributes in Elements(page).all
        if tag in {"script", "img", "link"}
        for value in attributes.values()
    ]
    assert {value.partition("?")[0] for value in loaded if value and "/" in value} <= {
        "console/static/console.css",
        "console/static/console.js",
        "console/static/icon.svg",
        "image/svg+xml",
    }
    assert page.count("<script") == 1


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if each.body], ids=lambda each: each.name)
def test_the_example_of_a_body_is_one(operation: Operation) -> None:
    """It is read as the message that it is an example of."""
    schema = DESCRIBED["paths"][operation.path][operation.method.lower()]["requestBody"]["content"]["application/json"]
    body = msgspec.json.encode(example(schema["schema"], DESCRIBED))
    assert msgspec.json.decode(body, type=operation.body) is not None


def test_the_calls_on_the_page_do_what_they_say(service: Service) -> None:
    """Each curl command, sent as it stands, is answered, unless there is something wrong with what it names."""

    def read(call: str) -> tuple[str, str, bytes, dict[str, str]]:
        words = shlex.split(call)
        method = words[words.index("-X") + 1] if "-X" in words else "GET"
        headers = dict(word.split(": ", 1) for word in words if word.startswith("Authorization: "))
        for role, key in KEYS.items():
            headers = {name: value.replace(f"$LDPBANDITS_{role.upper()}_KEY", key) for name, value in headers.items()}
        body = words[words.index("-d") + 1] if "-d" in words else ""
        return method, words[1].removeprefix("$LDPBANDITS_URL"), body.encode(), headers

    async def life() -> dict[str, int]:
        page = await shown(service)
        app = application(service)
        calls = [read(unescape(found)) for found in CALLS.findall(page)]
        calls.sort(key=lambda call: (call[0] == "DELETE", "rotate" in call[1], "close" in call[1], "retire" in call[1]))
        first = next(call for call in calls if call[:2] == ("POST", "/v1/experiments"))
        statuses: dict[str, Any] = {}
        for method, path, body, headers in [first, *(call for call in calls if call is not first)]:
            reply = await ask(app, method, path, body, headers=headers)
            statuses[f"{method} {path}"] = reply.status
        return statuses

    statuses = asyncio.run(life())
    assert len(statuses) == len(OPERATIONS)
    assert {call: status for call, status in statuses.items() if status >= 400} == {
        "POST /v1/responses": 403,  # the ticket is made up
        "POST /v1/acceptances": 403,  # as above
        "POST /v1/experiments/headline/arms": 409,  # an experiment that decides is created without may_add_arms
    }


def test_a_message_says_whether_a_field_is_needed() -> None:
    """And what it is when it is left out."""
    by_name = {message.name: message for message in messages(DESCRIBED)}
    fields = {field.name: field for field in by_name["NewExperiment"].fields}
    assert (fields["name"].is_needed, fields["ticket_lifetime"].is_needed) == (True, False)
    assert fields["ticket_lifetime"].default == "3600"
    assert "".join(part.text for part in fields["ticket_lifetime"].type) == "number ≥ 1 and ≤ 2,592,000"
    assert [part.anchor for part in fields["curator"].type] == ["Curator"]
    assert {kind.name for kind in by_name["Curator"].kinds} >= {"bernoulli", "laplace"}
