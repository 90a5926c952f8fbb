"""Many trials of one algorithm on one bandit, in parallel, with the same numbers however many threads there are.

Each trial has its own stream of randomness, spawned from the seed by its number.
"""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log10
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbandits.checks import check_count
from ldpbandits.errors import ParameterError
from ldpbandits.lab import step
from ldpbandits.lab.algorithms import Algorithm
from ldpbandits.lab.rewards import Law, gaps

CHECKPOINTS_A_DECADE = 10


@dataclass(frozen=True)
class Simulation:
    """What came out: the pulls of each arm at each checkpoint of each trial, and from them the regret."""

    algorithm: Algorithm
    arms: tuple[Law, ...]
    seed: int
    checkpoints: tuple[int, ...]
    pulls: NDArray[np.float64]
    """Indexed by trial, checkpoint, arm."""
    seconds: float

    @property
    def regret(self) -> NDArray[np.float64]:
        """Pseudo-regret, sum over arms of N_a Delta_a in the units of the rewards; indexed by trial, checkpoint."""
        regret: NDArray[np.float64] = self.pulls @ np.array(gaps(self.arms))
        return regret

    @property
    def mean_regret(self) -> NDArray[np.float64]:
        """The mean over trials, at each checkpoint."""
        return np.asarray(self.regret.mean(axis=0))

    @property
    def sem_regret(self) -> NDArray[np.float64]:
        """The standard error of that mean; NaN for a single trial."""
        trials = len(self.pulls)
        if trials == 1:
            return np.full(len(self.checkpoints), np.nan)
        return np.asarray(self.regret.std(axis=0, ddof=1) / np.sqrt(trials))

    def to_json(self) -> dict[str, Any]:
        """Return the summary that `ldpbandits simulate --json` prints; a standard error that is not known is null."""
        return {
            "algorithm": self.algorithm.name,
            "epsilon": self.algorithm.epsilon,
            "horizon": self.checkpoints[-1],
            "trials": len(self.pulls),
            "seed": self.seed,
            "engine": "step",
            "seconds": self.seconds,
            "checkpoints": list(self.checkpoints),
            "regret": {
                "mean": self.mean_regret.tolist(),
                "sem": [None if np.isnan(sem) else sem for sem in self.sem_regret.tolist()],
            },
            "pulls": {"mean": self.pulls[:, -1].mean(axis=0).tolist()},
        }


def log_spaced(horizon: int) -> tuple[int, ...]:
    """Checkpoints at ten a decade from 10 up, ending at the horizon."""
    steps = ceil(CHECKPOINTS_A_DECADE * log10(max(horizon, 10)))
    spaced = (round(10 ** (i / CHECKPOINTS_A_DECADE)) for i in range(CHECKPOINTS_A_DECADE, steps))
    return (*sorted({point for point in spaced if point < horizon}), horizon)


def simulate(
    algorithm: Algorithm,
    arms: Sequence[Law],
    horizon: int,
    *,
    trials: int = 50,
    seed: int,
    jobs: int | None = None,
    checkpoints: Sequence[int] | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Simulation:
    """Play `trials` independent trials; the same seed gives the same numbers for any number of jobs.

    `progress` is called with the number of trials done, after each.
    """
    horizon = check_count("horizon", horizon)
    trials = check_count("trials", trials)
    seed = check_count("seed", seed, least=0)
    jobs = check_count("jobs", (os.cpu_count() or 1) if jobs is None else jobs)
    points = _check_points(log_spaced(horizon) if checkpoints is None else checkpoints, horizon)
    if not arms:
        raise ParameterError("a bandit needs at least one arm")
    if horizon < len(arms):
        raise ParameterError(f"horizon must be at least the number of arms, {len(arms)}, got {horizon}")
    algorithm.check_arms(arms)

    pulls = np.empty((trials, len(points), len(arms)))
    bandit = step.Trials(algorithm, arms)
    streams = np.random.SeedSequence(seed).spawn(trials)
    stopped = Event()

    def play(number: int) -> None:
        rng = np.random.Generator(np.random.PCG64(streams[number]))
        for row, counts in enumerate(bandit.play(points, rng)):
            pulls[number, row] = counts
            if stopped.is_set():
                return

    started = time.perf_counter()
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(play, number) for number in range(trials)]
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                progress(done)
        except BaseException:  # Ctrl-C above all: threads finish their stretch, and none begins a new one
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return Simulation(algorithm, tuple(arms), seed, points, pulls, time.perf_counter() - started)


def _check_points(checkpoints: Sequence[int], horizon: int) -> tuple[int, ...]:
    points = tuple(check_count("a checkpoint", point) for point in checkpoints)
    if not points or any(later <= earlier for earlier, later in pairwise(points)):
        raise ParameterError("checkpoints must be one or more whole numbers, each larger than the one before")
    if points[-1] != horizon:
        raise ParameterError(f"the last checkpoint must be the horizon, {horizon}, got {points[-1]}")
    return points
