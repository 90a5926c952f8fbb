"""One look: judged once, at a number of responses fixed in advance; before, nobody sees any result in any way."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.server.inprocess import ask
from tests.server.local import ADMIN, CLIENT, CURATOR, KEYS, VIEWER, E, Local
from tests.server.postgres_server import Postgres

from ldpbandits.agent.inference.one_look import fisher_p
from ldpbandits.server.api.app import application
from ldpbandits.server.experiments.stopping import stop_decided
from ldpbandits.server.reports.report import make_history
from ldpbandits.server.service import Service
from ldpbandits.server.store.postgres.store import PostgresStore
from ldpbandits.server.store.sqlite.store import SqliteStore
from ldpbandits.spec.mechanisms import Bernoulli
from ldpbandits.spec.menu import Menu

NEEDED = 60
ONE_LOOK = {
    "name": "headline",
    "arms": ["blue", "green"],
    "curator": CURATOR,
    "one_look": NEEDED,
    "responses_per_hour": 0,
    "stop_after": 0,
}
RESULTS = {"mean", "low", "high", "fits", "worst_low", "worst_high", "evidence", "best", "comparisons"}


@pytest.fixture
def blind(tmp_path: Path) -> Iterator[Local]:
    """A server with an experiment that is judged once."""
    made = Local(tmp_path / "agent.db")
    assert made("POST", "/v1/experiments", ONE_LOOK).status == 201
    made.service.experiments["headline"].agent._random = random.Random(5)  # the same arms in each test
    yield made
    made.close()


def take_part(local: Local, count: int, bit_of: Any = float) -> None:
    """Let devices answer; by default blue always says 0 and green always 1."""
    for _ in range(count):
        made = local.decide()
        assert local.respond(made["ticket"], bit_of(made["arm"])) == (200, "counted")


def check(local: Local) -> None:
    """Let the server check its experiments, as it does every few seconds."""
    local.do(stop_decided(local.service))


@pytest.mark.parametrize("key", [ADMIN, VIEWER])
def test_the_report_tells_how_many_responses_are_in_and_nothing_else(blind: Local, key: str) -> None:
    """Whatever the bits are, it is the same but for the numbers of responses: no mean, interval, leader or evidence."""
    take_part(blind, NEEDED - 1)
    check(blind)
    shown = blind("GET", E, key=key).json
    assert (shown["responses"], shown["settings"]["one_look"]) == (NEEDED - 1, NEEDED)
    assert (shown["best"], shown["comparisons"], shown["warnings"]) == (None, [], [])
    for arm in shown["arms"]:
        assert (arm["mean"], arm["low"], arm["high"], arm["fits"]) == (None, 0, 1, True)
        assert (arm["worst_low"], arm["worst_high"]) == (0, 1)
    verdict = shown["verdict"]
    assert (verdict["kind"], verdict["leader"], verdict["evidence"], verdict["responses"]) == (
        "undecided",
        None,
        1,
        None,
    )
    assert "59 of 60 responses are in" in verdict["sentence"]
    assert shown["forecast"]["more_responses"] == 1


@pytest.mark.parametrize("key", [ADMIN, VIEWER])
def test_every_reply_is_the_same_whatever_the_bits_are(tmp_path: Path, key: str) -> None:
    """Two servers with the same arms and opposite bits: all that can be read of them is equal, before the look."""

    def read(place: str, flip: float) -> list[Any]:
        local = Local(tmp_path / place)
        local("POST", "/v1/experiments", ONE_LOOK)
        experiment = local.service.experiments["headline"]
        experiment.agent._random = random.Random(6)
        take_part(local, NEEDED - 1, lambda arm: abs(arm - flip))
        check(local)
        paths = ("", "/history", "/tallies", "/responses.csv")
        replies = [local("GET", E + path, key=key) for path in paths]
        replies += [local("GET", "/v1/experiments", key=key)]
        lines = local("GET", "/metrics", key=key).body.decode().splitlines()
        own = [line for line in lines if 'experiment="headline"' in line or line.startswith("ldpbandits_all")]
        local.close()
        return [*[(reply.status, reply.body) for reply in replies], own]

    first, second = read("a.db", 0.0), read("b.db", 1.0)
    assert first == second
    assert [status for status, _ in first[:-1]] == [200, 200, 409, 409, 200]


@pytest.mark.parametrize("path", ["/tallies", "/responses.csv"])
@pytest.mark.parametrize("key", [ADMIN, VIEWER])
def test_exports_are_refused_before_the_look(blind: Local, path: str, key: str) -> None:
    """With the reason; after the look they are there."""
    take_part(blind, 10)
    refused = blind("GET", E + path, key=key)
    assert (refused.status, refused.json["code"]) == (409, "hidden")
    assert "before its one look, at 60 of them" in refused.json["message"]
    take_part(blind, NEEDED - 10)
    check(blind)
    assert blind("GET", E + path, key=key).status == 200


@pytest.mark.parametrize("key", [ADMIN, VIEWER])
def test_the_history_has_numbers_of_responses_only(blind: Local, key: str) -> None:
    """Before the look no mean at any moment; afterwards all of them."""
    take_part(blind, NEEDED - 1)
    shown = blind("GET", E + "/history", key=key).json
    assert shown["responses"][-1] == NEEDED - 1
    assert {mean for arm in shown["arms"] for mean in arm["mean"]} == {None}
    assert {(low, high) for arm in shown["arms"] for low, high in zip(arm["low"], arm["high"], strict=True)} == {(0, 1)}
    take_part(blind, 1)
    check(blind)
    assert blind("GET", E + "/history", key=key).json["arms"][1]["mean"][-1] is not None


@pytest.mark.parametrize(
    ("verb", "body"),
    [("pause", {}), ("resume", {}), ("ship", {"arm": 0})],
)
def test_a_command_before_the_look_shows_nothing(blind: Local, verb: str, body: dict[str, Any]) -> None:
    """Pausing, resuming and shipping work, and reply with a report without results."""
    take_part(blind, NEEDED // 2)
    made = blind("POST", f"{E}/{verb}", body)
    assert made.status == 200
    assert {arm["mean"] for arm in made.json["arms"]} == {None}
    assert made.json["best"] is None
    assert blind("GET", E + "/tallies").status == 409


def test_arms_are_neither_added_nor_retired_before_the_look(blind: Local) -> None:
    """The test compares all arms of the beginning."""
    assert blind("POST", f"{E}/arms", {"name": "red"}).status == 409
    assert blind("POST", f"{E}/arms/0/retire", {}).json["code"] == "hidden"


def test_closed_before_its_look_it_has_estimates_and_never_a_verdict(blind: Local) -> None:
    """Closing chooses the number of responses, perhaps by what was seen elsewhere; it cannot be undone."""
    take_part(blind, NEEDED - 1)
    shown = blind("POST", f"{E}/close", {}).json
    check(blind)
    assert shown["arms"][1]["mean"] is not None
    assert (shown["verdict"]["kind"], shown["best"], shown["comparisons"]) == ("undecided", None, [])
    assert "closed at 59 of the 60 responses" in shown["verdict"]["sentence"]
    assert blind("POST", f"{E}/resume", {}).status == 409
    assert blind("GET", E + "/tallies").status == 200


def test_the_look_judges_the_first_responses_once_and_pauses(blind: Local) -> None:
    """The verdict has the p-value of the first 60 responses, whatever comes later."""
    late = [blind.decide()["ticket"] for _ in range(40)]
    take_part(blind, NEEDED - 1)
    take_part(blind, 1)
    first = [arm["pulls"] for arm in blind("GET", E).json["arms"]]
    for ticket in late[:20]:
        assert blind.respond(ticket, 0.0) == (200, "counted")
    check(blind)
    shown = blind("GET", E).json
    verdict = shown["verdict"]
    assert (shown["status"], shown["responses"]) == ("paused", 80)
    assert (verdict["kind"], verdict["leader"]) == ("better", "green")
    assert (verdict["responses"], verdict["needed"], verdict["drift_proof"]) == (NEEDED, 40, True)
    scale = (Bernoulli(1.0).response_mean(0.0), Bernoulli(1.0).response_mean(1.0) - Bernoulli(1.0).response_mean(0.0))
    assert verdict["evidence"] == pytest.approx(1 / fisher_p((first[1], first[1], first[0], 0), scale))
    assert "at 60 responses: p = " in verdict["sentence"]
    assert "You may look at any time" not in verdict["sentence"]
    (found,) = shown["comparisons"]
    for ticket in late[20:]:
        blind.respond(ticket, 0.0)
    check(blind)
    blind("POST", f"{E}/resume", {})
    take_part(blind, 50, lambda arm: float(1 - arm))
    check(blind)
    again = blind("GET", E).json
    assert (again["verdict"], again["comparisons"]) == (verdict, [found])
    assert again["status"] == "running"  # the experimenter who resumes it knows the verdict
    assert blind("POST", f"{E}/arms/0/retire", {}).json["verdict"] == verdict
    assert "looked" not in blind("GET", "/metrics").body.decode()
    assert set(again["rejected"].values()) == {0}


def test_without_a_difference_it_pauses_too_and_says_that_there_is_no_other_look(blind: Local) -> None:
    """Undecided is an end as well: more responses, or an arm less, are another look, which there is not."""
    take_part(blind, NEEDED, lambda _: 1.0)
    check(blind)
    shown = blind("GET", E).json
    assert (shown["status"], shown["verdict"]["kind"]) == ("paused", "undecided")
    assert shown["forecast"]["sentence"].startswith("not decided, and there is no other look")
    blind("POST", f"{E}/resume", {})
    take_part(blind, 200)
    check(blind)
    assert blind("GET", E).json["verdict"] == shown["verdict"]


def test_retiring_an_arm_after_the_look_makes_no_verdict(tmp_path: Path) -> None:
    """It compares all arms of the beginning for good: dropping the rival that is too near would be another test."""
    local = Local(tmp_path / "agent.db")
    local("POST", "/v1/experiments", ONE_LOOK | {"arms": ["a", "b", "c"], "one_look": 90})
    take_part(local, 90, lambda arm: float(arm > 0))
    check(local)
    before = local("GET", E).json["verdict"]
    assert before["kind"] == "undecided"
    assert local("POST", f"{E}/arms/2/retire", {}).json["verdict"] == before
    local.close()


@pytest.mark.parametrize(("stop_after", "status"), [(0, "shipped"), (3600, "paused")])
def test_it_ships_at_the_look_unless_that_is_too_early(tmp_path: Path, stop_after: int, status: str) -> None:
    """Before `stop_after` it pauses, since further responses decide nothing; people decide then."""
    local = Local(tmp_path / "agent.db")
    local("POST", "/v1/experiments", ONE_LOOK | {"stop_when_decided": "ship", "stop_after": stop_after})
    take_part(local, NEEDED)
    check(local)
    assert local("GET", E).json["status"] == status
    local.close()


def test_the_responses_are_in_but_nothing_is_shown_until_they_are_judged(blind: Local) -> None:
    """Between the last response and the check nobody can look, nor close and look."""
    take_part(blind, NEEDED)
    assert blind("GET", E).json["best"] is None
    shown = blind("POST", f"{E}/close", {}).json
    assert {arm["mean"] for arm in shown["arms"]} == {None}
    check(blind)
    assert blind("GET", E).json["verdict"]["kind"] == "better"


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"goal": "earn"}, "equal shares"),
        ({"rule": {"kind": "duels"}}, "equal shares"),
        ({"rule": {"kind": "kl-ucb++"}}, "equal shares"),
        ({"minimum_share": 0.2}, "equal shares"),
        ({"warm_up": 10}, "equal shares"),
        ({"may_add_arms": True}, "may_add_arms"),
        ({"ramp": {"share": 0.1, "responses": 10}}, "ramp"),
        ({"expect": {"baseline": 0.1, "gain": 0.1}}, "expect"),
        ({"worth": 0.1}, "worth"),
        ({"harm": 0.1}, "harm"),
        ({"missing": "worst"}, "missing = worst"),
        ({"curator": {"mechanism": "laplace", "epsilon": 1}}, "needs bits"),
        ({"arms": ["blue"]}, "two or more"),
        ({"one_look": 0}, "one_look"),
        ({"one_look": 10.5}, "one_look"),
        ({"stop_when_separated": "pause", "rule": {"kind": "kl-ucb"}}, "equal shares"),
    ],
)
def test_settings_that_look_earlier_or_change_the_test_are_refused(
    local: Local, settings: dict[str, Any], word: str
) -> None:
    """Each in one line that names it."""
    refused = local("POST", "/v1/experiments", ONE_LOOK | {"name": "other"} | settings)
    assert refused.status in {400, 422}
    assert word in refused.json["message"]
    assert "\n" not in refused.json["message"]


def test_a_warm_start_is_refused(local: Local) -> None:
    """Tallies are a look."""
    tallies = local("GET", E + "/tallies").json
    refused = local("POST", "/v1/experiments", ONE_LOOK | {"name": "other", "warm_start": tallies})
    assert (refused.status, "warm_start" in refused.json["message"]) == (422, True)


def test_with_several_epsilons_it_is_judged_by_level(tmp_path: Path) -> None:
    """The test is Fisher's, stratified by the epsilon that each device has picked."""
    local = Local(tmp_path / "agent.db")
    menu = Menu.from_json(CURATOR | {"epsilon": [1, 3]})
    local("POST", "/v1/experiments", ONE_LOOK | {"curator": CURATOR | {"epsilon": [1, 3]}})
    sums = {(arm, level): [0, 0] for arm in (0, 1) for level in (0, 1)}
    for number in range(NEEDED):
        made, level = local.decide(), number % 2
        assert local.respond(made["ticket"], made["arm"], epsilon=menu.epsilons[level])[0] == 200
        sums[made["arm"], level][0] += 1
        sums[made["arm"], level][1] += made["arm"]
    check(local)
    verdict = local("GET", E).json["verdict"]
    cells = [number for level in (0, 1) for arm in (1, 0) for number in sums[arm, level]]
    lows = [Bernoulli(epsilon).response_mean(0.0) for epsilon in menu.epsilons]
    scale = [number for low in lows for number in (low, 1 - 2 * low)]
    assert verdict["kind"] == "better"
    assert verdict["evidence"] == pytest.approx(1 / fisher_p(cells, scale))
    local.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_look_survives_a_restart_on_both_stores(tmp_path: Path, postgres: Postgres, kind: str) -> None:
    """The same verdict, comparison and number of responses, by another process on the same database."""
    url = postgres.new() if kind == "postgres" else None

    def open_service() -> Service:
        return Service(SqliteStore(tmp_path / "agent.db") if url is None else PostgresStore(url), KEYS)

    async def play(service: Service) -> dict[str, Any]:
        app = application(service)
        await ask(app, "POST", "/v1/experiments", ONE_LOOK, key=ADMIN)
        asked = await ask(app, "POST", f"{E}/decisions/batch", {"count": 80}, key=CLIENT)
        sent = [{"ticket": each["ticket"], "response": float(each["arm"])} for each in asked.json]
        await ask(app, "POST", "/v1/responses/batch", {"responses": sent}, key=CLIENT)
        await stop_decided(service)
        return dict((await ask(app, "GET", E, key=ADMIN)).json)

    async def show(service: Service) -> dict[str, Any]:
        await stop_decided(service)
        return dict((await ask(application(service), "GET", E, key=ADMIN)).json)

    with closing(open_service()) as service:
        before = asyncio.run(play(service))
    with closing(open_service()) as service:
        after = asyncio.run(show(service))
    assert before["verdict"]["kind"] == "better"
    assert before["verdict"]["responses"] == NEEDED
    assert (after["verdict"], after["comparisons"]) == (before["verdict"], before["comparisons"])


def test_no_estimate_of_a_hidden_history_is_cached(blind: Local) -> None:
    """Else the look would show what was hidden as unknown."""
    take_part(blind, NEEDED - 1)
    experiment = blind.service.experiments["headline"]
    assert make_history(experiment, [experiment.moment], {}, {})[1:] == ({}, {})
