"""How bad the worst trials are: two Bernoulli arms of gap 0.1, T = 5e4, 2,000 trials of each rule.

The mean regret, that of the worst 1 % of the trials and that of the worst trial; at most T / 10 is possible.
"""

import numpy as np

from ldpbandits.lab import simulate

TRIALS = 2_000
ARMS = ["bernoulli(0.6)", "bernoulli(0.5)"]
NAMES = ("ldp-ucb-b", "ldp-kl-ucb", "ldp-kl-ucb++", "ldp-imed", "ldp-ts", "ldp-ucb-l", "ldp-kl-ucb++-l", "ldp-imed-l")

LATER = (("ldp-kl-ucb++", 0.2, 5e4), ("ldp-kl-ucb++", 0.2, 5e6), ("ldp-ucb-b", 0.2, 5e4), ("ldp-ucb-b", 0.2, 5e6))
"""The default and the paper's at a small epsilon: where gap^2 tanh(epsilon / 2)^2 T is 5, and where it is 500."""


def main() -> None:
    """Print a row for each rule."""
    print(__doc__)
    for name, epsilon, horizon in (*((name, 1.0, 5e4) for name in NAMES), *LATER):
        made = simulate(name, ARMS, horizon, epsilon=epsilon, trials=TRIALS, seed=1)
        regret = np.sort(made.regret[:, -1])
        told = (
            f"mean {regret.mean():6,.0f}   worst 1 % {regret[-TRIALS // 100 :].mean():6,.0f}   worst {regret[-1]:6,.0f}"
        )
        print(f"{name:16} epsilon {epsilon:<3g} T = {horizon:.0e}   {told}", flush=True)


if __name__ == "__main__":
    main()
