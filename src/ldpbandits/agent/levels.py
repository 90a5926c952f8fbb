"""The levels of a menu, as numbers: how likely a 1 is by each of its epsilons."""

from collections.abc import Sequence
from dataclasses import dataclass

from ldpbandits.agent.kernels import Parameters
from ldpbandits.agent.mixed import likeliest
from ldpbandits.spec.menu import Menu


@dataclass(frozen=True, slots=True)
class Levels:
    """A bit of level l to a value v is 1 with chance low + slope v; `numbers` has low and slope of each in a row."""

    numbers: Parameters

    @classmethod
    def of(cls, menu: Menu) -> "Levels":
        """Return those of a menu of bits."""
        ends = ((c.mechanism.response_mean(0.0), c.mechanism.response_mean(1.0)) for c in menu.curators)
        return cls(tuple(number for low, high in ends for number in (low, high - low)))

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.numbers) // 2

    def mean(self, cells: Sequence[float]) -> float:
        """Return the likeliest mean of the values in [0, 1], given the bits and the ones of each level in a row."""
        return likeliest(cells, self.numbers, 0.0, 1.0)
