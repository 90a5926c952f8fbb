"""The change log: every change leaves a line that says who, what and when, on each store; never a response or a key."""

import json
import logging
import re

import pytest
from tests.server.both import NOW, Server
from tests.server.console.browsing import Browser
from tests.server.inprocess import Reply
from tests.server.local import ADMIN, CLIENT, NEW, VIEWER, E, Local

from ldpbandits.server.api.operations import OPERATIONS
from ldpbandits.server.process.logs import Line
from ldpbandits.server.service import CHANGES_PER_PAGE

DESCRIBED = ("describe", "headline", "title: Blue or green; owner: anna")
CHANGES: tuple[tuple[str, str, object, tuple[str, str | None, str]], ...] = (
    ("POST", "/v1/experiments", NEW, ("create", "headline", "arms: blue, green")),
    ("POST", f"{E}/pause", {}, ("pause", "headline", "")),
    ("POST", f"{E}/resume", {}, ("resume", "headline", "")),
    ("POST", f"{E}/arms", {"name": "red"}, ("add-arm", "headline", "arm: red")),
    ("POST", f"{E}/arms/0/retire", {}, ("retire-arm", "headline", "arm: blue")),
    ("POST", f"{E}/ship", {"arm": "red"}, ("ship", "headline", "arm: red")),
    ("POST", f"{E}/describe", {"title": "Blue or green", "owner": "anna"}, DESCRIBED),
    ("POST", f"{E}/forgive", {}, ("forgive", "headline", "missing answers: 0")),
    ("POST", f"{E}/close", {}, ("close", "headline", "")),
    ("DELETE", E, None, ("delete", "headline", "3 arms, 0 responses")),
    ("POST", "/v1/keys", {"name": "anna", "role": "viewer"}, ("add-key", None, "anna, viewer")),
    (
        "POST",
        "/v1/keys/anna",
        {"role": "editor", "experiments": ["headline", "price"]},
        ("change-key", None, "anna, editor of headline, price"),
    ),
    ("POST", "/v1/keys/anna/rotate", {}, ("rotate-key", None, "anna, the earlier ones valid for 0 s")),
    ("DELETE", "/v1/keys/anna", None, ("remove-key", None, "anna")),
    ("POST", "/v1/keys/client/rotate", {"grace": 60}, ("rotate-key", None, "client, the earlier ones valid for 60 s")),
    ("POST", "/v1/keys/signing/rotate", {}, ("rotate-secret", None, "signing, the earlier ones valid for 0 s")),
)
"""Every change over HTTP, and the line that it leaves: what, the experiment, and the detail."""


def told(reply: Reply) -> list[tuple[str, str, str | None, str]]:
    """Return who, what, the experiment and the detail of each line, the newest first."""
    assert reply.status == 200, reply
    return [(line["who"], line["what"], line["experiment"], line["detail"]) for line in reply.json]


def test_every_change_leaves_a_line(server: Server) -> None:
    """Each operation that changes something, on each store: who, what, when, also of what is deleted."""
    expected: list[tuple[str, str, str | None, str]] = [
        ("server", "rotate-key", None, "client, at the first start"),
        ("server", "rotate-secret", None, "at the first start"),
    ]
    for method, path, body, (what, experiment, detail) in CHANGES:
        reply = server(method, path, body)
        assert reply.status in {200, 201}, reply
        expected.append(("admin", what, experiment, detail))
        assert told(server("GET", "/v1/log", key=VIEWER)) == expected[::-1]
    assert {line["at"] for line in server("GET", "/v1/log").json} == {NOW}
    of_it = [line for line in expected if line[2] == "headline"]
    assert told(server("GET", f"{E}/log", key=VIEWER)) == of_it[::-1]


def test_no_operation_is_left_out() -> None:
    """The table above has every operation that changes something but the link, which opens a page."""
    paths = [(method, path.replace("headline", "{name}")) for method, path, _, _ in CHANGES]
    listed = {(method, path.replace("arms/0", "arms/{arm}")) for method, path in paths}
    listed = {(method, re.sub("/(anna|client|signing)", "/{key}", path)) for method, path in listed}
    changes = {(operation.method, operation.path) for operation in OPERATIONS if operation.is_change}
    assert listed == changes - {("POST", "/v1/console/links")}


def test_a_refused_change_leaves_no_line(server: Server) -> None:
    """Nothing was changed, and nobody without the right is named."""
    assert server("POST", "/v1/experiments", NEW).status == 201
    before = told(server("GET", "/v1/log"))
    assert server("POST", "/v1/experiments", NEW).status == 409
    assert server("POST", f"{E}/pause", {}, VIEWER).status == 403
    assert server("POST", f"{E}/arms", {"name": "blue"}).status == 409
    assert told(server("GET", "/v1/log")) == before


def test_missing_answers_are_forgiven_once(server: Server) -> None:
    """They are an experimenter's change, also after a restart of the service on the same store."""
    assert server("POST", "/v1/experiments", NEW).status == 201
    (experiment,) = server.service.experiments.values()
    server.service.committer.note(experiment.number, 0, "nothing", 1)
    ticket = server("POST", f"{E}/decisions", {}, ADMIN).json["ticket"]
    assert server("POST", "/v1/acceptances", {"ticket": ticket}).status == 200
    experiment.expire(NOW + 4000)
    assert sum(arm["missing"] for arm in server("GET", E).json["arms"]) == 1
    for count in (1, 0):
        shown = server("POST", f"{E}/forgive", {}).json
        assert [sum(arm[what] for arm in shown["arms"]) for what in ("missing", "forgiven")] == [0, 1]
        assert told(server("GET", f"{E}/log"))[0] == ("admin", "forgive", "headline", f"missing answers: {count}")


