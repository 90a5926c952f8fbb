"""The formulas of the agent, once: plain scalar functions that the live agent calls and the lab compiles.

Each takes only numbers, sequences of numbers and other kernels, checks nothing (the edges do) and keeps nothing.
"""

from collections.abc import Callable, MutableSequence, Sequence
from math import log, sqrt
from typing import NamedTuple, Protocol, TypeAlias

Parameters: TypeAlias = tuple[float, ...]


class ArmView(NamedTuple):
    """What a rule sees of an arm. A pull is out when it was handed out and is not answered yet."""

    mean: float
    """The mean of its responses."""
    pulls: float
    """The number of its responses."""
    out: float
    """How many of its pulls are out."""
    n: float
    """How often it was handed out, the paper's N: pulls + out."""
    t: float
    """The number of all pulls of all arms, answered or out."""
    best: float
    """The largest mean of all arms."""
    arms: float
    """The number of arms."""


class Random(Protocol):
    """A source of random numbers: `random.Random` and numpy's Generator are two."""

    def random(self) -> float:
        """Draw a number in [0, 1), all equally likely."""


Index: TypeAlias = Callable[[ArmView, Random, Parameters], float]
"""index(arm, random, parameters): how promising an arm is; the agent pulls the one of largest index.

A rule that draws nothing leaves `random` alone.
"""


def ucb_index(arm: ArmView, _: Random, parameters: Parameters) -> float:
    """Mean + width sqrt(log t / N), with parameters = (width,).

    Pulls that are out count as if their responses were in, but only for the width: nothing is assumed about them.
    """
    return arm.mean + parameters[0] * sqrt(log(arm.t) / arm.n)


def starving(floor: float, counts: Sequence[float], t: float) -> int:
    """Return the least pulled arm (the lowest-numbered of several) if its count is <= floor log(t + 1), else -1.

    It gives each arm its first pull under any floor, since 0 <= 0; with floor 4 it is the forced rule of LDP-UCB-L.
    """
    limit = floor * log(t + 1.0)
    hungry = 0
    for arm in range(len(counts)):  # a sum compiles to vector instructions, and in nearly every round it is zero
        hungry += counts[arm] <= limit
    if hungry == 0:
        return -1
    least = 0
    for arm in range(1, len(counts)):
        if counts[arm] < counts[least]:
            least = arm
    return least


def greatest(values: Sequence[float]) -> float:
    """Return the largest value. Written so that a compiler drops it for a rule that does not look at the result."""
    most = values[0]
    for place in range(1, len(values)):
        if values[place] > most:  # noqa: PLR1730 - in plain Python a call of max takes twice as long
            most = values[place]
    return most


def select(
    index: Index,
    parameters: Parameters,
    floor: float,
    means: Sequence[float],
    pulls: Sequence[float],
    counts: Sequence[float],
    t: float,
    random: Random,
    indexes: MutableSequence[float],
) -> int:
    """Return the arm to pull next: a starving one, else the one of largest index (the lowest-numbered of several).

    `counts` says how often each arm was handed out: its pulls, and those that are out. `indexes` is room for one number
    an arm: a loop without a running maximum compiles to vector instructions.
    """
    arm = starving(floor, counts, t)
    if arm >= 0:
        return arm
    best, arms = greatest(means), float(len(means))
    for arm in range(len(pulls)):
        n = counts[arm]
        view = ArmView(means[arm], pulls[arm], n - pulls[arm], n, t, best, arms)
        indexes[arm] = index(view, random, parameters)
    chosen = 0
    for arm in range(1, len(indexes)):
        if indexes[arm] > indexes[chosen]:
            chosen = arm
    return chosen
