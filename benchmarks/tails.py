"""How bad the worst trials are: two Bernoulli arms of gap 0.1, T = 5e4, 2,000 trials of each rule.

The mean regret, its 99 % quantile, the mean of the worst 1 % of the trials, and the worst trial; at most T / 10 is
possible. ada-ucb knows the number of users; where it is told half of it or twice as many, that is said.
"""

import numpy as np

from ldpbandits.agent.rules import AdaUCB
from ldpbandits.lab import simulate, with_rule
from ldpbandits.lab.simulation import Simulation

TRIALS = 2_000
ARMS = ["bernoulli(0.6)", "bernoulli(0.5)"]
NAMES = ("ldp-ucb-b", "ldp-kl-ucb", "ldp-kl-ucb++", "ldp-imed", "ldp-ts", "ldp-ucb-l", "ldp-kl-ucb++-l", "ldp-imed-l")

LATER = (("ldp-kl-ucb++", 0.2, 5e4), ("ldp-kl-ucb++", 0.2, 5e6), ("ldp-ucb-b", 0.2, 5e4), ("ldp-ucb-b", 0.2, 5e6))
"""The default and the paper's at a small epsilon: where gap^2 tanh(epsilon / 2)^2 T is 5, and where it is 500."""


USERS = 50_000
TOLD = ((1.0, USERS), (1.0, USERS // 2), (1.0, 2 * USERS), (0.2, USERS))
"""Epsilon, and the number of users that ada-ucb is told."""


def show(name: str, horizon: float, made: Simulation) -> None:
    """Print the row of a rule."""
    regret = np.sort(made.regret[:, -1])
    tail = f"99 % {np.quantile(regret, 0.99):6,.0f}   worst 1 % {regret[-TRIALS // 100 :].mean():6,.0f}"
    epsilon = f"epsilon {made.algorithm.epsilon:<3g}"
    print(
        f"{name:24} {epsilon} T = {horizon:.0e}   mean {regret.mean():6,.0f}   {tail}   worst {regret[-1]:6,.0f}",
        flush=True,
    )


def main() -> None:
    """Print a row for each rule."""
    print(__doc__)
    for epsilon, told in TOLD:
        made = simulate(with_rule(AdaUCB(told, epsilon), epsilon=epsilon), ARMS, USERS, trials=TRIALS, seed=1)
        show("ada-ucb" if told == USERS else f"ada-ucb, told {told:,}", USERS, made)
    for name, epsilon, horizon in (*((name, 1.0, 5e4) for name in NAMES), *LATER):
        show(name, horizon, simulate(name, ARMS, horizon, epsilon=epsilon, trials=TRIALS, seed=1))


if __name__ == "__main__":
    main()
