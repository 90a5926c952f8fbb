"""The per-round simulator: draw a reward, make it a response, update the tally, select, round after round.

It compiles the agent's own kernels, so that what is simulated is what is deployed. It is the plainest of the simulators
and the oracle of the others.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from ldpbandits.agent import kernels
from ldpbandits.agent.kernels import Index, Parameters
from ldpbandits.agent.rules import UCB
from ldpbandits.lab.algorithms import Algorithm, Custom, NotPrivate
from ldpbandits.lab.compiled import compiled, inlined, uncached
from ldpbandits.lab.rewards import LAWS, Choice, Law
from ldpbandits.spec import mechanisms
from ldpbandits.spec.mechanisms import response_mean
from ldpbandits.spec.transforms import Range, Sigmoid, sigmoid

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

for _kernel in (kernels.starving, sigmoid):
    register_jitable(_kernel)
_select: Callable[..., int] = inlined(kernels.select)
_ucb_index = inlined(kernels.ucb_index)

_BERNOULLI, _BETA, _UNIFORM, _CHOICE, _GAUSSIAN = range(len(LAWS))
_NONE, _CTB, _CTL = range(3)


class Laws(NamedTuple):
    """The reward laws of all arms, as numbers: kind, two parameters, and the values of every choice in one row."""

    kinds: Ints
    first: Floats
    second: Floats
    values: Floats


class Channel(NamedTuple):
    """What stands between a reward and the agent, as numbers."""

    sigmoid: bool
    low: float
    width: float
    mechanism: int
    start: float
    """CTB: the probability of 1 at a transformed reward of 0. CTL: the scale of the noise."""
    rise: float
    """CTB: how much that probability grows up to a reward of 1; it is linear in between."""


class Play(NamedTuple):
    """An algorithm on a bandit, as numbers."""

    parameters: Parameters
    floor: float
    laws: Laws
    channel: Channel


def encode(algorithm: Algorithm, arms: Sequence[Law]) -> Play:
    """Write an algorithm and the arms it plays as numbers."""
    rule = algorithm.rule
    return Play(rule.parameters, rule.floor, _encode_laws(arms), _encode_channel(algorithm))


def _encode_laws(arms: Sequence[Law]) -> Laws:
    """Write the arms' laws as numbers."""
    names = list(LAWS.values())
    first: list[float] = []
    second: list[float] = []
    values: list[float] = []
    for arm in arms:
        if isinstance(arm, Choice):
            parameters: tuple[float, ...] = (len(values), len(arm.values))
            values += arm.values
        else:
            parameters = tuple(getattr(arm, name) for name in arm.__slots__)
        first.append(parameters[0])
        second.append(parameters[-1])
    kinds = [names.index(type(arm)) for arm in arms]
    return Laws(
        np.array(kinds), np.array(first, dtype=float), np.array(second, dtype=float), np.array(values, dtype=float)
    )


def _encode_channel(algorithm: Algorithm) -> Channel:
    """Write the algorithm's curator as numbers."""
    curator = algorithm.curator
    transform = curator.transform
    low, width = (transform.low, transform.high - transform.low) if isinstance(transform, Range) else (0.0, 1.0)
    mechanism, start, rise = _NONE, 0.0, 0.0
    if not isinstance(curator, NotPrivate):
        if isinstance(curator.mechanism, mechanisms.Bernoulli):
            mechanism, start = _CTB, response_mean(0.0, curator.epsilon)
            rise = response_mean(1.0, curator.epsilon) - start
        else:
            mechanism, start = _CTL, 1 / curator.epsilon
    return Channel(isinstance(transform, Sigmoid), low, width, mechanism, start, rise)


@inlined
def reward(rng: np.random.Generator, laws: Laws, arm: int) -> float:
    """Draw a reward of this arm."""
    kind, first, second = laws.kinds[arm], laws.first[arm], laws.second[arm]
    if kind == _BERNOULLI:
        return 1.0 if rng.random() < first else 0.0
    if kind == _BETA:
        return float(rng.beta(first, second))
    if kind == _UNIFORM:
        return float(first + (second - first) * rng.random())
    if kind == _CHOICE:
        return float(laws.values[int(first) + int(second * rng.random())])
    return float(first + second * rng.standard_normal())


@inlined
def response(rng: np.random.Generator, channel: Channel, reward: float) -> float:
    """Make a reward a response."""
    value = sigmoid(reward) if channel.sigmoid else (reward - channel.low) / channel.width
    if channel.mechanism == _CTB:
        return 1.0 if rng.random() < channel.start + channel.rise * value else 0.0
    if channel.mechanism == _CTL:
        return value + channel.start * (rng.standard_exponential() - rng.standard_exponential())
    return value


@inlined
def _advance(
    index: Index, play: Play, rng: np.random.Generator, pulls: Floats, totals: Floats, t: int, until: int
) -> None:
    indexes = np.empty(len(pulls))
    while t < until:
        arm = _select(index, play.parameters, play.floor, pulls, pulls, totals, float(t), indexes)
        totals[arm] += response(rng, play.channel, reward(rng, play.laws, arm))
        pulls[arm] += 1.0
        t += 1


@compiled
def _advance_ucb(play: Play, rng: np.random.Generator, pulls: Floats, totals: Floats, t: int, until: int) -> None:
    _advance(_ucb_index, play, rng, pulls, totals, t, until)


@uncached
def _advance_custom(
    index: Index, play: Play, rng: np.random.Generator, pulls: Floats, totals: Floats, t: int, until: int
) -> None:
    _advance(index, play, rng, pulls, totals, t, until)


Advance: TypeAlias = Callable[[Play, np.random.Generator, Floats, Floats, int, int], None]
"""Called with (play, rng, pulls, totals, t, until), it plays rounds t to until - 1 and updates the tally in place."""

_compiled_index = lru_cache(maxsize=32)(inlined)  # once for each function, not once for each simulation


def stepping(rule: UCB | Custom) -> Advance:
    """Return the compiled loop for a rule."""
    return _advance_ucb if isinstance(rule, UCB) else partial(_advance_custom, _compiled_index(rule.index))
