"""The command line: what it prints, and that bad input is one line and exit code 2."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ldpbandits import Threshold
from ldpbandits.agent.rules import RULES
from ldpbandits.cli import main

ARMS = ["--arm", "bernoulli(0.9)", "--arm", "5*beta(4,1)", "--arm", "uniform(0,1)"]
SIMULATE = ["simulate", "--algorithm", "ldp-ucb-b", "--epsilon", "2", *ARMS, "--horizon", "1e4", "--trials", "4"]
BOUNDS = ["bounds", "--epsilon", "2", *ARMS, "--horizon", "1e7"]


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Run the command line in this process."""
    try:
        code = main(arguments)
    except SystemExit as end:
        code = int(end.code or 0)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_simulate_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    """One JSON object on stdout, with the promised keys, and nothing on stderr."""
    code, out, err = run([*SIMULATE, "--json", "--seed", "3"], capsys)
    made = json.loads(out)
    assert (code, err) == (0, "")
    assert made["algorithm"] == "ldp-ucb-b"
    assert (made["epsilon"], made["horizon"], made["trials"], made["seed"]) == (2, 10_000, 4, 3)
    assert made["engine"] == "leap"
    assert len(made["regret"]["mean"]) == len(made["regret"]["sem"]) == len(made["checkpoints"])
    assert made["checkpoints"][-1] == 10_000
    assert len(made["pulls"]["mean"]) == 7
    assert sum(made["pulls"]["mean"]) == pytest.approx(10_000)


def test_jobs_change_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    """The same seed gives the same numbers with one thread and with three."""
    made = [json.loads(run([*SIMULATE, "--json", "--jobs", jobs], capsys)[1]) for jobs in ("1", "3")]
    for one in made:
        del one["seconds"]
    assert made[0] == made[1]


