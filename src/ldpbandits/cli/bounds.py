"""`ldpbandits bounds`: every bound of the theory for a bandit. It needs no extra."""

import argparse
from collections.abc import Mapping, Sequence

from ldpbandits.cli.common import ARM_HELP, EPSILON_HELP, MIX_HELP, Command, number, show_result, table
from ldpbandits.lab.mix import Mix
from ldpbandits.lab.rewards import read_arms
from ldpbandits.output.numbers import plural
from ldpbandits.theory.table import Bound, BoundTable

TITLES = {
    "lower": "Lower bounds, for T to infinity; at T: the constant times log T",
    "upper": "Upper bounds",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ldpbandits bounds`."""
    parser.add_argument("--epsilon", required=True, type=number, metavar="E", help=EPSILON_HELP)
    parser.add_argument("--arm", required=True, action="append", metavar="LAW", help=ARM_HELP)
    parser.add_argument("--horizon", required=True, type=number, metavar="T", help="rounds, such as 1e7")
    theta = "also bound policies that see only private bits of reward > THETA, for arms of any law"
    parser.add_argument("--epsilon-mix", metavar="MIX", help=f"also bound policies on the bits of {MIX_HELP}")
    parser.add_argument("--theta", type=number, metavar="THETA", help=theta)


def run(options: argparse.Namespace) -> None:
    """Print the bounds as JSON or as tables."""
    mix = None if options.epsilon_mix is None else Mix.parse(options.epsilon_mix)
    shares = None if mix is None else dict(zip(mix.menu.epsilons, mix.shares, strict=True))
    theory = BoundTable(read_arms(options.arm), options.epsilon, options.horizon, theta=options.theta, mix=shares)
    show_result(options, theory.to_json, lambda: _report(theory))


def _report(theory: BoundTable) -> list[str]:
    bounds = theory.bounds()
    unmet = list(dict.fromkeys(bound.assumes for bound in bounds if not bound.applies))
    marks = dict(zip(unmet, "abcd", strict=False))
    factors = " and ".join(f"{factor:.4g} for {name}" for name, factor in theory.factors().items())
    return [
        f"{plural(len(theory.arms), 'arm')}, epsilon = {theory.epsilon:g}, T = {theory.horizon:g}",
        *(line for kind in TITLES for line in ("", TITLES[kind], _table(bounds, kind, marks))),
        "",
        *(
            f"{mark}  assumes {assumes}:\n   not so for these arms, as far as we can tell"
            for assumes, mark in marks.items()
        ),
        f"Theory's factor over ucb1, a ratio of upper bounds and no bound itself:\n{factors}.",
        "c_s is the share of a gap that the sigmoid keeps (Lemma 4): general and Gaussian",
        "as in the paper, or by Jensen's inequality; 'printed' has 1/c_s^2 on all terms.",
    ]


def _table(bounds: Sequence[Bound], kind: str, marks: Mapping[str, str]) -> str:
    rows = [
        (
            "" if bound.applies else marks[bound.assumes],
            bound.name,
            bound.of,
            "" if bound.per_log_t is None else f"{bound.per_log_t:.4g}",
            "" if bound.at_horizon is None else f"{bound.at_horizon:.5g}",
        )
        for bound in bounds
        if bound.kind == kind
    ]
    return table(("", "bound", "policy", "/ log T", "at T"), rows)


COMMAND = Command("bounds", "print every bound of the theory for a bandit", add_arguments, run)
