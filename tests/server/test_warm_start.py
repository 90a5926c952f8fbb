"""An experiment may start from what another one knows: the tallies that it exports."""

import random
from pathlib import Path
from typing import Any

import pytest
from tests.server.local import CURATOR, NEW, Local

MENU = {"mechanism": "bernoulli", "epsilon": [0.5, 1, 4]}
LAPLACE = {"mechanism": "laplace", "epsilon": 0.5}
"""Its default rule reads responses in a way of its own: it clips them."""

SAME = ("name", "pulls", "mean", "low", "high", "fits")


def start(local: Local, name: str, curator: Any = CURATOR, **more: Any) -> Any:
    """Create an experiment; return its report."""
    made = local("POST", "/v1/experiments", {**NEW, "name": name, "curator": curator, **more})
    assert made.status == 201, made
    return made.json


def play(local: Local, name: str, rounds: int, curator: Any = CURATOR, seed: int = 1) -> list[int]:
    """Answer so many decisions; return which arms were handed out."""
    rng, handed = random.Random(seed), []
    for _ in range(rounds):
        decision = local.decide(name)
        handed.append(decision["arm"])
        epsilon = curator["epsilon"]
        more = {"epsilon": rng.choice(epsilon)} if isinstance(epsilon, list) else {}
        bit = float(rng.random() < (0.3, 0.7)[decision["arm"] % 2])
        noise = round(rng.gauss(0, 2) * 2**20) / 2**20 if curator is LAPLACE else 0
        assert local.respond(decision["ticket"], bit + noise, **more) == (200, "counted")
    return handed


def tallies(local: Local, name: str) -> Any:
    """Return what it exports."""
    return local("GET", f"/v1/experiments/{name}/tallies").json


def refused(local: Local, warm_start: Any, **more: Any) -> str:
    """Return why an experiment cannot start from this."""
    reply = local("POST", "/v1/experiments", {**NEW, "name": "next", "warm_start": warm_start, **more})
    assert (reply.status, reply.json["code"]) == (422, "invalid"), reply
    assert local("GET", "/v1/experiments/next").status == 404
    message: str = reply.json["message"]
    return message


@pytest.mark.parametrize("curator", [CURATOR, MENU, LAPLACE], ids=["bits", "menu", "laplace"])
def test_tallies_of_one_experiment_start_another(tmp_path: Path, curator: Any) -> None:
    """It then has the same estimates, tallies and decisions, also after a restart; and goes on from there."""
    local = Local(tmp_path / "agent.db")
    start(local, "first", curator)
    play(local, "first", 60, curator)
    known = tallies(local, "first")
    second = start(local, "second", curator, warm_start=known)
    for restarted in (False, True):
        if restarted:
            local.close()
            local = Local(tmp_path / "agent.db")
            second = local("GET", "/v1/experiments/second").json
        first = local("GET", "/v1/experiments/first").json
        assert [[arm[key] for key in SAME] for arm in second["arms"]] == [
            [arm[key] for key in SAME] for arm in first["arms"]
        ]
        assert {**tallies(local, "second"), "name": "first"} == known
        assert second["settings"]["warm_pulls"] == [row["pulls"] for row in known["arms"]]
        one, other = (local.service.experiments[name].agent.tally for name in ("first", "second"))
        assert (one.means, one.pulls, one.t, one.cells) == (other.means, other.pulls, other.t, other.cells)
    assert play(local, "second", 40, curator, seed=2) == play(local, "first", 40, curator, seed=2)
    assert {**tallies(local, "second"), "name": "first"} == tallies(local, "first")
    local.close()


def test_what_was_brought_is_neither_decided_nor_missing_nor_exported(tmp_path: Path) -> None:
    """Decisions, missing answers and rows of the export are the experiment's own, also after a restart."""
    local = Local(tmp_path / "agent.db")
    start(local, "first")
    play(local, "first", 30)
    start(local, "second", warm_start=tallies(local, "first"))
    play(local, "second", 5)
    assert local("POST", "/v1/acceptances", {"ticket": local.decide("second")["ticket"]}, key=None).status == 200
    for restarted in (False, True):
        if restarted:
            local.close()
            local = Local(tmp_path / "agent.db")
        arms = local("GET", "/v1/experiments/second").json["arms"]
        sums = [sum(arm[key] for arm in arms) for key in ("pulls", "decisions", "pending", "missing")]
        assert sums == [35, 6, 1, 0]
        assert local("GET", "/v1/experiments/second/responses.csv").body.count(b"\n") == 6
        metrics = local("GET", "/metrics").body.decode().splitlines()
        counted = [line for line in metrics if line.startswith("ldpbandits_pulls_total{") and '"second"' in line]
        assert sum(float(line.split()[-1]) for line in counted) == 5
    local.now.seconds += 3600
    arms = local("GET", "/v1/experiments/second").json["arms"]
    assert sum(arm["missing"] for arm in arms) == 1
    local.close()


def test_arms_are_matched_by_their_names(local: Local) -> None:
    """In any order; an arm that is new starts from nothing, and one that is left out is forgotten."""
    start(local, "first", arms=["a", "b", "c"])
    play(local, "first", 30)
    known = tallies(local, "first")
    pulls = {row["name"]: row["pulls"] for row in known["arms"]}
    second = start(local, "second", arms=["new", "c", "a"], warm_start=known)
    assert [arm["pulls"] for arm in second["arms"]] == [0, pulls["c"], pulls["a"]]
    assert second["settings"]["warm_pulls"] == [0, pulls["c"], pulls["a"]]
    added = local("POST", "/v1/experiments/second/arms", {"name": "b"}).json
    assert added["arms"][3]["pulls"] == 0


