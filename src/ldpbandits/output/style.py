"""Figures in one style: colours that survive colour blindness, dashes that survive print."""

import io
from typing import Any, Literal, TypeAlias

from matplotlib.figure import Figure

Look: TypeAlias = tuple[str, tuple[float, ...]]
"""The colour of a curve, and its dashes."""

STYLE: dict[Any, Any] = {
    "svg.hashsalt": "ldpbandits",  # the same figure is the same file
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
}
"""For matplotlib's `rc_context`."""

# Okabe and Ito's colours.
BLACK, BLUE, GREEN, VERMILION = "#000000", "#0072B2", "#009E73", "#D55E00"

BY_EPSILON: tuple[Look, ...] = (
    ("#440154", (1, 0)),
    ("#3b528b", (6, 2)),
    ("#21918c", (3, 1.5)),
    ("#5ec962", (6, 2, 1, 2)),
    ("#b8a000", (1, 1.2)),
)
"""From little epsilon to much: dark to light, each with its own dashes."""


def save(figure: Figure, kind: Literal["svg", "png"]) -> bytes:
    """Return a figure as the content of a file; the same figure gives the same bytes."""
    content = io.BytesIO()
    figure.savefig(content, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
    return content.getvalue()
