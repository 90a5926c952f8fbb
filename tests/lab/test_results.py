"""Results are tidy, whole, and the same wherever and however often a run is stopped and taken up again."""

import csv
import importlib
import io
import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldpbandits import UCB, Range
from ldpbandits.agent.rules import rule_from_json
from ldpbandits.cli import main
from ldpbandits.errors import OutputError, ParameterError
from ldpbandits.lab import play as playing
from ldpbandits.lab.algorithms import Algorithm, NotPrivate, algorithm
from ldpbandits.lab.experiments import Experiment
from ldpbandits.lab.panels import paper
from ldpbandits.lab.panels.paper import MIXED
from ldpbandits.lab.play import Curve
from ldpbandits.lab.results import Folder, table, write_results

EXPERIMENT = Experiment(
    MIXED, (algorithm("ucb1"), algorithm("ldp-ucb-b", 2.0), algorithm("ldp-ucb-l", 2.0)), 5_000, trials=6, seed=3
)


def run_in(folder: Path, experiment: Experiment = EXPERIMENT, **how: Any) -> bytes:
    """Run an experiment in a folder; return its CSV."""
    write_results(folder, experiment, experiment.play(archive=Folder(folder), **how))
    return (folder / "results.csv").read_bytes()


def test_the_table_is_tidy(tmp_path: Path) -> None:
    """A row for each algorithm, epsilon and checkpoint: mean, standard error, quantiles, pulls that add up to t."""
    rows = list(csv.DictReader(io.StringIO(run_in(tmp_path).decode())))
    assert len(rows) == 3 * len(EXPERIMENT.checkpoints or ())
    assert {(row["algorithm"], row["epsilon"]) for row in rows} == {
        ("ucb1", ""),
        ("ldp-ucb-b", "2.0"),
        ("ldp-ucb-l", "2.0"),
    }
    for row in rows:
        assert sum(float(row[f"pulls_{arm}"]) for arm in range(20)) == pytest.approx(float(row["t"]))
        assert float(row["regret_q05"]) <= float(row["regret_q50"]) <= float(row["regret_q95"])
    assert rows[-1]["t"] == "5000"
    one = Experiment(MIXED, (algorithm("ucb1"),), 100, trials=1)
    (row, *_) = csv.DictReader(io.StringIO(table(one.play()).decode()))
    assert row["regret_sem"] == ""


def test_what_is_beside_the_table_runs_it_again(tmp_path: Path) -> None:
    """experiment.json holds the experiment and the versions."""
    first = run_in(tmp_path / "a")
    record = json.loads((tmp_path / "a" / "experiment.json").read_text(encoding="utf-8"))
    assert set(record["versions"]) == {"ldpbandits", "python", "numpy", "numba", "scipy"}
    assert run_in(tmp_path / "b", Experiment.from_json(record["experiment"])) == first


def test_threads_and_processes_change_no_byte(tmp_path: Path) -> None:
    """1 thread, 2 threads, and two other processes: the same file."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        made = {
            run_in(tmp_path / "one", jobs=1),
            run_in(tmp_path / "two", jobs=2),
            run_in(tmp_path / "processes", executor=processes),
        }
    assert len(made) == 1


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an interrupt finished trials are not played again, no file is half written, and the result is the same."""

    def interrupt(done: int) -> None:
        if done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in(tmp_path / "stopped", progress=interrupt)
    kept = sorted((tmp_path / "stopped").rglob("*.npy"))
    assert 7 <= len(kept) < 18
    assert not list((tmp_path / "stopped").rglob("*.part"))
    played: list[int] = []
    play = playing.play

    def counted(curve: Curve, trial: int, *rest: Any) -> Any:
        played.append(trial)
        return play(curve, trial, *rest)

    monkeypatch.setattr(playing, "play", counted)
    assert run_in(tmp_path / "stopped") == run_in(tmp_path / "whole")
    assert len(played) == (18 - len(kept)) + 18
    played.clear()
    run_in(tmp_path / "whole")
    assert played == []
    changed = Experiment(MIXED, EXPERIMENT.algorithms, 6_000, trials=6, seed=3)
    run_in(tmp_path / "whole", changed)
    assert len(played) == 18
    more = Experiment(MIXED, EXPERIMENT.algorithms, 6_000, trials=8, seed=3)
    played.clear()
    run_in(tmp_path / "whole", more)
    assert len(played) == 6


