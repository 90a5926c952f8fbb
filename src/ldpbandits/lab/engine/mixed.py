"""The per-round simulator for a mix: each round somebody else, who has picked an epsilon, answers."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba.extending import register_jitable

from ldpbandits.agent import mixed
from ldpbandits.agent.bound_rule import bind_rule
from ldpbandits.agent.kernels import Index, Parameters
from ldpbandits.lab.algorithms import Algorithm
from ldpbandits.lab.engine.channels import encode_curator, known_response
from ldpbandits.lab.engine.compiled import compiled, inlined, uncached
from ldpbandits.lab.engine.laws import Floats, Laws, encode_laws, reward
from ldpbandits.lab.engine.step import select
from ldpbandits.lab.mix import Mix
from ldpbandits.lab.rewards import Law

for _kernel in (
    mixed.chance,
    mixed.misfit,
    mixed.divergence,
    mixed.slope,
    mixed.curvature,
    mixed.likeliest,
    mixed.upper,
    mixed.answered,
):
    register_jitable(_kernel)
_kl_ucb, _kl_ucb_plus = inlined(mixed.mixed_kl_ucb_index), inlined(mixed.mixed_kl_ucb_plus_index)
_imed, _thompson = inlined(mixed.mixed_imed_index), inlined(mixed.mixed_thompson_index)


class MixedPlay(NamedTuple):
    """An algorithm on a bandit and a crowd, as numbers."""

    levels: Parameters
    floor: float
    laws: Laws
    channels: tuple[Any, ...]
    """From a reward to a response, for each epsilon."""
    reached: Floats
    """Beside each epsilon: the share of the crowd that picks it or a smaller one."""


Rng: TypeAlias = np.random.Generator


@inlined
def _advance(
    index: Index,
    response: Callable[..., float],
    play: MixedPlay,
    rng: Rng,
    pulls: Floats,
    cells: Floats,
    t: int,
    until: int,
) -> None:
    """Play rounds t to until - 1; `cells` has a row per arm, and in it the bits and the ones of each epsilon."""
    n = len(pulls)
    means, indexes = np.zeros(n), np.empty(n)
    for arm in range(n):
        if pulls[arm] > 0:
            means[arm] = mixed.likeliest(cells[arm], play.levels, 0.0, 1.0)
    while t < until:
        arm = select(index, play.levels, play.floor, means, pulls, pulls, cells, float(t), rng, indexes)
        level, u = 0, rng.random()
        while u >= play.reached[level]:
            level += 1
        cells[arm, 2 * level] += 1.0
        cells[arm, 2 * level + 1] += response(rng, play.channels[level], reward(rng, play.laws, arm, t))
        pulls[arm] += 1.0
        means[arm] = mixed.likeliest(cells[arm], play.levels, 0.0, 1.0)
        t += 1


@compiled
def _advance_kl_ucb(play: MixedPlay, rng: Rng, pulls: Floats, cells: Floats, t: int, until: int) -> None:
    _advance(_kl_ucb, known_response, play, rng, pulls, cells, t, until)


@compiled
def _advance_kl_ucb_plus(play: MixedPlay, rng: Rng, pulls: Floats, cells: Floats, t: int, until: int) -> None:
    _advance(_kl_ucb_plus, known_response, play, rng, pulls, cells, t, until)


@compiled
def _advance_imed(play: MixedPlay, rng: Rng, pulls: Floats, cells: Floats, t: int, until: int) -> None:
    _advance(_imed, known_response, play, rng, pulls, cells, t, until)


@compiled
def _advance_thompson(play: MixedPlay, rng: Rng, pulls: Floats, cells: Floats, t: int, until: int) -> None:
    _advance(_thompson, known_response, play, rng, pulls, cells, t, until)


_LOOPS: dict[Any, Callable[..., None]] = {
    (mixed.mixed_kl_ucb_index, known_response): _advance_kl_ucb,
    (mixed.mixed_kl_ucb_plus_index, known_response): _advance_kl_ucb_plus,
    (mixed.mixed_imed_index, known_response): _advance_imed,
    (mixed.mixed_thompson_index, known_response): _advance_thompson,
}
"""One loop for each index and way to a response, as in `step.py`."""


def _own_loop(index: Index, response: Callable[..., float]) -> Callable[..., None]:
    compiled_index = inlined(index)

    @uncached
    def advance(play: MixedPlay, rng: Rng, pulls: Floats, cells: Floats, t: int, until: int) -> None:
        _advance(compiled_index, response, play, rng, pulls, cells, t, until)

    return advance


def compile_mixed_steps(algorithm: Algorithm, mix: Mix, arms: Sequence[Law]) -> Callable[..., None]:
    """Return the compiled loop that plays every round with this crowd."""
    plays_by = bind_rule(algorithm.rule, mix.menu)
    encoded = [encode_curator(curator) for curator in mix.menu.curators]
    reached = np.cumsum(mix.shares)
    reached[-1] = 1.0
    play = MixedPlay(
        plays_by.parameters,
        float(plays_by.floor),
        encode_laws(arms),
        tuple(channel for channel, _ in encoded),
        reached,
    )
    key = (plays_by.index, encoded[0][1])
    if key not in _LOOPS:
        _LOOPS[key] = _own_loop(*key)
    return partial(_LOOPS[key], play)
