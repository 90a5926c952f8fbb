"""How an agent reads responses that are not all of one kind.

Responses of an arm are counted in *cells*, each the number and the sum of the responses of one kind. A reading says in
which cell a response belongs, and which mean the cells speak of. Without a reading there is one cell, and the mean is
that of the responses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ldpbandits.agent.kernels import Parameters
from ldpbandits.agent.mixed import likeliest
from ldpbandits.spec.menu import Menu
from ldpbandits.types import Response


class Reading(Protocol):
    """What every reading has. Cells are given as a row: pulls and total of the first, of the second, and so on."""

    @property
    def cells(self) -> int:
        """How many kinds of responses there are."""

    def cell(self, response: Response | float, level: int) -> int:
        """Return the cell of a response, which was drawn at this level of the menu."""

    def mean(self, cells: Sequence[float]) -> float:
        """Return the mean that the cells speak of, when there is a response in one of them."""


@dataclass(frozen=True, slots=True)
class ByEpsilon:
    """A cell for each epsilon of a menu; the mean is the likeliest mean of the values in [0, 1]."""

    levels: Parameters
    """As `mixed.py` takes them."""

    @classmethod
    def of(cls, menu: Menu) -> "ByEpsilon":
        """Return the reading of the responses to a menu."""
        ends = ((c.mechanism.response_mean(0.0), c.mechanism.response_mean(1.0)) for c in menu.curators)
        return cls(tuple(number for low, high in ends for number in (low, high - low)))

    @property
    def cells(self) -> int:
        """One an epsilon."""
        return len(self.levels) // 2

    def cell(self, response: Response | float, level: int) -> int:  # noqa: ARG002 - as every reading
        """Return the level."""
        return level

    def mean(self, cells: Sequence[float]) -> float:
        """Return the likeliest mean."""
        return likeliest(cells, self.levels, 0.0, 1.0)
