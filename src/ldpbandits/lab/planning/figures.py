"""The pictures of a plan: responses needed against epsilon, and power against responses."""

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ldpbandits.checks import LARGEST_EPSILON, SMALLEST_EPSILON
from ldpbandits.lab.planning.answer import Plan
from ldpbandits.lab.planning.case import ALLOCATIONS, Allocation, Case
from ldpbandits.lab.planning.rows import Row
from ldpbandits.lab.planning.trials import Floats
from ldpbandits.output.colours import BLACK, BLUE, BY_EPSILON, GREEN, VERMILION, Look
from ldpbandits.output.style import STYLE, save

LOOKS: dict[Allocation, Look] = {"rule": (BLUE, (1.0, 0.0)), "equal": (GREEN, (6.0, 2.0))}
POINTS = 13
"""Of a curve over epsilon, beside the epsilons that were played."""

AROUND = 1.6
"""How far the curves go beyond the epsilons that were played."""


def draw_responses(plan: Plan) -> bytes:
    """Draw the responses that the power asks for against epsilon, with the regions that are feasible; return SVG."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.4, 4.4), layout="constrained")
        axes = figure.subplots()
        epsilons = _epsilons(plan)
        edges = {allocation: _edge(plan, allocation, epsilons) for allocation in ALLOCATIONS}
        for allocation in ALLOCATIONS:
            _draw_forecast(axes, plan, allocation, epsilons, edges[allocation])
            _draw_played(axes, plan, allocation)
        axes.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="responses in all")
        axes.set_xlim(epsilons[0], epsilons[-1])
        if plan.question.responses is not None:
            _users_line(axes, plan)
        low, high = axes.get_ylim()
        axes.set_ylim(low / 2, high * 2)
        for allocation in reversed(ALLOCATIONS):
            colour = LOOKS[allocation][0]
            axes.fill_between(epsilons, edges[allocation], high * 2, color=colour, alpha=0.10, linewidth=0)
        axes.set_xticks(list(plan.question.epsilons), [f"{epsilon:g}" for epsilon in plan.question.epsilons])
        axes.minorticks_off()
        axes.grid(visible=True, alpha=0.2, linewidth=0.5)
        axes.set_title(f"responses until the best arm is separated with power {plan.question.power:g}", loc="left")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, handlelength=3)
        return save(figure, "svg")


def draw_power(plan: Plan) -> bytes:
    """Draw how likely the best arm is separated by so many responses, for each epsilon; return SVG."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.4, 3.8), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for axes, allocation in zip(panels, reversed(ALLOCATIONS), strict=True):
            _draw_panel(axes, plan, [row for row in plan.rows if row.allocation == allocation])
        panels[0].set_ylabel("share of trials that are separated")
        figure.legend(
            *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(plan.rows), handlelength=3
        )
        return save(figure, "svg")


def _draw_panel(axes: Axes, plan: Plan, rows: Sequence[Row]) -> None:
    for place, row in enumerate(rows):
        colour, dashes = (BLACK, (1.0, 1.2)) if row.epsilon is None else BY_EPSILON[place % len(BY_EPSILON)]
        if row.outcome is not None:
            first = np.sort(row.outcome.first)
            shares = np.arange(1, len(first) + 1) / len(first)
            reached = np.isfinite(first)
            label = "no privacy" if row.epsilon is None else f"epsilon {row.epsilon:g}"
            # A line that is never left has to begin somewhere, for the legend's sake.
            x, y = [row.last, *first[reached]][1 - (not reached.any()) :], [0.0, *shares[reached]]
            axes.step(x, y[-len(x) :], where="post", color=colour, dashes=dashes, linewidth=1.5, label=label)
    axes.axhline(plan.question.power, color=VERMILION, linewidth=0.8, dashes=(2, 2))
    if plan.question.responses is not None:
        axes.axvline(plan.question.responses, color=VERMILION, linewidth=0.8)
    axes.set(xscale="log", ylim=(0, 1.02), xlabel="responses in all")
    axes.set_title(_title(rows), loc="left")
    axes.grid(visible=True, alpha=0.2, linewidth=0.5)


def _title(rows: Sequence[Row]) -> str:
    return "in equal shares" if rows[0].allocation == "equal" else f"by {rows[0].rule}"


def _epsilons(plan: Plan) -> Floats:
    """Return the epsilons at which curves are drawn: those that were played, and more around them."""
    played = plan.question.epsilons
    least, most = max(played[0] / AROUND, SMALLEST_EPSILON), min(played[-1] * AROUND, LARGEST_EPSILON)
    return np.unique(np.concatenate([np.geomspace(least, most, POINTS), played]))


def _edge(plan: Plan, allocation: Allocation, epsilons: Floats) -> Floats:
    """Return the responses that the power asks for: the forecast, corrected by what trials have shown nearby."""
    asked = plan.question
    forecast = [Case(asked, float(epsilon), asked.lift).closed_form(allocation) for epsilon in epsilons]
    edge = np.array([np.nan if at is None else float(at) for at in forecast])
    rows = [plan.row(epsilon, allocation) for epsilon in asked.epsilons]
    known = [(row.epsilon, row.needed / row.closed_form) for row in rows if row.needed and row.closed_form]
    if not known:
        return edge
    at, ratios = zip(*known, strict=True)
    return edge * np.exp(np.interp(np.log(epsilons), np.log(at), np.log(ratios)))


def _draw_forecast(axes: Axes, plan: Plan, allocation: Allocation, epsilons: Floats, edge: Floats) -> None:
    row = plan.row(plan.question.epsilons[0], allocation)
    colour, dashes = LOOKS[allocation]
    axes.plot(epsilons, edge, color=colour, dashes=dashes, linewidth=1.2, label=f"feasible above: {_title([row])}")


def _draw_played(axes: Axes, plan: Plan, allocation: Allocation) -> None:
    """Draw what trials have shown: the number that the power asks for, and from 10 % to 90 % of them."""
    colour = LOOKS[allocation][0]
    for row in plan.rows:
        if row.allocation != allocation or row.epsilon is None:
            continue
        low, _, high = row.quantiles
        if row.needed is not None:
            axes.plot([row.epsilon], [row.needed], marker="o", markersize=4, color=colour, linestyle="none")
        if low is not None:
            axes.plot([row.epsilon] * 2, [low, high or row.last], color=colour, linewidth=1.2, alpha=0.6)
    without = plan.row(None, allocation)
    if without.needed is not None:
        label = f"the same without privacy, {_title([without])}"
        axes.axhline(without.needed, color=colour, linewidth=0.8, linestyle=(0, (1, 2)), label=label)


def _users_line(axes: Axes, plan: Plan) -> None:
    told = f"{plan.question.responses:,} responses of your users"
    axes.axhline(plan.question.responses or 1, color=VERMILION, linewidth=1.2, label=told)
