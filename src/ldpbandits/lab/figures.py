"""The figures of the panels: regret over pulls, with the bounds of the theory."""

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ldpbandits.lab.paper import Panel, Played
from ldpbandits.lab.rewards import Bernoulli
from ldpbandits.lab.simulation import Simulation
from ldpbandits.lab.summary import Curves, upper_bound
from ldpbandits.output.style import BLACK, BLUE, BY_EPSILON, GREEN, STYLE, VERMILION, Look, save
from ldpbandits.theory import bounds

BY_ALGORITHM: dict[str, Look] = {"l": (VERMILION, (6, 2)), "b": (BLUE, (1, 0)), "u": (BLACK, (1, 1.2))}
"""Colours and dashes for Laplace responses, bits, and no privacy."""
FIRST_T = 100
UPPER = (0, (1, 3))


@dataclass(frozen=True)
class Line:
    """How one curve is drawn."""

    simulation: Simulation
    label: str
    colour: str
    dashes: tuple[float, ...]


def label(played: Played, *, with_epsilon: bool) -> str:
    """The name of a curve in a legend."""
    name, epsilon = played
    if epsilon is None:
        return "UCB1, no privacy" if name == "ucb1" else "UCB1-S, no privacy"
    return f"epsilon = {epsilon:g}" if with_epsilon else name.upper()


def lines(panel: Panel, curves: Curves) -> list[Line]:
    """Return the curves of a panel with their looks: by epsilon where it varies, else by algorithm."""
    varies = len({epsilon for _, epsilon in panel.private}) > 1
    drawn = []
    for number, played in enumerate(panel.curves):
        kind = "u" if played[1] is None else played[0].removeprefix("ldp-ucb-")[0]
        looks = BY_EPSILON[number - 1] if varies and number else BY_ALGORITHM[kind]
        drawn.append(Line(curves[panel.bandit, played], label(played, with_epsilon=varies), *looks))
    return drawn


def draw(panel: Panel, curves: Curves) -> tuple[bytes, bytes]:
    """Draw a panel; return it as SVG and as PNG."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.4 if panel.semilog else 5.0, 3.8), layout="constrained")
        drawn = lines(panel, curves)
        columns = 3 if panel.semilog or len(drawn) > 3 else 2  # noqa: PLR2004 - as many as fit below the figure
        axes = figure.subplots(1, 2 if panel.semilog else 1, squeeze=False)[0]
        _plot(axes[0], drawn, is_log=True)
        axes[0].set_title(f"{panel.id}  {panel.title}", loc="left")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=columns, handlelength=3)
        if panel.semilog:
            _plot(axes[1], drawn, is_log=False)
            axes[1].set_title("the same, regret on a linear axis", loc="left")
        return save(figure, "svg"), save(figure, "png")


def _plot(axes: Axes, drawn: Sequence[Line], *, is_log: bool) -> None:
    for line in drawn:
        t = np.array(line.simulation.checkpoints)
        late = t >= FIRST_T
        mean, band = line.simulation.mean_regret[late], 2 * np.nan_to_num(line.simulation.sem_regret[late])
        axes.plot(t[late], mean, color=line.colour, dashes=line.dashes, label=line.label, linewidth=1.5)
        axes.fill_between(t[late], mean - band, mean + band, color=line.colour, alpha=0.2, linewidth=0)
    horizon = drawn[0].simulation.checkpoints[-1]
    axes.set(
        xscale="log", yscale="log" if is_log else "linear", xlabel="pulls t", ylabel="regret", xlim=(FIRST_T, horizon)
    )
    axes.grid(visible=True, alpha=0.2, linewidth=0.5)
    if is_log:
        _thin_bounds(axes, drawn)
    else:
        axes.set_ylim(0, None)


def _thin_bounds(axes: Axes, drawn: Sequence[Line]) -> None:
    """Add upper bounds, and for Bernoulli arms the exact lower bound, as thin lines where they fit into the picture."""
    low, high = axes.get_ylim()
    high *= 4
    has_upper = False
    for line in drawn:
        played, arms = line.simulation.algorithm, line.simulation.arms
        t = np.geomspace(FIRST_T, line.simulation.checkpoints[-1], 80)
        upper = np.array([upper_bound(played.name, played.epsilon, arms, x) for x in t])
        if upper[-1] < high:
            axes.plot(t, upper, color=line.colour, linewidth=0.6, linestyle=UPPER)
            has_upper = True
    epsilons = {line.simulation.algorithm.epsilon for line in drawn} - {None}
    arms = drawn[0].simulation.arms
    if len(epsilons) == 1 and all(isinstance(arm, Bernoulli) for arm in arms):
        constant = bounds.exact_constant([arm.mean for arm in arms], epsilons.pop() or 0.0)
        t = np.geomspace(drawn[0].simulation.checkpoints[-1] / 100, drawn[0].simulation.checkpoints[-1], 20)
        axes.plot(t, constant * np.log(t), color=GREEN, linewidth=0.9, label="lower bound if private, as t grows")
    if has_upper:
        axes.plot([], [], color="#555555", linewidth=0.6, linestyle=UPPER, label="upper bounds, by colour")
    axes.set_ylim(low, high)
