"""The report of `reproduce` as one page: the paper's panels, the panels beyond it, and how they were made.

The part of the paper has what it prints, the nine figures, all ratios in one table, and what differs; the part beyond
it has the figures, what they show in words, and one table of all numbers.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any, TypeAlias

from ldpbandits.agent.inference.verdicts import ALPHA
from ldpbandits.lab.panels.judged import TEST_NAMES
from ldpbandits.lab.panels.panel import Panel, Ratios
from ldpbandits.lab.panels.summary import horizon_note, ratio_reached, ratios_by_horizon
from ldpbandits.lab.simulation import Simulation
from ldpbandits.output.numbers import percent
from ldpbandits.output.page import Cell, document, picture, table
from ldpbandits.output.provenance import Provenance

DEFAULT = "ldp-kl-ucb++"


def report(sections: Sequence[str], summary: Mapping[str, Any], made: Provenance) -> str:
    """Return the page with these sections, and a foot on how they were made."""
    return document("ldpbandits: the paper, reproduced, and beyond it", "\n".join([*sections, _foot(summary, made)]))


def _foot(summary: Mapping[str, Any], made: Provenance) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in summary["versions"].items())
    kept = f" ({summary['trials_kept']:,} trials were kept from an earlier run)" if summary["trials_kept"] else ""
    how = f"By exact simulation, in leaps where the rule can, in {summary['seconds']:.0f} s{kept}"
    rows = made.rows(**{"with": versions, "digest of the results": summary["digest"]})
    return f'<h2>How it was made</h2><p class="note">{how}.</p>{table(rows, look="prose")}'


def paper_section(
    panels: Sequence[Panel],
    played: Mapping[str, Sequence[Simulation]],
    summary: Mapping[str, Any],
    figures: Mapping[str, bytes],
) -> str:
    """Return the part of the paper as HTML; simulations and figures are by panel."""
    parts = [_paper_head(summary), *_printed(summary), _pictures(panels, figures), _ratios(summary)]
    return "\n".join([*parts, *_differences(panels, played)])


def _paper_head(summary: Mapping[str, Any]) -> str:
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
    yield f"""<h2>Ratios in the paper and in this run</h2>
<p>The price of privacy: the regret, as a multiple of that of the baseline without privacy.</p>
{_noted_table(rows, head, look="lead")}
<p class="note">The paper does not state its T. We take it to be 1e7, where most of these ratios are met. Ratios grow
with T, so those of another T cannot be compared directly.</p>"""


def _printed_row(panel: Mapping[str, Any], curve: Mapping[str, Any]) -> list[str | Cell]:
    texts = [Cell(panel["title"], "left"), Cell(curve["algorithm"], "left")]
    return [panel["panel"], *texts, _paper(curve), _ratio(curve), Cell(horizon_note(panel), "left note")]


def _noted_table(rows: list[list[str | Cell]], head: Sequence[str | Cell], look: str = "") -> str:
    """Return a table whose last column holds notes; without any note the column is left out."""
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
{_noted_table(rows, head, look="close")}
<p class="note">bound: what the theorem allows at T (for sigmoid algorithms with c_s = 0.1573). ratio: regret over that of the
baseline without privacy. paper: the ratio that it prints. theory's factor: the ratio of the bounds' leading terms, which is
itself no bound on the ratio of regrets.</p>"""


def _ratio_row(panel: Mapping[str, Any], curve: Mapping[str, Any]) -> list[str | Cell]:
    epsilon, private, here = "", ["", "", ""], ""
    if curve["epsilon"] is not None:
        epsilon, here = f"{curve['epsilon']:g}", horizon_note(panel)
        private = [_ratio(curve), _paper(curve), _known(curve["theorys_factor"], ".2f")]
    bound = _known(curve["upper_bound"], ",.0f")
    name, told = Cell(curve["algorithm"], "left"), Cell(here, "left note")
    return [panel["panel"], name, epsilon, _regret(curve), bound, *private, told]


def _known(number: float | None, form: str) -> str:
    return "" if number is None else format(number, form)


