"""Positions in charts: a scale with round ticks, dots and whiskers in per cent of its width, curves over responses.

An interval never leaves the range of rewards, but a debiased mean may, where the noise puts it: it is drawn at the
edge, with a mark that it lies beyond.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Literal

from ldpbandits.spec.menu import Menu
from ldpbandits.spec.messages import ArmHistory, ArmReport, History, Report

MOST_COLOURS = 8
"""Arms up to which each has its colour in the curves; of more, only the leader and the arm next to it."""

TICKS = 5
"""The approximate number of ticks on a scale."""

MARGIN = 0.08
"""The margin of a scale, as a share of its interval."""

NARROWEST = 0.001
"""The least margin, as a share of the whole range."""

Side = Literal["below", "above"]


@dataclass(frozen=True)
class Scale:
    """An interval of numbers that is drawn, with round numbers as its ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]
    digits: int
    """The decimals that distinguish ticks; estimates get one more."""

    def percent(self, number: float) -> float:
        """Return the position of a number from 0 to 100; a number outside is at the edge."""
        share = (number - self.low) / (self.high - self.low)
        return round(100 * min(max(share, 0.0), 1.0), 3)

    def beyond(self, number: float) -> Side | None:
        """Return the side on which a number is outside, if any."""
        return "below" if number < self.low else "above" if number > self.high else None

    def tick(self, number: float) -> str:
        """Format a tick of the scale."""
        return f"{number:,.{self.digits}f}"

    def write(self, number: float) -> str:
        """Format an estimate with one more decimal."""
        return f"{number:,.{self.digits + 1}f}"


def scale(numbers: Iterable[float], ends: tuple[float, float]) -> Scale:
    """Return a scale around these numbers, within the ends.

    >>> scale([0.62, 0.78], (0.0, 1.0)).ticks
    (0.6, 0.65, 0.7, 0.75, 0.8)
    """
    inside = [min(max(number, ends[0]), ends[1]) for number in numbers] or list(ends)
    least, most = min(inside), max(inside)
    margin = max(MARGIN * (most - least), NARROWEST * (ends[1] - ends[0]))
    least, most = max(least - margin, ends[0]), min(most + margin, ends[1])
    step = _step((most - least) / TICKS)
    first, last = floor(least / step + 1e-9), ceil(most / step - 1e-9)
    digits = max(0, -floor(log10(step) + 1e-9))
    ticks = [round(number * step, digits) for number in range(first, last + 1)]
    low, high = max(ticks[0], ends[0]), min(ticks[-1], ends[1])
    return Scale(low, high, tuple(tick for tick in ticks if low <= tick <= high), digits)


def _step(least: float) -> float:
    """Return the smallest of 1, 2, 5, 10, ... times a power of ten that is no smaller."""
    power = 10.0 ** floor(log10(least))
    return next(power * times for times in (1, 2, 5, 10) if power * times >= least * (1 - 1e-9))


@dataclass(frozen=True)
class Whisker:
    """An arm on a scale, in per cent: its interval, the one that holds whatever is missing, and its mean."""

    left: float
    width: float
    worst_left: float
    worst_width: float
    dot: float | None
    beyond: Side | None


def whisker(arm: ArmReport, on: Scale) -> Whisker:
    """Return the positions of an arm."""
    left, worst_left = on.percent(arm.low), on.percent(arm.worst_low)
    return Whisker(
        left,
        round(on.percent(arm.high) - left, 3),
        worst_left,
        round(on.percent(arm.worst_high) - worst_left, 3),
        None if arm.mean is None else on.percent(arm.mean),
        None if arm.mean is None else on.beyond(arm.mean),
    )


def ends(report: Report) -> tuple[float, float]:
    """Return between which numbers the means of an experiment lie."""
    transform = Menu.from_json(report.curator).transform
    return transform.reward(0.0), transform.reward(1.0)


def report_scale(report: Report) -> Scale:
    """Return a scale on which the arms of an experiment have room: as wide as their intervals."""
    arms = [arm for arm in report.arms if not arm.retired] or report.arms
    return scale([end for arm in arms for end in (arm.worst_low, arm.worst_high)], ends(report))


@dataclass(frozen=True)
class ArmLines:
    """An arm over responses, as points of an SVG that is 100 wide and 100 high."""

    arm: int
    name: str
    mean: str
    high: str
    low: str
    band: str
    is_rest: bool
    """Whether it is drawn in grey: of many arms, one that neither leads nor is next to it."""


