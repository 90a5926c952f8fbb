"""Draw docs/regret.svg, the picture of the README: what privacy costs on the paper's Bernoulli arms."""

from math import log
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from ldpbandits.lab import paper
from ldpbandits.lab.algorithms import algorithm
from ldpbandits.lab.experiments import simulate
from ldpbandits.output.progress import bar
from ldpbandits.output.style import BLACK, BLUE, GREEN, VERMILION
from ldpbandits.theory import bounds

OUT = Path(__file__).parent.parent / "docs" / "regret.svg"
HORIZON, TRIALS, EPSILON = 10**6, 50, 2.0
CURVES = (
    ("ldp-ucb-l", EPSILON, VERMILION, (5, 2), "LDP-UCB-L: Laplace responses"),
    ("ldp-ucb-b", EPSILON, BLUE, (), "LDP-UCB-B: one private bit"),
    ("ucb1", None, BLACK, (1, 1), "UCB1: no privacy"),
)


def main() -> None:
    """Simulate the three curves and draw them with the exact lower bound."""
    mpl.rcParams.update({"svg.hashsalt": "ldpbandits", "font.size": 10})
    figure = Figure(figsize=(7, 3.8), layout="constrained")
    axes = figure.add_subplot()
    for seed, (name, epsilon, colour, dashes, label) in enumerate(CURVES):
        with bar(f"{name:10}", TRIALS) as progress:
            simulation = simulate(
                algorithm(name, epsilon), paper.BERNOULLI, HORIZON, trials=TRIALS, seed=seed, progress=progress
            )
        t, mean, band = np.array(simulation.checkpoints), simulation.mean_regret, 2 * simulation.sem_regret
        axes.plot(t, mean, color=colour, dashes=dashes or (None, None), label=label, linewidth=1.8)
        axes.fill_between(t, mean - band, mean + band, color=colour, alpha=0.2, linewidth=0)
    constant = bounds.exact_constant([arm.mean for arm in paper.BERNOULLI], EPSILON)
    t = np.geomspace(10, HORIZON, 100)
    axes.plot(
        t,
        [constant * log(x) for x in t],
        color=GREEN,
        linewidth=0.8,
        label=f"{constant:.1f} log t: lower bound as t grows",
    )
    axes.set(xscale="log", yscale="log", xlabel="pulls t", ylabel="regret", xlim=(100, HORIZON), ylim=(10, None))
    axes.set_title(f"20 Bernoulli arms, epsilon = {EPSILON:g}, mean of {TRIALS} trials", fontsize=10)
    axes.grid(visible=True, alpha=0.25)
    axes.legend(frameon=False, loc="upper left")
    figure.savefig(OUT, metadata={"Date": None})
    print(f"wrote {OUT.name}")


if __name__ == "__main__":
    main()
