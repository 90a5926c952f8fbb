"""What docs/extending.md and the pages that it lists show, runs: in agents, on a live server and in simulations.

The page's files are written to a folder outside of `src`, and nothing in `src` knows of them.
"""

import json
import os
import random
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.server.running import HEADLINE, Running, running
from tests.server.store_contract import CONTRACT
from tests.server.store_contract import Rule as StorePromise
from tests.spec.kind_contract import (
    CURATOR_CONTRACT,
    RULE_CONTRACT,
    CuratorPromise,
    RulePromise,
    moves_as_it_declares,
)

from ldpbandits import (
    Agent,
    Client,
    CuratorSpec,
    Ledger,
    Limits,
    ParameterError,
    Range,
    ServerError,
    estimate,
    paper_rule,
)
from ldpbandits.agent.bounded_argmax import Moves
from ldpbandits.agent.inference.mechanisms import INFERENCES
from ldpbandits.agent.rules import RULES, rule_to_json
from ldpbandits.cli import COMMANDS, main, parser
from ldpbandits.device.curators import CURATORS, curator_from_json
from ldpbandits.device.randomness import Draw, exp_bounds
from ldpbandits.lab import Algorithm, Experiment, simulate, with_rule
from ldpbandits.lab.engine.channels import CHANNELS, Channel
from ldpbandits.lab.play import Curve
from ldpbandits.lab.results import Folder
from ldpbandits.lab.rewards import Law, parse_arms
from ldpbandits.spec.mechanisms import MECHANISMS
from ldpbandits.spec.transforms import TRANSFORMS

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("extending.md", "own-rule.md", "own-mechanism.md", "own-store.md")
PAGE = "\n".join((DOCS / name).read_text(encoding="utf-8") for name in PAGES)
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
FILES = {found[1]: block for block in BLOCKS if (found := re.match(r"# (\w+\.py)\n", block))}
SNIPPETS = [block for block in BLOCKS if block not in FILES.values()]
TOML = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
COMMAND_LINES = re.findall(r"^    ((?:ldpbandits|python) .*)$", PAGE, flags=re.MULTILINE)
MODULES = ("my_rule", "my_transform", "my_mechanism", "my_levels_inference")
"""The modules that a server loads: the public half of each kind, and what an agent computes from it."""

TRUTH = {"blue": 0.25, "green": 1.0}
"""How often each arm's reward reaches the level."""


