"""What it is worth to count the pulls that are out: regret with 10,000 tickets outstanding, beside uniform play.

10 arms, one better than the others by a gap of 0.1, CTB at epsilon 1, T = 50,000 decisions. A response arrives when
10,000 further decisions have been made. Regret is a share of uniform play's, the mean of some runs, with its standard
error. The agent's own kernels are played, compiled.

How little is possible: no response is in during the first 10,000 decisions, so that no agent does better than uniform
play in them. During the next 10,000 an agent that spread the first ones evenly does best, on average, if it follows the
best mean so far. The least is what that costs, with no regret at all in the 30,000 decisions after them.

Then strangers: for each device that answers, 20 ask and never do. Their tickets count in full, or as the server weighs
them (server/experiments/traffic.py). A run is locked when the worse of two arms gets most of the last quarter of the
decisions.
"""

import math
import random
from collections import deque
from collections.abc import Callable
from statistics import fmean, stdev

import numpy as np
from numpy.typing import NDArray

import ldpbandits.lab.engine.step  # noqa: F401 - it tells the compiler of the kernels
from ldpbandits.agent import kernels
from ldpbandits.agent.agent import Agent
from ldpbandits.agent.rules import IMED, KLUCB, UCB, KLUCBPlus, Rule, Thompson, ldp_ucb_b
from ldpbandits.agent.tally import UNKNOWN
from ldpbandits.lab.engine.compiled import inlined, uncached
from ldpbandits.server.experiments.traffic import Traffic
from ldpbandits.spec.mechanisms import response_mean
from ldpbandits.types import Arm

ARMS, GAP, EPSILON, HORIZON, OUTSTANDING = 10, 0.1, 1.0, 50_000, 10_000
BEST = 5
MEANS = [0.5 + GAP if arm == BEST else 0.5 for arm in range(ARMS)]
BITS = np.array([response_mean(mean, EPSILON) for mean in MEANS])
UNIFORM = HORIZON * (ARMS - 1) / ARMS
"""How often uniform play pulls an arm that is not the best."""
RUNS = 100

TWO_ARMS, SECONDS, REPORT_AFTER_S, LIFETIME_S = (0.4, 0.6), 1000, 300.0, 3600.0

select: Callable[..., int] = inlined(kernels.select)
Loop = Callable[[np.random.Generator, NDArray[np.float64], int, int, bool], int]
"""Called with (rng, bits, horizon, outstanding, counting), it says how often an arm was pulled that is not the best."""


def loop(rule: Rule) -> Loop:
    """Compile the play of a rule; when `counting`, pulls that are out count, as in the live agent."""
    index, parameters, floor = inlined(rule.index), tuple(map(float, rule.parameters)), float(rule.floor)

    @uncached
    def play(  # numba passes arguments by position
        rng: np.random.Generator,
        bits: NDArray[np.float64],
        horizon: int,
        outstanding: int,
        counting: bool,  # noqa: FBT001
    ) -> int:
        arms, answered, wrong = len(bits), 0, 0
        pulls, totals, counts = np.zeros(arms), np.zeros(arms), np.zeros(arms)
        means, indexes, handed = np.full(arms, UNKNOWN), np.empty(arms), np.empty(horizon, np.int64)
        for t in range(horizon):
            clock = float(t if counting else answered)
            seen = counts if counting else pulls
            arm = select(index, parameters, floor, means, pulls, seen, pulls, clock, rng, indexes)
            handed[t] = arm
            counts[arm] += 1
            wrong += arm != BEST
            if t >= outstanding:
                back = handed[t - outstanding]
                pulls[back] += 1
                totals[back] += rng.random() < bits[back]
                answered += 1
                of_all = totals.sum() / answered
                for other in range(arms):
                    means[other] = totals[other] / pulls[other] if pulls[other] > 0 else of_all
        return wrong

    return play


