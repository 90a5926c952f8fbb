"""Compiled code is cached, and an edited kernel is never served stale."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

SIMULATE = """
import json
from ldpbandits.lab.engine import step
from ldpbandits.lab.algorithms import algorithm
from ldpbandits.lab.paper import BERNOULLI
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
