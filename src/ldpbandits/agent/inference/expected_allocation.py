"""The expected allocation of a rule: how many pulls it gives each arm if every arm keeps its mean. For forecasts.

A rule pulls the arm of largest index, and the index of an arm falls with its pulls. If every arm's responses keep their
mean, all indexes are equal after t pulls, except those of arms that began with more pulls than that. This equation
gives the pulls of each arm at each t. Trials agree with it in the median; see `benchmarks/plan.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from math import log
from random import Random
from typing import NamedTuple

from ldpbandits.agent.bound_rule import BoundRule
from ldpbandits.agent.kernels import ArmView, kl_ucb_index, thompson_index
from ldpbandits.agent.tally import ArmTally

PULLS_TOLERANCE = 1e-3
"""Relative error of the number of pulls."""

_UNUSED_RANDOM = Random(0)  # noqa: S311 - for the signature: the indexes used here draw nothing


class Shape(NamedTuple):
    """The numbers that an arm's index depends on, besides its pulls and t."""

    mean: float
    """The mean of its responses, as the rule reads them."""
    cells: tuple[float, ...] = ()
    """The pulls and the total of each level, divided by the arm's pulls; empty where there is one level."""


@dataclass(frozen=True)
class ExpectedAllocation:
    """The pulls that a rule gives some arms from now on."""

    rule: BoundRule
    shapes: tuple[Shape, ...]
    begin: tuple[float, ...]
    """The pulls of each arm so far."""
    minimum_share: float = 0.0
    """Each arm gets at least this share of the further pulls, whatever the rule says."""

    @classmethod
    def of(cls, rule: BoundRule, arms: Sequence[ArmTally], minimum_share: float = 0.0) -> "ExpectedAllocation":
        """Return the expected allocation that starts from these tallies; each must have a response."""
        shapes = []
        for arm in arms:
            cells = [] if rule.levels is None else [*chain.from_iterable(arm.cells)]
            mean = arm.counted / arm.pulls if rule.levels is None else rule.levels.mean(cells)
            shapes.append(Shape(mean, tuple(cell / arm.pulls for cell in cells)))
        return cls(rule, tuple(shapes), tuple(float(arm.pulls) for arm in arms), minimum_share)

    def shares(self, more: float) -> list[float]:
        """Return the share of each arm in the next `more` pulls."""
        pulls = self.pulls_at(sum(self.begin) + more)
        return [max(at - begun, 0.0) / more for at, begun in zip(pulls, self.begin, strict=True)]

    def pulls_at(self, t: float) -> list[float]:
        """Return the pulls of each arm when there were t in all.

        The more pulls the arm of largest mean has, the lower is its index, and the more pulls the other arms need to
        reach the same index. The sum of all pulls rises with the pulls of that arm, so one number makes the sum t.
        """
        further, floor = max(t - sum(self.begin), 0.0), max(self.rule.floor * log(t + 1), 1.0)
        least = [max(begun + self.minimum_share * further, floor) for begun in self.begin]
        best = max(range(len(least)), key=lambda arm: self.shapes[arm].mean)

        def level_pulls(pulls: float) -> list[float]:
            level = self._index(self.shapes[best], pulls, t)

            @cache
            def pulls_of(shape: Shape, at_least: float) -> float:
                return _find_root(lambda n: self._index(shape, n, t) - level, at_least, max(t, at_least))

            return [pulls if arm == best else pulls_of(shape, least[arm]) for arm, shape in enumerate(self.shapes)]

        return level_pulls(_find_root(lambda pulls: t - sum(level_pulls(pulls)), least[best], max(t, least[best])))

    def _index(self, shape: Shape, n: float, t: float) -> float:
        """Return the index of an arm after n pulls of it and t in all.

        A rule that draws its index from a posterior gets kl-ucb's index: both pull an arm about equally often.
        """
        index = kl_ucb_index if self.rule.index is thompson_index else self.rule.index
        highest = max(each.mean for each in self.shapes)
        cells = tuple(cell * n for cell in shape.cells)
        view = ArmView(shape.mean, n, 0.0, n, max(t, 2.0), highest, float(len(self.shapes)), cells)
        return index(view, _UNUSED_RANDOM, self.rule.parameters)


def is_foreseeable(rule: BoundRule) -> bool:
    """Tell whether a rule declares how its index moves, or draws it from a posterior."""
    return rule.moves is not None or rule.index is thompson_index


def _find_root(excess: Callable[[float], float], least: float, most: float) -> float:
    """Return the number of pulls in [least, most] at which a falling function reaches 0, on a logarithmic scale.

    The method is regula falsi with the Illinois modification; every third step bisects, since an index may be flat.
    """
    above, below = excess(least), excess(most)
    if above <= 0:
        return least
    if below >= 0:
        return most
    step = 0
    while most > least * (1 + PULLS_TOLERANCE):
        step += 1
        part = 0.5 if step % 3 == 0 else above / (above - below)
        middle = least * (most / least) ** min(max(part, 0.01), 0.99)
        found = excess(middle)
        if found > 0:
            least, above, below = middle, found, below / 2
        else:
            most, below, above = middle, found, above / 2
    return most
