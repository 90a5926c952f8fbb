"""When a trial is decided, compiled: `agent/inference/verdicts.py` on the tallies of the lab's loops.

The kernels of the coin test and of the pair test are the agent's own. An arm is ahead by the same comparisons two by
two, and is declared by the same thresholds. A look takes microseconds, and ends at the first rival that is not beaten.
"""

from collections.abc import Callable
from functools import partial
from math import log
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.extending import register_jitable

from ldpbandits.agent.bound_rule import bind_rule
from ldpbandits.agent.duels import Design
from ldpbandits.agent.inference import differences
from ldpbandits.agent.inference.differences import CELL, Data, coin_table, pair_table
from ldpbandits.agent.inference.estimates import share
from ldpbandits.agent.inference.verdicts import Criteria
from ldpbandits.agent.rules import KLUCBPlus, Rule, name_of
from ldpbandits.errors import ParameterError
from ldpbandits.lab.algorithms import Algorithm
from ldpbandits.lab.engine.compiled import compiled, inlined, uncached
from ldpbandits.lab.engine.laws import Floats, Ints
from ldpbandits.lab.engine.separation import IntervalTest, judge, separated
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.menu import Menu

register_jitable(differences.likely_mean)
_arm_mean: Callable[..., float] = register_jitable(differences.arm_mean)
_log_coin_evidence: Callable[..., float] = register_jitable(differences.log_coin_evidence)
_log_pair_evidence = inlined(differences.log_pair_evidence)
_least_evidence = inlined(differences.least_evidence)

Test: TypeAlias = Literal["coin", "pair", "intervals"]
"""The tests that may declare an arm: the coin test and the pair test of differences, and disjoint intervals."""

ADAPTIVE, EQUAL, DUELS = range(3)
_DESIGNS = {Design.ADAPTIVE: ADAPTIVE, Design.EQUAL: EQUAL, Design.DUELS: DUELS}


class VerdictTest(NamedTuple):
    """The numbers beside the tallies by which an arm is declared."""

    design: int
    """ADAPTIVE: the pair test, on all responses of the arms; EQUAL and DUELS: the coin test, on those of pairs."""
    scale: tuple[float, float]
    shift: float
    width: float
    """Sums of what is counted become sums of numbers in [0, 1] by this shift for each response, and this width."""
    table: Floats
    """The components of the e-process, one in a row."""
    needed: Floats
    """The logarithm of the evidence that declares each arm."""
    missing: float
    """Answers that never come for each that comes; they count at worst."""


def verdict_test(rule: Rule, menu: Menu, criteria: Criteria, missing: float = 0.0) -> VerdictTest:
    """Return how trials of a rule are judged; raise ParameterError where its responses cannot be compared."""
    bound = bind_rule(rule, menu)
    if bound.unit is None or len(menu) > 1:
        raise ParameterError(f"the lab has no test for the responses that the rule {name_of(rule)} counts")
    if criteria.forged or criteria.worth is not None:
        raise ParameterError("the lab judges which arm is better, without forged responses and without no-gain")
    unit, is_adaptive = bound.unit, bound.design is Design.ADAPTIVE
    table = pair_table(unit.scale) if is_adaptive else coin_table(unit.scale, criteria.planned)
    needed = np.array([log(criteria.needed(arm)) for arm in range(criteria.arms)])
    low, slope = unit.scale
    scale = float(low), float(slope)
    return VerdictTest(_DESIGNS[bound.design], scale, unit.shift, unit.width, np.array(table), needed, float(missing))


@uncached
def _fill(test: VerdictTest, pulls: Floats, totals: Floats, cells: Floats, b: int, a: int) -> None:
    """Write the responses by which b and a are compared into `cells`."""
    n = len(pulls)
    for place, arm, rival in ((0, b, a), (2, a, b)):
        if test.design == DUELS:
            at = n + n * arm + rival  # behind the totals: pulls by arm and rival, then sums
            count, counted = totals[at], totals[at + n * n]
        else:
            count, counted = pulls[arm], totals[arm]
        cells[place], cells[place + 1] = count, (counted + test.shift * count) / test.width


@uncached
def _are_comparable(test: VerdictTest, cells: Floats) -> bool:
    if test.design == ADAPTIVE:
        return bool(cells[0] > 0 and cells[2] > 0)
    return bool(cells[0] > 0 or cells[2] > 0)


@uncached
def _champion(test: VerdictTest, pulls: Floats, totals: Floats, cells: Floats) -> int:
    """Return the arm that is ahead of the others in turn; -1 where no two of them can be compared."""
    best, is_known = 0, False
    for arm in range(1, len(pulls)):
        _fill(test, pulls, totals, cells, best, arm)
        if _are_comparable(test, cells):
            is_known = True
            gain = _arm_mean(cells, test.scale, 0) - _arm_mean(cells, test.scale, 2)
            if gain < 0:
                best = arm
    return best if is_known else -1


@uncached
def log_evidence(test: VerdictTest, cells: Floats, enough: float) -> float:
    """Return the logarithm of the evidence that b is better than a, or some number below `enough`."""
    missing_b, missing_a = np.rint(cells[0] * test.missing), np.rint(cells[2] * test.missing)
    if test.design != ADAPTIVE:
        return _log_coin_evidence(cells, test.table, missing_b, missing_a)
    data = Data(cells, test.scale, test.table, missing_b, missing_a)  # type: ignore[arg-type]
    return _least_evidence(_log_pair_evidence, data, 0.0, 1.0, enough)


