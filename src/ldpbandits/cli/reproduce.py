"""`ldpbandits reproduce`: the paper's nine panels and those beyond it, as data, figures and a report."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from ldpbandits.checks import check_count
from ldpbandits.cli.common import Command, add_workers, number, read_jobs, show_result, table
from ldpbandits.extras import needs
from ldpbandits.output.numbers import plural
from ldpbandits.output.provenance import Provenance

Beside: TypeAlias = Callable[[Mapping[str, Any]], str]
"""Returns the text that stands next to the ratios of a panel."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ldpbandits reproduce`."""
    parser.description = (
        "Play the paper's nine panels, and eight beyond the paper: rules that reach the exact lower bound, the worst "
        "trials, a threshold, an epsilon for each user, wrong verdicts under drift. Data, figures, a report. Panels "
        "that DIR holds from an earlier run stay in its summary, tables and report; what this version has played "
        "before is not played again. With another T, number of trials or seed they cannot stay; then a run of only "
        "some panels of a part is refused."
    )
    parser.add_argument("--out", type=Path, default=Path("results"), metavar="DIR", help="folder (default results)")
    parser.add_argument("--part", choices=("paper", "beyond", "all"), default="all", help="which part (default all)")
    told = (
        "1a to 2c, bernoulli-2, bernoulli-1, bernoulli-0.2, mixed-1, tails, threshold, own-epsilon, drift; repeatable"
    )
    parser.add_argument("--panel", action="append", default=[], metavar="ID", help=told)
    told = "rounds per trial (default 1e7; beyond the paper, that of each panel; if given, no panel has more)"
    parser.add_argument("--horizon", type=number, metavar="T", help=told)
    told = "trials per curve (default 50, as in the paper; times 20 in tails and drift, 0.4 in bernoulli-0.2, 0.2 in "
    told += "own-epsilon)"
    parser.add_argument("--trials", type=number, metavar="R", help=told)
    parser.add_argument("--quick", action="store_true", help="T = 1e6 and 20 trials, unless given")
    parser.add_argument("--seed", type=number, default=0, metavar="S", help="same seed, same numbers (default 0)")
    add_workers(parser)


def run(options: argparse.Namespace) -> None:
    """Play what has not been played yet, write everything into the folder, and print the ratios."""
    with needs("lab"):
        from ldpbandits.lab.cluster import workers
        from ldpbandits.lab.panels.resume import BEYOND, PAPER, PARTS, Settings, resume, select_ids
        from ldpbandits.lab.panels.summary import horizon_note
        from ldpbandits.lab.reproduce import count_trials, plan_parts, reproduce
        from ldpbandits.output.progress import bar
    asked = select_ids(options.panel, PARTS[options.part])
    given = 10**6 if options.quick and options.horizon is None else options.horizon
    usual_trials = 20 if options.quick else 50
    trials = check_count("trials", usual_trials if options.trials is None else options.trials, least=2)
    seed = check_count("seed", options.seed, least=0)
    paper, beyond = (
        resume(part, asked, options.out, Settings(horizon, trials, seed))
        for part, horizon in (
            (one, check_count("horizon", one.usual_horizon if given is None else given, least=1_000))
            for one in (PAPER, BEYOND)
        )
    )
    panels = plural(len(paper.panels) + len(beyond.panels), "panel")
    with (
        workers(options.cluster) as executor,
        bar(f"{panels}, trials", count_trials(plan_parts(paper, beyond).values())) as progress,
    ):
        summary = reproduce(
            paper,
            beyond,
            options.out,
            jobs=read_jobs(options),
            executor=executor,
            progress=progress,
            made=Provenance.of(options.words),
        )
    show_result(options, lambda: summary, lambda: _report(summary, options.out, horizon_note))


def _report(summary: Mapping[str, Any], out: Path, beside: Beside) -> Iterator[str]:
    settings = f"T = {summary['horizon']:,}, {summary['trials']} trials, seed {summary['seed']}"
    head = ("panel", "algorithm", "epsilon", "regret", "ratio", "+-")
    printed = [(*row, paper, told) for row, paper, told in _rows(summary, beside) if paper]
    if printed:
        yield f"Ratios in the paper and in this run: {settings}"
        yield ""
        yield table((*head, "paper", ""), printed)
        yield ""
    others = [(*row, told) for row, paper, told in _rows(summary, beside) if not paper]
    if others:
        yield "The paper's other panels" if printed else f"The paper: {settings}"
        yield ""
        yield table((*head, ""), others)
        yield ""
    further = summary["beyond"]
    if further["panels"]:
        yield f"Beyond the paper: T up to {further['horizon']:,}, seed {further['seed']}"
        yield ""
        numbers = ("regret", "+-", "over limit", "+-", "slope", "+-", "worst")
        yield from _table_of(("panel", "algorithm", "epsilon", "T", "trials", *numbers), _further_rows(further))
        columns = ("panel", "level", "algorithm", "test", "epsilon", "T", "trials", "wrong", "+-")
        yield from _table_of(columns, _verdict_rows(further))
    yield f"Played in {summary['seconds']:.0f} s. The report, with all figures: {out / 'report.html'}"


def _table_of(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    found = list(rows)
    if found:
        yield table(head, found)
        yield ""


def _verdict_rows(summary: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for panel in summary["panels"]:
        for row in panel.get("verdicts", ()):
            texts = (row[name] for name in ("level", "algorithm", "test"))
            counts = f"{row['epsilon']:g}", f"{row['horizon']:,}", f"{row['trials']:,}"
            yield panel["panel"], *texts, *counts, f"{100 * row['wrong']:.1f} %", f"{100 * row['wrong_sem']:.1f} %"


def _rows(summary: Mapping[str, Any], beside: Beside) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """The numbers of each private curve, what the paper prints, and what is said beside them."""
    for panel in summary["panels"]:
        for curve in panel["curves"]:
            if curve["epsilon"] is not None:
                numbers = (
                    panel["panel"],
                    curve["algorithm"],
                    f"{curve['epsilon']:g}",
                    f"{curve['regret']:,.0f}",
                    f"{curve['ratio']:.2f}",
                    f"{curve['ratio_sem']:.2f}",
                )
                below = "<" if curve["paper_is_limit"] else ""
                yield numbers, "" if curve["paper"] is None else f"{below}{curve['paper']:g}", beside(panel)


def _further_rows(summary: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for panel in summary["panels"]:
        for curve in panel["curves"]:
            beside = (curve[name] for name in ("over_limit", "over_limit_sem", "slope", "slope_sem"))
            yield (
                panel["panel"],
                curve["label"],
                "" if curve["epsilon"] is None else f"{curve['epsilon']:g}",
                f"{curve['horizon']:,}",
                f"{curve['trials']:,}",
                f"{curve['regret']:,.0f}",
                f"{curve['regret_sem']:,.0f}",
                *("" if number is None else f"{number:.2f}" for number in beside),
                f"{curve['worst']:,.0f}",
            )


COMMAND = Command(
    "reproduce", "play the paper's nine panels and those beyond: data, figures, a report", add_arguments, run
)
