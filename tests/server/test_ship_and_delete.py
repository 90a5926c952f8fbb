"""A winner is shipped: everybody gets it, and nobody is asked. What is deleted is gone from the disk too."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.server.inprocess import ask
from tests.server.local import CLIENT, NEW, E, Local

from ldpbandits.server.store import Unavailable
from ldpbandits.server.store.sqlite.store import SqliteStore
from ldpbandits.spec.messages import Change

NULL = {"ticket", "curator", "default", "report_after", "expires_at", "expires_in"}


def ship(local: Local, arm: Any = "green") -> Any:
    """Ship the experiment; return its report."""
    reply = local("POST", f"{E}/ship", {"arm": arm})
    assert reply.status == 200, reply
    return reply.json


def arms(local: Local) -> list[tuple[int, int, int, int]]:
    """Return decisions, responses, pending and missing of each arm."""
    shown = local("GET", E).json["arms"]
    return [(arm["decisions"], arm["pulls"], arm["pending"], arm["missing"]) for arm in shown]


@pytest.mark.parametrize("arm", [1, "green"])
def test_everybody_gets_the_shipped_arm_and_nothing_is_spent(local: Local, arm: Any) -> None:
    """Decisions go on, all with that arm; there is no ticket, so no response can be sent, and nothing is counted."""
    report = ship(local, arm)
    assert (report["status"], report["shipped"]) == ("shipped", 1)
    before = arms(local)
    for _ in range(3):
        decision = local.decide()
        assert (decision["arm"], decision["name"], decision["sticky"]) == (1, "green", 0)
        assert {key for key, value in decision.items() if value is None} == NULL
    assert arms(local) == before == [(0, 0, 0, 0)] * 2


def test_responses_that_are_out_still_count(local: Local) -> None:
    """Tickets from before are answered as ever; those that were accepted and are not answered go missing in time."""
    tickets = [local.decide()["ticket"] for _ in range(4)]
    for ticket in tickets:
        assert local("POST", "/v1/acceptances", {"ticket": ticket}, key=None).json == {"status": "accepted"}
    ship(local)
    assert [local.respond(ticket) for ticket in tickets[:2]] == [(200, "counted")] * 2
    assert local.respond(tickets[0]) == (200, "duplicate")
    assert sum(pending for _, _, pending, _ in arms(local)) == 2
    local.now.seconds += 3600
    assert [sum(column) for column in zip(*arms(local), strict=True)] == [4, 2, 0, 2]


def test_resuming_takes_a_shipped_experiment_back(local: Local) -> None:
    """Then the rule decides again, with tickets; a pause does so too, without decisions."""
    ship(local)
    resumed = local("POST", f"{E}/resume").json
    assert (resumed["status"], resumed["shipped"]) == ("running", None)
    assert local.respond(local.decide()["ticket"]) == (200, "counted")
    ship(local)
    paused = local("POST", f"{E}/pause").json
    assert (paused["status"], paused["shipped"]) == ("paused", None)
    assert local("POST", f"{E}/decisions", {}, CLIENT).json["code"] == "paused"
    assert ship(local, "blue")["shipped"] == 0
    assert ship(local, "green")["shipped"] == 1


def test_a_shipped_experiment_can_be_closed_for_good(local: Local) -> None:
    """A closed one gives no decisions, and cannot be shipped again."""
    ship(local)
    closed = local("POST", f"{E}/close").json
    assert (closed["status"], closed["shipped"]) == ("closed", None)
    reply = local("POST", f"{E}/decisions", {}, CLIENT)
    assert (reply.status, reply.json["code"]) == (410, "closed")
    again = local("POST", f"{E}/ship", {"arm": 1})
    assert (again.status, again.json["code"]) == (409, "closed")


@pytest.mark.parametrize("arm", [2, -1, "red", "1", 10**30])
def test_an_arm_that_there_is_not_is_not_shipped(local: Local, arm: Any) -> None:
    """The refusal names those that there are."""
    reply = local("POST", f"{E}/ship", {"arm": arm})
    assert (reply.status, reply.json["code"]) == (404, "not_found")
    assert "it has 0 (blue), 1 (green)" in reply.json["message"]
    assert local("GET", E).json["status"] == "running"


def test_a_retired_arm_is_not_shipped_and_a_shipped_one_is_not_retired(local: Local) -> None:
    """Other arms may come and go meanwhile."""
    ship(local, "green")
    kept = local("POST", f"{E}/arms/1/retire")
    assert (kept.status, kept.json["code"]) == (409, "shipped")
    assert local("POST", f"{E}/arms/0/retire").status == 200
    assert local("POST", f"{E}/arms", {"name": "red"}).status == 201
    gone = local("POST", f"{E}/ship", {"arm": "blue"})
    assert (gone.status, gone.json["code"]) == (409, "retired")
    assert local.decide()["name"] == "green"


def test_a_restart_goes_on_with_the_shipped_arm(tmp_path: Path) -> None:
    """Status and arm are on disk."""
    first = Local(tmp_path / "agent.db")
    first("POST", "/v1/experiments", NEW)
    ship(first)
    first.close()
    second = Local(tmp_path / "agent.db")
    assert (second.decide()["name"], second.decide()["ticket"]) == ("green", None)
    second.close()


def test_a_deleted_experiment_is_gone_and_its_tickets_are_those_of_nobody(local: Local) -> None:
    """All that names it is 404, its tickets are forged, and the reply says what it was."""
    tickets = [local.decide()["ticket"] for _ in range(2)]
    assert local.respond(tickets[0]) == (200, "counted")
    reply = local("DELETE", E)
    told = {"name": "headline", "status": "running", "created_at": 1_000_000, "arms": 2, "responses": 1, "title": ""}
    assert (reply.status, reply.json) == (200, told)
    assert local("GET", "/v1/experiments").json == []
    for method, path in (("GET", ""), ("GET", "/tallies"), ("POST", "/decisions"), ("POST", "/resume"), ("DELETE", "")):
        assert local(method, E + path).status == 404
    assert [local.respond(ticket) for ticket in tickets] == [(403, "forged")] * 2
    assert "headline" not in local("GET", "/metrics").body.decode()


@pytest.mark.parametrize("status", ["pause", "ship", "close"])
def test_an_experiment_can_be_deleted_whatever_its_status(local: Local, status: str) -> None:
    """Running, paused, shipped or closed."""
    assert local("POST", f"{E}/{status}", {"arm": 0} if status == "ship" else None).status == 200
    assert local("DELETE", E).status == 200


def test_the_name_of_a_deleted_experiment_is_free_and_nothing_is_left_of_it(local: Local) -> None:
    """One of the same name starts from nothing, and the old one's tickets are not its own."""
    old = [local.decide()["ticket"] for _ in range(3)]
    assert local.respond(old[0]) == (200, "counted")
    assert local("DELETE", E).status == 200
    assert local("POST", "/v1/experiments", NEW).status == 201
    assert arms(local) == [(0, 0, 0, 0)] * 2
    assert local.respond(old[1]) == (403, "forged")
    assert local.respond(local.decide()["ticket"]) == (200, "counted")
    assert local("GET", f"{E}/responses.csv").body.count(b"\n") == 2


