"""Mechanisms: the public law by which a curator draws a response from a value. Both sides know it.

| kind      | in the paper | takes values       | responses                             |
|-----------|--------------|--------------------|---------------------------------------|
| bernoulli | CTB          | in [0, 1]          | 0 or 1                                |
| laplace   | CTL          | on the real line   | multiples of 2^-20, of Laplace law    |

Only the device knows how to draw a response (`device/curators.py`), and only the agent computes a mean of values and
its interval from responses (`agent/inference/mechanisms.py`). Here is what both know: which responses are possible, and
their mean.
"""

from dataclasses import dataclass
from math import exp, floor
from typing import ClassVar, Protocol, runtime_checkable

from ldpbandits.checks import check_epsilon
from ldpbandits.errors import SpecError
from ldpbandits.spec.registry import Registry

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
        """The power of two of which responses are whole multiples: it makes their sums exact, in any order."""

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest possible response to values in [0, 1], in units."""

    def response_mean(self, mean: float) -> float:
        """Return the mean of responses to values of this mean."""


MECHANISMS: Registry[Mechanism] = Registry("mechanism", Mechanism, key="mechanism")
"""Every mechanism that can be named in JSON."""


def response_mean(mean: float, epsilon: float) -> float:
    """Lemma 3: (mean e^epsilon + 1 - mean) / (e^epsilon + 1), how often CTB answers 1 to values of this mean.

    The same as the paper's 1/2 + (2 mean - 1) (e^epsilon - 1) / (2 (e^epsilon + 1)), but accurate where it is small.
    """
    return (mean + (1 - mean) * exp(-epsilon)) / (1 + exp(-epsilon))


@MECHANISMS.register
@dataclass(frozen=True, slots=True)
class Bernoulli:
    """CTB: the response to v in [0, 1] is 1 with probability (v e^epsilon + 1 - v) / (1 + e^epsilon), else 0."""

    epsilon: float

    kind: ClassVar[str] = "bernoulli"
    takes_any_value: ClassVar[bool] = False
    unit: ClassVar[float] = 1.0
    limits: ClassVar[tuple[int, int]] = (0, 1)

    def __post_init__(self) -> None:
        check_mechanism_epsilon(self)

    def response_mean(self, mean: float) -> float:
        """Return the mean response to values of this mean (Lemma 3)."""
        return response_mean(mean, self.epsilon)


@MECHANISMS.register
@dataclass(frozen=True, slots=True)
class Laplace:
    """CTL: the response is v + L with L of the Laplace law of scale 1 / epsilon, both on the grid of 2^-20."""

    epsilon: float

    kind: ClassVar[str] = "laplace"
    takes_any_value: ClassVar[bool] = True
    unit: ClassVar[float] = 0.5**GRID_BITS

    def __post_init__(self) -> None:
        check_mechanism_epsilon(self)

    @property
    def limits(self) -> tuple[int, int]:
        """The ends of [0, 1], widened by the largest noise that is accepted."""
        cap = -floor(-NOISE_CAP / self.epsilon * (1 << GRID_BITS))
        return -cap, (1 << GRID_BITS) + cap

    def response_mean(self, mean: float) -> float:
        """Return the mean unchanged: the noise has mean 0."""
        return mean


def is_bits(mechanism: Mechanism) -> bool:
    """Tell whether all responses are 0 or 1."""
    return mechanism.unit == 1 and mechanism.limits == (0, 1)


def check_mechanism_epsilon(mechanism: Mechanism) -> None:
    """Check the epsilon of a frozen mechanism, and keep it as a float."""
    object.__setattr__(mechanism, "epsilon", check_epsilon(mechanism.epsilon, SpecError))
