"""What may be said across the trust boundary about a curator. All of it is data; no reward can travel in it.

A spec is what an agent asks of a device, and what a device shows to its owner before it agrees:

    {"mechanism": "bernoulli", "epsilon": 1.0, "transform": {"kind": "range", "low": 0.0, "high": 5.0}}

| spec                         | in the paper | rewards               | neighbours: any two rewards ... |
|------------------------------|--------------|-----------------------|---------------------------------|
| bernoulli, range             | CTB          | in [low, high]        | in [low, high]                  |
| bernoulli, sigmoid           | CTB-S        | any finite number     | at all                          |
| laplace, range               | CTL          | in [low, high]        | in [low, high]                  |
| laplace, sigmoid             | CTL-S        | any finite number     | at all                          |
| laplace, real-line           | remark after Theorem 2 | any finite number | that differ by at most 1  |
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from ldpbandits.checks import check_epsilon, is_number, shown
from ldpbandits.errors import ParameterError, SpecError

Mechanism: TypeAlias = Literal["bernoulli", "laplace"]

GRID_BITS = 20
"""Responses of CTL are multiples of 2^-20: rewards and noise are on that grid."""


@dataclass(frozen=True, slots=True)
class Range:
    """Rewards are declared to lie in [low, high] and are scaled to [0, 1]."""

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        """Check that the range is finite and not empty."""
        given = f"[{shown(self.low)}, {shown(self.high)}]"
        if not (is_number(self.low) and is_number(self.high) and float(self.low) < float(self.high)):
            raise SpecError(f"a range needs two finite numbers low < high, got {given}")
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))
        if not is_number(self.high - self.low):
            raise SpecError(f"a range must be no wider than the largest float, got {given}")


@dataclass(frozen=True, slots=True)
class Sigmoid:
    """Rewards may be any finite number r and are mapped to 1 / (1 + e^-r).

    The order of the arms' means survives when every arm has the same law of noise (paper, Lemma 4); with noise that
    differs between arms it may not.
    """


@dataclass(frozen=True, slots=True)
class RealLine:
    """Rewards may be any finite number and are taken as they are; only those within 1 of each other are neighbours."""


Transform: TypeAlias = Range | Sigmoid | RealLine
_TRANSFORMS: dict[str, type[Transform]] = {"range": Range, "sigmoid": Sigmoid, "real-line": RealLine}


@dataclass(frozen=True, slots=True)
class Guarantee:
    """For any two neighbours r, r' and any set E of responses: P(M(r) in E) <= e^epsilon P(M(r') in E)."""

    epsilon: float
    neighbours: str

    def __str__(self) -> str:
        """Say the promise in a sentence that its holder can check."""
        return (
            f"For {self.neighbours}, every response is at most e^{self.epsilon} times as likely under one as under "
            "the other."
        )


@dataclass(frozen=True, slots=True)
class CuratorSpec:
    """Which curator: a mechanism, its epsilon, and the transform that stands before it."""

    mechanism: Mechanism
    epsilon: float
    transform: Transform = field(default_factory=Range)

    def __post_init__(self) -> None:
        """Refuse what no curator can honour."""
        if self.mechanism not in get_args(Mechanism):
            raise SpecError(f"mechanism must be 'bernoulli' or 'laplace', got {shown(self.mechanism)}")
        if not isinstance(self.transform, Range | Sigmoid | RealLine):
            raise SpecError(f"transform must be a Range, a Sigmoid or a RealLine, got {shown(self.transform)}")
        if self.mechanism == "bernoulli" and isinstance(self.transform, RealLine):
            raise SpecError("the bernoulli mechanism needs rewards in a range: use Range(low, high) or Sigmoid()")
        try:
            object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        except ParameterError as error:
            raise SpecError(str(error)) from None

    @property
    def guarantee(self) -> Guarantee:
        """What this curator promises, and for which pairs of rewards."""
        match self.transform:
            case Range(low=low, high=high):
                neighbours = f"any two rewards in [{low}, {high}]"
            case Sigmoid():
                neighbours = "any two finite rewards"
            case RealLine():
                neighbours = (
                    "any two finite rewards that differ by at most 1 (rewards further apart have no such promise)"
                )
        return Guarantee(self.epsilon, neighbours)

    def to_json(self) -> dict[str, Any]:
        """Return the spec as plain JSON-able data; `from_json` takes it back."""
        kind = next(name for name, kind in _TRANSFORMS.items() if isinstance(self.transform, kind))
        transform = {"kind": kind, **asdict(self.transform)}
        return {"mechanism": self.mechanism, "epsilon": self.epsilon, "transform": transform}

    @classmethod
    def of(cls, spec: object) -> "CuratorSpec":
        """Take a spec, or its JSON."""
        return spec if isinstance(spec, CuratorSpec) else cls.from_json(spec)

    @classmethod
    def from_json(cls, data: object) -> "CuratorSpec":
        """Read a spec, or say what is wrong with it; a key that is not known is refused, not ignored."""
        fields = _fields("a curator spec", data, required={"mechanism", "epsilon"}, optional={"transform"})
        transform = _read_transform(fields.get("transform", {"kind": "range"}))
        return cls(fields["mechanism"], fields["epsilon"], transform)


def _read_transform(data: object) -> Transform:
    fields = _fields("a transform", data, required={"kind"}, optional={"low", "high"})
    kind = fields.pop("kind")
    if not isinstance(kind, str) or kind not in _TRANSFORMS:
        raise SpecError(f"a transform's kind must be one of {', '.join(_TRANSFORMS)}, got {shown(kind)}")
    try:
        return _TRANSFORMS[kind](**fields)
    except TypeError:
        raise SpecError(f"a transform of kind {kind!r} takes no {' and no '.join(sorted(map(str, fields)))}") from None


def _fields(what: str, data: object, *, required: set[str], optional: set[str]) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise SpecError(f"{what} must be an object with the keys {', '.join(sorted(required))}, got {shown(data)}")
    missing, unknown = required - data.keys(), data.keys() - required - optional
    if missing or unknown:
        problem = f"lacks {', '.join(sorted(missing))}" if missing else f"has no {', '.join(sorted(map(str, unknown)))}"
        raise SpecError(f"{what} {problem}; its keys are {', '.join(sorted(required | optional))}")
    return dict(data)
