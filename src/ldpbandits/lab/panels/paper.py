"""The paper's numerical section as data: its bandits, and its nine panels.

All have 20 arms: one of mean 0.9, five each of 0.8, 0.7 and 0.6, four of 0.5.
"""

from dataclasses import replace

from ldpbandits.lab.algorithms import Algorithm, LineStyle, algorithm
from ldpbandits.lab.panels.panel import Panel, Ratios
from ldpbandits.lab.rewards import Law, parse_arms
from ldpbandits.output.colours import BY_EPSILON


def _arms(*texts: str) -> tuple[Law, ...]:
    return tuple(arm for text in texts for arm in parse_arms(text))


BERNOULLI = _arms("bernoulli(0.9)", "5*bernoulli(0.8)", "5*bernoulli(0.7)", "5*bernoulli(0.6)", "4*bernoulli(0.5)")
MIXED = _arms("bernoulli(0.9)", "5*beta(4,1)", "5*choice(0.4,1)", "5*bernoulli(0.6)", "4*uniform(0,1)")
GAUSSIAN = _arms("gaussian(0.9,1)", "5*gaussian(0.8,1)", "5*gaussian(0.7,1)", "5*gaussian(0.6,1)", "4*gaussian(0.5,1)")
BANDITS = {"bernoulli": BERNOULLI, "mixed": MIXED, "gaussian": GAUSSIAN}

HORIZON = 10**7
"""The paper states no horizon. Most of the ratios that it prints are met at this one, so we take it for the paper's."""

EPSILONS = (0.2, 0.5, 1.0, 2.0, 4.0)
"""The paper varies epsilon and does not say over which values."""


def _panel(number: str, title: str, bandit: str, private: tuple[Algorithm, ...], shows: Ratios | None = None) -> Panel:
    """Return a panel of the paper; its baseline is UCB1, behind the sigmoid for Gaussian arms."""
    baseline = algorithm("ucb1-s" if bandit == "gaussian" else "ucb1")
    return Panel(number, title, bandit, BANDITS[bandit], baseline, private, shows or Ratios())


def _both(epsilon: float, suffix: str = "") -> tuple[Algorithm, ...]:
    """Return the paper's two algorithms at one epsilon."""
    return algorithm(f"ldp-ucb-b{suffix}", epsilon), algorithm(f"ldp-ucb-l{suffix}", epsilon)


def _vary(name: str) -> tuple[Algorithm, ...]:
    """Return one algorithm at every epsilon, drawn in the colour of the epsilon."""
    return tuple(
        replace(algorithm(name, epsilon), looks=LineStyle(f"epsilon = {epsilon:g}", *line))
        for epsilon, line in zip(EPSILONS, BY_EPSILON, strict=True)
    )


PANELS = (
    _panel(
        "1a", "Bernoulli arms, epsilon = 2", "bernoulli", _both(2.0),
        Ratios({"ldp-ucb-b": 1.6, "ldp-ucb-l": 8.5}, semilog=True),
    ),
    _panel(
        "1b", "Bernoulli arms, epsilon = 0.2", "bernoulli", _both(0.2),
        Ratios({"ldp-ucb-b": 101, "ldp-ucb-l": 441}, is_limit=True),
    ),
    _panel("1c", "LDP-UCB-L on Bernoulli arms, epsilon varies", "bernoulli", _vary("ldp-ucb-l")),
    _panel("1d", "LDP-UCB-B on Bernoulli arms, epsilon varies", "bernoulli", _vary("ldp-ucb-b")),
    _panel("1e", "Mixed types of arms, epsilon = 2", "mixed", _both(2.0), Ratios(semilog=True)),
    _panel("1f", "Mixed types of arms, epsilon = 0.2", "mixed", _both(0.2)),
    _panel(
        "2a", "Gaussian arms, epsilon = 0.5", "gaussian", _both(0.5, "s"),
        Ratios({"ldp-ucb-bs": 10, "ldp-ucb-ls": 15}),
    ),
    _panel("2b", "LDP-UCB-LS on Gaussian arms, epsilon varies", "gaussian", _vary("ldp-ucb-ls")),
    _panel("2c", "LDP-UCB-BS on Gaussian arms, epsilon varies", "gaussian", _vary("ldp-ucb-bs")),
)  # fmt: skip
