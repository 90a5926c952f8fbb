"""Figures for experimenters: each arm's mean as a dot in its interval, now and over responses."""

from collections.abc import Iterable
from itertools import cycle

import matplotlib as mpl
from matplotlib.figure import Figure

from ldpbandits.admin.messages import History, Report
from ldpbandits.output.colours import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION
from ldpbandits.output.style import STYLE

COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)


def draw_report(report: Report) -> Figure:
    """Draw a dot and whiskers for each arm, and dotted ones for what those who have not answered could change.

    The best arm is blue, green once it is separated; retired arms are grey. A debiased mean may lie outside of all
    intervals: then it points there.
    """
    left, right = _limits((arm.worst_low, arm.worst_high) for arm in report.arms)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.5, 1.2 + 0.32 * len(report.arms)), layout="constrained")
        axes = figure.subplots()
        for arm in report.arms:
            colour = GREY if arm.retired else BLACK
            if report.best is not None and arm.arm == report.best.arm:
                colour = GREEN if report.best.separated else BLUE
            axes.hlines(arm.arm, arm.worst_low, arm.worst_high, color=colour, linewidth=0.9, linestyle=(0, (1, 2)))
            axes.hlines(arm.arm, arm.low, arm.high, color=colour, linewidth=1.8)
            if arm.mean is not None:
                marker = "<" if arm.mean < left else ">" if arm.mean > right else "o"
                place = min(max(arm.mean, left), right)
                axes.plot(place, arm.arm, marker=marker, markersize=6, color=colour, clip_on=False)
        axes.set_yticks([arm.arm for arm in report.arms], [_label(arm.name) for arm in report.arms])
        axes.set_ylim(len(report.arms) - 0.5, -0.5)  # the first arm on top, as in the table
        axes.set_xlim(left, right)
        axes.set_xlabel(f"{_label(report.measure)}, {100 * report.confidence:g} % intervals")
        axes.set_title(f"{report.name}: {report.responses:,} responses, {report.status}")
        axes.grid(visible=True, axis="x", alpha=0.2, linewidth=0.5)
        return figure


def draw_history(history: History) -> Figure:
    """Draw mean and interval of each arm over responses; the first means, of few responses, may lie far outside."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.5, 3.8), layout="constrained")
        axes = figure.subplots()
        for arm, colour in zip(history.arms, cycle(COLOURS), strict=False):
            mean = [float("nan") if value is None else value for value in arm.mean]
            axes.plot(history.responses, mean, color=colour, linewidth=1.5, label=_label(arm.name))
            axes.fill_between(history.responses, arm.low, arm.high, color=colour, alpha=0.15, linewidth=0)
        axes.set_ylim(*_limits((min(arm.low), max(arm.high)) for arm in history.arms))
        axes.set(xlabel="responses of all arms", ylabel="mean, with its interval", title=history.name)
        axes.grid(visible=True, alpha=0.2, linewidth=0.5)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
        return figure


def _limits(intervals: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Return the ends of an axis that shows all intervals."""
    lows, highs = zip(*intervals, strict=True)
    margin = 0.04 * (max(highs) - min(lows)) or 1.0
    return min(lows) - margin, max(highs) + margin


def _label(text: str) -> str:
    """Return a text as matplotlib shows it: a dollar sign is one, not mathematics."""
    return text.replace("$", r"\$")
