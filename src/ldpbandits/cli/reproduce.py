"""`ldpbandits reproduce`: the paper's nine panels, as data, figures and a report."""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ldpbandits.checks import check_count
from ldpbandits.cli.common import Command, add_workers, number, plural, read_jobs, show, show_json, table, workers
from ldpbandits.extras import needs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.description = (
        "Play the paper's nine panels: data, figures, a report. Panels that DIR holds from an earlier run stay in its "
        "summary, tables and report; what this version has played before is not played again. With another T, number "
        "of trials or seed they cannot stay, and a run that leaves some of them out is refused."
    )
    parser.add_argument("--out", type=Path, default=Path("results"), metavar="DIR", help="folder (default results)")
    parser.add_argument("--panel", action="append", default=[], metavar="ID", help="1a to 1f, 2a to 2c; repeatable")
    parser.add_argument("--horizon", type=number, metavar="T", help="rounds a trial (default 1e7)")
    parser.add_argument("--trials", type=number, metavar="R", help="trials a curve (default 50, as in the paper)")
    parser.add_argument("--quick", action="store_true", help="T = 1e6 and 20 trials, unless given")
    parser.add_argument("--seed", type=number, default=0, metavar="S", help="same seed, same numbers (default 0)")
    add_workers(parser)


def run(options: argparse.Namespace) -> None:
    """Play what has not been played yet, write everything into the folder, and print the ratios."""
    with needs("lab"):
        from ldpbandits.lab.earlier import Settings, with_earlier
        from ldpbandits.lab.paper import panels
        from ldpbandits.lab.reproduce import count, reproduce
        from ldpbandits.output.progress import bar
    asked = panels(options.panel)
    usual_horizon, usual_trials = (10**6, 20) if options.quick else (10**7, 50)
    horizon = check_count("horizon", usual_horizon if options.horizon is None else options.horizon, least=1_000)
    trials = check_count("trials", usual_trials if options.trials is None else options.trials, least=2)
    seed = check_count("seed", options.seed, least=0)
    chosen = with_earlier(asked, options.out, Settings(horizon, trials, seed))
    with (
        workers(options) as executor,
        bar(f"{plural(len(chosen), 'panel')}, trials", count(chosen, trials)) as progress,
    ):
        summary = reproduce(
            chosen,
            options.out,
            horizon=horizon,
            trials=trials,
            seed=seed,
            jobs=read_jobs(options),
            executor=executor,
            progress=progress,
        )
    if options.json:
        show_json(summary)
    else:
        show(*_report(summary, options.out))


def _report(summary: Mapping[str, Any], out: Path) -> list[str]:
    settings = f"T = {summary['horizon']:,}, {summary['trials']} trials, seed {summary['seed']}"
    return [
        f"{settings}, {summary['seconds']:.0f} s",
        "",
        table(("panel", "algorithm", "epsilon", "regret", "ratio", "+-", "paper"), list(_rows(summary))),
        "",
        f"The report, with all figures: {out / 'report.html'}",
    ]


def _rows(summary: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for panel in summary["panels"]:
        for curve in panel["curves"]:
            if curve["epsilon"] is not None:
                yield (
                    panel["panel"],
                    curve["algorithm"],
                    f"{curve['epsilon']:g}",
                    f"{curve['regret']:,.0f}",
                    f"{curve['ratio']:.2f}",
                    f"{curve['ratio_sem']:.2f}",
                    "" if curve["paper"] is None else f"{'<' if curve['paper_is_limit'] else ''}{curve['paper']:g}",
                )


COMMAND = Command("reproduce", "play the paper's nine panels: data, figures, a report", add_arguments, run)
