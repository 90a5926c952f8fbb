"""When the best arm is first separated, compiled: `agent/inference/separation.py` without finding any interval.

The interval of the best arm lies above that of another just when some mean m between them is refuted for both: by the
martingale of the best arm from below, by that of the other from above. The former falls in m and the latter rises. One
m at which neither refutes settles that there is none, and one at which both do that there is one; where only one does,
the range is bisected. A check takes some ten microseconds, where intervals take milliseconds.
"""

from math import inf, log, sqrt
from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from ldpbandits.agent.inference import sequences
from ldpbandits.agent.inference.estimates import HOEFFDING
from ldpbandits.errors import ParameterError
from ldpbandits.lab.engine.compiled import compiled, uncached
from ldpbandits.lab.engine.laws import Floats
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.mechanisms import Laplace, is_bits

for _kernel in (
    sequences.log_add,
    sequences.psi,
    sequences.bits_limit,
    sequences.log_bits_martingale,
    sequences.log_laplace_martingale,
):
    register_jitable(_kernel)

_CLOSEST = 1e-13
"""Means that are closer are not told apart: intervals are found to about as many places."""


class Judge(NamedTuple):
    """The numbers beside the tallies on which intervals depend, in one shape for all mechanisms."""

    epsilon: float
    """The epsilon of Laplace noise; 0: responses are bits."""
    slack: float
    """The largest error of a mean by rounding to a grid."""
    low: float
    """The mean response to values of 0, the smallest possible mean."""
    high: float
    """The mean response to values of 1, the largest possible mean."""


def judge(curator: CuratorSpec) -> Judge:
    """Return how tallies of the responses of a curator are judged."""
    mechanism = curator.mechanism
    low, high = mechanism.response_mean(0.0), mechanism.response_mean(1.0)
    if is_bits(mechanism):
        return Judge(0.0, 0.0, low, high)
    if type(mechanism) is Laplace:
        return Judge(mechanism.epsilon, mechanism.unit / 2, low, high)
    raise ParameterError(f"the lab cannot judge responses of the mechanism {mechanism.kind}")


class IntervalTest(NamedTuple):
    """The numbers beside the tally of a trial by which an arm is separated."""

    judge: Judge
    alphas: Floats
    """Each arm's share of alpha."""
    missing: float
    """Answers that never come for each that comes; they count at worst."""


@uncached
def _is_below(judge: Judge, pulls: float, total: float, missing: float, alpha: float, m: float) -> bool:
    """Tell whether m lies below an arm's interval, where all who do not answer would have said the least."""
    n = pulls + missing
    distance = total - (m + judge.slack) * n
    if distance <= 0:
        return False
    if judge.epsilon == 0:
        return sequences.log_bits_martingale(n, total, m) >= sequences.bits_limit(n, alpha)
    return _laplace(judge, pulls, distance, missing) >= -log(alpha)


@uncached
def _is_above(judge: Judge, pulls: float, total: float, missing: float, alpha: float, m: float) -> bool:
    """Tell whether m lies above an arm's interval, where all who do not answer would have said the most."""
    n, most = pulls + missing, total + missing
    distance = (m - judge.slack) * n - most
    if distance <= 0:
        return False
    if judge.epsilon == 0:
        return sequences.log_bits_martingale(n, most, m) >= sequences.bits_limit(n, alpha)
    return _laplace(judge, pulls, distance, missing) >= -log(alpha)


@uncached
def _laplace(judge: Judge, pulls: float, distance: float, missing: float) -> float:
    return sequences.log_laplace_martingale(pulls, distance, judge.epsilon, HOEFFDING, missing)


@uncached
def _leader(pulls: Floats, totals: Floats) -> int:
    """Return the arm of largest mean, the first of several; -1 when one has no response yet."""
    best = 0
    for arm in range(len(pulls)):
        if pulls[arm] <= 0:
            return -1
        if totals[arm] * pulls[best] > totals[best] * pulls[arm]:
            best = arm
    return best


@uncached
def _all_fit(judge: Judge, pulls: Floats, totals: Floats, missing: Floats, alphas: Floats) -> bool:
    """Tell whether the responses of every arm may be those of its curator."""
    for arm in range(len(pulls)):
        is_too_low = _is_above(judge, pulls[arm], totals[arm], missing[arm], alphas[arm], judge.low)
        if is_too_low or _is_below(judge, pulls[arm], totals[arm], missing[arm], alphas[arm], judge.high):
            return False
    return True


@uncached
def _separated(judge: Judge, pulls: Floats, totals: Floats, missing: Floats, alphas: Floats) -> int:
    """Return the arm that is separated, or -1."""
    best, far, fewest = _leader(pulls, totals), judge.low, inf
    if best < 0:
        return -1
    for arm in range(len(pulls)):
        if arm != best:
            far = max(far, (totals[arm] + missing[arm]) / (pulls[arm] + missing[arm]))
            fewest = min(fewest, pulls[arm])
    near = min(totals[best] / (pulls[best] + missing[best]), judge.high)
    m = near - (near - far) / (1 + sqrt(pulls[best] / fewest))  # about where both are refuted alike
    while near - far > _CLOSEST:
        below = _is_below(judge, pulls[best], totals[best], missing[best], alphas[best], m)
        above = True
        for arm in range(len(pulls)):
            if arm != best and above:
                above = _is_above(judge, pulls[arm], totals[arm], missing[arm], alphas[arm], m)
        if below and above:
            return best if _all_fit(judge, pulls, totals, missing, alphas) else -1
        if not below and not above:
            return -1
        if below:
            far = m
        else:
            near = m
        m = (near + far) / 2
    return -1


@compiled
def first_separated(judge: Judge, pulls: Floats, totals: Floats, missing: Floats, alphas: Floats) -> tuple[int, int]:
    """Return the first moment at which an arm is separated, and the arm; (-1, -1) if there is none.

    Pulls, totals and the missing answers are indexed by moment and arm; alphas is each arm's share of alpha.
    """
    for moment in range(len(pulls)):
        arm = _separated(judge, pulls[moment], totals[moment], missing[moment], alphas)
        if arm >= 0:
            return moment, arm
    return -1, -1


@compiled
def separated(test: IntervalTest, pulls: Floats, totals: Floats) -> int:
    """Return the arm that is separated, or -1; sums of the responses are the last of the totals."""
    responses = totals[len(totals) - len(pulls) :]
    return _separated(test.judge, pulls, responses, np.rint(pulls * test.missing), test.alphas)
