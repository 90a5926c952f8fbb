"""Panels beyond the paper as experiments: one each, with its own horizon and number of trials."""

from collections.abc import Sequence

from ldpbandits.lab.beyond.panels import PAPERS_TRIALS, Panel
from ldpbandits.lab.experiments import Experiment


def experiments(panels: Sequence[Panel], horizon: int, trials: int, seed: int) -> dict[str, Experiment]:
    """Return one experiment a panel, by its name.

    No horizon is longer than this one; trials are in proportion to those of the paper's panels.
    """
    return {
        panel.id: Experiment(
            panel.arms,
            panel.curves,
            min(panel.horizon, horizon),
            max(2, round(panel.trials * trials / PAPERS_TRIALS)),
            seed,
        )
        for panel in panels
    }
