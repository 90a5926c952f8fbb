"""From a user's reward to what a mechanism takes: a number in [0, 1], or any number for the real line.

Every check of a reward is here. A reward that cannot be taken is answered with the rule it breaks; the exception is
raised elsewhere, because the frames of its traceback hold local variables, and here those hold the reward.
"""

from fractions import Fraction
from math import exp, inf, isfinite, isnan
from numbers import Rational, Real

from ldpbandits.wire import Range, Sigmoid, Transform


class Refused(str):
    """The rule that a reward breaks."""

    __slots__ = ()


def sigmoid(x: float) -> float:
    """1 / (1 + e^-x), without overflow."""
    if x >= 0:
        return 1.0 / (1.0 + exp(-x))
    return exp(x) / (1.0 + exp(x))


def transformed(transform: Transform, reward: object, *, clip: bool = False) -> float | Fraction | Refused:
    """Check a reward and apply the transform. With `clip`, a reward out of range counts as the nearest one in range."""
    number = _number(reward)
    if isinstance(number, Refused):
        return number
    if isinstance(transform, Range):
        low, high = transform.low, transform.high
        if not low <= number <= high:
            if not clip:
                return Refused(f"a reward must lie in the declared range [{low}, {high}]")
            number = min(max(number, low), high)
        return (number - low) / (high - low)
    if isinstance(transform, Sigmoid):
        return sigmoid(number) if clip or isfinite(number) else Refused("a reward must be finite")
    if clip:
        return Refused("rewards on the real line have no range to clip to: declare one with Range(low, high)")
    return _exact(reward) if isfinite(number) else Refused("a reward must be finite, and a float must hold it")


def _number(reward: object) -> float | Refused:
    """Return the reward as a float, infinite when it is beyond the floats."""
    if not isinstance(reward, (float, int)) and not isinstance(reward, Real):
        return Refused("a reward must be a number: an int, a float or another real number")
    try:
        number = float(reward)
    except OverflowError:
        return inf if reward > 0 else -inf  # type: ignore[operator]
    return Refused("a reward must be a number, not NaN") if isnan(number) else number


def _exact(reward: object) -> Fraction | Refused:
    """Return the reward without rounding: a float would move large ints, and neighbours apart."""
    if not isinstance(reward, (float, Rational)):
        return Refused("a reward on the real line must be an int, a float or a Fraction")
    return Fraction(reward)
