"""What docs/choosing.md shows is printed by the commands beside it."""

import re
import shlex
from pathlib import Path

import pytest

from ldpbandits.cli import main, parser
from ldpbandits.lab.planning.case import Case
from ldpbandits.lab.planning.question import Question

PAGE = (Path(__file__).parents[2] / "docs" / "choosing.md").read_text(encoding="utf-8")
SHOWN = re.findall(
    r"^ +ldpbandits (plan [^\n]*)\n(?:\n[^\n]*among other things:\n)?\n```text\n(.*?)```",
    PAGE,
    flags=re.MULTILINE | re.DOTALL,
)
COMMANDS = re.findall(r"^ +ldpbandits (plan .*)$", PAGE, flags=re.MULTILINE)
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
SHORT = ["--trials", "10", "--horizon", "1000"]
"""Plays the rule as little as there is. What is printed of equal shares, and of duels of two arms, stays the same."""


def squeezed(text: str) -> str:
    """Return a line with single spaces: columns are as wide as their widest cell, which may not be shown."""
    return " ".join(text.split())


def test_every_command_but_that_with_data_of_ones_own_shows_what_it_prints() -> None:
    """And all have options that exist."""
    assert len(SHOWN) == len(COMMANDS) - 1
    for command in COMMANDS:
        options, unknown = parser().parse_known_args(shlex.split(command))
        assert (options.chosen.name, unknown) == ("plan", [])


@pytest.mark.parametrize("command", sorted({command for command, _ in SHOWN}))
def test_all_lines_that_are_shown_are_printed(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """To the last digit. Where no line of a rule is shown, it is played for a short while only."""
    lines = [squeezed(line) for shown, text in SHOWN for line in text.splitlines() if shown == command and line]
    is_short = "ctl" not in command and not any(re.search(r"kl-ucb\+\+|imed", line) for line in lines)
    assert main([*shlex.split(command), *(SHORT if is_short else [])]) == 0
    printed = set(map(squeezed, capsys.readouterr().out.splitlines()))
    assert [line for line in lines if line not in printed] == []
    assert len(lines) > 0


def test_the_number_that_the_text_compares_with_stands_in_the_first_table() -> None:
    """CTL beside CTB: what the power asks for at epsilon 1, by duels."""
    (compared,) = re.findall(r"^against ([\d,]+) with CTB", PAGE, flags=re.MULTILINE)
    (row,) = re.findall(r"^ +1 +duels +(.*)$", SHOWN[0][1], flags=re.MULTILINE)
    assert row.split()[3] == compared


@pytest.mark.parametrize("block", BLOCKS)
def test_python_blocks_run(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each block runs by itself and prints something."""
    exec(compile(block, "a block of docs/choosing.md", "exec"), {})  # noqa: S102 - our own page
    assert capsys.readouterr().out


def test_the_numbers_of_star_ratings_are_those_of_the_z_test(tmp_path: Path) -> None:
    """CTB at epsilon 1 and 4, CTL at epsilon 4, and no privacy; the law of the ratings stands in the text."""
    shares = re.findall(r"(\d+) % are (\d)", " ".join(PAGE.split()))
    assert sum(int(share) for share, _ in shares) == 100
    place = tmp_path / "stars.csv"
    place.write_text("reward\n" + "".join(f"{stars}\n" * int(share) for share, stars in shares), encoding="utf-8")
    told = []
    for curator, epsilon in (("ctb", 1.0), ("ctb", 4.0), ("ctl", 4.0), ("ctb", None)):
        asked = Question(data=str(place), declared=(1, 5), lift=0.05, epsilon=(1.0,), curator=curator, seed=0)
        told.append(f"{Case(asked, epsilon, 0.05).textbook():,}")
    sentence = "takes {} responses with CTB at epsilon 1, {} at epsilon 4, {} with CTL at epsilon 4, and {} without"
    assert sentence.format(*told) in " ".join(PAGE.split())


def test_the_command_with_data_of_ones_own_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a table of ratings from 0 to 5."""
    (command,) = (each for each in COMMANDS if "--data" in each)
    monkeypatch.chdir(tmp_path)
    Path("past.csv").write_text("reward\n" + "3\n4\n1\n5\n" * 25, encoding="utf-8")
    assert main([*shlex.split(command), *SHORT]) == 0
    assert "\n3.25 (the mean of 100 rewards in past.csv) against 3.575" in capsys.readouterr().out
