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

from ldpbandits.agent.estimates import estimate_arm
from ldpbandits.agent.missing import worst_case
from ldpbandits.agent.tally import ArmTally, LevelTally
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

    def worst(self, menu: Menu, more: float, share: float | None = None) -> tuple[float, float]:
        """Return the ends of the worst-case interval after so many more responses to all arms; out are as many.

        Of those it gets its share, unless another is named.
        """
        new = (self.share if share is None else share) * more
        grown = _grown(self.arm, 1 + new / self.arm.pulls, menu.unit)
        missing = self.missing + (new * self.missing / self.answered if self.answered else 0)
        known = estimate_arm(grown, menu, alpha=self.alpha)
        return worst_case(known, grown, menu, round(missing) + self.out)


def _grown(arm: ArmTally, times: float, unit: float) -> ArmTally:
    """Return an arm with so many times its responses, of the same mean in each cell."""
    return ArmTally(
        pulls=round(arm.pulls * times),
        total=round(arm.total * times / unit) * unit,
        cells=[LevelTally(round(cell.pulls * times), round(cell.total * times / unit) * unit) for cell in arm.cells],
    )


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
        return best.worst(menu, more, after(more)[0])[0]

    needed = 0.0
    for place, other in sorted(enumerate(others, 1), key=lambda placed: placed[1].worst(menu, 0)[1], reverse=True):

        def is_below(more: float, place: int = place, other: Prospect = other) -> bool:
            return other.worst(menu, more, after(more)[place])[1] < low(more)

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
