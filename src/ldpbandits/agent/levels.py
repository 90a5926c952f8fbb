"""The levels of a menu as numbers: the probability of a 1 under each of its epsilons."""

from collections.abc import Sequence
from dataclasses import dataclass

from ldpbandits.agent.kernels import Parameters
from ldpbandits.agent.mixed import likeliest
from ldpbandits.spec.menu import Menu


@dataclass(frozen=True, slots=True)
class Levels:
    """A bit of level l for a value v is 1 with probability low + slope v; `numbers` lists low, slope of each level."""

    numbers: Parameters

    @classmethod
    def of(cls, menu: Menu) -> "Levels":
        """Return the levels of a menu whose responses are bits."""
        ends = ((c.mechanism.response_mean(0.0), c.mechanism.response_mean(1.0)) for c in menu.curators)
        return cls(tuple(number for low, high in ends for number in (low, high - low)))

    @property
    def count(self) -> int:
        """Number of levels of the menu."""
        return len(self.numbers) // 2

    def mean(self, cells: Sequence[float]) -> float:
        """Return the maximum-likelihood mean in [0, 1]; `cells` lists the bits and the ones of each level."""
        return likeliest(cells, self.numbers, 0.0, 1.0)
