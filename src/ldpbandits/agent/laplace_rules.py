"""Rules for responses of CTL: IMED and KL-UCB++, each with three ways to deal with the noise.

| kinds                                               | number they count              | for rewards        |
|-----------------------------------------------------|--------------------------------|--------------------|
| imed-laplace, kl-ucb++-laplace                      | the responses                  | in [0, 1]          |
| imed-laplace-clip, kl-ucb++-laplace-clip            | clipped responses              | in [0, 1]          |
| imed-laplace-bit, kl-ucb++-laplace-bit  | 1 where a response exceeds 1/2 | that are 0 or 1    |

Each has the epsilon of the mechanism whose responses it sees. docs/rules.md says which to use when, and what is proved.
"""

from dataclasses import dataclass
from math import expm1
from typing import ClassVar

from ldpbandits.agent.bounded_argmax import COSTLY_INDEX_MIN_ARMS, Moves
from ldpbandits.agent.duels import Design
from ldpbandits.agent.kernels import Parameters, imed_index, kl_ucb_plus_index, mean_index, random_index
from ldpbandits.agent.laplace_kernels import (
    above_half,
    clipped,
    imed_clip_index,
    imed_laplace_index,
    kl_ucb_plus_clip_index,
    kl_ucb_plus_laplace_index,
)
from ldpbandits.agent.rules import RULES, Rule
from ldpbandits.checks import check_epsilon
from ldpbandits.errors import SpecError
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.mechanisms import Laplace

CLIP_BELOW = 1.0
"""Below this epsilon clipping pays: a response in [-1/epsilon, 1 + 1/epsilon] has at most the variance
(1 + 2/epsilon)^2 / 4, which is less than what the rate of all responses allows for, 1/4 + 2/epsilon^2."""


@dataclass(frozen=True, slots=True)
class _ForLaplace(Rule):
    """A rule for responses of CTL with this epsilon; the base of all rules here."""

    epsilon: float

    many = COSTLY_INDEX_MIN_ARMS

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon, SpecError))

    @property
    def parameters(self) -> Parameters:
        """The epsilon of the responses."""
        return (self.epsilon,)

    def refusal(self, curator: CuratorSpec | None) -> str | None:
        """Refuse all responses but those of CTL with the same epsilon."""
        if curator is not None and _is_laplace(curator) and curator.epsilon == self.epsilon:
            return None
        return f"is for responses of the mechanism laplace with epsilon = {self.epsilon:g} to values in [0, 1]"


@dataclass(frozen=True, slots=True)
class _Clipped(_ForLaplace):
    """A rule that counts clipped responses, which are bounded and of the same mean."""

    reading = staticmethod(clipped)

    @property
    def parameters(self) -> Parameters:
        """The mean excess at epsilon."""
        return (mean_excess(self.epsilon),)


@dataclass(frozen=True, slots=True)
class _Bits(_ForLaplace):
    """A rule that counts 1 for each response above 1/2, else 0."""

    reading = staticmethod(above_half)
    parameters = ()


def _is_laplace(curator: CuratorSpec) -> bool:
    """Tell whether responses are values in [0, 1] plus the noise of CTL."""
    # A subclass of Laplace may draw its noise otherwise, so the type must be exact.
    return curator.transform.bounded and type(curator.mechanism) is Laplace


def mean_excess(epsilon: float) -> float:
    """Return the mean excess over 1 of a response of CTL beyond 1: 1 / epsilon, as exact as the grid allows.

    On a grid of step s the excess is s times a geometric variable of mean 1 / (1 - e^(-epsilon s)). It is rounded to
    the grid, so that readings are on it: that moves their means by at most s / 2, as rounding rewards does.

    >>> mean_excess(2.0) * 2**20
    524289.0
    """
    return round(-1 / expm1(-epsilon * Laplace.unit)) * Laplace.unit


@RULES.register
@dataclass(frozen=True, slots=True)
class IMEDLaplace(_ForLaplace):
    """Pull the arm of smallest N I(best - mean) + log N, with I the rate of CTL's responses. For rewards in [0, 1].

    >>> IMEDLaplace(epsilon=1)
    IMEDLaplace(epsilon=1.0)
    """

    kind: ClassVar[str] = "imed-laplace"
    index = staticmethod(imed_laplace_index)
    moves = Moves.AGAINST_BEST


@RULES.register
@dataclass(frozen=True, slots=True)
class KLUCBPlusLaplace(_ForLaplace):
    """Pull the arm of largest mean + d, where N I(d) = f(t / (K N)) as in kl-ucb++. For rewards in [0, 1]."""

    kind: ClassVar[str] = "kl-ucb++-laplace"
    index = staticmethod(kl_ucb_plus_laplace_index)
    moves = Moves.WITH_T

    @classmethod
    def default_for(cls, curator: CuratorSpec) -> "KLUCBPlusLaplace | None":
        """Return the rule for CTL with an epsilon at which clipping does not pay."""
        return cls(curator.epsilon) if _is_laplace(curator) and curator.epsilon >= CLIP_BELOW else None


@RULES.register
@dataclass(frozen=True, slots=True)
class IMEDLaplaceClip(_Clipped):
    """IMED on clipped responses, rescaled to [0, 1]. For rewards in [0, 1]."""

    kind: ClassVar[str] = "imed-laplace-clip"
    index = staticmethod(imed_clip_index)
    moves = Moves.AGAINST_BEST


@RULES.register
@dataclass(frozen=True, slots=True)
class KLUCBPlusLaplaceClip(_Clipped):
    """KL-UCB++ on clipped responses, rescaled to [0, 1]. For rewards in [0, 1]."""

    kind: ClassVar[str] = "kl-ucb++-laplace-clip"
    index = staticmethod(kl_ucb_plus_clip_index)
    moves = Moves.WITH_T

    @classmethod
    def default_for(cls, curator: CuratorSpec) -> "KLUCBPlusLaplaceClip | None":
        """Return the rule for CTL with an epsilon at which clipping pays."""
        return cls(curator.epsilon) if _is_laplace(curator) and curator.epsilon < CLIP_BELOW else None


@RULES.register
@dataclass(frozen=True, slots=True)
class IMEDLaplaceBit(_Bits):
    """IMED on bits: whether a response exceeds 1/2. For rewards that are 0 or 1; other laws may change their order."""

    kind: ClassVar[str] = "imed-laplace-bit"
    index = staticmethod(imed_index)
    moves = Moves.AGAINST_BEST


@RULES.register
@dataclass(frozen=True, slots=True)
class KLUCBPlusLaplaceBit(_Bits):
    """KL-UCB++ on bits: whether a response exceeds 1/2. For rewards that are 0 or 1, as with IMED."""

    kind: ClassVar[str] = "kl-ucb++-laplace-bit"
    index = staticmethod(kl_ucb_plus_index)
    moves = Moves.WITH_T


@RULES.register
@dataclass(frozen=True, slots=True)
class DuelsLaplace(_Clipped):
    """Duels on clipped responses, rescaled to [0, 1]. For rewards in [0, 1]."""

    kind: ClassVar[str] = "duels-laplace"
    index = staticmethod(mean_index)
    design = Design.DUELS


@RULES.register
@dataclass(frozen=True, slots=True)
class EqualSharesLaplace(_Clipped):
    """Equal shares, with clipped responses for verdicts. For rewards in [0, 1]."""

    kind: ClassVar[str] = "equal-laplace"
    index = staticmethod(random_index)
    design = Design.EQUAL
