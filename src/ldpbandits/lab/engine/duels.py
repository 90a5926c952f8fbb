"""Rules with a fair coin, compiled: duels and equal shares, every round, with the responses of each pair of arms.

Behind the totals of the arms, the state of a trial has for each arm and rival the number and the sum of its responses:
that is what verdicts are reached by. The gaps between arms are kept in the loop, as the live agent keeps them.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from ldpbandits.agent import duels as agent_duels
from ldpbandits.agent import kernels, laplace_kernels
from ldpbandits.agent.bound_rule import unit_scale
from ldpbandits.agent.duels import NO_DUEL, Design
from ldpbandits.agent.rules import Rule
from ldpbandits.lab.engine.channels import known_response
from ldpbandits.lab.engine.compiled import compiled, inlined, uncached
from ldpbandits.lab.engine.laws import Floats, reward

duel_gap: Callable[..., float] = register_jitable(agent_duels.duel_gap)
pick_challenger: Callable[..., int] = register_jitable(agent_duels.pick_challenger)

_SCALE = (0.0, 1.0)
"""A gap does not depend on the scale where all responses have one epsilon."""


class Duel(NamedTuple):
    """A rule with a fair coin on a bandit, as numbers."""

    is_equal: bool
    """Every arm is equally likely; else the coin chooses between two."""
    unit: tuple[float, float]
    """Shift and width by which sums of what is counted become sums of numbers in [0, 1]."""
    play: Any
    """The `Play` of step.py."""


def state_size(design: Design, arms: int) -> int:
    """Return the number of totals that a trial keeps: of each arm, and with a fair coin of each pair of arms."""
    return arms if design is Design.ADAPTIVE else arms + 2 * arms * arms


@inlined
def _refresh(gaps: Floats, pairs: Floats, cells: Floats, unit: tuple[float, float], b: int, a: int) -> None:
    shift, width = unit
    cells[0], cells[1] = pairs[0, b, a], (pairs[1, b, a] + shift * pairs[0, b, a]) / width
    cells[2], cells[3] = pairs[0, a, b], (pairs[1, a, b] + shift * pairs[0, a, b]) / width
    gaps[b, a] = duel_gap(cells, _SCALE)


@inlined
def _duel(rng: np.random.Generator, means: Floats, gaps: Floats, pairs: Floats, pulls: Floats) -> tuple[int, int]:
    leader = 0
    for arm in range(1, len(means)):
        if means[arm] > means[leader]:
            leader = arm
    rival = pick_challenger(leader, gaps[leader], pairs[0, :, leader], pulls)
    return (leader, rival) if rng.random() < 0.5 else (rival, leader)  # noqa: PLR2004 - a fair coin


@inlined
def _advance(
    response: Callable[..., float],
    reading: Callable[..., float],
    duel: Duel,
    rng: np.random.Generator,
    pulls: Floats,
    totals: Floats,
    t: int,
    until: int,
) -> None:
    is_equal, unit, play = duel
    n = len(pulls)
    pairs = totals[n:].reshape((2, n, n))
    means, gaps, cells = np.zeros(n), np.full((n, n), NO_DUEL), np.empty(4)
    total = answered = 0.0
    for arm in range(n):
        total += totals[arm]
        answered += pulls[arm]
        for rival in range(n):
            _refresh(gaps, pairs, cells, unit, arm, rival)
    while t < until:
        known = total / answered if answered > 0 else 0.5
        for arm in range(n):
            means[arm] = totals[arm] / pulls[arm] if pulls[arm] > 0 else known
        if n == 1:
            arm, rival = 0, -1
        elif is_equal:
            arm, rival = int(rng.random() * n), n - 1  # the newest arm
        else:
            arm, rival = _duel(rng, means, gaps, pairs, pulls)
        read = reading(response(rng, play.channel, reward(rng, play.laws, arm, t)), play.parameters)
        totals[arm] += read
        total += read
        pulls[arm] += 1.0
        answered += 1.0
        if rival >= 0:
            pairs[0, arm, rival] += 1.0
            pairs[1, arm, rival] += read
            if not is_equal:
                _refresh(gaps, pairs, cells, unit, arm, rival)
                _refresh(gaps, pairs, cells, unit, rival, arm)
        t += 1


_as_it_is, _clipped = inlined(kernels.as_it_is), inlined(laplace_kernels.clipped)


@compiled
def _advance_bits(duel: Duel, rng: np.random.Generator, pulls: Floats, totals: Floats, t: int, until: int) -> None:
    _advance(known_response, _as_it_is, duel, rng, pulls, totals, t, until)


@compiled
def _advance_clipped(duel: Duel, rng: np.random.Generator, pulls: Floats, totals: Floats, t: int, until: int) -> None:
    _advance(known_response, _clipped, duel, rng, pulls, totals, t, until)


@lru_cache(maxsize=64)
def _own_loop(reading: Callable[..., float], response: Callable[..., float]) -> Callable[..., None]:
    """Compile the loop for a channel of somebody's own; its code belongs to this process alone."""
    compiled_reading = inlined(reading)

    @uncached
    def advance(duel: Duel, rng: np.random.Generator, pulls: Floats, totals: Floats, t: int, until: int) -> None:
        _advance(response, compiled_reading, duel, rng, pulls, totals, t, until)

    return advance


def compile_duels(rule: Rule, play: Any, response: Callable[..., float]) -> Callable[..., None]:  # noqa: ANN401 - as in `Duel`
    """Return the compiled loop for a rule with a fair coin, which plays every round."""
    reading = rule.reading or kernels.as_it_is
    loops: dict[Any, Callable[..., None]] = {
        kernels.as_it_is: _advance_bits,
        laplace_kernels.clipped: _advance_clipped,
    }
    loop = loops.get(reading) if response is known_response else None
    scaled = unit_scale(rule, None)
    unit = (0.0, 1.0) if scaled is None else (scaled.shift, scaled.width)
    return partial(loop or _own_loop(reading, response), Duel(rule.design is Design.EQUAL, unit, play))
