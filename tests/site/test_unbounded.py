"""What docs/unbounded.md shows, runs."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from ldpbandits.agent.bisection import Bisection
from ldpbandits.cli import main, parser
from ldpbandits.demo import running

PAGE = (Path(__file__).parents[2] / "docs" / "unbounded.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
DEVICE = [block for block in BLOCKS if "def take_part" in block]
COMMANDS = re.findall(r"^    ldpbandits (.*)$", PAGE, flags=re.MULTILINE)


def run(block: str) -> dict[str, Any]:
    """Run a block by itself; return its names."""
    names: dict[str, Any] = {}
    exec(compile(block, "docs/unbounded.md", "exec"), names)  # noqa: S102 - our own page
    return names


@pytest.mark.parametrize("block", [block for block in BLOCKS if block not in DEVICE])
def test_python_blocks_run(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each by itself, and it prints something."""
    run(block)
    assert capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that need no server; the other has options that exist."""
    words = shlex.split(command)
    assert parser().parse_known_args(words)[1] == []
    if "--server" not in words:
        assert main(words) == 0
        assert capsys.readouterr().out


def test_a_device_of_the_page_follows_the_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It passes a step that is closed, takes part in the open one, and stops where there is none."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (block,) = DEVICE
    take_part, curator = run(block)["take_part"], Bisection(0, 1e6, 0.5).curator.to_json()
    with running() as agent:
        for number in (1, 2):
            name = f"revenue-calibration-{number}"
            agent.ask("/v1/experiments", {"name": name, "arms": ["blue"], "curator": curator})
        agent.ask("/v1/experiments/revenue-calibration-1/close", {})
        take_part(agent.url, agent.client, lambda _: 30.0)
        assert agent.ask("/v1/experiments/revenue-calibration-2")["responses"] == 1
        agent.ask("/v1/experiments/revenue-calibration-2/close", {})
        take_part(agent.url, agent.client, lambda _: 30.0)


def test_the_numbers_of_the_page_are_so() -> None:
    """The longest step, at two epsilons."""
    assert "(1,668 at epsilon 0.5, 469 at epsilon 1)" in PAGE
    assert [Bisection(0, 1, epsilon).longest for epsilon in (0.5, 1)] == [1_668, 469]
