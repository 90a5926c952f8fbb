"""Checks at the edges: each returns the value it was given, or says in one line which rule it breaks."""

import re
from math import isfinite
from numbers import Integral, Real
from typing import TypeGuard

from ldpbandits.errors import ParameterError

SMALLEST_EPSILON = 1e-6
"""Below this a response says next to nothing: some 10^12 of them would be needed to tell a reward of 0 from 1."""

LARGEST_EPSILON = 50.0
"""Above this a response hides nothing: e^-50 is 2 in 10^22."""


def is_number(value: object) -> TypeGuard[float]:
    """Tell whether `value` is a real number that a float can hold; True and False are not numbers here."""
    if not isinstance(value, float):
        if not isinstance(value, Real) or isinstance(value, bool):
            return False
        try:
            value = float(value)
        except OverflowError:  # an int beyond the largest float
            return False
    return isfinite(value)


def is_whole(value: object) -> TypeGuard[int]:
    """Tell whether `value` is an int, or an integer of numpy's; True and False are not numbers here."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def brief(value: object) -> str:
    """Write a value for an error, in one line of bearable length."""
    try:
        text = repr(value).replace("\n", " ")
    except ValueError:  # an int of more digits than Python prints
        return "a number too long to show"
    return text if len(text) <= 80 else f"{text[:77]}..."  # noqa: PLR2004 - about a line


_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What a text can do to a page or a terminal: C0, DEL, C1, ends of lines and paragraphs, the direction of writing."""


def has_controls(text: str) -> bool:
    r"""Tell whether a text has control characters in it.

    >>> has_controls("plain, \u00fc and \u4e2d"), has_controls("\x1b[2J")
    (False, True)
    """
    return _CONTROLS.search(text) is not None


def without_controls(text: str) -> str:
    """Return a stranger's text with a question mark for each control character, so that it can be shown."""
    return _CONTROLS.sub("?", text)


def check_epsilon(epsilon: object) -> float:
    """Check that `epsilon` is finite and > 0, and no further out than anyone needs."""
    if not is_number(epsilon) or not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        limits = f"from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}"
        raise ParameterError(f"epsilon must be finite and > 0, {limits}, got {brief(epsilon)}")
    return float(epsilon)


def check_count(name: str, value: object, least: int = 1) -> int:
    """Check that `value` is a whole number of at least `least`; 1e5 counts as whole."""
    if not is_number(value) or value != int(value) or value < least:
        raise ParameterError(f"{name} must be a whole number >= {least}, got {brief(value)}")
    return int(value)


def check_probability(name: str, value: object) -> float:
    """Check that `value` lies strictly between 0 and 1."""
    if not is_number(value) or not 0 < value < 1:
        raise ParameterError(f"{name} must lie strictly between 0 and 1, got {brief(value)}")
    return float(value)
