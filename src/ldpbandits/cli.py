"""The command line, thin: parse, call, print. Bad input is one line on stderr and exit code 2."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

import ldpbandits
from ldpbandits.checks import LARGEST_EPSILON, SMALLEST_EPSILON, check_count
from ldpbandits.errors import LDPBanditsError, MissingExtra
from ldpbandits.lab.algorithms import NAMES, algorithm, is_private
from ldpbandits.lab.bound_table import BoundTable
from ldpbandits.lab.rewards import Law, parse_arms, written

if TYPE_CHECKING:
    from ldpbandits.lab.run import Simulation

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
EPSILON_HELP = f"epsilon of each response, from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}"
ARM_HELP = (
    "an arm by its law: bernoulli(p), beta(a,b), uniform(low,high), choice(v1,v2,...) or gaussian(mean,sd); "
    "5*beta(4,1) is five alike; give the option once for each"
)


class _Parser(argparse.ArgumentParser):
    """argparse, with its error on one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {message} (try {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    options, unknown = _parser().parse_known_args(arguments)
    command: Callable[[argparse.Namespace], None] = options.command
    if unknown:
        told = f"unrecognized arguments: {' '.join(unknown)} (try ldpbandits {options.name} --help)"
        print(f"ldpbandits {options.name}: {told}", file=sys.stderr)
        return BAD_INPUT
    try:
        command(options)
        sys.stdout.flush()
    except LDPBanditsError as error:
        print(f"ldpbandits {options.name}: {error}", file=sys.stderr)
        return BAD_INPUT
    except MemoryError:
        print(f"ldpbandits {options.name}: not enough memory for so many trials and arms", file=sys.stderr)
        return FAILED
    except BrokenPipeError:  # whoever read the output has seen enough; what is left in the buffer goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        print(f"ldpbandits {options.name}: cannot write the output: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
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
    simulate.add_argument("--epsilon", type=_number, metavar="E", help=f"{EPSILON_HELP}; every ldp- algorithm needs it")
    simulate.add_argument("--arm", required=True, action="append", metavar="LAW", help=ARM_HELP)
    simulate.add_argument("--horizon", required=True, type=_number, metavar="T", help="rounds a trial, such as 1e5")
    simulate.add_argument("--trials", type=_number, default=50, metavar="R", help="independent trials (default 50)")
    simulate.add_argument("--seed", type=_number, default=0, metavar="S", help="same seed, same numbers (default 0)")
    engines = "leap (default) or step: the same law in leaps, far faster, or round by round"
    simulate.add_argument("--engine", choices=["leap", "step"], default="leap", help=engines)
    simulate.add_argument("--jobs", type=_number, metavar="N", help="threads (default: one a core); changes no number")

    bounds = _command(commands, "bounds", _bounds, "print every bound of the theory for a bandit")
    bounds.add_argument("--epsilon", required=True, type=_number, metavar="E", help=EPSILON_HELP)
    bounds.add_argument("--arm", required=True, action="append", metavar="LAW", help=ARM_HELP)
    bounds.add_argument("--horizon", required=True, type=_number, metavar="T", help="rounds, such as 1e7")
    return parser


def _command(
    commands: "argparse._SubParsersAction[_Parser]", name: str, run: Callable[[argparse.Namespace], None], text: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
    parser.set_defaults(command=run, name=name)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser


def _number(text: str) -> float:
    """Read a number, whole ones without loss."""
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None


def _arms(texts: Sequence[str]) -> list[Law]:
    return [arm for text in texts for arm in parse_arms(text)]


def _bounds(options: argparse.Namespace) -> None:
    table = BoundTable(_arms(options.arm), options.epsilon, options.horizon)
    if options.json:
        _print_json(table.to_json())
        return
    bounds = table.bounds()
    unmet = list(dict.fromkeys(bound.assumes for bound in bounds if not bound.applies))
    marks = dict(zip(unmet, "abc", strict=False))
    print(f"{_counted(len(table.arms), 'arm')}, epsilon = {table.epsilon:g}, T = {table.horizon:g}")
    for kind, title in (
        ("lower", "Lower bounds, for T to infinity; at T: the constant times log T"),
        ("upper", "Upper bounds"),
    ):
        print(f"\n{title}")
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
        _print_table(("", "bound", "on the regret of", "/ log T", "at T"), rows)
    print()
    for assumes, mark in marks.items():
        print(f"{mark}  assumes {assumes}:\n   not so for these arms, as far as we can tell")
    factors = " and ".join(f"{factor:.4g} for {name}" for name, factor in table.factors().items())
    print(f"Theory's factor over ucb1, a ratio of upper bounds and no bound itself:\n{factors}.")
    print(
        "c_s is the share of a gap that the sigmoid keeps (Lemma 4): general and Gaussian\n"
        "as in the paper, or by Jensen's inequality; 'printed' has 1/c_s^2 on all terms."
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


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
            played,
            arms,
            options.horizon,
            trials=trials,
            seed=options.seed,
            engine=options.engine,
            jobs=options.jobs,
            progress=progress,
        )
    if options.json:
        _print_json(result.to_json())
    else:
        _print_simulation(result)


def _print_simulation(result: "Simulation") -> None:
    epsilon = "" if result.algorithm.epsilon is None else f", epsilon = {result.algorithm.epsilon:g}"
    last, trials = len(result.checkpoints) - 1, len(result.pulls)
    played = f"{result.algorithm.name}{epsilon}, {_counted(trials, 'trial')}"
    print(f"{played}, seed {result.seed}, {result.seconds:.1f} s\n")
    rows = [
        (f"{t:,}", f"{result.mean_regret[i]:,.1f}", "" if trials == 1 else f"{result.sem_regret[i]:,.1f}")
        for i, t in enumerate(result.checkpoints)
        if i == last or str(t).strip("0") == "1"
    ]
    _print_table(("t", "mean regret", "standard error"), rows)
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
