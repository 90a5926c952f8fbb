"""The notebooks run, print what they were committed with, and tell nothing of the machine that ran them."""

import copy
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from run_notebooks import FOLDER, differences

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_three() -> None:
    """The paper and beyond it, plan and run, a policy of one's own."""
    assert [path.stem for path in NOTEBOOKS] == ["own-policy", "paper", "plan-and-run"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_prints_what_it_says(path: Path, root: Path) -> None:
    """In an empty folder, from top to bottom; cells that hang on the noise of curators print something else."""
    script = root / "docs" / "_ext" / "run_notebooks.py"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), os.environ.get("PYTHONPATH", "")])}
    run = subprocess.run(
        [sys.executable, str(script), path.name],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_pictures_and_no_paths(path: Path) -> None:
    """It was committed with its outputs, each cell was run, and no path of a machine is in it."""
    text = path.read_text(encoding="utf-8")
    notebook: Any = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert text.count('"image/png"') >= 2
    assert re.findall(r"(?<![\w.])/(?:home|root|tmp|usr|work)/", text) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_can_be_read_as_a_page(path: Path) -> None:
    """No line of code is cut off on the site, and each picture has words for whoever does not see it."""
    for cell in nbformat.read(path, as_version=4).cells:
        draws = any("image/png" in output.get("data", {}) for output in cell.get("outputs", ()))
        assert bool(cell.metadata.get("alt")) is draws
        assert cell.cell_type == "markdown" or [line for line in cell.source.splitlines() if len(line) > 100] == []


def test_a_cell_that_prints_something_else_is_noticed() -> None:
    """And one that draws no more; but not one that varies."""
    notebook: Any = nbformat.read(NOTEBOOKS[0], as_version=4)
    assert list(differences(notebook, notebook)) == []
    changed = copy.deepcopy(notebook)
    printing = next(cell for cell in changed.cells if any("text" in output for output in cell.get("outputs", ())))
    printing.outputs[0].text = "42\n"
    assert len(list(differences(notebook, changed))) == 1
    assert list(differences(_varying(notebook), changed)) == []
    drawing = next(cell for cell in changed.cells if any("data" in output for output in cell.get("outputs", ())))
    drawing.outputs = []
    assert any("draws 0 pictures, not 1" in line for line in differences(notebook, changed))


def _varying(notebook: Any) -> Any:
    """Return the notebook with all its cells tagged."""
    tagged = copy.deepcopy(notebook)
    for cell in tagged.cells:
        cell.metadata["tags"] = ["varies"]
    return tagged