def least(seed: int) -> float:
    """Return what the second 10,000 decisions cost an agent that follows the best mean; the first cost 1 / 5."""
    rng = np.random.default_rng(seed)
    arms = np.arange(OUTSTANDING) % ARMS
    answers = np.eye(ARMS)[arms]
    ones = answers * (rng.random(OUTSTANDING) < BITS[arms])[:, None]
    counts, totals = np.cumsum(answers, axis=0), np.cumsum(ones, axis=0)
    chosen = np.argmax(np.where(counts > 0, totals / np.maximum(counts, 1), UNKNOWN), axis=1)
    return float(np.sum(chosen != BEST)) / UNIFORM


def with_strangers(seed: int, seconds: int, delay: int, strangers: int, *, is_weighed: bool) -> tuple[float, bool]:
    """Play kl-ucb++ on two arms; each second a device asks, which answers after `delay` s, and these strangers.

    Return the share of the worse arm among the devices' decisions, and whether the run is locked.
    """
    rng, tally = random.Random(seed), (agent := Agent(KLUCBPlus(), len(TWO_ARMS))).tally
    traffic, out, wrong = Traffic(None, REPORT_AFTER_S, LIFETIME_S), [0] * len(TWO_ARMS), list[bool]()
    waiting: deque[Arm] = deque()
    for second in range(1, seconds + 1):
        for number in range(strangers + 1):
            arm = agent.select()
            out[arm] += 1
            tally.set_out(arm, math.ceil(traffic.weight * out[arm]))
            if number == strangers // 2:
                waiting.append(arm)
                wrong.append(arm == 0)
        if len(waiting) > delay:
            arm = waiting.popleft()
            out[arm] -= 1
            tally.add(arm, 1, float(rng.random() < response_mean(TWO_ARMS[arm], EPSILON)))
            traffic.answered(delay)
        if is_weighed and traffic.is_due(second):
            traffic.sample(second, second * (strangers + 1), max(0, second - delay), sum(out))
        for each, count in enumerate(out):
            tally.set_out(Arm(each), math.ceil(traffic.weight * count))
    return fmean(wrong), fmean(wrong[-seconds // 4 :]) > 1 / 2


def told(shares: list[float]) -> str:
    """Write a mean with its standard error."""
    return f"{fmean(shares):6.1%} +- {stdev(shares) / math.sqrt(len(shares)):4.1%}"


def main() -> None:
    """Print a table."""
    print(__doc__)
    print(f"{'before any response':<28}{OUTSTANDING / HORIZON:6.1%}")
    print(f"{'the least':<28}{told([OUTSTANDING / HORIZON + least(seed) for seed in range(1_000)])}\n")
    rules: dict[str, Rule] = {
        "LDP-UCB-B, width sqrt(2)": ldp_ucb_b(),
        "width 1/2": UCB(0.5),
        "kl-ucb": KLUCB(),
        "kl-ucb++": KLUCBPlus(),
        "imed": IMED(),
        "thompson": Thompson(),
    }
    print(f"{'':<28}{'no delay':<20}{'pulls out count':<20}they do not")
    for name, rule in rules.items():
        play = loop(rule)
        columns = []
        for outstanding, counting in ((0, True), (OUTSTANDING, True), (OUTSTANDING, False)):
            runs = [
                play(np.random.default_rng(seed), BITS, HORIZON, outstanding, counting) / UNIFORM
                for seed in range(RUNS)
            ]
            columns.append(told(runs))
        print(f"{name:<28}{''.join(f'{column:<20}' for column in columns).rstrip()}", flush=True)
    print(f"\nkl-ucb++, arms {TWO_ARMS}, epsilon {EPSILON:g}, {SECONDS:,} devices, one a second, {RUNS} runs")
    print(f"{'answers after':<16}{'strangers':<12}{'their tickets':<18}{'worse arm':<20}locked runs")
    for delay in (1, 30):
        for strangers, is_weighed in ((0, False), (0, True), (20, False), (20, True)):
            found = [with_strangers(seed, SECONDS, delay, strangers, is_weighed=is_weighed) for seed in range(RUNS)]
            counted = "weighed" if is_weighed else "count in full"
            row = f"{f'{delay} s':<16}{strangers:<12}{counted:<18}{told([share for share, _ in found]):<20}"
            print(f"{row}{sum(is_locked for _, is_locked in found)}", flush=True)


if __name__ == "__main__":
    main()