def _differences(panels: Sequence[Panel], played: Mapping[str, Sequence[Simulation]]) -> Iterator[str]:
    """Show how the ratios move with T, for the panels of which the paper prints ratios, and what follows."""
    yield """<h2>Differences from the paper, with their reasons</h2>
<p>The paper states neither the horizon of its figures nor which values of epsilon it varies (here 0.2, 0.5, 1, 2, 4).
Its ratios can only be compared at a T, and they grow with T:</p>"""
    for panel in panels:
        if isinstance(panel.shows, Ratios) and panel.shows.printed:
            yield from _difference(panel, panel.shows, played[panel.id])


def _difference(panel: Panel, ratios: Ratios, played: Sequence[Simulation]) -> Iterator[str]:
    """Show how the ratios of one panel move with T, and where they meet those that the paper prints."""
    names = [curve.name for curve in panel.others]
    rows = [
        [f"{t:,}", *(f"{value:.2f} ± {sem:.2f}" for value, sem in by_curve)]
        for t, by_curve in ratios_by_horizon(played)
    ]
    below = "below " if ratios.is_limit else ""
    rows.append(["paper", *(f"{below}{ratios.printed[name]:g}" for name in names)])
    yield f"<p>{panel.id}, {escape(panel.title)}</p>{table(rows, ('T', *names))}"
    if ratios.is_limit:
        yield "<p>The paper prints only what these ratios stay below.</p>"
        return
    baseline, one, other = played
    meetings = []
    for mine, beside in ((one, other), (other, one)):
        name = mine.algorithm.name
        meeting = ratio_reached(ratios.printed[name], mine, beside, baseline)
        meetings.append(meeting)
        yield f"<p>{_meeting(meeting, name, beside.algorithm.name, ratios.printed)}</p>"
    yield f"<p>{_together(*meetings)}</p>"


Meeting: TypeAlias = tuple[float, float] | None
"""The T at which a ratio is the printed one, and the ratio of the other algorithm there; None: at no T of this run."""


def _together(first: Meeting, second: Meeting) -> str:
    """Say whether both printed ratios occur at the same T of this run."""
    if first is None or second is None:
        return "This run is too short to show whether the two printed ratios occur together."
    apart = max(first[0], second[0]) / min(first[0], second[0])
    if apart < 1.1:  # noqa: PLR2004 - about a checkpoint's distance
        return "The two printed ratios occur together."
    return f"The two printed ratios do not occur together: the T at which they do differ by a factor of {apart:.2g}."


def _meeting(meeting: Meeting, name: str, other: str, paper: Mapping[str, float]) -> str:
    """Say at which T the ratio of an algorithm is the printed one, and what the other's is then."""
    printed = f"the paper's {paper[name]:g}"
    if meeting is None:
        return f"The ratio of {name} does not pass {printed} in this run."
    t, then = meeting
    return (
        f"The ratio of {name} is {printed} at T = {t:.2g}; that of {other} is {then:.1f} there, "
        f"where the paper prints {paper[other]:g}."
    )


def _pictures(panels: Sequence[Panel], figures: Mapping[str, bytes]) -> str:
    wide = wide_panels(panels)
    pictures = "".join(
        picture(figures[panel.id], f"Panel {panel.id}: {panel.title}", look="wide" if panel.id in wide else "")
        for panel in panels
    )
    return f"""<h2>The panels</h2>
<p class="note">Mean regret with a band of two standard errors. Thin dotted: the theorem's upper bound; thin green: the exact
lower bound for any private policy, over the last decades, since it is a limit; each where it fits into the picture. The numbers are in summary.json and, by checkpoint, in the results.csv of each bandit.</p><div class="panels">{pictures}</div>"""


