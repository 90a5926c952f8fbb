"""The kit: a draft of an impact assessment, a notice for visitors, and an inventory of what a device stores.

Each is a page of HTML that stands by itself, and that word processors open. Places that only the controller can fill in
are marked.
"""

from collections.abc import Callable
from importlib.resources import files
from string import Template
from time import time

from ldpbandits import __version__
from ldpbandits.output.page import document
from ldpbandits.papers.facts import Circumstances, facts_of
from ldpbandits.spec.messages import Report

TITLES = {
    "dpia": "Data protection impact assessment",
    "notice": "Notice for visitors",
    "storage": "Storage on the device",
}
"""The title of each paper; its file is its name with .html."""


def write_papers(
    report: Report, about: Circumstances, command: str, *, now: Callable[[], float] = time
) -> dict[str, str]:
    """Return the papers about an experiment, by file name; `command` is what their heads say of how they were made."""
    facts = facts_of(report, about, command, __version__, now())
    return {f"{name}.html": document(f"{title}: {report.name}", fill(name, facts)) for name, title in TITLES.items()}


def fill(name: str, facts: dict[str, str]) -> str:
    """Return the body of a paper with the facts in their places; a place without a fact is an error."""
    text = files(__package__).joinpath("templates", f"{name}.html").read_text(encoding="utf-8")
    return Template(text).substitute(facts)
