"""Reward laws, compiled: draw a reward of an arm, from the laws of all arms as rows of numbers."""

from collections.abc import Sequence
from math import pi, sin
from typing import NamedTuple, TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray

from ldpbandits.lab.engine.compiled import inlined, uncached
from ldpbandits.lab.rewards import Bernoulli, Beta, Choice, Drift, Empirical, Gaussian, Law, Uniform

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_BERNOULLI, _BETA, _UNIFORM, _CHOICE, _GAUSSIAN, _EMPIRICAL, _DRIFT = range(7)


class Laws(NamedTuple):
    """The reward laws of all arms as numbers: kind, two parameters, and the values of choices and drifts in one row."""

    kinds: Ints
    first: Floats
    second: Floats
    values: Floats
    reached: Floats
    """Beside each value of an empirical law: the share of rewards up to it."""


def encode_laws(arms: Sequence[Law]) -> Laws:
    """Write the arms' laws as numbers."""
    rows: list[tuple[int, float, float]] = []
    values: list[float] = []
    reached: list[float] = []
    for arm in arms:
        match arm:
            case Bernoulli(p=p):
                rows.append((_BERNOULLI, p, p))
            case Beta(a=a, b=b):
                rows.append((_BETA, a, b))
            case Uniform(low=low, high=high):
                rows.append((_UNIFORM, low, high))
            case Gaussian(mean=mean, sd=sd):
                rows.append((_GAUSSIAN, mean, sd))
            case Choice(values=choices):
                rows.append((_CHOICE, len(values), len(choices)))
                values += choices
                reached += [0.0] * len(choices)
            case Empirical(values=rewards, counts=counts):
                rows.append((_EMPIRICAL, len(values), len(rewards)))
                values += rewards
                reached += (np.cumsum(counts) / sum(counts)).tolist()
            case Drift(level=level, amplitude=amplitude, period=period):
                rows.append((_DRIFT, len(values), 3))
                values += [level, amplitude, 2 * pi / period]
                reached += [0.0] * 3
            case _:
                assert_never(arm)
    kinds, first, second = zip(*rows, strict=True)
    return Laws(np.array(kinds), *(np.array(row, dtype=float) for row in (first, second, values, reached)))


@uncached  # a call: written into the loop, it would slow down the laws that need no search
def _place(reached: Floats, begin: int, count: int, share: float) -> int:
    """Return the first of `count` places from `begin` on at which more than this share of the rewards is reached."""
    low, high = begin, begin + count - 1
    while low < high:
        middle = (low + high) // 2
        if reached[middle] > share:
            high = middle
        else:
            low = middle + 1
    return low


@uncached  # a call, as above
def _drifted(values: Floats, begin: int, t: int) -> float:
    """Return the mean reward in round t."""
    return float(values[begin] + values[begin + 1] * sin(values[begin + 2] * t))


@inlined
def reward(rng: np.random.Generator, laws: Laws, arm: int, t: int) -> float:  # noqa: PLR0911 - a law each
    """Draw a reward of this arm in round t."""
    kind, first, second = laws.kinds[arm], laws.first[arm], laws.second[arm]
    if kind == _BERNOULLI:
        return 1.0 if rng.random() < first else 0.0
    if kind == _BETA:
        return float(rng.beta(first, second))
    if kind == _UNIFORM:
        return float(first + (second - first) * rng.random())
    if kind == _CHOICE:
        return float(laws.values[int(first) + int(second * rng.random())])
    if kind == _GAUSSIAN:
        return float(first + second * rng.standard_normal())
    if kind == _DRIFT:
        return 1.0 if rng.random() < _drifted(laws.values, int(first), t) else 0.0
    return float(laws.values[_place(laws.reached, int(first), int(second), rng.random())])
