"""Upper bounds on regret by the name of the algorithm: the theorem for any bandit, at any horizon."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ldpbandits.theory import bounds

Value = Callable[[Sequence[float], float, float], float]
"""Called with (gaps, epsilon, horizon)."""


@dataclass(frozen=True)
class UpperBound:
    """A theorem: its bound on the regret, and theory's factor, the ratio of its leading term to that without privacy.

    The factor is a ratio of two upper bounds: it bounds nothing itself.
    """

    title: str
    value: Value
    factor: Callable[[float], float]

    def at(self, gaps: Sequence[float], epsilon: float | None, horizon: float) -> float:
        """Return the bound for these gaps; epsilon is None where there is no privacy."""
        return self.value(gaps, 0.0 if epsilon is None else epsilon, horizon)


UPPER_BOUNDS = {
    "ucb1": UpperBound("UCB1", lambda gaps, _, t: bounds.ucb1_bound(gaps, t), lambda _: 1.0),
    # UCB1 behind the sigmoid is Corollary 2 without the factor of privacy.
    "ucb1-s": UpperBound(
        "UCB1, sigmoid", lambda gaps, _, t: bounds.ucb1_bound(gaps, t) / bounds.JENSEN**2, lambda _: 1.0
    ),
    "theorem-2": UpperBound("Theorem 2", bounds.theorem_2, bounds.privacy_factor_l),
    "theorem-3": UpperBound("Theorem 3", bounds.theorem_3, bounds.privacy_factor_b),
    "corollary-1": UpperBound("Corollary 1", bounds.corollary_1, bounds.privacy_factor_l),
    "corollary-2": UpperBound("Corollary 2", bounds.corollary_2, bounds.privacy_factor_b),
}
