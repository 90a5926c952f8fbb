"""Experiments as data: a bandit, the algorithms that play it, and for how long; from Python or from TOML.

    horizon = 1e6
    trials = 50
    seed = 0
    arms = ["bernoulli(0.9)", "5*beta(4,1)"]

    [[algorithms]]
    name = "ucb1"

    [[algorithms]]
    name = "ldp-ucb-b"
    epsilon = [0.2, 2]

`engine` ("leap" or "step") and `checkpoints` (a list that ends with the horizon) may be given too.
"""

import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpbandits.checks import check_count, shown
from ldpbandits.errors import LDPBanditsError, ParameterError
from ldpbandits.lab.algorithms import Algorithm, algorithm, check_name
from ldpbandits.lab.rewards import Law, parse_arms, written
from ldpbandits.lab.run import Curve, Engine, Simulation, check_points, check_trials, log_spaced


@dataclass(frozen=True)
class Experiment:
    """Some algorithms on one bandit: one curve each."""

    arms: tuple[Law, ...]
    algorithms: tuple[Algorithm, ...]
    horizon: int
    trials: int = 50
    seed: int = 0
    engine: Engine = "leap"
    checkpoints: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """Check everything, before anything is played."""
        if not self.algorithms:
            raise ParameterError("an experiment needs at least one algorithm")
        check_trials(self.trials)
        points = log_spaced(check_count("horizon", self.horizon)) if self.checkpoints is None else self.checkpoints
        object.__setattr__(self, "checkpoints", check_points(points, self.horizon))
        self.curves()
        labels = [(played.name, played.epsilon) for played in self.algorithms]
        if len(set(labels)) < len(labels):
            raise ParameterError("an experiment names each algorithm and epsilon once")

    def curves(self) -> list[Curve]:
        """Return one curve an algorithm; its numbers depend on the seed and on the curve, not on its company."""
        arms = " ".join(written(arm) for arm in self.arms)
        return [
            Curve(
                played,
                self.arms,
                self.checkpoints or (),
                (self.seed, _digest(f"{played.name} {played.epsilon} {arms}")),
                self.engine,
            )
            for played in self.algorithms
        ]

    def simulations(self, pulls: Sequence[NDArray[np.float64]], seconds: float = 0.0) -> list[Simulation]:
        """Return what was played, one simulation a curve."""
        return [
            Simulation(curve.algorithm, curve.arms, self.seed, self.engine, curve.checkpoints, counts, seconds)
            for curve, counts in zip(self.curves(), pulls, strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        """Return all that is needed to run it again, as `from_json` takes it and TOML holds it."""
        return {
            "horizon": self.horizon,
            "trials": self.trials,
            "seed": self.seed,
            "engine": self.engine,
            "checkpoints": list(self.checkpoints or ()),
            "arms": [written(arm) for arm in self.arms],
            "algorithms": [
                {"name": played.name} | ({} if played.epsilon is None else {"epsilon": played.epsilon})
                for played in self.algorithms
            ],
        }

    @classmethod
    def from_json(cls, data: object) -> "Experiment":
        """Read an experiment; an error names the key and the rule."""
        known = {"horizon", "trials", "seed", "engine", "checkpoints", "arms", "algorithms"}
        if not isinstance(data, dict):
            raise ParameterError("an experiment is a table of keys")
        for key in sorted(data.keys() - known):
            raise ParameterError(f"{key}: there is no such key; there are {', '.join(sorted(known))}")
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
        arms = _read_arms(data["arms"])
        algorithms = _read_algorithms(data["algorithms"])
        return cls(arms, algorithms, horizon, trials, seed, data.get("engine", "leap"), checkpoints)

    @classmethod
    def from_toml(cls, path: Path) -> "Experiment":
        """Read an experiment from a file."""
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ParameterError(f"{path}: cannot be read: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ParameterError(f"{path}: is not TOML: {error}") from None
        try:
            return cls.from_json(data)
        except LDPBanditsError as error:
            raise ParameterError(f"{path}: {error}") from None


def _digest(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:8])


@contextmanager
def _key(key: str) -> Iterator[None]:
    """Say of an error inside to which key it belongs."""
    try:
        yield
    except LDPBanditsError as error:
        raise ParameterError(f"{key}: {error}") from None


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise ParameterError(f"must be a list, got {shown(value)}")
    return value


def _read_arms(texts: object) -> tuple[Law, ...]:
    with _key("arms"):
        listed = _list(texts)
    arms: list[Law] = []
    for number, text in enumerate(listed):
        with _key(f"arms[{number}]"):
            if not isinstance(text, str):
                raise ParameterError(f"an arm is written as a string, got {shown(text)}")
            arms += parse_arms(text)
    return tuple(arms)


def _read_algorithms(tables: object) -> tuple[Algorithm, ...]:
    with _key("algorithms"):
        listed = _list(tables)
    algorithms: list[Algorithm] = []
    for number, table in enumerate(listed):
        where = f"algorithms[{number}]"
        if not isinstance(table, dict) or "name" not in table or table.keys() - {"name", "epsilon"}:
            raise ParameterError(
                f"{where}: an algorithm has a name, and an epsilon if it is private, got {shown(table)}"
            )
        with _key(f"{where}.name"):
            check_name(table["name"])
        epsilons = table.get("epsilon")
        if epsilons == []:
            raise ParameterError(f"{where}.epsilon: a list of epsilons needs at least one")
        for epsilon in epsilons if isinstance(epsilons, list) else [epsilons]:
            with _key(f"{where}.epsilon" if epsilons is not None else where):
                algorithms.append(algorithm(table["name"], epsilon))
    return tuple(algorithms)
