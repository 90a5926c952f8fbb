"""Compiled code is cached, and an edited kernel is never served stale."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ldpbandits.lab.engine.compiled import COMPUTES, HERE, source_hash

COMPUTES_NOTHING = {"errors", "extras", "output"}
"""Sentences, and how results are written and drawn: no number comes from there."""

SIMULATE = """
import json
from ldpbandits.lab.engine import step
from ldpbandits.lab.algorithms import algorithm
from ldpbandits.lab.panels.paper import BERNOULLI
from ldpbandits.lab.experiments import simulate
made = simulate(algorithm("ucb1"), BERNOULLI, 2_000, trials=1, seed=0, jobs=1, engine="step")
print(made.mean_regret[-1], sum(step._advance_ucb.stats.cache_hits.values()))
"""


def simulate(source: Path, cache: Path) -> tuple[float, int]:
    """Run a copy of the package in a new process; return the regret, and how often the cache served."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(source),
        "NUMBA_CACHE_DIR": str(cache),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", SIMULATE], capture_output=True, text=True, check=True, timeout=300, env=environment
    )
    regret, hits = done.stdout.split()
    return float(regret), int(hits)


def test_the_cache_serves_and_notices_an_edited_kernel(root: Path, tmp_path: Path) -> None:
    """A second process compiles nothing; after the kernel's formula changes, the numbers change."""
    source, cache = tmp_path / "src", tmp_path / "cache"
    shutil.copytree(root / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    first, second = simulate(source, cache), simulate(source, cache)
    assert first[1] == 0
    assert second == (first[0], 1)
    kernels = source / "ldpbandits" / "agent" / "kernels.py"
    formula = "arm.mean + parameters[0] * sqrt(log(arm.t) / arm.n)"
    text = kernels.read_text(encoding="utf-8")
    assert text.count(formula) == 1
    kernels.write_text(text.replace(formula, "arm.mean + 0.1 * sqrt(log(arm.t) / arm.pulls)"), encoding="utf-8")
    edited = simulate(source, cache)
    assert edited[1] == 0
    assert edited[0] != first[0]


def test_a_folder_that_cannot_be_written_costs_only_time(root: Path, tmp_path: Path) -> None:
    """Where no cache can be kept, everything is compiled anew and works."""
    blocked = tmp_path / "file"
    blocked.write_text("not a folder", encoding="utf-8")
    assert simulate(root / "src", blocked)[1] == 0


@pytest.fixture(scope="module")
def package(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package."""
    copy = tmp_path_factory.mktemp("copy") / "ldpbandits"
    shutil.copytree(root / "src" / "ldpbandits", copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.mark.parametrize(
    ("file", "is_noticed"),
    [
        ("agent/kernels.py", True),
        ("lab/engine/leap.py", True),
        ("lab/rewards.py", True),
        ("spec/mechanisms.py", True),
        ("theory/bounds.py", True),
        ("checks.py", True),
        ("server/service.py", False),
        ("server/console/pages.py", False),
        ("device/client.py", False),
        ("cli/serve.py", False),
        ("output/page.py", False),
        ("__init__.py", False),
    ],
)
def test_an_edit_is_noticed_where_something_is_computed(package: Path, file: str, is_noticed: bool) -> None:  # noqa: FBT001 - a case
    """An edited rule compiles anew and computes anew; an edited page of the server does not."""
    before, path = source_hash(package), package / file
    text = path.read_text(encoding="utf-8")
    path.write_text(f"{text}\n# edited\n", encoding="utf-8")
    assert (source_hash(package) != before) == is_noticed
    path.write_text(text, encoding="utf-8")
    assert source_hash(package) == before == source_hash()


def test_a_file_that_is_moved_is_noticed(package: Path) -> None:
    """The name is part of it, with the folder."""
    before = source_hash(package)
    moved = (package / "agent" / "tally.py").rename(package / "spec" / "tally.py")
    assert source_hash(package) != before
    moved.rename(package / "agent" / "tally.py")


def test_nothing_is_computed_from_elsewhere() -> None:
    """What is hashed imports nothing of ours but what is hashed, and what computes nothing."""
    known = {name.removesuffix(".py") for name in COMPUTES}
    for path in (path for name in known for path in (HERE / name).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            parts = {name.split(".")[1] for name in names if name.startswith("ldpbandits.")}
            assert parts <= known | COMPUTES_NOTHING, f"{path.name} imports {parts}"
