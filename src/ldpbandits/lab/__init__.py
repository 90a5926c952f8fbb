"""The only place where rewards and agents meet: simulation of algorithms on bandits.

    from ldpbandits.lab import simulate

It needs the extra `lab`. Its names are imported when they are asked for: reward laws and algorithms, which are plain
data, do without.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ldpbandits.extras import needs

if TYPE_CHECKING:
    from ldpbandits.lab.algorithms import Algorithm, NotPrivate, algorithm, with_rule
    from ldpbandits.lab.calibration import calibrate
    from ldpbandits.lab.experiments import Experiment, simulate
    from ldpbandits.lab.planning.plan import Plan
    from ldpbandits.lab.planning.planner import plan
    from ldpbandits.lab.rewards import parse_arms
    from ldpbandits.lab.simulation import Simulation

_PLACES = {
    "Algorithm": "algorithms",
    "Experiment": "experiments",
    "NotPrivate": "algorithms",
    "Plan": "planning.plan",
    "Simulation": "simulation",
    "algorithm": "algorithms",
    "calibrate": "calibration",
    "parse_arms": "rewards",
    "plan": "planning.planner",
    "simulate": "experiments",
    "with_rule": "algorithms",
}
__all__ = [
    "Algorithm",
    "Experiment",
    "NotPrivate",
    "Plan",
    "Simulation",
    "algorithm",
    "calibrate",
    "parse_arms",
    "plan",
    "simulate",
    "with_rule",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module's attribute may be anything
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs("lab", who=name):
        return getattr(import_module(f"ldpbandits.lab.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return [*(name for name in globals() if name.startswith("__")), *__all__]
