"""How many responses does a verdict take, and how often is it wrong? Tests and rules side by side, in one run.

1. Responses until the verdict, median / 80 % of 2,000 trials in equal shares: disjoint intervals, which were the test
   before; the pair test; the coin test; the coin test with the gain as planned; beside them a z-test with one look, and
   reference values of an independent prototype. Then the same for duels.
2. The price of a planned gain: the true gain is half of it, as planned, and twice as much.
3. Wrong verdicts with equal arms, with a level that stays and with one that moves: 0.3 +- 0.1, period 40,000.
4. Half-widths of the interval of a difference.
5. The time of a verdict on 20 arms, and of a decision among 256, beside plain baselines.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import sqrt
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from ldpbandits import Agent, CuratorSpec, Rule
from ldpbandits.agent.duels import Choice
from ldpbandits.agent.inference.differences import PLANNED_WEIGHT, Pair
from ldpbandits.agent.inference.estimates import estimate_arm, share
from ldpbandits.agent.inference.separation import ALPHA
from ldpbandits.agent.inference.verdicts import Criteria
from ldpbandits.agent.laplace_rules import DuelsLaplace, EqualSharesLaplace
from ldpbandits.agent.rules import Duels, EqualShares, KLUCBPlus
from ldpbandits.agent.tally import ArmTally
from ldpbandits.lab.algorithms import Algorithm
from ldpbandits.lab.engine.compiled import uncached
from ldpbandits.lab.engine.duels import state_size
from ldpbandits.lab.engine.leap import compile_leaps
from ldpbandits.lab.engine.separation import IntervalTest, first_separated, judge, separated
from ldpbandits.lab.engine.step import compile_steps
from ldpbandits.lab.engine.verdicts import first_verdict, play_until_verdict, record_bits, verdict_test, winner
from ldpbandits.lab.rewards import Bernoulli, Drift, Law
from ldpbandits.spec import mechanisms
from ldpbandits.spec.menu import Menu
from ldpbandits.types import Arm

TRIALS = 2_000
STEP = 1.01
POWER = 0.8
DRIFT_HORIZON = 120_000
"""Three periods of the level that moves."""


class Case(NamedTuple):
    """Arms, an epsilon, and reference values of a prototype: medians and 80 % quantiles, where they are known."""

    name: str
    values: tuple[float, ...]
    epsilon: float
    today: tuple[int, ...] = ()
    pair: tuple[int, ...] = ()
    coin: tuple[int, ...] = ()
    planned: tuple[int, ...] = ()


CASES = (
    Case("5 v 7.5 %", (0.05, 0.075), 1, (157_696, 216_822), (67_016, 111_320), (64_402, 109_126), (45_012, 80_964)),
    Case("5 v 7.5 %", (0.05, 0.075), 2, (36_524, 50_720), (16_642, 25_784), (17_490, 27_370), (10_848, 20_104)),
    Case("5 v 7.5 %", (0.05, 0.075), 4, (11_866, 16_314), (6_092, 9_252), (7_072, 10_426), (3_704, 6_092)),
    Case("40 v 50 %", (0.4, 0.5), 1, (11_402, 15_522), (5_352, 8_210), (4_344, 7_072), (3_288, 5_682)),
    Case(
        "4 x 10, 15 %", (0.1,) * 4 + (0.15,), 2, (45_960, 56_635), (23_595, 31_805), (23_365, 31_805), (16_990, 25_805)
    ),
    Case("5 v 6 %", (0.05, 0.06), 1, planned=(), coin=()),
    Case("90 .. 50 %", (0.9, 0.8, 0.7, 0.6, 0.5), 1, (26_829,)),
)
DUELS = (
    (Case("40 v 50 %", (0.4, 0.5), 1), (4_587,)),
    (Case("90 .. 50 %", (0.9, 0.8, 0.7, 0.6, 0.5), 1), (8_902,)),
    (Case("10 .. 20 %", (0.1, 0.12, 0.14, 0.16, 0.2), 2), (21_589,)),
    (Case("4 x 10, 15 %", (0.1,) * 4 + (0.15,), 2), ()),
)


def ctb(epsilon: float) -> CuratorSpec:
    """Return the curator of all cases."""
    return CuratorSpec(mechanisms.Bernoulli(epsilon))


def variance(epsilon: float, value: float) -> float:
    """Return the variance of a debiased response."""
    mean = ctb(epsilon).mechanism.response_mean
    return mean(value) * (1 - mean(value)) / (mean(1.0) - mean(0.0)) ** 2


def one_look(case: Case) -> int:
    """Return the responses of a z-test of two arms with one look, for a power of 0.8."""
    a, b = sorted(case.values)[-2:]
    quantiles = NormalDist().inv_cdf(1 - ALPHA / 2) + NormalDist().inv_cdf(POWER)
    noise = variance(case.epsilon, a) + variance(case.epsilon, b)
    return round(len(case.values) * quantiles**2 * noise / (b - a) ** 2)


def grid(first: float, last: float, step: float = STEP) -> np.ndarray:
    """Return the numbers of responses after which trials are judged."""
    count = int(np.log(last / first) / np.log(step)) + 1
    return np.unique(np.rint(first * step ** np.arange(count + 1)).astype(np.int64))


def in_parallel(run: Callable[[np.random.Generator], Any], trials: int, seed: int) -> list[Any]:
    """Run trials on threads, each with a random stream of its own."""
    streams = [np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, trial)))) for trial in range(trials)]
    run(np.random.default_rng(0))  # compiles
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(run, streams))


def shown(responses: Sequence[float], reference: Sequence[int] = ()) -> str:
    """Write median and 80 % quantile; those of the reference in brackets."""
    levels = [f"{np.quantile(responses, level, method='inverted_cdf'):,.0f}" for level in (0.5, POWER)]
    known = f" ({' / '.join(f'{number:,}' for number in reference)})" if reference else ""
    return " / ".join(levels) + known


def equal_shares(case: Case, criteria: Sequence[Criteria], trials: int = TRIALS) -> list[list[float]]:
    """Return the responses until a verdict of each trial: by disjoint intervals, the pair test, and the coin test."""
    curator, arms = ctb(case.epsilon), len(case.values)
    menu, judged = Menu.of(curator), judge(curator)
    chance = np.array([curator.mechanism.response_mean(value) for value in case.values])
    times = grid(one_look(case) / 40, 15 * one_look(case))
    pair = verdict_test(KLUCBPlus(), menu, Criteria(arms))
    coins = [verdict_test(EqualShares(), menu, each) for each in criteria]
    alphas, none = np.array([share(ALPHA, arm) for arm in range(arms)]), np.zeros((len(times), arms))

    def trial(rng: np.random.Generator) -> list[float]:
        pulls, totals = record_bits(chance, rng, times)
        found = [first_separated(judged, pulls, totals, none, alphas)[0]]
        found += [first_verdict(test, pulls, totals)[0] for test in (pair, *coins)]
        return [float(times[moment]) if moment >= 0 else np.inf for moment in found]

    return [list(found) for found in zip(*in_parallel(trial, trials, 1), strict=True)]


def duels(case: Case, trials: int) -> list[float]:
    """Return the responses until the verdict of each trial of duels."""
    curator, arms = ctb(case.epsilon), len(case.values)
    advance = compile_steps(Algorithm("duels", Duels(), curator), [Bernoulli(value) for value in case.values])
    test, times = verdict_test(Duels(), Menu.of(curator), Criteria(arms)), grid(200, 1e7)

    def trial(rng: np.random.Generator) -> float:
        tally = np.zeros(arms), np.zeros(state_size(Duels().design, arms))
        return float(times[play_until_verdict(winner, test, advance, rng, times, *tally)[0]])

    return in_parallel(trial, trials, 2)


def print_cases() -> None:
    """Print how many responses each test takes."""
    print(f"Responses until the verdict, median / {POWER:.0%} of {TRIALS:,} trials in equal shares (reference values)")
    for case in CASES:
        second, best = sorted(case.values)[-2:]
        made = equal_shares(case, [Criteria(len(case.values)), Criteria(len(case.values), planned=(second, best))])
        print(f"{case.name}, epsilon {case.epsilon:g}: z-test with one look {one_look(case):,}")
        names = ("disjoint intervals", "pair test", "coin test", "coin test, planned")
        for name, found, known in zip(names, made, case[3:], strict=True):
            print(f"    {name:20}{shown(found, known)}")
    print("\nDuels with the coin test, 500 trials (reference medians)")
    for case, reference in DUELS:
        print(f"    {case.name + f', epsilon {case.epsilon:g}':30}{shown(duels(case, 500), reference)}")


def print_planned() -> None:
    """Print what a planned gain saves, and what it costs if the true gain is another."""
    print(f"\nPlanned 5 v 6 %, weight {PLANNED_WEIGHT:g}: the true gain is another (epsilon 1 and 4, equal shares)")
    for epsilon in (1.0, 4.0):
        for name, better in (("half", 0.055), ("as planned", 0.06), ("twice", 0.07)):
            case = Case("", (0.05, better), epsilon)
            made = equal_shares(case, [Criteria(2), Criteria(2, planned=(0.05, 0.06))], 1_000)
            print(f"    epsilon {epsilon:g}, {name:12}without a plan {shown(made[2])}, planned {shown(made[3])}")


class Both(NamedTuple):
    """The pair test and that of disjoint intervals on the same trial, and whether each has been decided."""

    pair: Any
    intervals: IntervalTest
    decided: np.ndarray


@uncached
def _both(test: Both, pulls: np.ndarray, totals: np.ndarray) -> int:
    if test.decided[0] == 0 and winner(test.pair, pulls, totals) >= 0:
        test.decided[0] = 1.0
    if test.decided[1] == 0 and separated(test.intervals, pulls, totals) >= 0:
        test.decided[1] = 1.0
    return 0 if test.decided.sum() == 2 else -1  # noqa: PLR2004 - both


def wrong_by_coin(rule: Rule, laws: Sequence[Law], curator: CuratorSpec) -> float:
    """Return the share of trials in which one of equal arms is declared by the coin test."""
    arms = len(laws)
    advance = compile_steps(Algorithm("fair", rule, curator), laws)
    test, times = verdict_test(rule, Menu.of(curator), Criteria(arms)), grid(100, DRIFT_HORIZON)

    def trial(rng: np.random.Generator) -> bool:
        tally = np.zeros(arms), np.zeros(state_size(rule.design, arms))
        return play_until_verdict(winner, test, advance, rng, times, *tally)[1] >= 0

    return float(np.mean(in_parallel(trial, TRIALS, 3)))


def wrong_by_rule(laws: Sequence[Law], epsilon: float) -> tuple[float, float]:
    """Return the same for kl-ucb++, by the pair test and by disjoint intervals."""
    curator, drifts = ctb(epsilon), isinstance(laws[0], Drift)
    played = Algorithm("adaptive", KLUCBPlus(), curator)
    advance = (compile_steps if drifts else compile_leaps)(played, laws)
    pair, times = verdict_test(KLUCBPlus(), Menu.of(curator), Criteria(2)), grid(100, DRIFT_HORIZON, 1.02)
    intervals = IntervalTest(judge(curator), np.array([share(ALPHA, arm) for arm in range(2)]), 0.0)

    def trial(rng: np.random.Generator) -> np.ndarray:
        test = Both(pair, intervals, np.zeros(2))
        play_until_verdict(_both, test, advance, rng, times, np.zeros(2), np.zeros(2))
        return test.decided

    found = np.mean(in_parallel(trial, TRIALS, 4), axis=0)
    return float(found[0]), float(found[1])


def print_wrong() -> None:
    """Print how often one of equal arms is declared."""
    print(f"\nWrong verdicts with equal arms of 0.3, {TRIALS:,} trials of {DRIFT_HORIZON:,} responses (5 % allowed)")
    print("    level         epsilon   duels, 3 arms   equal, 2 arms   kl-ucb++, pair test   kl-ucb++, intervals")
    for name, law in (("stays", Bernoulli(0.3)), ("moves by 0.1", Drift(0.3, 0.1, 40_000))):
        for epsilon in (1.0, 2.0, 4.0):
            fair = [
                wrong_by_coin(rule, [law] * arms, ctb(epsilon)) for rule, arms in ((Duels(), 3), (EqualShares(), 2))
            ]
            pair, today = wrong_by_rule([law] * 2, epsilon)
            print(f"    {name:14}{epsilon:7g}{fair[0]:16.1%}{fair[1]:16.1%}{pair:22.1%}{today:22.1%}")


def print_wrong_laplace() -> None:
    """Print the same for Laplace responses, by the rules with a fair coin."""
    print("\nThe same for Laplace responses")
    print("    level         epsilon   duels-laplace, 3 arms   equal-laplace, 2 arms")
    for name, law in (("stays", Bernoulli(0.3)), ("moves by 0.1", Drift(0.3, 0.1, 40_000))):
        for epsilon in (1.0, 4.0):
            curator, rules = (
                CuratorSpec(mechanisms.Laplace(epsilon)),
                (DuelsLaplace(epsilon), EqualSharesLaplace(epsilon)),
            )
            fair = [wrong_by_coin(rule, [law] * arms, curator) for rule, arms in zip(rules, (3, 2), strict=True)]
            print(f"    {name:14}{epsilon:7g}{fair[0]:24.1%}{fair[1]:24.1%}")


def print_widths() -> None:
    """Print half the width of the interval of a difference."""
    print("\nHalf-width of the interval of the difference, 5 v 7.5 %, 10,000 responses each")
    reference = {1.0: 0.0525, 2.0: 0.0241, 4.0: 0.0140}
    for epsilon, known in reference.items():
        curator = ctb(epsilon)
        mean = curator.mechanism.response_mean
        ones = [float(round(10_000 * mean(value))) for value in (0.075, 0.05)]
        scale = mean(0.0), mean(1.0) - mean(0.0)
        found = []
        for is_fair in (False, True):
            low, high = Pair((10_000, ones[0], 10_000, ones[1]), scale, is_fair).difference(ALPHA)
            found.append((high - low) / 2)
        alone = [estimate_arm(ArmTally(10_000, total), Menu.of(curator), alpha=ALPHA / 2) for total in ones]
        two = sum((each.high - each.low) / 2 for each in alone)
        noise = variance(epsilon, 0.05) + variance(epsilon, 0.075)
        look = NormalDist().inv_cdf(1 - ALPHA / 2) * sqrt(noise / 10_000)
        print(
            f"    epsilon {epsilon:g}: pair {found[0]:.4f} (reference {known:.4f}), under drift {found[1]:.4f}, "
            f"two intervals {two:.4f}, one look {look:.4f}"
        )


def seconds(call: Callable[[], object], least: float = 0.3) -> float:
    """Return the seconds of processor time of one call, which other programs do not change."""
    call()
    count, start = 0, time.thread_time()
    while time.thread_time() - start < least:
        call()
        count += 1
    return (time.thread_time() - start) / count


def many_duels(arms: int) -> Agent:
    """Return an agent with duels of every arm with the first one."""
    agent = Agent(Duels(), arms, curator=ctb(1.0))
    for arm in range(1, arms):
        agent.count(Choice(Arm(arm), Arm(0)), 10_000, 4_700)
        agent.count(Choice(Arm(0), Arm(arm)), 10_000, 5_000)
    return agent


def figures() -> Iterator[tuple[str, float]]:
    """Yield what is timed, and its seconds."""
    twenty, many, plain = many_duels(20), many_duels(256), Agent(KLUCBPlus(), 256, curator=ctb(1.0))
    for arm in range(256):
        plain.count(Choice(Arm(arm)), 10_000, 4_700 + arm)
    means = [0.47] * 256
    yield "a verdict on 20 arms", seconds(twenty.verdict)
    yield "  intervals of 20 arms, the test before", seconds(twenty.estimates)
    yield "  one pair by the coin test", seconds(lambda: twenty.pair(0, 1)) + seconds(many_duels(2).verdict)
    yield "a decision of duels among 256 arms", seconds(many.choose)
    yield "  a decision of kl-ucb++ among 256 arms", seconds(plain.choose)
    yield "  max() of 256 numbers", seconds(lambda: means.index(max(means)))


def main() -> None:
    """Run everything."""
    start = time.perf_counter()
    print_cases()
    print_planned()
    print_wrong()
    print_wrong_laplace()
    print_widths()
    print("\nTimes")
    for name, taken in figures():
        print(f"    {name:45}{1e6 * taken:12,.1f} us")
    print(f"\n{time.perf_counter() - start:,.0f} s in all")


if __name__ == "__main__":
    main()
