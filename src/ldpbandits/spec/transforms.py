"""Transforms: what stands between a user's reward and a mechanism. Public data; both sides know them.

A transform says which rewards can be taken, maps each to the *value* that the mechanism takes, and says which rewards
are neighbours: those that no response tells apart. The map is a plain function of numbers: a device calls it, and the
lab compiles it.
"""

import re
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
        """Which pairs of rewards are neighbours, in words."""

    @property
    def ends(self) -> tuple[float, float]:
        """Two neighbours that are as hard to hide from each other as any."""

    @property
    def default_reward(self) -> float:
        """The reward that a missing answer counts as, unless an experiment declares another."""

    def refusal(self, reward: float) -> str | None:
        """Return the rule that a reward breaks, without the reward itself; None if it is valid."""

    def nearest(self, reward: float) -> float | None:
        """Return the nearest reward that can be taken; None if there is no such thing."""

    @staticmethod
    def apply(reward: float, parameters: tuple[float, ...]) -> float:
        """Map a reward that can be taken to its value."""

    def reward(self, value: float) -> float:
        """Return a mean value as a mean of what `of` says, in its units."""


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
        """Check that the range is finite and not empty."""
        interval = f"[{brief(self.low)}, {brief(self.high)}]"
        if not (is_number(self.low) and is_number(self.high) and float(self.low) < float(self.high)):
            raise SpecError(f"a range needs two finite numbers low < high, got {interval}")
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))
        if not is_number(self.high - self.low):
            raise SpecError(f"a range must be no wider than the largest float, got {interval}")

    @property
    def parameters(self) -> tuple[float, float]:
        """The parameters (low, width) of `apply`."""
        return self.low, self.high - self.low

    @property
    def neighbours(self) -> float:
        """All rewards in the range are neighbours."""
        return self.high - self.low

    @property
    def promise(self) -> str:
        """Which pairs of rewards are neighbours, in words."""
        return f"any two rewards in [{self.low}, {self.high}]"

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the range."""
        return self.low, self.high

    @property
    def default_reward(self) -> float:
        """0, or the least reward where 0 is out of range."""
        return 0.0 if self.low <= 0 <= self.high else self.low

    def refusal(self, reward: float) -> str | None:
        """Refuse what is out of range."""
        return None if self.low <= reward <= self.high else f"a reward must lie in the declared range {self._interval}"

    def nearest(self, reward: float) -> float:
        """Return the nearest reward in range."""
        return min(max(reward, self.low), self.high)

    @staticmethod
    def apply(reward: float, parameters: tuple[float, ...]) -> float:
        """(reward - low) / (high - low)."""
        return (reward - parameters[0]) / parameters[1]

    def reward(self, value: float) -> float:
        """Low + (high - low) value."""
        return self.low + (self.high - self.low) * value

    @property
    def _interval(self) -> str:
        return f"[{self.low}, {self.high}]"


@TRANSFORMS.register
@dataclass(frozen=True, slots=True)
class Sigmoid:
    """Rewards may be any finite number r and are mapped to 1 / (1 + e^-r).

    The order of the arms' means survives when every arm has the same law of noise (paper, Lemma 4); with noise that
    differs between arms it may not.

    >>> Sigmoid.apply(0.0, ())
    0.5
    """

    kind: ClassVar[str] = "sigmoid"
    bounded: ClassVar[bool] = True
    exact: ClassVar[bool] = False
    of: ClassVar[str] = "sigmoid(reward)"
    parameters: ClassVar[tuple[float, ...]] = ()
    neighbours: ClassVar[float] = inf
    promise: ClassVar[str] = "any two finite rewards"
    ends: ClassVar[tuple[float, float]] = (-1000.0, 1000.0)
    """Mapped to 0 and 1, to the last bit of a double."""
    default_reward: ClassVar[float] = 0.0

    def refusal(self, reward: float) -> str | None:
        """Refuse rewards that are not finite."""
        return None if isfinite(reward) else "a reward must be finite"

    def nearest(self, reward: float) -> float:
        """Infinity itself: its sigmoid is 0 or 1."""
        return reward

    @staticmethod
    def apply(reward: float, _: tuple[float, ...]) -> float:
        """1 / (1 + e^-reward)."""
        return sigmoid(reward)

    def reward(self, value: float) -> float:
        """Return the mean of sigmoid(reward) itself: there is no way back to the mean of the reward."""
        return value


LARGEST_THETA = 1e300
"""Beyond it there might be no finite reward on the other side."""


@TRANSFORMS.register
@dataclass(frozen=True, slots=True)
class Threshold:
    """Rewards may be any finite number and are mapped to 1 if they are above theta, else to 0.

    What is estimated is P(reward > theta), and by it arms are ranked. That is the order of their means when every arm
    has the same law of noise; with noise that differs between arms it may not be.

    >>> above = Threshold(0.9)
    >>> above.apply(0.9, above.parameters), above.apply(1.0, above.parameters)
    (0.0, 1.0)
    >>> above.of
    'P(reward > 0.9)'
    """

    theta: float

    kind: ClassVar[str] = "threshold"
    bounded: ClassVar[bool] = True
    exact: ClassVar[bool] = False
    neighbours: ClassVar[float] = inf
    promise: ClassVar[str] = "any two finite rewards"
    default_reward: ClassVar[float] = 0.0
    """Silence is a reward of 0 at every theta. A default that moved with theta would be below whatever theta is tried,
    and the theta that halves the users could not be found."""

    def __post_init__(self) -> None:
        """Check that theta is in range."""
        if not is_number(self.theta) or abs(self.theta) > LARGEST_THETA:
            rule = f"a threshold needs a finite theta of size <= {LARGEST_THETA:g}"
            raise SpecError(f"{rule}, got {brief(self.theta)}")
        object.__setattr__(self, "theta", float(self.theta) + 0.0)  # -0.0 is 0

    @property
    def of(self) -> str:
        """The chance that is estimated."""
        return f"P(reward > {self.shown})"

    @property
    def shown(self) -> str:
        """Theta as it is written in names."""
        return repr(self.theta).removesuffix(".0")

    @property
    def parameters(self) -> tuple[float]:
        """The one parameter of `apply`: theta."""
        return (self.theta,)

    @property
    def ends(self) -> tuple[float, float]:
        """Two rewards on either side: any other two there have the same responses."""
        away = max(1.0, abs(self.theta))
        return self.theta - away, self.theta + away

    def refusal(self, reward: float) -> str | None:
        """Refuse rewards that are not finite."""
        return None if isfinite(reward) else "a reward must be finite"

    def nearest(self, reward: float) -> float:
        """Infinity itself: it is on one side of theta."""
        return reward

    @staticmethod
    def apply(reward: float, parameters: tuple[float, ...]) -> float:
        """1 if reward > theta, else 0."""
        return 1.0 if reward > parameters[0] else 0.0

    def reward(self, value: float) -> float:
        """Return P(reward > theta) itself: there is no way back to the mean of the reward."""
        return value


def split_threshold(name: str) -> tuple[str, Threshold | None]:
    """Split what is named behind a threshold into the name and the threshold; any other name has none.

    >>> split_threshold("ctb-t(0.9)")
    ('ctb-t', Threshold(theta=0.9))
    >>> split_threshold("ctb-s")
    ('ctb-s', None)
    """
    if parts := re.fullmatch(r"(.*t)\(([^()]*)\)", name):
        try:
            return parts[1], Threshold(float(parts[2]))
        except (ValueError, SpecError):  # no number, or none that can be a theta: then it is no such name
            pass
    return name, None


@TRANSFORMS.register
@dataclass(frozen=True, slots=True)
class RealLine:
    """Rewards may be any finite number and are taken as they are; only those within 1 of each other are neighbours."""

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
        """Refuse rewards that are not finite."""
        return None if isfinite(reward) else "a reward must be finite, and a float must hold it"

    def nearest(self, reward: float) -> float | None:
        """The reward itself; nothing is nearest to infinity."""
        return reward if isfinite(reward) else None

    @staticmethod
    def apply(reward: Number, _: tuple[float, ...]) -> Number:
        """Return the reward as it is."""
        return reward

    def reward(self, value: float) -> float:
        """Return the value as it is."""
        return value
