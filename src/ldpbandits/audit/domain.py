"""Which rewards a curator speaks of: the two that are hardest to hide, and where a reward lies for its mechanism."""

from ldpbandits.device.transforms import Refused, transformed
from ldpbandits.errors import ParameterError
from ldpbandits.wire import CuratorSpec, Range, RealLine, Sigmoid


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
