"""Panels beyond the paper in numbers: regret beside the baseline, beside the limit, and of the worst trials."""

import csv
import io
from collections.abc import Mapping, Sequence
from math import log, sqrt
from typing import Any

import numpy as np

from ldpbandits.lab.beyond.panels import Limit, Panel, Tails
from ldpbandits.lab.paper.summary import ratio
from ldpbandits.lab.simulation import Simulation

HUNDREDTH = 100
DECADES = 100
"""Two decades of T."""
COLUMNS = (
    "algorithm", "label", "epsilon", "engine", "horizon", "trials", "regret", "regret_sem", "ratio", "ratio_sem",
    "over_limit", "over_limit_sem", "slope", "slope_sem", "worst_hundredth", "worst",
)  # fmt: skip


def panel_summary(panel: Panel, played: Sequence[Simulation]) -> dict[str, Any]:
    """Return the numbers of a panel at its horizon."""
    baseline = played[0]
    return {
        "panel": panel.id,
        "title": panel.title,
        "limit": _limit(panel),
        "curves": [_curve(panel, simulation, baseline) for simulation in played],
    }


def _limit(panel: Panel) -> dict[str, Any] | None:
    match panel.shows:
        case Limit(constant=constant, of=of):
            return {"constant": constant, "of": of}
        case Tails():
            return None


def _curve(panel: Panel, simulation: Simulation, baseline: Simulation) -> dict[str, Any]:
    horizon, trials = simulation.checkpoints[-1], len(simulation.pulls)
    regret = np.sort(simulation.regret[:, -1])
    mean, sem = float(simulation.mean_regret[-1]), float(simulation.sem_regret[-1])
    limit = _limit(panel)
    most = None if limit is None else limit["constant"] * log(horizon)
    beside = None if simulation is baseline else ratio(simulation, baseline)
    worst = float(regret[-(trials // HUNDREDTH) :].mean()) if trials >= HUNDREDTH else None
    numbers = (
        simulation.algorithm.name,
        simulation.algorithm.drawn_as.label,
        simulation.algorithm.epsilon,
        simulation.engine,
        horizon,
        trials,
        mean,
        sem,
        *(beside or (None, None)),
        *((None, None) if most is None else (mean / most, sem / most)),
        *((None, None) if limit is None else slope(simulation, limit["constant"])),
        worst,
        float(regret[-1]),
    )
    return dict(zip(COLUMNS, numbers, strict=True))


def slope(simulation: Simulation, constant: float) -> tuple[float, float] | tuple[None, None]:
    """Return how regret grows in log T over the last two decades, over the constant, with its standard error.

    A limit says that this comes to 1 or more: what was lost in the beginning is not part of it. None for short runs.
    """
    first = simulation.checkpoints[-1] // DECADES
    if first not in simulation.checkpoints:
        return None, None
    regret = simulation.regret
    gained = (regret[:, -1] - regret[:, simulation.checkpoints.index(first)]) / (constant * log(DECADES))
    return float(gained.mean()), float(gained.std(ddof=1) / sqrt(len(gained)))


def csv_table(summaries: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the numbers of all panels as one table: a row for each curve."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["panel", *COLUMNS])
    for summary in summaries:
        for curve in summary["curves"]:
            rows.writerow([summary["panel"], *("" if curve[name] is None else curve[name] for name in COLUMNS)])
    return text.getvalue().encode()
