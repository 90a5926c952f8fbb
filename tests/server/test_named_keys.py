"""Keys of people and machines: each may do what its role says, of its experiments, on each store and at each worker."""

import asyncio
import logging
import re
from collections.abc import Collection
from typing import Any

import pytest
from tests.server.both import NOW, Server
from tests.server.console.browsing import Browser
from tests.server.inprocess import ask
from tests.server.local import ADMIN, CLIENT, KEYS, NEW, VIEWER, E, Local
from tests.server.several import Workers

from ldpbandits.server.api.app import application
from ldpbandits.server.api.key_messages import NewHolder
from ldpbandits.server.api.operations import OPERATIONS
from ldpbandits.server.keys import DAY_S, Role
from ldpbandits.server.process.logs import Line

DAY = NOW // DAY_S
OTHER = "/v1/experiments/other"
FORBIDDEN = "the key of ben may change headline, price, and not 'other'"


def add(server: Server | Local, name: str, role: str, *experiments: str) -> str:
    """Make a key for somebody."""
    reply = server("POST", "/v1/keys", {"name": name, "role": role, "experiments": experiments})
    assert reply.status == 201, reply
    assert (reply.json["role"], reply.json["name"]) == (role, name)
    key: str = reply.json["key"]
    assert re.fullmatch(rf"{role}-[\w-]{{32}}", key)
    return key


def test_each_role_may_do_what_it_may(server: Server) -> None:
    """An admin everything, a viewer and an editor read everything, and an editor changes what it edits."""
    for name in ("headline", "other"):
        assert server("POST", "/v1/experiments", {**NEW, "name": name}).status == 201
    anna = add(server, "anna", "admin")
    ben = add(server, "ben", "editor", "headline", "price")
    carl = add(server, "carl@example.org", "viewer")
    for key in (anna, ben, carl):
        for path in (E, OTHER, "/v1/experiments", f"{E}/log", "/v1/log", f"{OTHER}/responses.csv"):
            assert server("GET", path, key=key).status == 200
    assert [server("POST", f"{OTHER}/pause", {}, key).status for key in (anna, ben, carl)] == [200, 403, 403]
    assert [server("POST", f"{E}/pause", {}, key).status for key in (anna, ben, carl)] == [200, 200, 403]
    assert [server("GET", "/v1/keys", key=key).status for key in (anna, ben, carl)] == [200, 403, 403]
    assert [server("POST", f"{E}/decisions", {}, key).status for key in (ben, carl)] == [403, 403]


def test_an_editor_changes_its_own_experiments_only(server: Server) -> None:
    """Every operation that changes one is refused for another, in one line; also creating, and none is logged."""
    assert server("POST", "/v1/experiments", {**NEW, "name": "other"}).status == 201
    ben, before = add(server, "ben", "editor", "headline", "price"), server("GET", "/v1/log").json
    assert server("POST", "/v1/experiments", {**NEW, "name": "other"}, ben).json["message"] == FORBIDDEN
    bodies = {"ship": {"arm": 0}, "arms": {"name": "red"}}
    changes = [each for each in OPERATIONS if each.is_change and "{name}" in each.path]
    assert len(changes) == 9
    for operation in changes:
        path = operation.path.format(name="other", arm=0)
        reply = server(operation.method, path, bodies.get(path.rpartition("/")[2], {}), ben)
        assert (reply.status, reply.json["code"], reply.json["message"]) == (403, "forbidden", FORBIDDEN)
    assert server("GET", "/v1/log").json[:1] == before[:1]
    assert server("POST", "/v1/experiments", NEW, ben).status == 201
    assert server("DELETE", E, None, ben).status == 200
    assert [line["who"] for line in server("GET", f"{E}/log").json] == ["ben", "ben"]