@contextmanager
def apart(folder: Path) -> Iterator[None]:
    """Import modules from a folder; at the end forget them, and all that they registered."""
    kept: list[tuple[dict[Any, Any], dict[Any, Any]]] = [
        (table, dict(table))
        for table in (MECHANISMS._types, TRANSFORMS._types, RULES._types, CURATORS._by_mechanism, CHANNELS, INFERENCES)
    ]
    names = {Path(name).stem for name in FILES}
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in names:
            sys.modules.pop(name, None)
        for table, before in kept:
            table.clear()
            table.update(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the page."""
    made = tmp_path_factory.mktemp("page")
    for name, text in FILES.items():
        (made / name).write_text(text, encoding="utf-8")
    (made / "mine.toml").write_text(TOML[0], encoding="utf-8")
    return made


@pytest.fixture
def page(folder: Path) -> Iterator[dict[str, ModuleType]]:
    """The modules of the page, imported; after the test they are gone."""
    with apart(folder):
        yield {Path(name).stem: import_module(Path(name).stem) for name in FILES}


@pytest.fixture
def environment(root: Path, folder: Path) -> dict[str, str]:
    """The environment of another process, which runs this very package and finds the files of the page."""
    places = [str(folder), str(root / "src"), str(root), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, places))}


def run_command(arguments: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run Python in the folder of the page."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_page_has_one_of_each() -> None:
    """A rule, a transform, two mechanisms, a store, a command, and how each is used."""
    assert set(FILES) == {
        "my_rule.py", "my_fast_rule.py", "my_transform.py", "my_mechanism.py",
        "my_curator.py", "my_levels.py", "my_levels_inference.py", "my_levels_curator.py",
        "my_levels_channel.py", "my_store.py", "test_my_store.py", "my_command.py",
    }  # fmt: skip
    assert len(SNIPPETS) == 4
    assert len(TOML) == 1


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_python_blocks_run(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Each block that is no file runs by itself, beside the files, and prints something."""
    exec(compile(SNIPPETS[number], f"docs/extending.md, snippet {number}", "exec"), {})  # noqa: S102 - our own page
    assert capsys.readouterr().out


def test_the_files_are_of_our_types(root: Path, folder: Path, tmp_path: Path) -> None:
    """mypy --strict takes a rule, a mechanism, a transform and a store of the page for ours, and can say no."""
    uses = """
from my_levels import Levels
from my_mechanism import Warner
from my_rule import Moss
from my_store import FileStore
from my_transform import AtLeast

from ldpbandits import Agent, CuratorSpec, Mechanism, Rule, Transform
from ldpbandits.server.service import Service

rule: Rule = Moss(width=0.8)
transform: Transform = AtLeast(at=1.0)
mechanisms: list[Mechanism] = [Warner(epsilon=1.0), Levels(epsilon=1.0, levels=3)]
agent = Agent(rule, arms=2)

def serve(store: FileStore) -> Service:
    return Service(store)
"""
    (folder / "uses.py").write_text(uses, encoding="utf-8")
    (folder / "abuses.py").write_text(f"{uses}\nagent = Agent(transform, arms=2)\n", encoding="utf-8")
    options = ["--strict", f"--config-file={root / 'pyproject.toml'}", f"--cache-dir={tmp_path}"]
    options += ["--no-error-summary", "--no-pretty", "--follow-imports=silent"]
    found = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *FILES, "uses.py", "abuses.py"],
        cwd=folder,
        env={"MYPYPATH": f"{root / 'src'}:{root}", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert found.stderr == ""
    (line,) = [line for line in found.stdout.splitlines() if ": error: " in line]
    assert line.startswith("abuses.py:")
    assert 'Argument 1 to "Agent" has incompatible type "Transform"; expected "Rule"' in line


@pytest.mark.parametrize("promise", RULE_CONTRACT, ids=lambda promise: promise.__name__)
def test_the_rule_keeps_the_contract(page: dict[str, ModuleType], promise: RulePromise) -> None:
    """The page's rule keeps every promise of ours."""
    promise(page["my_rule"].Moss(width=0.8))


def test_the_fast_rule_moves_as_it_declares(page: dict[str, ModuleType]) -> None:
    """It chooses as by a look at every arm, and with a declaration that does not hold it would not."""
    fast = page["my_fast_rule"].FastMoss
    moves_as_it_declares(fast(width=0.8))
    wrong: Any = dataclass(frozen=True)(type("Wrong", (fast,), {"moves": Moves.AGAINST_BEST}))
    with pytest.raises(AssertionError):
        moves_as_it_declares(wrong(width=0.8))


SPECS = {
    "warner": {"mechanism": "warner", "epsilon": 1.0},
    "warner behind a level": {
        "mechanism": "warner",
        "epsilon": 0.5,
        "transform": {"kind": "at-least", "at": 10.0},
    },
    "levels": {"mechanism": "levels", "epsilon": 1.0, "levels": 4},
    "two levels": {"mechanism": "levels", "epsilon": 1.0, "levels": 2},
    "levels behind a sigmoid": {"mechanism": "levels", "epsilon": 2.0, "transform": {"kind": "sigmoid"}},
    "ctl behind a level": {"mechanism": "laplace", "epsilon": 1.0, "transform": {"kind": "at-least", "at": -1.0}},
}


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("promise", CURATOR_CONTRACT, ids=lambda promise: promise.__name__)
def test_the_mechanisms_and_the_transform_keep_the_contract(promise: CuratorPromise, spec: str) -> None:
    """The page's mechanisms and transform keep every promise of ours. False alarm: 1e-6 each; seeded."""
    promise(CuratorSpec.from_json(SPECS[spec]))


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 7.5, 50.0])
def test_the_curators_keep_epsilon_exactly(page: dict[str, ModuleType], epsilon: float) -> None:
    """Whole numbers of 2^64 words, counted: no response is more than e^epsilon times likelier for another value."""
    most = Fraction(exp_bounds(Fraction(epsilon), 128)[0], 1 << 128)  # at most e^epsilon
    warner = page["my_curator"].WarnerCurator(epsilon)
    assert Fraction((1 << 64) - warner._least, warner._least) <= 1 + Fraction(epsilon) <= most
    for levels in (2, 3, 5, 100):
        each = page["my_levels_curator"].LevelsCurator(epsilon, levels=levels)._each
        right = (1 << 64) - (levels - 1) * each
        assert 1 <= Fraction(right, each) <= most


