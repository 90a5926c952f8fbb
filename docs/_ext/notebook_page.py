"""A notebook as a page: its cells as Markdown, with their committed outputs."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from pieces import fence

Cell: TypeAlias = Mapping[str, Any]


def notebook_page(source: str) -> str:
    """Return the Markdown of a notebook."""
    return "\n\n".join(part for cell in json.loads(source)["cells"] for part in _cell(cell))


def _cell(cell: Cell) -> Iterator[str]:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield text
        return
    yield fence(text, "python")
    for output in cell["outputs"]:
        yield from _output(output, cell["metadata"].get("alt", "a figure"))


def _output(output: Cell, alt: str) -> Iterator[str]:
    """Yield the picture of an output with its alternative text, or else the printed text."""
    data = output.get("data", {})
    if "image/png" in data:
        encoded = "".join("".join(data["image/png"]).split())
        yield f"![{alt}](data:image/png;base64,{encoded})"
    elif "text" in output:
        yield fence("".join(output["text"]).rstrip())
    elif "text/plain" in data:
        yield fence("".join(data["text/plain"]).rstrip())
