"""What the README shows, runs."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_python_blocks_run(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Each block runs by itself and prints something."""
    exec(compile(BLOCKS[number], f"README block {number}", "exec"), {})  # noqa: S102 - our own README
    assert capsys.readouterr().out


def test_there_are_python_blocks() -> None:
    """The README shows the live loop and a user's own index."""
    assert len(BLOCKS) >= 2
    assert "numba" in "".join(BLOCKS)