def test_others_are_left_as_they_are(local: Local) -> None:
    """Responses, tickets and counts of other experiments stay, also over a restart."""
    assert local("POST", "/v1/experiments", {**NEW, "name": "other"}).status == 201
    tickets = [local.decide("other")["ticket"] for _ in range(2)]
    assert local.respond(tickets[0]) == (200, "counted")
    before = local("GET", "/v1/experiments/other").json
    assert local("DELETE", E).status == 200
    assert local("GET", "/v1/experiments/other").json == before
    assert local.respond(tickets[0]) == (200, "duplicate")
    assert local.respond(tickets[1]) == (200, "counted")


FEW, LEAST = 20, 1 << 31
STEP = 1234567
EPSILON = 0.01
"""So small that there are responses of more than 2^31 steps of 2^-20, which SQLite writes in six bytes."""


def in_the_file(path: Path) -> int:
    """Return how many of the responses below are anywhere in the database's files, as SQLite writes them.

    A key or a nonce looks like one of them with a probability of about 20 * 100,000 / 2^48 = 7e-9.
    """
    data = b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))
    return sum((LEAST + number * STEP).to_bytes(6, "big") in data for number in range(FEW))


def test_no_byte_of_a_deleted_response_is_left_in_the_file(tmp_path: Path) -> None:
    """Neither in the database nor in its log: not after the deletion, and not after a restart."""
    path = tmp_path / "agent.db"
    local = Local(path)
    curator = {"mechanism": "laplace", "epsilon": EPSILON}
    assert local("POST", "/v1/experiments", {**NEW, "curator": curator}).status == 201
    for number in range(FEW):
        assert local.respond(local.decide()["ticket"], (LEAST + number * STEP) / 2**20) == (200, "counted")
    assert in_the_file(path) == FEW
    assert local.service._store.file.rows("PRAGMA secure_delete") == [(1,)]  # type: ignore[attr-defined]
    assert local("DELETE", E).status == 200
    assert in_the_file(path) == 0
    local.close()
    assert in_the_file(path) == 0


