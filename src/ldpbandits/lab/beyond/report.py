"""The report's second part: the figures beyond the paper, what they show in words, and one table of all numbers."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from ldpbandits.lab.beyond.panels import Panel
from ldpbandits.output.page import Cell, picture, table

DEFAULT = "ldp-kl-ucb++"


def section(panels: Sequence[Panel], summary: Mapping[str, Any], figures: Mapping[str, bytes]) -> str:
    """Return the part as HTML."""
    numbers = {one["panel"]: one for one in summary["panels"]}
    parts = [_head(summary)]
    for panel in panels:
        words = " ".join(escape(words) for words in (*_words(numbers[panel.id]), panel.note) if words)
        parts.append(f"<h2>{escape(panel.id)}: {escape(panel.title)}</h2>")
        parts.append(picture(figures[panel.id], f"Panel {panel.id}: {panel.title}", look="wide"))
        parts.append(f"<p>{words}</p>")
    return "\n".join([*parts, _table(summary)])


def _head(summary: Mapping[str, Any]) -> str:
    return f"""<h1>Beyond the paper</h1>
<p>The same arms and the same private bits, with rules that the paper does not have: <code>kl-ucb</code>, <code>kl-ucb++</code>,
<code>imed</code> and <code>ts</code>. Each panel has a horizon of its own, up to T = {summary["horizon"]:,}, seed {summary["seed"]}. Colour is by
rule; dots are without privacy. Bands are two standard errors. Grey is the exact lower bound, constant x log t: a limit for
t to infinity and for policies that learn on every instance, so that regret may lie below it for a while.</p>"""


def _words(numbers: Mapping[str, Any]) -> Iterator[str]:
    """Say in sentences what the numbers of this run show."""
    baseline, *others = numbers["curves"]
    yield f"Without privacy, {_name(baseline)} has {_regret(baseline)} at T = {baseline['horizon']:,}."
    below = [curve for curve in others if _is_private(curve) and curve["ratio"] + 2 * curve["ratio_sem"] < 1]
    if below:
        listed = ", ".join(f"{_name(curve)} ({_regret(curve)})" for curve in below)
        yield f"Private, and below it by more than two standard errors: {listed}."
    else:
        yield "No private algorithm is below it by more than two standard errors."
    limit = numbers["limit"]
    if limit is None:
        yield from _tails(numbers)
    else:
        yield f"The lower bound is that of {limit['of']}."
        grown = [f"{_name(curve)} {curve['slope']:.2f}" for curve in others if _is_private(curve) and curve["slope"]]
        if grown:
            yield f"Slope of regret in log T over the last two decades, over its constant: {', '.join(grown)}."


def _tails(numbers: Mapping[str, Any]) -> Iterator[str]:
    """Say which private rule has the smallest mean, which the smallest worst trial, and what the default has."""
    private = {curve["algorithm"]: curve for curve in numbers["curves"] if _is_private(curve)}
    least, safest = (min(private.values(), key=lambda curve: curve[name]) for name in ("regret", "worst"))
    yield f"Of the private rules {_name(least)} has the smallest mean: {_mean_and_worst(least)}."
    yield f"{_name(safest)} has the smallest worst case: {_mean_and_worst(safest)}."
    yield f"kl-ucb++ is the default because of its worst case beside a small mean: {_mean_and_worst(private[DEFAULT])}."


def _mean_and_worst(curve: Mapping[str, Any]) -> str:
    return f"mean {_regret(curve)}, worst of {curve['trials']:,} trials {curve['worst']:,.0f}"


def _is_private(curve: Mapping[str, Any]) -> bool:
    return bool(curve["algorithm"].startswith("ldp-"))


def _name(curve: Mapping[str, Any]) -> str:
    return str(curve["label"]).removesuffix(", no privacy")


def _regret(curve: Mapping[str, Any]) -> str:
    return f"{curve['regret']:,.0f} ± {curve['regret_sem']:,.0f}"


def _table(summary: Mapping[str, Any]) -> str:
    rows = [_row(panel["panel"], curve) for panel in summary["panels"] for curve in panel["curves"]]
    left = Cell("algorithm", "left")
    head = (
        "panel",
        left,
        "epsilon",
        "T",
        "trials",
        "regret",
        "over baseline",
        "over limit",
        "slope",
        "worst 1 %",
        "worst",
    )
    return f"""<h2>Beyond the paper in numbers</h2>
{table(rows, head)}
<p class="note">regret: mean ± one standard error. over baseline: over the first line of the panel at the same T. over limit: over
constant x log T of the exact lower bound. slope: growth of regret in log T over the last two decades, over the constant. worst 1 %: mean of the worst hundredth of the trials, where there are 100 or more. The
same is in summary.json and beyond/table.csv; by checkpoint in the results.csv of each panel.</p>"""


def _row(panel: str, curve: Mapping[str, Any]) -> list[str | Cell]:
    return [
        panel,
        Cell(curve["label"], "left"),
        "" if curve["epsilon"] is None else f"{curve['epsilon']:g}",
        f"{curve['horizon']:,}",
        f"{curve['trials']:,}",
        _regret(curve),
        _with_error(curve, "ratio"),
        _with_error(curve, "over_limit"),
        _with_error(curve, "slope"),
        "" if curve["worst_hundredth"] is None else f"{curve['worst_hundredth']:,.0f}",
        f"{curve['worst']:,.0f}",
    ]


def _with_error(curve: Mapping[str, Any], name: str) -> str:
    return "" if curve[name] is None else f"{curve[name]:.3g} ± {curve[f'{name}_sem']:.1g}"
