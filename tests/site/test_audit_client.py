"""The recipe of docs/audit-client.md runs: a proxy that prints what a client sends."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from ldpbandits.audit.blackbox import runs, side_channels
from ldpbandits.cli import main

TEXT = (Path(__file__).parents[2] / "docs" / "audit-client.md").read_text(encoding="utf-8")
FILES = {re.match(r"# (\w+\.py)", block)[1]: block for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)}  # type: ignore[index]
COMMANDS = re.findall(r"^    ldpbandits (audit .*)$", TEXT, flags=re.MULTILINE)


@pytest.mark.parametrize(("number", "code"), [(0, 0), (1, 1)])
def test_the_recipe_runs(
    number: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The healthy client is consistent; a header that depends on the reward is found. False alarm: 1e-6."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runs, "USERS", 12)
    monkeypatch.setattr(runs, "FEWEST_USERS", 12)
    monkeypatch.setattr(runs, "COLOURED", 4)
    monkeypatch.setattr(side_channels, "TIMES", 8)
    words = [word.replace("python ", f"{shlex.quote(sys.executable)} ") for word in shlex.split(COMMANDS[number])]
    options = ["--samples", "1000", "--confidence", "0.999999", "--rewards", "0,1", "--json"]
    assert main([*words, *options]) == code
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == ("violated" if code else "consistent")
