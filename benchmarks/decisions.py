"""Time live decisions beside a look at every arm, in one run, on one core: from 2 to 10,000 arms, every rule.

A cycle is `issue` and `update`: hand an arm out, and count a response. Means are from 0.3 to 0.7, responses are CTB's
at epsilon 1. Times are of the processor, which others that share the machine do not lengthen.

    fresh   the first cycles of an experiment
    played  after 1e5 responses
    out     after 1e5 responses, with 10,000 further pulls out; each response is that of the oldest

The first decision of an agent looks at every arm; it has a column of its own.
"""

import random
import sys
from collections import deque
from dataclasses import replace
from statistics import fmean
from time import thread_time

from ldpbandits.agent.agent import Agent
from ldpbandits.agent.kernels import select
from ldpbandits.agent.lookout import MovingRule
from ldpbandits.agent.rules import IMED, KLUCB, KLUCBPlus, Rule, Thompson, ldp_ucb_b, ldp_ucb_l
from ldpbandits.agent.tally import Tally
from ldpbandits.spec.mechanisms import response_mean
from ldpbandits.types import Arm, Response

RULES: dict[str, Rule] = {
    "ucb": ldp_ucb_b(),
    "ucb, floor 4": ldp_ucb_l(1.0),
    "kl-ucb": KLUCB(),
    "kl-ucb++": KLUCBPlus(),
    "imed": IMED(),
    "thompson": Thompson(),
}
ARMS = (2, 10, 20, 256, 10_000)
PLAYED, OUT, CYCLES, EPSILON = 100_000, 10_000, 20_000, 1.0
LIMITS = {256: 150e-6, 10_000: 1e-3}
"""What a cycle may take on average, in seconds."""


class Crowd:
    """An agent with its users."""

    def __init__(self, rule: Rule, arms: int) -> None:
        """Start with nobody."""
        self.rng = random.Random(1)
        self.bits = [response_mean(0.3 + 0.4 * self.rng.random(), EPSILON) for _ in range(arms)]
        self.agent = Agent(rule, arms)
        self.out: deque[Arm] = deque()

    def cycle(self) -> float:
        """Return what one decision and one response took."""
        started = thread_time()
        arm = self.agent.issue()
        took = thread_time() - started
        self.out.append(arm)
        back = self.out.popleft()
        response = Response(float(self.rng.random() < self.bits[back]))
        started = thread_time()
        self.agent.update(back, response)
        return took + thread_time() - started

    def play(self, cycles: int) -> None:
        """Let time pass."""
        for _ in range(cycles):
            self.cycle()

    def with_rule(self, rule: Rule) -> "Crowd":
        """Return another agent with the same tallies."""
        other = Crowd(rule, len(self.bits))
        other.agent.tally = Tally(replace(arm) for arm in self.agent.tally.arms)
        other.out = self.out.copy()
        return other

    def full_scan(self) -> float:
        """Return what a look at every arm takes, the mean of a few."""
        rule, tally, times = self.agent.rule, self.agent.tally, []
        tally.spread_mean()
        rows = tally.means, tally.pulls, tally.counts
        for _ in range(max(3, 2_000 // len(self.bits))):
            started = thread_time()
            select(rule.index, rule.parameters, rule.floor, *rows, tally.t, self.rng, tally.indexes)
            times.append(thread_time() - started)
        return fmean(times)


def measure(name: str, state: str, crowd: Crowd) -> bool:
    """Print a row; say whether it is within the limit."""
    arms = len(crowd.bits)
    first = crowd.cycle()
    declares = isinstance(crowd.agent.rule, MovingRule)
    times = sorted(crowd.cycle() for _ in range(CYCLES if declares else max(100, CYCLES // arms)))
    mean, scan = fmean(times), crowd.full_scan()
    tail = times[len(times) * 999 // 1000]
    row = f"{name:<14}{arms:>6}  {state:<7}"
    numbers = f"{mean * 1e6:>9.1f}{tail * 1e6:>9.0f}{times[-1] * 1e6:>9.0f}{first * 1e6:>9.0f}{scan * 1e6:>10.1f}"
    met = mean <= LIMITS.get(arms, 1)
    print(f"{row}{numbers}{scan / mean:>8.1f}{'' if met else '   above the limit'}", flush=True)
    return met


def main() -> None:
    """Print a table; fail if a rule that declares how its index moves is above the limits."""
    print(__doc__)
    print("                             us a cycle: mean, 99.9 %, worst, first; us by full scan; ratio")
    failed = set()
    for arms in ARMS:
        for name, rule in RULES.items():
            if sys.argv[1:] and name not in sys.argv[1:]:
                continue
            met = measure(name, "fresh", Crowd(rule, arms))
            declares = isinstance(rule, MovingRule)
            crowd = Crowd(rule if declares else IMED(), arms)  # a full scan would take too long to get there
            crowd.play(PLAYED)
            met &= measure(name, "played", crowd.with_rule(rule))
            for _ in range(OUT):
                crowd.out.append(crowd.agent.issue())
            met &= measure(name, "out", crowd.with_rule(rule))
            if declares and not met:
                failed.add(name)
    if failed:
        raise SystemExit(f"slower than promised: {', '.join(sorted(failed))}")


if __name__ == "__main__":
    main()
