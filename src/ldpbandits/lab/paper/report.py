"""The report's first part: the nine figures, the ratios beside the paper's, and what differs."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ldpbandits.lab.paper.panels import Panel
from ldpbandits.lab.paper.summary import Curves, ratio_reached, ratios_by_horizon
from ldpbandits.output.page import Cell, picture, table


def section(panels: Sequence[Panel], curves: Curves, summary: Mapping[str, Any], figures: Mapping[str, bytes]) -> str:
    """Return the part as HTML."""
    return "\n".join([_head(summary), _ratios(summary), *_differences(panels, curves), _panels(panels, figures)])


def _head(summary: Mapping[str, Any]) -> str:
    return f"""<h1>Multi-armed bandits with local differential privacy: the paper's numerical section</h1>
<p>Ren, Zhou, Liu, Shroff (2020), Figures 1 and 2, with {summary["trials"]} trials of T = {summary["horizon"]:,} pulls each,
seed {summary["seed"]}, by exact leaping simulation. Twenty arms: one of mean 0.9, five each of
0.8, 0.7 and 0.6, four of 0.5. Regret is pseudo-regret, in the units of the rewards; ± is one standard error, bands are two.</p>"""


def _ratios(summary: Mapping[str, Any]) -> str:
    rows = [_ratio_row(panel["panel"], curve) for panel in summary["panels"] for curve in panel["curves"]]
    left = Cell("algorithm", "left")
    head = ("panel", left, "epsilon", "regret", "bound", "ratio", "paper", "theory's factor")
    return f"""<h2>Ratios to the baseline</h2>
{table(rows, head)}
<p class="note">bound: what the theorem allows at T (for sigmoid algorithms with c_s = 0.1573). ratio: regret over that of the
baseline without privacy. paper: the ratio that it prints. theory's factor: the ratio of the bounds' leading terms, which is
itself no bound on the ratio of regrets.</p>"""


def _ratio_row(panel: str, curve: Mapping[str, Any]) -> list[str | Cell]:
    regret = f"{curve['regret']:,.0f} ± {curve['regret_sem']:,.0f}"
    epsilon, private = "", ["", "", ""]
    if curve["epsilon"] is not None:
        epsilon = f"{curve['epsilon']:g}"
        below = "below " if curve["paper_is_limit"] else ""
        paper = "" if curve["paper"] is None else f"{below}{curve['paper']:g}"
        private = [f"{curve['ratio']:.2f} ± {curve['ratio_sem']:.2f}", paper, _known(curve["theorys_factor"], ".2f")]
    bound = _known(curve["upper_bound"], ",.0f")
    return [panel, Cell(curve["algorithm"], "left"), epsilon, regret, bound, *private]


def _known(number: float | None, form: str) -> str:
    return "" if number is None else format(number, form)


def _differences(panels: Sequence[Panel], curves: Curves) -> list[str]:
    """How the ratios move with T, for the panels of which the paper prints ratios; and what follows."""
    parts = [
        """<h2>What differs from the paper, and why</h2>
<p>The paper does not state the horizon of its figures, nor which values of epsilon it varies (here 0.2, 0.5, 1, 2, 4).
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
