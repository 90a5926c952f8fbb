"""From a user's reward to the value that a mechanism takes: in [0, 1], or on the real line.

Every check of a reward is here. A reward that cannot be taken is answered with the rule it breaks; the exception is
raised elsewhere, because the frames of its traceback hold local variables, and here those hold the reward.
"""

from fractions import Fraction
from math import inf, isnan
from numbers import Rational, Real

from ldpbandits.spec.transforms import Transform


class Refused(str):
    """The rule that a reward breaks."""

    __slots__ = ()


def transformed(transform: Transform, reward: object, *, clip: bool = False) -> float | Fraction | Refused:
    """Check a reward and apply the transform. With `clip`, a reward out of range counts as the nearest one in range."""
    number = _number(reward)
    if isinstance(number, Refused):
        return number
    if clip:
        nearest = transform.nearest(number)
        if nearest is None:
            return Refused("rewards on the real line have no range to clip to: declare one with Range(low, high)")
        number = nearest
    else:
        rule = transform.refusal(number)
        if rule is not None:
            return Refused(rule)
    if not transform.exact:
        return transform.apply(number, transform.parameters)
    exact = _exact(reward)
    return exact if isinstance(exact, Refused) else transform.apply(exact, transform.parameters)  # type: ignore[arg-type]


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
