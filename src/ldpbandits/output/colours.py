"""Colours that survive colour blindness, each with dashes that survive print. They need no plotting library."""

from typing import TypeAlias

Look: TypeAlias = tuple[str, tuple[float, ...]]
"""The colour of a curve, and its dashes."""

# Okabe and Ito's colours.
BLACK, BLUE, GREEN, VERMILION = "#000000", "#0072B2", "#009E73", "#D55E00"
ORANGE, PURPLE, SKY, GREY = "#E69F00", "#CC79A7", "#56B4E9", "#777777"

BY_EPSILON: tuple[Look, ...] = (
    ("#440154", (1, 0)),
    ("#3b528b", (6, 2)),
    ("#21918c", (3, 1.5)),
    ("#5ec962", (6, 2, 1, 2)),
    ("#b8a000", (1, 1.2)),
)
"""From little epsilon to much: dark to light, each with its own dashes."""
