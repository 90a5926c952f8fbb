"""Where to put a threshold: a noisy bisection of a public interval, from private bits of reward > theta.

Each step asks users for CTB's response behind Threshold(theta), theta in the middle of the interval. A response counts
+1 or -1. With p = P(reward > theta) the sum of n of them has mean n tanh(epsilon / 2) (2 p - 1) and a variance of at
most n. A step takes at most n_max = (3 / (0.3 tanh(epsilon / 2)))^2 responses.

- Once the sum leaves +-3 sqrt(n_max), the half of the interval in which the median lies is known. At p = 1/2 the sum
  ever does so within n_max responses with probability at most 2 P(|Z| > 3) = 0.54 %, Z normal, by reflection.
- If it is still inside after n_max responses, p is near 1/2: outside of [0.35, 0.65] the sum has left on average. Then
  theta halves the users well enough for a threshold, and the bisection is done.

It ends after MOST_STEPS steps too: rewards that are one number for many users have no theta that halves them. Then
theta is the end of the interval whose p is nearer to 1/2, which is the one that took more responses to decide.

Every user who responds spends epsilon once, as in the experiment itself.
"""

from dataclasses import dataclass, replace
from math import ceil, tanh

from ldpbandits.checks import brief, check_epsilon, is_number
from ldpbandits.errors import ParameterError, ResponseError
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.mechanisms import Bernoulli
from ldpbandits.spec.transforms import LARGEST_THETA, Threshold
from ldpbandits.types import Response

DEVIATIONS = 3.0
"""So many standard deviations, at most, away from 0 the sum decides a step."""

LEAN = 0.3
"""|2 p - 1| that a step of full length just notices."""

MOST_STEPS = 20
"""The interval shrinks to a millionth at the least."""


@dataclass(frozen=True, slots=True)
class Bisection:
    """How far the search has come; `update` returns how far it is after one more response.

    >>> search = Bisection(-100, 100, epsilon=2)
    >>> while not search.done:  # every user's reward is 30: a median without noise
    ...     search = search.update(Response(1.0 if search.theta < 30 else 0.0))
    >>> round(search.theta, 3), search.step, search.spent
    (30.0, 20, 800)
    """

    low: float
    high: float
    epsilon: float
    step: int = 0
    """Steps decided."""
    pulls: int = 0
    """Responses in this step."""
    lead: int = 0
    """Ones among them, minus zeros."""
    spent: int = 0
    """Responses in all."""
    low_pulls: int = 0
    """Responses that it took to decide that `low` is too low; 0 at the start, where nobody was asked."""
    high_pulls: int = 0
    """The same of `high`."""

    def __post_init__(self) -> None:
        """Check the interval and epsilon."""
        fits = all(is_number(end) and abs(end) <= LARGEST_THETA / 2 for end in (self.low, self.high))
        if not fits or not self.low < self.high:
            rule = f"a bisection needs two numbers low < high of size <= {LARGEST_THETA / 2:g}"
            raise ParameterError(f"{rule}, got [{brief(self.low)}, {brief(self.high)}]")
        check_epsilon(self.epsilon)
        for name in ("low", "high", "epsilon"):
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def longest(self) -> int:
        """n_max: the most responses that a step takes."""
        return ceil((DEVIATIONS / (LEAN * tanh(self.epsilon / 2))) ** 2)

    @property
    def edge(self) -> float:
        """3 sqrt(n_max): a sum beyond it decides a step."""
        return DEVIATIONS**2 / (LEAN * tanh(self.epsilon / 2))

    @property
    def theta(self) -> float:
        """Where to ask next; once it is done, where to put the threshold."""
        if self.step < MOST_STEPS:
            return (self.low + self.high) / 2
        return self.low if self.low_pulls > self.high_pulls else self.high

    @property
    def is_halved(self) -> bool:
        """Whether theta was found undecided: about as many rewards lie above as not."""
        return self.pulls >= self.longest

    @property
    def done(self) -> bool:
        """Whether there is nothing more to ask."""
        return self.is_halved or self.step == MOST_STEPS

    @property
    def curator(self) -> CuratorSpec:
        """What to ask of users: CTB behind the threshold at theta."""
        return CuratorSpec(Bernoulli(self.epsilon), Threshold(self.theta))

    def update(self, response: Response) -> "Bisection":
        """Count one response to `curator`."""
        if response not in (0.0, 1.0):
            raise ResponseError(f"a response of CTB is 0 or 1, got {brief(response)}")
        return self.count(1, int(response))

    def count(self, pulls: int, ones: int) -> "Bisection":
        """Count so many responses to `curator` at once, and only then look at the sum; once done, nothing changes."""
        if not 0 <= ones <= pulls:
            raise ResponseError(f"of {brief(pulls)} responses there cannot be {brief(ones)} ones")
        if self.done:
            return self
        lead, taken, spent = self.lead + 2 * ones - pulls, self.pulls + pulls, self.spent + pulls
        if lead > self.edge:
            return Bisection(self.theta, self.high, self.epsilon, self.step + 1, 0, 0, spent, taken, self.high_pulls)
        if lead < -self.edge:
            return Bisection(self.low, self.theta, self.epsilon, self.step + 1, 0, 0, spent, self.low_pulls, taken)
        return replace(self, pulls=taken, lead=lead, spent=spent)
