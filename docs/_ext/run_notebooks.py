"""Run the notebooks, and compare their output with the committed output, or replace it.

    python docs/_ext/run_notebooks.py            # run all; name each cell whose output differs
    python docs/_ext/run_notebooks.py --write    # run all; write their output into the files

Cells with the tag `varies` print responses of curators, which have no seed: their output is not compared.
"""

import argparse
import copy
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

FOLDER = Path(__file__).parents[1] / "notebooks"
CELL_TIMEOUT_S = 300
"""Most seconds of a cell, on a busy machine."""


def run(notebook: Any) -> Any:  # noqa: ANN401 - nbformat is not typed
    """Run a notebook in an empty folder, and return it without any metadata about this machine."""
    played = copy.deepcopy(notebook)
    with tempfile.TemporaryDirectory(prefix="ldpbandits-notebook-") as folder:
        os.environ.update({"IPYTHONDIR": folder, "JUPYTER_CONFIG_DIR": folder, "JUPYTER_RUNTIME_DIR": folder})
        by_files = Config(
            {"KernelManager": {"transport": "ipc", "ip": f"{folder}/kernel"}}
        )  # no network, not even loopback
        resources = {"metadata": {"path": folder}}
        NotebookClient(
            played, config=by_files, timeout=CELL_TIMEOUT_S, resources=resources, coalesce_streams=True
        ).execute()
    played.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(played.cells):
        cell.id = f"cell-{number}"
        cell.metadata.pop("execution", None)
    return played


def printed(cell: Any) -> str:  # noqa: ANN401 - as above
    """Return the text that a cell has printed or returned."""
    texts = []
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        if output["output_type"] == "stream":
            texts.append(output["text"])
        elif "image/png" not in data:
            texts.append(data.get("text/plain", ""))
    return "".join(texts)


def differences(before: Any, after: Any) -> Iterator[str]:  # noqa: ANN401 - as above
    """Yield a line for every cell whose printed text or number of figures differs."""
    for number, (old, new) in enumerate(zip(before.cells, after.cells, strict=True)):
        if old.cell_type != "code":
            continue
        if drawings(old) != drawings(new):
            yield f"cell {number} draws {drawings(new)} pictures, not {drawings(old)}"
        if "varies" not in old.metadata.get("tags", ()) and printed(old) != printed(new):
            yield f"cell {number} prints {printed(new)!r}, not {printed(old)!r}"


def drawings(cell: Any) -> int:  # noqa: ANN401 - as above
    """Return the number of figures that a cell shows."""
    return sum("image/png" in output.get("data", {}) for output in cell.get("outputs", ()))


def main(arguments: list[str]) -> int:
    """Run the notebooks that are named, or all; return the exit code."""
    parser = argparse.ArgumentParser(description="run the notebooks of the docs")
    parser.add_argument("names", nargs="*", metavar="NOTEBOOK", help="without a name: all")
    parser.add_argument("--write", action="store_true", help="write their output into the files")
    options = parser.parse_args(arguments)
    code = 0
    for path in [FOLDER / name for name in options.names] or sorted(FOLDER.glob("*.ipynb")):
        before = nbformat.read(path, as_version=4)
        after = run(before)
        if options.write:
            nbformat.write(after, path)
        else:
            for line in differences(before, after):
                print(f"{path.name}: {line}", file=sys.stderr)
                code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
