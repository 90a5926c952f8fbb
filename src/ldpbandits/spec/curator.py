"""A curator as data: a mechanism, and the transform before it. No reward can travel in it.

A spec is what an agent asks of a device, and what a device shows to its owner before it agrees:

    {"mechanism": "bernoulli", "epsilon": 1.0, "transform": {"kind": "range", "low": 0.0, "high": 5.0}}

| spec                         | in the paper | rewards               | neighbours: any two rewards ... |
|------------------------------|--------------|-----------------------|---------------------------------|
| bernoulli, range             | CTB          | in [low, high]        | in [low, high]                  |
| bernoulli, sigmoid           | CTB-S        | any finite number     | at all                          |
| bernoulli, threshold         | -            | any finite number     | at all                          |
| laplace, range               | CTL          | in [low, high]        | in [low, high]                  |
| laplace, sigmoid             | CTL-S        | any finite number     | at all                          |
| laplace, threshold           | -            | any finite number     | at all                          |
| laplace, real-line           | remark after Theorem 2 | any finite number | that differ by at most 1  |
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp, inf, isfinite
from typing import Any

from ldpbandits.checks import brief, check_epsilon
from ldpbandits.errors import SpecError
from ldpbandits.spec.mechanisms import MECHANISMS, Mechanism
from ldpbandits.spec.registry import build
from ldpbandits.spec.transforms import TRANSFORMS, Range, Transform


@dataclass(frozen=True, slots=True)
class Guarantee:
    """For any two neighbours r, r' and any set E of responses: P(M(r) in E) <= e^epsilon P(M(r') in E)."""

    epsilon: float
    neighbours: float
    """The largest distance of two rewards that the guarantee covers; infinite when it covers any two."""
    covers: str
    """The pairs of rewards that the guarantee covers, in words."""

    @property
    def factor(self) -> float:
        """e^epsilon: how much likelier a response may be under one of two neighbours than under the other."""
        return exp(self.epsilon)

    @property
    def right_at_most(self) -> float:
        """e^epsilon / (1 + e^epsilon): how often somebody is right about a fair coin between neighbours, at most.

        >>> f"{Guarantee(1.0, 1.0, 'two rewards').right_at_most:.3f}"
        '0.731'
        """
        return 1 / (1 + exp(-self.epsilon))

    def __str__(self) -> str:
        return (
            f"For {self.covers}, every response is at most e^{self.epsilon} times as likely under one as under "
            "the other."
        )


@dataclass(frozen=True, slots=True)
class CuratorSpec:
    """The spec of a curator: a mechanism with its epsilon, and the transform before it.

    >>> spec = CuratorSpec.from_json({"mechanism": "bernoulli", "epsilon": 1, "transform": {"kind": "sigmoid"}})
    >>> spec
    CuratorSpec(mechanism=Bernoulli(epsilon=1.0), transform=Sigmoid())
    >>> print(spec.guarantee)
    For any two finite rewards, every response is at most e^1.0 times as likely under one as under the other.
    """

    mechanism: Mechanism
    transform: Transform = field(default_factory=Range)

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            raise SpecError(f"mechanism must be one of {', '.join(MECHANISMS.kinds)}, got {brief(self.mechanism)}")
        if self.transform not in TRANSFORMS:
            raise SpecError(f"transform must be one of {', '.join(TRANSFORMS.kinds)}, got {brief(self.transform)}")
        if not (self.transform.bounded or self.mechanism.takes_any_value):
            use = "use Range(low, high), Sigmoid() or Threshold(theta)"
            raise SpecError(f"the {self.mechanism.kind} mechanism needs rewards in a range: {use}")
        check_epsilon(self.mechanism.epsilon, SpecError)  # an epsilon below 0 would give a device's budget back

    @property
    def epsilon(self) -> float:
        """The epsilon of each response."""
        return self.mechanism.epsilon

    @property
    def guarantee(self) -> Guarantee:
        """The privacy guarantee of this curator, and the pairs of rewards that it covers."""
        return Guarantee(self.epsilon, self.transform.neighbours, self.transform.promise)

    def value(self, reward: float) -> float:
        """Return the value of a valid reward, which the mechanism takes."""
        return self.transform.apply(reward, self.transform.parameters)

    def in_units(self, response: float) -> int | None:
        """Return a response as a whole number of units; None when this curator cannot have given it."""
        units = response / self.mechanism.unit  # exact: a unit is a power of two
        least, most = self.mechanism.limits if self.transform.bounded else (-inf, inf)
        return int(units) if least <= units <= most and isfinite(units) and units == int(units) else None

    def to_json(self) -> dict[str, Any]:
        """Return the spec as plain JSON-able data; `from_json` is the inverse."""
        return {**MECHANISMS.to_json(self.mechanism), "transform": TRANSFORMS.to_json(self.transform)}

    @classmethod
    def of(cls, curator: object) -> "CuratorSpec":
        """Take a spec, its JSON, or anything that has a spec, such as a curator."""
        spec = getattr(curator, "spec", curator)
        return spec if isinstance(spec, CuratorSpec) else cls.from_json(spec)

    @classmethod
    def from_json(cls, data: object) -> "CuratorSpec":
        """Read a spec; raise SpecError if it is invalid. An unknown key is refused, not ignored."""
        if not isinstance(data, Mapping) or "mechanism" not in data:
            raise SpecError(f"a curator spec must be an object with the keys epsilon, mechanism, got {brief(data)}")
        fields = {key: value for key, value in data.items() if key not in {"mechanism", "transform"}}
        mechanism = build(MECHANISMS.find(data["mechanism"]), fields, "curator")
        return cls(mechanism, TRANSFORMS.from_json(data.get("transform", {"kind": "range"})))
