"""Time live decisions beside a look at every arm, in one run, on one core: from 2 to 10,000 arms, every rule.

A cycle is `issue` and `update`: hand an arm out, and count a response. Means are from 0.3 to 0.7, responses are CTB's
at epsilon 1. Times are microseconds of the processor: mean, 99.9 % and worst of many cycles, and the first one, which
computes every bound. `scan` is the mean cycle of the same index in a rule that declares nothing, on the same tallies.

    fresh   the first cycles of an experiment
    played  after 1e5 responses
    out     after 1e5 responses, with 10,000 further pulls out; each response is that of the oldest
    menu    responses of three epsilons, from the first on: nothing is promised yet

"""

import random
import sys
from collections import deque
from dataclasses import dataclass, replace
from statistics import fmean
from time import thread_time

from ldpbandits.agent.agent import Agent
from ldpbandits.agent.bounded_argmax import CHEAP_INDEX_MIN_ARMS
from ldpbandits.agent.kernels import Index, Parameters
from ldpbandits.agent.rules import IMED, KLUCB, KLUCBPlus, Rule, Thompson, ldp_ucb_b, ldp_ucb_l
from ldpbandits.agent.tally import Tally
from ldpbandits.spec.mechanisms import response_mean
from ldpbandits.spec.menu import Menu
from ldpbandits.types import Arm, Response

RULES: dict[str, Rule] = {
    "ucb": ldp_ucb_b(),
    "ucb, floor 4": ldp_ucb_l(1.0),
    "kl-ucb": KLUCB(),
    "kl-ucb++": KLUCBPlus(),
    "imed": IMED(),
    "thompson": Thompson(),
}
MOVING = {name for name, rule in RULES.items() if rule.moves is not None}
"""The others draw: what they take is said, and nothing is promised."""
ARMS = (2, 10, 20, 256, 10_000)
PLAYED, OUT, CYCLES, EPSILON = 100_000, 10_000, 20_000, 1.0
MENU = Menu.from_json({"mechanism": "bernoulli", "epsilon": [0.2, 1, 4]})
MENU_ARMS = 256
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


@dataclass(frozen=True)
class Plain(Rule):
    """A rule that declares nothing of how its index moves."""

    rule: str

    @property
    def index(self) -> Index:
        """That of the rule of this name."""
        return RULES[self.rule].index

    @property
    def parameters(self) -> Parameters:
        """As above."""
        return RULES[self.rule].parameters

    @property
    def floor(self) -> float:
        """As above."""
        return RULES[self.rule].floor


def measure(name: str, state: str, crowd: Crowd) -> bool:
    """Print a row; say whether it is within the limit."""
    arms = len(crowd.bits)
    scanning = crowd.with_rule(Plain(name))
    first = crowd.cycle()
    times = sorted(crowd.cycle() for _ in range(CYCLES if name in MOVING else CYCLES // 10))
    mean, scan = fmean(times), fmean(scanning.cycle() for _ in range(max(10, CYCLES // 2 // arms)))
    tail = times[len(times) * 999 // 1000]
    numbers = "".join(f"{time * 1e6:>9.0f}" for time in (tail, times[-1], first))
    met = mean <= LIMITS.get(arms, 1.0)
    row = f"{name:<14}{arms:>6}  {state:<7}{mean * 1e6:>9.1f}{numbers}{scan * 1e6:>10.1f}{scan / mean:>8.1f}"
    print(row if met else f"{row}  above the limit", flush=True)
    return met


def measure_menu(name: str, arms: int) -> None:
    """Print what a cycle takes when every user has an epsilon of their own: the later half of so many cycles."""
    rng, cycles = random.Random(1), 4_000 if name in MOVING else 400
    agent = Agent(RULES[name], arms, curator=MENU, random=rng)
    means = [0.3 + 0.4 * rng.random() for _ in range(arms)]
    times = []
    for _ in range(cycles):
        epsilon = rng.choice(MENU.epsilons)
        started = thread_time()
        arm = agent.issue()
        took = thread_time() - started
        response = Response(float(rng.random() < response_mean(means[arm], epsilon)))
        started = thread_time()
        agent.update(arm, response, epsilon=epsilon)
        times.append(took + thread_time() - started)
    late = sorted(times[cycles // 2 :])
    numbers = "".join(f"{time * 1e6:>9.0f}" for time in (late[len(late) * 999 // 1000], late[-1]))
    print(f"{name:<14}{arms:>6}  {'menu':<7}{fmean(late) * 1e6:>9.1f}{numbers}", flush=True)


def main() -> None:
    """Print a table; fail if a rule that declares how its index moves is above the limits."""
    print(__doc__)
    print(
        f"{'rule':<14}{'arms':>6}  {'state':<7}{'mean':>9}{'99.9 %':>9}{'worst':>9}{'first':>9}{'scan':>10}{'ratio':>8}"
    )
    failed = set()
    for arms in ARMS:
        for name in sys.argv[1:] or RULES:
            met = measure(name, "fresh", Crowd(RULES[name], arms))
            crowd = Crowd(
                RULES[name] if name in MOVING and arms > CHEAP_INDEX_MIN_ARMS else IMED(), arms
            )  # others take too long
            crowd.play(PLAYED)
            met &= measure(name, "played", crowd.with_rule(RULES[name]))
            crowd.out.extend(crowd.agent.issue() for _ in range(OUT))
            met &= measure(name, "out", crowd.with_rule(RULES[name]))
            if arms == MENU_ARMS and RULES[name].mixed_index is not None:
                measure_menu(name, arms)
            if name in MOVING and not met:
                failed.add(name)
    if failed:
        raise SystemExit(f"slower than promised: {', '.join(sorted(failed))}")


if __name__ == "__main__":
    main()