def test_the_rule_runs_in_an_agent(page: dict[str, ModuleType], seeded: Callable[[int], Draw]) -> None:
    """With the page's curator behind its transform: it finds the best arm, and goes through JSON under its kind.

    In some runs MOSS takes the wrong arm for the best for long; this run is seeded.
    """
    moss, curator = page["my_rule"].Moss(width=0.8), curator_from_json(SPECS["warner behind a level"])
    agent = Agent.for_curator(curator, arms=["low", "high"], rule=moss)
    rewards, words = {"low": 9.0, "high": 11.0}, seeded(1)
    for _ in range(3_000):
        arm = agent.select()
        agent.update(arm, curator.respond_not_private(rewards[agent.names[arm]], words))
    assert agent.pulls[1] > 2_000
    assert rule_to_json(agent.rule) == {"kind": "moss", "width": 0.8, "floor": 0.0}
    again = Agent.from_json(json.loads(json.dumps(agent.to_json())))
    assert (again.rule, again.pulls, again.totals) == (moss, agent.pulls, agent.totals)


def take_part(server: Running, name: str, epsilon: float, pulls: int) -> None:
    """Be a device with a ledger of its own; a reward of 3 reaches the level, and 0 does not."""
    rewards, user = CuratorSpec.from_json(OWN[name]["curator"]).transform, random.Random(name)
    limits = Limits(rewards, epsilon=epsilon, budget=epsilon * pulls)
    with Client(
        server.url, name, key=server.keys["client"], limits=limits, ledger=":memory:", background=False
    ) as client:
        for _ in range(pulls):
            pull = client.decide()
            assert pull.observe(3.0 if user.random() < TRUTH[pull.name] else 0.0)
            assert client.flush(now=time.time() + 300).acknowledged == 1  # as if the moment had come
        assert client.spent() == pytest.approx(epsilon * pulls)


OWN = {
    "mine": {
        "curator": {"mechanism": "warner", "epsilon": 4.0, "transform": {"kind": "at-least", "at": 2.0}},
        "rule": {"kind": "moss", "width": 0.8, "floor": 0.0},
    },
    "levels": {
        "curator": {
            "mechanism": "levels",
            "epsilon": 4.0,
            "levels": 3,
            "transform": {"kind": "range", "low": 0.0, "high": 3.0},
        },
        "rule": {"kind": "ucb", "width": 2 * np.sqrt(2), "floor": 0.0},
    },
}
"""Experiments as the server says them back; the second has the paper's rule, which it is not asked for."""


