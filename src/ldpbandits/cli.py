"""The command line, thin: parse, call, print. Bad input is one line on stderr and exit code 2."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import ldpbandits
from ldpbandits.audit import command as audit_command
from ldpbandits.checks import LARGEST_EPSILON, SMALLEST_EPSILON, check_count
from ldpbandits.errors import LDPBanditsError, MissingExtra, OutputError, ParameterError
from ldpbandits.lab import demo
from ldpbandits.lab.algorithms import NAMES, algorithm, is_private
from ldpbandits.lab.rewards import Law, parse_arms, written
from ldpbandits.server import command as server
from ldpbandits.theory.table import BoundTable

if TYPE_CHECKING:
    from concurrent.futures import Executor

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
    command: Callable[[argparse.Namespace], int | None] = options.command
    if unknown:
        told = f"unrecognized arguments: {' '.join(unknown)} (try ldpbandits {options.name} --help)"
        print(f"ldpbandits {options.name}: {told}", file=sys.stderr)
        return BAD_INPUT
    code: int | None = OK
    try:
        code = command(options)
        sys.stdout.flush()
    except LDPBanditsError as error:
        print(f"ldpbandits {options.name}: {error}", file=sys.stderr)
        return FAILED if isinstance(error, OutputError) and error.is_full else BAD_INPUT
    except MemoryError:
        print(f"ldpbandits {options.name}: not enough memory for so many trials and arms", file=sys.stderr)
        return FAILED
    except BrokenPipeError:  # whoever read the output has seen enough; what is left in the buffer goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        told = f"cannot write the output: {error.strerror}" if error.errno else str(error)
        print(f"ldpbandits {options.name}: {told}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        print(f"ldpbandits {options.name}: interrupted", file=sys.stderr)
        return INTERRUPTED
    return code or OK


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="ldpbandits", description=ldpbandits.__doc__, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"ldpbandits {ldpbandits.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    simulate = _command(commands, "simulate", _simulate, "play an algorithm on a bandit and print its regret")
    simulate.add_argument(
        "file", nargs="?", type=Path, metavar="FILE.toml", help="an experiment; instead of the options below"
    )
    simulate.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the results of FILE.toml (default: its name)"
    )
    simulate.add_argument("--algorithm", metavar="A", help=f"one of {', '.join(NAMES)}")
    simulate.add_argument("--epsilon", type=_number, metavar="E", help=f"{EPSILON_HELP}; every ldp- algorithm needs it")
    simulate.add_argument("--arm", action="append", metavar="LAW", help=ARM_HELP)
    simulate.add_argument("--horizon", type=_number, metavar="T", help="rounds a trial, such as 1e5")
    simulate.add_argument("--trials", type=_number, metavar="R", help="independent trials (default 50)")
    simulate.add_argument("--seed", type=_number, metavar="S", help="same seed, same numbers (default 0)")
    engines = "leap (default) or step: the same law in leaps, far faster, or round by round"
    simulate.add_argument("--engine", choices=["leap", "step"], help=engines)
    _add_workers(simulate)

    reproduce = _command(commands, "reproduce", _reproduce, "play the paper's nine panels: data, figures, a report")
    reproduce.add_argument("--out", type=Path, default=Path("results"), metavar="DIR", help="folder (default results)")
    reproduce.add_argument("--panel", action="append", default=[], metavar="ID", help="1a to 1f, 2a to 2c; repeatable")
    reproduce.add_argument("--horizon", type=_number, metavar="T", help="rounds a trial (default 1e7)")
    reproduce.add_argument("--trials", type=_number, metavar="R", help="trials a curve (default 50, as in the paper)")
    reproduce.add_argument("--quick", action="store_true", help="T = 1e6 and 20 trials, unless given")
    reproduce.add_argument("--seed", type=_number, default=0, metavar="S", help="same seed, same numbers (default 0)")
    _add_workers(reproduce)

    bounds = _command(commands, "bounds", _bounds, "print every bound of the theory for a bandit")
    bounds.add_argument("--epsilon", required=True, type=_number, metavar="E", help=EPSILON_HELP)
    bounds.add_argument("--arm", required=True, action="append", metavar="LAW", help=ARM_HELP)
    bounds.add_argument("--horizon", required=True, type=_number, metavar="T", help="rounds, such as 1e7")

    server.add_arguments(_command(commands, "serve", server.serve, server.HELP, json=False))
    demo.add_arguments(_command(commands, "demo", demo.demo, demo.HELP))
    audit = _command(commands, "audit", audit_command.run, "check that a curator, ours or anyone's, keeps its epsilon")
    audit_command.add_options(audit)
    return parser


def _command(
    commands: "argparse._SubParsersAction[_Parser]",
    name: str,
    run: Callable[[argparse.Namespace], int | None],
    text: str,
    *,
    json: bool = True,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
    parser.set_defaults(command=run, name=name)
    if json:
        parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser


def _add_workers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=_number, metavar="N", help="threads (default: one a core); changes no number")
    parser.add_argument("--cluster", metavar="ADDRESS", help="play on a Dask cluster, such as tcp://10.0.0.1:8786")


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
    if options.file is not None:
        _simulate_file(options)
        return
    if options.cluster is not None or options.out is not None:
        raise ParameterError("--cluster and --out go with an experiment in a file: simulate FILE.toml")
    for name in ("algorithm", "arm", "horizon"):
        if getattr(options, name) is None:
            raise ParameterError(f"--{name} is needed, unless there is a FILE.toml")
    epsilon = options.epsilon
    if options.algorithm in NAMES and not is_private(options.algorithm) and epsilon is not None:
        print(f"ldpbandits simulate: {options.algorithm} is not private, --epsilon has no effect", file=sys.stderr)
        epsilon = None
    played, arms = algorithm(options.algorithm, epsilon), _arms(options.arm)
    trials = check_count("trials", 50 if options.trials is None else options.trials)
    with _lab():
        from ldpbandits.lab.run import simulate
        from ldpbandits.output.progress import bar
    with bar(f"{played.name}, T = {options.horizon:g}", trials) as progress:
        result = simulate(
            played,
            arms,
            options.horizon,
            trials=trials,
            seed=options.seed or 0,
            engine=options.engine,
            jobs=options.jobs,
            progress=progress,
        )
    if options.json:
        _print_json(result.to_json())
    else:
        _print_simulation(result)


def _simulate_file(options: argparse.Namespace) -> None:
    for name in ("algorithm", "epsilon", "arm", "horizon", "trials", "seed", "engine"):
        if getattr(options, name) is not None:
            raise ParameterError(f"--{name} and a file: what is played is in the file")
    with _lab():
        from ldpbandits.lab.experiments import Experiment
        from ldpbandits.lab.results import Folder, write_results
        from ldpbandits.lab.run import play_all
        from ldpbandits.output.progress import bar
    experiment = Experiment.from_toml(options.file)
    out = options.file.with_suffix("") if options.out is None else options.out
    if out == options.file:
        raise ParameterError(f"the results of {options.file} need a folder of another name: give --out")
    folder, curves = Folder(out), experiment.curves()
    with _workers(options) as executor, bar(options.file.name, len(curves) * experiment.trials) as progress:
        pulls = play_all(
            curves, experiment.trials, executor=executor, jobs=_jobs(options), store=folder, progress=progress
        )
    simulations = experiment.simulations(pulls)
    write_results(out, experiment, simulations)
    if options.json:
        _print_json([made.to_json() for made in simulations])
        return
    rows = [
        (
            made.algorithm.name,
            "" if made.algorithm.epsilon is None else f"{made.algorithm.epsilon:.12g}",
            f"{made.mean_regret[-1]:,.1f}",
            "" if experiment.trials == 1 else f"{made.sem_regret[-1]:,.1f}",
        )
        for made in simulations
    ]
    print(f"T = {experiment.horizon:,}, {_counted(experiment.trials, 'trial')}, seed {experiment.seed}\n")
    _print_table(("algorithm", "epsilon", "mean regret", "standard error"), rows)
    print(f"\nIn {out}: results.csv, by checkpoint; experiment.json, to run it again; trials, to go on from.")


def _reproduce(options: argparse.Namespace) -> None:
    with _lab():
        from ldpbandits.lab.paper import panels
        from ldpbandits.lab.reproduce import count, reproduce
        from ldpbandits.output.progress import bar
    chosen = panels(options.panel)
    default_horizon, default_trials = (10**6, 20) if options.quick else (10**7, 50)
    horizon = check_count("horizon", default_horizon if options.horizon is None else options.horizon, least=1_000)
    trials = check_count("trials", default_trials if options.trials is None else options.trials, least=2)
    seed = check_count("seed", options.seed, least=0)
    with (
        _workers(options) as executor,
        bar(f"{_counted(len(chosen), 'panel')}, trials", count(chosen, trials)) as progress,
    ):
        summary = reproduce(
            chosen,
            options.out,
            horizon=horizon,
            trials=trials,
            seed=seed,
            jobs=_jobs(options),
            executor=executor,
            progress=progress,
        )
    if options.json:
        _print_json(summary)
        return
    rows = [
        (
            panel["panel"],
            curve["algorithm"],
            f"{curve['epsilon']:g}",
            f"{curve['regret']:,.0f}",
            f"{curve['ratio']:.2f}",
            f"{curve['ratio_sem']:.2f}",
            "" if curve["paper"] is None else f"{'<' if curve['paper_is_limit'] else ''}{curve['paper']:g}",
        )
        for panel in summary["panels"]
        for curve in panel["curves"]
        if curve["epsilon"] is not None
    ]
    print(f"T = {horizon:,}, {trials} trials, seed {seed}, {summary['seconds']:.0f} s\n")
    _print_table(("panel", "algorithm", "epsilon", "regret", "ratio", "+-", "paper"), rows)
    print(f"\nThe report, with all figures: {options.out / 'report.html'}")


@contextmanager
def _lab() -> Iterator[None]:
    """Say what to install when a module of the extra `lab` is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra(f"needs {error.name}: pip install 'ldpbandits[lab]'") from None


@contextmanager
def _workers(options: argparse.Namespace) -> "Iterator[Executor | None]":
    """Yield the executor of a Dask cluster, or None for threads here."""
    if options.cluster is None:
        yield None
        return
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise MissingExtra(f"--cluster needs {error.name}: pip install 'ldpbandits[cluster]'") from None
    try:
        client = Client(options.cluster, timeout=10)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ParameterError(f"no Dask scheduler answers at {options.cluster}: {reason}") from None
    with client:
        yield client.get_executor(pure=False)


def _jobs(options: argparse.Namespace) -> int | None:
    return None if options.jobs is None else check_count("jobs", options.jobs)


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
