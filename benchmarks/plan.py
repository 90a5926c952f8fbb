"""Is a plan right? Responses until the verdict, as planned and in 200 runs of the live rule.

Baseline 5 %, lift 50 %, two arms, epsilon 2 and 4, by the server's default rule. The plan is the one that a newcomer
gets, and leaps; the runs are played round by round by the agent's own kernels, and the agent itself is asked for its
verdict after every 1 % more responses. The median of 200 runs has a standard error of 4 % at epsilon 2 and of 2 % at
epsilon 4. Last, how long the default call takes.
"""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import sqrt
from tempfile import TemporaryDirectory

import numpy as np

from ldpbandits import Agent
from ldpbandits.agent.tally import ArmTally
from ldpbandits.lab import plan
from ldpbandits.lab.engine.step import compile_steps
from ldpbandits.lab.planning.case import Case

RUNS = 200
STEP = 1.01
CALL = ["plan", "--baseline", "0.05", "--lift", "0.1", "--arms", "4", "--epsilon", "0.5,1,2"]


def live(case: Case, seed: int) -> int:
    """Play one run, round by round; return when the agent itself first has a verdict."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence((17, seed))))
    advance, agent = compile_steps(case.algorithm("rule"), case.laws), Agent(case.rule, 2, curator=case.curator)
    pulls, totals, t = np.zeros(2), np.zeros(2), 0
    while True:
        until = max(round(t * STEP), t + 1, 1000)
        advance(rng, pulls, totals, t, until)
        t = until
        for arm in range(2):
            agent.tally.arms[arm] = ArmTally(int(pulls[arm]), float(totals[arm]))
        if agent.verdict(case.criteria).is_decided:
            return t


def default_call(cache: str) -> float:
    """Run the default call in a process of its own; return how long it took."""
    start = time.perf_counter()
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    subprocess.run([sys.executable, "-m", "ldpbandits", *CALL], env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    """Print the quantiles side by side, and times."""
    print(__doc__)
    made = plan(0.05, 0.5, epsilon=[2, 4], seed=0)
    for epsilon in (2.0, 4.0):
        row, case = made.row(epsilon, "rule"), Case(made.question, epsilon, 0.5)
        live(case, 0)  # compile
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            runs = np.array(list(pool.map(partial(live, case), range(RUNS))))
        error = 1.2533 * np.std(np.log(runs)) / sqrt(RUNS)
        print(f"epsilon {epsilon:g}: plan of {row.trials} trials beside {RUNS} live runs")
        for share, planned in zip((0.1, 0.5, 0.9), row.quantiles, strict=True):
            lived = float(np.quantile(runs, share, method="inverted_cdf"))
            apart = (planned or 0) / lived - 1
            print(f"  {100 * share:.0f} %: {planned or 0:9,} beside {lived:9,.0f}, {100 * apart:+.1f} %")
        print(f"  standard error of the live median {100 * error:.1f} %; forecast without trials {row.closed_form:,}")
    with TemporaryDirectory() as cache:
        cold, warm = default_call(cache), default_call(cache)
    print(f"ldpbandits {' '.join(CALL)}: {warm:.1f} s; the first time, when it compiles, {cold:.1f} s")


if __name__ == "__main__":
    main()
