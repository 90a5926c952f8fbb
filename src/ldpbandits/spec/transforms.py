"""Transforms: the maps between a user's reward and a mechanism. Public data; both sides know them.

A transform declares the valid rewards, maps each to the *value* that the mechanism takes, and declares which rewards
are neighbours: those that no response tells apart. The map is a pure function of numbers: a device calls it, and the
lab compiles it.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import exp, inf, isfinite
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

from ldpbandits.checks import brief, is_number
from ldpbandits.errors import SpecError
from ldpbandits.spec.registry import Registry

Number = TypeVar("Number", float, Fraction)


@runtime_checkable
class Transform(Protocol):
    """The members that every transform has."""

    kind: ClassVar[str]
    """The name of the transform in JSON."""
    bounded: ClassVar[bool]
    """Values lie in [0, 1]; otherwise anywhere on the real line."""
    exact: ClassVar[bool]
    """The map takes Fractions: rewards come to it unrounded."""

    @property
    def of(self) -> str:
        """The quantity whose mean is estimated: 'reward', a function of it, or a probability, by its name."""

    @property
    def parameters(self) -> tuple[float, ...]:
        """The numbers that `apply` takes besides the reward."""

    @property
    def neighbours(self) -> float:
        """The largest distance of two rewards that the guarantee covers; infinite when it covers any two."""

    @property
    def promise(self) -> str:
        """The pairs of rewards that are neighbours, in words."""

    @property
    def ends(self) -> tuple[float, float]:
        """Two neighbours that are as hard to hide from each other as any."""

    @property
    def default_reward(self) -> float:
        """The reward that a missing answer counts as, unless an experiment declares another."""

    def refusal(self, reward: float) -> str | None:
        """Return the rule that a reward breaks, without the reward itself; None if it is valid."""

    def nearest(self, reward: float) -> float | None:
        """Return the nearest valid reward; None if there is none."""

    @staticmethod
    def apply(reward: float, parameters: tuple[float, ...]) -> float:
        """Map a valid reward to its value."""

    def reward(self, value: float) -> float:
        """Convert a mean value to a mean of the quantity that `of` names, in its units."""


TRANSFORMS: Registry[Transform] = Registry("transform", Transform)
"""Every transform that can be named in JSON."""


def sigmoid(x: float) -> float:
    """1 / (1 + e^-x), without overflow."""
    if x >= 0:
        return 1.0 / (1.0 + exp(-x))
    return exp(x) / (1.0 + exp(x))


@TRANSFORMS.register
@dataclass(frozen=True, slots=True)
class Range:
    """Rewards are declared to lie in [low, high] and are scaled to [0, 1].

    >>> stars = Range(1, 5)
    >>> stars.apply(4, stars.parameters)
    0.75
    >>> stars.refusal(6)
    'a reward must lie in the declared range [1.0, 5.0]'
    """

    low: float = 0.0
    high: float = 1.0

    kind: ClassVar[str] = "range"
    bounded: ClassVar[bool] = True
    exact: ClassVar[bool] = False
    of: ClassVar[str] = "reward"

    def __post_init__(self) -> None:
        interval = f"[{brief(self.low)}, {brief(self.high)}]"
        if not (is_number(self.low) and is_number(self.high) and float(self.low) < float(self.high)):
            raise SpecError(f"a range needs two finite numbers low < high, got {interval}")
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))
        if not is_number(self.high - self.low):
            raise SpecError(f"a range must be no wider than the largest float, got {interval}")

    @property
    def parameters(self) -> tuple[float, float]:
        return self.low, self.high - self.low

    @property
    def neighbours(self) -> float:
        return self.high - self.low

    @property
    def promise(self) -> str:
        return f"any two rewards in [{self.low}, {self.high}]"

    @property
    def ends(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def default_reward(self) -> float:
        """0, or the least reward where 0 is out of range."""
        return 0.0 if self.low <= 0 <= self.high else self.low

    def refusal(self, reward: float) -> str | None:
        rule = f"a reward must lie in the declared range [{self.low}, {self.high}]"
        return None if self.low <= reward <= self.high else rule

    def nearest(self, reward: float) -> float:
        return min(max(reward, self.low), self.high)

    @staticmethod
    def apply(reward: float, parameters: tuple[float, ...]) -> float:
        return (reward - parameters[0]) / parameters[1]

    def reward(self, value: float) -> float:
        return self.low + (self.high - self.low) * value


class _AnyFinite:
    """Members of transforms that take any finite reward, hide any two from each other, and have no way back."""

    __slots__ = ()

    bounded: ClassVar[bool] = True
    exact: ClassVar[bool] = False
    neighbours: ClassVar[float] = inf
    promise: ClassVar[str] = "any two finite rewards"
    default_reward: ClassVar[float] = 0.0
    """The same at every theta: a default that moved with theta would be below whatever theta is tried, and the theta
    that halves the users could not be found."""

    def refusal(self, reward: float) -> str | None:
        return None if isfinite(reward) else "a reward must be finite"

    def nearest(self, reward: float) -> float:
        """Return infinity itself: its sigmoid is 0 or 1, and it is on one side of every theta."""
        return reward

    def reward(self, value: float) -> float:
        """Return the mean of the quantity that `of` names: the mean of the reward does not follow from it."""
        return value


@TRANSFORMS.register
@dataclass(frozen=True, slots=True)
class Sigmoid(_AnyFinite):
    """Rewards may be any finite number r and are mapped to 1 / (1 + e^-r).

    The order of the arms' means survives when every arm has the same law of noise (paper, Lemma 4); with noise that
    differs between arms it may not.

    >>> Sigmoid.apply(0.0, ())
    0.5
    """

    kind: ClassVar[str] = "sigmoid"
    of: ClassVar[str] = "sigmoid(reward)"
    parameters: ClassVar[tuple[float, ...]] = ()
    ends: ClassVar[tuple[float, float]] = (-1000.0, 1000.0)
    """Mapped to 0 and 1, to the last bit of a double."""

    @staticmethod
    def apply(reward: float, _: tuple[float, ...]) -> float:
        return sigmoid(reward)


LARGEST_THETA = 1e300
"""Beyond it there might be no finite reward on the other side."""


@TRANSFORMS.register
@dataclass(frozen=True, slots=True)
class Threshold(_AnyFinite):
    """Rewards may be any finite number and are mapped to 1 if they are above theta, else to 0.

    The agent estimates P(reward > theta), and ranks arms by it. That is the order of their means when every arm has
    the same law of noise; with noise that differs between arms it may not be.

    >>> above = Threshold(0.9)
    >>> above.apply(0.9, above.parameters), above.apply(1.0, above.parameters)
    (0.0, 1.0)
    >>> above.of
    'P(reward > 0.9)'
    """

    theta: float

    kind: ClassVar[str] = "threshold"

    def __post_init__(self) -> None:
        if not is_number(self.theta) or abs(self.theta) > LARGEST_THETA:
            rule = f"a threshold needs a finite theta of size <= {LARGEST_THETA:g}"
            raise SpecError(f"{rule}, got {brief(self.theta)}")
        object.__setattr__(self, "theta", float(self.theta) + 0.0)  # -0.0 is 0

    @property
    def of(self) -> str:
        return f"P(reward > {self.shown})"

    @property
    def shown(self) -> str:
        """Theta as it is written in names."""
        return repr(self.theta).removesuffix(".0")

    @property
    def parameters(self) -> tuple[float]:
        return (self.theta,)

    @property
    def ends(self) -> tuple[float, float]:
        """Two rewards on either side: any other two there have the same responses."""
        away = max(1.0, abs(self.theta))
        return self.theta - away, self.theta + away

    @staticmethod
    def apply(reward: float, parameters: tuple[float, ...]) -> float:
        return 1.0 if reward > parameters[0] else 0.0


@TRANSFORMS.register
@dataclass(frozen=True, slots=True)
class RealLine:
    """Rewards may be any finite number and are not changed; only those within 1 of each other are neighbours."""

    kind: ClassVar[str] = "real-line"
    bounded: ClassVar[bool] = False
    exact: ClassVar[bool] = True
    of: ClassVar[str] = "reward"
    parameters: ClassVar[tuple[float, ...]] = ()
    neighbours: ClassVar[float] = 1.0
    promise: ClassVar[str] = (
        "any two finite rewards that differ by at most 1 (rewards further apart have no such promise)"
    )
    ends: ClassVar[tuple[float, float]] = (0.0, 1.0)
    default_reward: ClassVar[float] = 0.0

    def refusal(self, reward: float) -> str | None:
        return None if isfinite(reward) else "a reward must be finite, and a float must hold it"

    def nearest(self, reward: float) -> float | None:
        """The reward itself; nothing is nearest to infinity."""
        return reward if isfinite(reward) else None

    @staticmethod
    def apply(reward: Number, _: tuple[float, ...]) -> Number:
        return reward

    def reward(self, value: float) -> float:
        return value
