"""Regret at T = 1e5 beside reference.csv, an independent step-by-step simulation; fail beyond four joint errors."""

import csv
from math import hypot
from pathlib import Path

from ldpbandits.lab.algorithms import algorithm
from ldpbandits.lab.experiments import simulate
from ldpbandits.lab.panels import paper
from ldpbandits.output.progress import bar

TRIALS, MOST = 400, 4.0


def main() -> None:
    """Print the table."""
    print(f"{'arms':10} {'algorithm':11} {'epsilon':>7} {'reference':>18} {'ours':>18} {'difference':>11}")
    worst = 0.0
    with (Path(__file__).parent / "reference.csv").open(encoding="ascii") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        played = algorithm(row["algorithm"], float(row["epsilon"]) if row["epsilon"] else None)
        with bar(f"{row['arms']} {played.name}", TRIALS) as progress:
            simulation = simulate(played, getattr(paper, row["arms"]), 10**5, trials=TRIALS, seed=1, progress=progress)
        mean, error = simulation.mean_regret[-1], simulation.sem_regret[-1]
        joint = (mean - float(row["regret"])) / hypot(float(row["sem"]), error)
        worst = max(worst, abs(joint))
        ours, theirs = f"{mean:.1f} +- {error:.1f}", f"{row['regret']} +- {row['sem']}"
        print(
            f"{row['arms'].lower():10} {played.name:11} {row['epsilon'] or '-':>7} {theirs:>18} {ours:>18} "
            f"{joint:>+5.1f} errors"
        )
    if worst > MOST:
        raise SystemExit(f"beyond {MOST:g} joint standard errors")


if __name__ == "__main__":
    main()
