"""Up to a hundred decisions or responses in one request, exactly once each."""

import asyncio
import json
from typing import Any

import pytest
from tests.server.inprocess import Reply, ask
from tests.server.local import CLIENT, E, Local

from ldpbandits.server.store import Unavailable
from ldpbandits.server.store.sqlite.store import SqliteStore

COUNTED = {"status": "counted", "code": None, "message": None}
DUPLICATE = {**COUNTED, "status": "duplicate"}


def decide(local: Local, count: Any) -> Reply:
    """Ask for so many arms."""
    return local("POST", f"{E}/decisions/batch", {"count": count}, CLIENT)


def tickets(local: Local, count: int) -> list[str]:
    """Return so many tickets."""
    return [decision["ticket"] for decision in decide(local, count).json]


def send(local: Local, responses: Any) -> Any:
    """Send responses together, without a key; return what became of each."""
    reply = local("POST", "/v1/responses/batch", {"responses": responses}, None)
    assert reply.status == 200, reply
    return reply.json


def response(ticket: str, value: Any = 1, **more: Any) -> dict[str, Any]:
    """Return a response."""
    return {"ticket": ticket, "response": value, **more}


def pulls(local: Local) -> int:
    """Return how many responses are counted."""
    count: int = local("GET", E).json["responses"]
    return count


def test_a_hundred_decisions_have_a_hundred_tickets(local: Local) -> None:
    """Each is as one that was asked for alone: arms by the rule, which counts what is out, tickets that differ."""
    alone = local.decide()
    made = decide(local, 100)
    assert made.status == 200
    assert {frozenset(decision) for decision in made.json} == {frozenset(alone)}
    assert len({decision["ticket"] for decision in made.json}) == 100
    arms = [decision["arm"] for decision in made.json]
    assert (arms.count(0), arms.count(1)) == (50, 50)
    assert sum(arm["decisions"] for arm in local("GET", E).json["arms"]) == 101
    assert local.respond(made.json[99]["ticket"]) == (200, "counted")


@pytest.mark.parametrize("count", [1, 100, 2.0])
def test_a_batch_has_from_one_to_a_hundred(local: Local, count: float) -> None:
    """Both ends are in."""
    assert len(decide(local, count).json) == count
    sent = [response(ticket) for ticket in tickets(local, int(count))]
    assert send(local, sent) == [COUNTED] * int(count)


@pytest.mark.parametrize("count", [0, 101, -1, 1.5, "2", None])
def test_no_batch_is_empty_or_larger(local: Local, count: Any) -> None:
    """400, in words, and nothing is handed out."""
    reply = decide(local, count)
    assert (reply.status, reply.json["code"]) == (400, "malformed")
    assert reply.json["message"].startswith("count must be a whole number from 1 to 100, got ")
    assert sum(arm["decisions"] for arm in local("GET", E).json["arms"]) == 0


@pytest.mark.parametrize("count", [0, 101])
def test_no_batch_of_responses_is_empty_or_larger(local: Local, count: int) -> None:
    """400, and nothing is counted."""
    (ticket,) = tickets(local, 1)
    reply = local("POST", "/v1/responses/batch", {"responses": [response(ticket)] * count}, None)
    assert (reply.status, reply.json["code"]) == (400, "malformed")
    assert reply.json["message"].startswith("responses must be a list of 1 to 100, got ")
    assert pulls(local) == 0


@pytest.mark.parametrize(("change", "status", "code"), [("pause", 409, "paused"), ("close", 410, "closed")])
def test_decisions_are_refused_together(local: Local, change: str, status: int, code: str) -> None:
    """As one alone is."""
    local("POST", f"{E}/{change}")
    reply = decide(local, 3)
    assert (reply.status, reply.json["code"]) == (status, code)


def test_a_shipped_experiment_gives_its_arm_as_often_as_is_asked(local: Local) -> None:
    """Without tickets."""
    local("POST", f"{E}/ship", {"arm": "green"})
    assert [(decision["name"], decision["ticket"]) for decision in decide(local, 3).json] == [("green", None)] * 3


