"""The privacy loss over outputs, drawn between the lines +epsilon and -epsilon that it must not cross."""

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from ldpbandits.audit.profile import Profile
from ldpbandits.output.style import BLUE, STYLE, VERMILION, save

FEWEST = 20
"""A cell with fewer responses than this shows nothing but its own noise, and is left out."""
FURTHEST = 1e100
"""What lies beyond is drawn here: an axis up to the largest double cannot be scaled."""
MOST_TICKS = 12
"""So many values have each a tick."""


def draw(profile: Profile, epsilon: float) -> bytes:
    """Draw the estimate in each cell with a 95 % interval; return it as SVG."""
    seen = profile.counts.sum(axis=0) >= FEWEST
    at = np.clip(profile.at[seen], -FURTHEST, FURTHEST)
    estimate, low, high = (values[seen] for values in profile.losses())
    low, high = np.minimum(low, estimate), np.maximum(high, estimate)
    top = max(2.0 * epsilon, float(np.abs(estimate).max(initial=0.0)) * 1.2)
    bars = np.clip(np.stack([estimate - low, high - estimate]), 0, 2 * top)  # a cell of one reward only has no end
    zero, one = profile.rewards
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.4, 3.6), layout="constrained")
        axes = figure.subplots()
        for sign in (1, -1):
            axes.axhline(sign * epsilon, color=VERMILION, linewidth=1, dashes=(6, 2))
            axes.annotate(
                f"{'+' if sign > 0 else '−'}epsilon",  # noqa: RUF001 - a minus sign
                (1, sign * epsilon),
                xycoords=("axes fraction", "data"),
                xytext=(-2, 3 * sign),
                textcoords="offset points",
                ha="right",
                va="bottom" if sign > 0 else "top",
                color=VERMILION,
            )
        axes.errorbar(at, estimate, bars, fmt="o", markersize=3, color=BLUE, linewidth=1)
        axes.set(
            xlabel=profile.over,
            ylabel=f"log P(response | {one:g}) / P(response | {zero:g})",
            ylim=(-top, top),
        )
        if profile.are_values and len(at) <= MOST_TICKS:
            axes.set_xticks(at)
            axes.margins(x=0.2)
        axes.grid(visible=True, alpha=0.2, linewidth=0.5)
        return save(figure, "svg")
