"""The command line, thin: parse, call, print. Bad input is one line on stderr and exit code 2."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

import ldpbandits
from ldpbandits.checks import check_count
from ldpbandits.errors import LDPBanditsError, MissingExtra
from ldpbandits.lab.algorithms import NAMES, algorithm, is_private
from ldpbandits.lab.bound_table import BoundTable
from ldpbandits.lab.rewards import LAWS, Law, parse_arms, written

if TYPE_CHECKING:
    from ldpbandits.lab.run import Simulation

OK, BAD_INPUT, INTERRUPTED = 0, 2, 130
ARM_HELP = f"an arm, such as 'bernoulli(0.9)' or '5*beta(4,1)' for five alike; laws: {', '.join(LAWS)}; repeatable"


class _Parser(argparse.ArgumentParser):
    """argparse, with its error on one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {message} (try {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    command: Callable[[argparse.Namespace], None] = options.command
    try:
        command(options)
        sys.stdout.flush()
    except LDPBanditsError as error:
        print(f"ldpbandits {options.name}: {error}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:  # whoever read the output has seen enough; what is left in the buffer goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print(f"ldpbandits {options.name}: interrupted", file=sys.stderr)
        return INTERRUPTED
    return OK


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="ldpbandits", description=ldpbandits.__doc__, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"ldpbandits {ldpbandits.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    simulate = _command(commands, "simulate", _simulate, "play an algorithm on a bandit and print its regret")
    simulate.add_argument("--algorithm", required=True, metavar="A", help=f"one of {', '.join(NAMES)}")
    simulate.add_argument(
        "--epsilon", type=_number, metavar="E", help="epsilon of each response, for private algorithms"
    )
    simulate.add_argument("--arm", required=True, action="append", metavar="LAW", help=ARM_HELP)
    simulate.add_argument("--horizon", required=True, type=_number, metavar="T", help="rounds a trial, such as 1e5")
    simulate.add_argument("--trials", type=_number, default=50, metavar="R", help="independent trials (default 50)")
    simulate.add_argument("--seed", type=_number, default=0, metavar="S", help="same seed, same numbers (default 0)")
    simulate.add_argument(
        "--engine", choices=["step"], default="step", help="how to simulate (default step: every round)"
    )
    simulate.add_argument("--jobs", type=_number, metavar="N", help="threads (default: one a core); changes no number")

    bounds = _command(commands, "bounds", _bounds, "print every bound of the theory for a bandit")
    bounds.add_argument("--epsilon", required=True, type=_number, metavar="E", help="epsilon of each response")
    bounds.add_argument("--arm", required=True, action="append", metavar="LAW", help=ARM_HELP)
    bounds.add_argument("--horizon", required=True, type=_number, metavar="T", help="rounds, such as 1e7")
    return parser


def _command(
    commands: "argparse._SubParsersAction[_Parser]", name: str, run: Callable[[argparse.Namespace], None], text: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
    parser.set_defaults(command=run, name=name)
    parser.add_argument("--json", action="store_true", help="print JSON on stdout; progress stays on stderr")
    return parser


def _number(text: str) -> float:
    """Read a number; argparse reports what is not one."""
    value = float(text)
    return int(value) if value.is_integer() else value


_number.__name__ = "number"  # argparse says "invalid number value"


def _arms(texts: Sequence[str]) -> list[Law]:
    return [arm for text in texts for arm in parse_arms(text)]


def _bounds(options: argparse.Namespace) -> None:
    table = BoundTable(_arms(options.arm), options.epsilon, options.horizon)
    if options.json:
        _print_json(table.to_json())
        return
    print(f"{len(table.arms)} arms, epsilon = {table.epsilon:g}, T = {table.horizon:g}\n")
    rows = [
        (
            "" if bound.applies else "*",
            bound.name,
            bound.kind,
            bound.of,
            "" if bound.per_log_t is None else f"{bound.per_log_t:.4g}",
            "" if bound.at_horizon is None else f"{bound.at_horizon:.5g}",
        )
        for bound in table.bounds()
    ]
    _print_table(("", "bound", "kind", "on the regret of", "/ log T", "at T"), rows)
    print("\nLower bounds hold for T to infinity: their column 'at T' is the constant times log T.")
    for assumes in dict.fromkeys(bound.assumes for bound in table.bounds() if not bound.applies):
        print(f"* assumes {assumes}, which these arms are not known to satisfy.")
    for name, factor in table.factors().items():
        print(f"Theory's factor of {name} over ucb1 (a ratio of upper bounds, not a bound): {factor:.4g}")


def _simulate(options: argparse.Namespace) -> None:
    epsilon = options.epsilon
    if options.algorithm in NAMES and not is_private(options.algorithm) and epsilon is not None:
        print(f"ldpbandits simulate: {options.algorithm} is not private, --epsilon has no effect", file=sys.stderr)
        epsilon = None
    played, arms = algorithm(options.algorithm, epsilon), _arms(options.arm)
    trials = check_count("trials", options.trials)
    try:
        from ldpbandits.lab.progress import bar
        from ldpbandits.lab.run import simulate
    except ModuleNotFoundError as error:
        raise MissingExtra(f"needs {error.name}: pip install 'ldpbandits[lab]'") from None
    with bar(f"{played.name}, T = {options.horizon:g}", trials) as progress:
        result = simulate(
            played, arms, options.horizon, trials=trials, seed=options.seed, jobs=options.jobs, progress=progress
        )
    if options.json:
        _print_json(result.to_json())
    else:
        _print_simulation(result)


def _print_simulation(result: "Simulation") -> None:
    epsilon = "" if result.algorithm.epsilon is None else f", epsilon = {result.algorithm.epsilon:g}"
    print(f"{result.algorithm.name}{epsilon}, {len(result.pulls)} trials, seed {result.seed}, {result.seconds:.1f} s\n")
    last = len(result.checkpoints) - 1
    rows = [
        (f"{t:,}", f"{result.mean_regret[i]:,.1f}", f"{result.sem_regret[i]:,.1f}")
        for i, t in enumerate(result.checkpoints)
        if i == last or str(t).strip("0") == "1"
    ]
    _print_table(("t", "regret", "+-"), rows)
    print("\nMean pulls of each arm at the end:")
    pulls = zip(result.arms, result.pulls[:, -1].mean(axis=0), strict=True)
    rows = [(f"{arm}", written(law), f"{count:,.1f}") for arm, (law, count) in enumerate(pulls)]
    _print_table(("arm", "law", "pulls"), rows)


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns, numbers to the right."""
    for row in _aligned(header, rows):
        print("  ".join(row).rstrip())


def _aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    columns = []
    for title, *cells in zip(header, *rows, strict=True):
        width = max(len(title), *map(len, cells))
        is_numeric = all(cell[0].isdigit() for cell in cells if cell)
        columns.append([cell.rjust(width) if is_numeric else cell.ljust(width) for cell in (title, *cells)])
    return zip(*columns, strict=True)


def _print_json(data: object) -> None:
    print(json.dumps(data, indent=2, allow_nan=False))


if __name__ == "__main__":
    sys.exit(main())
