"""The folder of an experiment: finished trials, tidy tables, and all that is needed to run it again.

    results/
      results.csv        a row for each algorithm, epsilon and checkpoint
      experiment.json    the experiment, and the versions that played it
      trials/            finished trials, so that a run that was interrupted goes on where it was

There is never half a file: see `output.files`.
"""

import csv
import io
import json
import platform
import re
from collections.abc import Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import ldpbandits
from ldpbandits.agent.kernels import as_it_is
from ldpbandits.lab.engine.channels import channel_of
from ldpbandits.lab.engine.compiled import code_hash, source_hash
from ldpbandits.lab.experiments import Experiment, canonical
from ldpbandits.lab.play import Curve
from ldpbandits.lab.rewards import arm_name, identity
from ldpbandits.lab.simulation import Simulation
from ldpbandits.output.files import check_folder, write

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class Folder:
    """The folder of an experiment, or of several that share curves; it keeps finished trials."""

    def __init__(self, path: Path) -> None:
        """Make the folder, or say why it cannot be made, before anything is played."""
        self.path, self._source = path, source_hash()
        check_folder(path)

    def load(self, curve: Curve, trial: int) -> NDArray[np.float64] | None:
        """Return a finished trial, or None; a file that cannot be read is played again."""
        try:
            pulls = np.load(self._place(curve, trial), allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        return pulls if curve.fits(pulls) else None

    def save(self, curve: Curve, trial: int, pulls: NDArray[np.float64]) -> None:
        """Store the numbers of a finished trial."""
        content = io.BytesIO()
        np.save(content, pulls)
        write(self._place(curve, trial), content.getvalue())

    def _place(self, curve: Curve, trial: int) -> Path:
        """Return the file of a trial, named by all that determines its numbers: after any change it is played anew."""
        algorithm = curve.algorithm
        respond, numbers = channel_of(algorithm.curator)
        rule = algorithm.rule
        index = rule.mixed_index if algorithm.cells > 1 and rule.mixed_index is not None else rule.index
        ways = (index, rule.reading or as_it_is, algorithm.curator.transform.apply, respond)
        codes = [code_hash(own) for own in ways]
        description = [
            self._source, codes, numbers, canonical(algorithm.to_json()), [identity(arm) for arm in curve.arms],
            curve.checkpoints, curve.entropy, curve.engine, curve.tests,
        ]  # fmt: skip
        key = sha256(json.dumps(description).encode()).hexdigest()[:16]
        epsilon = "" if algorithm.epsilon is None else f"-{algorithm.epsilon:g}"
        name = re.sub(r"[^\w.+-]", "_", algorithm.name)  # a user's own may be anything
        return self.path / "trials" / f"{name}{epsilon}-{key}" / f"{trial:04}.npy"


def table(simulations: Sequence[Simulation]) -> bytes:
    """Return the tidy table: a row for each algorithm, epsilon and checkpoint."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    quantiles = [f"regret_q{round(100 * q):02}" for q in QUANTILES]
    pulls = [f"pulls_{arm_name(arm, number)}" for number, arm in enumerate(simulations[0].arms)]
    rows.writerow(["algorithm", "epsilon", "t", "trials", "regret_mean", "regret_sem", *quantiles, *pulls])
    for simulation in simulations:
        name, epsilon = simulation.algorithm.name, simulation.algorithm.epsilon
        mean, sem, counts = simulation.mean_regret, simulation.sem_regret, simulation.pulls
        spread = np.quantile(simulation.regret, QUANTILES, axis=0)
        for i, t in enumerate(simulation.checkpoints):
            numbers = [mean[i], sem[i], *spread[:, i], *counts[:, i].mean(axis=0)]
            cells = ["" if np.isnan(number) else repr(float(number)) for number in numbers]
            rows.writerow([name, "" if epsilon is None else repr(epsilon), t, len(counts), *cells])
    return text.getvalue().encode()


def versions() -> dict[str, str]:
    """Return the versions of the packages that played, for the record beside the numbers."""
    packages = {name: version(name) for name in ("numpy", "numba", "scipy")}
    return {"ldpbandits": ldpbandits.__version__, "python": platform.python_version(), **packages}


def write_results(folder: Path, experiment: Experiment, simulations: Sequence[Simulation]) -> None:
    """Write table and record into the folder."""
    write(folder / "results.csv", table(simulations))
    record = {"experiment": experiment.to_json(folder), "versions": versions()}
    write(folder / "experiment.json", (json.dumps(record, indent=2) + "\n").encode())
