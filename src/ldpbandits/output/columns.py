"""Text in columns, for terminals of any width. A letter may take two columns of a terminal, or none."""

from collections.abc import Sequence
from unicodedata import combining, east_asian_width

GAP = "  "

ASCII = str.maketrans({"█": "#", "├": "|", "┤": "|", "─": "-", "●": "o", "◂": "<", "▸": ">", "┄": ".", "…": "~"})
"""For terminals that know no other letters."""


def width_of(text: str) -> int:
    """Return how many columns of a terminal a text takes.

    >>> width_of("arm"), width_of("中文")
    (3, 4)
    """
    return sum(0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in text)


def pad(text: str, size: int, side: str = "<") -> str:
    """Fill a text up with blanks, behind it (<) or before it (>)."""
    blanks = " " * (size - width_of(text))
    return text + blanks if side == "<" else blanks + text


def cut(text: str, size: int) -> str:
    """Cut a text off where it gets too wide.

    >>> cut("Blue skies ahead", 8)
    'Blue sk…'
    """
    if width_of(text) <= size:
        return text
    while width_of(text) > size - 1:
        text = text[:-1]
    return text + "…"


def columns(header: Sequence[str], rows: Sequence[Sequence[str]], sides: str, width: int) -> list[str]:
    """Return a table, whose columns are flush left (<) or right (>), line by line."""
    sizes = [max(map(width_of, column)) for column in zip(header, *rows, strict=True)]
    lines = (
        GAP.join(pad(cell, size, side) for cell, size, side in zip(row, sizes, sides, strict=True))
        for row in (header, *rows)
    )
    return [cut(line.rstrip(), width) for line in lines]


def whisker(size: int, ends: Sequence[tuple[float, float, str]], dot: float | None, scale: tuple[float, float]) -> str:
    """Draw intervals over each other, the last one with its ends, and a dot, on a scale that is `size` columns long.

    A dot that is beyond the scale is a point at its end.

    >>> whisker(12, [(0.0, 0.9, "┄"), (0.2, 0.8, "─")], 0.4, (0.0, 1.0))
    '┄┄├─●────┤┄'
    """
    least, most = scale

    def place(value: float) -> int:
        return round((value - least) / ((most - least) or 1.0) * (size - 1))

    line = [" "] * size
    for low, high, mark in ends:
        line[place(low) : place(high) + 1] = mark * (place(high) - place(low) + 1)
    low, high, _ = ends[-1]
    line[place(low)], line[place(high)] = "├", "┤"
    if dot is not None:
        line[place(min(max(dot, least), most))] = "◂" if dot < least else "▸" if dot > most else "●"
    return "".join(line).rstrip()
