"""Power: the epsilon that single responses could have and still pass; `consistent` says little without power.

A rule that makes m guesses calls a claim violated if k or more of them are right, for some k. A curator whose guesses
are right with probability e^x / (1 + e^x) is caught nineteen times in twenty if x is at least

    logit of the p with P(Binomial(m, p) >= k) = 0.95

and there is no such x if even m right ones would not do. That is what epsilon could be, as far as this rule goes. It
is all that can be said of single responses if they are few different ones, since then a rule by value sees all that
one of them shows; or if a rule came near the claim. Otherwise responses are many and no rule could read them: epsilon
could be anything. It says nothing of a leak that several responses show together, such as noise that is used twice: a
curator may have any epsilon by such a leak and still pass the rules that are counted here.
"""

from collections.abc import Sequence
from math import inf, log

import numpy as np
from scipy.special import betaincinv

from ldpbandits.audit.evidence import Claim
from ldpbandits.audit.guess import epsilon_lower
from ldpbandits.audit.result import Layer
from ldpbandits.audit.sample import TEST, Sample

CAUGHT = 0.95
OFTEN = 20
"""A response that came as often as this is told from others by its value."""
MOST = 0.99
NEAR = 0.25
"""A rule has read the responses if its bound is this part of the claim, or more."""


def detectable(guesses: int, alpha: float, epsilon: float) -> float:
    """Return the least true epsilon that `guesses` guesses detect nearly always, if `epsilon` is claimed."""
    if guesses < 1 or epsilon_lower(guesses, guesses, alpha) <= epsilon:
        return inf
    low, high = 0, guesses  # the fewest right guesses that refute the claim, by bisection
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if epsilon_lower(middle, guesses, alpha) > epsilon else (middle, high)
    p = float(betaincinv(high, guesses - high + 1, CAUGHT))
    return log(p) - log(1 - p) if p < 1 else inf


def could_be(claim: Claim, sample: Sample, layers: Sequence[Layer], alpha: float) -> float:
    """Return what epsilon could be, as far as the rules of these layers go, each at this level or a larger one."""
    _, counts = np.unique(sample.said.hashes, return_counts=True)
    if counts[counts >= OFTEN].sum() >= MOST * len(sample.chosen):
        tested = np.count_nonzero(sample.roles == TEST) + sample.calls - len(sample.chosen)
        return detectable(int(tested * 2 / len(sample.rewards)), alpha, claim.epsilon)
    rules = [layer for layer in layers if layer.guesses and layer.epsilon_lower >= NEAR * claim.epsilon]
    return min((detectable(layer.guesses, alpha, claim.epsilon) for layer in rules), default=inf)
