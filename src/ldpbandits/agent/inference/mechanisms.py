"""Inference for each mechanism: from the responses of its public law back to the mean of the values.

The public law of a mechanism is in `spec/mechanisms.py`, and devices know no more. `inference_for` finds what an agent
computes from it. The defaults of `Inference` serve every mechanism whose responses are bits; another one registers a
subclass:

    @infers(Levels)
    class LevelsInference(Inference[Levels]):
        def interval(self, pulls, total, alpha, sigma): ...
"""

from collections.abc import Callable
from math import sqrt, tanh
from typing import Any, Generic, TypeVar

from ldpbandits.agent.inference.sequences import bernoulli_interval, laplace_radius
from ldpbandits.errors import SpecError
from ldpbandits.spec.mechanisms import Bernoulli, Laplace, Mechanism, is_bits

M = TypeVar("M", bound=Mechanism)


class Inference(Generic[M]):
    """Width, floor, debiased mean and intervals of one mechanism."""

    floor: float = 0.0
    """The bound by `width` holds once N > floor log(t + 1)."""

    def __init__(self, mechanism: M) -> None:
        self.mechanism = mechanism

    @property
    def width(self) -> float:
        """The mean of N responses deviates by more than width sqrt(log t / N) with probability at most t^-4.

        The default is Hoeffding's inequality for responses within the limits of the mechanism.
        """
        least, most = self.mechanism.limits
        return sqrt(2) * (most - least) * self.mechanism.unit

    def debiased_mean(self, mean: float) -> float:
        """Return the mean of the values behind responses of this mean: the inverse of `response_mean`."""
        low, high = self.mechanism.response_mean(0.0), self.mechanism.response_mean(1.0)
        return (mean - low) / (high - low)

    def interval(self, pulls: int, total: float, alpha: float, sigma: float) -> tuple[float, float]:  # noqa: ARG002 - bits need no sigma
        """Return an interval for the mean value that holds after every pull at once with probability 1 - alpha.

        `sigma` says how far values spread: they are sigma-sub-Gaussian, with 1/2 for any law on [0, 1]. Neither end
        falls when the total rises. The default debiases an interval for the probability of a 1.
        """
        low, high = bernoulli_interval(pulls, total, alpha)
        return self.debiased_mean(low), self.debiased_mean(high)

    def worst_interval(self, pulls: int, total: float, missing: int, alpha: float, sigma: float) -> tuple[float, float]:
        """Return an interval that holds whatever `missing` further responses would have been.

        The default counts each of them as the least, and as the largest possible response.
        """
        least, most = (missing * limit * self.mechanism.unit for limit in self.mechanism.limits)
        low, _ = self.interval(pulls + missing, total + least, alpha, sigma)
        _, high = self.interval(pulls + missing, total + most, alpha, sigma)
        return low, high


INFERENCES: dict[type[Mechanism], type[Inference[Any]]] = {}
"""The inference of each mechanism that needs more than the defaults."""

I = TypeVar("I", bound=type[Inference[Any]])  # noqa: E741 - a type variable, never a number


def infers(mechanism: type[Mechanism]) -> Callable[[I], I]:
    """Register a subclass of `Inference` for a mechanism; usable as a decorator."""

    def register(inference: I) -> I:
        INFERENCES[mechanism] = inference
        return inference

    return register


def inference_for(mechanism: M) -> Inference[M]:
    """Return the inference of a mechanism: the registered one, or for bits the defaults.

    >>> inference_for(Bernoulli(epsilon=1.0)).debiased_mean(0.5)
    0.5
    """
    registered = next((INFERENCES[base] for base in type(mechanism).__mro__ if base in INFERENCES), None)
    if registered is None and not is_bits(mechanism):
        name = type(mechanism).__name__
        raise SpecError(f"the responses of {name} are not bits: register its inference with @infers({name})")
    return (registered or Inference)(mechanism)


def debiased_mean(response: float, epsilon: float) -> float:
    """Return the mean value behind this mean response of CTB: the inverse of `response_mean`, which is linear."""
    return 0.5 + (response - 0.5) / tanh(epsilon / 2)


@infers(Bernoulli)
class BernoulliInference(Inference[Bernoulli]):
    """CTB: the defaults for bits, debiased by the inverse of Lemma 3."""

    def debiased_mean(self, mean: float) -> float:
        """Return the mean value from the mean response, accurate also where epsilon is small."""
        return debiased_mean(mean, self.mechanism.epsilon)


@infers(Laplace)
class LaplaceInference(Inference[Laplace]):
    """CTL: the noise has mean 0, and no bound."""

    floor = 4.0
    """Up to 4 log(t + 1) pulls the paper's bound on the noise does not hold."""

    @property
    def width(self) -> float:
        """Two terms: sqrt(2) for the rewards, sqrt(32) / epsilon for the noise."""
        return sqrt(2) + sqrt(32) / self.mechanism.epsilon

    def debiased_mean(self, mean: float) -> float:
        """Return the mean as it is: the noise has mean 0."""
        return mean

    def interval(self, pulls: int, total: float, alpha: float, sigma: float) -> tuple[float, float]:
        """Return an interval around the mean response."""
        return self.worst_interval(pulls, total, 0, alpha, sigma)

    def worst_interval(self, pulls: int, total: float, missing: int, alpha: float, sigma: float) -> tuple[float, float]:
        """Put the values that are missing at 0, and at 1: responses may be any number, but values in [0, 1] may not."""
        # Rounding rewards to the grid moves their mean by up to half a step.
        radius = laplace_radius(pulls, self.mechanism.epsilon, sigma, alpha, missing) + self.mechanism.unit / 2
        return total / (pulls + missing) - radius, (total + missing) / (pulls + missing) + radius
