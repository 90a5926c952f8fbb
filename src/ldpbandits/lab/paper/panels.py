"""The paper's numerical section as data: its bandits, and its nine panels.

All have 20 arms: one of mean 0.9, five each of 0.8, 0.7 and 0.6, four of 0.5.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ldpbandits.lab.rewards import Law, parse_arms

Played: TypeAlias = tuple[str, float | None]
"""The name of an algorithm, and its epsilon."""


def _arms(*texts: str) -> tuple[Law, ...]:
    return tuple(arm for text in texts for arm in parse_arms(text))


BERNOULLI = _arms("bernoulli(0.9)", "5*bernoulli(0.8)", "5*bernoulli(0.7)", "5*bernoulli(0.6)", "4*bernoulli(0.5)")
MIXED = _arms("bernoulli(0.9)", "5*beta(4,1)", "5*choice(0.4,1)", "5*bernoulli(0.6)", "4*uniform(0,1)")
GAUSSIAN = _arms("gaussian(0.9,1)", "5*gaussian(0.8,1)", "5*gaussian(0.7,1)", "5*gaussian(0.6,1)", "4*gaussian(0.5,1)")
BANDITS = {"bernoulli": BERNOULLI, "mixed": MIXED, "gaussian": GAUSSIAN}

HORIZON = 10**7
"""The paper states no horizon. This one is taken for its own: most of the ratios that it prints are met here."""

EPSILONS = (0.2, 0.5, 1.0, 2.0, 4.0)
"""The paper varies epsilon and does not say over which values."""


@dataclass(frozen=True)
class Panel:
    """One panel of Figures 1 and 2: a bandit, the baseline and the private algorithms on it."""

    id: str
    title: str
    bandit: str
    baseline: str
    private: tuple[Played, ...]
    paper: Mapping[str, float] = field(default_factory=dict)
    """What the paper prints for the ratio to the baseline, by algorithm."""
    paper_is_limit: bool = False
    """The paper prints what the ratio stays below, not what it is."""
    semilog: bool = False
    """Drawn a second time with a linear axis of regret: logarithmic growth shows as a straight line."""

    @property
    def curves(self) -> tuple[Played, ...]:
        """Baseline first."""
        return ((self.baseline, None), *self.private)


def _both(epsilon: float, suffix: str = "") -> tuple[Played, ...]:
    return ((f"ldp-ucb-b{suffix}", epsilon), (f"ldp-ucb-l{suffix}", epsilon))


def _vary(name: str) -> tuple[Played, ...]:
    return tuple((name, epsilon) for epsilon in EPSILONS)


PANELS = (
    Panel(
        "1a", "Bernoulli arms, epsilon = 2", "bernoulli", "ucb1", _both(2.0),
        paper={"ldp-ucb-b": 1.6, "ldp-ucb-l": 8.5}, semilog=True,
    ),
    Panel(
        "1b", "Bernoulli arms, epsilon = 0.2", "bernoulli", "ucb1", _both(0.2),
        paper={"ldp-ucb-b": 101, "ldp-ucb-l": 441}, paper_is_limit=True,
    ),
    Panel("1c", "LDP-UCB-L on Bernoulli arms, epsilon varies", "bernoulli", "ucb1", _vary("ldp-ucb-l")),
    Panel("1d", "LDP-UCB-B on Bernoulli arms, epsilon varies", "bernoulli", "ucb1", _vary("ldp-ucb-b")),
    Panel("1e", "Mixed types of arms, epsilon = 2", "mixed", "ucb1", _both(2.0), semilog=True),
    Panel("1f", "Mixed types of arms, epsilon = 0.2", "mixed", "ucb1", _both(0.2)),
    Panel(
        "2a", "Gaussian arms, epsilon = 0.5", "gaussian", "ucb1-s", _both(0.5, "s"),
        paper={"ldp-ucb-bs": 10, "ldp-ucb-ls": 15},
    ),
    Panel("2b", "LDP-UCB-LS on Gaussian arms, epsilon varies", "gaussian", "ucb1-s", _vary("ldp-ucb-ls")),
    Panel("2c", "LDP-UCB-BS on Gaussian arms, epsilon varies", "gaussian", "ucb1-s", _vary("ldp-ucb-bs")),
)  # fmt: skip
