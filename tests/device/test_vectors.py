"""The shared vectors are what the curators do."""

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from ldpbandits import curator_from_json

FOLDER = Path(__file__).parent.parent.parent / "vectors"
FILES = ["ctb", "ctb-range", "ctb-s", "ctb-t", "ctl", "ctl-range", "ctl-s", "ctl-t", "ctl-real-line"]


def cases(name: str) -> list[dict[str, Any]]:
    """Read a file."""
    listed: list[dict[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text(encoding="ascii"))
    return listed


@pytest.mark.parametrize("name", FILES)
def test_every_case_is_reproduced(name: str) -> None:
    """Given its words, a curator gives the listed response, and consumes exactly those words."""
    listed = cases(name)
    assert len(listed) >= 200
    for case in listed:
        text = case["words"]
        words = [int(text[i : i + 16], 16) for i in range(0, len(text), 16)]
        position = 0

        def draw(count: int, words: list[int] = words) -> list[int]:
            nonlocal position
            position += count
            assert position <= len(words)
            return words[position - count : position]

        assert curator_from_json(case["spec"]).respond_not_private(case["reward"], draw) == case["response"]
        assert position == len(words)


def test_the_files_are_what_the_script_writes() -> None:
    """Nobody edited a file by hand, and none is missing."""
    found = spec_from_file_location("write_vectors", FOLDER / "write.py")
    assert found is not None
    assert found.loader is not None
    script = module_from_spec(found)
    found.loader.exec_module(script)
    made = {f"{name}.json": script.written(listed) for name, listed in script.files().items()}
    assert made == {path.name: path.read_text(encoding="ascii") for path in FOLDER.glob("*.json")}


@pytest.mark.parametrize("name", FILES)
def test_the_rare_branches_are_among_the_cases(name: str) -> None:
    """Each file of CTL holds coins that need a second word, tails beyond the last digit, and minus zero."""
    lengths: dict[float, set[int]] = {}
    for case in cases(name):
        lengths.setdefault(case["spec"]["epsilon"], set()).add(len(case["words"]) // 16)
    if name.startswith("ctl"):
        for per_epsilon in lengths.values():
            usual = min(per_epsilon)
            assert usual + 1 in per_epsilon
            assert 2 * usual in per_epsilon
        assert any(min(per_epsilon) + 2 in per_epsilon for per_epsilon in lengths.values())
    else:
        assert all(per_epsilon == {1} for per_epsilon in lengths.values())
