"""Programs are audited through their lines, and what goes wrong with them is one line and exit code 2."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from ldpbandits.cli import main

CTB = """
import sys
from ldpbandits import BernoulliCurator
curator = BernoulliCurator(1.0)
for line in sys.stdin:
    print(int(curator.respond(float(line))))
"""
SEEDED = """
import random, sys
random.seed(1)
for line in sys.stdin:
    print(int(random.random() < (0.731 if float(line) > 0.5 else 0.269)))
"""
LEAKY = """
import sys
from ldpbandits import BernoulliCurator
curator = BernoulliCurator(1.0)
for line in sys.stdin:
    if not 0 <= float(line) <= 1:
        sys.exit(f"reward out of range: {line}")
    print(int(curator.respond(float(line))))
"""
HALF = "import sys; lines = sys.stdin.readlines(); print('1\\n' * (len(lines) // 2))"
WORDS = "import sys; print('one\\n' * len(sys.stdin.readlines()))"
DEAF = "print('1\\n' * 100_000)"
FLOOD = "while True: print('1' * 1000)"
HANGS = "import time; time.sleep(60)"
CRASHES = "raise SystemExit('no licence')"


def command(program: str, folder: Path) -> str:
    """Write a program, and return the command that runs it."""
    path = folder / "curator.py"
    path.write_text(program, encoding="utf-8")
    return shlex.join([sys.executable, str(path)])


def audited(program: str, folder: Path, *options: str) -> int:
    """Audit a program that claims epsilon = 1, so that a healthy one fails once in a million runs."""
    arguments = ["--epsilon", "1", "--samples", "2e4", "--confidence", "0.999999", "--json", *options]
    return main(["audit", "--command", command(program, folder), *arguments])


def test_a_healthy_program_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Our curator behind a pipe, held to its formula, is consistent; only JSON is on stdout."""
    assert audited(CTB, tmp_path, "--curator", "ctb") == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert printed.err == ""
    assert list(found) == [
        "verdict",
        "epsilon_claimed",
        "epsilon_lower",
        "confidence",
        "samples",
        "seconds",
        "layers",
    ]
    assert all(list(layer) == ["name", "verdict", "detail"] for layer in found["layers"])
    assert (found["verdict"], found["samples"], found["epsilon_claimed"]) == ("consistent", 20_000, 1.0)
    assert 0.85 < found["epsilon_lower"] <= 1.0


@pytest.mark.parametrize(
    ("program", "layer"), [(SEEDED, "known attacks: repeated seed"), (LEAKY, "known attacks: bad rewards")]
)
def test_a_faulty_program_is_caught(
    program: str, layer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A seed left in; a reward shown on refusal. Exit code 1, and the layer that said so."""
    assert audited(program, tmp_path) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "violated"
    assert [each["name"] for each in found["layers"] if each["verdict"] == "violated"] == [layer]


@pytest.mark.parametrize(
    ("program", "rule"),
    [
        (HALF, "must write one response a line: 40,000 rewards, 20,000 responses"),
        (WORDS, "must write numbers, got 'one'"),
        (DEAF, "must write one response a line: 40,000 rewards, 100,000 responses"),
        (FLOOD, "must write one response a line, and wrote far more"),
        (HANGS, "did not finish within 2 s (--timeout allows more)"),
        (CRASHES, "ended with code 1: no licence"),
    ],
)
def test_a_program_that_is_no_curator(
    program: str, rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Too few lines, words, lines without reading, a flood, silence, a crash: one line, exit code 2, no deadlock."""
    assert audited(program, tmp_path, "--timeout", "2") == 2
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
