"""Experiments as data: a bandit, the algorithms that play it, and for how long; from Python, TOML or JSON.

    horizon = 1e6
    trials = 50
    seed = 0
    arms = ["bernoulli(0.9)", "5*beta(4,1)"]

    [[algorithms]]
    name = "ucb1"

    [[algorithms]]
    name = "ldp-ucb-b"
    epsilon = [0.2, 2]

    [[algorithms]]
    rule = "my_module:MyRule"
    epsilon = 2

`engine` ("leap" or "step") and `checkpoints` (a list that ends with the horizon) may be given too. Without an engine,
each algorithm leaps if it can.
"""

import json
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from ldpbandits.checks import brief, check_count
from ldpbandits.errors import LDPBanditsError, ParameterError
from ldpbandits.lab import algorithms
from ldpbandits.lab.algorithms import Algorithm, algorithms_from_json
from ldpbandits.lab.cluster import workers
from ldpbandits.lab.play import (
    Archive,
    Curve,
    Engine,
    check_points,
    choose_engine,
    log_spaced,
    play_all,
)
from ldpbandits.lab.rewards import COLUMNS, Law, arm_text, identity, parse_arms, read_arms
from ldpbandits.lab.simulation import Simulation

MAX_TRIALS = 10**7
MAX_HORIZON = 2**53
"""Pulls are counted in floats, which are exact up to here."""


