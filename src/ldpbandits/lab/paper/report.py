"""The report's first part: what the paper prints, the nine figures, all ratios in one table, and what differs."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from ldpbandits.lab.paper.panels import Panel
from ldpbandits.lab.paper.summary import Curves, at_horizon, ratio_reached, ratios_by_horizon
from ldpbandits.output.page import Cell, picture, table


def section(panels: Sequence[Panel], curves: Curves, summary: Mapping[str, Any], figures: Mapping[str, bytes]) -> str:
    """Return the part as HTML."""
    parts = [_head(summary), *_printed(summary), _panels(panels, figures), _ratios(summary)]
    return "\n".join([*parts, *_differences(panels, curves)])


def _head(summary: Mapping[str, Any]) -> str:
    return f"""<h1>Multi-armed bandits with local differential privacy: the paper's numerical section</h1>
<p>Ren, Zhou, Liu, Shroff (2020), Figures 1 and 2, with {summary["trials"]} trials of T = {summary["horizon"]:,} pulls each,
seed {summary["seed"]}, by exact leaping simulation. Twenty arms: one of mean 0.9, five each of
0.8, 0.7 and 0.6, four of 0.5. Regret is pseudo-regret, in the units of the rewards; ± is one standard error, bands are two.</p>"""


def _printed(summary: Mapping[str, Any]) -> Iterator[str]:
    """Show the numbers that the paper prints beside those of this run."""
    rows = [
        _printed_row(panel, curve)
        for panel in summary["panels"]
        for curve in panel["curves"]
        if curve.get("paper") is not None
    ]
    if not rows:
        return
    head = ("panel", Cell("arms and epsilon", "left"), Cell("algorithm", "left"), "the paper", "this run")
    yield f"""<h2>What the paper prints, and what this run found</h2>
<p>The price of privacy: the regret, as a multiple of that of the baseline without privacy.</p>
{_table(rows, head, look="lead")}
<p class="note">The paper does not state its T. We take it to be 1e7, where most of these ratios are met. Ratios grow
with T, so those of another T cannot be compared directly.</p>"""


def _printed_row(panel: Mapping[str, Any], curve: Mapping[str, Any]) -> list[str | Cell]:
    texts = [Cell(panel["title"], "left"), Cell(curve["algorithm"], "left")]
    return [panel["panel"], *texts, _paper(curve), _ratio(curve), Cell(at_horizon(panel), "left note")]


def _table(rows: list[list[str | Cell]], head: Sequence[str | Cell], look: str = "") -> str:
    """Return a table whose last column, which has no head, is there only if something is said in it."""
    if any(isinstance(row[-1], Cell) and row[-1].text for row in rows):
        return table(rows, (*head, ""), look=look)
    return table([row[:-1] for row in rows], head, look=look)


def _ratio(curve: Mapping[str, Any]) -> str:
    return f"{curve['ratio']:.2f} ± {curve['ratio_sem']:.2f}"


def _paper(curve: Mapping[str, Any]) -> str:
    below = "below " if curve["paper_is_limit"] else ""
    return "" if curve["paper"] is None else f"{below}{curve['paper']:g}"


def _ratios(summary: Mapping[str, Any]) -> str:
    rows = [_ratio_row(panel, curve) for panel in summary["panels"] for curve in panel["curves"]]
    left = Cell("algorithm", "left")
    head = ("panel", left, "epsilon", "regret", "bound", "ratio", "paper", "theory's factor")
    return f"""<h2>All ratios to the baseline</h2>
{_table(rows, head, look="close")}
<p class="note">bound: what the theorem allows at T (for sigmoid algorithms with c_s = 0.1573). ratio: regret over that of the
baseline without privacy. paper: the ratio that it prints. theory's factor: the ratio of the bounds' leading terms, which is
itself no bound on the ratio of regrets.</p>"""


def _ratio_row(panel: Mapping[str, Any], curve: Mapping[str, Any]) -> list[str | Cell]:
    regret = f"{curve['regret']:,.0f} ± {curve['regret_sem']:,.0f}"
    epsilon, private, here = "", ["", "", ""], ""
    if curve["epsilon"] is not None:
        epsilon, here = f"{curve['epsilon']:g}", at_horizon(panel)
        private = [_ratio(curve), _paper(curve), _known(curve["theorys_factor"], ".2f")]
    bound = _known(curve["upper_bound"], ",.0f")
    name, told = Cell(curve["algorithm"], "left"), Cell(here, "left note")
    return [panel["panel"], name, epsilon, regret, bound, *private, told]


def _known(number: float | None, form: str) -> str:
    return "" if number is None else format(number, form)


def _differences(panels: Sequence[Panel], curves: Curves) -> list[str]:
    """How the ratios move with T, for the panels of which the paper prints ratios; and what follows."""
    parts = [
        """<h2>What differs from the paper, and why</h2>
