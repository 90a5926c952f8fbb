"""Title, owner and the like of an experiment: for people, changed with a line in the log, seen by no device."""

import asyncio
from typing import Any

import pytest
from tests.server.both import NOW, Server
from tests.server.console.browsing import Browser
from tests.server.local import ADMIN, CLIENT, NEW, VIEWER, E, Local
from tests.server.several import Workers

from ldpbandits.server.api.messages import NewMetadata

EMPTY = {"title": "", "description": "", "hypothesis": "", "owner": "", "link": "", "planned_end": ""}
GIVEN = {"title": "Blue or green?", "owner": "anna", "planned_end": "2026-12-24"}


def test_an_experiment_is_described_from_the_start(server: Server) -> None:
    """On each store; in its report and in the list."""
    made = server("POST", "/v1/experiments", {**NEW, "metadata": GIVEN})
    assert (made.status, made.json["metadata"]) == (201, {**EMPTY, **GIVEN})
    assert server("GET", E, key=VIEWER).json["metadata"] == {**EMPTY, **GIVEN}
    assert [each["title"] for each in server("GET", "/v1/experiments").json] == ["Blue or green?"]
    assert server("POST", "/v1/experiments", {**NEW, "name": "other"}).json["metadata"] == EMPTY


def test_a_change_keeps_what_is_not_given(server: Server) -> None:
    """An empty text removes one; the log has the new texts; a closed experiment can be described too."""
    assert server("POST", "/v1/experiments", {**NEW, "metadata": GIVEN}).status == 201
    assert server("POST", f"{E}/close", {}).status == 200
    link = "https://example.org/wiki?page=1#blue"
    shown = server("POST", f"{E}/describe", {"owner": "", "link": link, "title": GIVEN["title"]})
    expected = {**EMPTY, **GIVEN, "owner": "", "link": link}
    assert (shown.status, shown.json["metadata"]) == (200, expected)
    assert server("GET", f"{E}/log").json[0]["detail"] == f"owner: ; link: {link}"
    assert server("POST", f"{E}/describe", {"description": "one\n\n two"}).status == 200
    assert server("GET", f"{E}/log").json[0]["detail"] == "description: one two"
    assert server("POST", f"{E}/describe", {"description": ""}).status == 200
    (stored,) = server.do(server.service.committer.run(server.service._store.experiments))
    assert stored.metadata.count(":") == 4  # three fields, and the colon of the link: no empty one


@pytest.mark.parametrize(
    ("field", "text", "status"),
    [
        ("title", "x" * 201, 400),
        ("title", "two\nlines", 400),
        ("title", "a\u202eb", 400),
        ("owner", "\x00", 400),
        ("description", "x" * 5001, 400),
        ("description", "tab\tand\nlines", 200),
        ("link", "javascript:alert(1)", 400),
        ("link", "https://", 400),
        ("link", "https://a b", 400),
        ("link", 'https://a"onclick', 200),
        ("planned_end", "24.12.2026", 400),
        ("planned_end", "2026-02-30", 422),
        ("planned_end", "2026-12-24\n", 400),
        ("planned_end", "", 200),
        ("other", "x", 400),
    ],
)
def test_a_text_is_what_its_field_says(local: Local, field: str, text: str, status: int) -> None:
    """Anything else is refused in one line that names the field, at creation too, and nothing changes."""
    new = {**NEW, "name": "other", "metadata": {field: text}}
    for path, body in ((f"{E}/describe", {field: text}), ("/v1/experiments", new)):
        reply = local("POST", path, body)
        assert reply.status == (201 if (status, path) == (200, "/v1/experiments") else status), reply
        if status >= 400:
            assert field in reply.json["message"]
            assert "\n" not in reply.json["message"]


def test_start_and_stop_are_in_the_report(server: Server) -> None:
    """The first stop after it ran; a resumed experiment has none; an earlier server's has none."""
    assert server("POST", "/v1/experiments", NEW).json["stopped_at"] is None
    for seconds, verb, body, expected in (
        (10, "pause", {}, NOW + 10),
        (20, "resume", {}, None),
        (30, "ship", {"arm": 0}, NOW + 30),
        (40, "pause", {}, NOW + 30),
        (50, "close", {}, NOW + 30),
    ):
        server.now = NOW + seconds
        shown = server("POST", f"{E}/{verb}", body).json
        assert (shown["created_at"], shown["stopped_at"]) == (NOW, expected)
    (stored,) = server.do(server.service.committer.run(server.service._store.experiments))
    assert stored.stopped_at == NOW + 30


def test_no_device_receives_it(local: Local) -> None:
    """Neither the offer nor a decision has a word of it."""
    assert local("POST", f"{E}/describe", {"title": "a secret of the house", "owner": "anna"}).status == 200
    texts = [local("GET", f"{E}/offer", key=None), local("POST", f"{E}/decisions", {}, CLIENT)]
    for reply in texts:
        assert reply.status == 200
        assert b"secret of the house" not in reply.body
        assert b"anna" not in reply.body


def test_every_worker_knows_it(workers: Workers) -> None:
    """Also the moment of a stop, once the change is acknowledged."""

    async def play() -> None:
        one, two = workers.all
        await workers.create()
        await workers.change(0, lambda: one.commands.describe("headline", NewMetadata(title="Blue?")))
        await workers.change(0, lambda: one.commands.set_status("headline", "paused"))
        shown: Any = await two.report("headline")
        assert (shown.metadata.title, shown.stopped_at) == ("Blue?", 1_000_000)

    asyncio.run(play())


def test_it_is_changed_in_the_console(local: Local) -> None:
    """Shown on the page of the experiment, in the list and in the saved page; what it says is text, never markup."""

    async def browse() -> tuple[str, str, str, str]:
        visitor = Browser(local.app)
        await visitor.visit("console/sign-in")
        assert (await visitor.submit("sign-in", {"key": ADMIN})).status == 200
        await visitor.visit("experiments/headline/describe")
        refused = await visitor.submit("describe", {"title": "<b>Blue</b>", "planned_end": "soon"})
        assert refused.status == 400
        fields = {"title": "<b>Blue</b>", "link": "https://example.org/x", "description": "one\ntwo"}
        shown = await visitor.submit("describe", fields)
        saved = await visitor.send("GET", "headline/report.html")
        listed = await visitor.visit("../")
        return refused.body.decode(), shown.body.decode(), saved.body.decode(), listed.body.decode()

    refused, shown, saved, listed = local.do(browse())
    assert "planned_end must be a day such as 2026-12-24" in refused
    for page in (refused, shown, saved, listed):
        assert "&lt;b&gt;Blue" in page
        assert "<b>Blue" not in page
    for page in (shown, saved):
        assert 'href="https://example.org/x"' in page
        assert "one<br>two" in page
    assert "The description is changed." in shown
    line = local("GET", f"{E}/log").json[0]
    assert (line["who"], line["what"]) == ("admin", "describe")
