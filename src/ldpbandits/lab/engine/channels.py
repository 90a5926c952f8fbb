"""From a reward to a response, compiled: the lab's twin of a device, fast instead of exact to the last bit.

A transform brings its own map, which is compiled as it is. For a mechanism the lab has to know how to draw:

- responses that are bits need nothing: their chance follows from the mechanism's public law, which is linear;
- any other mechanism has a `Channel` in CHANNELS, a function of numbers that numba can compile.

Our transforms and mechanisms are compiled into one function and cached on disk; others are compiled in each process.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba.extending import register_jitable

from ldpbandits.agent.kernels import Parameters
from ldpbandits.errors import ParameterError
from ldpbandits.lab.algorithms import NotPrivate
from ldpbandits.lab.engine.compiled import inlined
from ldpbandits.lab.mix import Mix
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.mechanisms import Laplace, Mechanism, is_bits
from ldpbandits.spec.transforms import Range, RealLine, Sigmoid, Threshold, Transform, sigmoid

register_jitable(sigmoid)
_range, _sigmoid, _threshold = map(inlined, (Range.apply, Sigmoid.apply, Threshold.apply))

Draw: TypeAlias = Callable[[np.random.Generator, float, Parameters], float]
"""respond(rng, value, parameters): draw the response to a transformed reward."""


@dataclass(frozen=True)
class Channel:
    """How the lab draws the responses of a mechanism."""

    respond: Draw
    parameters: Callable[[Any], Parameters]
    """From the mechanism to the numbers that `respond` takes."""


def laplace(rng: np.random.Generator, value: float, parameters: Parameters) -> float:
    """Value + L, with L the difference of two exponential variables of mean parameters[0]."""
    return value + parameters[0] * (rng.standard_exponential() - rng.standard_exponential())


def bit(rng: np.random.Generator, value: float, parameters: Parameters) -> float:
    """1 with chance parameters[0] + parameters[1] value, else 0."""
    return 1.0 if rng.random() < parameters[0] + parameters[1] * value else 0.0


def reveal(rng: np.random.Generator, value: float, parameters: Parameters) -> float:  # noqa: ARG001 - as every channel
    """Return the value itself: no privacy."""
    return value


CHANNELS: dict[type[Mechanism], Channel] = {Laplace: Channel(laplace, lambda mechanism: (1 / mechanism.epsilon,))}
"""How responses are drawn that are not bits, by the type of the mechanism."""


def channel_of(curator: Any) -> tuple[Draw, Parameters]:  # noqa: ANN401 - a CuratorSpec, a Mix or NotPrivate
    """Return how responses are drawn for a curator, and the numbers that this takes; for a mix, those of each."""
    if isinstance(curator, NotPrivate):
        return reveal, ()
    if isinstance(curator, Mix):
        each = [channel_of(one) for one in curator.menu.curators]
        return each[0][0], tuple(number for _, numbers in each for number in numbers)
    mechanism: Mechanism = curator.mechanism
    if is_bits(mechanism):
        least = mechanism.response_mean(0.0)
        return bit, (least, mechanism.response_mean(1.0) - least)
    if type(mechanism) not in CHANNELS:
        raise ParameterError(
            f"the lab cannot draw responses of the mechanism {mechanism.kind}: add a Channel to CHANNELS"
        )
    channel = CHANNELS[type(mechanism)]
    return channel.respond, channel.parameters(mechanism)


_DRAWS: dict[Draw, int] = {reveal: 0, bit: 1, laplace: 2}
_reveal, _bit, _laplace = map(inlined, _DRAWS)


_MAPS: dict[type[Transform], int] = {Range: 0, RealLine: 0, Sigmoid: 1, Threshold: 2}
"""Our transforms by the map that they have; the real line is a range that is not moved and not scaled."""


class Known(NamedTuple):
    """A transform and a mechanism of ours, as numbers of one shape."""

    map: int
    low: float
    """The low end of a range, or theta."""
    width: float
    draw: int
    first: float
    second: float


class Own(NamedTuple):
    """The numbers of a transform or mechanism of somebody's own; their functions are compiled into the loop."""

    map: Parameters
    draw: Parameters


@inlined
def known_response(rng: np.random.Generator, channel: Known, reward: float) -> float:
    """Make a reward a response, by a transform and a mechanism of ours."""
    if channel.map == 1:
        value = _sigmoid(reward, ())
    elif channel.map == 2:  # noqa: PLR2004 - the number in _MAPS
        value = _threshold(reward, (channel.low,))
    else:
        value = _range(reward, (channel.low, channel.width))
    if channel.draw == 1:
        return _bit(rng, value, (channel.first, channel.second))
    if channel.draw == 2:  # noqa: PLR2004 - the place in _DRAWS
        return _laplace(rng, value, (channel.first,))
    return _reveal(rng, value, ())


def encode_curator(curator: CuratorSpec | NotPrivate) -> tuple[Known | Own, Callable[..., float]]:
    """Return a curator as numbers, and the function from reward to response that takes them."""
    transform = curator.transform
    respond, numbers = channel_of(curator)
    if type(transform) in _MAPS and respond in _DRAWS:
        low, width = (*transform.parameters, *(0.0, 1.0)[len(transform.parameters) :])
        first, second = (*numbers, 0.0, 0.0)[:2]
        return Known(_MAPS[type(transform)], low, width, _DRAWS[respond], first, second), known_response
    return Own(transform.parameters, numbers), _own_response(transform.apply, respond)


@lru_cache(maxsize=64)  # once for each pair of functions, not once for each simulation
def _own_response(apply: Callable[[float, Parameters], float], respond: Draw) -> Callable[..., float]:
    apply, respond = inlined(apply), inlined(respond)

    @inlined
    def own_response(rng: np.random.Generator, channel: Own, reward: float) -> float:
        return respond(rng, apply(reward, channel.map), channel.draw)

    return own_response
