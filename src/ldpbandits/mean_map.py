"""Lemma 3 of the paper: how CTB moves a mean, and back. Both sides of the boundary may know it."""

from math import exp, tanh


def response_mean(mean: float, epsilon: float) -> float:
    """(mean e^epsilon + 1 - mean) / (e^epsilon + 1): how often CTB answers 1 to rewards of this mean in [0, 1].

    The same as the paper's 1/2 + (2 mean - 1) (e^epsilon - 1) / (2 (e^epsilon + 1)), but accurate where it is small.
    """
    return (mean + (1 - mean) * exp(-epsilon)) / (1 + exp(-epsilon))


def debiased_mean(response: float, epsilon: float) -> float:
    """Return the mean reward behind this mean response: the inverse of `response_mean`, which is linear."""
    return 0.5 + (response - 0.5) / tanh(epsilon / 2)