@dataclass(frozen=True)
class Chart:
    """All arms over responses, and the scales that they are drawn on."""

    across: Scale
    up: Scale
    curves: list[ArmLines]

    @property
    def coloured(self) -> list[ArmLines]:
        """The arms that have a colour of their own."""
        return [curve for curve in self.curves if not curve.is_rest]


def chart(history: History, report: Report) -> Chart | None:
    """Draw means and intervals over responses; None as long as there is no more than a moment, or none is shown."""
    is_empty = all(mean is None for arm in history.arms for mean in arm.mean)
    if len(history.responses) < 2 or is_empty:  # noqa: PLR2004 - a line has two ends
        return None
    arms = [arm for arm in history.arms if not report.arms[arm.arm].retired] or history.arms
    settled = len(history.responses) // 8  # before that, intervals are as wide as the range
    intervals = [end for arm in arms for end in (*arm.low[settled:], *arm.high[settled:])]
    up = scale(intervals, ends(report))
    across = scale((0, history.responses[-1]), (0, history.responses[-1]))
    focus = _focus(report) if len(arms) > MOST_COLOURS else {arm.arm for arm in arms}
    arms = sorted(arms, key=lambda arm: arm.arm in focus)  # the coloured ones are drawn last, above the others
    return Chart(across, up, [_curve(arm, history.responses, across, up, is_rest=arm.arm not in focus) for arm in arms])


def _focus(report: Report) -> set[int]:
    """Return the leader and the arm that is nearest to it."""
    nearest = sorted(report.comparisons, key=lambda each: each.evidence)[:1]
    return {each.arm for each in nearest} | ({report.best.arm} if report.best else set())


def _curve(arm: ArmHistory, responses: Sequence[int], across: Scale, up: Scale, *, is_rest: bool) -> ArmLines:
    moments = [moment for moment, mean in enumerate(arm.mean) if mean is not None]

    def points(heights: Sequence[float | None]) -> list[str]:
        xs, ys = ([across.percent(responses[m]) for m in moments], [up.percent(heights[m] or 0.0) for m in moments])
        return [f"{x:g},{100 - y:g}" for x, y in zip(xs, ys, strict=True)]

    mean, high, low = points(arm.mean), points(arm.high), points(arm.low)
    band = [*high, *reversed(low)]
    return ArmLines(arm.arm, arm.name, " ".join(mean), " ".join(high), " ".join(low), " ".join(band), is_rest)


LEAST_EVIDENCE, MOST_EVIDENCE = 0.1, 1e6
"""The ends of the scale of evidence, which is logarithmic; what lies beyond is drawn at its edge."""


@dataclass(frozen=True)
class EvidenceChart:
    """The evidence for the leader over responses, in per cent of the width and of the height."""

    leader: int
    across: Scale
    points: str
    threshold: float
    needed: float
    ticks: list[tuple[float, str]]
    """The height and the number of each power of ten."""


def evidence_chart(history: History) -> EvidenceChart | None:
    """Draw the evidence over responses; None where there is none."""
    if history.leader is None or history.needed is None or len(history.evidence) < 2:  # noqa: PLR2004 - a line's ends
        return None
    most = min(max(*history.evidence, 10 * history.needed), MOST_EVIDENCE)
    least = max(min(history.evidence), LEAST_EVIDENCE)

    def height(number: float) -> float:
        share = log10(max(number, LEAST_EVIDENCE) / low) / log10(high / low)
        return round(100 * min(max(share, 0.0), 1.0), 3)

    low, high = 10.0 ** floor(log10(min(least, 1.0))), 10.0 ** ceil(log10(most))
    across = scale((0, history.responses[-1]), (0, history.responses[-1]))
    moments = zip(history.responses, history.evidence, strict=True)
    points = " ".join(f"{across.percent(responses):g},{100 - height(evidence):g}" for responses, evidence in moments)
    powers = [10.0**power for power in range(round(log10(low)), round(log10(high)) + 1)]
    ticks = [(height(power), f"{power:,g}" if power < MOST_EVIDENCE else "1,000,000") for power in powers]
    return EvidenceChart(history.leader, across, points, height(history.needed), history.needed, ticks)