def test_a_live_server_with_real_devices(
    page: dict[str, ModuleType], environment: dict[str, str], tmp_path: Path
) -> None:
    """Rule, mechanisms and transform on a server of its own; without the modules it does not start again.

    What is announced is what was asked for, to the letter. That any interval of 1 - 1e-9 misses its mean has
    probability below 1e-8, whatever the rule did.
    """
    load = [word for module in MODULES for word in ("--load", module)]
    pulls, arms = 120, list(TRUTH)
    with running(tmp_path, options=load, environment=environment) as server:
        asked = {"mine": OWN["mine"], "levels": {"curator": OWN["levels"]["curator"]}}
        for name, parts in asked.items():
            assert (
                server.ask("POST", "/v1/experiments", {"name": name, "arms": arms, "sticky": 0, **parts}).status == 201
            )
            assert server.decide(name)["curator"] == OWN[name]["curator"]
            take_part(server, name, 4.0, pulls)
        for wrong in ({"kind": "moss", "floor": -1}, {"kind": "moss", "width": "x"}, {"kind": "my_rule:Moss"}):
            refused = server.ask("POST", "/v1/experiments", {**HEADLINE, "rule": wrong})
            assert (refused.status, refused.json["code"]) == (422, "invalid")
        check_reports(server, pulls)
        assert server.stop() == 0
    with running(tmp_path, options=load, environment=environment, keys=server.keys) as again:
        check_reports(again, pulls)
        take_part(again, "mine", 4.0, 5)
        assert again.stop() == 0
    database = ["--port", "0", "--database", str(tmp_path / "agent.db")]
    without = run_command(["-m", "ldpbandits", "serve", *database], tmp_path, environment)
    assert (without.returncode, without.stdout) == (2, "")
    (line,) = without.stderr.splitlines()
    assert line.startswith("ldpbandits serve: the experiment mine cannot be loaded: mechanism must be one of ")
    assert "load the module that registers it" in line
    assert page  # the device's half was known to this process all the time


def check_reports(server: Running, pulls: int) -> None:
    """Look at what an experimenter is shown."""
    for name, parts in OWN.items():
        report = server.ask("GET", f"/v1/experiments/{name}").json
        assert (report["curator"], report["rule"]) == (parts["curator"], parts["rule"])
        assert report["responses"] == pulls
        assert set(report["rejected"].values()) == {0}
        spec = CuratorSpec.from_json(parts["curator"])
        assert report["guarantee"] == str(spec.guarantee)
        assert report["estimates"] == spec.transform.of
        scale = spec.transform.reward(1.0)
        rows = server.ask("GET", f"/v1/experiments/{name}/tallies").json["arms"]
        for arm, row in zip(report["arms"], rows, strict=True):
            sure = estimate(row["pulls"], row["total"] * spec.mechanism.unit, spec, alpha=1e-9)
            assert (arm["pulls"], arm["mean"]) == (row["pulls"], sure.mean)
            assert sure.low <= arm["low"] <= arm["high"] <= sure.high
            assert sure.low <= TRUTH[arm["name"]] * scale <= sure.high


def test_a_device_without_the_curator_refuses(environment: dict[str, str], folder: Path, tmp_path: Path) -> None:
    """It says which mechanism there is not, and nothing is charged; with the law but no curator, likewise."""
    with running(tmp_path, options=["--load", "my_mechanism"], environment=environment) as server:
        curator = {"mechanism": "warner", "epsilon": 1}
        assert server.ask("POST", "/v1/experiments", {**HEADLINE, "curator": curator}).status == 201
        ledger, limits = Ledger(tmp_path / "ledger.db"), Limits(Range(0, 1), epsilon=1, budget=1)
        with (
            Client(server.url, "headline", key=server.keys["client"], limits=limits, ledger=ledger) as client,
            apart(folder),
        ):
            with pytest.raises(ServerError, match="mechanism must be one of bernoulli, laplace"):
                client.decide()
            import_module("my_mechanism")
            with pytest.raises(ServerError, match="no curator for the mechanism warner"):
                client.decide()
            assert client.spent() == 0
            import_module("my_curator")
            assert client.decide().observe(1.0)
            assert client.spent() == 1
        ledger.close()


def arms(*texts: str) -> list[Law]:
    """Read several arms."""
    return [arm for text in texts for arm in parse_arms(text)]


