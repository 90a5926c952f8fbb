"""The paper's nine panels: play every curve once, then draw, sum up and report."""

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from ldpbandits.lab.algorithms import algorithm
from ldpbandits.lab.experiments import Experiment
from ldpbandits.lab.paper.figures import draw
from ldpbandits.lab.paper.panels import BANDITS, Panel
from ldpbandits.lab.paper.report import page
from ldpbandits.lab.paper.summary import panel_summary
from ldpbandits.lab.play import play_all
from ldpbandits.lab.results import Folder, versions, write_results
from ldpbandits.output.files import write


def experiments(panels: Sequence[Panel], horizon: int, trials: int, seed: int) -> dict[str, Experiment]:
    """Return one experiment a bandit, with every curve that some panel needs, once."""
    planned = {}
    for bandit, arms in BANDITS.items():
        needed = dict.fromkeys(played for panel in panels if panel.bandit == bandit for played in panel.curves)
        if needed:
            algorithms = tuple(algorithm(name, epsilon) for name, epsilon in needed)
            planned[bandit] = Experiment(arms, algorithms, horizon, trials, seed)
    return planned


def count(panels: Sequence[Panel], trials: int) -> int:
    """How many trials the panels need."""
    return trials * len({(panel.bandit, played) for panel in panels for played in panel.curves})


def reproduce(
    panels: Sequence[Panel],
    out: Path,
    *,
    horizon: int = 10**7,
    trials: int = 50,
    seed: int = 0,
    jobs: int | None = None,
    executor: Executor | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """Play and write everything into a folder; return the summary. What was played before is not played again.

    Summary, tables and report have just these panels: `with_earlier` adds those that the folder holds already.
    """
    planned = experiments(panels, horizon, trials, seed)
    folder = Folder(out)
    started = time.perf_counter()
    curves = [curve for experiment in planned.values() for curve in experiment.curves()]
    counts: list[int] = []

    def note(done: int) -> None:
        counts.append(done)
        progress(done)

    pulls = iter(play_all(curves, trials, executor=executor, jobs=jobs, archive=folder, progress=note))
    seconds = time.perf_counter() - started
    by_curve = {}
    for bandit, experiment in planned.items():
        simulations = experiment.simulations([next(pulls) for _ in experiment.algorithms], seconds)
        for simulation in simulations:
            by_curve[bandit, (simulation.algorithm.name, simulation.algorithm.epsilon)] = simulation
        write_results(out / bandit, experiment, simulations)
    figures = {}
    for panel in panels:
        figures[panel.id], png = draw(panel, by_curve)
        write(out / "figures" / f"{panel.id}.svg", figures[panel.id])
        write(out / "figures" / f"{panel.id}.png", png)
    summary = {
        "horizon": horizon,
        "trials": trials,
        "seed": seed,
        "seconds": seconds,
        "trials_kept": counts[0],  # before the first was played
        "versions": versions(),
        "panels": [panel_summary(panel, by_curve) for panel in panels],
    }
    write(out / "summary.json", (json.dumps(summary, indent=2) + "\n").encode())
    write(out / "report.html", page(panels, by_curve, summary, figures).encode())
    return summary
