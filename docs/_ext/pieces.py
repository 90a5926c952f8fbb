"""Small pieces of Markdown, for the generated pages."""

from collections.abc import Sequence


def cell(text: str) -> str:
    """Return a text for a cell of a table: on one line, and shown as it is."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def code(text: str) -> str:
    """Return a text as code, for a cell of a table."""
    return f"`{' '.join(text.split())}`".replace("|", "\\|")


def fence(text: str, language: str = "text") -> str:
    """Return a block of code."""
    return f"```{language}\n{text}\n```"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of cells."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
