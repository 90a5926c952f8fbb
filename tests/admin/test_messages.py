"""What is read of a server's reply: the same fields as the server has, no more of a newer one, and no less."""

import dataclasses
import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from ldpbandits.admin import messages
from ldpbandits.admin.messages import Best, History, Report, Settings, Summary
from ldpbandits.admin.reading import read
from ldpbandits.errors import ServerError
from ldpbandits.server.api import messages as server_messages
from ldpbandits.server.experiments import settings as server_settings

TWINS = {name: kind for name, kind in vars(messages).items() if dataclasses.is_dataclass(kind)}
SERVERS = {**vars(server_settings), **vars(server_messages)}


def shape(kind: Any) -> Any:
    """Return a type as both sides write it: a list is a tuple, and a message goes by its name."""
    origin, inner = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind) or (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return kind.__name__  # type: ignore[union-attr]
    if origin in (list, tuple):
        return "many", shape(inner[0])
    if origin in (Union, types.UnionType):
        return frozenset(map(shape, inner))
    if origin is Literal:
        return "one of", frozenset(inner)
    return origin or kind


def shapes(kind: Any) -> dict[str, Any]:
    """Return the shape of each field."""
    return {name: shape(inner) for name, inner in get_type_hints(kind).items()}


@pytest.mark.parametrize("name", sorted(TWINS))
def test_each_message_has_the_fields_of_the_servers(name: str) -> None:
    """The same names, of the same types: the two cannot drift apart."""
    assert shapes(TWINS[name]) == shapes(SERVERS[name])


@pytest.mark.parametrize("name", sorted(TWINS))
def test_what_a_server_always_says_is_needed(name: str) -> None:
    """A field has a default only where the server has one, and the same."""
    servers = {field.name: field for field in msgspec.structs.fields(SERVERS[name])}
    for field in dataclasses.fields(TWINS[name]):
        if field.default is not dataclasses.MISSING:
            assert field.default == servers[field.name].default, f"{name}.{field.name}"


SUMMARY = {"name": "x", "status": "running", "created_at": 1, "arms": 2, "responses": 3}


def test_what_a_newer_server_says_beside_is_passed_over() -> None:
    """An older experimenter goes on to work."""
    assert read(Summary, {**SUMMARY, "colour": "blue"}) == Summary("x", "running", 1, 2, 3)


@pytest.mark.parametrize("name", sorted(SUMMARY))
def test_what_is_missing_is_named(name: str) -> None:
    """In one line."""
    rest = {key: value for key, value in SUMMARY.items() if key != name}
    with pytest.raises(ServerError, match=f"^the server's reply has no Summary.{name}: its version is another one$"):
        read(Summary, rest)


@pytest.mark.parametrize(
    ("kind", "data", "place"),
    [
        (Summary, [], "Summary"),
        (Summary, {**SUMMARY, "arms": 2.5}, "Summary.arms"),
        (Summary, {**SUMMARY, "arms": True}, "Summary.arms"),
        (Summary, {**SUMMARY, "name": None}, "Summary.name"),
        (Summary, {**SUMMARY, "status": "asleep"}, "Summary.status"),
        (Best, {"arm": 0, "name": "x", "separated": 1}, "Best.separated"),
        (Settings, {"report_after": float("nan")}, "Settings.report_after"),
        (Settings, {"report_after": 1, "ramp": {"share": "1", "responses": 2}}, "Settings.ramp.share"),
        (Settings, {"report_after": 1, "warm_pulls": [1, "2"]}, r"Settings.warm_pulls\[1\]"),
        (History, {"name": "x", "responses": {}, "arms": []}, "History.responses"),
        (Report, None, "Report"),
    ],
)
def test_what_is_something_else_is_named(kind: type[Any], data: Any, place: str) -> None:
    """By its place, without the value."""
    with pytest.raises(ServerError, match=f"^the server's reply has something else in {place} than ") as caught:
        read(kind, data)
    assert caught.value.code == "unreadable"


def test_numbers_are_read_as_what_they_are() -> None:
    """JSON writes 60.0 as 60; null is None where it may be."""
    settings = read(Settings, {"report_after": 60, "warm_pulls": [1, 2], "ramp": None})
    assert (settings.report_after, type(settings.report_after)) == (60.0, float)
    assert settings.warm_pulls == (1, 2)
    assert settings.ramp is None
