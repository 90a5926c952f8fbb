"""When the best arm counts as told apart from the others: one test for reports, forecasts and plans.

An arm is *separated* when its interval lies above the intervals of all other arms. Every interval holds at all times
with its `share` of ALPHA: so with probability 1 - ALPHA no arm but the best is ever separated, however often one looks.
"""

from collections.abc import Sequence
from typing import TypeAlias

ALPHA = 0.05
"""The probability that any interval of an experiment ever misses its mean, however many arms are added."""

Interval: TypeAlias = tuple[float, float]
"""The low and the high end."""


def leading(means: Sequence[float | None]) -> int | None:
    """Return the place of the largest mean, the first of several; None where no mean is known.

    >>> leading([None, 0.2, 0.3])
    2
    """
    known = [place for place, mean in enumerate(means) if mean is not None]
    return max(known, key=lambda place: means[place] or 0.0) if known else None


def is_separated(best: int, intervals: Sequence[Interval]) -> bool:
    """Tell whether the interval at this place lies above all others.

    >>> is_separated(1, [(0.1, 0.2), (0.3, 0.4)]), is_separated(1, [(0.1, 0.35), (0.3, 0.4)])
    (True, False)
    """
    low = intervals[best][0]
    return all(low > high for place, (_, high) in enumerate(intervals) if place != best)
