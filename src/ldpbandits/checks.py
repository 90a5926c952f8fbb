"""Validation of arguments: each check returns the value, or raises an error of one line that names the broken rule."""

from math import isfinite
from numbers import Integral, Real
from typing import TypeGuard

from ldpbandits.errors import ParameterError

SMALLEST_EPSILON = 1e-6
"""Below this a response carries next to no information: it takes some 10^12 to tell a reward of 0 from 1."""

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
    """Return the repr of a value for an error message, in one line of at most 80 characters."""
    try:
        text = repr(value).replace("\n", " ")
    except ValueError:  # an int of more digits than Python prints
        return "a number too long to show"
    return text if len(text) <= 80 else f"{text[:77]}..."  # noqa: PLR2004 - about a line


def check_epsilon(epsilon: object, error: type[ParameterError] = ParameterError) -> float:
    """Check that `epsilon` is a number from `SMALLEST_EPSILON` to `LARGEST_EPSILON`; else raise `error`."""
    if not is_number(epsilon) or not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        limits = f"from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}"
        raise error(f"epsilon must be finite and > 0, {limits}, got {brief(epsilon)}")
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
