"""Every verb of an experimenter, against a real server."""

import inspect
import io
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.server.running import Running

from ldpbandits import (
    IMED,
    UCB,
    Admin,
    ArmError,
    CuratorSpec,
    Menu,
    ParameterError,
    Range,
    ServerError,
    Sigmoid,
    Threshold,
)
from ldpbandits.server.api.messages import NewExperiment
from ldpbandits.spec.mechanisms import Laplace
from ldpbandits.spec.messages import Expectation, Ramp

NUMBERS = count()


@pytest.fixture
def name() -> str:
    """A name that no other test has taken."""
    return f"test-{next(NUMBERS)}"


def answer(server: Running, name: str, *responses: float) -> None:
    """Let devices answer."""
    for response in responses:
        assert server.respond(server.decide(name)["ticket"], response).status == 200


def test_an_experiment_from_its_beginning_to_its_end(admin: Admin, server: Running, name: str) -> None:
    """Each verb does what it says, and returns what it led to."""
    made = admin.create(name, ["blue", "green"], epsilon=1, goal="earn")
    assert (made.name, made.status, made.responses, made.best) == (name, "running", 0, None)
    assert [(arm.arm, arm.name, arm.retired) for arm in made.arms] == [(0, "blue", False), (1, "green", False)]
    answer(server, name, 0, 1, 1)
    shown = admin.show(name)
    assert shown.responses == 3
    assert shown.best is not None
    assert shown.arm(shown.best.arm).name == shown.best.name
    assert admin.pause(name).status == "paused"
    assert admin.resume(name).status == "running"
    assert [arm.name for arm in admin.add_arm(name, "red").arms] == ["blue", "green", "red"]
    assert admin.retire_arm(name, "red").arm("red").retired
    assert admin.retire_arm(name, 0).arm(0).retired
    shipped = admin.ship(name, "green")
    assert (shipped.status, shipped.shipped) == ("shipped", 1)
    assert server.decide(name)["ticket"] is None
    assert admin.resume(name).shipped is None
    assert admin.ship(name, 1).shipped == 1
    assert admin.close(name).status == "closed"
    assert name in [each.name for each in admin.list()]
    gone = admin.delete(name)
    assert (gone.name, gone.status, gone.arms, gone.responses) == (name, "closed", 3, 3)
    assert name not in [each.name for each in admin.list()]


def test_a_refusal_is_the_servers_sentence(admin: Admin, name: str) -> None:
    """With its code, for whatever verb; an arm that is not there is told by those that are."""
    with pytest.raises(ServerError, match=r"the server refuses \(404\): there is no experiment named") as caught:
        admin.pause(name)
    assert (caught.value.status, caught.value.code) == (404, "not_found")
    admin.create(name, ["blue"], epsilon=1)
    with pytest.raises(ServerError, match=f"there is already an experiment {name}"):
        admin.create(name, ["blue"], epsilon=1)
    with pytest.raises(ServerError, match=r"has no such arm; it has 0 \(blue\)"):
        admin.ship(name, "red")
    with pytest.raises(ArmError, match=rf"the experiment {name} has no arm 'red'; it has 0 \(blue\)"):
        admin.retire_arm(name, "red")
    with pytest.raises(ServerError, match="the last arm cannot be retired"):
        admin.retire_arm(name, "blue")


@pytest.mark.parametrize("odd", ["", ".", ".."])
def test_a_name_that_is_a_path_of_its_own_is_refused(admin: Admin, odd: str) -> None:
    """`delete` of nothing in particular is not a question about all."""
    with pytest.raises(ParameterError, match="an experiment is given by its name"):
        admin.delete(odd)
    with pytest.raises(ServerError, match="404"):
        admin.show("a/../b")


def test_who_only_reads_needs_the_viewer_key_alone(admin: Admin, server: Running, name: str) -> None:
    """And can change nothing."""
    admin.create(name, ["blue"], epsilon=1)
    viewer = Admin(server.url, server.keys["viewer"])
    assert viewer.show(name) == admin.show(name)
    assert viewer.tallies(name) == admin.tallies(name)
    assert viewer.export(name, io.BytesIO()) == 0
    assert name in [each.name for each in viewer.list()]
    with pytest.raises(ServerError, match=r"the server refuses \(403\): this needs the admin key"):
        viewer.pause(name)


