"""The per-round simulator: draw a reward, make it a response, update the tally, select, round after round.

It compiles the agent's own kernels, so that what is simulated is what is deployed. It is the plainest of the simulators
and the oracle of the others.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba.extending import register_jitable

from ldpbandits.agent import kernels, laplace_kernels
from ldpbandits.agent.duels import Design
from ldpbandits.agent.kernels import Index, Parameters, Reading, Sharing
from ldpbandits.errors import ParameterError
from ldpbandits.lab.algorithms import Algorithm
from ldpbandits.lab.engine.channels import Known, Own, encode_curator, known_response
from ldpbandits.lab.engine.compiled import compiled, inlined, uncached
from ldpbandits.lab.engine.duels import compile_duels
from ldpbandits.lab.engine.laws import Floats, Laws, encode_laws, reward
from ldpbandits.lab.mix import Mix
from ldpbandits.lab.rewards import Law

for _kernel in (
    kernels.starving,
    kernels.greatest,
    kernels.kl_term,
    kernels.kl,
    kernels.upper_confidence,
    kernels.normal,
    kernels.gamma,
    kernels.plus_function,
    kernels.plus_level,
    kernels.imed_index,
    kernels.kl_ucb_plus_index,
    laplace_kernels.laplace_rate,
    laplace_kernels.laplace_distance,
    laplace_kernels.positive_root,
    laplace_kernels.as_share,
):
    register_jitable(_kernel)
select: Callable[..., int] = inlined(kernels.select)
_ucb_index, _kl_ucb_index = inlined(kernels.ucb_index), inlined(kernels.kl_ucb_index)
_kl_ucb_plus_index, _imed_index = inlined(kernels.kl_ucb_plus_index), inlined(kernels.imed_index)
_thompson_index, _ada_ucb_index = inlined(kernels.thompson_index), inlined(kernels.ada_ucb_index)
_own_counts, _shared_counts = inlined(kernels.own_counts), inlined(kernels.shared_counts)
_imed_laplace_index = inlined(laplace_kernels.imed_laplace_index)
_kl_ucb_plus_laplace_index = inlined(laplace_kernels.kl_ucb_plus_laplace_index)
_imed_clip_index = inlined(laplace_kernels.imed_clip_index)
_kl_ucb_plus_clip_index = inlined(laplace_kernels.kl_ucb_plus_clip_index)
_as_it_is, _clipped, _above_half = map(inlined, (kernels.as_it_is, laplace_kernels.clipped, laplace_kernels.above_half))


class Play(NamedTuple):
    """An algorithm on a bandit, as numbers."""

    parameters: Parameters
    floor: float
    laws: Laws
    channel: Known | Own


Advance: TypeAlias = Callable[[np.random.Generator, Floats, Floats, int, int], None]
"""Called with (rng, pulls, totals, t, until), it plays rounds t to until - 1 and updates the tally in place.

