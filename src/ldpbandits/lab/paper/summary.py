"""Panels in numbers: regret, the ratio to the baseline with its standard error, the paper's number, theory's factor."""

from collections.abc import Mapping
from math import hypot
from typing import Any, TypeAlias

import numpy as np

from ldpbandits.lab.paper.panels import HORIZON, Panel, Played
from ldpbandits.lab.rewards import gaps
from ldpbandits.lab.simulation import Simulation

Curves: TypeAlias = Mapping[tuple[str, Played], Simulation]
"""Simulations by bandit and (algorithm, epsilon)."""


def ratio(private: Simulation, baseline: Simulation, row: int = -1) -> tuple[float, float]:
    """Return the ratio of two independent mean regrets at a checkpoint, with its standard error to first order."""
    one, other = float(private.mean_regret[row]), float(baseline.mean_regret[row])
    errors = float(private.sem_regret[row]) / one, float(baseline.sem_regret[row]) / other
    return one / other, one / other * hypot(*errors)


def panel_summary(panel: Panel, curves: Curves) -> dict[str, Any]:
    """Return the numbers of a panel at the horizon."""
    baseline = curves[panel.bandit, panel.curves[0]]
    listed = []
    for name, epsilon in panel.curves:
        curve = curves[panel.bandit, (name, epsilon)]
        entry: dict[str, Any] = {
            "algorithm": name,
            "epsilon": epsilon,
            "regret": float(curve.mean_regret[-1]),
            "regret_sem": float(curve.sem_regret[-1]),
            "upper_bound": None,
        }
        bound = curve.algorithm.upper_bound
        if bound is not None:
            entry["upper_bound"] = bound.at(gaps(curve.arms), epsilon, curve.checkpoints[-1])
        if epsilon is not None:
            entry["ratio"], entry["ratio_sem"] = ratio(curve, baseline)
            entry["paper"] = panel.paper.get(name)
            entry["paper_is_limit"] = panel.paper_is_limit if name in panel.paper else None
            entry["theorys_factor"] = None if bound is None else bound.factor(epsilon)
        listed.append(entry)
    horizons = {"horizon": baseline.checkpoints[-1], "papers_horizon": HORIZON}
    return {"panel": panel.id, "title": panel.title, **horizons, "curves": listed}


def at_horizon(panel: Mapping[str, Any]) -> str:
    """Say beside a ratio of a panel at which T it is, where that is not the paper's; else nothing.

    >>> at_horizon({"horizon": 10**6, "papers_horizon": 10**7})
    "T = 1e6; the paper's is 1e7"
    """
    ours, theirs = panel["horizon"], panel["papers_horizon"]
    return "" if ours == theirs else f"T = {_short(ours)}; the paper's is {_short(theirs)}"


def _short(number: int) -> str:
    """Return 1e6 for a million, and 2,000 for what is no power of ten."""
    power = len(str(number)) - 1
    return f"1e{power}" if number == 10**power else f"{number:,}"


def ratios_by_horizon(panel: Panel, curves: Curves) -> list[tuple[int, dict[str, tuple[float, float]]]]:
    """Return how the ratios of a panel move with T, decade by decade from 10^4."""
    baseline = curves[panel.bandit, panel.curves[0]]
    rows = []
    for row, t in enumerate(baseline.checkpoints):
        if t >= 10**4 and (str(t).strip("0") == "1" or t == baseline.checkpoints[-1]):
            rows.append((t, {name: ratio(curves[panel.bandit, (name, e)], baseline, row) for name, e in panel.private}))
    return rows


def ratio_reached(panel: Panel, curves: Curves, name: str, other: str) -> tuple[float, float] | None:
    """Return the T from 10^4 on at which the ratio of `name` passes the paper's, and the ratio of `other` there.

    Between checkpoints, by interpolation in log T; None if it does not pass.
    """
    epsilons = dict(panel.private)
    baseline = curves[panel.bandit, panel.curves[0]]
    t = np.log(np.array(baseline.checkpoints))
    mine, others = (
        curves[panel.bandit, (one, epsilons[one])].mean_regret / baseline.mean_regret for one in (name, other)
    )
    late = t >= np.log(10**4)
    above = np.flatnonzero(late[1:] & (mine[:-1] < panel.paper[name]) & (mine[1:] >= panel.paper[name]))
    if len(above) == 0:
        return None
    i = int(above[-1])
    share = (panel.paper[name] - mine[i]) / (mine[i + 1] - mine[i])
    return float(np.exp(t[i] + share * (t[i + 1] - t[i]))), float(others[i] + share * (others[i + 1] - others[i]))