<p>The paper states neither the horizon of its figures nor which values of epsilon it varies (here 0.2, 0.5, 1, 2, 4).
Its ratios can only be compared at a T, and they grow with T:</p>"""
    ]
    for panel in panels:
        if not panel.paper:
            continue
        names = [name for name, _ in panel.private]
        rows = [
            [f"{t:,}", *(f"{ratios[name][0]:.2f} ± {ratios[name][1]:.2f}" for name in names)]
            for t, ratios in ratios_by_horizon(panel, curves)
        ]
        below = "below " if panel.paper_is_limit else ""
        rows.append(["paper", *(f"{below}{panel.paper[name]:g}" for name in names)])
        parts.append(f"<p>{panel.id}, {escape(panel.title)}</p>{table(rows, ('T', *names))}")
        if panel.paper_is_limit:
            parts.append("<p>The paper prints only what these ratios stay below.</p>")
        else:
            parts += [f"<p>{_meeting(panel, curves, name)}</p>" for name in names]
            parts.append(f"<p>{_together(panel, curves)}</p>")
    return parts


def _together(panel: Panel, curves: Curves) -> str:
    """Say whether both printed ratios occur at the same T of this run."""
    (one, _), (other, _) = panel.private
    first, second = ratio_reached(panel, curves, one, other), ratio_reached(panel, curves, other, one)
    if first is None or second is None:
        return "This run is too short to show whether the two printed ratios occur together."
    apart = max(first[0], second[0]) / min(first[0], second[0])
    if apart < 1.1:  # noqa: PLR2004 - about a checkpoint's distance
        return "The two printed ratios occur together."
    return f"The two printed ratios do not occur together: the T at which they do differ by a factor of {apart:.2g}."


def _meeting(panel: Panel, curves: Curves, name: str) -> str:
    """Say at which T the ratio of an algorithm is the printed one, and what the other's is then."""
    (other,) = (one for one, _ in panel.private if one != name)
    printed = f"the paper's {panel.paper[name]:g}"
    meeting = ratio_reached(panel, curves, name, other)
    if meeting is None:
        return f"The ratio of {name} does not pass {printed} in this run."
    t, then = meeting
    return (
        f"The ratio of {name} is {printed} at T = {t:.2g}; that of {other} is {then:.1f} there, "
        f"where the paper prints {panel.paper[other]:g}."
    )


def _panels(panels: Sequence[Panel], figures: Mapping[str, bytes]) -> str:
    pictures = "".join(
        picture(figures[panel.id], f"Panel {panel.id}: {panel.title}", look="wide" if panel.semilog else "")
        for panel in panels
    )
    return f"""<h2>The panels</h2>
<p class="note">Mean regret with a band of two standard errors. Thin dotted: the theorem's upper bound; thin green: the exact
lower bound for any private policy, over the last decades, since it is a limit; each where it fits into the picture. The numbers are in summary.json and, by checkpoint, in the results.csv of each bandit.</p><div class="panels">{pictures}</div>"""
