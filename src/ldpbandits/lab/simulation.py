"""The result of a simulation: the pulls of each arm at each checkpoint of each trial, and from them the regret."""

from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ldpbandits.lab.algorithms import Algorithm
from ldpbandits.lab.play import Engine
from ldpbandits.lab.rewards import Law, arm_name, gaps
from ldpbandits.output.frames import frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """Some trials of one algorithm on one bandit.

    >>> from ldpbandits.lab import simulate
    >>> played = simulate("ucb1", ["bernoulli(0.9)", "bernoulli(0.5)"], horizon=1000, trials=3, seed=1)
    >>> played.pulls[:, -1].sum(axis=1)  # of both arms, at the last checkpoint of each trial
    array([1000., 1000., 1000.])
    """

    algorithm: Algorithm
    arms: tuple[Law, ...]
    seed: int
    engine: Engine
    checkpoints: tuple[int, ...]
    pulls: NDArray[np.float64]
    """Indexed by trial, checkpoint, arm."""
    seconds: float

    @cached_property
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
            "engine": self.engine,
            "seconds": self.seconds,
            "checkpoints": list(self.checkpoints),
            "regret": {
                "mean": self.mean_regret.tolist(),
                "sem": [None if np.isnan(sem) else sem for sem in self.sem_regret.tolist()],
            },
            "pulls": {"mean": self.pulls[:, -1].mean(axis=0).tolist()},
        }

    def to_frame(self) -> Any:  # noqa: ANN401 - of pandas, which need not be there
        """Return a tidy table as a pandas DataFrame: a row for each trial and checkpoint, with regret and pulls."""
        trials, points, _ = self.pulls.shape
        columns: dict[str, Any] = {
            "algorithm": self.algorithm.name,
            "epsilon": self.algorithm.epsilon,
            "trial": np.repeat(np.arange(trials), points),
            "t": np.tile(self.checkpoints, trials),
            "regret": self.regret.ravel(),
        }
        names = [arm_name(arm, number) for number, arm in enumerate(self.arms)]
        return frame(columns | {f"pulls_{name}": self.pulls[:, :, arm].ravel() for arm, name in enumerate(names)})

    def plot(self) -> "Figure":
        """Draw the mean regret with a band of two standard errors; return matplotlib's Figure, which notebooks show."""
        from ldpbandits.lab.figures import draw_simulation  # noqa: PLC0415 - matplotlib, only for those who draw

        return draw_simulation(self)

    def _repr_html_(self) -> str:
        """Return the regret in a sentence and the figure, as notebooks show them."""
        from ldpbandits.output.page import light_picture  # noqa: PLC0415 - as above
        from ldpbandits.output.style import save  # noqa: PLC0415 - as above

        told = repr(self).strip("<>").removeprefix("Simulation ")
        drawn = light_picture(save(self.plot(), "svg"), f"Regret of {self.algorithm.name}")
        return f"<p><b>{escape(told)}</b></p>{drawn}"

    def __eq__(self, other: object) -> bool:
        """Simulations are equal when the same was played with the same numbers; how long it took does not matter."""
        if not isinstance(other, Simulation):
            return NotImplemented
        names = ("algorithm", "arms", "seed", "engine", "checkpoints")
        same = all(getattr(self, name) == getattr(other, name) for name in names)
        return same and np.array_equal(self.pulls, other.pulls)

    def __hash__(self) -> int:
        return hash((self.algorithm.name, self.arms, self.seed, self.engine, self.checkpoints))

    def __repr__(self) -> str:
        epsilon = "" if self.algorithm.epsilon is None else f", epsilon={self.algorithm.epsilon:g}"
        sem = self.sem_regret[-1]
        error = "" if np.isnan(sem) else f" ± {sem:,.1f}"
        size = f"{len(self.pulls)} trials of T={self.checkpoints[-1]:,} on {len(self.arms)} arms"
        return f"<Simulation {self.algorithm.name}{epsilon}: regret {self.mean_regret[-1]:,.1f}{error}, {size}>"
