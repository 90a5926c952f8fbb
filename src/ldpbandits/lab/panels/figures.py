"""The figures of panels: regret, regret beside and over a limit, and the worst trials beside the mean."""

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from ldpbandits.agent.inference.verdicts import ALPHA
from ldpbandits.lab.engine.verdicts import Test
from ldpbandits.lab.figures import FIRST_T, Line, plot_lines, plot_means
from ldpbandits.lab.panels.judged import FIRST_INSPECTION, TEST_NAMES, Judged, inspection_times
from ldpbandits.lab.panels.panel import FalseVerdicts, Limit, Panel, Ratios, Tails
from ldpbandits.lab.panels.summary import panel_summary
from ldpbandits.lab.simulation import Simulation
from ldpbandits.output.colours import GREY
from ldpbandits.output.style import STYLE, save

LIMIT_STYLE: dict[str, Any] = {"linewidth": 2.2, "alpha": 0.6, "zorder": 1}
CURVES_IN_THREE_COLUMNS = 9
"""A legend of more curves beside a limit has four columns."""
CURVES_IN_TWO_COLUMNS = 3
"""A legend of more curves below a single plot has three columns."""
MARKERS = {"regret": ("o", 5), "worst_hundredth": ("D", -11), "worst": ("X", 5)}
"""The marker of each number of the trials, and by how many points its label stands above it."""
TEST_DASHES: dict[Test, tuple[float, ...]] = {"coin": (1.0, 0.0), "pair": (6.0, 2.0), "intervals": (1.0, 1.2)}
LEAST_SHARE = 0.03
"""The smallest share of the lower bound that is drawn."""


def draw(panel: Panel, played: Sequence[Any]) -> tuple[bytes, bytes]:
    """Draw a panel; return it as SVG and as PNG."""
    with mpl.rc_context(STYLE):
        match panel.shows:
            case Ratios(semilog=semilog):
                figure = _draw_regret(panel, played, semilog=semilog)
            case Limit() as limit:
                figure = _draw_limit(panel, limit, played)
            case Tails():
                figure = _draw_tails(panel, played)
            case FalseVerdicts():
                figure = _draw_false_verdicts(panel, played)
        return save(figure, "svg"), save(figure, "png")


def panel_lines(panel: Panel, played: Sequence[Simulation]) -> list[Line]:
    """Return the simulations of a panel, each with the style that the panel gives its curve."""
    return [Line(simulation, curve.drawn_as) for curve, simulation in zip(panel.curves, played, strict=True)]


def _draw_regret(panel: Panel, played: Sequence[Simulation], *, semilog: bool) -> Figure:
    """Draw regret on logarithmic axes, and with `semilog` once more on a linear axis of regret."""
    figure = Figure(figsize=(7.4 if semilog else 5.0, 3.8), layout="constrained")
    drawn = panel_lines(panel, played)
    axes = figure.subplots(1, 2 if semilog else 1, squeeze=False)[0]
    plot_lines(axes[0], drawn, is_log=True)
    axes[0].set_title(f"{panel.id}  {panel.title}", loc="left")
    columns = 3 if semilog or len(drawn) > CURVES_IN_TWO_COLUMNS else 2
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=columns, handlelength=3)
    if semilog:
        plot_lines(axes[1], drawn, is_log=False)
        axes[1].set_title("the same, regret on a linear axis", loc="left")
    return figure


def _draw_limit(panel: Panel, limit: Limit, played: Sequence[Simulation]) -> Figure:
    """Draw regret on the left, and on the right regret over constant x log t, where optimal rules come to 1."""
    figure = Figure(figsize=(9.0, 5.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    drawn = panel_lines(panel, played)
    horizon = max(simulation.checkpoints[-1] for simulation in played)
    t = np.geomspace(min(FIRST_T, horizon), horizon, 80)
    bound = f"{limit.constant:,.4g} log t"
    plot_means(left, drawn)
    left.plot(t, limit.constant * np.log(t), color=GREY, **LIMIT_STYLE, label=f"lower bound, {bound}")
    left.set_title("regret", loc="left")
    plot_means(right, drawn, over=lambda t: limit.constant * np.log(t))
    right.axhline(1, color=GREY, **LIMIT_STYLE)
    right.set_title(f"regret / ({bound})", loc="left")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="pulls t", xlim=(min(FIRST_T, horizon / 10), horizon))
        axes.grid(visible=True, alpha=0.2, linewidth=0.5)
    right.set_ylim(bottom=max(LEAST_SHARE, right.get_ylim()[0]))
    figure.suptitle(panel.title, x=0.01, ha="left")
    _legend(figure, left, 4 if len(drawn) > CURVES_IN_THREE_COLUMNS else 3)
    return figure


def _draw_tails(panel: Panel, played: Sequence[Simulation]) -> Figure:
    """Draw a row for each algorithm: its mean, the mean of its worst hundredth, and its worst trial."""
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


def _draw_false_verdicts(panel: Panel, played: Sequence[Judged]) -> Figure:
    """Draw the share of trials with a verdict against responses, where the level moves and where it stays."""
    figure = Figure(figsize=(9.0, 4.4), layout="constrained")
    both = figure.subplots(1, len(panel.bandits), sharey=True)
    for judged in played:
        axes, style = both[int(judged.level == "stays")], judged.algorithm.drawn_as
        times = np.array(inspection_times(judged.horizon))
        for test in judged.tests:
            shares = [100 * judged.wrong(test, time)[0] for time in times]
            label = f"{style.label}, {TEST_NAMES[test]}"
            axes.step(times, shares, where="post", color=style.colour, dashes=TEST_DASHES[test], label=label)
    for axes, level in zip(both, ("the level moves", "the level stays"), strict=True):
        axes.axhline(100 * ALPHA, color=GREY, **LIMIT_STYLE)
        axes.set(xscale="log", ylim=(0, 101), xlabel="responses", xlim=(FIRST_INSPECTION, played[0].horizon))
        axes.set_title(level, loc="left")
        axes.grid(visible=True, alpha=0.2, linewidth=0.5)
    both[0].set_ylabel("trials with a wrong verdict, in %")
    figure.suptitle(panel.title, x=0.01, ha="left")
    _legend(figure, both[0], 3)
    return figure


def _legend(figure: Figure, axes: Axes, columns: int) -> None:
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=columns, handlelength=3.5)
