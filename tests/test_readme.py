"""What the README shows, runs."""

import re
import shlex
from pathlib import Path

import pytest

from ldpbandits.cli import main
from ldpbandits.demo import running

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
LIVE = [block for block in BLOCKS if "Client(" in block]
URL = "http://127.0.0.1:8000"


def run(block: str) -> None:
    """Run a block by itself."""
    exec(compile(block, "a block of the README", "exec"), {})  # noqa: S102 - our own README


@pytest.mark.parametrize("number", [number for number, block in enumerate(BLOCKS) if block not in LIVE])
def test_python_blocks_run(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Each block runs by itself and prints something."""
    run(BLOCKS[number])
    assert capsys.readouterr().out


def test_the_live_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Against a real server: the experiment of the README is created, and its Python block takes part in it."""
    (block,) = LIVE
    create, show = re.findall(r"^    ldpbandits (experiments .*)$", README, flags=re.MULTILINE)
    assert URL in block
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with running() as agent:
        monkeypatch.setenv("CLIENT", agent.client)
        monkeypatch.setenv("LDPBANDITS_URL", agent.url)
        monkeypatch.setenv("LDPBANDITS_ADMIN_KEY", agent.admin)
        assert main(shlex.split(create)) == 0
        capsys.readouterr()
        run(block.replace(URL, agent.url))
        assert capsys.readouterr().out.endswith("True 1.0\n")
        assert main(shlex.split(show.removesuffix(" --watch"))) == 0
        assert "1 response" in capsys.readouterr().out
    assert (tmp_path / "ldpbandits" / "ledger.db").exists()


def test_there_are_python_blocks() -> None:
    """The README shows the loop, a rule of a user's own, and a device that takes part."""
    assert len(BLOCKS) >= 3
    assert sum("def index(" in block for block in BLOCKS) == 1
    assert len(LIVE) == 1
