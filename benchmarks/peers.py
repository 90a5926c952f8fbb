"""Rounds a second of UCB1 beside other bandit libraries, in one run; what does not install or import is left out.

Each library gets an environment of its own under build/peers, since their dependencies exclude one another.
"""

import random
import subprocess
import sys
import warnings
from collections.abc import Callable
from time import perf_counter

from environments import environment, last_line

MEANS = [0.9, *[0.8] * 5, *[0.7] * 5, *[0.6] * 5, *[0.5] * 4]


def ldpbandits_step() -> Callable[[int], None]:
    """Our simulator, round by round."""
    import numpy as np  # noqa: PLC0415

    from ldpbandits.lab.algorithms import algorithm  # noqa: PLC0415
    from ldpbandits.lab.panels import paper  # noqa: PLC0415
    from ldpbandits.lab.play import Trials  # noqa: PLC0415

    trials = Trials(algorithm("ucb1"), paper.BERNOULLI, "step")

    def run(rounds: int) -> None:
        list(trials.play([rounds], np.random.default_rng(1)))

    return run


def mabwiser() -> Callable[[int], None]:
    """MABWiser's UCB1, asked and told once a round."""
    from mabwiser.mab import MAB, LearningPolicy  # noqa: PLC0415

    def run(rounds: int) -> None:
        rng, arms = random.Random(1), list(range(len(MEANS)))
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
        rng, arms = random.Random(1), list(range(len(MEANS)))
        policy = bandit.UCB(delta=1, reward_obj=stats.Mean(), seed=1)
        for _ in range(rounds):
            arm = policy.pull(arms)
            policy.update(arm, float(rng.random() < MEANS[arm]))

    return run


def mabby() -> Callable[[int], None]:
    """Mabby's own simulation of UCB1."""
    from mabby import Bandit, BernoulliArm, Metric, Simulation  # noqa: PLC0415
    from mabby.strategies import UCB1Strategy  # noqa: PLC0415

    def run(rounds: int) -> None:
        bandit = Bandit(arms=[BernoulliArm(p=mean) for mean in MEANS], seed=1)
        Simulation(bandit=bandit, strategies=[UCB1Strategy(alpha=1)], seed=1).run(1, rounds, [Metric.REGRET])

    return run


PEERS = {peer.__name__: peer for peer in (mabwiser, river, mabby)}


def rounds_a_second(run: Callable[[int], None], rounds: int) -> float:
    """Time so many rounds, after a short run that compiles."""
    run(100)
    started = perf_counter()
    run(rounds)
    return rounds / (perf_counter() - started)


def in_its_own_environment(name: str) -> str:
    """Install a library and time it; return its rounds a second, or why not, as text."""
    python = environment(name, [name])
    if isinstance(python, str):
        return f"left out: {python}"
    try:
        done = subprocess.run([python, __file__, name], check=True, capture_output=True, text=True, timeout=300)
    except (subprocess.SubprocessError, OSError) as error:
        return f"left out: {last_line(error)}"
    return done.stdout.strip()


def main() -> None:
    """Print the table; called with the name of a library, time it here."""
    if len(sys.argv) > 1:
        warnings.simplefilter("ignore")  # of other libraries, about themselves
        print(rounds_a_second(PEERS[sys.argv[1]](), 5_000))
        return
    ours = rounds_a_second(ldpbandits_step(), 2_000_000)
    print(f"{'ldpbandits, step':18} {ours:12,.0f} rounds a second")
    for name in PEERS:
        told = in_its_own_environment(name)
        try:
            rate = float(told)
        except ValueError:
            print(f"{name:18} {told}")
        else:
            print(f"{name:18} {rate:12,.0f} rounds a second: step is {ours / rate:,.0f} times as fast")


if __name__ == "__main__":
    main()