def test_an_editor_touches_no_key(server: Server) -> None:
    """Neither its own nor others: it could make itself an admin. It gets no link either."""
    ben = add(server, "ben", "editor", "headline")
    for method, path in (
        ("POST", "/v1/keys/ben"),
        ("POST", "/v1/keys/ben/rotate"),
        ("POST", "/v1/keys/signing/rotate"),
        ("DELETE", "/v1/keys/ben"),
        ("POST", "/v1/console/links"),
    ):
        reply = server(method, path, {"role": "admin"} if path == "/v1/keys/ben" else {}, ben)
        assert (reply.status, reply.json["message"]) == (403, "this needs the admin key")
    assert server("POST", "/v1/keys", {"name": "eve", "role": "admin"}, ben).status == 403


def test_rights_change_at_once_and_a_removed_key_opens_nothing(server: Server) -> None:
    """Under the same key; a new key of the name ends the old one."""
    assert server("POST", "/v1/experiments", NEW).status == 201
    ben = add(server, "ben", "editor", "price")
    assert server("POST", f"{E}/pause", {}, ben).status == 403
    changed = server("POST", "/v1/keys/ben", {"role": "editor", "experiments": ["headline"]})
    assert (changed.status, changed.json["experiments"]) == (200, ["headline"])
    assert server("POST", f"{E}/pause", {}, ben).status == 200
    new = server("POST", "/v1/keys/ben/rotate", {"grace": 60}).json
    assert (new["role"], new["name"]) == ("editor", "ben")
    for seconds, expected in ((0, [200, 200]), (60, [401, 200])):
        server.now = NOW + seconds
        assert [server("GET", E, key=key).status for key in (ben, new["key"])] == expected
    assert server("DELETE", "/v1/keys/ben").json["name"] == "ben"
    assert server("GET", E, key=new["key"]).status == 401
    again = add(server, "ben", "viewer")
    assert [server("GET", E, key=key).status for key in (ben, new["key"], again)] == [401, 401, 200]


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({"name": "admin", "role": "viewer"}, 409, "admin is a name of the server's own"),
        ({"name": "server", "role": "viewer"}, 409, "server is a name of the server's own"),
        ({"name": "anna", "role": "viewer"}, 409, "there is already a key named anna"),
        ({"name": "Ben", "role": "viewer"}, 400, "name must be at most 100 lower-case letters"),
        ({"name": "ben", "role": "client"}, 400, "role must be admin, editor or viewer"),
        ({"name": "ben", "role": "editor"}, 422, "an editor needs the names of the experiments"),
        ({"name": "ben", "role": "viewer", "experiments": ["a"]}, 422, "experiments are for an editor"),
        ({"name": "ben", "role": "editor", "experiments": ["A b"]}, 400, "experiments[0] must be"),
    ],
)
def test_what_is_no_key_is_refused(local: Local, body: dict[str, Any], status: int, told: str) -> None:
    """In one line, and nothing is made."""
    add(local, "anna", "viewer")
    reply = local("POST", "/v1/keys", body)
    assert reply.status == status, reply
    assert told in reply.json["message"]
    assert {each["name"] for each in local("GET", "/v1/keys").json} == {"admin", "viewer", "client", "anna"}


def test_shared_keys_are_rotated_and_not_removed(local: Local) -> None:
    """Those of the environment keep their names; what is unknown is not found."""
    for name in ("admin", "client", "signing"):
        assert local("DELETE", f"/v1/keys/{name}").status == 409
        assert local("POST", f"/v1/keys/{name}", {"role": "admin"}).status == 409
    assert local("DELETE", "/v1/keys/eve").status == 404
    assert local("POST", "/v1/keys/eve/rotate", {}).status == 404
    assert local("POST", "/v1/keys/editor/rotate", {}).status == 404
    assert local("POST", "/v1/keys/admin/rotate", {}).json["code"] == "environment"


