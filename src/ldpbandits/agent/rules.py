"""Rules as data: what an agent does with its tally is given by a few numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

from ldpbandits.agent.kernels import Parameters
from ldpbandits.checks import check_epsilon, is_number, shown
from ldpbandits.errors import SpecError


@dataclass(frozen=True, slots=True)
class UCB:
    """Pull the arm of largest mean + width sqrt(log t / N), after every arm with N <= floor log(t + 1)."""

    width: float
    floor: float = 0.0

    def __post_init__(self) -> None:
        """Check both numbers."""
        for name in ("width", "floor"):
            value = getattr(self, name)
            if not is_number(value) or value < 0:
                raise SpecError(f"a UCB rule's {name} must be finite and >= 0, got {shown(value)}")
            object.__setattr__(self, name, float(value))

    @property
    def parameters(self) -> Parameters:
        """What `ucb_index` takes."""
        return (self.width,)

    def to_json(self) -> dict[str, Any]:
        """Return the rule as plain JSON-able data; `from_json` takes it back."""
        return {"kind": "ucb", "width": self.width, "floor": self.floor}

    @classmethod
    def from_json(cls, data: object) -> "UCB":
        """Read a rule, or say what is wrong with it."""
        if not isinstance(data, Mapping) or data.keys() != {"kind", "width", "floor"} or data["kind"] != "ucb":
            raise SpecError(f"a rule must be {{'kind': 'ucb', 'width': ..., 'floor': ...}}, got {shown(data)}")
        return cls(data["width"], data["floor"])


def ucb1() -> UCB:
    """UCB1 (Auer, Cesa-Bianchi, Fischer 2002): the baseline that sees the rewards themselves."""
    return UCB(width=sqrt(2))


def ldp_ucb_b() -> UCB:
    """LDP-UCB-B (paper, Agent 2), and LDP-UCB-BS: UCB1's rule, on the responses of CTB or CTB-S."""
    return ucb1()


def ldp_ucb_l(epsilon: float) -> UCB:
    """LDP-UCB-L (paper, Agent 1), and LDP-UCB-LS, on the responses of CTL or CTL-S.

    The index adds sqrt(2 log t / N) for the rewards and sqrt(32 log t / N) / epsilon for the noise; arms are starving
    up to 4 log(t + 1) pulls because the bound on the noise holds only beyond.
    """
    return UCB(width=sqrt(2) + sqrt(32) / check_epsilon(epsilon), floor=4)
