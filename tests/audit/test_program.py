"""Programs are audited through their lines, and what goes wrong with them is one line and exit code 2."""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ldpbandits.audit.blackbox import runs
from ldpbandits.audit.evidence import Claim, Evidence
from ldpbandits.audit.program import CONTAINED, program
from ldpbandits.cli import main

CTB = """
import random, sys
rng = random.SystemRandom()
def respond(reward):
    bit = rng.random() < reward
    return int(bit if rng.random() < 0.731 else not bit)
for line in sys.stdin:
    reward = float(line)
    if not 0 <= reward <= 1:
        sys.exit('a reward must lie in [0, 1]')
    print(respond(reward))
"""
SEEDED = """
import random, sys
random.seed(1)
for line in sys.stdin:
    print(int(random.random() < (0.731 if float(line) > 0.5 else 0.269)))
"""
OF_PROCESS = """
import os, random, sys
rng = random.Random(os.getpid())
for line in sys.stdin:
    print(int(rng.random() < (0.731 if float(line) > 0.5 else 0.269)))
"""
LEAKY = """
import random, sys
rng = random.SystemRandom()
def respond(reward):
    bit = rng.random() < reward
    return int(bit if rng.random() < 0.731 else not bit)
for line in sys.stdin:
    if not 0 <= float(line) <= 1:
        sys.exit(f"reward out of range: {line}")
    print(int(respond(float(line))))
"""
HALF = "import sys; lines = sys.stdin.readlines(); print('1\\n' * (len(lines) // 2), end='')"
DEAF = "print('1\\n' * 100_000)"
FLOOD = "while True: print('1' * 1000)"
HANGS = "import time; time.sleep(60)"
CRASHES = "raise SystemExit('no licence')"


@pytest.fixture(autouse=True)
def fewer_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start each program some sixty times, not a thousand times."""
    monkeypatch.setattr(runs, "USERS", 48)


def command(program: str, folder: Path) -> str:
    """Write a program, and return the command that runs it."""
    path = folder / "curator.py"
    path.write_text(program, encoding="utf-8")
    return shlex.join([sys.executable, str(path)])


def audited(program: str, folder: Path, *options: str) -> int:
    """Audit a program that claims epsilon = 1, so that a healthy one fails once in a million runs."""
    arguments = ["--epsilon", "1", "--samples", "5e3", "--confidence", "0.999999", "--json", "--time", "60", *options]
    return main(["audit", "--command", command(program, folder), *arguments])


def test_a_healthy_program_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Randomised response behind a pipe, held to the formula of CTB, is consistent; only JSON is on stdout."""
    assert audited(CTB, tmp_path, "--curator", "ctb") == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert printed.err == ""
    assert list(found) == [
        "verdict",
        "headline",
        "what",
        "epsilon_claimed",
        "epsilon_lower",
        "epsilon_could_be",
        "epsilon_could_be_of",
        "not_finished",
        "confidence",
        "samples",
        "seconds",
        "leaks",
        "layers",
        *("date", "version", "command", "digest", "seed", "rewards"),
    ]
    assert all(
        list(layer) == ["name", "verdict", "detail", "epsilon_lower", "same_leak_as"] for layer in found["layers"]
    )
    assert (found["verdict"], found["samples"], found["epsilon_claimed"]) == ("consistent", 5_000, 1.0)
    assert 0.7 < found["epsilon_lower"] <= 1.0


@pytest.mark.parametrize(
    ("program", "layer"), [(SEEDED, "known attacks: short runs"), (LEAKY, "known attacks: bad rewards")]
)
def test_a_faulty_program_is_caught(
    program: str, layer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A seed left in; a reward shown on refusal. Exit code 1, and the layer that said so."""
    assert audited(program, tmp_path) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "violated"
    assert layer in [each["name"] for each in found["layers"] if each["verdict"] == "violated"]


@pytest.mark.skipif(
    shutil.which(CONTAINED[0]) is None or subprocess.call([*CONTAINED, "true"], stderr=subprocess.DEVNULL) != 0,
    reason="containers are not allowed here",
)
def test_noise_of_a_process_in_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There all processes have one number, and so all users one noise."""
    monkeypatch.setattr(runs, "CONTAINED", 1)
    evidence = Evidence(program(command(OF_PROCESS, tmp_path)), Claim.of(1.0, (0, 1), 1_000, 0.999, 3))
    assert runs.short_runs(evidence, 1e-6).verdict == "violated"


@pytest.mark.parametrize(
    ("program", "rule"),
    [
        (HALF, "must write one response per line: 2 rewards, 1 responses"),
        (DEAF, "must write one response per line, and wrote more than there were rewards"),
        (FLOOD, "must write one response per line, and wrote more than there were rewards"),
        (HANGS, "gave no response within 2 s (--time allows more)"),
        (CRASHES, "ended with code 1: no licence"),
    ],
)
def test_a_program_that_is_no_curator(
    program: str, rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Too few lines, lines without reading, a flood, silence, a crash: one line, exit code 2, no deadlock."""
    assert audited(program, tmp_path, *(["--time", "2"] if program is HANGS else [])) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert rule in printed.err


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ("no-such-program", "no-such-program cannot be run: No such file or directory"),
        ("'unclosed", "the command cannot be read"),
        ("", "the command is empty"),
    ],
)
def test_a_command_that_is_none(given: str, rule: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, exit code 2."""
    assert main(["audit", "--command", given, "--epsilon", "1"]) == 2
    printed = capsys.readouterr()
    assert rule in printed.err
    assert printed.err.count("\n") == 1
