"""Where a rule sends its pulls if chance stays away: for a forecast of what comes.

A rule pulls the arm of largest index, and the index of an arm falls with its pulls. So if every arm's responses keep
their mean, all indexes are level after t pulls, but for arms that had more pulls than that before. That is a number of
pulls for each arm and t: the *course*. It is what a trial does in the middle of many; see `benchmarks/plan.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from math import log
from random import Random
from typing import NamedTuple

from ldpbandits.agent.fit import Fitted
from ldpbandits.agent.kernels import ArmView, kl_ucb_index
from ldpbandits.agent.tally import ArmTally

PRECISION = 1e-3
"""Pulls are found up to this share of them."""

_NOBODY = Random(0)  # noqa: S311 - what an index that draws nothing is given


class Shape(NamedTuple):
    """What the index of an arm depends on, beside the number of its pulls."""

    mean: float
    """Of what the rule reads of its responses."""
    cells: tuple[float, ...] = ()
    """For each of its pulls, the pulls and the total of each level; empty where there is one level."""


@dataclass(frozen=True)
class Course:
    """How the pulls of some arms go on by a rule."""

    rule: Fitted
    shapes: tuple[Shape, ...]
    begin: tuple[float, ...]
    """How many pulls each arm has had so far."""
    minimum_share: float = 0.0
    """Each arm gets at least this share of the further pulls, whatever the rule says."""

    @classmethod
    def of(cls, rule: Fitted, arms: Sequence[ArmTally], minimum_share: float = 0.0) -> "Course":
        """Return the course of arms as they are; each must have a response."""
        shapes = []
        for arm in arms:
            cells = [] if rule.levels is None else [*chain.from_iterable(arm.cells)]
            mean = arm.counted / arm.pulls if rule.levels is None else rule.levels.mean(cells)
            shapes.append(Shape(mean, tuple(cell / arm.pulls for cell in cells)))
        return cls(rule, tuple(shapes), tuple(float(arm.pulls) for arm in arms), minimum_share)

    def shares(self, more: float) -> list[float]:
        """Return which part of so many further pulls each arm gets."""
        pulls = self.pulls_at(sum(self.begin) + more)
        return [max(at - begun, 0.0) / more for at, begun in zip(pulls, self.begin, strict=True)]

    def pulls_at(self, t: float) -> list[float]:
        """Return how many pulls each arm has had when there were t in all.

        The more pulls the arm of largest mean has, the lower is its index, and the more pulls have the others whose
        indexes are level with it: there is one number at which it has what they leave.
        """
        further, floor = max(t - sum(self.begin), 0.0), max(self.rule.floor * log(t + 1), 1.0)
        least = [max(begun + self.minimum_share * further, floor) for begun in self.begin]
        best = max(range(len(least)), key=lambda arm: self.shapes[arm].mean)

        def level_with(pulls: float) -> list[float]:
            level = self._index(self.shapes[best], pulls, t)

            @cache
            def stands(shape: Shape, at_least: float) -> float:
                return _falls(lambda n: self._index(shape, n, t) - level, at_least, max(t, at_least))

            return [pulls if arm == best else stands(shape, least[arm]) for arm, shape in enumerate(self.shapes)]

        return level_with(_falls(lambda pulls: t - sum(level_with(pulls)), least[best], max(t, least[best])))

    def _index(self, shape: Shape, n: float, t: float) -> float:
        """Return the index of an arm after n pulls of it and t in all.

        One that is drawn is not a number. Rules that draw from a posterior pull an arm about as often as kl-ucb does.
        """
        index = self.rule.index if self.rule.log_density is None else kl_ucb_index
        highest = max(each.mean for each in self.shapes)
        cells = tuple(cell * n for cell in shape.cells)
        view = ArmView(shape.mean, n, 0.0, n, max(t, 2.0), highest, float(len(self.shapes)), cells)
        return index(view, _NOBODY, self.rule.parameters)


def is_foreseeable(rule: Fitted) -> bool:
    """Tell whether anything is known of how the index of a rule moves, or of the law by which it is drawn."""
    return rule.moves is not None or rule.log_density is not None


def _falls(excess: Callable[[float], float], least: float, most: float) -> float:
    """Return where a falling function of a number of pulls reaches 0, on a scale of logarithms.

    By false position, with the Illinois halving that moves both ends; every third step halves the way, since an index
    may be flat.
    """
    above, below = excess(least), excess(most)
    if above <= 0:
        return least
    if below >= 0:
        return most
    step = 0
    while most > least * (1 + PRECISION):
        step += 1
        part = 0.5 if step % 3 == 0 else above / (above - below)
        middle = least * (most / least) ** min(max(part, 0.01), 0.99)
        found = excess(middle)
        if found > 0:
            least, above, below = middle, found, below / 2
        else:
            most, below, above = middle, found, above / 2
    return most
