"""`ldpbandits calibrate`: where to put a threshold, found by private bits; simulated, or on a live server."""

import argparse
import json
import os
from time import sleep
from typing import TYPE_CHECKING

from ldpbandits.admin.admin import Admin
from ldpbandits.admin.calibration import search_live
from ldpbandits.agent.bisection import Bisection
from ldpbandits.cli.common import EPSILON_HELP, Command, number, plural, read_arms, say, show, show_json
from ldpbandits.errors import ParameterError
from ldpbandits.extras import needs
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

On a server (its admin key in LDPBANDITS_ADMIN_KEY) each step is an experiment, revenue-calibration-1, -2, ..., which
devices take part in by its name. It may be stopped and started again at any time."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ldpbandits calibrate`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = ABOUT
    arm = "an arm: its law, as in simulate; with --server, its name; give the option once for each"
    parser.add_argument("--arm", required=True, action="append", metavar="ARM", help=arm)
    parser.add_argument("--low", required=True, type=number, metavar="LOW", help="the low end of the interval")
    parser.add_argument("--high", required=True, type=number, metavar="HIGH", help="the high end of the interval")
    parser.add_argument("--epsilon", required=True, type=number, metavar="E", help=EPSILON_HELP)
    parser.add_argument("--seed", type=number, metavar="S", help="same seed, same numbers (default 0)")
    parser.add_argument("--server", metavar="URL", help="ask the users of a live server instead of simulated ones")
    parser.add_argument("--experiment", metavar="NAME", help="with --server: what the experiment proper will be called")
    parser.add_argument(
        "--report-after",
        type=number,
        metavar="SECONDS",
        help="with --server: how long after its arm a device responds, whatever the reward (default 300); each step "
        "takes longer than that",
    )


def run(options: argparse.Namespace) -> None:
    """Search, and print where the threshold should be and what that has cost."""
    if options.server is not None:
        _run_live(options)
        return
    for name in ("experiment", "report_after"):
        if getattr(options, name) is not None:
            raise ParameterError(f"--{name.replace('_', '-')} goes with --server")
    arms = read_arms(options.arm)
    with needs("lab"):
        from ldpbandits.lab.calibration import calibrate
    found = calibrate(arms, options.low, options.high, epsilon=options.epsilon, seed=options.seed or 0)
    if options.json:
        show_json(found.to_json())
    else:
        show(*_report(found))


def _run_live(options: argparse.Namespace) -> None:
    if options.seed is not None:
        raise ParameterError("--seed is for simulated users: --server has real ones")
    if options.experiment is None:
        raise ParameterError("--experiment is needed with --server: the steps are named after it")
    key = os.environ.get("LDPBANDITS_ADMIN_KEY")
    if not key:
        raise ParameterError("LDPBANDITS_ADMIN_KEY is needed with --server: the key that the server has printed")
    search, admin = Bisection(options.low, options.high, options.epsilon), Admin(options.server, key)
    admin.list()  # a wrong URL or key is told at once; later, the server is waited for
    ended = search_live(
        admin,
        options.experiment,
        options.arm,
        search,
        wait=lambda: sleep(SERVER_POLL_INTERVAL_S),
        tell=_tell,
        report_after=options.report_after,
    )
    if options.json:
        show_json({"theta": ended.theta, "curator": ended.curator.to_json(), **_cost(ended)})
    else:
        show(*_live_report(ended))


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


COMMAND = Command("calibrate", "find a threshold for unbounded rewards by private bits", add_arguments, run)
