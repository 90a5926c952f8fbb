"""Figures of simulations: regret over pulls, with the bounds of the theory as thin lines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ldpbandits.lab.algorithms import LineStyle
from ldpbandits.lab.rewards import Bernoulli, gaps
from ldpbandits.lab.simulation import Simulation
from ldpbandits.output.colours import GREEN
from ldpbandits.output.style import STYLE
from ldpbandits.theory import bounds

Times: TypeAlias = NDArray[np.float64]
FIRST_T = 100
UPPER = (0, (1, 3))


@dataclass(frozen=True)
class Line:
    """A simulation, and how it is drawn."""

    simulation: Simulation
    style: LineStyle


def draw_simulation(simulation: Simulation) -> Figure:
    """Draw one simulation by itself."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.0, 3.8), layout="constrained")
        axes = figure.subplots()
        plot_lines(axes, [Line(simulation, simulation.algorithm.drawn_as)], is_log=True)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, handlelength=3)
        return figure


def plot_lines(axes: Axes, lines: Sequence[Line], *, is_log: bool) -> None:
    """Draw mean regrets with bands of two standard errors; on logarithmic axes with the bounds of the theory."""
    plot_means(axes, lines)
    horizon = lines[0].simulation.checkpoints[-1]
    axes.set(xscale="log", yscale="log" if is_log else "linear", xlabel="pulls t", ylabel="regret")
    if horizon > FIRST_T:
        axes.set_xlim(FIRST_T, horizon)
    axes.grid(visible=True, alpha=0.2, linewidth=0.5)
    if is_log:
        _thin_bounds(axes, lines)
    else:
        axes.set_ylim(0, None)


def plot_means(axes: Axes, lines: Sequence[Line], *, over: Callable[[Times], Times] | None = None) -> None:
    """Add mean regrets with bands of two standard errors, each over a function of t if there is one."""
    for line in lines:
        t = np.array(line.simulation.checkpoints, dtype=np.float64)
        t = t[t >= min(FIRST_T, t[-1])]
        scale = np.ones_like(t) if over is None else over(t)
        mean = line.simulation.mean_regret[-len(t) :] / scale
        band = 2 * np.nan_to_num(line.simulation.sem_regret[-len(t) :]) / scale
        style = line.style
        axes.plot(t, mean, color=style.colour, dashes=style.dashes, label=style.label, linewidth=1.5)
        axes.fill_between(t, mean - band, mean + band, color=style.colour, alpha=0.2, linewidth=0)


def _thin_bounds(axes: Axes, lines: Sequence[Line]) -> None:
    """Add upper bounds, and for Bernoulli arms the exact lower bound, as thin lines where they fit into the picture."""
    low, high = axes.get_ylim()
    high *= 4
    has_upper = False
    for line in lines:
        algorithm, deltas = line.simulation.algorithm, gaps(line.simulation.arms)
        if algorithm.upper_bound is None:
            continue
        t = np.geomspace(FIRST_T, max(line.simulation.checkpoints[-1], FIRST_T), 80)
        upper = np.array([algorithm.upper_bound.at(deltas, algorithm.epsilon, x) for x in t])
        if upper[-1] < high:
            axes.plot(t, upper, color=line.style.colour, linewidth=0.6, linestyle=UPPER)
            has_upper = True
    epsilons = {line.simulation.algorithm.epsilon for line in lines} - {None}
    arms = lines[0].simulation.arms
    if len(epsilons) == 1 and all(isinstance(arm, Bernoulli) for arm in arms):
        constant = bounds.exact_constant([arm.mean for arm in arms], epsilons.pop() or 0.0)
        t = np.geomspace(lines[0].simulation.checkpoints[-1] / 100, lines[0].simulation.checkpoints[-1], 20)
        if constant > 0:  # there is no such bound where the best mean is 1, or all arms are equal
            axes.plot(t, constant * np.log(t), color=GREEN, linewidth=0.9, label="lower bound if private, as t grows")
    if has_upper:
        axes.plot([], [], color="#555555", linewidth=0.6, linestyle=UPPER, label="upper bounds, by colour")
    axes.set_ylim(low, high)
