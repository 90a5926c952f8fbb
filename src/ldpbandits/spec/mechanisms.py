"""Mechanisms: the public law by which a curator draws a response from a value. Both sides know it.

| kind      | in the paper | takes values       | responses                             |
|-----------|--------------|--------------------|---------------------------------------|
| bernoulli | CTB          | in [0, 1]          | 0 or 1                                |
| laplace   | CTL          | on the real line   | multiples of 2^-20, of Laplace law    |

How a response is drawn is known to the device alone (`device/curators.py`). What is here is what an agent needs: which
responses are possible, how a mean of responses becomes a mean of rewards, and how far the two may be apart.
"""

from dataclasses import dataclass
from math import exp, floor, sqrt, tanh
from typing import ClassVar, Protocol, runtime_checkable

from ldpbandits.checks import check_epsilon
from ldpbandits.errors import ParameterError, SpecError
from ldpbandits.spec.registry import Registry
from ldpbandits.spec.sequences import bernoulli_interval, laplace_radius

GRID_BITS = 20
"""Responses of CTL are multiples of 2^-20: rewards and noise are on that grid."""

NOISE_CAP = 28.0
"""CTL noise beyond 28 / epsilon has probability at most e^-28 = 6.9e-13, and is taken for a fault.

With x = epsilon / 2^20, P(|Z| > m) = 2 e^(-x (m + 1)) / (1 + e^-x) <= e^(-x m),
and m = ceil(28 / x) steps are let pass.
"""


@runtime_checkable
class Mechanism(Protocol):
    """The members that every mechanism has."""

    kind: ClassVar[str]
    """The name of the mechanism in JSON."""
    takes_any_value: ClassVar[bool]
    """Values may lie anywhere on the real line; otherwise only in [0, 1]."""

    @property
    def epsilon(self) -> float:
        """No response is more than e^epsilon times likelier under one of two neighbours than under the other."""

    @property
    def unit(self) -> float:
        """Responses are whole multiples of this power of two: so sums of them are exact, in any order."""

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest possible response to values in [0, 1], in units."""

    @property
    def width(self) -> float:
        """The mean of N responses deviates by width sqrt(log t / N) with at most the probability in the proofs."""

    @property
    def floor(self) -> float:
        """The bound by `width` holds once N > floor log(t + 1)."""

    def response_mean(self, mean: float) -> float:
        """Return the mean of responses to values of this mean."""

    def debiased_mean(self, mean: float) -> float:
        """Return the mean of the values behind responses of this mean: the way back."""

    def interval(self, pulls: int, total: float, alpha: float, sigma: float) -> tuple[float, float]:
        """Return an interval for the mean value that holds after every pull at once with probability 1 - alpha.

        `sigma` says how far values spread: they are sigma-sub-Gaussian, with 1/2 for any law on [0, 1]. Neither end
        falls when the total rises. A mechanism may have a `worst_interval(pulls, total, missing, alpha, sigma)` too, as
        CTL has: one that holds whatever values are missing.
        """


MECHANISMS: Registry[Mechanism] = Registry("mechanism", Mechanism, key="mechanism")
"""Every mechanism that can be named in JSON."""


def response_mean(mean: float, epsilon: float) -> float:
    """Lemma 3: (mean e^epsilon + 1 - mean) / (e^epsilon + 1), how often CTB answers 1 to values of this mean.

    The same as the paper's 1/2 + (2 mean - 1) (e^epsilon - 1) / (2 (e^epsilon + 1)), but accurate where it is small.
    """
    return (mean + (1 - mean) * exp(-epsilon)) / (1 + exp(-epsilon))


def debiased_mean(response: float, epsilon: float) -> float:
    """Return the mean value behind this mean response: the inverse of `response_mean`, which is linear."""
    return 0.5 + (response - 0.5) / tanh(epsilon / 2)


@MECHANISMS.register
@dataclass(frozen=True, slots=True)
class Bernoulli:
    """CTB: the response to v in [0, 1] is 1 with probability (v e^epsilon + 1 - v) / (1 + e^epsilon), else 0."""

    epsilon: float

    kind: ClassVar[str] = "bernoulli"
    takes_any_value: ClassVar[bool] = False
    unit: ClassVar[float] = 1.0
    limits: ClassVar[tuple[int, int]] = (0, 1)
    width: ClassVar[float] = sqrt(2)
    """Hoeffding's inequality for bits, as in UCB1."""
    floor: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        """Check that epsilon is in range."""
        check_mechanism_epsilon(self)

    def response_mean(self, mean: float) -> float:
        """Return the mean response to values of this mean (Lemma 3)."""
        return response_mean(mean, self.epsilon)

    def debiased_mean(self, mean: float) -> float:
        """Return the mean value from the mean response (the inverse of Lemma 3)."""
        return debiased_mean(mean, self.epsilon)

    def interval(self, pulls: int, total: float, alpha: float, sigma: float) -> tuple[float, float]:  # noqa: ARG002 - bits need no sigma
        """Debias an interval for the chance of a 1."""
        low, high = bernoulli_interval(pulls, total, alpha)
        return self.debiased_mean(low), self.debiased_mean(high)


@MECHANISMS.register
@dataclass(frozen=True, slots=True)
class Laplace:
    """CTL: the response is v + L with L of the Laplace law of scale 1 / epsilon, both on the grid of 2^-20."""

    epsilon: float

    kind: ClassVar[str] = "laplace"
    takes_any_value: ClassVar[bool] = True
    unit: ClassVar[float] = 0.5**GRID_BITS
    floor: ClassVar[float] = 4.0
    """Up to 4 log(t + 1) pulls the paper's bound on the noise does not hold."""

    def __post_init__(self) -> None:
        """Check that epsilon is in range."""
        check_mechanism_epsilon(self)

    @property
    def limits(self) -> tuple[int, int]:
        """The ends of [0, 1], and as much noise as is let pass."""
        cap = -floor(-NOISE_CAP / self.epsilon * (1 << GRID_BITS))
        return -cap, (1 << GRID_BITS) + cap

    @property
    def width(self) -> float:
        """Two terms: sqrt(2) for the rewards, sqrt(32) / epsilon for the noise."""
        return sqrt(2) + sqrt(32) / self.epsilon

    def response_mean(self, mean: float) -> float:
        """Return the mean as it is: the noise has mean 0."""
        return mean

    def debiased_mean(self, mean: float) -> float:
        """Return the mean as it is."""
        return mean

    def interval(self, pulls: int, total: float, alpha: float, sigma: float) -> tuple[float, float]:
        """Return an interval around the mean response."""
        return self.worst_interval(pulls, total, 0, alpha, sigma)

    def worst_interval(self, pulls: int, total: float, missing: int, alpha: float, sigma: float) -> tuple[float, float]:
        """Put the values that are missing at 0, and at 1: responses may be any number, but values in [0, 1] may not."""
        # Rounding rewards to the grid moves their mean by up to half a step.
        radius = laplace_radius(pulls, self.epsilon, sigma, alpha, missing) + self.unit / 2
        return total / (pulls + missing) - radius, (total + missing) / (pulls + missing) + radius


def is_bits(mechanism: Mechanism) -> bool:
    """Tell whether all responses are 0 or 1."""
    return mechanism.unit == 1 and mechanism.limits == (0, 1)


def check_mechanism_epsilon(mechanism: Mechanism) -> None:
    """Check the epsilon of a frozen mechanism, and keep it as a float."""
    try:
        object.__setattr__(mechanism, "epsilon", check_epsilon(mechanism.epsilon))
    except ParameterError as error:
        raise SpecError(str(error)) from None
