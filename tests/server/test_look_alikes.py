"""Arms of an experiment have names that a reader can tell apart."""

from pathlib import Path

import pytest
from tests.server.local import NEW, E, Local

from ldpbandits.server.experiments.look_alikes import look_alike, skeleton
from ldpbandits.server.store.sqlite.store import SqliteStore

ALIKE = [
    ("caf\u00e9", "cafe\u0301"),  # composed, and with a combining mark
    ("a\u0323\u0307", "a\u0307\u0323"),  # marks in another order
    ("blue", "blue "),
    ("light blue", "light  blue"),
    ("light blue", "light\u00a0blue"),
    ("blue", "bl\u200due"),
    ("blue", "blue\ufe0e"),
    ("blue", "blu\u0435"),  # a Cyrillic letter
    ("ABBA", "\u0391\u0412\u0392\u0410"),  # Greek and Cyrillic ones
    ("office", "o\ufb03ce"),  # a ligature
    ("full", "\uff46\uff55\uff4c\uff4c"),  # full width
    ("red-blue", "red\u2013blue"),
    ("don't", "don\u2019t"),
]
APART = ["resume", "r\u00e9sum\u00e9", "Resume", "blue 1", "blue 2", "\u0436", "\u4e2d\u6587", "\U0001f388", "a-b"]
FAMILIES = ["\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f468\u200d\U0001f469\u200d\U0001f466"]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_names_that_look_alike_have_one_skeleton(one: str, other: str) -> None:
    """Whichever comes first, the other is found."""
    assert one != other
    assert skeleton(one) == skeleton(other)
    assert look_alike([one, "else", other]) == (other, one)
    assert look_alike([other], [one]) == (other, one)


def test_names_that_can_be_told_apart_are_not_alike() -> None:
    """Accents, case, digits, other scripts and emoji that differ in one part are seen."""
    assert look_alike([*APART, *FAMILIES]) is None


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_arms_of_an_experiment_do_not_look_alike(local: Local, one: str, other: str) -> None:
    """When it is created that is invalid, and an arm that looks like one that is or was there exists already."""
    reply = local("POST", "/v1/experiments", {**NEW, "name": "x", "arms": [one, other]})
    assert (reply.status, reply.json["code"]) == (422, "invalid")
    assert f"{other!a} and {one!a}" in reply.json["message"]
    assert local("POST", "/v1/experiments", {**NEW, "name": "x", "arms": [one, "else"]}).status == 201
    assert local("POST", "/v1/experiments/x/arms/0/retire").status == 200
    reply = local("POST", "/v1/experiments/x/arms", {"name": other})
    assert (reply.status, reply.json["code"]) == (409, "exists")
    assert ascii(one) in reply.json["message"]


def test_names_from_before_are_read_as_they_are(tmp_path: Path) -> None:
    """An experiment whose arms look alike, or have characters that nobody sees, goes on, with a new arm too."""
    path = tmp_path / "agent.db"
    first = Local(path)
    assert first("POST", "/v1/experiments", NEW).status == 201
    store = first.service._store
    assert isinstance(store, SqliteStore)
    store.file.connection.execute("UPDATE arms SET name = ? WHERE number = 1", ("blue\u200b",))
    first.close()
    again = Local(path)
    assert [arm["name"] for arm in again("GET", E).json["arms"]] == ["blue", "blue\u200b"]
    assert again.respond(again.decide()["ticket"]) == (200, "counted")
    assert again("POST", f"{E}/arms", {"name": "red"}).status == 201
    assert again("POST", f"{E}/ship", {"arm": "blue\u200b"}).status == 200
    tallies = again("GET", f"{E}/tallies").json
    warm = {key: tallies[key] for key in ("curator", "arms", "rule", "unit", "name")}
    reply = again("POST", "/v1/experiments", {**NEW, "name": "warm", "arms": ["blue", "red"], "warm_start": warm})
    assert reply.status != 400, "what was exported is read"
    again.close()
