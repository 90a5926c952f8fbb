"""The formulas of the agent, once: plain scalar functions that the live agent calls and the lab compiles.

Each takes only numbers, sequences of numbers and other kernels, checks nothing (the edges do) and keeps nothing.
`pulls[a]` and `totals[a]` are the number and the sum of the responses of arm a; t is the number of responses so far.
`counts[a]` is how often arm a was handed out: its pulls, and those still out where responses may be late.
"""

from collections.abc import Callable, MutableSequence, Sequence
from math import log, sqrt
from typing import TypeAlias

Parameters: TypeAlias = tuple[float, ...]
Index: TypeAlias = Callable[[float, float, float, Parameters], float]
"""index(mean, pulls, t, parameters): how promising an arm is; the agent pulls the largest."""


def ucb_index(mean: float, pulls: float, t: float, parameters: Parameters) -> float:
    """Mean + width sqrt(log t / pulls), with parameters = (width,)."""
    return mean + parameters[0] * sqrt(log(t) / pulls)


def starving(floor: float, pulls: Sequence[float], t: float) -> int:
    """Return the least pulled arm (the lowest-numbered of several) if its pulls are <= floor log(t + 1), else -1.

    It gives each arm its first pull under any floor, since 0 <= 0; with floor 4 it is the forced rule of LDP-UCB-L.
    """
    limit = floor * log(t + 1.0)
    hungry = 0
    for arm in range(len(pulls)):  # a count compiles to vector instructions, and in nearly every round it is zero
        hungry += pulls[arm] <= limit
    if hungry == 0:
        return -1
    least = 0
    for arm in range(1, len(pulls)):
        if pulls[arm] < pulls[least]:
            least = arm
    return least


def select(
    index: Index,
    parameters: Parameters,
    floor: float,
    counts: Sequence[float],
    pulls: Sequence[float],
    totals: Sequence[float],
    t: float,
    indexes: MutableSequence[float],
) -> int:
    """Return the arm to pull next: a starving one, else the one of largest index (the lowest-numbered of several).

    Means are those of the pulls; how wide the interval around them is depends on the counts.
    `indexes` is room for one number an arm: a loop without a running maximum compiles to vector instructions.
    """
    arm = starving(floor, counts, t)
    if arm >= 0:
        return arm
    for arm in range(len(pulls)):
        indexes[arm] = index(totals[arm] / pulls[arm], counts[arm], t, parameters)
    best = 0
    for arm in range(1, len(pulls)):
        if indexes[arm] > indexes[best]:
            best = arm
    return best
