"""The paper's panels as experiments: one a bandit, with every curve that some panel needs, once."""

from collections.abc import Mapping, Sequence

from ldpbandits.lab.algorithms import algorithm
from ldpbandits.lab.experiments import Experiment
from ldpbandits.lab.paper.panels import BANDITS, Panel
from ldpbandits.lab.paper.summary import Curves
from ldpbandits.lab.simulation import Simulation


def experiments(panels: Sequence[Panel], horizon: int, trials: int, seed: int) -> dict[str, Experiment]:
    """Return one experiment a bandit, by its name."""
    planned = {}
    for bandit, arms in BANDITS.items():
        needed = dict.fromkeys(played for panel in panels if panel.bandit == bandit for played in panel.curves)
        if needed:
            algorithms = tuple(algorithm(name, epsilon) for name, epsilon in needed)
            planned[bandit] = Experiment(arms, algorithms, horizon, trials, seed)
    return planned


def by_curve(played: Mapping[str, Sequence[Simulation]]) -> Curves:
    """Return what was played, by bandit and curve."""
    return {
        (bandit, (simulation.algorithm.name, simulation.algorithm.epsilon)): simulation
        for bandit, simulations in played.items()
        for simulation in simulations
    }
