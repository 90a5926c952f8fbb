"""A panel as data: some algorithms on one bandit, and what its figure shows of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ldpbandits.lab.algorithms import Algorithm
from ldpbandits.lab.engine.verdicts import Test
from ldpbandits.lab.rewards import Law

PAPERS_TRIALS = 50
"""Trials of each curve in the paper."""


@dataclass(frozen=True)
class Ratios:
    """The figure shows regret; the numbers are its ratios to the baseline, beside those that the paper prints."""

    printed: Mapping[str, float] = field(default_factory=dict)
    """The ratios that the paper prints, by algorithm."""
    is_limit: bool = False
    """The paper prints a limit that the ratio stays below, not the ratio."""
    semilog: bool = False
    """The figure has a second plot with a linear axis of regret, where logarithmic growth is a straight line."""


@dataclass(frozen=True)
class Limit:
    """The figure shows regret beside, and divided by, a lower bound: constant x log T as T grows."""

    constant: float
    of: str
    """The policies whose regret it bounds."""


@dataclass(frozen=True)
class Tails:
    """The figure shows the regret of the worst trials beside the mean."""


@dataclass(frozen=True)
class FalseVerdicts:
    """The figure shows how often tests declare one of equal arms: where their level stays, and where it moves."""

    steady: tuple[Law, ...]
    """The arms whose level stays; those of the panel have a level that moves."""
    tests: Mapping[str, tuple[Test, ...]]
    """The tests that judge each algorithm."""


@dataclass(frozen=True)
class Panel:
    """Some algorithms on one bandit, and what is shown of them."""

    id: str
    title: str
    folder: str
    """The folder of its tables. Panels of one folder share one experiment, so they have the same arms."""
    arms: tuple[Law, ...]
    baseline: Algorithm
    """The first curve: the paper's algorithm without privacy, or a rule without a coin."""
    others: tuple[Algorithm, ...]
    shows: Ratios | Limit | Tails | FalseVerdicts
    horizon: int | None = None
    """The longest horizon that is played; None: that of the run, whatever it is."""
    trials: int = PAPERS_TRIALS
    """Trials in a run of 50 trials; other runs scale this number in proportion."""
    note: str = ""
    """A sentence of the report."""

    @property
    def curves(self) -> tuple[Algorithm, ...]:
        """All algorithms, the baseline first."""
        return (self.baseline, *self.others)

    @property
    def bandits(self) -> Mapping[str, tuple[Law, ...]]:
        """The arms of each of its bandits, by the folder of their tables."""
        if isinstance(self.shows, FalseVerdicts):
            return {self.folder: self.arms, f"{self.folder}/steady": self.shows.steady}
        return {self.folder: self.arms}
