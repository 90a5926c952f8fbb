"""How bad the worst trials are: two Bernoulli arms of gap 0.1, epsilon 1, T = 5e4, 2,000 trials of each rule.

The mean regret, that of the worst 1 % of the trials and that of the worst trial; at most 5,000 is possible.
"""

import numpy as np

from ldpbandits.lab import simulate

TRIALS = 2_000
ARMS = ["bernoulli(0.6)", "bernoulli(0.5)"]
NAMES = ("ldp-ucb-b", "ldp-kl-ucb", "ldp-kl-ucb++", "ldp-imed", "ldp-ts", "ldp-ucb-l", "ldp-kl-ucb++-l", "ldp-imed-l")


def main() -> None:
    """Print a row for each rule."""
    print(__doc__)
    for name in NAMES:
        made = simulate(name, ARMS, 5e4, epsilon=1, trials=TRIALS, seed=1)
        regret = np.sort(made.regret[:, -1])
        worst = regret[-TRIALS // 100 :].mean()
        print(f"{name:16} mean {regret.mean():6,.0f}   worst 1 % {worst:6,.0f}   worst {regret[-1]:6,.0f}", flush=True)


if __name__ == "__main__":
    main()
