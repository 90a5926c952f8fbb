"""From a user's reward to what a mechanism takes: a number in [0, 1], or any number for the real line.

Every check of a reward is here. An error names the rule and never the reward, and hides the exception that led to it.
"""

from math import exp, inf, isfinite, isnan
from numbers import Real

from ldpbandits.errors import RewardError
from ldpbandits.wire import Range, Sigmoid, Transform


def sigmoid(x: float) -> float:
    """1 / (1 + e^-x), without overflow."""
    if x >= 0:
        return 1.0 / (1.0 + exp(-x))
    return exp(x) / (1.0 + exp(x))


def transformed(transform: Transform, reward: object, *, clip: bool = False) -> float:
    """Check a reward and apply the transform. With `clip`, a reward out of range counts as the nearest one in range."""
    number = _number(reward)
    if isinstance(transform, Range):
        low, high = transform.low, transform.high
        if not low <= number <= high:
            if not clip:
                raise RewardError(f"a reward must lie in the declared range [{low}, {high}]")
            number = min(max(number, low), high)
        return (number - low) / (high - low)
    if isinstance(transform, Sigmoid):
        if not clip:
            _require_finite(number)
        return sigmoid(number)
    if clip:
        raise RewardError("rewards on the real line have no range to clip to: declare one with Range(low, high)")
    _require_finite(number)
    return number


def _number(reward: object) -> float:
    """Return the reward as a float, infinite when it is beyond the floats; NaN and what is not a number are refused."""
    if not isinstance(reward, (float, int)) and not isinstance(reward, Real):
        raise RewardError("a reward must be a number")
    try:
        number = float(reward)
    except OverflowError:
        number = inf if reward > 0 else -inf  # type: ignore[operator]
    if isnan(number):
        raise RewardError("a reward must be a number, not NaN")
    return number


def _require_finite(number: float) -> None:
    if not isfinite(number):
        raise RewardError("a reward must be finite")