def wide_panels(panels: Sequence[Panel]) -> set[str]:
    """Return the panels that get both columns of the page: those of two pictures, and one that has nobody beside it."""
    wide: set[str] = set()
    for is_double, run in groupby(panels, _is_double):
        names = [panel.id for panel in run]
        wide.update(names if is_double else names[len(names) // 2 * 2 :])
    return wide


def _is_double(panel: Panel) -> bool:
    return isinstance(panel.shows, Ratios) and panel.shows.semilog


def beyond_section(panels: Sequence[Panel], summary: Mapping[str, Any], figures: Mapping[str, bytes]) -> str:
    """Return the part beyond the paper as HTML; figures are by panel."""
    numbers = {one["panel"]: one for one in summary["panels"]}
    parts = [_beyond_head(summary)]
    for panel in panels:
        words = " ".join(escape(words) for words in (*_words(numbers[panel.id]), panel.note) if words)
        parts.append(f"<h2>{escape(panel.id)}: {escape(panel.title)}</h2>")
        parts.append(picture(figures[panel.id], f"Panel {panel.id}: {panel.title}", look="wide"))
        parts.append(f"<p>{words}</p>")
    return "\n".join([*parts, _numbers(summary), *_false_verdicts(summary)])


def _beyond_head(summary: Mapping[str, Any]) -> str:
    return f"""<h1>Beyond the paper</h1>
<p>The same arms and the same private bits, with rules that the paper does not have: <code>kl-ucb</code>, <code>kl-ucb++</code>,
<code>imed</code> and <code>ts</code>. Each panel has a horizon of its own, up to T = {summary["horizon"]:,}, seed {summary["seed"]}. Colour is by
rule; dots are without privacy. Bands are two standard errors. Grey is the exact lower bound, constant x log t: a limit for
t to infinity and for policies that learn on every instance, so that regret may lie below it for a while.</p>"""


def _words(numbers: Mapping[str, Any]) -> Iterator[str]:
    """Say in sentences what the numbers of this run show."""
    if "verdicts" in numbers:
        yield from _verdict_words(numbers["verdicts"])
        return
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


def _verdict_words(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Say how many trials under a fair coin and without one end in a wrong verdict, where the level moves."""
    moved = [row for row in rows if row["level"] == "moves"]
    for said, is_fair in (("With a fair coin", True), ("Without one", False)):
        found = [
            row for row in moved if (row["test"] == "coin") == is_fair and (is_fair or row["algorithm"] == DEFAULT)
        ]
        listed = ", ".join(f"{row['label']} by {TEST_NAMES[row['test']]} {percent(row['wrong'])}" for row in found)
        yield f"{said}, of {moved[0]['trials']:,} trials a wrong verdict was reached by: {listed}."
    yield f"At most {percent(ALPHA)} are allowed."


def _tails(numbers: Mapping[str, Any]) -> Iterator[str]:
    """Say which private rule has the smallest mean, which the smallest worst trial, and what the default has."""
    private = {curve["algorithm"]: curve for curve in numbers["curves"] if _is_private(curve)}
    least, safest = (min(private.values(), key=lambda curve: curve[name]) for name in ("regret", "worst"))
    yield f"{_name(least)} has the smallest mean of the private rules: {_mean_and_worst(least)}."
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


def _numbers(summary: Mapping[str, Any]) -> str:
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


def _false_verdicts(summary: Mapping[str, Any]) -> Iterator[str]:
    rows: list[list[str | Cell]] = [
        [
            panel["panel"],
            Cell(row["level"], "left"),
            Cell(row["label"], "left"),
            Cell(TEST_NAMES[row["test"]], "left"),
            f"{row['epsilon']:g}",
            f"{row['horizon']:,}",
            f"{row['trials']:,}",
            f"{100 * row['wrong']:.1f} ± {100 * row['wrong_sem']:.1f} %",
        ]
        for panel in summary["panels"]
        for row in panel.get("verdicts", ())
    ]
    if rows:
        left = (Cell(name, "left") for name in ("level", "algorithm", "test"))
        yield f"""<h2>Wrong verdicts in numbers</h2>
{table(rows, ("panel", *left, "epsilon", "T", "trials", "wrong"))}
<p class="note">wrong: the share of trials in which the test declares one of equal arms at some time up to T, ± one standard
error; at most {percent(ALPHA)} are allowed. Trials are inspected after every 2 % more responses.</p>"""


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
