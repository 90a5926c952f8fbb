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

from ldpbandits.audit.program import exchange
from ldpbandits.cli import main

ODD = """
import random, sys
for line in sys.stdin:
    print(random.choice(["nan", "inf", "-inf", "1e308", "0.5"]))
"""
TWO_A_LINE = "import sys; print('1 0\\n' * len(sys.stdin.readlines()))"
BETWEEN = """
import sys
from ldpbandits import BernoulliCurator
curator = BernoulliCurator(1.0)
for line in sys.stdin:
    reward = float(line)
    print(int(curator.respond(reward)) if reward in (0, 1) else "error: 0 or 1")
"""
TALKS = """
import sys
from ldpbandits import BernoulliCurator
curator = BernoulliCurator(1.0)
for line in sys.stdin:
    reward = float(line)
    if not 0 <= reward <= 1:
        sys.exit("out of range")
    print(f"took {reward:.4f}", file=sys.stderr)
    print(int(curator.respond(reward)))
"""
HEXES = """
import sys
from ldpbandits import BernoulliCurator
curator = BernoulliCurator(1.0)
for line in sys.stdin:
    reward = float(line)
    if not 0 <= reward <= 1:
        sys.exit(f"out of range: {reward.hex()}")
    print(int(curator.respond(reward)))
"""
LEAVES = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session={escapes})
open({path!r}, "w").write(str(child.pid))
print(1)
"""


def audited(program: str, folder: Path, *options: str) -> int:
    """Audit a program that claims epsilon = 1; a healthy one fails once in a million runs."""
    path = folder / "curator.py"
    path.write_text(program, encoding="utf-8")
    words = ["--epsilon", "1", "--samples", "5e3", "--confidence", "0.999999", "--json", *options]
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


def test_a_line_is_a_response(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two numbers in a line are not two responses: exit code 2."""
    assert audited(TWO_A_LINE, tmp_path) == 2
    assert "must write numbers, got '1 0'" in capsys.readouterr().err


def test_an_error_line_for_rewards_between_ends_no_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A curator of 0 and 1 alone need not take others, and is judged by those that it takes."""
    assert audited(BETWEEN, tmp_path) == 0
    assert verdicts(capsys.readouterr().out)["known attacks: memoised responses"] != "violated"


@pytest.mark.parametrize("program", [TALKS, HEXES])
def test_what_a_program_says_of_rewards_is_read(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reward in range on stderr, or the bits of a refused one, is a violation."""
    assert audited(program, tmp_path) == 1
    told = verdicts(capsys.readouterr().out)
    assert [name for name, verdict in told.items() if verdict == "violated"] == ["known attacks: bad rewards"]


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
    done = exchange([sys.executable, "-c", LEAVES.format(escapes=False, path=path)], "0\n", 30, 1000)
    assert (done.code, done.output) == (0, "1\n")
    child, until = int(Path(path).read_text(encoding="utf-8")), monotonic() + 10
    while is_running(child) and monotonic() < until:
        sleep(0.01)
    assert not is_running(child)


def test_a_child_that_escapes_holds_nothing_beyond_the_time(tmp_path: Path) -> None:
    """One that leaves the group with the pipes in its hands, for a minute: after the time, here 2 s, it is over."""
    path, started = str(tmp_path / "pid"), monotonic()
    try:
        done = exchange([sys.executable, "-c", LEAVES.format(escapes=True, path=path)], "0\n", 2, 1000)
        assert done.code is None
        assert monotonic() - started < 30  # not the minute; a busy machine has its half
    finally:
        os.kill(int(Path(path).read_text(encoding="utf-8")), signal.SIGKILL)
