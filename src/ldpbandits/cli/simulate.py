"""`ldpbandits simulate`: one algorithm from flags, or an experiment from a file."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ldpbandits.agent.rules import rule_from_json
from ldpbandits.checks import check_count
from ldpbandits.cli.common import (
    ARM_HELP,
    EPSILON_HELP,
    MIX_HELP,
    Command,
    add_load,
    add_workers,
    load,
    name_or_json,
    number,
    read_jobs,
    say,
    show_result,
    table,
)
from ldpbandits.errors import ParameterError
from ldpbandits.extras import needs
from ldpbandits.lab.algorithms import (
    CURATOR_NAMES,
    NAMES,
    THRESHOLD_NAMES,
    Algorithm,
    algorithm,
    curator_or_none,
    is_private,
    mixed,
    with_rule,
)
from ldpbandits.lab.mix import Mix
from ldpbandits.lab.rewards import Empirical, Law, arm_name, arm_text
from ldpbandits.output.numbers import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ldpbandits.lab.experiments import Experiment
    from ldpbandits.lab.simulation import Simulation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ldpbandits simulate`."""
    parser.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="an experiment in TOML, or an experiment.json from earlier"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the results of FILE (default: its name)")
    parser.add_argument("--algorithm", metavar="A", help=f"one of {', '.join((*NAMES, *THRESHOLD_NAMES))}")
    parser.add_argument("--rule", metavar="MODULE:CLASS", help="instead of --algorithm: a rule of your own, or JSON")
    curators = f"for --rule: {', '.join(CURATOR_NAMES)}, or JSON (default ctb, or none without epsilon)"
    parser.add_argument("--curator", metavar="C", help=curators)
    parser.add_argument("--epsilon", type=number, metavar="E", help=f"{EPSILON_HELP}; every ldp- algorithm needs it")
    parser.add_argument("--epsilon-mix", metavar="MIX", help=f"instead of --epsilon: {MIX_HELP}")
    parser.add_argument("--arm", action="append", metavar="LAW", help=ARM_HELP)
    parser.add_argument("--horizon", type=number, metavar="T", help="rounds per trial, such as 1e5")
    parser.add_argument("--trials", type=number, metavar="R", help="independent trials (default 50)")
    parser.add_argument("--seed", type=number, metavar="S", help="same seed, same numbers (default 0)")
    engines = "leap or step: the same law in leaps, far faster, or round by round (default: leap where possible)"
    parser.add_argument("--engine", choices=["leap", "step"], help=engines)
    add_load(parser)
    add_workers(parser)


FLAGS = ("algorithm", "rule", "curator", "epsilon", "epsilon_mix", "arm", "horizon", "trials", "seed", "engine")
"""Options that describe the simulation, in place of a file."""


def run(options: argparse.Namespace) -> None:
    """Play what the flags or the file say, and print the regret."""
    load(options.load)
    if options.file is None:
        _run_flags(options)
    else:
        _run_file(options)


def _algorithm(options: argparse.Namespace) -> Algorithm:
    epsilon = options.epsilon
    mix = None if options.epsilon_mix is None else Mix.parse(options.epsilon_mix)
    if mix is not None and (epsilon is not None or options.curator is not None):
        raise ParameterError("--epsilon-mix replaces --epsilon and --curator: give one or the other")
    if options.rule is not None:
        if options.algorithm is not None:
            raise ParameterError("--algorithm names one of ours, --rule one of yours: give one of them")
        rule = rule_from_json(name_or_json("--rule", options.rule), may_import=True)
        curator = mix or name_or_json("--curator", options.curator)
        return with_rule(rule, curator_or_none(curator) if isinstance(curator, dict) else curator, epsilon)
    if options.curator is not None:
        raise ParameterError("--curator goes with --rule; an algorithm has its own")
    if mix is not None:
        return mixed(options.algorithm, mix)
    if epsilon is not None and not is_private(options.algorithm):
        say(f"ldpbandits simulate: {options.algorithm} is not private, --epsilon has no effect")
        epsilon = None
    return algorithm(options.algorithm, epsilon)


