"""`ldpbandits calibrate`: where to put a threshold, found by private bits; simulated, or on a live server."""

import argparse
import json
from time import sleep
from typing import TYPE_CHECKING

from ldpbandits.admin.calibration import search_live
from ldpbandits.agent.bisection import Bisection
from ldpbandits.cli.common import EPSILON_HELP, Command, number, say, show_result
from ldpbandits.cli.experiments.server import add_key, admin
from ldpbandits.errors import ParameterError
from ldpbandits.extras import needs
from ldpbandits.lab.rewards import read_arms
from ldpbandits.output.numbers import plural
from ldpbandits.spec.transforms import Threshold

if TYPE_CHECKING:
    from ldpbandits.lab.calibration import Calibration

SERVER_POLL_INTERVAL_S = 1.0
"""Interval between two polls of a server."""

ABOUT = """\
Find a theta for Threshold(theta) by private bits, before the experiment proper: halve a public interval until about as
many rewards lie above its middle as do not. Each user who responds spends epsilon once.

  ldpbandits calibrate --arm 'gaussian(0.9,1)' --arm 'gaussian(0.1,1)' --low -100 --high 100 --epsilon 0.5
  ldpbandits calibrate --server https://agent.example --experiment revenue --arm blue --arm green \\
    --low 0 --high 1e6 --epsilon 0.5

On a server (its admin key in LDPBANDITS_ADMIN_KEY or --key-file) each step is an experiment, revenue-calibration-1,
-2, ..., which devices take part in by its name. The search may be stopped at any time; a restart resumes it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ldpbandits calibrate`."""
    arm = "an arm: its law, as in simulate; with --server, its name; give the option once for each"
    parser.add_argument("--arm", required=True, action="append", metavar="ARM", help=arm)
    parser.add_argument("--low", required=True, type=number, metavar="LOW", help="the low end of the interval")
    parser.add_argument("--high", required=True, type=number, metavar="HIGH", help="the high end of the interval")
    parser.add_argument("--epsilon", required=True, type=number, metavar="E", help=EPSILON_HELP)
    parser.add_argument("--seed", type=number, metavar="S", help="same seed, same numbers (default 0)")
    parser.add_argument(
        "--server",
        dest="url",
        nargs="?",
        const="",
        metavar="URL",
        help="ask the users of a live server instead of simulated ones (default URL: LDPBANDITS_URL)",
    )
    add_key(parser, "LDPBANDITS_ADMIN_KEY")
    parser.add_argument("--experiment", metavar="NAME", help="with --server: the name of the experiment proper")
    parser.add_argument(
        "--report-after",
        type=number,
        metavar="SECONDS",
        help="with --server: seconds from showing an arm to the response, whatever the reward (default 300); each step "
        "takes longer than that",
    )


def run(options: argparse.Namespace) -> None:
    """Search, and print where the threshold should be and what that has cost."""
    if options.url is not None:
        _run_live(options)
        return
    for name in ("experiment", "report_after", "key_file"):
        if getattr(options, name) is not None:
            raise ParameterError(f"--{name.replace('_', '-')} goes with --server")
    arms = read_arms(options.arm)
    with needs("lab"):
        from ldpbandits.lab.calibration import calibrate
    found = calibrate(arms, options.low, options.high, epsilon=options.epsilon, seed=options.seed or 0)
    show_result(options, found.to_json, lambda: _report(found))


def _run_live(options: argparse.Namespace) -> None:
    if options.seed is not None:
        raise ParameterError("--seed is for simulated users: --server has real ones")
    if options.experiment is None:
        raise ParameterError("--experiment is needed with --server: the steps are named after it")
    search, server = Bisection(options.low, options.high, options.epsilon), admin(options, is_change=True)
    server.list()  # a wrong URL or key is told at once; later, the server is waited for
    ended = search_live(
        server,
        options.experiment,
        options.arm,
        search,
        wait=lambda: sleep(SERVER_POLL_INTERVAL_S),
        tell=_tell,
        report_after=options.report_after,
    )
    show_result(
        options,
        lambda: {"theta": ended.theta, "curator": ended.curator.to_json(), **_cost(ended)},
        lambda: _live_report(ended),
    )


def _tell(step: str, search: Bisection) -> None:
    say(f"{step}: is the reward above {search.theta:g}? At most {search.longest:,} responses")


def _cost(search: Bisection) -> dict[str, object]:
    return {
        "halved": search.is_halved,
        "responses": search.spent,
        "steps": _steps(search),
        "interval": [search.low, search.high],
    }


def _live_report(search: Bisection) -> list[str]:
    return [
        f"theta = {search.theta:g}",
        "",
        f"{search.spent:,} responses of epsilon = {search.epsilon:g} in {plural(_steps(search), 'step')}",
        f"interval left: [{search.low:g}, {search.high:g}]",
        _ending(search),
        "",
        f"Create the experiment with the curator {json.dumps(search.curator.to_json())}",
    ]


def _report(found: "Calibration") -> list[str]:
    search = found.search
    name = f"ldp-imed-t({Threshold(search.theta).shown})"
    return [
        f"theta = {search.theta:g}",
        "",
        f"{search.spent:,} responses of epsilon = {search.epsilon:g} in {plural(_steps(search), 'step')}",
        f"regret meanwhile: {found.regret:,.1f}",
        f"interval left: [{search.low:g}, {search.high:g}] of [{found.low:g}, {found.high:g}]",
        _ending(search),
        f"P(reward > theta) over all arms, by their laws: {found.above:.3f}",
        "",
        f"Play with it: ldpbandits simulate --algorithm '{name}' --epsilon {search.epsilon:g} ...",
    ]


def _steps(search: Bisection) -> int:
    return search.step + search.is_halved


def _ending(search: Bisection) -> str:
    """Return why the search ended, in words."""
    if search.is_halved:
        return "about as many rewards lie above theta as do not"
    return "no theta halves the rewards: many are one number; theta is the end of the interval that is nearer to a half"


COMMAND = Command(
    "calibrate", "find a threshold for unbounded rewards by private bits", add_arguments, run, about=ABOUT
)
