"""Which rewards a curator speaks of: the two that are hardest to hide, and where a reward lies for its mechanism."""

from collections.abc import Sequence
from fractions import Fraction

from ldpbandits.device.curators import LaplaceCurator
from ldpbandits.device.transforms import Refused, transformed
from ldpbandits.errors import ParameterError
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.transforms import Range, RealLine, Sigmoid

MOST_STEPS = 1 << 62
"""Bulk sampling adds reward and noise, in steps of the grid, as 64-bit integers."""


def check_covered(spec: CuratorSpec | None, rewards: Sequence[float]) -> None:
    """Check that a curator takes these rewards, and promises to hide which of them it was."""
    if spec is None:
        return
    units = [unit(spec, reward) for reward in rewards]
    if spec.mechanism.kind == "laplace" and any(abs(LaplaceCurator.steps(at)) >= MOST_STEPS for at in units):
        raise ParameterError("rewards must lie within 2^62 steps of the grid, some 4e12, to be audited")
    if isinstance(spec.transform, RealLine) and Fraction(max(rewards)) - Fraction(min(rewards)) > 1:
        raise ParameterError("on the real line only rewards that differ by at most 1 are protected from each other")


def ends(spec: CuratorSpec) -> tuple[float, float]:
    """Return the ends of what the promise covers: no two rewards are easier to tell apart."""
    match spec.transform:
        case Range(low=low, high=high):
            return low, high
        case Sigmoid():
            return -1000.0, 1000.0  # 0 and 1 to the last bit of a double
        case RealLine():
            return 0.0, 1.0


def unit(spec: CuratorSpec, reward: float) -> float:
    """Return the reward as the mechanism takes it: in [0, 1], or on the real line."""
    value = transformed(spec.transform, reward)
    if isinstance(value, Refused):
        raise ParameterError(f"this curator takes no such rewards: {value}")
    return float(value)
