"""The privacy loss over outputs, for the picture: log P(y | one reward) / P(y | the other), cell by cell."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.cells import Counts
from ldpbandits.audit.guess import epsilon_lower

LOWEST_BIT = "position of the lowest bit of the response"


def middles(cuts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the middles of the bins between equidistant cuts, and of those beyond, drawn as wide."""
    width = cuts[1] - cuts[0]
    return np.append(cuts - width / 2, cuts[-1] + width / 2)


@dataclass(frozen=True, slots=True)
class Profile:
    """Counts of responses to two rewards over bins, or over single values, of the output or of a feature of it."""

    rewards: tuple[float, float]
    at: NDArray[np.float64]
    """The middle of each bin, or the value."""
    counts: Counts
    are_values: bool
    over: str = "response"
    """What the cells are cells of."""

    def losses(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the estimates, and for each cell alone a 95 % interval; rewards were chosen by a fair coin."""
        zero, one = self.counts
        estimate = np.log((one + 0.5) / (zero + 0.5))
        low = epsilon_lower(one, zero + one, 0.025)
        high = -epsilon_lower(zero, zero + one, 0.025)
        return estimate, low, high
