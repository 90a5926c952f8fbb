"""Panels in numbers: regret at the horizon, beside the baseline, the paper, the limit, and of the worst trials."""

import csv
import io
from collections.abc import Mapping, Sequence
from math import hypot, log, sqrt
from typing import Any

import numpy as np

from ldpbandits.lab.panels.panel import FalseVerdicts, Limit, Panel, Ratios, Tails
from ldpbandits.lab.panels.paper import HORIZON
from ldpbandits.lab.rewards import gaps
from ldpbandits.lab.simulation import Simulation

HUNDREDTH = 100
SLOPE_SPAN = 100
"""The slope of regret is taken over the last two decades of T: from T / 100 to T."""
FIRST_COMPARED_T = 10**4
"""Ratios are followed from this T on: before it, they are those of the first pulls."""
COLUMNS = (
    "algorithm", "label", "epsilon", "engine", "horizon", "trials", "regret", "regret_sem", "ratio", "ratio_sem",
    "over_limit", "over_limit_sem", "slope", "slope_sem", "worst_hundredth", "worst",
)  # fmt: skip


def ratio(private: Simulation, baseline: Simulation, row: int = -1) -> tuple[float, float]:
    """Return the ratio of two independent mean regrets at a checkpoint, with its standard error to first order."""
    one, other = float(private.mean_regret[row]), float(baseline.mean_regret[row])
    errors = float(private.sem_regret[row]) / one, float(baseline.sem_regret[row]) / other
    return one / other, one / other * hypot(*errors)


def panel_summary(panel: Panel, played: Sequence[Any]) -> dict[str, Any]:
    """Return the numbers of a panel at its horizon; its results are in the order of its curves.

    A panel of false verdicts has no curves of regret, but `verdicts`: a row for each level, algorithm and test.
    """
    baseline = played[0]
    context: dict[str, Any]
    curves: list[dict[str, Any]] = []
    match panel.shows:
        case FalseVerdicts():
            context = {"verdicts": [row for judged in played for row in judged.rows()]}
        case Ratios() as ratios:
            context = {"horizon": baseline.checkpoints[-1], "papers_horizon": HORIZON}
            curves = [_ratio_entry(ratios, simulation, baseline) for simulation in played]
        case Limit(constant=constant, of=of):
            context = {"limit": {"constant": constant, "of": of}}
            curves = [_limit_entry(constant, simulation, baseline) for simulation in played]
        case Tails():
            context = {"limit": None}
            curves = [_limit_entry(None, simulation, baseline) for simulation in played]
    return {"panel": panel.id, "title": panel.title, **context, "curves": curves}


def _ratio_entry(ratios: Ratios, simulation: Simulation, baseline: Simulation) -> dict[str, Any]:
    """Return the numbers of a curve beside the baseline, the paper and the theorem."""
    algorithm, bound = simulation.algorithm, simulation.algorithm.upper_bound
    horizon = simulation.checkpoints[-1]
    entry: dict[str, Any] = {
        "algorithm": algorithm.name,
        "epsilon": algorithm.epsilon,
        "regret": float(simulation.mean_regret[-1]),
        "regret_sem": float(simulation.sem_regret[-1]),
        "upper_bound": None if bound is None else bound.at(gaps(simulation.arms), algorithm.epsilon, horizon),
    }
    if algorithm.epsilon is not None:
        entry["ratio"], entry["ratio_sem"] = ratio(simulation, baseline)
        entry["paper"] = ratios.printed.get(algorithm.name)
        entry["paper_is_limit"] = ratios.is_limit if algorithm.name in ratios.printed else None
        entry["theorys_factor"] = None if bound is None else bound.factor(algorithm.epsilon)
    return entry


def _limit_entry(constant: float | None, simulation: Simulation, baseline: Simulation) -> dict[str, Any]:
    """Return the numbers of a curve beside the baseline and constant x log T, and those of its worst trials."""
    horizon, trials = simulation.checkpoints[-1], len(simulation.pulls)
    regret = np.sort(simulation.regret[:, -1])
    mean, sem = float(simulation.mean_regret[-1]), float(simulation.sem_regret[-1])
    limit = None if constant is None else constant * log(horizon)
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
        *((None, None) if simulation is baseline else ratio(simulation, baseline)),
        *((None, None) if limit is None else (mean / limit, sem / limit)),
        *((None, None) if constant is None else slope(simulation, constant)),
        worst,
        float(regret[-1]),
    )
    return dict(zip(COLUMNS, numbers, strict=True))


def slope(simulation: Simulation, constant: float) -> tuple[float, float] | tuple[None, None]:
    """Return how regret grows in log T over the last two decades, over the constant, with its standard error.

    A limit says that this comes to 1 or more. Early losses are no part of it. A short run has no slope: None.
    """
    first = simulation.checkpoints[-1] // SLOPE_SPAN
    if first not in simulation.checkpoints:
        return None, None
    regret = simulation.regret
    gained = (regret[:, -1] - regret[:, simulation.checkpoints.index(first)]) / (constant * log(SLOPE_SPAN))
    return float(gained.mean()), float(gained.std(ddof=1) / sqrt(len(gained)))


def csv_table(summaries: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the numbers of all panels beyond the paper as one table: a row for each curve."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["panel", *COLUMNS])
    for summary in summaries:
        for curve in summary["curves"]:
            rows.writerow([summary["panel"], *("" if curve[name] is None else curve[name] for name in COLUMNS)])
    return text.getvalue().encode()


def horizon_note(panel: Mapping[str, Any]) -> str:
    """Name the T of a ratio and that of the paper where they differ; else return nothing.

    >>> horizon_note({"horizon": 10**6, "papers_horizon": 10**7})
    "T = 1e6; the paper's is 1e7"
    """
    ours, theirs = panel["horizon"], panel["papers_horizon"]
    return "" if ours == theirs else f"T = {_short(ours)}; the paper's is {_short(theirs)}"


def _short(number: int) -> str:
    """Write a million as 1e6, and a number that is no power of ten as 2,000."""
    power = len(str(number)) - 1
    return f"1e{power}" if number == 10**power else f"{number:,}"


def ratios_by_horizon(played: Sequence[Simulation]) -> list[tuple[int, list[tuple[float, float]]]]:
    """Return the ratios of the private curves to the baseline, the first one, decade by decade from 10^4."""
    baseline, *private = played
    return [
        (t, [ratio(simulation, baseline, row) for simulation in private])
        for row, t in enumerate(baseline.checkpoints)
        if t >= FIRST_COMPARED_T and (str(t).strip("0") == "1" or t == baseline.checkpoints[-1])
    ]


def ratio_reached(
    printed: float, private: Simulation, other: Simulation, baseline: Simulation
) -> tuple[float, float] | None:
    """Return the T from 10^4 on at which a ratio passes the printed one, and the ratio of the other curve there.

    Between checkpoints, by interpolation in log T; None if it does not pass.
    """
    t = np.log(np.array(baseline.checkpoints))
    mine, others = (simulation.mean_regret / baseline.mean_regret for simulation in (private, other))
    late = t >= np.log(FIRST_COMPARED_T)
    above = np.flatnonzero(late[1:] & (mine[:-1] < printed) & (mine[1:] >= printed))
    if len(above) == 0:
        return None
    i = int(above[-1])
    share = (printed - mine[i]) / (mine[i + 1] - mine[i])
    return float(np.exp(t[i] + share * (t[i + 1] - t[i]))), float(others[i] + share * (others[i + 1] - others[i]))
