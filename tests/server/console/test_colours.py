"""The colours of arms: seen on the page, and told apart by the colour-blind. Measured in the stylesheet itself."""

import re
from itertools import combinations
from math import dist

import pytest

from ldpbandits.server.console.replies import STATIC

STYLE = STATIC["console.css"].decode()
SCHEMES = dict(zip(("light", "dark", "print"), re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL), strict=True))

SEEN = {
    "by most": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "without red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "without green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "without blue": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}
"""What becomes of linear red, green and blue (Machado, Oliveira and Fernandes 2009, severity 1)."""


def colours(scheme: str) -> tuple[list[list[float]], list[float]]:
    """Return the colours of the arms, and that of the paper, as linear red, green and blue."""
    named = dict(re.findall(r"--([\w-]+): #([0-9a-f]{3,6})\b", SCHEMES[scheme]))
    return [linear(named[f"arm-{arm}"]) for arm in range(8)], linear(named["paper"])


def linear(text: str) -> list[float]:
    """Read a colour of CSS."""
    full = text if len(text) == 6 else "".join(letter * 2 for letter in text)
    parts = [int(full[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def contrast(one: list[float], other: list[float]) -> float:
    """Return the contrast of WCAG, from 1 to 21."""
    dark, light = sorted(0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in (one, other))
    return (light + 0.05) / (dark + 0.05)


def lab(colour: list[float], seen: str) -> tuple[float, float, float]:
    """Return a colour, as it is seen, in CIELAB: there distances are those that people see; 2.3 is barely seen."""
    parts = [sum(a * b for a, b in zip(row, colour, strict=True)) for row in SEEN[seen]]
    red, green, blue = (min(max(part, 0.0), 1.0) for part in parts)
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883
    x, y, z = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in (x, y, z))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_arm_is_seen(scheme: str) -> None:
    """Graphics need a contrast of 3:1 to what is behind them (WCAG 2.2, 1.4.11)."""
    arms, paper = colours(scheme)
    assert min(contrast(arm, paper) for arm in arms) >= 3


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_arms_are_told_apart_whatever_one_sees(scheme: str, seen: str) -> None:
    """Any two are at least 13 apart, the first five 16: several times what can barely be told apart."""
    arms = [lab(arm, seen) for arm in colours(scheme)[0]]
    assert min(dist(one, other) for one, other in combinations(arms, 2)) >= 13
    assert min(dist(one, other) for one, other in combinations(arms[:5], 2)) >= 16