@compiled
def winner(test: VerdictTest, pulls: Floats, totals: Floats) -> int:
    """Return the arm that is declared better than all others, or -1."""
    cells = np.empty(CELL)
    best = _champion(test, pulls, totals, cells)
    if best < 0 or len(pulls) == 1:
        return -1
    for arm in range(len(pulls)):
        if arm != best:
            _fill(test, pulls, totals, cells, best, arm)
            if not _are_comparable(test, cells):
                return -1
            if log_evidence(test, cells, test.needed[best]) < test.needed[best]:
                return -1
    return best


def judge_by(test: Test, algorithm: Algorithm, arms: int) -> Callable[[Floats, Floats], int]:
    """Return the function of a tally that says which of a fixed set of arms a test declares, or -1."""
    rule, curator, criteria = algorithm.rule, algorithm.curator, Criteria(arms)
    if not isinstance(curator, CuratorSpec):
        raise ParameterError(f"{algorithm.name} is judged by no test here: its responses are not of one curator")
    if test == "coin" and rule.design is Design.ADAPTIVE:
        raise ParameterError(f"the coin test needs a fair coin, which {algorithm.name} does not toss")
    if test == "intervals":
        alphas = np.array([share(criteria.alpha, arm) for arm in range(arms)])
        intervals = IntervalTest(judge(curator), alphas, 0.0)
        return lambda pulls, totals: int(separated(intervals, pulls, totals[:arms]))
    return partial(winner, verdict_test(KLUCBPlus() if test == "pair" else rule, Menu.of(curator), criteria))


@compiled
def first_verdict(test: VerdictTest, pulls: Floats, totals: Floats) -> tuple[int, int]:
    """Return the first moment at which an arm is declared, and the arm; (-1, -1) if there is none.

    Pulls and totals are indexed by moment first.
    """
    for moment in range(len(pulls)):
        arm = winner(test, pulls[moment], totals[moment])
        if arm >= 0:
            return moment, arm
    return -1, -1


@uncached
def _share_block(
    is_duel: bool,  # noqa: FBT001 - a number of a compiled loop
    rng: np.random.Generator,
    chance: Floats,
    pulls: Floats,
    totals: Floats,
    count: int,
) -> None:
    """Give `count` users an arm each, all equally likely, and draw their bits; two arms that duel share alike."""
    n = len(pulls)
    for arm in range(n):
        new = rng.binomial(count, 1 / (n - arm)) if arm < n - 1 else count
        count -= new
        ones = rng.binomial(new, chance[arm])
        pulls[arm] += new
        totals[arm] += ones
        if n > 1:
            at = n + n * arm + (1 - arm if is_duel else n - 1)
            totals[at] += new
            totals[at + n * n] += ones


@compiled
def share_bits(
    is_duel: bool,  # noqa: FBT001 - as above
    chance: Floats,
    rng: np.random.Generator,
    pulls: Floats,
    totals: Floats,
    t: int,
    until: int,
) -> None:
    """Play rounds t to until - 1 in one block: equal shares of any number of arms, or duels of two."""
    _share_block(is_duel, rng, chance, pulls, totals, until - t)


@compiled
def record_bits(chance: Floats, rng: np.random.Generator, times: Ints) -> tuple[Floats, Floats]:
    """Play one trial of equal shares in blocks; return the pulls and the totals of each arm at each of these times.

    The duels of two arms have the same law, and their pair is all responses.
    """
    n, before = len(chance), 0
    pulls, totals = np.zeros((len(times), n)), np.zeros((len(times), n))
    now, sums = np.zeros(n), np.zeros(n + 2 * n * n)
    for moment, t in enumerate(times):
        _share_block(False, rng, chance, now, sums, t - before)  # noqa: FBT003 - compiled
        pulls[moment], totals[moment], before = now, sums[:n], t
    return pulls, totals


@uncached
def _play_until(
    judge: Callable[..., int],
    test: Any,  # noqa: ANN401 - whatever `judge` takes
    loop: Callable[..., None],
    numbers: tuple[Any, ...],
    rng: np.random.Generator,
    times: Ints,
    pulls: Floats,
    totals: Floats,
    t: int,
) -> tuple[int, int]:
    for moment, until in enumerate(times):
        rounds = (*numbers, rng, pulls, totals, t, until)
        loop(*rounds)
        t = until
        arm = judge(test, pulls, totals)
        if arm >= 0:
            return moment, arm
    return -1, -1


def play_until_verdict(
    judge: Callable[..., int],
    test: Any,  # noqa: ANN401 - as above
    advance: Callable[..., None],
    rng: np.random.Generator,
    times: Ints,
    pulls: Floats,
    totals: Floats,
    t: int = 0,
) -> tuple[int, int]:
    """Play one trial from round t on until an arm is declared at one of these times.

    Return the moment and the arm, or (-1, -1); the tally then is that of the moment, or of the last time. `judge` is
    `winner`, or another compiled function of `test` and the tally.
    """
    loop = getattr(advance, "func", None)
    if isinstance(loop, Dispatcher) and not getattr(advance, "keywords", None):
        moment, arm = _play_until(judge, test, loop, advance.args, rng, times, pulls, totals, t)  # type: ignore[attr-defined]
        return int(moment), int(arm)
    for moment, until in enumerate(times.tolist()):
        advance(rng, pulls, totals, t, until)
        t, arm = until, judge(test, pulls, totals)
        if arm >= 0:
            return moment, int(arm)
    return -1, -1