def test_a_broken_trial_is_played_again(tmp_path: Path) -> None:
    """A file that cannot be read, or whose pulls do not add up, is not trusted."""
    first = run_in(tmp_path)
    files = sorted(tmp_path.rglob("*.npy"))
    files[0].write_bytes(b"\\x93NUMPY broken")
    files[1].write_bytes(b"")
    np.save(files[2], np.load(files[2]) + 1)
    (tmp_path / "results.csv").unlink()
    assert run_in(tmp_path) == first


def test_a_folder_that_cannot_be_made_is_refused_before_anything_is_played(tmp_path: Path) -> None:
    """A file in the way: one line, and not the disk's fault."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OutputError, match="cannot be written") as caught:
        Folder(tmp_path / "file" / "results")
    assert not caught.value.is_full


TOML = """
horizon = 2e5
trials = 40
seed = 1
arms = ["bernoulli(0.9)", "5*bernoulli(0.8)", "4*uniform(0,1)"]

[[algorithms]]
name = "ucb1"

[[algorithms]]
name = "ldp-ucb-l"
epsilon = [0.5, 2]
"""


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A real Dask scheduler and two worker processes on loopback."""
    file = folder / "scheduler.json"
    common = ["--scheduler-file", str(file), "--host", "127.0.0.1", "--no-dashboard"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    dask = [sys.executable, "-m", "distributed.cli"]
    scheduler = subprocess.Popen([dask[0], dask[1], f"{dask[2]}.dask_scheduler", *common, "--port", "0"], **quiet)
    workers: list[subprocess.Popen[bytes]] = []
    try:
        deadline = time.monotonic() + 60
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        command = [dask[0], dask[1], f"{dask[2]}.dask_worker", *common, "--nthreads", "1", "--no-nanny"]
        workers += [subprocess.Popen(command, **quiet) for _ in range(2)]
        yield json.loads(file.read_text(encoding="utf-8"))["address"], workers
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()


def test_a_dask_cluster_changes_no_byte_also_when_a_worker_dies(tmp_path: Path) -> None:
    """Two workers on loopback, one of them killed in the middle: the result is complete, and the same as on threads."""
    experiment = tmp_path / "my.toml"
    experiment.write_text(TOML, encoding="utf-8")
    command = [sys.executable, "-m", "ldpbandits", "simulate", str(experiment)]
    subprocess.run([*command, "--out", str(tmp_path / "here")], check=True, capture_output=True, timeout=300)
    with cluster(tmp_path) as (address, workers):
        there = tmp_path / "there"
        running = subprocess.Popen(
            [*command, "--out", str(there), "--cluster", address], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        deadline = time.monotonic() + 120
        while len(list(there.rglob("*.npy"))) < 20 and running.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        is_midway = running.poll() is None
        workers[0].send_signal(signal.SIGKILL)
        _, error = running.communicate(timeout=300)
    assert is_midway, "the run ended before a worker could be killed"
    assert running.returncode == 0, error.decode()
    assert (there / "results.csv").read_bytes() == (tmp_path / "here" / "results.csv").read_bytes()


def test_a_cluster_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    """No scheduler at that address: one line, exit code 2."""
    experiment = tmp_path / "my.toml"
    experiment.write_text(TOML, encoding="utf-8")
    command = [sys.executable, "-m", "ldpbandits", "simulate", str(experiment), "--cluster", "tcp://127.0.0.1:9"]
    done = subprocess.run(command, check=False, capture_output=True, timeout=120)
    assert done.returncode == 2
    assert b"no Dask scheduler answers at tcp://127.0.0.1:9" in done.stderr
    assert b"Traceback" not in done.stderr


def test_another_rule_under_the_same_name_is_another_algorithm(tmp_path: Path) -> None:
    """Trials kept for a rule are not taken for those of another rule or transform, whatever their name."""
    arms, plain = paper.BERNOULLI, NotPrivate()
    played = [
        Experiment(arms, (Algorithm("mine", rule, curator),), 2_000, trials=2).play(archive=Folder(tmp_path))[0]
        for rule, curator in ((UCB(0.1), plain), (UCB(5), plain), (UCB(5), NotPrivate(Range(-1, 2))))
    ]
    greedy, curious, wide = (made.mean_regret[-1] for made in played)
    assert greedy < curious / 3
    assert curious < wide
    again = Experiment(arms, (Algorithm("mine", UCB(0.1), plain),), 2_000, trials=2).play(archive=Folder(tmp_path))[0]
    assert again == played[0]


def test_an_edited_rule_of_ones_own_is_played_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept trials go by the code of a rule too: the same class with another formula is another rule."""
    monkeypatch.syspath_prepend(tmp_path)
    regrets = []
    for formula in ("arm.mean", "-arm.mean"):
        (tmp_path / "edited_rule.py").write_text(OWN_RULE.replace("FORMULA", formula), encoding="utf-8")
        sys.modules.pop("edited_rule", None)
        importlib.invalidate_caches()
        rule = rule_from_json("edited_rule:Own", may_import=True)
        experiment = Experiment(paper.BERNOULLI, (Algorithm("own", rule, NotPrivate()),), 500, trials=2)
        regrets.append(experiment.play(archive=Folder(tmp_path / "results"))[0].mean_regret[-1])
    assert regrets[0] < regrets[1]


OWN_RULE = """
from dataclasses import dataclass

from ldpbandits import Rule

@dataclass(frozen=True)
class Own(Rule):
    floor: float = 1.0
    parameters: tuple = ()

    @staticmethod
    def index(arm, random, parameters):
        return FORMULA
"""
FILE = """
horizon = 2000
trials = 3
seed = 4
arms = ["choice(0.4,1)", "2*beta(4,1)", "bernoulli(0.9)"]

[[algorithms]]
name = "ldp-ucb-b"
epsilon = 2

[[algorithms]]
name = "wide"
rule = {kind = "ucb", width = 0.5}
curator = {mechanism = "laplace", epsilon = 2, transform = {kind = "range", low = -1, high = 2}}

[[algorithms]]
rule = "own_rule:Own"
epsilon = 1.5
"""


def test_a_record_runs_again_to_the_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`simulate experiment.json` plays what the record says, rules and transforms of any kind included."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_rule.py").write_text(OWN_RULE.replace("FORMULA", "arm.mean"), encoding="utf-8")
    (tmp_path / "my.toml").write_text(FILE, encoding="utf-8")
    assert main(["simulate", "my.toml"]) == 0
    assert main(["simulate", "my/experiment.json", "--out", "again"]) == 0
    first, again = (tmp_path / folder / "results.csv" for folder in ("my", "again"))
    assert first.read_bytes() == again.read_bytes()
    records = [json.loads((tmp_path / folder / "experiment.json").read_text()) for folder in ("my", "again")]
    assert records[0] == records[1]
    assert [algorithm["name"] for algorithm in records[0]["experiment"]["algorithms"]] == ["ldp-ucb-b", "wide", "Own"]
    assert records[0]["experiment"]["algorithms"][1]["curator"]["transform"] == {"kind": "range", "low": -1, "high": 2}


def own_rule(formula: str, **names: Any) -> Any:
    """Make a rule as a notebook does: its code is in no file."""
    namespace: dict[str, Any] = {"__name__": "notebook", "log": math.log, "sqrt": math.sqrt, **names}
    exec(OWN_RULE.replace("FORMULA", formula), namespace)  # noqa: S102 - our own source
    return namespace["Own"]()


def test_rules_of_a_notebook_are_told_apart_by_what_they_do(tmp_path: Path) -> None:
    """Another function, another field, another number of its module: another rule, though no file says so."""
    rules = [
        own_rule("arm.mean + sqrt(arm.t)"),
        own_rule("arm.mean + log(arm.t)"),
        own_rule("arm.best + log(arm.t)"),
        own_rule("arm.mean + WIDTH", WIDTH=1.0),
        own_rule("arm.mean + WIDTH", WIDTH=2.0),
        own_rule("arm.mean + further(arm.t)", further=lambda t: t),
        own_rule("arm.mean + further(arm.t)", further=lambda t: 2 * t),
    ]
    curves = [Experiment(paper.BERNOULLI, (Algorithm("own", rule, NotPrivate()),), 500).curves[0] for rule in rules]
    places = {Folder(tmp_path)._place(curve, 0) for curve in curves}
    assert len(places) == len(rules)
    same = Experiment(paper.BERNOULLI, (Algorithm("own", own_rule("arm.mean + sqrt(arm.t)"), NotPrivate()),), 500)
    assert Folder(tmp_path)._place(same.curves[0], 0) in places


def test_equal_rules_have_equal_numbers() -> None:
    """A width of 2 and of 2.0 is one and the same, in TOML, JSON and Python."""
    text: dict[str, Any] = {"arms": ["bernoulli(0.9)", "bernoulli(0.5)"], "horizon": 100, "trials": 1}
    ways = [{"kind": "ucb", "width": 2}, {"kind": "ucb", "width": 2.0, "floor": 0}]
    curves = [Experiment.from_json({**text, "algorithms": [{"name": "x", "rule": rule}]}).curves[0] for rule in ways]
    assert curves[0] == curves[1]


def test_data_keep_their_numbers_wherever_their_file_lies(tmp_path: Path) -> None:
    """The record of an experiment with data runs again to the byte when its folder was moved, whatever its name."""
    here, there = tmp_path / "one#1 (a) 50%", tmp_path / "two@2"
    here.mkdir()
    (here / "past.csv").write_text("arm,reward\nblue#1,1\nblue#1,0\nred@x),0\nred@x),1\nred@x),0\n", encoding="utf-8")
    (here / "my.toml").write_text(
        'horizon = 300\ntrials = 2\narms = ["empirical(past.csv)"]\n[[algorithms]]\nname = "ldp-ucb-b"\nepsilon = 2\n',
        encoding="utf-8",
    )
    assert main(["simulate", str(here / "my.toml")]) == 0
    first = (here / "my" / "results.csv").read_bytes()
    assert b"pulls_blue#1,pulls_red@x)" in first
    here.rename(there)
    assert main(["simulate", str(there / "my" / "experiment.json"), "--out", str(there / "again")]) == 0
    assert (there / "again" / "results.csv").read_bytes() == first


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seed": -1}, "seed must be a whole number >= 0"),
        ({"trials": 2.5}, "trials must be a whole number"),
        ({"horizon": "x"}, "horizon must be a whole number"),
        ({"algorithms": ("ucb1",)}, "needs at least one Algorithm"),
        ({"algorithms": ()}, "needs at least one Algorithm"),
        ({"arms": (3,)}, "an arm is a law, or written as one"),
        ({"checkpoints": 5}, "checkpoints must be a list"),
        ({"engine": "warp"}, "engine must be leap or step"),
    ],
)
def test_an_experiment_is_checked_when_it_is_made(change: dict[str, Any], told: str) -> None:
    """Not when it is played."""
    good: dict[str, Any] = {"arms": MIXED, "algorithms": (algorithm("ucb1"),), "horizon": 100}
    assert Experiment(**good | {"horizon": 1e2, "trials": 50.0}) == Experiment(**good)
    with pytest.raises(ParameterError, match=told):
        Experiment(**(good | change))
