"""Which responses a curator can give: anything else was not made by it, and is not counted.

Responses are kept as whole numbers of units, so that sums are exact in any order: bits for CTB, steps of 2^-20 for CTL.
"""

from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.types import Response

NOISE_CAP = 28.0
"""CTL noise beyond 28 / epsilon has probability at most e^-28 = 6.9e-13, and is taken for a fault.

With x = epsilon / 2^20, P(|Z| > m) = 2 e^(-x (m + 1)) / (1 + e^-x) <= e^(-x m),
and m = ceil(28 / x) steps are let pass.
"""

SMALLEST_EPSILON = 0.01
"""The least that a server asks for. Below it an experiment would never end, and totals, of 64 bits, might be full:
at 0.01 a response is at most 2^31.5 steps, so that it takes 3 billion of the largest."""


def unit(spec: CuratorSpec) -> float:
    """Return what responses are whole multiples of."""
    return spec.mechanism.unit


def limits(spec: CuratorSpec) -> tuple[int, int]:
    """Return the least and the largest response that is possible, in units."""
    return spec.mechanism.limits


def in_units(spec: CuratorSpec, response: Response) -> int | None:
    """Return a finite response as a number of units, or None when the curator cannot have given it."""
    units = response / unit(spec)  # exact: a unit is a power of two
    least, most = limits(spec)
    return int(units) if least <= units <= most and units == int(units) else None
