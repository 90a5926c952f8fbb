"""`ldpbandits plan`: what an epsilon costs, before an experiment starts."""

import argparse
from dataclasses import fields, replace
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from ldpbandits.checks import LARGEST_EPSILON, SMALLEST_EPSILON
from ldpbandits.cli.common import (
    Command,
    add_load,
    load,
    name_or_json,
    named_number,
    number,
    read_jobs,
    show_result,
    table,
)
from ldpbandits.errors import ParameterError
from ldpbandits.extras import needs
from ldpbandits.output.files import check_file, write
from ldpbandits.output.provenance import Provenance

if TYPE_CHECKING:
    from ldpbandits.lab.planning.plan import Plan

NOTE_COLUMNS = 120

ABOUT = """\
How many responses it takes, at each epsilon, until the verdict: until the best arm is known to be the best, by the test
that the server uses. All arms have the baseline's mean reward, except one that is better by the lift.

  ldpbandits plan --baseline 0.05 --lift 0.1 --arms 4 --epsilon 0.5,1,2
  ldpbandits plan --baseline 0.05 --lift 0.5 --epsilon 1,2,4 --users 200000 --out plan.html
  ldpbandits plan --data past.csv --lift 0.1 --epsilon 1

Trials are played as they would be live: by duels, in equal shares, by a rule that earns meanwhile, and for comparison
without privacy. With --users also the reverse: the smallest lift and the smallest epsilon for which they are enough."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ldpbandits plan`."""
    add = parser.add_argument
    add("--baseline", type=number, metavar="P", help="the mean reward now, such as 0.05 for 5 %% clicks")
    add("--lift", type=number, required=True, metavar="L", help="the relative gain to look for: 0.1 for 10 %%")
    add("--arms", type=number, default=2, metavar="K", help="number of arms, including the present one (default 2)")
    limits = f"from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}"
    add("--epsilon", default="0.5,1,2,4", metavar="E,E,...", help=f"one or more, {limits} (default 0.5,1,2,4)")
    add("--users", type=number, metavar="N", help="how many users there will be, each of whom answers once")
    add("--per-day", type=number, metavar="N", help="users a day: then the plan says how many days it takes")
    add("--begin", metavar="DAY", help="the first day, such as 2026-01-31 (default today)")
    add("--power", type=number, default=0.8, metavar="P", help="the chance of success to plan for (default 0.8)")
    told = "the chance that no verdict is ever wrong (default 0.95, as on the server)"
    add("--confidence", type=number, default=0.95, metavar="C", help=told)
    add(
        "--rule", metavar="R", help="beside duels: a kind such as imed, paper, JSON, or MODULE:CLASS (default kl-ucb++)"
    )
    add("--missing", type=number, default=0.0, metavar="S", help="the share of the answers that never come (default 0)")
    add("--worst", action="store_true", help="count these at worst, as experiments with --missing worst do")
    add("--curator", default="ctb", metavar="C", help="ctb or ctl (default ctb)")
    data = "instead of --baseline: past rewards of one arm, in a column reward; FILE.csv#ARM picks one of several arms"
    add("--data", metavar="FILE.csv", help=data)
    add("--column", default="reward", metavar="C", help="the column of the rewards in --data (default reward)")
    told = "rewards lie in [LOW, HIGH], which devices are told; those beyond it count as its ends (default 0)"
    add("--low", type=number, metavar="LOW", help=told)
    add("--high", type=number, metavar="HIGH", help="(default 1)")
    add("--range", metavar="LOW,HIGH", help=argparse.SUPPRESS)  # the former spelling
    add("--trials", type=number, metavar="R", help="trials of the rule (default: as many as take a few seconds)")
    told = "play a rule no further than this (default 1e8; 2e6 for one that cannot leap)"
    add("--horizon", type=number, metavar="T", help=told)
    add("--seed", type=number, default=0, metavar="S", help="same seed, same numbers (default 0)")
    add("--jobs", type=number, metavar="N", help="threads (default: one per core); numbers stay the same")
    add("--out", type=Path, metavar="FILE.html", help="write a page with the tables and pictures")
    add_load(parser)


def run(options: argparse.Namespace) -> None:
    """Plan, print the tables and the verdicts, and write the page if one is asked for."""
    from ldpbandits.lab.planning.question import Question

    load(options.load)
    names = {field.name for field in fields(Question)}
    given = {name: value for name, value in vars(options).items() if name in names}
    given["epsilon"] = _numbers("epsilon", options.epsilon)
    given["rule"] = name_or_json("--rule", options.rule)
    asked = Question(**given | {"declared": _former_range(options), "jobs": read_jobs(options)})
    if options.out is not None:
        check_file(options.out)
    with needs("lab"):
        from ldpbandits.lab.planning.planner import answer
        from ldpbandits.output.progress import bar
    with bar("planning", 100) as progress:
        made = answer(replace(asked, progress=lambda part: progress(round(100 * part))))
    if options.out is not None:
        with needs("lab"):
            from ldpbandits.lab.planning.page import page
        write(options.out, page(made, Provenance.of(options.words)).encode())
    show_result(options, made.to_json, lambda: [*_report(made), *([f"The page: {options.out}"] if options.out else [])])


def _numbers(name: str, text: str) -> list[float]:
    return [named_number(name, each) for each in text.split(",")]


def _former_range(options: argparse.Namespace) -> tuple[float, float] | None:
    if options.range is None:
        return None
    if options.low is not None or options.high is not None:
        raise ParameterError("--range is the former spelling of --low and --high: give these")
    numbers = _numbers("range", options.range)
    if len(numbers) != len(("low", "high")):
        raise ParameterError(f"range is LOW,HIGH, such as 0,5, got {options.range!r}")
    return numbers[0], numbers[1]


def _report(made: "Plan") -> list[str]:
    from ldpbandits.lab.planning.plan import all_tables, heading, remarks

    lines = [made.answer, "", heading(made), *remarks(made)]
    for each in all_tables(made):
        lines += ["", each.title, table(each.head, each.rows), *wrap(each.note, NOTE_COLUMNS)]
    told = [*made.verdicts, *([] if made.reverse is None else [made.reverse])]
    return [*lines, "", *told, *([] if made.command is None else ["", "To start:", f"  {made.command}"])]


COMMAND = Command("plan", "say what an epsilon costs, before you start", add_arguments, run, about=ABOUT)
