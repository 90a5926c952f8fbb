"""Regret of the rules beyond the paper beside an independent prototype's, on the paper's Bernoulli arms.

The prototype's standard errors are about 1 %. It exits 1 when a mean differs by more than four joint standard errors.
Rows that the prototype did not measure stand alone. Then the slope of regret in log T between 1e9 and 1e12 over the
exact constant, beside the prototype's.
"""

import csv
import math
from pathlib import Path

from ldpbandits.lab import algorithm, simulate
from ldpbandits.lab.panels.paper import BERNOULLI
from ldpbandits.lab.play import choose_engine
from ldpbandits.theory.bounds import exact_constant

TRIALS = 64
FEWER = 32
"""Of algorithms that are played round by round."""
SLOPES = {
    # for epsilon 2, 1 and 0.2
    "ldp-ucb-b": (5.5, 4.5, 4.4),
    "ldp-kl-ucb": (1.01, 1.04, 1.00),
    "ldp-kl-ucb++": (1.04, 1.09, 1.11),
    "ldp-imed": (0.94, 0.94, 0.93),
}


def print_regret() -> list[str]:
    """Print a row for each algorithm, epsilon and horizon; return the names of those that are off."""
    off = []
    with (Path(__file__).parent / "policies.csv").open(encoding="ascii") as file:
        for row in csv.DictReader(file):
            name, epsilon, horizon = row["algorithm"], float(row["epsilon"]), float(row["horizon"])
            trials = TRIALS if choose_engine(algorithm(name, epsilon), BERNOULLI) == "leap" else FEWER
            made = simulate(name, BERNOULLI, horizon, epsilon=epsilon, trials=trials, seed=1)
            mean, error = float(made.mean_regret[-1]), float(made.sem_regret[-1])
            ours = f"{name:16} epsilon {epsilon:<4g} T = {horizon:.0e} {mean:9,.0f} ± {error:<6,.0f}"
            if not row["regret"]:
                print(ours, flush=True)
                continue
            reference = float(row["regret"])
            away = (mean - reference) / math.hypot(error, 0.01 * reference)
            print(f"{ours} prototype {reference:7,.0f} {away:+.1f} errors", flush=True)
            off += [name] if abs(away) > 4 else []  # noqa: PLR2004 - as the docstring says
    return off


def print_slopes() -> None:
    """Print slopes over the exact constant."""
    means = [arm.mean for arm in BERNOULLI]
    for name, references in SLOPES.items():
        for epsilon, reference in zip((2.0, 1.0, 0.2), references, strict=True):
            made = simulate(name, BERNOULLI, 1e12, epsilon=epsilon, trials=TRIALS, seed=2, checkpoints=(10**9, 10**12))
            regret = made.pulls @ [max(means) - mean for mean in means]
            slopes = (regret[:, 1] - regret[:, 0]) / math.log(1_000) / exact_constant(means, epsilon)
            ours = f"{slopes.mean():.2f} ± {slopes.std(ddof=1) / math.sqrt(TRIALS):.2f}"
            print(
                f"{name:14} epsilon {epsilon:<4g} slope over the exact constant {ours} prototype {reference}",
                flush=True,
            )


def main() -> None:
    """Print UCB1 without privacy first, then all rules, then the slopes."""
    print(__doc__)
    baseline = simulate("ucb1", BERNOULLI, 1e5, trials=400, seed=1)
    print(f"ucb1, no privacy           {baseline.mean_regret[-1]:9,.0f} ± {baseline.sem_regret[-1]:.0f}")
    off = print_regret()
    print_slopes()
    if off:
        raise SystemExit(f"not as the prototype: {', '.join(off)}")


if __name__ == "__main__":
    main()