def test_all_that_can_be_set_arrives(admin: Admin, name: str) -> None:
    """Each keyword of `create` is in the report."""
    made = admin.create(
        name,
        ["blue", "green"],
        epsilon=2,
        rewards=Range(1, 5),
        rule="imed",
        report_after=60,
        sticky=86_400,
        ticket_lifetime=7_200,
        default_reward=2,
        minimum_share=0.1,
        warm_up=50,
        ramp=Ramp(0.2, 100),
        stop_when_separated="pause",
        accept_drift_risk=True,
        forged=0.01,
        worth=0.1,
        harm=0.2,
        control="green",
        may_add_arms=False,
        missing="worst",
    )
    assert made.curator["epsilon"] == 2.0
    assert made.curator["transform"] == {"kind": "range", "low": 1.0, "high": 5.0}
    assert made.rule == {"kind": "imed"}
    assert (made.ticket_lifetime, made.default_reward) == (7_200, 2)
    settings = made.settings
    assert (settings.report_after, settings.sticky) == (60, 86_400)
    assert (settings.minimum_share, settings.warm_up) == (0.1, 50)
    assert settings.ramp == Ramp(0.2, 100)
    assert (settings.stop_when_decided, settings.goal) == ("pause", "earn")
    assert (settings.forged, settings.worth, settings.harm, settings.control) == (0.01, 0.1, 0.2, 1)
    assert (settings.may_add_arms, settings.accept_drift_risk, settings.missing) == (False, True, "worst")
    planned = admin.create(f"{name}-planned", ["blue", "green"], epsilon=[0.5, 2], expect=Expectation(0.2, 0.05))
    assert (planned.curator["epsilon"], planned.settings.expect) == ([0.5, 2.0], Expectation(0.2, 0.05))


def test_create_takes_all_that_a_server_does() -> None:
    """A setting that the server gets is not forgotten here. The parts of a curator are given one by one."""
    ours = set(inspect.signature(Admin.create).parameters) - {"self", "epsilon", "rewards", "mechanism"}
    servers = {field.name for field in msgspec.structs.fields(NewExperiment)}
    assert ours == servers


@pytest.mark.parametrize(
    ("given", "mechanism", "transform"),
    [
        ({"epsilon": 1}, "bernoulli", {"kind": "range", "low": 0.0, "high": 1.0}),
        ({"epsilon": 1, "rewards": Sigmoid()}, "bernoulli", {"kind": "sigmoid"}),
        ({"epsilon": 1, "rewards": {"kind": "sigmoid"}}, "bernoulli", {"kind": "sigmoid"}),
        ({"epsilon": 1, "mechanism": "laplace", "rewards": Threshold(3)}, "laplace", {"kind": "threshold", "theta": 3}),
        ({"curator": CuratorSpec(Laplace(1.0))}, "laplace", {"kind": "range", "low": 0.0, "high": 1.0}),
        ({"curator": Menu.of(CuratorSpec(Laplace(1.0), Sigmoid()))}, "laplace", {"kind": "sigmoid"}),
        ({"curator": {"mechanism": "laplace", "epsilon": 1}}, "laplace", {"kind": "range", "low": 0.0, "high": 1.0}),
    ],
)
def test_a_curator_is_given_by_its_parts_or_as_a_whole(
    admin: Admin, name: str, given: dict[str, Any], mechanism: str, transform: dict[str, Any]
) -> None:
    """As objects, or as JSON."""
    curator = admin.create(name, ["blue"], **given).curator
    assert (curator["mechanism"], curator["epsilon"], curator["transform"]) == (mechanism, 1.0, transform)


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        (None, "duels"),
        ("paper", "ucb"),
        ("imed", "imed"),
        (IMED(), "imed"),
        (UCB(0.5), "ucb"),
        ({"kind": "imed"}, "imed"),
    ],
)
def test_a_rule_is_an_object_its_json_or_its_kind(admin: Admin, name: str, rule: Any, kind: str) -> None:
    """Without one, it is the server's default."""
    assert admin.create(name, ["blue"], epsilon=1, rule=rule).rule["kind"] == kind


