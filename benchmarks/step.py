"""Time the per-round simulator beside a plain compiled loop written out by hand, in one run, on one core."""

from collections.abc import Callable
from dataclasses import dataclass
from math import log, sqrt
from time import perf_counter

import numpy as np
from plain import plain_b, plain_l, plain_ucb1

from ldpbandits import Rule
from ldpbandits.agent.kernels import ArmView, Parameters, Random
from ldpbandits.lab.algorithms import Algorithm, algorithm
from ldpbandits.lab.panels import paper
from ldpbandits.lab.play import Trials
from ldpbandits.spec.mechanisms import response_mean

ROUNDS, REPEATS = 2_000_000, 5
EPSILON = 2.0
MEANS = np.array([arm.mean for arm in paper.BERNOULLI])


@dataclass(frozen=True)
class UsersRule(Rule):
    """A rule of a user's own."""

    parameters: tuple[float, ...]
    floor: float = 0.0

    @staticmethod
    def index(arm: ArmView, random: Random, parameters: Parameters) -> float:
        """UCB's index, written again."""
        return arm.mean + parameters[0] * sqrt(log(arm.t) / arm.n)


def nanoseconds(run: Callable[[np.random.Generator, int], object]) -> float:
    """The time of one round, the best of a few runs; the first one compiles."""
    run(np.random.default_rng(0), 1_000)
    best = np.inf
    for seed in range(REPEATS):
        started = perf_counter()
        run(np.random.default_rng(seed), ROUNDS)
        best = min(best, perf_counter() - started)
    return best / ROUNDS * 1e9


def ours(played: Algorithm) -> Callable[[np.random.Generator, int], object]:
    """Our loop, with nothing looked at before the end."""
    trials = Trials(played, paper.BERNOULLI, "step")
    return lambda rng, rounds: list(trials.play([rounds], rng))


def main() -> None:
    """Print times and ratios; fail if a plain loop is faster."""
    at_zero, at_one = (response_mean(reward, EPSILON) for reward in (0.0, 1.0))
    b = algorithm("ldp-ucb-b", EPSILON)
    custom = Algorithm("a user's own index", UsersRule(b.rule.parameters), b.curator)
    cases = [
        (algorithm("ucb1"), lambda rng, rounds: plain_ucb1(rng, MEANS, rounds)),
        (b, lambda rng, rounds: plain_b(rng, MEANS, rounds, at_zero, at_one)),
        (algorithm("ldp-ucb-l", EPSILON), lambda rng, rounds: plain_l(rng, MEANS, rounds, EPSILON)),
        (custom, lambda rng, rounds: plain_b(rng, MEANS, rounds, at_zero, at_one)),
    ]
    failed = []
    for played, plain in cases:
        own, peer = nanoseconds(ours(played)), nanoseconds(plain)
        ratio = peer / own
        print(f"{played.name:20} {own:6.1f} ns a round   plain loop {peer:6.1f} ns   {ratio:4.2f} times as fast")
        if ratio < 1:
            failed.append(played.name)
    if failed:
        raise SystemExit(f"slower than a plain loop: {', '.join(failed)}")


if __name__ == "__main__":
    main()
