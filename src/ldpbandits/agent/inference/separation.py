"""Separation: the one test, for reports, forecasts and plans, of whether the best arm is known.

An arm is *separated* when its interval lies above the intervals of all other arms. Every interval holds at all times
with its `share` of ALPHA, so with probability 1 - ALPHA no arm but the best is ever separated, at any number of checks.
"""

from collections.abc import Sequence

from ldpbandits.agent.inference.estimates import Estimate

ALPHA = 0.05
"""The probability that any interval of an experiment ever misses its mean, however many arms are added."""


def leading(means: Sequence[float | None]) -> int | None:
    """Return the place of the largest mean, the first of several; None where no mean is known.

    >>> leading([None, 0.2, 0.3])
    2
    """
    known = [(mean, place) for place, mean in enumerate(means) if mean is not None]
    return max(known, key=lambda pair: pair[0])[1] if known else None


def is_separated(best: int, estimates: Sequence[Estimate]) -> bool:
    """Tell whether the interval at this place lies above all others.

    A single arm is not separated, and no arm is where no mean fits the responses of some arm.
    """
    others = [known for place, known in enumerate(estimates) if place != best]
    is_above = bool(others) and estimates[best].low > max(other.high for other in others)
    return is_above and all(known.fits for known in estimates)