def test_responses_of_a_batch_share_a_commit(local: Local) -> None:
    """A hundred durable responses are one commit."""
    sent = [response(ticket) for ticket in tickets(local, 100)]
    before = local.service.committer.commits
    assert send(local, sent) == [COUNTED] * 100
    assert local.service.committer.commits == before + 1
    assert pulls(local) == 100
    assert send(local, sent) == [DUPLICATE] * 100
    assert pulls(local) == 100


def test_duplicates_within_a_batch_count_once(local: Local) -> None:
    """The first of them counts; the same again is a duplicate, another value is refused."""
    one, other = tickets(local, 2)
    sent = [response(one), response(other, 0), response(one), response(one, 0), response(other, 0)]
    told = send(local, sent)
    assert [each["status"] for each in told] == ["counted", "counted", "duplicate", "refused", "duplicate"]
    assert told[3]["code"] == "changed"
    assert pulls(local) == 2


def test_a_wrong_response_spoils_no_other_and_is_told_what_it_is_told_alone(local: Local) -> None:
    """For each in order the status; where it is refused, code and sentence are those that it gets alone."""
    (late,) = tickets(local, 1)
    local.now.seconds += 3600
    good = tickets(local, 2)
    wrong: list[Any] = [
        response("A" * 64),
        response(late),
        response(good[1], 2),
        response(good[1], 1, epsilon=3),
        response(good[1], "1"),
        response(good[1], None),
        response(good[1], 1, reward=1),
        {"ticket": good[1]},
        {},
        [],
        None,
        "nonsense",
        7,
    ]
    alone = []
    for each in wrong:
        reply = local("POST", "/v1/responses", json.dumps(each).encode(), None)
        assert reply.status != 200
        alone.append({"status": "refused", **reply.json})
    assert {each["code"] for each in alone} == {"forged", "expired", "impossible", "malformed"}
    assert send(local, [response(good[0]), *wrong, response(good[1])]) == [COUNTED, *alone, COUNTED]
    assert pulls(local) == 2


def test_rejections_of_a_batch_are_counted(local: Local) -> None:
    """As those of responses that come alone."""
    (ticket,) = tickets(local, 1)
    send(local, [response(ticket), response(ticket), response(ticket, 0), response(ticket, 2), response("x")])
    rejected = local("GET", E).json["rejected"]
    assert (rejected["duplicate"], rejected["changed"], rejected["impossible"], rejected["forged"]) == (1, 1, 1, 1)


def test_what_could_not_be_written_is_to_be_sent_again(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk each response says so; the same batch counts once there is room."""
    sent = [response(ticket) for ticket in tickets(local, 3)]

    def full(*_: object) -> None:
        raise Unavailable

    monkeypatch.setattr(SqliteStore, "count", full)
    assert {each["code"] for each in send(local, sent)} == {"retry"}
    monkeypatch.undo()
    assert send(local, sent) == [COUNTED] * 3


def test_what_is_not_json_is_refused_whole(local: Local) -> None:
    """There are no responses to tell apart."""
    (ticket,) = tickets(local, 1)
    good = json.dumps(response(ticket)).encode()
    for body in (b'{"responses": [' + good, b'{"responses": [' + good + b', {"ticket": "a", "response": NaN}]}', b"[]"):
        assert local("POST", "/v1/responses/batch", body, None).status == 400
    mixed = local("POST", "/v1/responses/batch", b'{"responses": [{"ticket": "\xff"}, ' + good + b"]}", None).json
    assert [each["code"] for each in mixed] == ["malformed", None]


def test_batches_of_several_clients_at_once_count_each_response_once(local: Local) -> None:
    """The same hundred responses, sent by three at a time: each counts once, and two are told that it had."""
    sent = [response(ticket) for ticket in tickets(local, 100)]

    async def together() -> list[Any]:
        asking = (ask(local.app, "POST", "/v1/responses/batch", {"responses": sent}) for _ in range(3))
        return [reply.json for reply in await asyncio.gather(*asking)]

    told = [sorted(each["status"] for each in column) for column in zip(*local.do(together()), strict=True)]
    assert told == [["counted", "duplicate", "duplicate"]] * 100
    assert pulls(local) == 100