def test_the_rule_runs_in_simulations(page: dict[str, ModuleType], folder: Path) -> None:
    """From Python and from TOML, played round by round by itself; to leap is refused with the reason."""
    bandit = ["bernoulli(0.9)", "bernoulli(0.5)"]
    moss = page["my_rule"].Moss(width=0.8)
    played = simulate(with_rule(moss, epsilon=4.0), bandit, 2_000, trials=20, seed=1)
    assert (played.engine, played.algorithm.name) == ("step", "Moss")
    ours = simulate("ldp-ucb-b", bandit, 2_000, epsilon=4.0, trials=20, seed=1)
    assert 0 < played.mean_regret[-1] < ours.mean_regret[-1]
    with pytest.raises(ParameterError, match="Moss cannot leap, only step"):
        simulate(with_rule(moss, epsilon=4.0), bandit, 2_000, trials=20, seed=1, engine="leap")
    experiment = Experiment.from_file(folder / "mine.toml")
    names = [(played.name, played.epsilon) for played in experiment.algorithms]
    assert names == [("Moss", 1.0), ("Moss", 4.0), ("wide", 4.0)]
    assert Experiment.from_json(json.loads(json.dumps(experiment.to_json()))) == experiment


def test_the_rule_runs_on_the_command_line(environment: dict[str, str], folder: Path, tmp_path: Path) -> None:
    """The page's own commands: flags, a file, and its record once more; stderr says that each round was played."""
    (flags,) = [shlex.split(line)[1:] for line in COMMAND_LINES if "--rule" in line]
    command = ["-m", "ldpbandits"]
    done = run_command([*command, *flags, "--json"], folder, environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "ldpbandits simulate: Moss cannot leap; every round was played (engine step)\n"
    assert json.loads(done.stdout)["engine"] == "step"
    refused = run_command([*command, *flags, "--engine", "leap"], folder, environment)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert re.fullmatch("ldpbandits simulate: Moss cannot leap, only step: .*\n", refused.stderr)
    first, again = tmp_path / "first", tmp_path / "again"
    done = run_command([*command, "simulate", "mine.toml", "--out", str(first)], folder, environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("cannot leap; every round was played (engine step)\n") == 3
    record = str(first / "experiment.json")
    unknown = run_command([*command, "simulate", record, "--out", str(again)], folder, environment)
    assert (unknown.returncode, again.exists()) == (2, False)
    assert re.search("a rule's kind must be one of ucb, .*, got 'moss'", unknown.stderr)
    done = run_command([*command, "simulate", record, "--load", "my_rule", "--out", str(again)], folder, environment)
    assert done.returncode == 0, done.stderr
    assert (first / "results.csv").read_bytes() == (again / "results.csv").read_bytes()


def test_the_bits_of_the_page_leap_as_they_step(page: dict[str, ModuleType]) -> None:
    """Pulls and regret under our UCB have the same law in leaps and in steps. False alarm: 1e-6 each, 3e-6; seeded."""
    mechanism = page["my_mechanism"].Warner(2.0)
    played = Algorithm("warner", paper_rule(mechanism), CuratorSpec(mechanism))
    bandit = arms("bernoulli(0.9)", "beta(4,4)", "uniform(0,1)")

    def statistics(seed: int, **engine: Any) -> NDArray[np.float64]:
        found = simulate(played, bandit, 3_000, trials=3_000, seed=seed, **engine)
        assert found.engine == engine.get("engine", "leap")  # by itself it leaps
        return np.vstack([found.pulls[:, -1, :2].T, found.regret[:, -1]])

    leaps, steps = statistics(1), statistics(2, engine="step")
    assert all(stats.ks_2samp(*pair).pvalue > 1e-6 for pair in zip(leaps, steps, strict=True))
    weaker = Algorithm("warner", paper_rule(mechanism), CuratorSpec(page["my_mechanism"].Warner(1.5)))
    other = simulate(weaker, bandit, 3_000, trials=3_000, seed=3).regret[:, -1]
    assert stats.ks_2samp(other, steps[2]).pvalue < 1e-6  # it would be noticed


def test_a_kind_that_was_changed_is_played_anew(
    page: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept trials go by the code of a channel and by the numbers of a law, not by their names alone."""
    folder, levels, warner = Folder(tmp_path), page["my_levels"].Levels(1.0), page["my_mechanism"].Warner(1.0)
    curves = [
        Curve(Algorithm("mine", paper_rule(law), CuratorSpec(law)), tuple(arms("bernoulli(0.5)")), (10,), (1,), "step")
        for law in (levels, warner)
    ]
    before = [folder._place(curve, 0) for curve in curves]
    assert before == [folder._place(curve, 0) for curve in curves]
    monkeypatch.setitem(CHANNELS, type(levels), Channel(lambda _rng, value, _: value, lambda _: ()))
    monkeypatch.setattr(type(warner), "response_mean", lambda _, mean: 0.25 + mean / 2)
    assert all(folder._place(curve, 0) != place for curve, place in zip(curves, before, strict=True))


def test_rewards_that_a_transform_does_not_take_are_refused_before_playing(
    page: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one sentence, with the transform's own rule."""
    at_least, moss = page["my_transform"].AtLeast, page["my_rule"].Moss()
    monkeypatch.setattr(at_least, "refusal", lambda _, reward: None if reward >= 0 else "a reward must be >= 0")
    played = Algorithm("mine", moss, CuratorSpec(page["my_mechanism"].Warner(1.0), at_least()))
    with pytest.raises(ParameterError, match=r"mine cannot take the rewards of gaussian\(0,1\): a reward must"):
        simulate(played, ["gaussian(0,1)"], 100, seed=1)


@pytest.mark.parametrize("promise", CONTRACT, ids=lambda promise: promise.__name__)
def test_the_store_keeps_the_contract(page: dict[str, ModuleType], promise: StorePromise, tmp_path: Path) -> None:
    """The page's store, by the page's own test, keeps every promise of ours."""
    page["test_my_store"].test_my_store_keeps_the_contract(promise, tmp_path)


def test_the_store_and_the_command_serve_devices(
    page: dict[str, ModuleType], environment: dict[str, str], folder: Path, tmp_path: Path
) -> None:
    """A server by the page's command, on its store, with its rule: killed, it has all that it acknowledged."""
    places = {
        "serve": (sys.executable, str(folder / "my_command.py"), "serve-file"),
        "database": tmp_path / "agent.kept",
        "options": [word for module in MODULES for word in ("--load", module)],
        "environment": environment,
    }
    with running(tmp_path, **places) as server:  # type: ignore[arg-type]
        assert (
            server.ask(
                "POST", "/v1/experiments", {"name": "mine", "arms": list(TRUTH), "sticky": 0, **OWN["mine"]}
            ).status
            == 201
        )
        take_part(server, "mine", 4.0, 30)
        before = server.ask("GET", "/v1/experiments/mine/tallies").json
        server.process.kill()
    with running(tmp_path, keys=server.keys, **places) as again:  # type: ignore[arg-type]
        assert again.ask("GET", "/v1/experiments/mine/tallies").json == before
        assert sum(arm["pulls"] for arm in before["arms"]) == 30
        assert again.stop() == 0
    assert page


def test_the_command_stands_beside_ours(
    page: dict[str, ModuleType], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It is listed, its options are checked as ours are, and a module that is not there is one line."""
    commands = (*COMMANDS, page["my_command"].MINE)
    with pytest.raises(SystemExit):
        main(["--help"], commands)
    listed = capsys.readouterr().out
    assert "serve-file" in listed
    assert "simulate" in listed
    file = ["serve-file", "--database", str(tmp_path / "agent.kept")]
    assert main([*file, "--port", "70000"], commands) == 2
    assert capsys.readouterr().err == "ldpbandits serve-file: port must be from 0 to 65535, got 70000\n"
    assert main([*file, "--load", "no_such_module"], commands) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["bounds", "--epsilon", "1", "--arm", "2*bernoulli(0.5)", "--horizon", "10"], commands) == 0


def test_the_pages_commands_are_understood(page: dict[str, ModuleType]) -> None:
    """Every command of the page has options that exist."""
    known = parser((*COMMANDS, page["my_command"].MINE))
    found = [shlex.split(re.sub(r"^(python my_command.py|ldpbandits) ", "", line)) for line in COMMAND_LINES]
    for words in found:
        if words != ["--help"]:
            assert known.parse_known_args(words)[1] == []
    assert len(found) >= 4
