"""Noisy bisection: search the median reward in a public interval, by private bits of reward > theta.

Each step asks users for CTB's response behind Threshold(theta), theta in the middle of the interval. A response counts
+1 or -1. With p = P(reward > theta) the sum of n of them has mean n tanh(epsilon / 2) (2 p - 1) and a variance of at
most n. A step takes at most n_max = (3 / (0.3 tanh(epsilon / 2)))^2 responses.

- Once the sum leaves +-3 sqrt(n_max), the half of the interval in which the median lies is known. At p = 1/2 the sum
  ever does so within n_max responses with probability at most 2 P(|Z| > 3) = 0.54 %, Z normal, by reflection.
- If it is still inside after n_max responses, p is near 1/2: outside of [0.35, 0.65] the sum has left on average. Then
  theta halves the users well enough for a threshold, and the bisection is done.

The bisection also ends after MAX_STEPS steps: if many users have the same reward, no theta halves them. Then theta is
the end of the interval whose p is nearer to 1/2, which is the one that took more responses to decide.

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

STEP_DEVIATIONS = 3.0
"""Standard deviations, of the longest step, at which the sum decides a step."""

MIN_NOTICED_LEAN = 0.3
"""The smallest |2 p - 1| that a step of full length notices."""

MAX_STEPS = 20
"""Each step halves the interval, so that it shrinks to a millionth."""


@dataclass(frozen=True, slots=True)
class Bisection:
    """The state of the search; `update` returns the state after one more response.

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
    """Number of steps decided so far."""
    pulls: int = 0
    """Number of responses in this step."""
    lead: int = 0
    """Number of ones minus number of zeros in this step."""
    spent: int = 0
    """Number of responses in all steps."""
    low_pulls: int = 0
    """Number of responses that decided that `low` is too low; 0 for the end that the caller gave."""
    high_pulls: int = 0
    """Number of responses that decided that `high` is too high; 0 as above."""

    def __post_init__(self) -> None:
        """Check that low < high are in range, and epsilon."""
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
        return ceil((STEP_DEVIATIONS / (MIN_NOTICED_LEAN * tanh(self.epsilon / 2))) ** 2)

    @property
    def edge(self) -> float:
        """3 sqrt(n_max): a sum beyond it decides a step."""
        return STEP_DEVIATIONS**2 / (MIN_NOTICED_LEAN * tanh(self.epsilon / 2))

    @property
    def theta(self) -> float:
        """The threshold to ask next; once done, the threshold that was found."""
        if self.step < MAX_STEPS:
            return (self.low + self.high) / 2
        return self.low if self.low_pulls > self.high_pulls else self.high

    @property
    def is_halved(self) -> bool:
        """Whether a full step left theta undecided: about half of the rewards lie above it."""
        return self.pulls >= self.longest

    @property
    def done(self) -> bool:
        """Whether the search has ended."""
        return self.is_halved or self.step == MAX_STEPS

    @property
    def curator(self) -> CuratorSpec:
        """The curator to send to users: CTB behind the threshold at theta."""
        return CuratorSpec(Bernoulli(self.epsilon), Threshold(self.theta))

    def update(self, response: Response) -> "Bisection":
        """Count one response to `curator`."""
        if response not in (0.0, 1.0):
            raise ResponseError(f"a response of CTB is 0 or 1, got {brief(response)}")
        return self.count(1, int(response))

    def count(self, pulls: int, ones: int) -> "Bisection":
        """Count `pulls` responses to `curator`, then test the sum once; a search that is done does not change."""
        if not 0 <= ones <= pulls:
            raise ResponseError(f"{brief(ones)} ones are impossible among {brief(pulls)} responses")
        if self.done:
            return self
        lead, taken, spent = self.lead + 2 * ones - pulls, self.pulls + pulls, self.spent + pulls
        if lead > self.edge:
            return Bisection(self.theta, self.high, self.epsilon, self.step + 1, 0, 0, spent, taken, self.high_pulls)
        if lead < -self.edge:
            return Bisection(self.low, self.theta, self.epsilon, self.step + 1, 0, 0, spent, self.low_pulls, taken)
        return replace(self, pulls=taken, lead=lead, spent=spent)
