"""The figures beyond the paper: regret beside and over the limit, and the worst trials beside the mean."""

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from ldpbandits.lab.beyond.panels import Limit, Panel, Tails
from ldpbandits.lab.beyond.summary import panel_summary
from ldpbandits.lab.figures import FIRST_T, Line, plot_means
from ldpbandits.lab.simulation import Simulation
from ldpbandits.output.colours import GREY
from ldpbandits.output.style import STYLE, save

LIMIT: dict[str, Any] = {"linewidth": 2.2, "alpha": 0.6, "zorder": 1}
MANY = 9
"""Curves: more than these have a legend of four columns."""
MARKERS = {"regret": ("o", 5), "worst_hundredth": ("D", -11), "worst": ("X", 5)}
"""Of what is told of the trials, with how far above it stands its number."""
LEAST_SHARE = 0.03
"""Of the lower bound: what is less is not drawn over it."""


def draw(panel: Panel, played: Sequence[Simulation]) -> tuple[bytes, bytes]:
    """Draw a panel; return it as SVG and as PNG."""
    with mpl.rc_context(STYLE):
        match panel.shows:
            case Limit() as limit:
                figure = _beside_limit(panel, limit, played)
            case Tails():
                figure = _tails(panel, played)
        return save(figure, "svg"), save(figure, "png")


def _beside_limit(panel: Panel, limit: Limit, played: Sequence[Simulation]) -> Figure:
    """Regret on the left; on the right over constant x log t, where what reaches the limit comes to 1."""
    figure = Figure(figsize=(9.0, 5.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    lines = [Line(simulation, simulation.algorithm.drawn_as) for simulation in played]
    horizon = max(simulation.checkpoints[-1] for simulation in played)
    t = np.geomspace(min(FIRST_T, horizon), horizon, 80)
    bound = f"{limit.constant:,.4g} log t"
    plot_means(left, lines)
    left.plot(t, limit.constant * np.log(t), color=GREY, **LIMIT, label=f"lower bound, {bound}")
    left.set_title("regret", loc="left")
    plot_means(right, lines, over=lambda t: limit.constant * np.log(t))
    right.axhline(1, color=GREY, **LIMIT)
    right.set_title(f"regret / ({bound})", loc="left")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="pulls t", xlim=(min(FIRST_T, horizon / 10), horizon))
        axes.grid(visible=True, alpha=0.2, linewidth=0.5)
    right.set_ylim(bottom=max(LEAST_SHARE, right.get_ylim()[0]))
    figure.suptitle(panel.title, x=0.01, ha="left")
    _legend(figure, left, 4 if len(lines) > MANY else 3)
    return figure


def _tails(panel: Panel, played: Sequence[Simulation]) -> Figure:
    """One row an algorithm: its mean, the mean of its worst hundredth, and its worst trial."""
    figure = Figure(figsize=(7.4, 0.8 + 0.42 * len(played)), layout="constrained")
    axes = figure.subplots()
    curves = panel_summary(panel, played)["curves"]
    for row, (simulation, curve) in enumerate(zip(played, curves, strict=True)):
        colour = simulation.algorithm.drawn_as.colour
        axes.plot([curve["regret"], curve["worst"]], [row, row], color=colour, linewidth=1, alpha=0.5, zorder=1)
        for name, (marker, up) in MARKERS.items():
            if curve[name] is not None:
                at = curve[name], row
                axes.plot(*at, marker=marker, color=colour, markersize=6, linestyle="none")
                axes.annotate(f"{curve[name]:,.0f}", at, (0, up), textcoords="offset points", ha="center", size=7)
    for (marker, _), label in zip(MARKERS.values(), ("mean", "mean of the worst 1 %", "worst"), strict=True):
        axes.plot([], [], marker=marker, color=GREY, linestyle="none", label=label)
    axes.set_yticks(range(len(played)), [curve["label"] for curve in curves])
    axes.set_xscale("log", subs=(2, 3, 5))
    for ticks in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
        ticks(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set(xlabel=f"regret at T = {curves[0]['horizon']:,}, {curves[0]['trials']:,} trials")
    axes.set_ylim(len(played) - 0.5, -0.7)
    axes.grid(visible=True, axis="x", alpha=0.2, linewidth=0.5)
    axes.set_title(panel.title, loc="left")
    _legend(figure, axes, 3)
    return figure


def _legend(figure: Figure, axes: Axes, columns: int) -> None:
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=columns, handlelength=3.5)
