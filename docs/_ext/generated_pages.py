"""The Sphinx extension that replaces a comment in a page by generated Markdown, and reads notebooks as pages."""

from collections.abc import Callable
from typing import Any

from api_page import api_page
from command_page import command_page
from http_page import http_page
from notebook_page import notebook_page

PAGES: dict[str, Callable[[], str]] = {"commands": command_page, "http": http_page, "api": api_page}


def read(app: Any, name: str, source: list[str]) -> None:  # noqa: ANN401 - Sphinx is not typed here
    """Insert the generated Markdown into the source of a page."""
    if str(app.env.doc2path(name)).endswith(".ipynb"):
        source[0] = notebook_page(source[0])
    for word, page in PAGES.items():
        mark = f"<!-- generated: {word} -->"
        if mark in source[0]:
            source[0] = source[0].replace(mark, page())


def setup(app: Any) -> dict[str, bool]:  # noqa: ANN401 - as above
    """Register `read` with Sphinx: it runs for every source that is read."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