def test_a_log_that_is_being_read_is_emptied_later(tmp_path: Path) -> None:
    """While somebody reads the file its log must stay; it is emptied when expired nonces are next removed."""
    path = tmp_path / "agent.db"
    local = Local(path)
    assert local("POST", "/v1/experiments", NEW).status == 201
    store = local.service._store
    assert isinstance(store, SqliteStore)
    store.file.connection.execute("PRAGMA busy_timeout = 0")
    with store.file.reading() as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM experiments").fetchall()
        assert local("DELETE", E).status == 200
        assert b"bernoulli" in (tmp_path / "agent.db-wal").read_bytes()
    local.do(local.service.forget())
    assert not (tmp_path / "agent.db-wal").read_bytes().count(b"bernoulli")
    assert not path.read_bytes().count(b"bernoulli")  # the log of changes names the experiment
    local.close()


def test_a_response_that_is_on_its_way_is_forged_and_spoils_no_other(local: Local) -> None:
    """It waits for its commit while the experiment is deleted; another one in the same commit counts."""
    assert local("POST", "/v1/experiments", {**NEW, "name": "other"}).status == 201
    tickets = [local.decide()["ticket"], local.decide("other")["ticket"]]

    async def race() -> list[tuple[int, str]]:
        async def respond(ticket: str) -> tuple[int, str]:
            reply = await ask(local.app, "POST", "/v1/responses", {"ticket": ticket, "response": 1})
            return reply.status, reply.json["status" if reply.status == 200 else "code"]

        responses = [asyncio.create_task(respond(ticket)) for ticket in tickets]
        deleting = asyncio.create_task(local.service.commands.delete("headline"))
        await deleting  # tasks run in turn: both responses were in the queue when it began
        return [await response for response in responses]

    assert local.do(race()) == [(403, "forged"), (200, "counted")]


def test_a_deletion_that_the_disk_refuses_changes_nothing(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is 503, the experiment goes on, and what had happened in it is not forgotten."""
    ticket = local.decide()["ticket"]

    def full(*_: object, log: Change) -> None:
        raise Unavailable

    monkeypatch.setattr(SqliteStore, "delete", full)
    assert local("DELETE", E).status == 503
    monkeypatch.undo()
    assert local.respond(ticket) == (200, "counted")
    local.do(local.service.write_events())
    assert sum(event.times for event in local.service._store.events() if event.kind == "decision") == 1
    assert local("DELETE", E).status == 200
    local.do(local.service.write_events())
    assert {event.experiment for event in local.service._store.events()} <= {0}
