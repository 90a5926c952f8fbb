"""Figures for dark pages: every colour is mapped, nothing else, and what is drawn can be seen."""

import re

import pytest

from ldpbandits.output import colours
from ldpbandits.output.dark import CARD, INK, LEAST_CONTRAST, contrast, dark, dark_colour
from ldpbandits.output.page import STYLE

SVG = b"""<?xml version="1.0"?><svg width="1pt"><path d="M 0 0" style="fill: #ffffff"/><use xlink:href="#m123456"
style="fill: #0072b2; stroke: #440154"/><rect fill="#000000"/>
<g clip-path="url(#p0123456789)" style="fill: none"/></svg>"""


def test_every_paint_is_mapped_and_nothing_else() -> None:
    """References keep their names, `none` stays, and shapes without a colour get ink from the root."""
    drawn = dark(SVG).decode()
    assert f'<svg fill="{INK}" width="1pt">' in drawn
    assert f'style="fill: {CARD}"' in drawn
    assert f'<rect fill="{INK}"/>' in drawn
    assert 'xlink:href="#m123456"' in drawn
    assert 'url(#p0123456789)" style="fill: none"' in drawn
    assert re.sub("#[0-9a-f]{6}", "", drawn.replace(f' fill="{INK}" width', " width")) == re.sub(
        "#[0-9a-f]{6}", "", SVG.decode()
    )


PALETTE = sorted(
    {value for name, value in vars(colours).items() if name.isupper() and isinstance(value, str)}
    | {colour for colour, _ in colours.BY_EPSILON}
)
"""Every colour that our figures are drawn with."""


@pytest.mark.parametrize("colour", PALETTE)
def test_colours_of_figures_stand_out_from_the_card(colour: str) -> None:
    """Each has at least the contrast of text."""
    assert contrast(dark_colour(colour), CARD) >= LEAST_CONTRAST


def test_colours_stay_apart() -> None:
    """Colours that differ on white differ on the card."""
    assert len({dark_colour(colour) for colour in PALETTE}) == len(PALETTE)


def test_greys_keep_their_order() -> None:
    """What is nearer to white becomes nearer to the card."""
    greys = [dark_colour(f"#{level:02x}{level:02x}{level:02x}") for level in range(0, 256, 15)]
    contrasts = [contrast(grey, CARD) for grey in greys]
    assert contrasts == sorted(contrasts, reverse=True)
    assert (greys[0], greys[-1]) == (INK, CARD)


def test_the_card_is_that_of_pages() -> None:
    """Ground and ink are those of the stylesheet's dark scheme."""
    night = STYLE.partition("prefers-color-scheme: dark")[2]
    assert f"--card: {CARD}; --ink: {INK};" in night