@pytest.mark.parametrize(
    ("arms", "given", "told"),
    [
        ("blue", {"epsilon": 1}, "arms is a list of names, got 'blue'"),
        (["blue"], {}, "give epsilon"),
        (["blue"], {"epsilon": 1, "curator": {}}, "give epsilon"),
        (["blue"], {"curator": {}, "rewards": Range(0, 1)}, "rewards and mechanism are part of the curator"),
    ],
)
def test_what_makes_no_sense_is_refused_here(arms: Any, given: dict[str, Any], told: str) -> None:
    """Nothing is sent: nobody is at this address."""
    with pytest.raises(ParameterError, match=told):
        Admin("http://127.0.0.1:9", "key").create("x", arms, **given)


def test_tallies_are_exact(admin: Admin, server: Running, name: str) -> None:
    """Pulls and totals of each arm, and by epsilon."""
    admin.create(name, ["blue"], epsilon=1)
    answer(server, name, 1, 0, 1)
    tallies = admin.tallies(name)
    (row,) = tallies.arms
    assert (tallies.unit, row.pulls, row.total) == (1.0, 3, 2)
    assert [(each.epsilon, each.pulls, each.total) for each in row.by_epsilon] == [(1.0, 3, 2)]


def test_an_experiment_starts_from_the_tallies_of_another(admin: Admin, server: Running, name: str) -> None:
    """As they are returned, or as JSON; it knows the same of its arms."""
    admin.create(name, ["blue"], epsilon=1)
    answer(server, name, 1, 0, 1)
    tallies = admin.tallies(name)
    forms: tuple[Any, ...] = (tallies, tallies.to_json())
    for number, given in enumerate(forms):
        made = admin.create(f"{name}-next-{number}", ["blue", "green"], epsilon=1, warm_start=given)
        assert (made.responses, made.arm("blue").warm_pulls, made.arm("green").pulls) == (3, 3, 0)
        assert made.arm("blue").mean == admin.show(name).arm("blue").mean


def test_a_history_ends_now(admin: Admin, server: Running, name: str) -> None:
    """Estimates over responses, the last of which are those of the report."""
    admin.create(name, ["blue"], epsilon=1)
    answer(server, name, 1, 0, 1, 1)
    history, shown = admin.history(name), admin.show(name)
    (arm,), (now,) = history.arms, shown.arms
    assert history.responses[-1] == shown.responses == 4
    assert (arm.pulls[-1], arm.mean[-1], arm.low[-1], arm.high[-1]) == (4, now.mean, now.low, now.high)


def test_an_export_has_every_response(admin: Admin, server: Running, name: str, tmp_path: Path) -> None:
    """Into a file by its path, or into one that is open; those who watch are told how many there are."""
    admin.create(name, ["blue"], epsilon=1)
    answer(server, name, 1, 0, 1)
    told: list[int] = []
    path, file = tmp_path / "new" / "out.csv", io.BytesIO()
    assert admin.export(name, path, progress=told.append) == 3
    assert admin.export(name, str(path), in_order=True) == 3
    assert admin.export(name, file, in_order=True) == 3
    assert path.read_bytes() == file.getvalue()
    assert len(file.getvalue().splitlines()) == 4
    assert told[-1] == 3
    with pytest.raises(ServerError, match="there is no experiment named"):
        admin.export("none", tmp_path / "none.csv")
    assert not (tmp_path / "none.csv").exists()


def test_what_has_no_verb_can_be_asked(admin: Admin) -> None:
    """As JSON, with the same errors."""
    assert admin.ask("GET", "/healthz") == {"status": "ok"}


def test_it_needs_nothing_but_python(server: Running) -> None:
    """Without numpy, pandas, matplotlib and all that a server needs, an experiment is steered and shown."""
    script = f"""
import sys
for name in ("numpy", "numba", "scipy", "rich", "matplotlib", "pandas", "starlette", "msgspec", "uvicorn"):
    sys.modules[name] = None
from ldpbandits import Admin, MissingExtra
admin = Admin({server.url!r}, {server.keys["admin"]!r})
print(admin.create("alone", ["blue", "green"], epsilon=1, goal="earn"))
for ask in (admin.show("alone").plot, admin.show("alone").to_frame):
    try:
        ask()
    except MissingExtra as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("alone: running; 0 responses at epsilon = 1, by kl-ucb++\n")
    assert done.stdout.endswith(
        "plot needs matplotlib: pip install '.[lab]' in the source folder\nto_frame needs pandas: pip install pandas\n"
    )