@dataclass(frozen=True)
class Experiment:
    """Some algorithms on one bandit: one curve each.

    >>> text = {"arms": ["2*bernoulli(0.5)"], "horizon": 100, "algorithms": [{"name": "ldp-ucb-b", "epsilon": [1, 2]}]}
    >>> experiment = Experiment.from_json(text)
    >>> [(played.name, played.epsilon) for played in experiment.algorithms]
    [('ldp-ucb-b', 1.0), ('ldp-ucb-b', 2.0)]
    """

    arms: tuple[Law, ...]
    algorithms: tuple[Algorithm, ...]
    horizon: int
    trials: int = 50
    seed: int = 0
    engine: Engine | None = None
    """None: for each algorithm the fastest that can play it."""
    checkpoints: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not self.algorithms or not all(isinstance(played, Algorithm) for played in self.algorithms):
            raise ParameterError(f"an experiment needs at least one Algorithm, got {brief(self.algorithms)}")
        if self.engine not in {None, *get_args(Engine)}:
            raise ParameterError(f"engine must be leap or step, got {brief(self.engine)}")
        horizon, trials = check_count("horizon", self.horizon), check_count("trials", self.trials)
        if trials > MAX_TRIALS:
            raise ParameterError(f"trials must be at most {MAX_TRIALS:,}, got {trials:g}")
        checked: dict[str, object] = {
            "arms": read_arms(self.arms),
            "algorithms": tuple(self.algorithms),
            "horizon": horizon,
            "trials": trials,
            "seed": check_count("seed", self.seed, least=0),
            "checkpoints": log_spaced(horizon) if self.checkpoints is None else check_points(self.checkpoints, horizon),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if not self.arms:
            raise ParameterError("a bandit needs at least one arm")
        if horizon < len(self.arms):
            raise ParameterError(f"horizon must be at least the number of arms, {len(self.arms)}, got {horizon}")
        if horizon > MAX_HORIZON:
            raise ParameterError(f"horizon must be at most 2^53, got {horizon:g}")
        for played in self.algorithms:
            played.check_arms(self.arms)
        _ = self.curves  # chooses the engines, and refuses to leap where it cannot
        if len({(played.name, played.epsilon) for played in self.algorithms}) < len(self.algorithms):
            raise ParameterError("an experiment names each algorithm and epsilon once")

    @cached_property
    def curves(self) -> tuple[Curve, ...]:
        """One curve per algorithm; its numbers depend on the seed and on the curve, not on its company."""
        laws = [identity(arm) for arm in self.arms]
        return tuple(
            Curve(
                played,
                self.arms,
                self.checkpoints or (),
                (self.seed, digest([played.to_json(), laws])),
                choose_engine(played, self.arms, self.engine),
            )
            for played in self.algorithms
        )

    def play(
        self,
        *,
        executor: Executor | None = None,
        cluster: str | None = None,
        jobs: int | None = None,
        archive: Archive | None = None,
        progress: Callable[[int], None] = lambda _: None,
    ) -> list[Simulation]:
        """Play all trials of all curves, except those in the archive; return one simulation per curve.

        They are played on `jobs` threads here, on the Dask cluster at an address, or on any executor.
        """
        if executor is not None and cluster is not None:
            raise ParameterError("executor and cluster both say where trials are played: give one of them")
        start = time.perf_counter()
        with workers(cluster) as there:
            chosen = executor if there is None else there
            pulls = play_all(self.curves, self.trials, executor=chosen, jobs=jobs, archive=archive, progress=progress)
        return self.simulations(pulls, time.perf_counter() - start)

    def simulations(self, pulls: Sequence[NDArray[np.float64]], seconds: float) -> list[Simulation]:
        """Return one simulation per curve from the pulls of its trials; `seconds` is the time of all curves."""
        return [
            Simulation(curve.algorithm, curve.arms, self.seed, curve.engine, curve.checkpoints, counts, seconds)
            for curve, counts in zip(self.curves, pulls, strict=True)
        ]

    def to_json(self, folder: Path | None = None) -> dict[str, Any]:
        """Return all that is needed to run it again, as `from_json` takes it; files of data as seen from a folder."""
        data: dict[str, Any] = {
            "horizon": self.horizon,
            "trials": self.trials,
            "seed": self.seed,
            "engine": self.engine,
            "checkpoints": list(self.checkpoints or ()),
            "arms": [arm_text(arm, folder) for arm in self.arms],
            "algorithms": [played.to_json() for played in self.algorithms],
        }
        return {key: value for key, value in data.items() if value is not None}

    @classmethod
    def from_json(cls, data: object, folder: Path | None = None) -> "Experiment":
        """Read an experiment; an error names the key and the rule. Files of data are looked for in the folder."""
        known = {"horizon", "trials", "seed", "engine", "checkpoints", "arms", "algorithms"}
        if not isinstance(data, dict):
            raise ParameterError("an experiment is a table of keys")
        for key in sorted(data.keys() - known):
            raise ParameterError(f"{key}: unknown key; known keys: {', '.join(sorted(known))}")
        for key in ("horizon", "arms", "algorithms"):
            if key not in data:
                raise ParameterError(f"{key}: an experiment needs this key")
        with _key("horizon"):
            horizon = check_count("horizon", data["horizon"])
        with _key("trials"):
            trials = check_count("trials", data.get("trials", 50))
        with _key("seed"):
            seed = check_count("seed", data.get("seed", 0), least=0)
        checkpoints = data.get("checkpoints")
        if checkpoints is not None:
            with _key("checkpoints"):
                checkpoints = check_points(_list(checkpoints), horizon)
        arms = _read_arms(data["arms"], folder)
        algorithms = _read_algorithms(data["algorithms"])
        return cls(arms, algorithms, horizon, trials, seed, data.get("engine"), checkpoints)

    @classmethod
    def from_file(cls, path: Path) -> "Experiment":
        """Read an experiment from a file of TOML, or from the experiment.json beside earlier results."""
        try:
            text = path.read_text(encoding="utf-8")
            data: Any = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        except OSError as error:
            raise ParameterError(f"{path}: cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError) as error:  # of either language, or of UTF-8; or nested without end
            kind = "JSON" if path.suffix == ".json" else "TOML"
            raise ParameterError(f"{path}: is not {kind}: {error}") from None
        if isinstance(data, dict) and "experiment" in data:  # a record: the experiment, and the versions that played it
            data = data["experiment"]
        try:
            return cls.from_json(data, path.parent)
        except LDPBanditsError as error:
            raise ParameterError(f"{path}: {error}") from None


def simulate(  # noqa: PLR0913 - an experiment's settings
    algorithm: Algorithm | str,
    arms: object,
    horizon: float,
    *,
    seed: int = 0,
    epsilon: float | None = None,
    trials: int = 50,
    engine: Engine | None = None,
    checkpoints: Sequence[int] | None = None,
    column: str = COLUMNS[1],
    arm_column: str = COLUMNS[0],
    jobs: int | None = None,
    cluster: str | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Simulation:
    """Play trials of an algorithm on a bandit; the same seed gives the same numbers for any number of jobs.

    The algorithm is one of ours by name, with its epsilon, or an `Algorithm`. Arms are laws, or written as such, or
    past rewards: a DataFrame or a dict with the columns `arm_column` and `column`, or with one column for each arm; or
    a list of Series or arrays. The engine is leap where the algorithm can, else step. `cluster` is the
    address of a Dask cluster that plays them. `progress` is called with the number of trials done, after each.

    >>> simulate("ldp-ucb-b", epsilon=2, arms=["bernoulli(0.9)", "3*bernoulli(0.5)"], horizon=1e4, trials=5, seed=1)
    <Simulation ldp-ucb-b, epsilon=2: regret 185.0 ± 8.3, 5 trials of T=10,000 on 4 arms>
    """
    played = algorithms.algorithm(algorithm, epsilon) if isinstance(algorithm, str) else algorithm
    if not isinstance(played, Algorithm):
        told = "algorithm must be a name, such as 'ldp-ucb-b', or an Algorithm, such as with_rule(rule, epsilon=2)"
        raise ParameterError(f"{told}, got {brief(played)}")
    if played is algorithm and epsilon is not None:
        raise ParameterError("epsilon goes with an algorithm's name; an Algorithm has its own")
    laws = read_arms(arms, columns=(arm_column, column))
    experiment = Experiment(laws, (played,), horizon, trials, seed, engine, checkpoints)  # type: ignore[arg-type]
    jobs = None if jobs is None else check_count("jobs", jobs)
    (simulation,) = experiment.play(cluster=cluster, jobs=jobs, progress=progress)
    return simulation


def digest(identity: object) -> int:
    """Return 64 bits that name a curve, so that streams of different curves are independent."""
    text = json.dumps(canonical(identity), sort_keys=True)
    return int.from_bytes(sha256(text.encode()).digest()[:8])


def canonical(data: Any) -> Any:  # noqa: ANN401 - JSON
    """Return JSON in which equal numbers are written alike: 2 as 2.0."""
    match data:
        case dict():
            return {key: canonical(value) for key, value in data.items()}
        case list() | tuple():
            return [canonical(value) for value in data]
        case int() if not isinstance(data, bool) and abs(data) <= MAX_HORIZON:  # beyond, floats are not exact
            return float(data)
        case _:
            return data


@contextmanager
def _key(key: str) -> Iterator[None]:
    """Put the key in front of the message of an error inside the block."""
    try:
        yield
    except LDPBanditsError as error:
        raise ParameterError(f"{key}: {error}") from None


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise ParameterError(f"must be a list, got {brief(value)}")
    return value


def _read_arms(texts: object, folder: Path | None) -> tuple[Law, ...]:
    with _key("arms"):
        listed = _list(texts)
    arms: list[Law] = []
    for number, text in enumerate(listed):
        with _key(f"arms[{number}]"):
            if not isinstance(text, str):
                raise ParameterError(f"an arm is written as a string, got {brief(text)}")
            arms += parse_arms(text, folder)
    return tuple(arms)


def _read_algorithms(tables: object) -> tuple[Algorithm, ...]:
    with _key("algorithms"):
        listed = _list(tables)
    algorithms: list[Algorithm] = []
    for number, table in enumerate(listed):
        with _key(f"algorithms[{number}]"):
            algorithms += algorithms_from_json(table)
    return tuple(algorithms)
