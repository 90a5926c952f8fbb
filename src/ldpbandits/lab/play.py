"""Many trials of algorithms on bandits, in parallel, with the same numbers wherever they are played.

Each trial has its own stream of randomness, derived from the seed and its number, so that nothing depends on the number
of threads, processes or machines, nor on the order in which trials end.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import ceil, inf, log10
from threading import Event
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numba.core.errors import NumbaError
from numpy.typing import NDArray

from ldpbandits.checks import brief, check_count
from ldpbandits.errors import ParameterError
from ldpbandits.lab.algorithms import Algorithm
from ldpbandits.lab.engine.duels import state_size
from ldpbandits.lab.engine.leap import compile_leaps, encode_leaps
from ldpbandits.lab.engine.mixed import compile_mixed_steps
from ldpbandits.lab.engine.step import Advance, compile_steps
from ldpbandits.lab.engine.verdicts import Test, judge_by
from ldpbandits.lab.mix import Mix
from ldpbandits.lab.rewards import Law

Engine: TypeAlias = Literal["leap", "step"]
"""How to play: in leaps, or every round. Both draw from the same law; step plays every rule."""

CHECKPOINTS_PER_DECADE = 10


class Trials:
    """One algorithm on one bandit, ready to be played any number of times, also on several threads at once."""

    def __init__(self, algorithm: Algorithm, arms: Sequence[Law], engine: Engine = "leap") -> None:
        self._advance = compile_leaps(algorithm, arms) if engine == "leap" else _compile_rounds(algorithm, arms)
        self._arms, self._cells = len(arms), algorithm.cells
        self._totals = state_size(algorithm.rule.design, len(arms))
        try:
            list(self.tallies([0], np.random.default_rng(0)))
        except NumbaError as error:
            reason = _reason(error)
            raise ParameterError(f"the index or channel of {algorithm.name} cannot be compiled: {reason}") from error

    def tallies(
        self, checkpoints: Iterable[int], rng: np.random.Generator, is_stopped: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Play one trial; yield the pulls and the totals at each checkpoint, until `is_stopped`. Later they change."""
        # Pulls are floats here: dividing by an integer would need a conversion that vector instructions lack.
        pulls = np.zeros(self._arms)
        totals = np.zeros(self._totals) if self._cells == 1 else np.zeros((self._arms, 2 * self._cells))
        t = 0
        for checkpoint in checkpoints:
            while True:
                # Compiled code cannot be interrupted: come back now and then to ask `is_stopped`.
                until = min(checkpoint, t + max(10**6, t // 20))
                self._advance(rng, pulls, totals, t, until)
                t = until
                if is_stopped():
                    return
                if t == checkpoint:
                    break
            yield pulls, totals

    def play(
        self, checkpoints: Iterable[int], rng: np.random.Generator, is_stopped: Callable[[], bool] = lambda: False
    ) -> Iterator[NDArray[np.float64]]:
        """Play one trial; yield the pulls of each arm at each checkpoint, until `is_stopped`."""
        return (pulls.copy() for pulls, _ in self.tallies(checkpoints, rng, is_stopped))


def _compile_rounds(algorithm: Algorithm, arms: Sequence[Law]) -> Advance:
    mix = algorithm.curator
    return compile_mixed_steps(algorithm, mix, arms) if isinstance(mix, Mix) else compile_steps(algorithm, arms)


def log_spaced(horizon: int) -> tuple[int, ...]:
    """Checkpoints at ten a decade from 10 up, ending at the horizon."""
    steps = ceil(CHECKPOINTS_PER_DECADE * log10(max(horizon, 10)))
    spaced = (round(10 ** (i / CHECKPOINTS_PER_DECADE)) for i in range(CHECKPOINTS_PER_DECADE, steps))
    return (*sorted({point for point in spaced if point < horizon}), horizon)


@dataclass(frozen=True)
class Curve:
    """One algorithm on one bandit, with the entropy of its random streams: plain data, to be played anywhere."""

    algorithm: Algorithm
    arms: tuple[Law, ...]
    checkpoints: tuple[int, ...]
    entropy: tuple[int, ...]
    engine: Engine
    tests: tuple[Test, ...] = ()
    """The tests by which a trial is judged at each checkpoint; without any, the pulls of each arm are recorded."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the numbers of a trial: the pulls by checkpoint and arm, or the first verdict of each test."""
        return (len(self.tests),) if self.tests else (len(self.checkpoints), len(self.arms))

    def fits(self, numbers: NDArray[np.float64]) -> bool:
        """Tell whether these may be the numbers of a trial."""
        if numbers.shape != self.shape:
            return False
        if self.tests:
            return bool(np.isin(numbers, (*self.checkpoints, inf)).all())
        return bool((numbers.sum(axis=1) == np.array(self.checkpoints)).all())


@lru_cache(maxsize=64)
def _trials(algorithm: Algorithm, arms: tuple[Law, ...], engine: Engine) -> Trials:
    return Trials(algorithm, arms, engine)


def play(curve: Curve, trial: int, is_stopped: Callable[[], bool] = lambda: False) -> NDArray[np.float64]:
    """Play one trial of a curve; return the pulls of each arm at each checkpoint, or the first verdict of each test."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(curve.entropy, spawn_key=(trial,))))
    trials = _trials(curve.algorithm, curve.arms, curve.engine)
    if curve.tests:
        return _first_verdicts(curve, trials.tallies(curve.checkpoints, rng, is_stopped))
    rows = list(trials.play(curve.checkpoints, rng, is_stopped))
    return np.array(rows) if rows else np.empty((0, len(curve.arms)))


def _first_verdicts(curve: Curve, tallies: Iterable[tuple[NDArray[np.float64], ...]]) -> NDArray[np.float64]:
    """Return the checkpoint at which each test first declares an arm; infinite where it declares none."""
    judges = [judge_by(test, curve.algorithm, len(curve.arms)) for test in curve.tests]
    first = np.full(curve.shape, inf)
    for checkpoint, (pulls, totals) in zip(curve.checkpoints, tallies, strict=False):
        for place in np.flatnonzero(np.isinf(first)):
            if judges[place](pulls, totals) >= 0:
                first[place] = checkpoint
        if np.isfinite(first).all():
            break
    return first


class Archive(Protocol):
    """A store of finished trials."""

    def load(self, curve: Curve, trial: int) -> NDArray[np.float64] | None:
        """Return a finished trial, or None."""

    def save(self, curve: Curve, trial: int, pulls: NDArray[np.float64]) -> None:
        """Store the pulls of a finished trial."""


def choose_engine(algorithm: Algorithm, arms: tuple[Law, ...], asked: Engine | None = None) -> Engine:
    """Return the engine that is asked for, or the fastest that can play this: leap where it can, else step."""
    if asked == "step":
        return asked
    try:
        encode_leaps(algorithm, arms)
    except ParameterError as obstacle:
        if asked is None:
            return "step"
        raise ParameterError(f"{algorithm.name} cannot leap, only step: {obstacle}") from None
    return "leap"


def play_all(
    curves: Sequence[Curve],
    trials: int,
    *,
    executor: Executor | None = None,
    jobs: int | None = None,
    archive: Archive | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[NDArray[np.float64]]:
    """Play trials 0 to `trials` - 1 of each curve but for those in the archive; return the numbers of each trial.

    They are played on threads here, or on any executor: other processes or other machines. `progress` is called with
    the number of trials done.
    """
    pulls = [np.empty((trials, *curve.shape)) for curve in curves]
    missing = []
    for number, curve in enumerate(curves):
        for trial in range(trials):
            kept = archive.load(curve, trial) if archive else None
            if kept is None:
                missing.append((number, trial))
            else:
                pulls[number][trial] = kept
    done = len(curves) * trials - len(missing)
    progress(done)
    stopped = Event()
    with ExitStack() as stack:
        if executor is None:
            for curve in dict.fromkeys(curves):
                _trials(curve.algorithm, curve.arms, curve.engine)  # compile once, and complain here if it cannot be
            pool: Executor = stack.enter_context(ThreadPoolExecutor(jobs or os.cpu_count() or 1))
            futures = {
                pool.submit(play, curves[number], trial, stopped.is_set): (number, trial) for number, trial in missing
            }
        else:
            pool = executor
            futures = {pool.submit(play, curves[number], trial): (number, trial) for number, trial in missing}
        try:
            for future in as_completed(futures):
                number, trial = futures[future]
                pulls[number][trial] = future.result()
                if archive:
                    archive.save(curves[number], trial, pulls[number][trial])
                done += 1
                progress(done)
        except BaseException:  # Ctrl-C above all: threads finish their stretch, and no trial is begun any more
            stopped.set()
            for future in futures:
                future.cancel()
            raise
    return pulls


def _reason(error: NumbaError) -> str:
    """Return the line of numba's long message that says what is wrong, not where it was found."""
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [
        line for line in lines if line and not line.startswith(("Failed in", "During:", "File ", "<source", "-"))
    ]
    return telling[0] if telling else type(error).__name__


def check_points(checkpoints: Sequence[int], horizon: int) -> tuple[int, ...]:
    """Check that checkpoints grow, up to the horizon."""
    if not isinstance(checkpoints, Iterable):
        raise ParameterError(f"checkpoints must be a list of whole numbers, got {brief(checkpoints)}")
    points = tuple(check_count("a checkpoint", point) for point in checkpoints)
    if not points or any(later <= earlier for earlier, later in pairwise(points)):
        raise ParameterError("checkpoints must be one or more whole numbers, each larger than the one before")
    if points[-1] != horizon:
        raise ParameterError(f"the last checkpoint must be the horizon, {horizon}, got {points[-1]}")
    return points
