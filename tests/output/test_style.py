"""Figures of one style, and the same bytes for the same figure."""

import matplotlib as mpl
from matplotlib.figure import Figure

from ldpbandits.output.style import BY_EPSILON, STYLE, save


def drawn() -> tuple[bytes, bytes]:
    """A line, as SVG and as PNG."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2, 1))
        figure.subplots().plot([0, 1], [0, 1], color=BY_EPSILON[0][0], dashes=BY_EPSILON[0][1])
        return save(figure, "svg"), save(figure, "png")


def test_the_same_figure_is_the_same_file() -> None:
    """Without a date and without random names."""
    svg, png = drawn()
    assert svg.startswith(b"<?xml")
    assert png.startswith(b"\x89PNG")
    assert drawn() == (svg, png)


def test_each_epsilon_has_a_look_of_its_own() -> None:
    """No two share a colour, nor dashes: print has no colours."""
    colours, dashes = zip(*BY_EPSILON, strict=True)
    assert len(set(colours)) == len(set(dashes)) == len(BY_EPSILON)
