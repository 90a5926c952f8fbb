"""Draw docs/regret.svg, the picture of docs/paper.md: private regret beside that of the same rules without privacy.

Beside it is the same for dark pages. Prints the numbers that the page says of it.
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from ldpbandits.lab.algorithms import algorithm
from ldpbandits.lab.experiments import simulate
from ldpbandits.lab.panels import paper
from ldpbandits.output.colours import BLACK, BLUE, GREEN, PURPLE, VERMILION
from ldpbandits.output.dark import dark
from ldpbandits.output.progress import bar
from ldpbandits.output.style import STYLE, save

OUT = Path(__file__).parent.parent / "docs" / "regret.svg"
HORIZON, TRIALS, SEED, EPSILON = 10**9, 50, 0, 1.0  # as in the panel bernoulli-1 of `reproduce`
CURVES = (
    ("ldp-ucb-b", EPSILON, BLUE, (6, 2), "LDP-UCB-B, the paper's rule on private bits"),
    ("ucb1", None, BLACK, (1, 1.2), "UCB1, no privacy: the paper's baseline"),
    ("ldp-kl-ucb++", EPSILON, GREEN, (1, 0), "LDP-KL-UCB++ on the same private bits: the default"),
    ("ldp-imed", EPSILON, PURPLE, (6, 1, 1, 1), "LDP-IMED on the same private bits"),
    ("kl-ucb++", None, VERMILION, (2, 1), "KL-UCB++, no privacy"),
    ("imed", None, VERMILION, (1, 2), "IMED, no privacy"),
)
EARLY = 10**5
"""Where numbers are printed too, beside the end."""


def main() -> None:
    """Simulate the curves and draw them."""
    mpl.rcParams.update({**STYLE, "font.size": 10})
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for name, epsilon, colour, dashes, label in CURVES:
        with bar(f"{name:12}", TRIALS) as progress:
            played = simulate(
                algorithm(name, epsilon), paper.BERNOULLI, HORIZON, trials=TRIALS, seed=SEED, progress=progress
            )
        t, mean, band = np.array(played.checkpoints), played.mean_regret, 2 * played.sem_regret
        axes.plot(t, mean, color=colour, dashes=dashes, label=label, linewidth=1.8)
        axes.fill_between(t, mean - band, mean + band, color=colour, alpha=0.2, linewidth=0)
        told = [
            f"T = {t[at]:.0e}: {mean[at]:7,.0f} ± {played.sem_regret[at]:,.0f}" for at in (list(t).index(EARLY), -1)
        ]
        print(f"{name:12} {'   '.join(told)}")
    axes.set(xscale="log", yscale="log", xlabel="pulls t", ylabel="regret", xlim=(100, HORIZON), ylim=(15, None))
    axes.set_title(f"20 Bernoulli arms, epsilon = {EPSILON:g}, mean of {TRIALS} trials", loc="left")
    axes.grid(visible=True, alpha=0.2, linewidth=0.5)
    axes.legend(loc="lower right", handlelength=3.5)
    light = save(figure, "svg")
    for path, content in ((OUT, light), (OUT.with_stem(f"{OUT.stem}-dark"), dark(light))):
        path.write_bytes(content)
        print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