def test_the_server_names_itself(server: Server) -> None:
    """Where it stops an experiment by itself, the line says why."""
    assert server("POST", "/v1/experiments", NEW).status == 201
    commands = server.service.commands
    server.do(server.service.change(lambda: commands.set_status("headline", "paused", "verdict: better")))
    assert told(server("GET", f"{E}/log"))[0] == ("server", "pause", "headline", "verdict: better")


def test_nothing_secret_is_in_the_log(server: Server) -> None:
    """Neither keys nor responses nor tickets, whatever was done."""
    assert server("POST", "/v1/experiments", NEW).status == 201
    decision = server("POST", f"{E}/decisions", {}).json
    assert server("POST", "/v1/responses", {"ticket": decision["ticket"], "response": 1}).status == 200
    key = server("POST", "/v1/keys/client/rotate", {}).json["key"]
    assert len(server("GET", "/v1/log").json) == 4
    text = server("GET", "/v1/log").body.decode()
    for secret in (key, ADMIN, VIEWER, decision["ticket"], '"response"'):
        assert secret not in text


def test_the_log_has_pages(local: Local) -> None:
    """A page is the newest 100 lines, or those before a line."""
    for _ in range(CHANGES_PER_PAGE):
        assert local("POST", f"{E}/pause", {}).status == 200
    first = local("GET", f"{E}/log").json
    assert (len(first), {line["what"] for line in first}) == (CHANGES_PER_PAGE, {"pause"})
    rest = local("GET", f"{E}/log?before={first[-1]['number']}").json
    assert [line["what"] for line in rest] == ["create"]
    assert local("GET", f"{E}/log?before={rest[-1]['number']}").json == []


@pytest.mark.parametrize("before", ["0", "-1", "x", "", "1.5", "9" * 16, "%B2"])
def test_a_line_is_a_whole_number(local: Local, before: str) -> None:
    """Anything else is refused, in one line."""
    reply = local("GET", f"/v1/log?before={before}")
    assert (reply.status, reply.json["code"]) == (400, "malformed")
    assert "before must be a whole number from 1 on" in reply.json["message"]


def test_an_experiment_that_never_was_has_no_log(local: Local) -> None:
    """It is not found; devices may not read any log."""
    assert local("GET", "/v1/experiments/other/log").status == 404
    assert local("GET", "/v1/experiments/other/log?before=1").status == 404
    assert local("GET", f"{E}/log", key=CLIENT).status == 403
    assert local("GET", "/v1/log", key=None).status == 401


def test_a_long_detail_is_cut(local: Local) -> None:
    """An experiment may have thousands of arms."""
    new = {**NEW, "name": "many", "arms": [f"{number}" * 40 for number in range(100)]}
    assert local("POST", "/v1/experiments", new).status == 201
    assert len(local("GET", "/v1/experiments/many/log").json[0]["detail"]) == 503


def test_each_change_is_a_json_line_of_the_server(local: Local, caplog: pytest.LogCaptureFixture) -> None:
    """With who, what, the experiment and the detail as fields, for programs that collect logs."""
    with caplog.at_level(logging.INFO, "ldpbandits"):
        assert local("POST", f"{E}/ship", {"arm": "green"}).status == 200
    (record,) = (record for record in caplog.records if getattr(record, "event", "") == "change")
    line = json.loads(Line("json").format(record))
    who = {"who": "admin", "what": "ship", "experiment": "headline", "detail": "arm: green"}
    assert who.items() <= line.items()
    assert line["message"] == "admin: ship headline (arm: green)"
    assert Line("text").format(record).endswith("info change: admin: ship headline (arm: green)")


def test_the_console_shows_who_changed_what(local: Local) -> None:
    """On a page of each experiment and on one of all, to everybody who is signed in."""

    async def browse(key: str, *paths: str) -> list[str]:
        visitor = Browser(local.app)
        await visitor.visit("console/sign-in")
        assert (await visitor.submit("sign-in", {"key": key})).status == 200
        return [(await visitor.visit(path)).body.decode() for path in paths]

    local("POST", f"{E}/ship", {"arm": "green"})
    of_it, of_all, listed, shown = local.do(
        browse(VIEWER, "experiments/headline/log", "../../log", "./", "experiments/headline")
    )
    for text in (of_it, of_all):
        assert "arm: green" in text
        assert "ship" in text
        assert '<th scope="row">admin</th>' in text
    assert 'href="log"' in listed
    assert 'href="headline/log"' in shown


def test_a_change_in_the_console_has_the_name_of_the_key(local: Local) -> None:
    """It is that of the session, not the server's."""

    async def pause() -> None:
        visitor = Browser(local.app)
        await visitor.visit("console/sign-in")
        await visitor.submit("sign-in", {"key": ADMIN})
        await visitor.visit("experiments/headline/pause")
        assert (await visitor.submit("pause", {})).status == 200

    local.do(pause())
    assert told(local("GET", f"{E}/log"))[0] == ("admin", "pause", "headline", "")