def test_the_day_of_the_last_use_is_known(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the day, of every name; requests write nothing, and a day is written once."""
    written: list[set[str]] = []
    note_uses = server.service._store.note_uses

    def note(names: Collection[str], day: int) -> None:
        written.append(set(names))
        note_uses(names, day)

    monkeypatch.setattr(server.service._store, "note_uses", note)
    anna = add(server, "anna", "viewer")
    for _ in range(3):
        assert server("GET", "/v1/experiments", key=anna).status == 200
    assert written == []
    server.do(server.service.forget())
    assert written == [{"admin", "anna"}]
    assert server("GET", "/v1/experiments", key=anna).status == 200
    server.do(server.service.forget())
    assert written == [{"admin", "anna"}]
    server.now = NOW + DAY_S
    days = {each["name"]: each["last_used"] for each in server("GET", "/v1/keys").json}
    assert days == {"admin": "1970-01-13", "viewer": None, "client": None, "anna": "1970-01-12"}
    assert server.service._store.key_uses() == {"admin": DAY + 1, "anna": DAY}


def test_a_new_key_of_an_old_name_has_days_of_its_own(server: Server) -> None:
    """Those of a removed one are gone, and the first use of the new one is written, on the same day too."""
    for _ in range(2):
        anna = add(server, "anna", "viewer")
        days = {each["name"]: each["last_used"] for each in server("GET", "/v1/keys").json}
        assert days["anna"] is None
        assert server("GET", "/v1/experiments", key=anna).status == 200
        days = {each["name"]: each["last_used"] for each in server("GET", "/v1/keys").json}
        assert days["anna"] == "1970-01-12"
        assert server("DELETE", "/v1/keys/anna").status == 200


def test_a_day_that_cannot_be_written_is_written_later(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not lost when the database is away for a minute."""
    anna = add(server, "anna", "viewer")
    assert server("GET", "/v1/experiments", key=anna).status == 200

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr(server.service._store, "note_uses", fail)
        with pytest.raises(ZeroDivisionError):
            server.service.keys.write_uses(NOW)
    server.service.keys.write_uses(NOW)
    assert server.service._store.key_uses() == {"admin": DAY, "anna": DAY}


def test_keys_are_stored_as_hashes_and_listed_without(server: Server) -> None:
    """Neither the key nor its hash is in a list, a line of the log, or a repr; a log line of a library hides it."""
    anna = add(server, "anna", "editor", "headline")
    holder = server.service.keys.holder(server.service.keys._store.keys()[-1].hash, NOW)
    texts = [server("GET", path).body.decode() for path in ("/v1/keys", "/v1/log")]
    for text in (*texts, repr(holder), repr(vars(server.service.keys))):
        assert anna not in text
    assert "anna" in texts[0]
    record = logging.LogRecord("other", 30, "", 0, f"what is {anna}?", None, None)
    assert anna not in Line("text").format(record)


def test_every_worker_knows_a_new_key_and_a_removed_one(workers: Workers) -> None:
    """When the change is acknowledged, all that share the database know it."""

    async def play() -> None:
        one, two = workers.all
        await workers.create()
        made = await workers.change(0, lambda: one.commands.add_key(NewHolder("ben", "editor", ["headline"])))
        key = made.key or ""
        assert two.role(key.encode()) is Role.EDITOR
        apps = [application(worker) for worker in workers.all]
        status = (await ask(apps[1], "GET", "/v1/experiments", key=key)).status
        assert status == 200
        two.keys.write_uses(int(workers.clock[1]))
        found = {each.name: each.last_used for each in await one.key_reports()}
        assert found["ben"] == "1970-01-12"
        await workers.change(1, lambda: two.commands.remove_key("ben"))
        assert [worker.role(key.encode()) for worker in workers.all] == [None, None]
        assert {line.who for line in await two.changes()} == {"server"}

    asyncio.run(play())


def test_a_restart_knows_them(server: Server) -> None:
    """They are in the store, beside the keys that the environment fixes."""
    ben = add(server, "ben", "editor", "headline")
    server.service.keys.reload()
    assert server("POST", "/v1/experiments", NEW, ben).status == 201
    assert [server("GET", E, key=key).status for key in (ADMIN, VIEWER, ben)] == [200] * 3


class Visitor:
    """Somebody with a key in a browser."""

    def __init__(self, local: Local, key: str) -> None:
        """Sign in."""
        self.local, self.browser = local, Browser(local.app)
        assert self.visit("console/sign-in").status == 200
        assert self.submit("sign-in", {"key": key}).status == 200

    def visit(self, where: str) -> Any:
        """Go to a page of the console."""
        start = "http://bandits.example/console/"
        self.browser.url = start if where != "console/sign-in" else "http://bandits.example/console"
        return self.local.do(self.browser.visit(where))

    def submit(self, where: str, fields: dict[str, str]) -> Any:
        """Send a form."""
        return self.local.do(self.browser.submit(where, fields))


def test_an_editor_in_the_console(local: Local) -> None:
    """It sees actions where it has rights, is refused elsewhere, and its name stands in the log."""
    assert local("POST", "/v1/experiments", {**NEW, "name": "other"}).status == 201
    ben = Visitor(local, add(local, "ben", "editor", "headline", "price"))
    assert 'href="headline/pause"' in ben.visit("experiments/headline").body.decode()
    shown = ben.visit("experiments/other").body.decode()
    assert 'href="other/pause"' not in shown
    assert ">ben</span>" in shown
    assert ben.visit("experiments/other/pause").status == 403
    assert ben.visit("keys").status == 403
    assert ben.visit("experiments/headline/pause").status == 200
    assert ben.submit("pause", {}).status == 200
    refused = ben.submit("other/pause", {})
    assert refused.status == 403
    assert local("GET", f"{E}/log").json[0]["who"] == "ben"
    assert local("GET", f"{OTHER}/log").json[0]["what"] == "create"
    listed = ben.visit("./").body.decode()
    assert 'href="new"' in listed
    assert 'href="keys"' not in listed


def test_keys_in_the_console(local: Local) -> None:
    """An admin sees who has one, makes one, which is shown once, and removes one; its sessions end."""
    admin = Visitor(local, ADMIN)
    assert admin.visit("keys").status == 200
    page = admin.submit("keys", {"name": "ben", "role": "editor", "experiments": "headline, price"}).body.decode()
    (key,) = re.findall(r"<code>(editor-[\w-]+)</code>", page)
    assert key not in admin.visit("keys").body.decode()
    assert "headline, price" in admin.browser.page
    ben = Visitor(local, key)
    assert "already a key named ben" in admin.submit("keys", {"name": "ben", "role": "viewer"}).body.decode()
    assert admin.visit("keys/ben/remove").status == 200
    assert admin.submit("remove", {}).status == 200
    assert "ben" not in {each["name"] for each in local("GET", "/v1/keys").json}
    assert "Sign in" in ben.visit("./").body.decode()
    assert admin.visit("keys/ben/remove").status == 200
    assert admin.submit("remove", {}).status == 404


def test_a_link_stands_for_the_key_that_made_it(local: Local) -> None:
    """What is done by it has that name, and it ends with that key."""
    anna = add(local, "anna", "admin")
    path = local("POST", "/v1/console/links", {}, anna).json["path"]
    browser = Browser(local.app)
    browser.url = "http://bandits.example/"
    local.do(browser.visit(path))
    assert local.do(browser.submit("../sign-in", {"link": path.rpartition("/")[2]})).status == 200
    local.do(browser.visit("experiments/headline/pause"))
    assert local.do(browser.submit("pause", {})).status == 200
    assert local("GET", f"{E}/log").json[0]["who"] == "anna"


def test_devices_and_viewers_make_no_keys(local: Local) -> None:
    """Nor do they see who has one."""
    for key in (CLIENT, VIEWER, None):
        assert local("POST", "/v1/keys", {"name": "eve", "role": "admin"}, key).status in {401, 403}
        assert local("GET", "/v1/keys", key=key).status in {401, 403}
    assert KEYS["LDPBANDITS_CLIENT_KEY"] == CLIENT
