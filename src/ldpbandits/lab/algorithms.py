"""Algorithms as data: a rule, and what stands between the rewards and the agent.

| name       | rule                | curator          | rewards      |
|------------|---------------------|------------------|--------------|
| ucb1       | UCB1                | none             | in [0, 1]    |
| ucb1-s     | UCB1                | none, sigmoid    | any          |
| ldp-ucb-b  | LDP-UCB-B           | CTB              | in [0, 1]    |
| ldp-ucb-l  | LDP-UCB-L(epsilon)  | CTL              | in [0, 1]    |
| ldp-ucb-bs | LDP-UCB-B           | CTB-S            | any          |
| ldp-ucb-ls | LDP-UCB-L(epsilon)  | CTL-S            | any          |
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ldpbandits.agent.kernels import Index, Parameters
from ldpbandits.agent.rules import UCB, ldp_ucb_b, ldp_ucb_l, ucb1
from ldpbandits.checks import is_number, shown
from ldpbandits.errors import ParameterError
from ldpbandits.lab.rewards import Law, written
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.mechanisms import Mechanism
from ldpbandits.spec.transforms import Range, Sigmoid, Transform


@dataclass(frozen=True)
class Custom:
    """A rule of your own: pull the arm of largest index(mean, pulls, t, parameters).

    Arms with N <= floor log(t + 1) come first. The index is a plain function of numbers, or one compiled by numba; the
    simulator compiles it into its loop.
    """

    index: Index
    parameters: Parameters = ()
    floor: float = 0.0

    def __post_init__(self) -> None:
        """Check what can be checked without playing."""
        if not all(map(is_number, self.parameters)):
            raise ParameterError(f"parameters must be finite numbers, got {shown(self.parameters)}")
        if not is_number(self.floor) or self.floor < 0:
            raise ParameterError(f"floor must be finite and >= 0, got {shown(self.floor)}")
        object.__setattr__(self, "parameters", tuple(map(float, self.parameters)))
        object.__setattr__(self, "floor", float(self.floor))


@dataclass(frozen=True)
class NotPrivate:
    """No curator: the agent sees the transformed rewards themselves."""

    transform: Transform = field(default_factory=Range)


@dataclass(frozen=True)
class Algorithm:
    """How a bandit is played: a rule for the agent, and the curator whose responses it sees."""

    name: str
    rule: UCB | Custom
    curator: CuratorSpec | NotPrivate

    def __post_init__(self) -> None:
        """Check that the curator is data."""
        if not isinstance(self.curator, CuratorSpec | NotPrivate):
            raise ParameterError(
                f"an algorithm's curator is a CuratorSpec, as in curator.spec, got {shown(self.curator)}"
            )

    @property
    def epsilon(self) -> float | None:
        """The epsilon of each response; None when the rewards are not private."""
        return self.curator.epsilon if isinstance(self.curator, CuratorSpec) else None

    def check_arms(self, arms: Iterable[Law]) -> None:
        """Refuse arms whose rewards leave the declared range."""
        if isinstance(self.curator.transform, Range):
            least, most = self.curator.transform.low, self.curator.transform.high
            for arm in arms:
                if not least <= arm.range[0] <= arm.range[1] <= most:
                    raise ParameterError(
                        f"{self.name} takes rewards in [{least:g}, {most:g}]; those of {written(arm)} are not: "
                        "for unbounded rewards use ucb1-s, ldp-ucb-bs or ldp-ucb-ls"
                    )


_NOT_PRIVATE: dict[str, Transform] = {"ucb1": Range(), "ucb1-s": Sigmoid()}
_PRIVATE: dict[str, tuple[Mechanism, Transform]] = {
    "ldp-ucb-b": ("bernoulli", Range()),
    "ldp-ucb-l": ("laplace", Range()),
    "ldp-ucb-bs": ("bernoulli", Sigmoid()),
    "ldp-ucb-ls": ("laplace", Sigmoid()),
}
NAMES = (*_NOT_PRIVATE, *_PRIVATE)


def is_private(name: str) -> bool:
    """Tell whether the algorithm of this name needs an epsilon."""
    return name in _PRIVATE


def check_name(name: object) -> None:
    """Refuse a name that is not one of NAMES."""
    if name not in NAMES:
        raise ParameterError(f"algorithm must be one of {', '.join(NAMES)}, got {shown(name)}")


def algorithm(name: str, epsilon: float | None = None) -> Algorithm:
    """Return one of the paper's algorithms, or a baseline, by its name."""
    check_name(name)
    if not is_private(name):
        if epsilon is not None:
            raise ParameterError(f"{name} is not private and takes no epsilon, got {shown(epsilon)}")
        return Algorithm(name, ucb1(), NotPrivate(_NOT_PRIVATE[name]))
    if epsilon is None:
        raise ParameterError(f"{name} is private and needs an epsilon")
    mechanism, transform = _PRIVATE[name]
    rule = ldp_ucb_l(epsilon) if mechanism == "laplace" else ldp_ucb_b()
    return Algorithm(name, rule, CuratorSpec(mechanism, epsilon, transform))
