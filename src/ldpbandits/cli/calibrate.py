"""`ldpbandits calibrate`: where to put a threshold, found by private bits; simulated, or on a live server."""

import argparse
import os
from typing import TYPE_CHECKING

from ldpbandits.agent.bisection import Bisection
from ldpbandits.cli.common import EPSILON_HELP, Command, number, plural, read_arms, say, show, show_json
from ldpbandits.errors import ParameterError
from ldpbandits.extras import needs

if TYPE_CHECKING:
    from ldpbandits.lab.calibration import Calibration

ABOUT = """\
Find a theta for Threshold(theta) by private bits, before the experiment proper: halve a public interval until about as
many rewards lie above its middle as do not. Each user who responds spends epsilon once.

  ldpbandits calibrate --arm 'gaussian(0.9,1)' --arm 'gaussian(0.1,1)' --low -100 --high 100 --epsilon 0.5"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = ABOUT
    parser.add_argument(
        "--arm", required=True, action="append", metavar="LAW", help="an arm by its law, as in simulate; repeatable"
    )
    parser.add_argument("--low", required=True, type=number, metavar="LOW", help="the low end of the interval")
    parser.add_argument("--high", required=True, type=number, metavar="HIGH", help="the high end of the interval")
    parser.add_argument("--epsilon", required=True, type=number, metavar="E", help=EPSILON_HELP)
    parser.add_argument("--seed", type=number, metavar="S", help="same seed, same numbers (default 0)")


def run(options: argparse.Namespace) -> None:
    """Search, and print where the threshold should be and what that has cost."""
    arms = read_arms(options.arm)
    with needs("lab"):
        from ldpbandits.lab.calibration import calibrate
    found = calibrate(arms, options.low, options.high, epsilon=options.epsilon, seed=options.seed or 0)
    if options.json:
        show_json(found.to_json())
    else:
        show(*_report(found))


def _report(found: "Calibration") -> list[str]:
    search = found.search
    name = f"ldp-imed-t({search.curator.transform.shown})"
    return [
        f"theta = {search.theta:g}",
        "",
        f"{search.spent:,} responses of epsilon = {search.epsilon:g} in {plural(_steps(search), 'step')}, "
        f"one a user; regret meanwhile {found.regret:,.1f}",
        f"interval left: [{search.low:g}, {search.high:g}] of [{found.low:g}, {found.high:g}]",
        _ending(search),
        f"P(reward > theta) over all arms, by their laws: {found.above:.3f}",
        "",
        f"Play with it: ldpbandits simulate --algorithm '{name}' --epsilon {search.epsilon:g} ...",
    ]


def _steps(search: Bisection) -> int:
    return search.step + search.is_halved


def _ending(search: Bisection) -> str:
    """Say why it ended."""
    if search.is_halved:
        return "about as many rewards lie above theta as do not"
    return "no theta halves the rewards: many are one number; theta is the end of the interval that is nearer to a half"


COMMAND = Command("calibrate", "find a threshold for unbounded rewards by private bits", add_arguments, run)