def _run_flags(options: argparse.Namespace) -> None:
    if options.out is not None:
        raise ParameterError("--out goes with an experiment in a file: simulate FILE")
    for name in ("algorithm", "arm", "horizon"):
        if getattr(options, name) is None and not (name == "algorithm" and options.rule is not None):
            raise ParameterError(f"--{name} is needed, unless there is a FILE")
    played = _algorithm(options)
    trials = check_count("trials", 50 if options.trials is None else options.trials)
    with needs("lab"):
        from ldpbandits.lab.experiments import simulate
        from ldpbandits.output.progress import bar
    with bar(f"{played.name}, T = {options.horizon:g}", trials) as progress:
        simulation = simulate(
            played,
            options.arm,
            options.horizon,
            trials=trials,
            seed=options.seed or 0,
            engine=options.engine,
            jobs=options.jobs,
            cluster=options.cluster,
            progress=progress,
        )
    _say_engines(options.engine, [simulation])
    show_result(options, simulation.to_json, lambda: _report(simulation))


def _say_engines(engine: str | None, simulations: "Sequence[Simulation]") -> None:
    """Say which algorithms were played round by round because they cannot leap."""
    for simulation in simulations:
        if engine is None and simulation.engine == "step":
            say(f"ldpbandits simulate: {simulation.algorithm.name} cannot leap; every round was played (engine step)")


def _report(simulation: "Simulation") -> list[str]:
    algorithm = simulation.algorithm
    epsilon = "" if algorithm.epsilon is None else f", epsilon = {algorithm.epsilon:g}"
    last, trials = len(simulation.checkpoints) - 1, len(simulation.pulls)
    regret = [
        (f"{t:,}", f"{simulation.mean_regret[i]:,.1f}", "" if trials == 1 else f"{simulation.sem_regret[i]:,.1f}")
        for i, t in enumerate(simulation.checkpoints)
        if i == last or str(t).strip("0") == "1"
    ]
    counts = zip(simulation.arms, simulation.pulls[:, -1].mean(axis=0), strict=True)
    pulls = [(arm_name(law, arm), _law(law), f"{count:,.1f}") for arm, (law, count) in enumerate(counts)]
    return [
        f"{algorithm.name}{epsilon}, {plural(trials, 'trial')}, seed {simulation.seed}, {simulation.seconds:.1f} s",
        "",
        table(("t", "mean regret", "standard error"), regret),
        "",
        "Mean pulls of each arm at the end:",
        table(("arm", "law", "pulls"), pulls),
    ]


def _law(law: Law) -> str:
    """Return the law of an arm; of data, only where they come from."""
    return f"empirical({Path(law.file).name})" if isinstance(law, Empirical) else arm_text(law)


def _run_file(options: argparse.Namespace) -> None:
    for name in FLAGS:
        if getattr(options, name) is not None:
            raise ParameterError(f"--{name.replace('_', '-')} and a file: what is played is in the file")
    with needs("lab"):
        from ldpbandits.lab.experiments import Experiment
        from ldpbandits.lab.results import Folder, write_results
        from ldpbandits.output.progress import bar
    experiment = Experiment.from_file(options.file)
    out = options.file.with_suffix("") if options.out is None else options.out
    if out == options.file:
        raise ParameterError(f"the results of {options.file} need a folder of another name: give --out")
    folder, count = Folder(out), len(experiment.algorithms) * experiment.trials
    jobs = read_jobs(options)
    with bar(options.file.name, count) as progress:
        simulations = experiment.play(cluster=options.cluster, jobs=jobs, archive=folder, progress=progress)
    write_results(out, experiment, simulations)
    _say_engines(experiment.engine, simulations)
    show_result(
        options,
        lambda: [simulation.to_json() for simulation in simulations],
        lambda: _file_report(experiment, simulations, out),
    )


def _file_report(experiment: "Experiment", simulations: "Sequence[Simulation]", out: Path) -> list[str]:
    rows = [
        (
            simulation.algorithm.name,
            "" if simulation.algorithm.epsilon is None else f"{simulation.algorithm.epsilon:.12g}",
            f"{simulation.mean_regret[-1]:,.1f}",
            "" if experiment.trials == 1 else f"{simulation.sem_regret[-1]:,.1f}",
        )
        for simulation in simulations
    ]
    return [
        f"T = {experiment.horizon:,}, {plural(experiment.trials, 'trial')}, seed {experiment.seed}",
        "",
        table(("algorithm", "epsilon", "mean regret", "standard error"), rows),
        "",
        f"In {out}: results.csv, by checkpoint; experiment.json, to run it again; trials, to go on from.",
    ]


COMMAND = Command("simulate", "play an algorithm on a bandit and print its regret", add_arguments, run)
