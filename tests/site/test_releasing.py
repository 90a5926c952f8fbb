"""What docs/releasing.md says of versions and builds is so."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import ldpbandits

SOURCES = ("pyproject.toml", "README.md", "LICENSE", "src")
BUILD = "import sys, hatchling.build; print(hatchling.build.build_wheel(sys.argv[1]))"


def copied(root: Path, folder: Path, changed_at: float) -> Path:
    """Return a copy of the sources whose files have this time."""
    folder.mkdir()
    for name in SOURCES:
        copy = shutil.copytree if (root / name).is_dir() else shutil.copy
        copy(root / name, folder / name)
    for path in folder.rglob("*"):
        os.utime(path, (changed_at, changed_at))
    return folder


def wheel(folder: Path) -> bytes:
    """Build the wheel of a folder; return its bytes."""
    out = folder / "out"
    run = subprocess.run(
        [sys.executable, "-c", BUILD, str(out)],
        cwd=folder,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return (out / run.stdout.split()[-1]).read_bytes()


def test_two_builds_of_the_wheel_are_the_same_bytes(root: Path, tmp_path: Path) -> None:
    """In other folders, from files with other times; and another source gives other bytes."""
    one, two = copied(root, tmp_path / "one", 1e9), copied(root, tmp_path / "two", 1.6e9)
    first = wheel(one)
    assert first == wheel(two)
    (two / "src" / "ldpbandits" / "types.py").write_text("X = 1\n", encoding="utf-8")
    assert first != wheel(two)


def test_the_three_versions_are_one(root: Path) -> None:
    """Of the Python package, of the npm package and its lock file, and of what is cited."""
    package = json.loads((root / "sdk/js/package.json").read_text(encoding="utf-8"))
    lock = json.loads((root / "sdk/js/package-lock.json").read_text(encoding="utf-8"))
    (cited,) = re.findall(r"^version: (\S+)$", (root / "CITATION.cff").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert {package["version"], lock["version"], cited} == {ldpbandits.__version__}
    assert re.fullmatch(r"\d+\.\d+\.\d+", ldpbandits.__version__)


def test_every_make_command_of_the_checklist_is_there(root: Path) -> None:
    """And each is in the list of `make help`."""
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"`make (\w+)`", (root / "docs/releasing.md").read_text(encoding="utf-8"))) | {"dist"}
    assert {"test", "faults", "bench", "run", "notebooks", "docs"} <= named
    for name in named:
        assert re.search(rf"^{name}:.*## ", makefile, flags=re.MULTILINE), name
