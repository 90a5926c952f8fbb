"""How many guesses may be right: the one inequality on which every lower bound of epsilon here rests.

Let a fair coin choose between two rewards, let a curator respond to the chosen one, and let somebody who sees the
response guess the coin, or abstain. If the curator is epsilon-LDP, then for every response y

    P(coin = c | response = y) <= e^epsilon / (1 + e^epsilon)

(Bayes: the odds of the coin given y are P(y | one reward) / P(y | the other), since the coin is fair). So whatever the
rule for guessing and for abstaining, each guess that is made is right with at most that probability, given all the
others; the number right among m guesses is at most Binomial(m, e^epsilon / (1 + e^epsilon)) in law, and

    logit of the Clopper-Pearson lower limit of (right, m)

is below epsilon with probability at least 1 - alpha. Nothing is assumed about the law of the responses, nothing is
approximated, and the rule may be anything that was fixed before these responses were seen.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from ldpbandits.audit.result import Layer


def epsilon_lower(right: ArrayLike, guesses: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """Return what epsilon is at least, with confidence 1 - alpha, for each count; below 0 it says nothing."""
    k, m = np.asarray(right, np.float64), np.asarray(guesses, np.float64)
    limit = betaincinv(np.maximum(k, 1), m - np.maximum(k, 1) + 1, alpha)
    with np.errstate(divide="ignore"):  # no guess right: the limit is 0, and its logit minus infinity
        return np.asarray(np.log(np.where(k > 0, limit, 0)) - np.log1p(-limit), np.float64)


@dataclass(frozen=True, slots=True)
class Guesses:
    """So many guesses, so many of them right, and the chance of error that their bound may use up."""

    right: int
    made: int
    alpha: float

    @property
    def epsilon_lower(self) -> float:
        """What epsilon is at least, with confidence 1 - alpha; never below 0."""
        return max(0.0, float(epsilon_lower(self.right, self.made, self.alpha))) if self.made else 0.0

    def __str__(self) -> str:
        """Say how good the guesses were, and what follows."""
        if not self.made:
            return "no guess could be made"
        return f"{self.right:,} of {self.made:,} guesses right: epsilon is at least {self.epsilon_lower:.4f}"


def bound_layer(name: str, guesses: Guesses, epsilon: float, how: str) -> Layer:
    """Judge a claim by a bound: violated if epsilon is at least more than was claimed."""
    lower = guesses.epsilon_lower
    return Layer(name, "violated" if lower > epsilon else "consistent", f"{how}: {guesses}", lower)