def test_what_was_brought_counts_for_the_warm_up(local: Local) -> None:
    """Arms that are known well enough need no equal traffic."""
    start(local, "first", warm_up=40)
    play(local, "first", 200)
    second = start(local, "second", warm_up=40, warm_start=tallies(local, "first"))
    assert min(arm["pulls"] for arm in second["arms"]) >= 40
    assert play(local, "second", 20).count(1) == 20


def test_a_few_numbers_are_enough(local: Local) -> None:
    """Curator, names, pulls and totals; whole numbers may have a point."""
    known = {"curator": CURATOR, "arms": [{"name": "green", "pulls": 10.0, "total": 7.0}]}
    made = start(local, "second", warm_start=known)
    assert [arm["pulls"] for arm in made["arms"]] == [0, 10]
    assert [row["total"] for row in tallies(local, "second")["arms"]] == [0, 7]


def test_the_largest_experiment_can_be_taken_over(local: Local) -> None:
    """256 arms with long names, eight epsilons each."""
    curator = {"mechanism": "bernoulli", "epsilon": [1, 2, 3, 4, 5, 6, 7, 8]}
    arms = [f"{number:03}{'ü' * 97}" for number in range(256)]
    start(local, "first", curator, arms=arms)
    ticket = local.decide("first")["ticket"]
    assert local.respond(ticket, 1, epsilon=3) == (200, "counted")
    second = start(local, "second", curator, arms=arms, warm_start=tallies(local, "first"))
    assert second["responses"] == 1


def row(**changes: Any) -> Any:
    """Return tallies of one arm, with changes."""
    return {"curator": CURATOR, "arms": [{"name": "blue", "pulls": 5, "total": 3, **changes}]}


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ({**row(), "curator": {**CURATOR, "epsilon": 2}}, "must be of the experiment's own curator"),
        ({**row(), "curator": {**CURATOR, "epsilon": [1, 2]}}, "must be of the experiment's own curator"),
        (
            {**row(), "curator": {**CURATOR, "transform": {"kind": "sigmoid"}}},
            "must be of the experiment's own curator",
        ),
        ({**row(), "curator": LAPLACE}, 'got {"mechanism": "laplace"'),
        ({**row(), "curator": {}}, "mechanism"),
        ({**row(), "unit": 0.5}, "warm_start.unit must be that of the curator, 1.0, got 0.5"),
        ({**row(), "arms": []}, "warm_start must know an arm of the experiment, 'blue, green'; it has ''"),
        (row(name="red"), "warm_start must know an arm of the experiment, 'blue, green'; it has 'red'"),
        ({**row(), "arms": row()["arms"] * 2}, "the arms of warm_start must have different names"),
        (row(total=6), "warm_start's arm 'blue': 5 responses sum to 0 at least and 5 at most, got 6"),
        (row(total=-1), "5 responses sum to 0 at least and 5 at most, got -1"),
        (row(pulls=0), "0 responses sum to 0 at least and 0 at most, got 3"),
        (row(pulls=10**10), "must have at most 1000000000 pulls, got 10000000000"),
        (row(pulls=1e300), "must have at most 1000000000 pulls"),
        (row(by_epsilon=[{"epsilon": 2, "pulls": 5, "total": 3}]), "must have by_epsilon of 1, in this order"),
        (row(by_epsilon=[{"epsilon": 1, "pulls": 4, "total": 3}]), "that its by_epsilon add up to, 4 and 3"),
        (row(by_epsilon=[{"epsilon": 1, "pulls": 5, "total": 2}]), "that its by_epsilon add up to, 5 and 2"),
    ],
)
def test_tallies_that_cannot_be_are_refused_in_a_sentence(local: Local, known: Any, told: str) -> None:
    """422, and nothing is created."""
    assert told in refused(local, known)


def test_a_menu_needs_the_numbers_of_each_epsilon(local: Local) -> None:
    """Totals over several epsilons tell nothing."""
    told = refused(local, {**row(), "curator": MENU}, curator=MENU)
    assert told == "warm_start's arm 'blue' must have by_epsilon of 0.5, 1, 4, in this order"


def test_a_rule_that_reads_responses_in_its_own_way_needs_what_it_has_read(local: Local) -> None:
    """Another rule that reads them in the same way will do; one that reads them otherwise will not."""
    start(local, "first", LAPLACE)
    play(local, "first", 20, LAPLACE)
    known = tallies(local, "first")
    assert known["rule"]["kind"] == "kl-ucb++-laplace-clip"
    assert all(isinstance(arm["read"], int) for arm in known["arms"])
    start(local, "same", LAPLACE, rule={"kind": "imed-laplace-clip", "epsilon": 0.5}, warm_start=known)
    assert [arm["read"] for arm in tallies(local, "same")["arms"]] == [arm["read"] for arm in known["arms"]]
    start(local, "as-they-are", LAPLACE, rule={"kind": "imed-laplace", "epsilon": 0.5}, warm_start=known)
    plain = tallies(local, "as-they-are")
    assert [arm["read"] for arm in plain["arms"]] == [None, None]
    why = "its readings cannot be computed from totals"
    assert refused(local, plain, curator=LAPLACE) == (
        f"kl-ucb++-laplace-clip cannot start from the readings of imed-laplace: {why}"
    )
    bit = {"kind": "imed-laplace-bit", "epsilon": 0.5}
    assert why in refused(local, known, curator=LAPLACE, rule=bit)
    without = {key: value for key, value in known.items() if key != "rule"}
    assert "warm_start needs the rule that has read the responses" in refused(local, without, curator=LAPLACE)
    for read in (None, 1 << 63):
        rows = [{**arm, "read": read} for arm in known["arms"]]
        assert "must have in read" in refused(local, {**known, "arms": rows}, curator=LAPLACE)
