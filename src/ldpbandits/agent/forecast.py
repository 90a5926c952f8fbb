"""About how many more responses until the best arm is told apart from all others: a guess, not a promise.

The means and the shares of missing answers stay as they are, each arm gets its present share of the responses, and the
number of these is sought at which the worst-case intervals are disjoint. A rule that learns gives worse arms ever less:
then it takes longer. Where the rule is known, its `Course` says what each arm gets.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, sqrt
from typing import TypeAlias

from ldpbandits.agent.course import Course, is_foreseeable
from ldpbandits.agent.estimates import Estimate, estimate_arm
from ldpbandits.agent.fit import Fitted
from ldpbandits.agent.levels import Levels
from ldpbandits.agent.missing import worst_case
from ldpbandits.agent.tally import ArmTally, LevelTally
from ldpbandits.spec.mechanisms import Mechanism
from ldpbandits.spec.menu import Menu

BEYOND = 10**9
"""A forecast of more responses than this says nothing."""

NEAR_ENOUGH = 1.01
"""The number is found up to this factor: it is a guess."""

Shares: TypeAlias = Callable[[float], Sequence[float]]
"""Which parts of so many further responses the best arm and the others get, in this order."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """An arm as it is, and how it goes on: `share` of all further responses are its own."""

    arm: ArmTally
    alpha: float
    answered: int
    """Its pulls that were handed out here; others, that were brought along, have no missing ones beside them."""
    missing: float
    out: int
    share: float

    def worst(self, menu: Menu, more: float, share: float | None = None) -> Estimate:
        """Return the worst-case estimate after so many more responses to all arms; out are as many as now.

        Of those it gets its share, unless another is named.
        """
        new = (self.share if share is None else share) * more
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


def more_responses(
    best: Prospect, others: list[Prospect], menu: Menu, shares: Shares | None = None, beyond: float = BEYOND
) -> int | None:
    """Return after how many more responses in all the best arm's interval lies above all others; None: not in sight.

    Every arm must have a response. 0 means that it lies above them now. `shares` says where further responses go; else
    each arm keeps its own share of them.
    """
    kept = [best.share, *(other.share for other in others)]

    @cache
    def after(more: float) -> Sequence[float]:
        return kept if shares is None or more == 0 else shares(more)

    @cache
    def low(more: float) -> float:
        return best.worst(menu, more, after(more)[0]).low

    needed = 0.0
    for place, other in sorted(enumerate(others, 1), key=lambda placed: placed[1].worst(menu, 0).high, reverse=True):

        def is_below(more: float, place: int = place, other: Prospect = other) -> bool:
            return other.worst(menu, more, after(more)[place]).high < low(more)

        if not is_below(needed):
            if not is_below(beyond):
                return None
            enough = float(beyond)
            needed = max(needed, 1.0)
            while enough > needed * NEAR_ENOUGH:
                middle = sqrt(enough * needed)
                needed, enough = (needed, middle) if is_below(middle) else (middle, enough)
            needed = enough
    return ceil(needed)


def more_by_rule(
    best: Prospect, others: list[Prospect], menu: Menu, rule: Fitted, *, minimum_share: float = 0.0
) -> int | None:
    """Return the same where pulls go as the rule sends them; None also where that is not known.

    The others are all other arms in use.
    """
    if not is_foreseeable(rule):
        return None
    course = Course.of(rule, [best.arm, *(other.arm for other in others)], minimum_share)
    return more_responses(best, others, menu, course.shares)
