"""Scan for the worst mix of rewards in a shuffled batch: no measurement, but what `ldpbandits account` rests on.

For every number x of others with reward 1, the epsilon of the sum of a batch at delta = 1e-6. It prints the worst x up
to half of the batch, how much more its epsilon is than that of x = 0, and the epsilon that is proved for every x.
"""

from ldpbandits.theory.shuffling import proved_epsilon, scanned_epsilon

BATCHES = (20, 50, 100, 150, 200)
EPSILONS = (0.2, 0.5, 1.0, 2.0, 4.0)


def row(epsilon: float, batch: int) -> str:
    """Return the row of a batch: its worst x, and its epsilon by scan and by proof."""
    found = [scanned_epsilon(epsilon, batch, ones=ones) for ones in range((batch + 1) // 2)]
    worst = max(range(len(found)), key=found.__getitem__)
    more, proved = found[worst] / found[0] - 1, proved_epsilon(epsilon, batch)
    return f"| {batch} | {epsilon:g} | {worst} | {found[worst]:.4g} | {100 * more:.3f} % | {proved:.4g} |"


def main() -> None:
    """Print a row for each batch and epsilon."""
    print("| batch | epsilon of a response | worst x | epsilon at the worst x | more than at x = 0 | proved |")
    print("|---|---|---|---|---|---|")
    for batch in BATCHES:
        for epsilon in EPSILONS:
            print(row(epsilon, batch))


if __name__ == "__main__":
    main()
