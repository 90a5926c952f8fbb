"""Other auditors: the largest epsilon that each of them refutes, from responses that it is given.

Run by audit_peers.py in an environment of the auditor's own, with its name, a mechanism and a file of responses: a row
for each of the rewards 0 and 1. The last line printed is the bound. Every epsilon is put to the same responses. That
keeps the level: an auditor refutes the true epsilon with the probability that it states, whichever others it is asked.
"""

import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from math import ceil, log2
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CONFIDENCE = 0.999
LEVEL = 1e-3
"""The chance of error that goes with this confidence."""
LARGEST, RESOLUTION = 2.0, 1e-3
"""Epsilon is looked for below the one, to within the other; the first that is asked for is 1, the true one."""
Refutes = Callable[[float], bool]
"""Whether an auditor refutes an epsilon."""


def bare(package: str) -> None:
    """Make a package known without what its __init__ imports; its modules can then be imported one by one."""
    found = find_spec(package)
    if found is None or found.submodule_search_locations is None:
        raise ModuleNotFoundError(package)
    made = ModuleType(package)
    made.__path__ = list(found.submodule_search_locations)
    sys.modules[package] = made


NEXT: dict[int, Iterator[float]] = {}
"""For each reward the responses that were not taken yet."""


def replay(prng: object, queries: list[int], epsilon: float) -> float:
    """Give StatDP, which calls a mechanism for each response, the next one; its parameters are prescribed."""
    return next(NEXT[queries[0]])


def statdp(mechanism: str, responses: "NDArray[np.float64]") -> Refutes:
    """StatDP's detector; a sixth of the responses chooses the event, the others test it, as by its defaults."""
    from statdp import detect_counterexample  # noqa: PLC0415

    NEXT.update((reward, iter(row.tolist())) for reward, row in enumerate(responses))
    choosing = responses.shape[1] // 6
    testing = responses.shape[1] - choosing - 2  # each of the two starts with one call, to see the type

    def refutes(epsilon: float) -> bool:
        found = detect_counterexample(
            replay,
            epsilon,
            {"epsilon": 1.0},
            databases=([0], [1]),
            event_iterations=choosing,
            detect_iterations=testing,
            cores=1,  # one process is forked, and takes the responses from the first on, each time anew
            quiet=True,
            loglevel=logging.ERROR,
        )
        return bool(found[0][1] <= LEVEL)

    return refutes


def _auditorium(responses: "NDArray[np.float64]", tester: Callable[[Any], Any], kind: str, post: str) -> Refutes:
    """DP-Auditorium's runner, on one pair of datasets; it tests both directions, and says which level each one has."""
    from dp_auditorium import privacy_test_runner  # noqa: PLC0415
    from dp_auditorium.configs import privacy_property  # noqa: PLC0415
    from dp_auditorium.configs import privacy_test_runner_config as configs  # noqa: PLC0415

    config = configs.PrivacyTestRunnerConfig(
        property_tester=configs.PropertyTester[kind],
        max_num_trials=1,
        failure_probability=LEVEL,
        num_samples=responses.shape[1],
        post_processing=configs.PostProcessing[post],
    )

    def refutes(epsilon: float) -> bool:
        made = tester(privacy_property.ApproximateDp(epsilon=epsilon, delta=0.0))
        runner = privacy_test_runner.PrivacyTestRunner(config, lambda _: (0, 1), made)
        found = runner.test_privacy(lambda reward, count: responses[reward, :count], "curator")
        return found.found_privacy_violation is not None

    return refutes


def histogram(mechanism: str, responses: "NDArray[np.float64]") -> Refutes:
    """DP-Auditorium's histogram tester, with the two bins that are best for the mechanism: its bound needs few."""
    bare("dp_auditorium")
    bare("dp_auditorium.testers")
    from dp_auditorium.configs.property_tester_config import HistogramPropertyTesterConfig  # noqa: PLC0415
    from dp_auditorium.testers.histogram_tester import HistogramTester  # noqa: PLC0415

    def tester(claim: object) -> object:
        config = HistogramPropertyTesterConfig(
            test_discrete_mechanism=False,
            histogram_size=2,
            min_value={"CTB": 0.0, "CTL": -1.0}[mechanism],  # the cut is in the middle: 1/2 for CTB, 0 for CTL
            max_value=1.0,
            approximate_dp=claim,
        )
        return HistogramTester(config)

    return _auditorium(responses, tester, "HISTOGRAM_TESTER", "NONE")


def hockey_stick(mechanism: str, responses: "NDArray[np.float64]") -> Refutes:
    """DP-Auditorium's hockey-stick tester, with the network, its training and the tanh of its own example."""
    bare("dp_auditorium")
    bare("dp_auditorium.testers")
    import tensorflow as tf  # noqa: PLC0415
    from dp_auditorium.configs.property_tester_config import HockeyStickPropertyTesterConfig  # noqa: PLC0415
    from dp_auditorium.testers import hockey_stick_tester as hockey  # noqa: PLC0415

    def tester(claim: object) -> object:
        tf.keras.utils.set_random_seed(1)
        config = HockeyStickPropertyTesterConfig(
            training_config=hockey.make_default_hs_training_config(), approximate_dp=claim
        )
        return hockey.HockeyStickPropertyTester(config, hockey.make_default_hs_base_model())

    return _auditorium(responses, tester, "HOCKEY_STICK_TESTER", "TANH")


@dataclass(frozen=True)
class Auditor:
    """An auditor: its package, what a checkout of it needs beside itself, and how it refutes."""

    package: str
    needs: tuple[str, ...]
    refutes: Callable[[str, "NDArray[np.float64]"], Refutes]

    @property
    def module(self) -> str:
        """The folder of the package in a checkout."""
        return self.package.replace("-", "_")


_AUDITORIUM = ("numpy==1.26.3", "scipy==1.11.4", "typing-extensions==4.9.0")  # as in its requirements.txt
AUDITORS = {
    "StatDP": Auditor("statdp", ("numpy>=2", "numba", "tqdm"), statdp),  # it says np.bool: not in numpy 1.24 to 1.26
    "DP-Auditorium, histogram": Auditor("dp-auditorium", (*_AUDITORIUM, "etils==1.5.2"), histogram),
    "DP-Auditorium, hockey-stick": Auditor(
        "dp-auditorium", (*_AUDITORIUM, "absl-py==1.0.0", "tensorflow-cpu==2.15.0"), hockey_stick
    ),
}


def largest(refutes: Refutes) -> float:
    """Return the largest epsilon that is refuted, by bisection."""
    low, high = 0.0, LARGEST
    for _ in range(ceil(log2(LARGEST / RESOLUTION))):
        middle = (low + high) / 2
        if refutes(middle):
            low = middle
        else:
            high = middle
        print(f"between {low:.4f} and {high:.4f}", file=sys.stderr, flush=True)
    return low


def main() -> None:
    """Print the bound of the auditor that is named, on a mechanism whose responses are in a file."""
    import numpy as np  # noqa: PLC0415

    warnings.simplefilter("ignore")  # of other libraries, about themselves
    name, mechanism, file = sys.argv[1:]
    print(largest(AUDITORS[name].refutes(mechanism, np.load(Path(file)))))


if __name__ == "__main__":
    main()
