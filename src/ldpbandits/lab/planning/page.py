"""A plan as one self-contained page: the answer, one picture, the verdicts, the tables, and how to read them.

The first picture shows responses needed against epsilon; the one behind the tables shows power against responses.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from html import escape

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ldpbandits.checks import LARGEST_EPSILON, SMALLEST_EPSILON
from ldpbandits.lab.planning.case import Allocation, Case, allocations
from ldpbandits.lab.planning.plan import Plan, Row, Table, all_tables, heading, remarks
from ldpbandits.lab.planning.trials import Floats
from ldpbandits.output.colours import BLACK, BLUE, BY_EPSILON, GREEN, ORANGE, VERMILION, Look
from ldpbandits.output.page import Cell, document, light_picture, picture, table
from ldpbandits.output.provenance import Provenance, digest
from ldpbandits.output.style import STYLE, save

READING = """\
The verdict is reached when the best arm is known to be the best, by the test that the server uses. It holds at all
times at once: looking every day, and stopping when it is reached, costs nothing but the responses. All arms have the
baseline's mean but for the last one, which is better by the lift. Trials are played as they would be live, one response
after the other, and looked at after every 1 % more of them. The feasible region lies above a line: dots are what trials
have shown for the power that is asked for, strokes go from 10 % to 90 % of the trials; between the dots the line
follows the forecast."""
ALLOCATION_STYLES: dict[Allocation, Look] = {
    "duels": (ORANGE, (1.0, 0.0)),
    "equal": (GREEN, (6.0, 2.0)),
    "rule": (BLUE, (1.0, 0.0)),
}
FORECAST_POINTS = 13
"""Points of a curve over epsilon, beside the epsilons that were played."""

EPSILON_MARGIN = 1.6
"""The curves go beyond the epsilons that were played by this factor."""


def page(plan: Plan, made: Provenance | None = None) -> str:
    """Return the page as HTML; `made` is what its foot says of how it was made (default: from Python, now)."""
    begin = f"<h1>What will epsilon cost?</h1>{_answer(plan, picture)}{_verdicts(plan)}"
    end = f'{_power(plan)}<h2>How to read it</h2><p class="note">{READING}</p>{_made(plan, made or Provenance())}'
    return document("ldpbandits: plan", "\n".join([begin, *map(_table, all_tables(plan)), end]))


def _made(plan: Plan, made: Provenance) -> str:
    asked = {each.name: getattr(plan.question, each.name) for each in fields(plan.question) if each.compare}
    rows = made.rows(**{"digest of the question": digest(asked), "seed": f"{plan.question.seed}"})
    return f"<h2>How it was made</h2>{table(rows, look='prose')}"


def fragment(plan: Plan) -> str:
    """Return the answer, the picture and the tables as HTML, for notebooks."""
    return "\n".join([_answer(plan, light_picture), *map(_table, all_tables(plan))])


def _answer(plan: Plan, show: Callable[[bytes, str], str]) -> str:
    """Return the answer in one sentence, and the picture where something was played."""
    shown = ""
    if _is_played(plan):
        alt = "Responses needed against epsilon, with the region that is feasible"
        shown = show(_svg(draw_responses(plan)), alt)
    return f"<p><b>{escape(plan.answer)}</b></p>{shown}"


def _verdicts(plan: Plan) -> str:
    verdicts = "".join(
        f'<p class="verdict {_verdict_class(plan, epsilon)}">{escape(sentence)}</p>'
        for epsilon, sentence in zip(plan.question.epsilons, plan.verdicts, strict=True)
    )
    more = "" if plan.reverse is None else f'<p class="verdict">{escape(plan.reverse)}</p>'
    start = "" if plan.command is None else f'<p>To start:</p><pre tabindex="0">{escape(plan.command)}</pre>'
    told = " ".join([f"{heading(plan)}.", *remarks(plan)])
    return f"<p>{escape(told)}</p>{verdicts}{more}{start}"


def _is_played(plan: Plan) -> bool:
    return any(row.trials for row in plan.rows)


def _power(plan: Plan) -> str:
    if not _is_played(plan):
        return ""
    drawn = picture(_svg(draw_power(plan)), "Power against responses, for each epsilon")
    return f"<h2>Power against responses</h2>{drawn}"


def _svg(figure: Figure) -> bytes:
    with mpl.rc_context(STYLE):
        return save(figure, "svg")


def _verdict_class(plan: Plan, epsilon: float) -> str:
    """Return the CSS class of a verdict: feasible, by a fair allocation, or not."""
    return "consistent" if plan.is_enough(epsilon) else "violated"


def _table(made: Table) -> str:
    def cells(row: Sequence[str]) -> list[str | Cell]:
        return [Cell(text, "left") if made.head[place] == "rule" else text for place, text in enumerate(row)]

    body = table([cells(row) for row in made.rows], cells(made.head), look="close")
    return f'<h2>{escape(made.title)}</h2>{body}<p class="note">{escape(made.note)}</p>'


def draw_responses(plan: Plan) -> Figure:
    """Draw the responses that the power asks for against epsilon, with the regions that are feasible."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.4, 4.4), layout="constrained")
        axes = figure.subplots()
        epsilons = _epsilons(plan)
        compared = allocations(plan.question)
        edges = {allocation: _edge(plan, allocation, epsilons) for allocation in compared}
        for allocation in compared:
            _draw_forecast(axes, plan, allocation, epsilons, edges[allocation])
            _draw_played(axes, plan, allocation)
        axes.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="responses in all")
        axes.set_xlim(epsilons[0], epsilons[-1])
        if plan.question.responses is not None:
            _users_line(axes, plan)
        low, high = axes.get_ylim()
        axes.set_ylim(low / 2, high * 2)
        for allocation in compared:
            colour = ALLOCATION_STYLES[allocation][0]
            axes.fill_between(epsilons, edges[allocation], high * 2, color=colour, alpha=0.10, linewidth=0)
        axes.set_xticks(list(plan.question.epsilons), [f"{epsilon:g}" for epsilon in plan.question.epsilons])
        axes.minorticks_off()
        axes.grid(visible=True, alpha=0.2, linewidth=0.5)
        axes.set_title(f"responses until the verdict with power {plan.question.power:g}", loc="left")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, handlelength=3)
        return figure


