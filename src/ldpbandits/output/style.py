"""Figures in one style, as bytes of a file."""

import io
from typing import Any, Literal

from matplotlib.figure import Figure

STYLE: dict[Any, Any] = {
    "svg.hashsalt": "ldpbandits",  # the same figure is the same file
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
}
"""Style of all figures, for matplotlib's `rc_context`."""


def save(figure: Figure, kind: Literal["svg", "png"]) -> bytes:
    """Return a figure as the content of a file; the same figure gives the same bytes."""
    content = io.BytesIO()
    figure.savefig(content, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
    return content.getvalue()
