"""Rounds a second of UCB1 beside other bandit libraries, in one run; what does not install or import is left out."""

import subprocess
import sys
import warnings
from collections.abc import Callable
from time import perf_counter

import numpy as np

from ldpbandits.lab import paper
from ldpbandits.lab.algorithms import algorithm
from ldpbandits.lab.run import Engine, Trials

MEANS = [arm.mean for arm in paper.BERNOULLI]


def ours(engine: Engine) -> Callable[[int], None]:
    """Our simulator."""
    trials = Trials(algorithm("ucb1"), paper.BERNOULLI, engine)

    def run(rounds: int) -> None:
        list(trials.play([rounds], np.random.default_rng(1)))

    return run


def mabwiser() -> Callable[[int], None]:
    """MABWiser's UCB1, asked and told once a round."""
    from mabwiser.mab import MAB, LearningPolicy  # noqa: PLC0415

    def run(rounds: int) -> None:
        rng, arms = np.random.default_rng(1), list(range(len(MEANS)))
        bandit = MAB(arms=arms, learning_policy=LearningPolicy.UCB1(alpha=2**0.5))
        bandit.fit(decisions=arms, rewards=[float(rng.random() < mean) for mean in MEANS])
        for _ in range(rounds):
            arm = bandit.predict()
            bandit.partial_fit([arm], [float(rng.random() < MEANS[arm])])

    return run


def river() -> Callable[[int], None]:
    """River's UCB."""
    from river import bandit, stats  # noqa: PLC0415

    def run(rounds: int) -> None:
        rng, arms = np.random.default_rng(1), list(range(len(MEANS)))
        policy = bandit.UCB(delta=1, reward_obj=stats.Mean(), seed=1)
        for _ in range(rounds):
            arm = policy.pull(arms)
            policy.update(arm, float(rng.random() < MEANS[arm]))

    return run


def mabby() -> Callable[[int], None]:
    """Mabby's UCB1 simulation."""
    from mabby import Bandit, BernoulliArm, Metric, Simulation  # noqa: PLC0415
    from mabby.strategies import UCB1Strategy  # noqa: PLC0415

    def run(rounds: int) -> None:
        simulation = Simulation(
            bandits=[Bandit(strategy=UCB1Strategy(alpha=1))], armset=[BernoulliArm(p=mean) for mean in MEANS], seed=1
        )
        simulation.run(trials=1, steps=rounds, metrics=[Metric.REGRET])

    return run


def rounds_a_second(run: Callable[[int], None], rounds: int) -> float:
    """Time so many rounds, after a short run that compiles."""
    run(100)
    started = perf_counter()
    run(rounds)
    return rounds / (perf_counter() - started)


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")  # of other libraries, about themselves
    fastest = rounds_a_second(ours("step"), 2_000_000)
    print(f"{'ldpbandits, step':20} {fastest:14,.0f} rounds a second")
    print(f"{'ldpbandits, leap':20} {rounds_a_second(ours('leap'), 10**8):14,.0f} rounds a second, to T = 1e8")
    for make in (mabwiser, river, mabby):
        name = make.__name__
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", name]
        subprocess.run(install, check=False, capture_output=True)  # noqa: S603 - three names, written above
        try:
            rate = rounds_a_second(make(), 5_000)
        except Exception as error:  # noqa: BLE001 - whatever keeps another library from running here
            print(f"{name:20} left out: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
        else:
            print(f"{name:20} {rate:14,.0f} rounds a second; {fastest / rate:,.0f} times slower than step")


if __name__ == "__main__":
    main()