def test_flags_and_a_file_play_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The same experiment and seed give the same numbers by flags and by a file, and both know how long it took."""
    path = tmp_path / "same.toml"
    arms = json.dumps(ARMS[1::2])
    path.write_text(
        f'horizon = 10000\ntrials = 4\nseed = 3\narms = {arms}\n[[algorithms]]\nname = "ldp-ucb-b"\nepsilon = 2\n',
        encoding="utf-8",
    )
    by_flags = json.loads(run([*SIMULATE, "--json", "--seed", "3"], capsys)[1])
    (by_file,) = json.loads(run(["simulate", str(path), "--json"], capsys)[1])
    assert by_flags.pop("seconds") > 0
    assert by_file.pop("seconds") > 0
    assert by_flags == by_file


def test_an_algorithm_that_cannot_leap_steps_and_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule of one's own is played round by round; asked to leap, it is refused before anything is played."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "cli_rule.py").write_text(
        "from dataclasses import dataclass\nfrom ldpbandits import Rule\n"
        "@dataclass(frozen=True)\nclass Own(Rule):\n    floor: float = 1.0\n"
        "    parameters: tuple = ()\n    @staticmethod\n    def index(arm, random, parameters):\n"
        "        return arm.mean\n",
        encoding="utf-8",
    )
    own = ["simulate", "--rule", "cli_rule:Own", *ARMS, "--horizon", "500", "--trials", "2"]
    code, out, err = run([*own, "--json"], capsys)
    assert (code, json.loads(out)["engine"]) == (0, "step")
    assert err == "ldpbandits simulate: Own cannot leap; every round was played (engine step)\n"
    code, out, err = run([*own, "--epsilon", "2", "--curator", "ctl", "--engine", "leap"], capsys)
    assert (code, out) == (2, "")
    assert err == ("ldpbandits simulate: Own cannot leap, only step: the rule of Own is not one of those that leap\n")


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--rule", "no_such_module:Rule"], "the rule no_such_module:Rule cannot be imported: ModuleNotFoundError"),
        (["--rule", "json:dumps"], "the rule json:dumps must be a dataclass"),
        (["--rule", "ucb"], "a rule of kind 'ucb' lacks width"),
        (["--rule", "exp3"], f"a rule's kind must be one of {', '.join(RULES.kinds)}, got 'exp3'"),
        (["--rule", "x:Y", "--algorithm", "ucb1"], "--algorithm names one of ours, --rule one of yours"),
        (["--algorithm", "ucb1", "--curator", "ctb"], "--curator goes with --rule"),
        (["--algorithm", "ucb1", "--load", "no_such_module"], "no_such_module cannot be loaded: ModuleNotFoundError"),
    ],
)
def test_a_rule_that_cannot_be_had_is_one_line(capsys: pytest.CaptureFixture[str], flags: list[str], told: str) -> None:
    """It says which, and why."""
    code, out, err = run(["simulate", *flags, *ARMS, "--horizon", "100"], capsys)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1


def test_simulate_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """For people: regret by decade, and pulls by arm."""
    code, out, _ = run(SIMULATE, capsys)
    assert code == 0
    assert out.startswith("ldp-ucb-b, epsilon = 2, 4 trials, seed 0")
    for text in ("10,000", "regret", "5  beta(4,1)", "Mean pulls of each arm"):
        assert text in out


def test_a_baseline_ignores_epsilon_aloud(capsys: pytest.CaptureFixture[str]) -> None:
    """ucb1 has no epsilon: one given has no effect, and that is said."""
    arguments = ["simulate", "--algorithm", "ucb1", *ARMS, "--horizon", "1e3", "--trials", "2", "--json"]
    code, out, err = run([*arguments, "--epsilon", "2"], capsys)
    assert code == 0
    assert json.loads(out)["epsilon"] is None
    assert err == "ldpbandits simulate: ucb1 is not private, --epsilon has no effect\n"


def test_bounds_takes_a_theta_for_arms_of_any_law(capsys: pytest.CaptureFixture[str]) -> None:
    """One line more, also without the extra lab: every law but beta needs Python alone."""
    arms = ["--arm", "gaussian(0.9,1)", "--arm", "2*gaussian(0.8,1)", "--horizon", "1e7"]
    code, out, _ = run(["bounds", "--epsilon", "0.5", *arms, "--theta", "0.9"], capsys)
    assert (code, "exact constant of P(reward > 0.9)" in out) == (0, True)
    odd = ["--arm", "gaussian(1,1)", "--arm", "gaussian(0.5,10)", "--horizon", "1e7"]  # satisfy no assumption
    code, out, _ = run(["bounds", "--epsilon", "0.5", *odd, "--theta", "3"], capsys)
    assert (code, "d  assumes" in out) == (0, True)
    assert "b  assumes that the best arm has the largest P(reward > 3), below 1:\n   not so for these arms" in out
    code, out, err = run(["bounds", "--epsilon", "0.5", *arms, "--theta", "inf"], capsys)
    assert (code, out) == (2, "")
    assert "a threshold needs a finite theta" in err


CALIBRATE = ["calibrate", "--arm", "gaussian(0.7,1)", "--low", "-100", "--high", "100", "--epsilon", "0.5"]


def test_calibrate_prints_theta_and_its_cost(capsys: pytest.CaptureFixture[str]) -> None:
    """For people and for machines the same; the same seed gives the same numbers."""
    code, out, err = run([*CALIBRATE, "--seed", "4"], capsys)
    assert (code, err) == (0, "")
    made = json.loads(run([*CALIBRATE, "--seed", "4", "--json"], capsys)[1])
    assert f"theta = {made['theta']:g}\n" in out
    assert f"{made['responses']:,} responses of epsilon = 0.5 in {made['steps']} steps" in out
    assert f"--algorithm 'ldp-imed-t({Threshold(made['theta']).shown})' --epsilon 0.5" in out
    assert made["interval"][0] <= made["theta"] <= made["interval"][1]
    assert 0.25 < made["above"] < 0.75
    assert made["halved"] is True


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (["--low", "100"], "low < high"),
        (["--epsilon", "0"], "epsilon must be finite and > 0"),
        (["--seed", "-1"], "seed must be a whole number >= 0"),
        (["--arm", "gauss(1)"], "an arm's law must be one of"),
        (["--low", "x"], "must be a number, got 'x'"),
    ],
)
def test_a_bad_calibration_is_one_line(change: list[str], rule: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With exit code 2."""
    code, out, err = run([*CALIBRATE, *change], capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert rule in err


def test_bounds_prints_json_and_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """All bounds, for machines and for people; what the arms do not satisfy is marked."""
    code, out, err = run([*BOUNDS, "--json"], capsys)
    made = json.loads(out)
    assert (code, err) == (0, "")
    assert made["horizon"] == 1e7
    assert {bound["name"] for bound in made["bounds"]} > {"Theorem 1", "Theorem 2", "Theorem 3", "exact constant"}
    code, out, err = run(BOUNDS, capsys)
    assert (code, err) == (0, "")
    assert all(bound["name"] in out for bound in made["bounds"])
    assert "a  assumes Bernoulli arms" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ([], "required: COMMAND"),
        (["sing"], "invalid choice: 'sing'"),
        (["simulate"], "--algorithm is needed, unless there is a FILE"),
        (["simulate", "none.toml"], "none.toml: cannot be read: No such file"),
        (["simulate", "none.toml", "--trials", "3"], "--trials and a file: what is played is in the file"),
        ([*SIMULATE, "--out", "results"], "--out goes with an experiment in a file"),
        (["reproduce", "--panel", "3z"], "panel must be one of 1a, 1b"),
        (["reproduce", "--trials", "0"], "trials must be a whole number >= 2, got 0"),
        (["reproduce", "--horizon", "10"], "horizon must be a whole number >= 1000"),
        (["reproduce", "--out", "/dev/null/results"], "cannot be written"),
        ([*SIMULATE, "--algorithm", "ucb9"], "algorithm must be one of"),
        ([*SIMULATE, "--epsilon", "0"], "epsilon must be finite and > 0"),
        ([*SIMULATE, "--epsilon", "nan"], "epsilon must be finite and > 0"),
        ([*SIMULATE, "--epsilon", "two"], "must be a number, got 'two'"),
        ([*SIMULATE, "--arm", "bernoulli(2)"], "needs p in [0, 1], got 2.0"),
        ([*SIMULATE, "--arm", "gaussian(0,1)"], "takes rewards in [0, 1]"),
        ([*SIMULATE, "--horizon", "6"], "horizon must be at least the number of arms, 7, got 6"),
        ([*SIMULATE, "--horizon", "1e400"], "horizon must be a whole number"),
        ([*SIMULATE, "--horizon", "1e3.5"], "must be a number"),
        ([*SIMULATE, "--trials", "0"], "trials must be a whole number >= 1, got 0"),
        ([*SIMULATE, "--trials", "1e300"], "trials must be at most 10,000,000"),
        ([*SIMULATE, "--trials", "1.5"], "trials must be a whole number"),
        ([*SIMULATE, "--seed", "-1"], "seed must be a whole number >= 0"),
        ([*SIMULATE, "--jobs", "0"], "jobs must be a whole number >= 1"),
        ([*SIMULATE, "--engine", "warp"], "invalid choice: 'warp'"),
        ([*SIMULATE, "--trails", "4"], "unrecognized arguments: --trails (try ldpbandits simulate --help)"),
        (["simulate", "--algorithm", "ldp-ucb-l", *ARMS, "--horizon", "100"], "is private and needs an epsilon"),
        ([*BOUNDS, "--epsilon", "-1"], "epsilon must be finite and > 0"),
        ([*BOUNDS, "--horizon", "3"], "horizon must be finite and at least"),
        ([*BOUNDS, "--arm", "dice(6)"], "an arm's law must be one of"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing on stdout, one line on stderr that names the rule."""
    code, out, err = run(arguments, capsys)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert rule in err
    assert err.startswith("ldpbandits")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["simulate", "--help"], ["bounds", "--help"], ["reproduce", "--help"], ["--version"]]
)
def test_help_and_version(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Help is on stdout, with exit code 0."""
    code, out, err = run(arguments, capsys)
    assert code == 0
    assert "ldpbandits" in out
    assert err == ""


def test_help_says_what_the_package_does(capsys: pytest.CaptureFixture[str]) -> None:
    """In one sentence, without the notes for those who read its source."""
    text = " ".join(run(["--help"], capsys)[1].split())
    assert "learn which arm is best without seeing anyone's reward. positional arguments" in text


def test_large_seeds_are_read_without_loss(capsys: pytest.CaptureFixture[str]) -> None:
    """A seed beyond 2^53 is the seed that was given."""
    seed = str(2**90 + 1)
    assert json.loads(run([*SIMULATE, "--json", "--seed", seed], capsys)[1])["seed"] == 2**90 + 1


def test_too_little_memory_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """More trials than fit in memory: one line, exit code 1."""

    def too_much(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("ldpbandits.lab.experiments.simulate", too_much)
    code, out, err = run(SIMULATE, capsys)
    assert (code, out) == (1, "")
    assert err == "ldpbandits simulate: not enough memory for this number of trials and arms\n"


def test_an_interrupt_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C ends with exit code 130 and no traceback."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ldpbandits.lab.experiments.simulate", interrupted)
    assert run(SIMULATE, capsys) == (130, "", "ldpbandits simulate: interrupted\n")


def test_without_the_lab_extra_bounds_work_and_simulate_says_what_to_install() -> None:
    """With numpy, numba and rich out of reach, theory still runs and simulation is refused in one line."""
    script = """
import sys
for name in ("numpy", "numba", "scipy", "rich", "matplotlib"):
    sys.modules[name] = None
from ldpbandits.cli import main
print(main(["bounds", "--epsilon", "1", "--arm", "3*bernoulli(0.4)", "--horizon", "100", "--json"]))
print(main(["simulate", "--algorithm", "ucb1", "--arm", "bernoulli(0.4)", "--horizon", "100"]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.endswith("}\n0\n2\n")
    assert done.stderr.startswith("ldpbandits simulate: needs ")
    assert done.stderr.endswith(": pip install '.[lab]' in the source folder\n")


EXPERIMENT = """
horizon = 3e8
trials = 500
arms = ["bernoulli(0.9)", "9*bernoulli(0.85)"]
algorithms = [{ name = "ldp-ucb-l", epsilon = 0.5 }]
"""


def test_ctrl_c_in_an_experiment_leaves_whole_trials(tmp_path: Path) -> None:
    """SIGINT to a run in the middle: exit code 130, one line, finished trials kept, nothing half written."""
    path, out = tmp_path / "long.toml", tmp_path / "out"
    path.write_text(EXPERIMENT, encoding="utf-8")
    running = subprocess.Popen(
        [sys.executable, "-m", "ldpbandits", "simulate", str(path), "--out", str(out)], stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 400  # the first trials wait for the compiler, on a busy machine for minutes
    while len(list(out.rglob("*.npy"))) < 2 and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert err == b"ldpbandits simulate: interrupted\n"
    assert len(list(out.rglob("*.npy"))) >= 2
    assert not list(out.rglob("*.part"))
    assert not (out / "results.csv").exists()


def test_a_full_disk_ends_an_experiment_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, and the file that could not be written."""
    path = tmp_path / "short.toml"
    path.write_text(EXPERIMENT.replace("3e8", "1e3").replace("500", "2"), encoding="utf-8")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    code, out, err = run(["simulate", str(path)], capsys)
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "cannot be written: No space left on device" in err
    assert not list(tmp_path.rglob("*.npy"))


def test_a_full_disk_is_one_line() -> None:
    """Output that cannot be written: one line, exit code 1, no traceback."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ldpbandits", *BOUNDS], stdout=full, stderr=subprocess.PIPE, check=False, timeout=60
        )
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert b"No space left" in done.stderr


def test_the_module_runs() -> None:
    """`python -m ldpbandits` is the same command."""
    done = subprocess.run(
        [sys.executable, "-m", "ldpbandits", "--version"], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.startswith("ldpbandits 0.")
