"""The report: one self-contained page with the nine figures, the ratios beside the paper's, and what differs."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ldpbandits.lab.paper import Panel
from ldpbandits.lab.summary import Curves, ratio_reached, ratios_by_horizon

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; background: #fff }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums }
th, td { padding: .2rem .8rem; text-align: right; border-bottom: 1px solid #ddd }
th:first-child, td:first-child, td.left, th.left { text-align: left }
figure { margin: 0; border: 1px solid #e4e4e4; padding: .4rem } figure img { width: 100%; display: block }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(26rem, 1fr)); gap: .8rem } .wide { grid-column: 1 / -1; max-width: 54rem }
.note { color: #555 }
"""


def page(panels: Sequence[Panel], curves: Curves, summary: Mapping[str, Any], figures: Mapping[str, bytes]) -> str:
    """Return the page as HTML."""
    parts = [_head(summary), _ratios(summary), *_differences(panels, curves), _panels(panels, figures), _foot(summary)]
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>ldpbandits: the paper, reproduced</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>\n{body}\n</body></html>\n'
    )


def _head(summary: Mapping[str, Any]) -> str:
    kept = f" ({summary['trials_kept']} trials were kept from an earlier run)" if summary["trials_kept"] else ""
    return f"""<h1>Multi-armed bandits with local differential privacy: the paper's numerical section</h1>
<p>Ren, Zhou, Liu, Shroff (2020), Figures 1 and 2, with {summary["trials"]} trials of T = {summary["horizon"]:,} pulls each,
seed {summary["seed"]}, by exact leaping simulation, in {summary["seconds"]:.0f} s{kept}. Twenty arms: one of mean 0.9, five each of
0.8, 0.7 and 0.6, four of 0.5. Regret is pseudo-regret, in the units of the rewards; ± is one standard error, bands are two.</p>"""


def _ratios(summary: Mapping[str, Any]) -> str:
    rows = []
    for panel in summary["panels"]:
        for curve in panel["curves"]:
            if curve["epsilon"] is None:
                cells = ["", "", "", ""]
            else:
                paper = (
                    "" if curve["paper"] is None else f"{'below ' if curve['paper_is_limit'] else ''}{curve['paper']:g}"
                )
                cells = [
                    f"{curve['epsilon']:g}",
                    f"{curve['ratio']:.2f} ± {curve['ratio_sem']:.2f}",
                    paper,
                    f"{curve['theorys_factor']:.2f}",
                ]
            regret = f"{curve['regret']:,.0f} ± {curve['regret_sem']:,.0f}"
            cells = [panel["panel"], curve["algorithm"], cells[0], regret, f"{curve['upper_bound']:,.0f}", *cells[1:]]
            rows.append(_row(cells))
    head = "".join(
        f'<th class="left">{cell}</th>' if cell == "algorithm" else f"<th>{cell}</th>"
        for cell in ("panel", "algorithm", "epsilon", "regret", "bound", "ratio", "paper", "theory's factor")
    )
    return f"""<h2>Ratios to the baseline</h2>
<table><tr>{head}</tr>{"".join(rows)}</table>
<p class="note">bound: what the theorem allows at T (for sigmoid algorithms with c_s = 0.1573). ratio: regret over that of the
baseline without privacy. paper: the ratio that it prints. theory's factor: the ratio of the bounds' leading terms, which is
itself no bound on the ratio of regrets.</p>"""


def _row(cells: Sequence[str]) -> str:
    listed = "".join(
        f'<td class="left">{escape(cell)}</td>' if column == 1 else f"<td>{escape(cell)}</td>"
        for column, cell in enumerate(cells)
    )
    return f"<tr>{listed}</tr>"


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
        head = "".join(f"<th>{cell}</th>" for cell in ("T", *names))
        rows = [
            _row([f"{t:,}", *(f"{found[name][0]:.2f} ± {found[name][1]:.2f}" for name in names)])
            for t, found in ratios_by_horizon(panel, curves)
        ]
        says = "below " if panel.paper_is_limit else ""
        rows.append(_row(["paper", *(f"{says}{panel.paper[name]:g}" for name in names)]))
        parts.append(
            f"<p>{panel.id}, {escape(panel.title)}</p><table><tr>{head}</tr>{''.join(rows)}</table>".replace(
                'class="left"', ""
            )
        )
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
    found = ratio_reached(panel, curves, name, other)
    if found is None:
        return f"The ratio of {name} does not pass {printed} in this run."
    t, then = found
    return (
        f"The ratio of {name} is {printed} at T = {t:.2g}; that of {other} is {then:.1f} there, "
        f"where the paper prints {panel.paper[other]:g}."
    )


def _panels(panels: Sequence[Panel], figures: Mapping[str, bytes]) -> str:
    shown = "".join(
        f'<figure class="{"wide" if panel.semilog else ""}"><img alt="Panel {panel.id}: {escape(panel.title)}" '
        f'src="data:image/svg+xml;base64,{b64encode(figures[panel.id]).decode()}"></figure>'
        for panel in panels
    )
    return f"""<h2>The panels</h2>
<p class="note">Mean regret with a band of two standard errors. Thin dotted: the theorem's upper bound; thin green: the exact
lower bound for any private policy, over the last decades, since it is a limit; each where it fits into the picture.</p><div class="panels">{shown}</div>"""


def _foot(summary: Mapping[str, Any]) -> str:
    played = ", ".join(f"{name} {version}" for name, version in summary["versions"].items())
    return f'<h2>How it was made</h2><p class="note">{escape(played)}. The numbers are in summary.json and, by checkpoint, in the results.csv of each bandit.</p>'
