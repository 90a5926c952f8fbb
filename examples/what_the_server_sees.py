"""Draw docs/what-the-server-sees.svg, the picture of the README: what people did, what the server gets, what it learns.

Beside it is the same for dark pages. Prints the numbers that the picture shows.
"""

from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ldpbandits import BernoulliCurator, estimate
from ldpbandits.output.colours import BLACK, BLUE, GREY, VERMILION
from ldpbandits.output.dark import dark, dark_colour
from ldpbandits.output.style import STYLE, save

OUT = Path(__file__).parent.parent / "docs" / "what-the-server-sees.svg"
EPSILON, SEED, PEOPLE = 1.0, 7, 4000
CLICKS = {"Page A": (0.30, BLUE), "Page B": (0.50, VERMILION)}
"""How many people click, which nobody knows, and a colour."""

WHITE, LIGHT_GREY = "#ffffff", "#e6e6e6"

ROWS, COLUMNS, PIXELS = 15, 40, 12
"""So many people of each page are drawn, each as a square of so many pixels."""

TITLES = (
    "1. What people did\nstays on their own phones",
    "2. What the server gets\none random bit from each person",
    "3. What the server learns\nhow many clicked, of everyone",
)
LEGENDS = (
    f"coloured: clicked\n({ROWS * COLUMNS} of the {PEOPLE:,} people who saw each page)",
    "strong: 1, faint: 0. Before a bit leaves its phone,\nit is flipped with a chance of {flipped:.0f} %",
    "dot: the estimate; line: 95 % confidence;\ngrey: the truth, which the server never sees",
)


def main() -> None:
    """Draw both pictures, with the same coins."""
    mpl.rcParams.update({**STYLE, "font.size": 10})
    light = draw(str, told=print)
    night = dark(draw(dark_colour, told=lambda _: None))
    for path, content in ((OUT, light), (OUT.with_stem(f"{OUT.stem}-dark"), night)):
        path.write_bytes(content)
        print(f"wrote {path.name}")


def draw(shade: Callable[[str], str], told: Callable[[str], None]) -> bytes:
    """Toss the coins, and draw; `shade` maps the colours of squares, which are pixels, beyond the reach of `dark`."""
    rng = np.random.default_rng(SEED)
    curator = BernoulliCurator(epsilon=EPSILON)
    chances = [curator.spec.mechanism.response_mean(value) for value in (0.0, 1.0)]
    figure = Figure(figsize=(10.4, 3.7))
    figure.set_layout_engine("constrained", wspace=0.07)
    axes = figure.subplots(2, 3)
    for place, (title, legend) in enumerate(zip(TITLES, LEGENDS, strict=True)):
        axes[0, place].set_title(title, loc="left", fontsize=11, pad=8)
        axes[1, place].set_xlabel(legend.format(flipped=100 * chances[0]), fontsize=9, loc="left", labelpad=6)
    for row, (name, (share, colour)) in enumerate(CLICKS.items()):
        clicked = rng.random(PEOPLE) < share
        bits = rng.random(PEOPLE) < np.array(chances)[clicked.astype(int)]
        found = estimate(PEOPLE, float(bits.sum()), curator)
        assert found.mean is not None  # noqa: S101 - there are responses
        _squares(axes[row, 0], clicked, shade, colour)
        _squares(axes[row, 1], bits, shade, BLACK)
        _interval(axes[row, 2], (found.low, found.mean, found.high), share, colour)
        axes[row, 0].set_ylabel(name, fontsize=12, fontweight="bold", color=colour, rotation=0, ha="right", va="center")
        told(f"{name}: {clicked.mean():.3f} clicked; {bits.mean():.3f} of the bits are 1, and")
        told(
            f"  {np.mean(bits != clicked):.3f} were flipped; the server's estimate is {found.mean:.3f}, "
            f"between {found.low:.3f} and {found.high:.3f}"
        )
    axes[0, 2].set_xticklabels([])
    return save(figure, "svg")


def _squares(axes: Axes, values: NDArray[np.bool_], shade: Callable[[str], str], colour: str) -> None:
    """Draw some of the people, each a square whose edge has the colour of the ground."""
    picture = np.broadcast_to(to_rgb(shade(WHITE)), (ROWS, PIXELS, COLUMNS, PIXELS, 3)).copy()
    yes, no = to_rgb(shade(colour)), to_rgb(shade(LIGHT_GREY))
    inks = np.where(values[: ROWS * COLUMNS].reshape(ROWS, COLUMNS, 1), yes, no)
    picture[:, :-2, :, :-2] = inks[:, None, :, None]
    axes.imshow(picture.reshape(ROWS * PIXELS, COLUMNS * PIXELS, 3), interpolation="none")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def _interval(axes: Axes, interval: tuple[float, float, float], truth: float, colour: str) -> None:
    """Draw an estimate, its interval and the truth."""
    low, mean, high = interval
    axes.axvline(truth, color=GREY, linewidth=5, alpha=0.4, ymin=0.1, ymax=0.55)
    axes.plot([low, high], [-0.35, -0.35], color=colour, linewidth=4, solid_capstyle="round")
    axes.plot([mean], [-0.35], "o", color=colour, markersize=11)
    axes.text(mean, 0.2, f"{100 * mean:.0f} %", ha="center", va="bottom", fontsize=14, color=colour, fontweight="bold")
    axes.set(xlim=(0.1, 0.7), ylim=(-1, 1), yticks=[], xticks=[0.2, 0.4, 0.6], xticklabels=["20 %", "40 %", "60 %"])
    axes.set_box_aspect(ROWS / COLUMNS)
    axes.spines["left"].set_visible(False)


if __name__ == "__main__":
    main()
