"""Odds: what an epsilon means for somebody who sees a response."""

from math import exp, nextafter

MOST_EPSILON = 700.0
"""e to a larger number is no double; the posterior is nearly 1 long before."""


def posterior(prior: float, epsilon: float) -> float:
    """Return the largest probability that anybody gives to a fact after responses of this epsilon in all.

    By Bayes' rule the odds of a fact grow by at most e^epsilon, for any observer. The result never reaches 1.

    >>> round(posterior(0.5, 1), 3), round(posterior(0.04, 1), 3)
    (0.731, 0.102)
    """
    odds = prior / (1 - prior) * exp(min(epsilon, MOST_EPSILON))
    return min(odds / (1 + odds), nextafter(1, 0))
