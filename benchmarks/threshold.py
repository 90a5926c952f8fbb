"""Regret on the paper's Gaussian arms behind a sigmoid and behind a threshold, epsilon 0.5; a prototype's beside it.

The prototype's standard errors are taken to be 2 %. It exits 1 when a mean differs by more than four joint standard
errors. `--horizon 1e5` is quick, and has no prototype.
"""

import argparse
import math
from collections.abc import Iterator

import numpy as np

from ldpbandits.lab import calibrate, simulate
from ldpbandits.lab.algorithms import is_private
from ldpbandits.lab.panels.paper import GAUSSIAN

EPSILON = 0.5
PROTOTYPE = {
    "ucb1-s": 82_232,
    "ldp-ucb-bs": 830_010,
    "ldp-ucb-bt(0.9)": None,
    "ldp-imed-s": 119_755,
    "ldp-imed-t(0)": 60_834,
    "ldp-imed-t(0.9)": 35_249,
}
"""Regret at T = 1e7."""
CALIBRATED = 36_185
"""The same with a theta that is found first, from [-100, 100], all costs included."""


def rows(horizon: int, trials: int) -> Iterator[tuple[str, float, float, int | None]]:
    """Yield a name, the mean regret, its standard error and the prototype's mean."""
    for name, prototype in PROTOTYPE.items():
        made = simulate(name, GAUSSIAN, horizon, epsilon=EPSILON if is_private(name) else None, trials=trials, seed=1)
        yield name, float(made.mean_regret[-1]), float(made.sem_regret[-1]), prototype
    totals, spent, cost = [], [], []
    for seed in range(trials):
        found = calibrate(GAUSSIAN, -100, 100, epsilon=EPSILON, seed=seed)
        rest = horizon - found.search.spent
        name = f"ldp-imed-t({found.search.theta!r})"
        played = simulate(name, GAUSSIAN, rest, epsilon=EPSILON, trials=1, seed=seed, checkpoints=[rest])
        totals.append(found.regret + float(played.mean_regret[-1]))
        spent.append(found.search.spent)
        cost.append(found.regret)
    print(f"calibration: {np.mean(spent):,.0f} responses on average, {np.mean(cost):,.0f} of regret")
    error = float(np.std(totals, ddof=1)) / math.sqrt(trials)
    yield "calibrated, then ldp-imed-t(theta)", float(np.mean(totals)), error, CALIBRATED


def main() -> None:
    """Print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--horizon", type=float, default=1e7)
    parser.add_argument("--trials", type=int, default=16)
    options = parser.parse_args()
    print(__doc__)
    off = []
    for name, mean, error, prototype in rows(int(options.horizon), options.trials):
        line = f"{name:36} {mean:9,.0f} ± {error:<7,.0f}"
        if prototype is not None and options.horizon == 1e7:  # noqa: PLR2004 - the prototype's
            away = (mean - prototype) / math.hypot(error, 0.02 * prototype)
            line += f" prototype {prototype:7,} {away:+.1f} errors"
            off += [name] if abs(away) > 4 else []  # noqa: PLR2004 - as the docstring says
        print(line, flush=True)
    if off:
        raise SystemExit(f"not as the prototype: {', '.join(off)}")


if __name__ == "__main__":
    main()
