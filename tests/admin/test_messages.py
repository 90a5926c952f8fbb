"""What is read of a server's reply: the same fields as the server has, no more of a newer one, and no less."""

import dataclasses
from typing import Any

import msgspec
import pytest

from ldpbandits.admin.messages import History, Report
from ldpbandits.admin.reading import read
from ldpbandits.errors import ServerError
from ldpbandits.server.experiments import settings as server_settings
from ldpbandits.spec import messages
from ldpbandits.spec.messages import Best, Settings, Summary

TWINS = [(messages.Settings, server_settings.Settings), (messages.Ramp, server_settings.NewRamp)]
"""The settings of a reply are those that the server stores, and omits defaults from."""


@pytest.mark.parametrize(("reply", "stored"), TWINS)
def test_the_settings_of_a_reply_are_the_stored_ones(reply: type[Any], stored: type[msgspec.Struct]) -> None:
    """The fields have the same names, in the same order, and the same defaults."""
    needed = (dataclasses.MISSING, msgspec.NODEFAULT)
    expected = [(field.name, field.default) for field in msgspec.structs.fields(stored)]
    found = [(field.name, field.default) for field in dataclasses.fields(reply)]
    for (name, default), (other_name, other_default) in zip(found, expected, strict=True):
        assert name == other_name
        assert default == other_default or (default in needed and other_default in needed)


def test_a_server_leaves_out_settings_that_are_not_set() -> None:
    """The stored form travels as it is, and is decoded with defaults."""
    said = msgspec.to_builtins(server_settings.Settings(300.0, warm_up=5))
    assert said == {"report_after": 300.0, "warm_up": 5}
    assert read(Settings, said) == Settings(300.0, warm_up=5)


SUMMARY = {"name": "x", "status": "running", "created_at": 1, "arms": 2, "responses": 3}


def test_what_a_newer_server_says_beside_is_passed_over() -> None:
    """An older experimenter goes on to work."""
    assert read(Summary, {**SUMMARY, "colour": "blue"}) == Summary("x", "running", 1, 2, 3)


@pytest.mark.parametrize("name", sorted(SUMMARY))
def test_what_is_missing_is_named(name: str) -> None:
    """In one line."""
    rest = {key: value for key, value in SUMMARY.items() if key != name}
    with pytest.raises(
        ServerError, match=f"^the server's reply has no Summary.{name}: its version differs from this package's$"
    ):
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
    with pytest.raises(ServerError, match=f"^the server's reply has an unexpected value in {place}$") as caught:
        read(kind, data)
    assert caught.value.code == "unreadable"


def test_numbers_are_read_as_what_they_are() -> None:
    """JSON writes 60.0 as 60; null is None where it may be."""
    settings = read(Settings, {"report_after": 60, "warm_pulls": [1, 2], "ramp": None})
    assert (settings.report_after, type(settings.report_after)) == (60.0, float)
    assert settings.warm_pulls == (1, 2)
    assert settings.ramp is None
