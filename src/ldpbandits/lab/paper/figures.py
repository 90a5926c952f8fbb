"""The figures of the panels."""

import matplotlib as mpl
from matplotlib.figure import Figure

from ldpbandits.lab.algorithms import Looks
from ldpbandits.lab.figures import Line, plot_lines
from ldpbandits.lab.paper.panels import Panel
from ldpbandits.lab.paper.summary import Curves
from ldpbandits.output.colours import BY_EPSILON
from ldpbandits.output.style import STYLE, save


def lines(panel: Panel, curves: Curves) -> list[Line]:
    """Return the curves of a panel with their looks: by epsilon where it varies, else by algorithm."""
    varies = len({epsilon for _, epsilon in panel.private}) > 1
    drawn = []
    for number, played in enumerate(panel.curves):
        simulation = curves[panel.bandit, played]
        looks = simulation.algorithm.drawn_as
        if varies and played[1] is not None:
            looks = Looks(f"epsilon = {played[1]:g}", *BY_EPSILON[(number - 1) % len(BY_EPSILON)])
        drawn.append(Line(simulation, looks))
    return drawn


def draw(panel: Panel, curves: Curves) -> tuple[bytes, bytes]:
    """Draw a panel; return it as SVG and as PNG."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.4 if panel.semilog else 5.0, 3.8), layout="constrained")
        drawn = lines(panel, curves)
        columns = 3 if panel.semilog or len(drawn) > 3 else 2  # noqa: PLR2004 - as many as fit below the figure
        axes = figure.subplots(1, 2 if panel.semilog else 1, squeeze=False)[0]
        plot_lines(axes[0], drawn, is_log=True)
        axes[0].set_title(f"{panel.id}  {panel.title}", loc="left")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=columns, handlelength=3)
        if panel.semilog:
            plot_lines(axes[1], drawn, is_log=False)
            axes[1].set_title("the same, regret on a linear axis", loc="left")
        return save(figure, "svg"), save(figure, "png")
