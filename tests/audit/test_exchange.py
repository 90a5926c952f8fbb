"""Programs are run within their time and ended with what they started; odd lines are judged, and end no audit."""

import json
import os
import shlex
import signal
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

import pytest

from ldpbandits.audit.blackbox import runs
from ldpbandits.audit.program import program
from ldpbandits.cli import main

ODD = """
import random, sys
for line in sys.stdin:
    print(random.choice(["nan", "inf", "-inf", "1e308", "0.5"]))
"""
TWO_A_LINE = "import sys; print('1 0\\n' * len(sys.stdin.readlines()))"
BETWEEN = """
import random, sys
rng = random.SystemRandom()
def respond(reward):
    bit = rng.random() < reward
    return int(bit if rng.random() < 0.731 else not bit)
for line in sys.stdin:
    reward = float(line)
    print(int(respond(reward)) if reward in (0, 1) else "error: 0 or 1")
"""
TALKS = """
import random, sys
rng = random.SystemRandom()
def respond(reward):
    bit = rng.random() < reward
    return int(bit if rng.random() < 0.731 else not bit)
for line in sys.stdin:
    reward = float(line)
    if not 0 <= reward <= 1:
        sys.exit("out of range")
    print(f"took {reward:.4f}", file=sys.stderr)
    print(int(respond(reward)))
"""
HEXES = """
import random, sys
rng = random.SystemRandom()
def respond(reward):
    bit = rng.random() < reward
    return int(bit if rng.random() < 0.731 else not bit)
for line in sys.stdin:
    reward = float(line)
    if not 0 <= reward <= 1:
        sys.exit(f"out of range: {reward.hex()}")
    print(int(respond(reward)))
"""
LEAVES = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session={escapes})
open({path!r}, "w").write(str(child.pid))
print(1)
"""


@pytest.fixture(autouse=True)
def fewer_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start each program some sixty times, not a thousand times."""
    monkeypatch.setattr(runs, "USERS", 48)


def audited(body: str, folder: Path, *options: str) -> int:
    """Audit a program that claims epsilon = 1; a healthy one fails once in a million runs."""
    path = folder / "curator.py"
    path.write_text(body, encoding="utf-8")
    words = ["--epsilon", "1", "--samples", "2e3", "--confidence", "0.999999", "--json", "--time", "60", *options]
    return main(["audit", "--command", shlex.join([sys.executable, str(path)]), *words])


def verdicts(printed: str) -> dict[str, str]:
    """The verdict of each layer."""
    return {layer["name"]: layer["verdict"] for layer in json.loads(printed)["layers"]}


def test_infinity_and_what_is_no_number_are_responses_like_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program that prints nan, inf and 1e308 whatever the reward is private, and is no CTL."""
    assert audited(ODD, tmp_path) == 0
    assert capsys.readouterr().err == ""
    assert audited(ODD, tmp_path, "--curator", "ctl", "--samples", "2e4") == 1
    printed = capsys.readouterr()
    assert verdicts(printed.out)["sanity: mean and variance"] == "violated"
    assert printed.err == ""


def test_a_line_is_a_response(tmp_path: Path) -> None:
    """Whatever is on it: two numbers in a line are one response, and blank lines after the last are none."""
    assert audited(TWO_A_LINE, tmp_path) == 0


def test_an_error_line_for_rewards_between_ends_no_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A curator of 0 and 1 alone need not take others, and is judged by those that it takes."""
    assert audited(BETWEEN, tmp_path) == 0
    assert verdicts(capsys.readouterr().out)["empirical: neighbours"] != "violated"


@pytest.mark.parametrize(
    ("body", "layers"),
    [
        (TALKS, ["known attacks: one at a time", "known attacks: short runs"]),
        (HEXES, ["known attacks: bad rewards"]),
    ],
)
def test_what_a_program_says_of_rewards_is_read(
    body: str, layers: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reward in range on stderr, or the bits of a refused one, is a violation."""
    assert audited(body, tmp_path) == 1
    told = verdicts(capsys.readouterr().out)
    assert [name for name, verdict in told.items() if verdict == "violated"] == layers


def is_running(pid: int) -> bool:
    """Tell whether a process runs: neither gone nor waiting to be collected."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.joinpath("self").exists():
        with suppress(OSError):
            return stat.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def test_what_a_program_started_is_ended_with_it(tmp_path: Path) -> None:
    """A child in its process group that keeps the pipes open neither holds the audit nor outlives the program."""
    path = str(tmp_path / "pid")
    leaves = program(shlex.join([sys.executable, "-c", LEAVES.format(escapes=False, path=path)]))
    assert leaves.run_once([0.0], 30).response == b"1"
    child, until = int(Path(path).read_text(encoding="utf-8")), monotonic() + 10
    while is_running(child) and monotonic() < until:
        sleep(0.01)
    assert not is_running(child)


def test_a_child_that_escapes_holds_nothing(tmp_path: Path) -> None:
    """One that leaves the group with the pipes in its hands, for a minute: once the program ends, it is over."""
    path, started = str(tmp_path / "pid"), monotonic()
    leaves = program(shlex.join([sys.executable, "-c", LEAVES.format(escapes=True, path=path)]))
    try:
        assert leaves.run_once([0.0], 50).response == b"1"
        assert monotonic() - started < 30  # not the minute; a busy machine has its half
    finally:
        os.kill(int(Path(path).read_text(encoding="utf-8")), signal.SIGKILL)
