"""A figure for a dark page, made from the one for a light page: the same drawing, with every colour mapped.

Neutral colours go from white..black to the page's card..ink. Other colours keep their hue; what would be too dark on
the card is mixed with white, until it has the contrast that WCAG asks of text.
"""

import re
from typing import TypeAlias

Colour: TypeAlias = tuple[float, float, float]
"""Red, green and blue from 0 to 1, in sRGB."""

CARD, INK = "#1a1d21", "#e9e7e3"
"""Ground and text of a card on dark pages, as the stylesheet of pages has them."""

LEAST_CONTRAST = 4.5
"""The least contrast of what is drawn with the card: that of text (WCAG 2, 1.4.3), as words have these colours too."""

LEAST_CHROMA = 0.06
"""A colour whose channels differ by less counts as neutral."""

MIXING_STEPS = 100
"""Steps from a colour to white."""

_PAINT = re.compile(rb'((?:fill|stroke|stop-color)(?::\s*|="))(#[0-9a-fA-F]{6})')
_ROOT = re.compile(rb"<svg\b")


def dark(svg: bytes) -> bytes:
    """Return an SVG for dark pages. Shapes without a colour are black by default: they become ink."""
    mapped = _PAINT.sub(lambda found: found[1] + dark_colour(found[2].decode()).encode(), svg)
    return _ROOT.sub(b'<svg fill="%s"' % INK.encode(), mapped, count=1)


def dark_colour(colour: str) -> str:
    """Return the colour on a dark card of what has this colour on a white one.

    >>> dark_colour("#ffffff"), dark_colour("#000000"), dark_colour("#e69f00")
    ('#1a1d21', '#e9e7e3', '#e69f00')
    """
    rgb = _read(colour)
    if max(rgb) - min(rgb) < LEAST_CHROMA:
        whiteness = sum(rgb) / 3
        ends = zip(_read(INK), _read(CARD), strict=True)
        return _write(*(ink + whiteness * (card - ink) for ink, card in ends))
    whites = (step / MIXING_STEPS for step in range(MIXING_STEPS + 1))
    mixed = (_write(*(value + white * (1 - value) for value in rgb)) for white in whites)
    return next(each for each in mixed if contrast(each, CARD) >= LEAST_CONTRAST)


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours by WCAG 2: from 1 for the same to 21 for black and white.

    >>> round(contrast("#000000", "#ffffff"), 6)
    21.0
    """
    darker, lighter = sorted((_luminance(_read(one)), _luminance(_read(other))))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(rgb: Colour) -> float:
    red, green, blue = (value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in rgb)  # noqa: PLR2004 - sRGB
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _read(colour: str) -> Colour:
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return red, green, blue


def _write(*rgb: float) -> str:
    return "#" + "".join(f"{round(255 * value):02x}" for value in rgb)
