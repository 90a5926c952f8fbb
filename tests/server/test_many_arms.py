"""An experiment has at most 256 arms. One that has more, from an earlier version, keeps working, page by page.

Benchmarks time decisions among many arms (benchmarks/decisions.py), tests do not.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.console.browsing import browser
from tests.server.local import ADMIN, CURATOR, VIEWER, Local
from tests.server.threaded import reply, request, threaded

from ldpbandits.agent.inference.estimates import Estimate
from ldpbandits.agent.rules import KLUCBPlus
from ldpbandits.agent.tally import ArmTally, Tally
from ldpbandits.server.api.messages import NewExperiment
from ldpbandits.server.console.words import MOST_SHOWN
from ldpbandits.server.experiments import limits
from ldpbandits.server.experiments.definition import define
from ldpbandits.server.experiments.guardrails import Guardrails
from ldpbandits.server.experiments.settings import Settings
from ldpbandits.server.process.metrics import MOST_ARMS as MOST_METRIC_ARMS
from ldpbandits.server.reports.conclusions import MOST_WARNINGS, ArmFacts, warnings
from ldpbandits.server.reports.report import MOST_FOLLOWED
from ldpbandits.server.store.sqlite.store import SqliteStore
from ldpbandits.spec.menu import Menu
from ldpbandits.types import Arm

MOST = limits.MOST_ARMS
MANY = MOST_METRIC_ARMS + 100
"""Arms of an experiment of an earlier version, which allowed 10,000."""

NAMES = [f"arm number {number}" for number in range(MANY)]
NEW = {"name": "most", "arms": NAMES[:MOST], "curator": CURATOR, "goal": "earn"}
E = "/v1/experiments/many"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """A server on a database in which an earlier version has stored an experiment of very many arms."""
    path = tmp_path_factory.mktemp("many") / "agent.db"
    menu = Menu.from_json(CURATOR)
    store = SqliteStore(path)
    new = NewExperiment("many", NAMES, CURATOR, goal="earn")
    store.create(define(new, menu, KLUCBPlus(), 0), NAMES)
    store.close()
    made = Local(path)
    yield made
    made.close()


def test_every_view_of_them_has_an_end(many: Local) -> None:
    """Report and tallies have every arm; history and metrics have some, and say how many there are."""
    for _ in range(3):
        assert many.respond(many.decide("many")["ticket"]) == (200, "counted")
    report = many("GET", E, key=VIEWER)
    assert (report.status, len(report.json["arms"])) == (200, MANY)
    assert len(many("GET", f"{E}/tallies", key=VIEWER).json["arms"]) == MANY
    followed = many("GET", f"{E}/history", key=VIEWER).json["arms"]
    assert len(followed) == MOST_FOLLOWED
    assert sum(arm["pulls"][-1] for arm in followed) == report.json["responses"]
    page = many("GET", "/metrics", key=VIEWER).body.decode()
    assert page.count("\nldpbandits_decisions_total{") == MOST_METRIC_ARMS
    assert f"ldpbandits_arms_without_lines {MANY - MOST_METRIC_ARMS}.0" in page


def test_the_console_shows_some_of_them(many: Local) -> None:
    """The page has rows for the arms with the most responses, and a sentence; an arm to ship is named by its number."""
    assert many.respond(many.decide("many")["ticket"]) == (200, "counted")

    async def visit() -> tuple[str, str, str]:
        visitor = browser(many.service)
        await visitor.visit()
        await visitor.submit("sign-in", {"key": ADMIN})
        pages = [
            await visitor.send("GET", f"/console/experiments/many{page}") for page in ("", "/ship", "/report.html")
        ]
        assert [page.status for page in pages] == [200, 200, 200]
        experiment, ship, file = (page.body.decode() for page in pages)
        return experiment, ship, file

    experiment, ship, file = many.do(visit())
    for page in (experiment, file):
        assert MOST_SHOWN <= page.count('<tr role="row" data-key=') <= MOST_SHOWN + 1
        assert f"arms with the most responses. The report has all {MANY:,}:" in page
        assert len(page) < 2_000_000
    assert 'pattern="[0-9]{1,5}"' in ship
    assert "radio" not in ship


def test_one_arm_more_is_refused(many: Local) -> None:
    """The 257th arm is refused in one sentence, whatever the rule: at creation, later, and in a warm start."""
    told = "an experiment has at most 256 arms, retired ones included"
    for rule in (None, {"kind": "thompson"}):
        name = "most" if rule is None else "drawn"
        assert many("POST", "/v1/experiments", {**NEW, "name": name, "rule": rule}).status == 201
        refused = many("POST", f"/v1/experiments/{name}/arms", {"name": "one more"})
        assert (refused.status, refused.json["code"], refused.json["message"]) == (409, "full", told)
        assert many("POST", f"/v1/experiments/{name}/close").status == 200
        assert many("DELETE", f"/v1/experiments/{name}").status == 200
    refused = many("POST", f"{E}/arms", {"name": "one more"})
    assert (refused.status, refused.json["code"], refused.json["message"]) == (409, "full", told)
    refused = many("POST", "/v1/experiments", {**NEW, "name": "more", "arms": NAMES[: MOST + 1]})
    assert (refused.status, refused.json["code"]) == (400, "malformed")
    assert "arms must be a list of 1 to 256" in refused.json["message"]
    known = many("GET", f"{E}/tallies", key=VIEWER).json
    start = {key: known[key] for key in ("curator", "rule", "unit", "arms")}
    refused = many("POST", "/v1/experiments", {**NEW, "name": "warm", "warm_start": start})
    assert (refused.status, refused.json["code"]) == (400, "malformed")
    assert "256" in refused.json["message"]


def test_an_experiment_of_the_largest_size_is_taken(tmp_path: Path) -> None:
    """256 arms of long names come in by HTTP with a warm start of all of them, and the report goes out."""
    names = [f"{number:05} " + "ü" * 94 for number in range(MOST)]
    levels = [0.5, 1, 2, 4]
    by_epsilon = [{"epsilon": epsilon, "pulls": 10**8, "total": 5 * 10**7} for epsilon in levels]
    arms = [{"name": name, "pulls": 4 * 10**8, "total": 2 * 10**8, "by_epsilon": by_epsilon} for name in names]
    curator = {**CURATOR, "epsilon": levels}
    start = {"curator": curator, "arms": arms}
    body = json.dumps({**NEW, "arms": names, "curator": curator, "warm_start": start}).encode()
    assert limits.LARGEST_EXPERIMENT_BYTES // 4 < len(body) < limits.LARGEST_EXPERIMENT_BYTES
    with threaded(tmp_path) as live, live.connect(request("/v1/experiments", key=ADMIN, body=body)) as connection:
        said = reply(connection)
    assert said.startswith(b"HTTP/1.1 201"), said
    assert len(json.loads(said.partition(b"\r\n\r\n")[2])["arms"]) == MOST


def test_warnings_have_an_end() -> None:
    """What is to be said of very many arms is said of some, with how many more there are."""
    known = Estimate("reward", 0.5, 0.0, 1.0, 0.05, 10, fits=False)
    arms = [ArmFacts(f"arm {number}", known, known, True, 10, 0, 0) for number in range(300)]  # noqa: FBT003
    said = warnings(arms)
    assert len(said) == MOST_WARNINGS + 1
    assert said[-1] == "and the same of 280 more arms"


def test_a_warm_up_visits_each_arm_once() -> None:
    """It lasts until the last of the first arms has its responses, and no arm that has them is visited again."""
    visits = Counter[int]()

    class Arms(list[ArmTally]):
        def __getitem__(self, place: Any) -> Any:
            visits[place] += 1
            return super().__getitem__(place)

    tally, rails = Tally([ArmTally(pulls=1) for _ in range(MANY)]), Guardrails(Settings(0, warm_up=1, first_arms=MANY))
    tally.replace(Arm(MANY - 1), 0, 0.0)
    tally.arms = Arms(tally.arms)
    assert all(len(rails.among(tally) or ()) == 1 for _ in range(100))
    assert max(visits[place] for place in range(MANY - 1)) == 1
    tally.replace(Arm(MANY - 1), 1, 0.0)
    assert rails.among(tally) is None
