"""docs/rules.md has every rule, and what it shows, runs."""

import re
from pathlib import Path

import pytest

from ldpbandits.agent.rules import RULES
from ldpbandits.lab.algorithms import NAMES

PAGE = (Path(__file__).parents[2] / "docs" / "rules.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def test_every_rule_has_its_place() -> None:
    """Each kind of ours stands in a heading of the page; one that does not is noticed."""
    headings = set(re.findall(r"`([^`]+)`", "".join(re.findall(r"^### .*$", PAGE, flags=re.MULTILINE))))
    ours = {kind.kind for kind in RULES if kind.__module__.startswith("ldpbandits.")}
    assert ours == headings
    assert "no-such-rule" not in headings


def test_every_algorithm_that_it_names_is_there() -> None:
    """Rows of its tables go by names that `simulate` takes."""
    named = set(re.findall(r"^\| `((?:ldp-)?[^` ]+)` \|", PAGE, flags=re.MULTILINE))
    assert len(named) > 10
    assert named <= set(NAMES)


@pytest.mark.parametrize("block", BLOCKS)
def test_python_blocks_run(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each block runs by itself and prints something."""
    exec(compile(block, "a block of docs/rules.md", "exec"), {})  # noqa: S102 - our own page
    assert capsys.readouterr().out
