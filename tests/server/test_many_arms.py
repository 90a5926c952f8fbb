"""Ten thousand arms: decisions take no longer for them, and everything that shows them has an end."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import thread_time

import pytest
from tests.server.console.browsing import browser
from tests.server.local import ADMIN, CURATOR, VIEWER, Local
from tests.server.threaded import reply, request, threaded

from ldpbandits.agent.estimates import Estimate
from ldpbandits.agent.kernels import Index, Parameters
from ldpbandits.agent.rules import IMED, KLUCB, UCB, KLUCBPlus, Rule, Thompson, ldp_ucb_b
from ldpbandits.agent.tally import ArmTally, Tally
from ldpbandits.errors import SpecError
from ldpbandits.server.console.words import MOST_SHOWN
from ldpbandits.server.experiments import limits
from ldpbandits.server.experiments.guardrails import Guardrails
from ldpbandits.server.experiments.settings import Settings
from ldpbandits.server.reports.conclusions import MOST_WARNINGS, ArmFacts, warnings
from ldpbandits.server.reports.report import MOST_FOLLOWED
from ldpbandits.spec.menu import Menu
from ldpbandits.types import Arm

MANY = limits.MOST_ARMS
NAMES = [f"arm number {number}" for number in range(MANY)]
NEW = {"name": "many", "arms": NAMES, "curator": CURATOR}
E = "/v1/experiments/many"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """A server with an experiment of ten thousand arms."""
    made = Local(tmp_path_factory.mktemp("many") / "agent.db")
    assert made("POST", "/v1/experiments", NEW).status == 201
    yield made
    made.close()


def test_a_decision_takes_less_than_a_millisecond(many: Local) -> None:
    """Among ten thousand arms an arm is handed out, and its response counted, in less than a millisecond of work."""
    taken = []
    for turn in range(300):
        start = thread_time()
        decision = many.service.decide("many")
        taken.append(thread_time() - start)
        if turn % 3:
            assert many.respond(decision.ticket or "", turn % 2) == (200, "counted")
    assert median(taken) < 0.001


def test_what_is_shown_of_them_has_an_end(many: Local) -> None:
    """Report and tallies have every arm; history, console and metrics have some, and say how many there are."""
    for _ in range(3):
        assert many.respond(many.decide("many")["ticket"]) == (200, "counted")
    report = many("GET", E, key=VIEWER)
    assert (report.status, len(report.json["arms"])) == (200, MANY)
    assert len(many("GET", f"{E}/tallies", key=VIEWER).json["arms"]) == MANY
    followed = many("GET", f"{E}/history", key=VIEWER).json["arms"]
    assert len(followed) == MOST_FOLLOWED
    assert sum(arm["pulls"][-1] for arm in followed) == report.json["responses"]
    page = many("GET", "/metrics", key=VIEWER).body.decode()
    assert page.count("\nldpbandits_decisions_total{") == 1000
    assert "ldpbandits_arms_without_lines 9000.0" in page


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
        assert "Of 10,000 arms, those with the most responses are shown." in page
        assert len(page) < 2_000_000
    assert 'pattern="[0-9]{1,5}"' in ship
    assert "radio" not in ship


def test_one_arm_more_is_refused(many: Local) -> None:
    """The ten thousand and first arm is refused, with the rule in a line; so is an experiment of so many."""
    refused = many("POST", f"{E}/arms", {"name": "one more"})
    assert (refused.status, refused.json["code"]) == (409, "full")
    assert refused.json["message"] == "an experiment has at most 10000 arms, retired ones included"
    refused = many("POST", "/v1/experiments", {**NEW, "name": "more", "arms": [*NAMES, "one more"]})
    assert (refused.status, refused.json["code"]) == (400, "malformed")
    drawn = {**NEW, "name": "drawn", "rule": {"kind": "thompson"}}
    refused = many("POST", "/v1/experiments", drawn)
    assert (refused.status, refused.json["code"]) == (422, "invalid")
    told = "an experiment has at most 1000 arms with a rule that draws, retired ones included"
    assert refused.json["message"] == told


@dataclass(frozen=True)
class Plain:
    """A rule that declares nothing of how its index moves."""

    @property
    def index(self) -> Index:
        """That of UCB."""
        return UCB(1.0).index

    @property
    def parameters(self) -> Parameters:
        """As above."""
        return UCB(1.0).parameters

    @property
    def floor(self) -> float:
        """As above."""
        return 0.0


@pytest.mark.parametrize(
    ("rule", "curator", "ramp", "most"),
    [
        (ldp_ucb_b(), CURATOR, False, 10_000),
        (KLUCB(), CURATOR, False, 10_000),
        (KLUCBPlus(), {**CURATOR, "epsilon": [1, 2]}, False, 10_000),
        (IMED(), CURATOR, False, 10_000),
        (Thompson(), CURATOR, False, 1_000),
        (Thompson(), {**CURATOR, "epsilon": [1, 2]}, False, 256),
        (Plain(), CURATOR, False, 256),
        (IMED(), CURATOR, True, 256),
    ],
)
def test_rules_that_look_at_every_arm_have_fewer(rule: Rule, curator: object, ramp: bool, most: int) -> None:  # noqa: FBT001
    """How many arms there may be depends on how a rule chooses among them, and the refusal says which it is."""
    menu = Menu.from_json(curator)
    limits.check_arms(most, rule, menu, has_ramp=ramp)
    with pytest.raises(SpecError, match=f"at most {most} arms.*, retired ones included$") as refused:
        limits.check_arms(most + 1, rule, menu, has_ramp=ramp)
    assert (most == limits.MOST_ARMS) == (" with a " not in str(refused.value))


def test_an_experiment_of_the_largest_size_is_taken(tmp_path: Path) -> None:
    """Ten thousand arms of long names come in by HTTP, and the report goes out."""
    names = [f"{number:05} " + "ü" * 94 for number in range(MANY)]
    body = json.dumps({**NEW, "arms": names}).encode()
    assert limits.LARGEST_EXPERIMENT_BYTES // 2 < len(body) < limits.LARGEST_EXPERIMENT_BYTES
    with threaded(tmp_path) as live, live.connect(request("/v1/experiments", key=ADMIN, body=body)) as connection:
        said = reply(connection)
    assert said.startswith(b"HTTP/1.1 201")
    assert len(json.loads(said.partition(b"\r\n\r\n")[2])["arms"]) == MANY


def test_warnings_have_an_end() -> None:
    """What is to be said of very many arms is said of some, with how many more there are."""
    known = Estimate("reward", 0.5, 0.0, 1.0, 0.05, 10, fits=False)
    arms = [ArmFacts(f"arm {number}", known, known, True, 10, 0, 0) for number in range(300)]  # noqa: FBT003
    said = warnings(arms)
    assert len(said) == MOST_WARNINGS + 1
    assert said[-1] == "and the same of 280 more arms"


def test_a_warm_up_passes_an_arm_once() -> None:
    """It goes on until the last of the first arms has its responses, and looks at none again that has them."""
    arms = [ArmTally(pulls=1) for _ in range(MANY)]
    tally, rails = Tally(arms), Guardrails(Settings(0, warm_up=1, first_arms=MANY))
    tally.replace(Arm(MANY - 1), 0, 0.0)
    start = thread_time()
    assert all(len(rails.among(tally) or ()) == 1 for _ in range(1000))
    assert thread_time() - start < 1
    tally.replace(Arm(MANY - 1), 1, 0.0)
    assert rails.among(tally) is None
