"""The paper's nine panels and those beyond it: play every curve once, then draw, sum up and report."""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ldpbandits.lab.experiments import Experiment
from ldpbandits.lab.panels.figures import draw
from ldpbandits.lab.panels.judged import Judged, JudgedExperiment, inspection_times
from ldpbandits.lab.panels.panel import PAPERS_TRIALS, FalseVerdicts, Panel
from ldpbandits.lab.panels.report import beyond_section, paper_section, report
from ldpbandits.lab.panels.resume import BEYOND, Selection
from ldpbandits.lab.panels.summary import csv_table, panel_summary
from ldpbandits.lab.play import Curve, play_all
from ldpbandits.lab.results import Folder, versions, write_results
from ldpbandits.lab.simulation import Simulation
from ldpbandits.output.files import write
from ldpbandits.output.provenance import Provenance, digest

Played: TypeAlias = Sequence[Simulation] | Sequence[Judged]
"""The results of an experiment: one for each curve."""


def plan_experiments(
    panels: Sequence[Panel], horizon: int, trials: int, seed: int
) -> dict[str, Experiment | JudgedExperiment]:
    """Return the experiments by folder; no horizon is longer than this one, and trials scale those of each panel."""
    planned: dict[str, Experiment | JudgedExperiment] = {}
    sharing: dict[str, list[Panel]] = {}
    for panel in panels:
        for folder in panel.bandits:
            sharing.setdefault(folder, []).append(panel)
    for folder, (first, *others) in sharing.items():
        longest = min(horizon, first.horizon or horizon)
        experiment = Experiment(
            first.bandits[folder],
            tuple(dict.fromkeys(played for panel in (first, *others) for played in panel.curves)),
            longest,
            max(2, round(first.trials * trials / PAPERS_TRIALS)),
            seed,
        )
        planned[folder] = experiment
        if isinstance(first.shows, FalseVerdicts):
            tests = tuple(first.shows.tests[played.name] for played in first.curves)
            planned[folder] = JudgedExperiment(replace(experiment, checkpoints=inspection_times(longest)), tests)
    return planned


def results_of(panel: Panel, played: Mapping[str, Played]) -> list[Any]:
    """Return the results of a panel by bandit, in the order of its curves, from those of all folders."""
    by_curve = {(folder, one.algorithm): one for folder in panel.bandits for one in played[folder]}
    return [by_curve[folder, curve] for folder in panel.bandits for curve in panel.curves]


def plan_parts(paper: Selection, beyond: Selection) -> dict[str, Experiment | JudgedExperiment]:
    """Return the experiments of both parts, by the folder that gets their tables."""
    return {
        folder: experiment
        for selection in (paper, beyond)
        for folder, experiment in plan_experiments(selection.panels, **selection.settings.to_json()).items()
    }


def count_trials(experiments: Iterable[Experiment | JudgedExperiment]) -> int:
    """Count the trials that the experiments need; a trial that several need counts once."""
    return sum(_count_by_curve(experiments).values())


def reproduce(
    paper: Selection,
    beyond: Selection,
    out: Path,
    *,
    jobs: int | None = None,
    executor: Executor | None = None,
    progress: Callable[[int], None] = lambda _: None,
    made: Provenance | None = None,
) -> dict[str, Any]:
    """Play both parts and write everything into a folder; return the summary. Kept trials are not played again.

    Summary, tables and report have just these panels: `resume` adds those that the folder holds already.
    """
    experiments = plan_parts(paper, beyond)
    started = time.perf_counter()
    pulls, kept = _play(experiments.values(), Folder(out), jobs=jobs, executor=executor, progress=progress)
    seconds = time.perf_counter() - started
    by_folder: dict[str, Played] = {}
    for folder, experiment in experiments.items():
        numbers = [pulls[curve][: experiment.trials] for curve in experiment.curves]
        if isinstance(experiment, JudgedExperiment):
            by_folder[folder] = judged = experiment.results(numbers)
            experiment.write(out / folder, judged)
        else:
            by_folder[folder] = simulations = experiment.simulations(numbers, seconds)
            write_results(out / folder, experiment, simulations)
    sections = []
    played, first, figures = _summarise(paper, by_folder, out)
    if paper.panels:
        sections.append(paper_section(paper.panels, played, first, figures))
    _, second, figures = _summarise(beyond, by_folder, out)
    if beyond.panels:
        sections.append(beyond_section(beyond.panels, second, figures))
        write(out / str(BEYOND.key) / "table.csv", csv_table(second["panels"]))
    record = {"seconds": seconds, "trials_kept": kept, "versions": versions()}
    results = {**paper.settings.to_json(), "panels": first["panels"], str(BEYOND.key): second}
    summary = {**results, **record, "digest": digest(results)}
    write(out / "summary.json", (json.dumps(summary, indent=2) + "\n").encode())
    write(out / "report.html", report(sections, summary, made or Provenance()).encode())
    return summary


def _summarise(
    selection: Selection, by_folder: Mapping[str, Played], out: Path
) -> tuple[dict[str, list[Any]], dict[str, Any], dict[str, bytes]]:
    """Draw the panels of a part; return their results by panel, their numbers, and their figures by panel."""
    played = {panel.id: results_of(panel, by_folder) for panel in selection.panels}
    numbers = [panel_summary(panel, played[panel.id]) for panel in selection.panels]
    figures = {panel.id: _write_figure(out, panel.id, draw(panel, played[panel.id])) for panel in selection.panels}
    return played, {**selection.settings.to_json(), "panels": numbers}, figures


def _count_by_curve(experiments: Iterable[Experiment | JudgedExperiment]) -> dict[Curve, int]:
    """Return every curve that an experiment needs, with the largest number of trials that one of them needs."""
    needed: dict[Curve, int] = {}
    for experiment in experiments:
        for curve in experiment.curves:
            needed[curve] = max(experiment.trials, needed.get(curve, 0))
    return needed


def _play(
    experiments: Iterable[Experiment | JudgedExperiment],
    folder: Folder,
    *,
    jobs: int | None,
    executor: Executor | None,
    progress: Callable[[int], None],
) -> tuple[dict[Curve, NDArray[np.float64]], int]:
    """Return the pulls by curve, and how many trials the folder had kept."""
    needed = _count_by_curve(experiments)
    pulls: dict[Curve, NDArray[np.float64]] = {}
    before, kept = 0, 0
    for trials in sorted(set(needed.values())):
        curves = [curve for curve, most in needed.items() if most == trials]
        counts: list[int] = []

        def note(done: int, before: int = before, counts: list[int] = counts) -> None:
            counts.append(done)
            progress(before + done)

        made = play_all(curves, trials, executor=executor, jobs=jobs, archive=folder, progress=note)
        pulls.update(zip(curves, made, strict=True))
        before += trials * len(curves)
        kept += counts[0]  # before the first was played
    return pulls, kept


def _write_figure(out: Path, name: str, pictures: tuple[bytes, bytes]) -> bytes:
    """Write a figure as SVG and as PNG; return the SVG."""
    for kind, content in zip(("svg", "png"), pictures, strict=True):
        write(out / "figures" / f"{name}.{kind}", content)
    return pictures[0]
