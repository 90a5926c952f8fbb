"""Power and time of the audit on our own curators: the bound reached with 1e7 samples, beside its target.

How often a run reaches its target is computed, not only counted: the number of right guesses is Binomial, so the chance
that its Clopper-Pearson limit lies above the target is a tail of that law. It is printed for `samples` as the audit
counts them, responses to each reward, and for the stricter reading of so many responses in all.
"""

import subprocess
import sys
from math import exp
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import binom

from ldpbandits import BernoulliCurator, Curator, LaplaceCurator
from ldpbandits.audit import audit
from ldpbandits.audit.checks import CHECKS
from ldpbandits.audit.guess import epsilon_lower

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLES, CONFIDENCE = 10**7, 0.999
FALSE_ALARM_RUNS = 200
BEST_GUESS_SHARE = sum(check.white[0] for check in CHECKS if check.white and check.name == "empirical: best guess")
TARGETS = {
    "ctb": (BernoulliCurator, {0.2: 0.197, 1.0: 0.997, 2.0: 1.995}, 3.0, 10),
    "ctl": (LaplaceCurator, {0.2: 0.196, 1.0: 0.996, 2.0: 1.990}, 15.0, 3),
}
"""By curator: the bound to reach at each epsilon, the seconds that it may take, and how many runs to make."""


def chance(name: str, epsilon: float, target: float, responses: int) -> float:
    """How likely an audit of so many responses in all is to reach the target."""
    made = responses if name == "ctb" else round(responses * (1 + exp(-epsilon)) / 2)
    alpha = BEST_GUESS_SHARE * (1 - CONFIDENCE)
    least, most = 0, made  # the fewest right guesses whose bound reaches the target, by bisection
    while least < most:
        middle = (least + most) // 2
        if epsilon_lower(middle, made, alpha) >= target:
            most = middle
        else:
            least = middle + 1
    return float(binom.sf(least - 1, made, 1 / (1 + exp(-epsilon))))


def by_command(name: str) -> float:
    """The wall-clock time of the command, from nothing to the verdict."""
    started = perf_counter()
    command = [str(Path(sys.executable).parent / "ldpbandits"), "audit", "--curator", name, "--epsilon", "1"]
    subprocess.run([*command, "--samples", f"{SAMPLES}"], check=True, capture_output=True)
    return perf_counter() - started


def false_alarms(runs: int) -> tuple[int, int]:
    """Audit healthy curators and functions so often at 90 %; return how many were called violated, and how many may be.

    At most a tenth of them is, on average; four standard errors more happen once in 30,000 times.
    """
    claims: list[tuple[Curator | Callable[[float], object], float]] = [
        (BernoulliCurator(1.0), 1.0),
        (LaplaceCurator(0.5), 0.5),
        (BernoulliCurator(0.05).respond, 0.05),
        (LaplaceCurator(1.0).respond, 1.0),
    ]
    alarms = 0
    for run in range(runs):
        target, epsilon = claims[run % len(claims)]
        alarms += audit(target, (0, 1), epsilon, samples=16_000, confidence=0.9).verdict == "violated"
    return alarms, int(0.1 * runs + 4 * (0.09 * runs) ** 0.5)


def main() -> None:
    """Print bounds, chances, times and false alarms; fail where one of them is missed."""
    failed = []
    print(f"{SAMPLES:,} samples at {100 * CONFIDENCE:g} %; chance: to reach the target, so counted and if in all")
    for name, (kind, targets, seconds, runs) in TARGETS.items():
        for epsilon, target in targets.items():
            curator: Curator = kind(epsilon)
            found = [audit(curator, samples=SAMPLES, confidence=CONFIDENCE) for _ in range(runs)]
            bounds, times = [each.epsilon_lower for each in found], [each.seconds for each in found]
            reached = sum(bound >= target for bound in bounds)
            chances = [chance(name, epsilon, target, count) for count in (2 * SAMPLES, SAMPLES)]
            print(
                f"{name}  epsilon {epsilon:<4g} {np.mean(bounds):.4f} on average, least {min(bounds):.4f} "
                f"(target {target:.3f}: {reached}/{runs}, chance {100 * chances[0]:.2f} %, {100 * chances[1]:.0f} %) "
                f"{np.median(times):5.2f} s (at most {seconds:g})"
            )
            if reached < runs or np.median(times) > seconds or any(each.violated for each in found):
                failed.append(f"{name} at {epsilon:g}")
        print(f"{name}  the whole command at epsilon 1, with start-up: {by_command(name):.1f} s")
    alarms, most = false_alarms(FALSE_ALARM_RUNS)
    print(f"{alarms} false alarms in {FALSE_ALARM_RUNS} audits of healthy curators at 90 % (at most {most})")
    if alarms > most:
        failed.append("false alarms")
    if failed:
        raise SystemExit(f"missed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
