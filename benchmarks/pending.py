"""What it is worth to count the pulls that are out: regret with 10,000 tickets outstanding, beside uniform play.

10 arms, one better than the others by a gap of 0.1, CTB at epsilon 1, T = 50,000 decisions. A response arrives when
10,000 further decisions have been made.
"""

import math
import random
from collections import deque
from statistics import fmean, stdev

from ldpbandits.agent.agent import Agent
from ldpbandits.agent.rules import IMED, KLUCB, UCB, KLUCBPlus, Rule, Thompson, ldp_ucb_b
from ldpbandits.spec.mechanisms import response_mean
from ldpbandits.types import Arm

ARMS, GAP, EPSILON, HORIZON = 10, 0.1, 1.0, 50_000
BEST = 5
MEANS = [0.5 + GAP if arm == BEST else 0.5 for arm in range(ARMS)]
UNIFORM = HORIZON * GAP * (ARMS - 1) / ARMS


class Forgetful(Agent):
    """The plain rule: a pull that is out counts for nothing."""

    def issue(self) -> Arm:
        """Return the arm to pull next, and forget it."""
        arm = super().issue()
        self.take_back(arm)
        return arm


def regret(kind: type[Agent], rule: Rule, outstanding: int, seed: int) -> float:
    """Return the regret of one run, as a share of uniform play's."""
    rng = random.Random(seed)
    bits = [response_mean(mean, EPSILON) for mean in MEANS]
    agent = kind(rule, ARMS)
    out: deque[Arm] = deque()
    total = 0.0
    for _ in range(HORIZON):
        arm = agent.issue()
        total += MEANS[BEST] - MEANS[arm]
        out.append(arm)
        if len(out) > outstanding:
            back = out.popleft()
            if kind is Agent:
                agent.take_back(back)
            agent.tally.add(back, 1, float(rng.random() < bits[back]))
    return total / UNIFORM


def main() -> None:
    """Print a table."""
    print(__doc__)
    runs = 10
    rules: dict[str, Rule] = {
        "LDP-UCB-B, width sqrt(2)": ldp_ucb_b(),
        "width 1/2": UCB(0.5),
        "kl-ucb": KLUCB(),
        "kl-ucb++": KLUCBPlus(),
        "imed": IMED(),
        "thompson": Thompson(),
    }
    for name, rule in rules.items():
        for what, kind, outstanding in (
            ("no delay", Agent, 0),
            ("pulls that are out count", Agent, 10_000),
            ("plain rule", Forgetful, 10_000),
        ):
            shares = [regret(kind, rule, outstanding, seed) for seed in range(runs)]
            error = stdev(shares) / math.sqrt(runs)
            print(f"{name:<26}{what:<26}{fmean(shares):6.1%} +- {error:.1%} of uniform play's regret")


if __name__ == "__main__":
    main()