def draw_power(plan: Plan) -> Figure:
    """Draw the chance that the verdict is reached against the number of responses, for each epsilon."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.4, 3.8), layout="constrained")
        shown = [each for each in allocations(plan.question) if each != "duels" or plan.question.arms > len("AB")]
        panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
        for axes, allocation in zip(panels, shown, strict=True):
            _draw_panel(axes, plan, [row for row in plan.rows if row.allocation == allocation])
        panels[0].set_ylabel("share of trials that are decided")
        figure.legend(
            *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(plan.rows), handlelength=3
        )
        return figure


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
    return f"by {rows[0].rule}"


def _epsilons(plan: Plan) -> Floats:
    """Return the epsilons at which curves are drawn: those that were played, and more around them."""
    played = plan.question.epsilons
    least, most = max(played[0] / EPSILON_MARGIN, SMALLEST_EPSILON), min(played[-1] * EPSILON_MARGIN, LARGEST_EPSILON)
    return np.unique(np.concatenate([np.geomspace(least, most, FORECAST_POINTS), played]))


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
    colour, dashes = ALLOCATION_STYLES[allocation]
    axes.plot(epsilons, edge, color=colour, dashes=dashes, linewidth=1.2, label=f"feasible above: {_title([row])}")


def _draw_played(axes: Axes, plan: Plan, allocation: Allocation) -> None:
    """Draw what trials have shown: the number that the power asks for, and from 10 % to 90 % of them."""
    colour = ALLOCATION_STYLES[allocation][0]
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
