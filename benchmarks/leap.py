"""Time the leaping simulator beside a plain compiled loop, in one run, on one core, on the paper's Bernoulli arms."""

from collections.abc import Callable
from time import perf_counter

import numpy as np
from plain import plain_b, plain_imed, plain_kl_ucb, plain_l, plain_thompson

from ldpbandits.lab.algorithms import algorithm
from ldpbandits.lab.panels import paper
from ldpbandits.lab.play import Trials
from ldpbandits.spec.mechanisms import response_mean

MEANS = np.array([arm.mean for arm in paper.BERNOULLI])
PLAIN_ROUNDS = 10**6
"""The plain loop's time a round is measured here; it does not depend on T."""

TARGETS = {
    # algorithm, epsilon: how many times faster at 1e7, at 1e9 and at 1e12
    ("ldp-ucb-b", 2.0): {10**7: 25, 10**9: 350, 10**12: 1_100_000},
    ("ldp-ucb-b", 0.2): {10**7: 15, 10**9: 90, 10**12: 130_000},
    ("ldp-ucb-l", 2.0): {10**7: 8, 10**9: 120, 10**12: 50_000},
    ("ldp-ucb-l", 0.2): {10**7: 6, 10**9: 75, 10**12: 20_000},
    ("ldp-imed", 2.0): {10**7: 200, 10**9: 5_000, 10**12: 8_000_000},
    ("ldp-imed", 0.2): {10**7: 30, 10**9: 1_000, 10**12: 700_000},
    ("ldp-kl-ucb", 2.0): {10**7: 200, 10**9: 5_000, 10**12: 50_000_000},
    ("ldp-kl-ucb", 0.2): {10**7: 30, 10**9: 1_000, 10**12: 5_000_000},
    ("ldp-kl-ucb++", 2.0): {10**7: 200, 10**9: 5_000, 10**12: 100_000_000},
    ("ldp-kl-ucb++", 0.2): {10**7: 30, 10**9: 1_000, 10**12: 10_000_000},
    ("ldp-ts", 2.0): {10**7: 50, 10**9: 2_000, 10**12: 5_000_000},
    ("ldp-ts", 0.2): {10**7: 2, 10**9: 100, 10**12: 100_000},
}
TRIALS = 5


def plain(name: str, epsilon: float) -> Callable[[np.random.Generator, int], object]:
    """The plain loop for an algorithm."""
    p0, p1 = (response_mean(reward, epsilon) for reward in (0.0, 1.0))
    loops: dict[str, Callable[[np.random.Generator, int], object]] = {
        "ldp-ucb-b": lambda rng, rounds: plain_b(rng, MEANS, rounds, p0, p1),
        "ldp-ucb-l": lambda rng, rounds: plain_l(rng, MEANS, rounds, epsilon),
        "ldp-imed": lambda rng, rounds: plain_imed(rng, MEANS, rounds, p0, p1),
        "ldp-kl-ucb": lambda rng, rounds: plain_kl_ucb(rng, MEANS, rounds, p0, p1, False),  # noqa: FBT003
        "ldp-kl-ucb++": lambda rng, rounds: plain_kl_ucb(rng, MEANS, rounds, p0, p1, True),  # noqa: FBT003
        "ldp-ts": lambda rng, rounds: plain_thompson(rng, MEANS, rounds, p0, p1),
    }
    return loops[name]


def seconds(run: Callable[[np.random.Generator, int], object], rounds: int, trials: int) -> float:
    """The mean time of a trial, over trials with their own seeds."""
    run(np.random.default_rng(0), 1_000)  # compiles
    started = perf_counter()
    for seed in range(trials):
        run(np.random.default_rng(seed), rounds)
    return (perf_counter() - started) / trials


def main() -> None:
    """Print times and ratios; fail below the targets."""
    failed = []
    for (name, epsilon), targets in TARGETS.items():
        trials = Trials(algorithm(name, epsilon), paper.BERNOULLI)

        def leap(rng: np.random.Generator, rounds: int, trials: Trials = trials) -> object:
            return list(trials.play([rounds], rng))

        a_round = seconds(plain(name, epsilon), PLAIN_ROUNDS, 1) / PLAIN_ROUNDS
        for horizon, target in targets.items():
            took = seconds(leap, horizon, TRIALS)
            ratio = a_round * horizon / took
            print(
                f"{name} epsilon {epsilon:<3g} T = {horizon:.0e}   {took * 1e3:8.1f} ms a trial   "
                f"plain loop {a_round * horizon:8.1f} s   {ratio:7.0f} times as fast (at least {target})"
            )
            if ratio < target:
                failed.append(f"{name} {epsilon} {horizon:.0e}")
    if failed:
        raise SystemExit(f"below target: {', '.join(failed)}")


if __name__ == "__main__":
    main()
