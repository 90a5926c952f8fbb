"""Sums of responses, for the checks of mean and variance."""

from dataclasses import dataclass

LARGEST = 1e100
"""No curator that the audit knows responds with as much; squares of less do not overflow."""


@dataclass(frozen=True, slots=True)
class Moments:
    """How many responses there are to a reward, their sum and their sum of squares.

    Both sums are of responses minus `origin`, which is near the mean: squares of large responses would leave no digits
    for the noise.
    """

    value: float
    """The reward as the mechanism takes it: in [0, 1], or on the real line."""
    count: int
    total: float
    squares: float
    origin: float = 0.0

    @property
    def mean(self) -> float:
        """The mean of all responses."""
        return self.origin + self.total / self.count

    @property
    def variance(self) -> float:
        """The variance of the responses about their mean."""
        return self.squares / self.count - (self.total / self.count) ** 2
