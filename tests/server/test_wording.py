"""Refusals speak as the command line does: the field, what it must be, and what it is, in one line and in words."""

import json
import re
from typing import Any

import msgspec
import pytest
from msgspec.inspect import (
    ListType,
    Metadata,
    StrType,
    StructType,
    Type,
    UnionType,
    type_info,
)
from tests.server.local import CURATOR, NEW, E, Local

from ldpbandits.server.api.messages import NewExperiment
from ldpbandits.server.api.operation import Operation
from ldpbandits.server.api.operations import OPERATIONS
from ldpbandits.server.api.reader import Reader
from ldpbandits.server.api.refusals import Refusal
from ldpbandits.server.api.validation import WORDS, words

TALLIES = {"curator": CURATOR, "arms": [{"name": "blue", "pulls": 1, "total": 1}]}
GOOD: dict[str, dict[str, Any]] = {
    "ResponseMessage": {"ticket": "A" * 64, "response": 1},
    "ResponseBatch": {"responses": [{}]},
    "Batch": {"count": 1},
    "NewExperiment": {**NEW, "name": "fresh", "ramp": {"share": 0.1, "responses": 9}, "warm_start": TALLIES},
    "NewArm": {"name": "red"},
    "ShippedArm": {"arm": 0},
}
"""A right message of each type of which something is required."""

VALUES: list[Any] = [None, True, "A B\n", "x" * 2000, -1, 1.5, 1e300, 10**400, [], [None], [1], {}, {"who": 1}]
BROKEN = [
    b"{",
    b"\xff",
    b'{"\xff": 1}',
    b"[",
    b"[]",
    b"7",
    b'{"x": NaN}',
    b'{"x": 1e999}',
    b'{"x": "\\ud800"}',
    b"{}x",
    b"[" * 50_000,
]
NOT_WORDS = re.compile(
    r"[`$^\\]\S|\(\?|regex|Expected|<class|\b(?:str|int|float|bool|dict|tuple|bytes|NoneType|None|True|False|Struct)\b"
)
"""What a person who has never seen the server's source does not know."""


def path_of(operation: Operation) -> str:
    """Return a path that is there."""
    return operation.path.replace("{name}", "headline").replace("{arm}", "0").replace("{role}", "client")


def changed(value: Any, kind: Type) -> list[Any]:
    """Return messages with one thing changed: a field replaced, left out or added, however deep inside."""
    while isinstance(kind, Metadata):
        kind = kind.type
    if isinstance(kind, UnionType):
        return [each for alternative in kind.types for each in changed(value, alternative)]
    if isinstance(kind, ListType) and isinstance(value, list):
        return [*VALUES, *([each] for item in value for each in changed(item, kind.item_type))]
    if not isinstance(kind, StructType) or not isinstance(value, dict):
        return VALUES
    replaced = [
        {**value, field.name: each} for field in kind.fields for each in changed(value.get(field.name), field.type)
    ]
    without = [{key: each for key, each in value.items() if key != left_out} for left_out in value]
    return [*replaced, *without, {**value, "nmae": 1}]


WITH_A_BODY = [operation for operation in OPERATIONS if operation.body is not None]


@pytest.mark.parametrize("operation", WITH_A_BODY, ids=lambda operation: f"{operation.method} {operation.path}")
def test_every_refusal_of_every_operation_is_in_words(local: Local, operation: Operation) -> None:
    """No regular expression, no path of a library, no type of Python: one line, whatever is wrong with the body."""
    good = GOOD.get(operation.body.__name__, {})
    bodies = [*BROKEN, *(json.dumps(each).encode() for each in changed(good, type_info(operation.body)))]
    refused = 0
    for body in bodies:
        if operation.path.endswith(("/close", "/ship")):
            local("POST", f"{E}/resume")
        reply = local(operation.method, path_of(operation), body)
        if reply.status < 300:
            continue
        refused += 1
        message = reply.json["message"]
        assert reply.status in {400, 403, 404, 409, 410, 422}
        assert "\n" not in message
        assert len(message) < 700
        assert not NOT_WORDS.search(re.sub(r"'[^']*'", "", message)), message  # what was sent may be repeated
        assert message != "the body is not what /openapi.json asks for"
    assert refused >= len(BROKEN)


def test_every_pattern_has_its_words() -> None:
    """A regular expression says in words what it asks for, and every kind that messages are made of can be named."""

    def look(kind: Type, said: object = None) -> None:
        if isinstance(kind, Metadata):
            look(kind.type, (kind.extra or {}).get(WORDS) or said)
        elif isinstance(kind, UnionType):
            for each in kind.types:
                look(each)
        elif isinstance(kind, ListType):
            look(kind.item_type)
        elif isinstance(kind, StructType):
            for field in kind.fields:
                assert words(field.type)
                look(field.type)
        elif isinstance(kind, StrType) and kind.pattern is not None:
            assert said

    for operation in WITH_A_BODY:
        look(type_info(operation.body))


