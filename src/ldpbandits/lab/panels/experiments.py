"""Panels as experiments: one for each folder, with every curve that a panel of the folder needs, once."""

from collections.abc import Mapping, Sequence

from ldpbandits.lab.experiments import Experiment
from ldpbandits.lab.panels.panel import PAPERS_TRIALS, Panel
from ldpbandits.lab.simulation import Simulation


def plan_experiments(panels: Sequence[Panel], horizon: int, trials: int, seed: int) -> dict[str, Experiment]:
    """Return the experiments by folder; no horizon is longer than this one, and trials scale those of each panel."""
    planned = {}
    for folder in dict.fromkeys(panel.folder for panel in panels):
        sharing = [panel for panel in panels if panel.folder == folder]
        planned[folder] = Experiment(
            sharing[0].arms,
            tuple(dict.fromkeys(played for panel in sharing for played in panel.curves)),
            min(horizon, sharing[0].horizon or horizon),
            max(2, round(sharing[0].trials * trials / PAPERS_TRIALS)),
            seed,
        )
    return planned


def simulations_of(panel: Panel, played: Mapping[str, Sequence[Simulation]]) -> list[Simulation]:
    """Return the simulations of a panel in the order of its curves, from those of all folders."""
    by_algorithm = {simulation.algorithm: simulation for simulation in played[panel.folder]}
    return [by_algorithm[curve] for curve in panel.curves]
