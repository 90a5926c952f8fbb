"""Every user an epsilon of their own: regret on the paper's Bernoulli arms at T = 1e5, beside one epsilon for all.

Users are split evenly over epsilon 0.2, 0.5, 1, 2 and 4. Beside it stands what the exact constant allows in the long
run, per log T.
"""

from ldpbandits.lab.algorithms import algorithm, mixed
from ldpbandits.lab.experiments import simulate
from ldpbandits.lab.mix import Mix
from ldpbandits.lab.panels.paper import BERNOULLI
from ldpbandits.theory.bounds import exact_constant, mixed_constant

EPSILONS = (0.2, 0.5, 1.0, 2.0, 4.0)
TRIALS = 32


def main() -> None:
    """Print a table."""
    print(__doc__)
    mix = Mix.parse(",".join(f"{epsilon}:{1 / len(EPSILONS)}" for epsilon in EPSILONS))
    means = [arm.mean for arm in BERNOULLI]
    own = mixed_constant(means, means, dict.fromkeys(EPSILONS, 1 / len(EPSILONS)))
    rows = [
        *((f"{name}, own epsilons", mixed(name, mix), own) for name in ("ldp-imed", "ldp-kl-ucb++", "ldp-ts")),
        *(
            (f"ldp-imed, all {epsilon:g}", algorithm("ldp-imed", epsilon), exact_constant(means, epsilon))
            for epsilon in EPSILONS
        ),
    ]
    print(f"{'':<30}{'regret':>10}{'error':>8}{'constant':>10}")
    for name, played, constant in rows:
        found = simulate(played, BERNOULLI, 1e5, trials=TRIALS, seed=1)
        print(f"{name:<30}{found.mean_regret[-1]:>10,.0f}{found.sem_regret[-1]:>8,.0f}{constant:>10,.1f}", flush=True)


if __name__ == "__main__":
    main()
