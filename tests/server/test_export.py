"""The responses as CSV: numbered within their experiment, with the arms' names, harmless in a spreadsheet."""

import csv
import io
from typing import Any

import pytest
from tests.server.local import NEW, E, Local

from ldpbandits.server import service
from ldpbandits.server.api.csv_export import harmless

ODD = ['say "hi"', "a,b", "a;b", " before", "after ", "größer 🎈", "plain", "x=1", "back\\slash", "1e5"]
FORMULAS = ['=HYPERLINK("https://evil.example";"blue")', "+1", "-1+1", "@SUM(A1)", " =1", "\uff1d1+1", "'quoted", "'=1"]


def exported(local: Local, name: str = "headline") -> list[dict[str, str]]:
    """Return the rows in the order of counting, as a reader of CSV has them."""
    reply = local("GET", f"/v1/experiments/{name}/responses-in-order.csv")
    assert reply.status == 200
    return list(csv.DictReader(io.StringIO(reply.body.decode(), newline="")))


def test_responses_are_numbered_from_one_within_their_experiment(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else is counted in between, and in however many pieces they are read."""
    monkeypatch.setattr(service, "EXPORT_PAGE_ROWS", 3)
    assert local("POST", "/v1/experiments", {**NEW, "name": "other", "arms": ["x", "y"]}).status == 201
    sent: dict[str, list[tuple[str, str, str]]] = {"headline": [], "other": []}
    for number in range(20):
        name = "other" if number % 3 else "headline"
        decision = local.decide(name)
        assert local.respond(decision["ticket"], number % 2) == (200, "counted")
        sent[name].append((str(decision["arm"]), decision["name"], str(float(number % 2))))
    for name, responses in sent.items():
        rows = [tuple(row.values()) for row in exported(local, name)]
        assert rows == [(str(number), *response) for number, response in enumerate(responses, 1)]


def test_an_arm_that_is_added_has_its_name_too(local: Local) -> None:
    """Also a retired one."""
    local("POST", f"{E}/arms", {"name": "red"})
    local("POST", f"{E}/arms/0/retire")
    local("POST", f"{E}/arms/1/retire")
    assert local.respond(local.decide()["ticket"]) == (200, "counted")
    (row,) = exported(local)
    assert (row["arm"], row["arm_name"]) == ("2", "red")


@pytest.mark.parametrize("name", [*ODD, *FORMULAS])
def test_every_name_comes_back_as_it_was(name: str) -> None:
    """By any reader of CSV, once the apostrophe that we may have put in front is taken away."""
    ((read, other),) = csv.reader(io.StringIO(f"{harmless(name)},1\n", newline=""))
    assert (read.removeprefix("'") if name in FORMULAS else read, other) == (name, "1")


@pytest.mark.parametrize("name", FORMULAS)
def test_no_cell_starts_like_a_formula(local: Local, name: str) -> None:
    """A spreadsheet would work it out."""
    local("POST", "/v1/experiments", {**NEW, "name": "odd", "arms": [name]})
    local.respond(local.decide("odd")["ticket"])
    (row,) = exported(local, "odd")
    assert row["arm_name"] == f"'{name}"
    assert row["arm_name"][0] not in "=+-@"


def test_with_a_choice_of_epsilons_each_response_has_its_own(local: Local) -> None:
    """In a column that is not there otherwise."""
    curator: Any = {"mechanism": "bernoulli", "epsilon": [0.5, 1]}
    local("POST", "/v1/experiments", {**NEW, "name": "menu", "curator": curator})
    for epsilon in (1, 0.5):
        assert local.respond(local.decide("menu")["ticket"], 1, epsilon=epsilon) == (200, "counted")
    assert [list(row.items())[-1] for row in exported(local, "menu")] == [("epsilon", "1.0"), ("epsilon", "0.5")]
    local.respond(local.decide()["ticket"])
    assert list(exported(local)[0]) == ["response_number", "arm", "arm_name", "response"]
