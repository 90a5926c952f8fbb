"""Lemma 3 of the paper: how CTB moves a mean, and back. Both sides of the boundary may know it."""

from math import tanh


def response_mean(mean: float, epsilon: float) -> float:
    """1/2 + (mean - 1/2) (e^epsilon - 1) / (e^epsilon + 1): how often CTB answers 1 to this mean in [0, 1]."""
    return 0.5 + (mean - 0.5) * tanh(epsilon / 2)


def debiased_mean(response: float, epsilon: float) -> float:
    """Return the mean reward behind this mean response: the inverse of `response_mean`."""
    return 0.5 + (response - 0.5) / tanh(epsilon / 2)
