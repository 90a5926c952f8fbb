"""Figures of regret in one style: colours that survive colour blindness, dashes that survive print."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ldpbandits.lab.paper import Panel, Played
from ldpbandits.lab.rewards import Bernoulli
from ldpbandits.lab.run import Simulation
from ldpbandits.lab.summary import Curves, upper_bound
from ldpbandits.theory import bounds

STYLE: dict[Any, Any] = {
    "svg.hashsalt": "ldpbandits",  # the same figure is the same file
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
}
BY_ALGORITHM = {"l": ("#D55E00", (6, 2)), "b": ("#0072B2", (1, 0)), "u": ("#000000", (1, 1.2))}
"""Okabe and Ito's colours and dashes for Laplace responses, bits, and no privacy."""
BY_EPSILON = (
    ("#440154", (1, 0)),
    ("#3b528b", (6, 2)),
    ("#21918c", (3, 1.5)),
    ("#5ec962", (6, 2, 1, 2)),
    ("#b8a000", (1, 1.2)),
)
"""From little epsilon to much: dark to light, each with its own dashes."""
FIRST_T = 100
UPPER = (0, (1, 3))


@dataclass(frozen=True)
class Line:
    """How one curve is drawn."""

    made: Simulation
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
        return _saved(figure, "svg"), _saved(figure, "png")


def _plot(axes: Axes, drawn: Sequence[Line], *, is_log: bool) -> None:
    for line in drawn:
        t = np.array(line.made.checkpoints)
        shown = t >= FIRST_T
        mean, band = line.made.mean_regret[shown], 2 * np.nan_to_num(line.made.sem_regret[shown])
        axes.plot(t[shown], mean, color=line.colour, dashes=line.dashes, label=line.label, linewidth=1.5)
        axes.fill_between(t[shown], mean - band, mean + band, color=line.colour, alpha=0.2, linewidth=0)
    horizon = drawn[0].made.checkpoints[-1]
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
        played, arms = line.made.algorithm, line.made.arms
        t = np.geomspace(FIRST_T, line.made.checkpoints[-1], 80)
        upper = np.array([upper_bound(played.name, played.epsilon, arms, x) for x in t])
        if upper[-1] < high:
            axes.plot(t, upper, color=line.colour, linewidth=0.6, linestyle=UPPER)
            has_upper = True
    epsilons = {line.made.algorithm.epsilon for line in drawn} - {None}
    arms = drawn[0].made.arms
    if len(epsilons) == 1 and all(isinstance(arm, Bernoulli) for arm in arms):
        constant = bounds.exact_constant([arm.mean for arm in arms], epsilons.pop() or 0.0)
        t = np.geomspace(drawn[0].made.checkpoints[-1] / 100, drawn[0].made.checkpoints[-1], 20)
        axes.plot(t, constant * np.log(t), color="#009E73", linewidth=0.9, label="lower bound if private, as t grows")
    if has_upper:
        axes.plot([], [], color="#555555", linewidth=0.6, linestyle=UPPER, label="upper bounds, by colour")
    axes.set_ylim(low, high)


def _saved(figure: Figure, kind: str) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
    return content.getvalue()
