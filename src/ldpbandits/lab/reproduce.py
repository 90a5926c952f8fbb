"""The paper's nine panels and those beyond it: play every curve once, then draw, sum up and report."""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbandits.lab import beyond, paper
from ldpbandits.lab.beyond import figures as beyond_figures
from ldpbandits.lab.beyond import plan as beyond_plan
from ldpbandits.lab.beyond import report as beyond_report
from ldpbandits.lab.beyond import summary as beyond_summary
from ldpbandits.lab.experiments import Experiment
from ldpbandits.lab.paper import figures as paper_figures
from ldpbandits.lab.paper import plan as paper_plan
from ldpbandits.lab.paper import report as paper_report
from ldpbandits.lab.paper import summary as paper_summary
from ldpbandits.lab.parts import BEYOND, Chosen
from ldpbandits.lab.play import Curve, play_all
from ldpbandits.lab.results import Folder, versions, write_results
from ldpbandits.lab.simulation import Simulation
from ldpbandits.output.files import write
from ldpbandits.output.page import document


def planned(ours: Chosen[paper.Panel], more: Chosen[beyond.Panel]) -> dict[str, Experiment]:
    """Return the experiments of both parts, by the folder that gets their tables."""
    further = beyond_plan.experiments(more.panels, **more.settings.to_json())
    return {
        **paper_plan.experiments(ours.panels, **ours.settings.to_json()),
        **{_folder(name): experiment for name, experiment in further.items()},
    }


def _folder(name: str) -> str:
    """Where the second part has its tables."""
    return f"{BEYOND.key}/{name}"


def count(experiments: Iterable[Experiment]) -> int:
    """How many trials the experiments need."""
    return sum(_needed(experiments).values())


def reproduce(
    ours: Chosen[paper.Panel],
    more: Chosen[beyond.Panel],
    out: Path,
    *,
    jobs: int | None = None,
    executor: Executor | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """Play and write everything into a folder; return the summary. What was played before is not played again.

    Summary, tables and report have just these panels: `with_earlier` adds those that the folder holds already.
    """
    experiments = planned(ours, more)
    folder = Folder(out)
    started = time.perf_counter()
    pulls, kept = _play(experiments.values(), folder, jobs=jobs, executor=executor, progress=progress)
    seconds = time.perf_counter() - started
    played: dict[str, list[Simulation]] = {}
    for name, experiment in experiments.items():
        counts = [pulls[curve][: experiment.trials] for curve in experiment.curves()]
        played[name] = experiment.simulations(counts, seconds)
        write_results(out / name, experiment, played[name])
    record: dict[str, Any] = {"seconds": seconds, "trials_kept": kept, "versions": versions()}
    papers, first = _paper(ours, played, out)
    beyonds, second = _beyond(more, played, out)
    summary = {**ours.settings.to_json(), **record, "panels": papers, str(BEYOND.key): beyonds}
    write(out / "summary.json", (json.dumps(summary, indent=2) + "\n").encode())
    body = "\n".join([*first, *second, _foot(summary)])
    write(out / "report.html", document("ldpbandits: the paper, reproduced, and beyond it", body).encode())
    return summary


def _paper(
    chosen: Chosen[paper.Panel], played: Mapping[str, list[Simulation]], out: Path
) -> tuple[list[dict[str, Any]], list[str]]:
    """Draw the paper's panels; return their numbers and their part of the report."""
    if not chosen.panels:
        return [], []
    curves = paper_plan.by_curve(played)
    numbers = [paper_summary.panel_summary(panel, curves) for panel in chosen.panels]
    pictures = {panel.id: _keep(out, panel.id, paper_figures.draw(panel, curves)) for panel in chosen.panels}
    summary = {**chosen.settings.to_json(), "panels": numbers}
    return numbers, [paper_report.section(chosen.panels, curves, summary, pictures)]


def _beyond(
    chosen: Chosen[beyond.Panel], played: Mapping[str, list[Simulation]], out: Path
) -> tuple[dict[str, Any], list[str]]:
    """Draw the panels beyond the paper; return their numbers with their settings, and their part of the report."""
    curves = {panel.id: played[_folder(panel.id)] for panel in chosen.panels}
    numbers = [beyond_summary.panel_summary(panel, curves[panel.id]) for panel in chosen.panels]
    summary = {**chosen.settings.to_json(), "panels": numbers}
    if not chosen.panels:
        return summary, []
    pictures = {p.id: _keep(out, p.id, beyond_figures.draw(p, curves[p.id])) for p in chosen.panels}
    write(out / _folder("table.csv"), beyond_summary.csv_table(numbers))
    return summary, [beyond_report.section(chosen.panels, summary, pictures)]


def _needed(experiments: Iterable[Experiment]) -> dict[Curve, int]:
    """Every curve that some experiment needs, once, with the most trials that one needs of it."""
    needed: dict[Curve, int] = {}
    for experiment in experiments:
        for curve in experiment.curves():
            needed[curve] = max(experiment.trials, needed.get(curve, 0))
    return needed


def _play(
    experiments: Iterable[Experiment],
    folder: Folder,
    *,
    jobs: int | None,
    executor: Executor | None,
    progress: Callable[[int], None],
) -> tuple[dict[Curve, NDArray[np.float64]], int]:
    """Return the pulls by curve, and how many trials the folder had kept."""
    needed = _needed(experiments)
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


def _keep(out: Path, name: str, pictures: tuple[bytes, bytes]) -> bytes:
    """Write a figure as SVG and as PNG; return the SVG."""
    for kind, content in zip(("svg", "png"), pictures, strict=True):
        write(out / "figures" / f"{name}.{kind}", content)
    return pictures[0]


def _foot(summary: Mapping[str, Any]) -> str:
    made = ", ".join(f"{name} {version}" for name, version in summary["versions"].items())
    kept = f" ({summary['trials_kept']:,} trials were kept from an earlier run)" if summary["trials_kept"] else ""
    how = f"By exact simulation, in leaps where the rule can, in {summary['seconds']:.0f} s{kept}"
    return f'<h2>How it was made</h2><p class="note">{how}, with {escape(made)}.</p>'
