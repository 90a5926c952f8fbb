"""Forecast: about how many more responses it takes until the verdict. A guess, not a promise.

The forecast assumes that means and shares of missing answers stay as they are, and that each arm keeps its present
share of the responses. A rule that learns gives worse arms ever less, which takes longer: then the shares are those of
its `ExpectedAllocation`. Where the responses that a rule counts have no test of a difference, `more_responses` searches
the number at which the worst-case intervals are disjoint.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, log, sqrt
from typing import TypeAlias

from ldpbandits.agent.bound_rule import BoundRule
from ldpbandits.agent.inference.differences import Pair, Scale
from ldpbandits.agent.inference.estimates import Estimate, estimate_arm
from ldpbandits.agent.inference.expected_allocation import ExpectedAllocation, is_foreseeable
from ldpbandits.agent.inference.mechanisms import inference_for
from ldpbandits.agent.inference.missing import worst_case
from ldpbandits.agent.inference.verdicts import Criteria, log_evidence
from ldpbandits.agent.levels import Levels
from ldpbandits.agent.tally import ArmTally, LevelTally
from ldpbandits.spec.mechanisms import Mechanism
from ldpbandits.spec.menu import Menu

MAX_FORECAST_RESPONSES = 10**9
"""A forecast beyond this number of responses is reported as None."""

FORECAST_TOLERANCE_FACTOR = 1.01
"""The search stops when its bracket is this narrow: the result is a guess anyway."""

VERDICT_TOLERANCE_FACTOR = 1.001
"""The same for the responses until a verdict, which take microseconds."""

Shares: TypeAlias = Callable[[float], Sequence[float]]
"""shares(more): the shares of the best arm and of the others, in this order, in the next `more` responses."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """An arm's tally now, and `share`, its part of all further responses."""

    arm: ArmTally
    alpha: float
    answered: int
    """Its answered pulls that were assigned here; responses of a warm start have no missing answers."""
    missing: float
    out: int
    share: float

    def worst(self, menu: Menu, more: float, share: float | None = None) -> Estimate:
        """Return the worst-case estimate after `more` responses of all arms; the pulls that are out stay as many.

        The arm gets `share` of them, by default its own.
        """
        new = (self.share if share is None else share) * more
        grown = _grown(self.arm, new, menu)
        missing = self.missing + (new * self.missing / self.answered if self.answered else 0)
        known = estimate_arm(grown, menu, alpha=self.alpha)
        return worst_case(known, grown, menu, round(missing) + self.out)


def _grown(arm: ArmTally, new: float, menu: Menu) -> ArmTally:
    """Return the tally with `new` responses more, of the same mix of epsilons, to values of the mean so far."""
    if len(menu) == 1:
        mean = min(max(inference_for(menu.first).debiased_mean(arm.total / arm.pulls), 0.0), 1.0)
        return ArmTally(*_added(LevelTally(arm.pulls, arm.total), new, menu.first, mean))
    mean = Levels.of(menu).mean([number for cell in arm.cells for number in cell])
    cells = [
        _added(cell, new * cell.pulls / arm.pulls, curator.mechanism, mean)
        for cell, curator in zip(arm.cells, menu.curators, strict=True)
    ]
    return ArmTally(sum(cell.pulls for cell in cells), sum(cell.total for cell in cells), cells=cells)


def _added(cell: LevelTally, new: float, mechanism: Mechanism, mean: float) -> LevelTally:
    """Add `new` responses, rounded to a whole number, to values of this mean."""
    total = cell.total + round(new) * mechanism.response_mean(mean)
    return LevelTally(cell.pulls + round(new), round(total / mechanism.unit) * mechanism.unit)


def more_responses(
    best: Prospect,
    others: list[Prospect],
    menu: Menu,
    shares: Shares | None = None,
    beyond: float = MAX_FORECAST_RESPONSES,
) -> int | None:
    """Return after how many more responses in all the best arm's interval lies above all others.

    Every arm must have a response. 0: it lies above them now. None: it does not within `beyond` responses. `shares`
    says where further responses go; without it each arm keeps its own share.
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
            while enough > needed * FORECAST_TOLERANCE_FACTOR:
                middle = sqrt(enough * needed)
                needed, enough = (needed, middle) if is_below(middle) else (middle, enough)
            needed = enough
    return ceil(needed)


def more_by_rule(
    best: Prospect, others: list[Prospect], menu: Menu, rule: BoundRule, *, minimum_share: float = 0.0
) -> int | None:
    """Return `more_responses` for pulls that go as the rule sends them; None also where the rule declares too little.

    `others` are all other arms in use.
    """
    if not is_foreseeable(rule):
        return None
    allocation = ExpectedAllocation.of(rule, [best.arm, *(other.arm for other in others)], minimum_share)
    return more_responses(best, others, menu, allocation.shares)


Growth: TypeAlias = Callable[[float], Sequence[tuple[float, float]]]
"""growth(more): by which factors the responses of b and of a in each pair have grown after `more` responses in all."""


def more_until_verdict(
    pairs: Sequence[Pair], criteria: Criteria, needed: float, growth: Growth, beyond: float = MAX_FORECAST_RESPONSES
) -> int | None:
    """Return after how many more responses the arm b of these pairs is declared; None: not within `beyond` of them."""
    limit = log(needed)

    def is_decided(more: float) -> bool:
        grown = (pair.grown(*factors) for pair, factors in zip(pairs, growth(more), strict=True))
        return all(log_evidence(pair, criteria, criteria.forged) >= limit for pair in grown)

    if any(pair.gain <= 0 for pair in pairs) or not is_decided(beyond):
        return None
    least, most = 1.0, float(beyond)
    while most > least * VERDICT_TOLERANCE_FACTOR:
        middle = sqrt(least * most)
        least, most = (least, middle) if is_decided(middle) else (middle, most)
    return ceil(most)


def responses_until_verdict(scale: Scale, values: tuple[float, float], criteria: Criteria) -> int | None:
    """Return about how many responses duels take until the verdict, from the expected tallies.

    `values` are the mean values of the best arm's rivals, all alike, and of the best arm. Each rival gets its share of
    the duels with the best arm. None: more than MAX_FORECAST_RESPONSES.

    >>> responses_until_verdict((0.2689414213699951, 0.4621171572600098), (0.3, 0.6), Criteria(arms=2))
    740
    """
    means = [low + slope * value for value in reversed(values) for low, slope in [scale]]

    def is_decided(responses: float) -> bool:
        each = responses / (2 * (criteria.arms - 1))
        pair = Pair((each, each * means[0], each, each * means[1]), scale, is_fair=True)
        return log_evidence(pair, criteria) >= log(criteria.needed(0))

    least, most = 2.0 * criteria.arms, float(MAX_FORECAST_RESPONSES)
    if not is_decided(most):
        return None
    while most > least * VERDICT_TOLERANCE_FACTOR:
        middle = sqrt(least * most)
        least, most = (least, middle) if is_decided(middle) else (middle, most)
    return ceil(most)
