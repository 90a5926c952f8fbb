"""About how many more responses until the best arm is told apart from all others: a guess, not a promise.

The means and the shares of missing answers stay as they are, each arm gets its present share of the responses, and the
number of these is sought at which the worst-case intervals are disjoint. A rule that learns gives worse arms ever less:
then it takes longer.
"""

from dataclasses import dataclass
from functools import cache
from math import ceil, sqrt

from ldpbandits.agent.estimates import Estimate, estimate_arm
from ldpbandits.agent.levels import Levels
from ldpbandits.agent.missing import worst_case
from ldpbandits.agent.tally import ArmTally, LevelTally
from ldpbandits.spec.mechanisms import Mechanism
from ldpbandits.spec.menu import Menu

BEYOND = 10**9
"""A forecast of more responses than this says nothing."""

NEAR_ENOUGH = 1.01
"""The number is found up to this factor: it is a guess."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """An arm as it is, and how it goes on: `share` of all further responses are its own."""

    arm: ArmTally
    alpha: float
    answered: int
    """Its pulls that were handed out here; others, that were brought along, have no missing ones beside them."""
    missing: int
    out: int
    share: float

    def worst(self, menu: Menu, more: float) -> Estimate:
        """Return the worst-case estimate after so many more responses to all arms; out are as many as now."""
        new = self.share * more
        grown = _grown(self.arm, new, menu)
        missing = self.missing + (new * self.missing / self.answered if self.answered else 0)
        known = estimate_arm(grown, menu, alpha=self.alpha)
        return worst_case(known, grown, menu, round(missing) + self.out)


def _grown(arm: ArmTally, new: float, menu: Menu) -> ArmTally:
    """Return an arm with so many more responses, by the epsilons of those that it has, to values of the mean so far."""
    if len(menu) == 1:
        mean = min(max(menu.first.debiased_mean(arm.total / arm.pulls), 0.0), 1.0)
        return ArmTally(*_added(LevelTally(arm.pulls, arm.total), new, menu.first, mean))
    mean = Levels.of(menu).mean([number for cell in arm.cells for number in cell])
    cells = [
        _added(cell, new * cell.pulls / arm.pulls, curator.mechanism, mean)
        for cell, curator in zip(arm.cells, menu.curators, strict=True)
    ]
    return ArmTally(sum(cell.pulls for cell in cells), sum(cell.total for cell in cells), cells=cells)


def _added(cell: LevelTally, new: float, mechanism: Mechanism, mean: float) -> LevelTally:
    """Add so many responses to values of this mean, rounded to whole ones."""
    total = cell.total + round(new) * mechanism.response_mean(mean)
    return LevelTally(cell.pulls + round(new), round(total / mechanism.unit) * mechanism.unit)


def more_responses(best: Prospect, others: list[Prospect], menu: Menu) -> int | None:
    """Return after how many more responses in all the best arm's interval lies above all others; None: not in sight.

    Every arm must have a response. 0 means that it lies above them now.
    """

    @cache
    def low(more: float) -> float:
        return best.worst(menu, more).low

    needed = 0.0
    for other in sorted(others, key=lambda other: other.worst(menu, 0).high, reverse=True):

        def is_below(more: float, other: Prospect = other) -> bool:
            return other.worst(menu, more).high < low(more)

        if not is_below(needed):
            if not is_below(BEYOND):
                return None
            enough = float(BEYOND)
            needed = max(needed, 1.0)
            while enough > needed * NEAR_ENOUGH:
                middle = sqrt(enough * needed)
                needed, enough = (needed, middle) if is_below(middle) else (middle, enough)
            needed = enough
    return ceil(needed)
