"""The limits that the owner of a device sets to an agent."""

from dataclasses import dataclass
from typing import Any

from ldpbandits.checks import brief, check_epsilon, is_number
from ldpbandits.errors import LimitError, ParameterError
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.transforms import TRANSFORMS, Threshold, Transform

DAY_S = 24 * 3600.0
MONTH_S = 30 * DAY_S

_UNSAID: Any = None
"""The default of required fields: `__post_init__` refuses it, with an error that shows the call to make."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The transform of rewards, the largest epsilon of a response, and a budget of epsilon over any `window` seconds.

    The owner declares the range of rewards: an agent that could choose it could choose one that some rewards are not
    in. `rewards` is the transform that an agent may ask for, or the class `Threshold` for any theta. On the real line,
    epsilon is promised only for rewards within 1 of each other: an owner who accepts that writes `RealLine()`.

    A device sends a response at a time that does not depend on the reward, unless `at_once` allows it to be sent when
    the reward comes. That reveals that it came, and when.

    >>> from ldpbandits import LaplaceCurator, Range
    >>> limits = Limits(rewards=Range(0, 1), epsilon=1, budget=10)
    >>> limits.check(LaplaceCurator(epsilon=2).spec)
    Traceback (most recent call last):
    ldpbandits.errors.LimitError: the agent asks for epsilon = 2 a response; the owner of this device allows 1
    >>> Limits(epsilon=1, budget=10)
    Traceback (most recent call last):
    ldpbandits.errors.ParameterError: limits say what rewards are, as in Limits(rewards=Range(0, 1), ...), got None
    """

    rewards: Transform | type[Threshold] = _UNSAID
    epsilon: float = _UNSAID
    budget: float = _UNSAID
    window: float = MONTH_S
    at_once: bool = False

    def __post_init__(self) -> None:
        """Check each limit: a transform, a valid epsilon, positive numbers."""
        if self.rewards is not Threshold and self.rewards not in TRANSFORMS:
            rule = "limits say what rewards are, as in Limits(rewards=Range(0, 1), ...)"
            raise ParameterError(f"{rule}, got {brief(self.rewards)}")
        check_epsilon(self.epsilon)
        for name in ("budget", "window"):
            value = getattr(self, name)
            if not is_number(value) or value <= 0:
                raise ParameterError(f"{name} must be finite and > 0, got {brief(value)}")
        if not isinstance(self.at_once, bool):
            raise ParameterError(f"at_once must be True or False, got {brief(self.at_once)}")

    def check(self, spec: CuratorSpec) -> None:
        """Refuse a curator that the owner does not allow, whatever the rest of the budget."""
        if spec.epsilon > self.epsilon:
            raise LimitError(
                f"the agent asks for epsilon = {spec.epsilon:g} a response; "
                f"the owner of this device allows {self.epsilon:g}"
            )
        if not self._allows(spec.transform):
            allowed = "Threshold of any theta" if isinstance(self.rewards, type) else brief(self.rewards)
            raise LimitError(
                f"the agent asks for rewards by {brief(spec.transform)}; the owner of this device allows {allowed}"
            )

    def _allows(self, transform: Transform) -> bool:
        if isinstance(self.rewards, type):
            return transform.kind == self.rewards.kind
        return TRANSFORMS.to_json(transform) == TRANSFORMS.to_json(self.rewards)

    def check_moment(self, report_after: float) -> None:
        """Refuse to send responses at once, unless the owner allows it by name."""
        if report_after == 0 and not self.at_once:
            raise LimitError(
                "the agent asks for responses at once, which reveals when a reward came; "
                "the owner of this device allows that only by Limits(at_once=True)"
            )


def in_words(seconds: float) -> str:
    """Return a time in the largest unit that it fills.

    >>> in_words(10), in_words(5400), in_words(86_400), in_words(30 * 86_400)
    ('10 s', '1.5 hours', '1 day', '30 days')
    """
    for unit, size in (("day", DAY_S), ("hour", 3600.0), ("minute", 60.0)):
        if seconds >= size:
            number = round(seconds / size, 2)
            return f"{number:g} {unit}{'' if number == 1 else 's'}"
    return f"{seconds:g} s"
