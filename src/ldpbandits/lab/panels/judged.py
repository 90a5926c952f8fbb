"""Equal arms, judged: how often a test declares one of them the best, which is wrong whenever it happens.

Each trial is played once and inspected by all tests of its rule, after every 2 % more responses.
"""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbandits.lab.algorithms import Algorithm
from ldpbandits.lab.engine.verdicts import Test
from ldpbandits.lab.experiments import Experiment
from ldpbandits.lab.play import Curve, Engine
from ldpbandits.lab.results import versions
from ldpbandits.lab.rewards import Drift, Law
from ldpbandits.output.files import write

FIRST_INSPECTION, INSPECTION_STEP = 100, 1.02
"""The responses at the first inspection, and the factor by which each is later than the one before."""

TEST_NAMES: dict[Test, str] = {"coin": "coin test", "pair": "pair test", "intervals": "disjoint intervals"}
COLUMNS = (
    "level", "algorithm", "label", "epsilon", "engine", "test", "horizon", "trials", "wrong", "wrong_sem"
)  # fmt: skip


def inspection_times(horizon: int) -> tuple[int, ...]:
    """Return the numbers of responses at which trials are judged, up to the horizon.

    >>> inspection_times(103)
    (100, 102, 103)
    """
    count = int(np.log(max(horizon / FIRST_INSPECTION, 1)) / np.log(INSPECTION_STEP)) + 1
    times = {round(FIRST_INSPECTION * INSPECTION_STEP**place) for place in range(count)}
    return (*sorted(time for time in times if time < horizon), horizon)


@dataclass(frozen=True, eq=False)
class Judged:
    """Some trials of one algorithm on equal arms, and when each test first declared one of them."""

    algorithm: Algorithm
    arms: tuple[Law, ...]
    engine: Engine
    tests: tuple[Test, ...]
    horizon: int
    first: NDArray[np.float64]
    """The responses at the first verdict, by trial and test; infinite where there is none."""

    @property
    def level(self) -> str:
        """Whether the level of the arms moves or stays."""
        return "moves" if isinstance(self.arms[0], Drift) else "stays"

    def wrong(self, test: Test, until: float = inf) -> tuple[float, float]:
        """Return the share of trials in which a test declared an arm by then, with its standard error."""
        first = self.first[:, self.tests.index(test)]
        share = float(np.mean(np.isfinite(first) & (first <= until)))
        return share, sqrt(share * (1 - share) / len(first))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the numbers of each test."""
        played = self.algorithm
        for test in self.tests:
            of_trials = self.engine, test, self.horizon, len(self.first), *self.wrong(test)
            numbers = self.level, played.name, played.drawn_as.label, played.epsilon, *of_trials
            yield dict(zip(COLUMNS, numbers, strict=True))


@dataclass(frozen=True)
class JudgedExperiment:
    """An experiment on equal arms whose trials are judged by tests."""

    experiment: Experiment
    """Its checkpoints are the moments of inspection."""
    tests: tuple[tuple[Test, ...], ...]
    """The tests of each algorithm."""

    @property
    def trials(self) -> int:
        """The trials of each curve."""
        return self.experiment.trials

    @property
    def horizon(self) -> int:
        """The responses of each trial."""
        return self.experiment.horizon

    @cached_property
    def curves(self) -> tuple[Curve, ...]:
        """One curve per algorithm, judged by its tests."""
        curves = zip(self.experiment.curves, self.tests, strict=True)
        return tuple(replace(curve, tests=tests) for curve, tests in curves)

    def results(self, first: Sequence[NDArray[np.float64]]) -> list[Judged]:
        """Return the result of each curve from the numbers of its trials."""
        return [
            Judged(curve.algorithm, curve.arms, curve.engine, curve.tests, self.horizon, numbers)
            for curve, numbers in zip(self.curves, first, strict=True)
        ]

    def write(self, folder: Path, results: Sequence[Judged]) -> None:
        """Write table and record into the folder."""
        write(folder / "results.csv", csv_table([row for judged in results for row in judged.rows()]))
        experiment = self.experiment.to_json(folder)
        record = {"experiment": experiment, "tests": self.tests, "versions": versions()}
        write(folder / "experiment.json", (json.dumps(record, indent=2) + "\n").encode())


def csv_table(rows: Sequence[dict[str, Any]]) -> bytes:
    """Return the numbers of judged trials as a table: a row for each algorithm and test."""
    text = io.StringIO()
    table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue().encode()