Totals are sums of what the rule reads of the responses. For a loop that plays every round they may be twice as long:
then sums of the responses themselves are behind them."""


def encode(algorithm: Algorithm, arms: Sequence[Law]) -> tuple[Play, Callable[..., float]]:
    """Write an algorithm and the arms it plays as numbers; return them, and its way from reward to response."""
    if isinstance(algorithm.curator, Mix):
        raise ParameterError("each response has an epsilon of its own")
    channel, response = encode_curator(algorithm.curator)
    parameters = tuple(map(float, algorithm.rule.parameters))
    return Play(parameters, float(algorithm.rule.floor), encode_laws(arms), channel), response


@inlined
def _advance(
    index: Index,
    reading: Reading,
    response: Callable[..., float],
    play: Play,
    rng: np.random.Generator,
    pulls: Floats,
    totals: Floats,
    t: int,
    until: int,
) -> None:
    _advance_sharing(index, _own_counts, reading, response, play, rng, pulls, totals, t, until)


@inlined
def _advance_sharing(
    index: Index,
    sharing: Sharing,
    reading: Reading,
    response: Callable[..., float],
    play: Play,
    rng: np.random.Generator,
    pulls: Floats,
    totals: Floats,
    t: int,
    until: int,
) -> None:
    n = len(pulls)
    means, indexes, shared = np.zeros(n), np.empty(n), np.zeros(n)
    for arm in range(n):
        if pulls[arm] > 0:
            means[arm] = totals[arm] / pulls[arm]
    while t < until:
        cells = sharing(pulls, shared)  # type: ignore[arg-type]
        arm = select(index, play.parameters, play.floor, means, pulls, pulls, cells, float(t), rng, indexes)
        said = response(rng, play.channel, reward(rng, play.laws, arm, t))
        totals[arm] += reading(said, play.parameters)
        if len(totals) > n:
            totals[n + arm] += said
        pulls[arm] += 1.0
        means[arm] = totals[arm] / pulls[arm]
        t += 1


@compiled
def _advance_ucb(play: Play, rng: np.random.Generator, pulls: Floats, totals: Floats, t: int, until: int) -> None:
    _advance(_ucb_index, _as_it_is, known_response, play, rng, pulls, totals, t, until)


@compiled
def _advance_kl_ucb(play: Play, rng: np.random.Generator, pulls: Floats, totals: Floats, t: int, until: int) -> None:
    _advance(_kl_ucb_index, _as_it_is, known_response, play, rng, pulls, totals, t, until)


@compiled
def _advance_kl_ucb_plus(
    play: Play, rng: np.random.Generator, pulls: Floats, totals: Floats, t: int, until: int
) -> None:
    _advance(_kl_ucb_plus_index, _as_it_is, known_response, play, rng, pulls, totals, t, until)


@compiled
def _advance_imed(play: Play, rng: np.random.Generator, pulls: Floats, totals: Floats, t: int, until: int) -> None:
    _advance(_imed_index, _as_it_is, known_response, play, rng, pulls, totals, t, until)


@compiled
def _advance_thompson(play: Play, rng: np.random.Generator, pulls: Floats, totals: Floats, t: int, until: int) -> None:
    _advance(_thompson_index, _as_it_is, known_response, play, rng, pulls, totals, t, until)


@compiled
def _advance_imed_laplace(
    play: Play, rng: np.random.Generator, pulls: Floats, totals: Floats, t: int, until: int
) -> None:
    _advance(_imed_laplace_index, _as_it_is, known_response, play, rng, pulls, totals, t, until)


@compiled
def _advance_kl_ucb_plus_laplace(
    play: Play, rng: np.random.Generator, pulls: Floats, totals: Floats, t: int, until: int
) -> None:
    _advance(_kl_ucb_plus_laplace_index, _as_it_is, known_response, play, rng, pulls, totals, t, until)


@compiled
def _advance_imed_clip(play: Play, rng: np.random.Generator, pulls: Floats, totals: Floats, t: int, until: int) -> None:
    _advance(_imed_clip_index, _clipped, known_response, play, rng, pulls, totals, t, until)


@compiled
def _advance_kl_ucb_plus_clip(
    play: Play, rng: np.random.Generator, pulls: Floats, totals: Floats, t: int, until: int
) -> None:
    _advance(_kl_ucb_plus_clip_index, _clipped, known_response, play, rng, pulls, totals, t, until)


@compiled
def _advance_imed_bit(play: Play, rng: np.random.Generator, pulls: Floats, totals: Floats, t: int, until: int) -> None:
    _advance(_imed_index, _above_half, known_response, play, rng, pulls, totals, t, until)


@compiled
def _advance_kl_ucb_plus_bit(
    play: Play, rng: np.random.Generator, pulls: Floats, totals: Floats, t: int, until: int
) -> None:
    _advance(_kl_ucb_plus_index, _above_half, known_response, play, rng, pulls, totals, t, until)


@compiled
def _advance_ada_ucb(play: Play, rng: np.random.Generator, pulls: Floats, totals: Floats, t: int, until: int) -> None:
    _advance_sharing(_ada_ucb_index, _shared_counts, _as_it_is, known_response, play, rng, pulls, totals, t, until)


def _own_loop(index: Index, sharing: Sharing, reading: Reading, response: Callable[..., float]) -> Callable[..., None]:
    """Compile the loop for a rule or a channel of somebody's own; its code belongs to this process alone."""
    compiled_index, compiled_sharing, compiled_reading = inlined(index), inlined(sharing), inlined(reading)

    @uncached
    def advance(play: Play, rng: np.random.Generator, pulls: Floats, totals: Floats, t: int, until: int) -> None:
        _advance_sharing(
            compiled_index, compiled_sharing, compiled_reading, response, play, rng, pulls, totals, t, until
        )

    return advance


_LOOPS: dict[Any, Callable[..., None]] = {
    (index, kernels.own_counts, reading, known_response): loop
    for index, reading, loop in (
        (kernels.ucb_index, kernels.as_it_is, _advance_ucb),
        (kernels.kl_ucb_index, kernels.as_it_is, _advance_kl_ucb),
        (kernels.kl_ucb_plus_index, kernels.as_it_is, _advance_kl_ucb_plus),
        (kernels.imed_index, kernels.as_it_is, _advance_imed),
        (kernels.thompson_index, kernels.as_it_is, _advance_thompson),
        (laplace_kernels.imed_laplace_index, kernels.as_it_is, _advance_imed_laplace),
        (laplace_kernels.kl_ucb_plus_laplace_index, kernels.as_it_is, _advance_kl_ucb_plus_laplace),
        (laplace_kernels.imed_clip_index, laplace_kernels.clipped, _advance_imed_clip),
        (laplace_kernels.kl_ucb_plus_clip_index, laplace_kernels.clipped, _advance_kl_ucb_plus_clip),
        (kernels.imed_index, laplace_kernels.above_half, _advance_imed_bit),
        (kernels.kl_ucb_plus_index, laplace_kernels.above_half, _advance_kl_ucb_plus_bit),
    )
}
_LOOPS[kernels.ada_ucb_index, kernels.shared_counts, kernels.as_it_is, known_response] = _advance_ada_ucb
"""One loop for each index, sharing, reading and response. Ours are kept on disk; a user's are added when played."""


def compile_steps(algorithm: Algorithm, arms: Sequence[Law]) -> Advance:
    """Return the compiled loop that plays every round."""
    play, response = encode(algorithm, arms)
    if algorithm.rule.design is not Design.ADAPTIVE:
        return compile_duels(algorithm.rule, play, response)
    sharing, reading = algorithm.rule.sharing or kernels.own_counts, algorithm.rule.reading or kernels.as_it_is
    key = (algorithm.rule.index, sharing, reading, response)
    if key not in _LOOPS:
        _LOOPS[key] = _own_loop(*key)
    return partial(_LOOPS[key], play)