SENTENCES: list[tuple[str, dict[str, Any] | bytes, str]] = [
    (
        "/v1/experiments",
        {**NEW, "name": "A B"},
        "name must be at most 64 lower-case letters, digits and hyphens, starting with a letter or digit, got 'A B'",
    ),
    ("/v1/experiments", {**NEW, "arms": []}, "arms must be a list of 1 to 256, got an empty list"),
    (
        "/v1/experiments",
        {**NEW, "arms": ["blue", "\x00"]},
        "arms[1] must be 1 to 100 characters, each of which can be seen; arms do not look alike, got '\\x00'",
    ),
    ("/v1/experiments", {"name": "x", "arms": ["a"]}, "curator is missing; needed: name, arms, curator"),
    ("/v1/experiments", {**NEW, "rule": 1}, "rule must be an object, paper or null, got 1"),
    (
        "/v1/experiments",
        {**NEW, "ticket_lifetime": 1.5},
        "ticket_lifetime must be a whole number from 1 to 2592000, got 1.5",
    ),
    ("/v1/experiments", {**NEW, "minimum_share": 0}, "minimum_share must be a number > 0 and <= 1 or null, got 0"),
    ("/v1/experiments", {**NEW, "ramp": {"share": 1}}, "ramp.responses is missing; needed: share, responses"),
    (
        "/v1/experiments",
        {**NEW, "ramp": {"share": 2, "responses": 1}},
        "ramp.share must be a number > 0 and <= 1, got 2",
    ),
    (
        "/v1/experiments",
        {**NEW, "ramp": {"share": 1, "response": 1}},
        "ramp has no field 'response'; known: share, responses",
    ),
    (
        "/v1/experiments",
        {**NEW, "stop_when_separated": "stop"},
        "stop_when_separated must be never, pause, ship or null, got 'stop'",
    ),
    (
        "/v1/experiments",
        {**NEW, "warm_start": {**TALLIES, "arms": [{"name": "blue", "pulls": -1, "total": 0}]}},
        "warm_start.arms[0].pulls must be a whole number >= 0, got -1",
    ),
    (f"{E}/arms", {"nmae": "red"}, "there is no field 'nmae'; known: name"),
    (f"{E}/pause", {"when": "now"}, "there is no field 'when'; known: none"),
    (f"{E}/ship", {"arm": None}, "arm must be a whole number or a text, got null"),
    (f"{E}/arms/7/retire", {}, "the experiment headline has no such arm; it has 0 (blue), 1 (green)"),
    (f"{E}/decisions", b"[]", "the body must be an object"),
    ("/v1/keys/client/rotate", {"grace": True}, "grace must be a whole number from 0 to 2592000 or null, got true"),
    (
        "/v1/keys/master/rotate",
        {},
        "there is no key named 'master': it is admin, viewer, client, allowance, signing or a name",
    ),
    ("/v1/responses", b'{"ticket": ', "the body must be JSON; it is broken, or breaks off"),
    ("/v1/responses", b'{"ticket": x}', "the body must be JSON; it is broken at byte 11"),
    ("/v1/responses", b'{"ticket": "a", "response": 1e999}', "the body has a number that is too large"),
    ("/v1/responses", b'{"ticket": "\xff"}', "the body must be JSON in UTF-8"),
    ("/v1/responses", b"[" * 60_000, "the body is nested too deeply"),
    ("/v1/responses", {"ticket": "a"}, "response is missing; needed: ticket, response"),
]


@pytest.mark.parametrize(("path", "body", "told"), SENTENCES, ids=[told for *_, told in SENTENCES])
def test_a_refusal_names_the_field_the_rule_and_the_value(
    local: Local, path: str, body: dict[str, Any] | bytes, told: str
) -> None:
    """As it reads."""
    assert local("POST", path, body).json["message"] == told


def test_nothing_that_may_be_a_reward_is_repeated(local: Local) -> None:
    """Neither a response that is none, nor a field or a body that has no place here, nor a ticket."""
    secret = 0.73519
    for body in (
        {"ticket": "a", "response": f"{secret}"},
        {"ticket": "a", "response": [secret]},
        {"ticket": "a", "response": 1, "reward": secret},
        {"ticket": secret, "response": 1},
        {"ticket": f"{secret}" * 200, "response": 1},
    ):
        for sent in (body, {"responses": [body]}):
            path = "/v1/responses/batch" if "responses" in sent else "/v1/responses"
            assert b"73519" not in local("POST", path, sent).body
    for bare in (f"{secret}", f'"{secret}"', f"[{secret}]"):
        assert b"73519" not in local("POST", "/v1/responses", bare.encode()).body


@pytest.mark.parametrize("value", [*VALUES, "paper", {"kind": "imed"}, 7, "ship", 60.0, 0])
@pytest.mark.parametrize("field", [field.name for field in msgspec.structs.fields(NewExperiment)])
def test_a_refusal_begins_with_the_field_at_fault(field: str, value: Any) -> None:
    """The reader refuses the messages that msgspec refuses, and names the field."""
    body = json.dumps({**NEW, field: value}).encode()
    try:
        msgspec.json.decode(body, type=NewExperiment)
    except msgspec.ValidationError:
        with pytest.raises(Refusal, match=rf"^{field}\b.* (must be|is missing|has no field)|number that is too large"):
            Reader(NewExperiment).read(body)
    else:
        assert Reader(NewExperiment).read(body).name
