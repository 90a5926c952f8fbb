"""A menu: curators that differ in their epsilon alone. The owner of each device picks one of them.

    {"mechanism": "bernoulli", "epsilon": [0.2, 1, 4], "transform": {"kind": "range", "low": 0.0, "high": 1.0}}

A curator is a menu of one. Responses to a longer menu are bits, each sent with the epsilon by which it was drawn: then
the likelihood of a mean is a product over the epsilons, and mixing them loses no information.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ldpbandits.checks import brief
from ldpbandits.errors import SpecError
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.mechanisms import Mechanism, is_bits
from ldpbandits.spec.transforms import Transform

MAX_MENU_EPSILONS = 8
"""Epsilons on a menu. More would reveal more about an owner than the choice is worth, and cost a tally each."""


@dataclass(frozen=True, slots=True)
class Menu:
    """Curators of rising epsilon that are otherwise the same; the place of one in it is its level.

    >>> menu = Menu.from_json({"mechanism": "bernoulli", "epsilon": [0.2, 1]})
    >>> menu.epsilons, menu.level(1), menu.level(0.5)
    ((0.2, 1.0), 1, None)
    """

    curators: tuple[CuratorSpec, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.curators) <= MAX_MENU_EPSILONS:
            raise SpecError(f"a menu has from 1 to {MAX_MENU_EPSILONS} epsilons, got {len(self.curators)}")
        if any(later <= earlier for earlier, later in pairwise(self.epsilons)):
            raise SpecError(f"the epsilons of a menu must rise, got {brief(list(self.epsilons))}")
        if len({(type(curator.mechanism), curator.transform) for curator in self.curators}) > 1:
            raise SpecError("the curators of a menu differ in their epsilon alone")
        if len(self) > 1 and not all(is_bits(curator.mechanism) for curator in self.curators):
            raise SpecError(f"a menu of several epsilons is for bits; those of the mechanism {self.first.kind} are not")

    def __len__(self) -> int:
        return len(self.curators)

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The epsilons, the smallest first."""
        return tuple(curator.epsilon for curator in self.curators)

    @property
    def first(self) -> Mechanism:
        """The mechanism of smallest epsilon; all mechanisms of the menu take the same values and responses."""
        return self.curators[0].mechanism

    @property
    def transform(self) -> Transform:
        """The transform that all curators share."""
        return self.curators[0].transform

    @property
    def reward_ends(self) -> tuple[float, float]:
        """The rewards, or what is estimated in their place, that the mean values 0 and 1 stand for."""
        return self.transform.reward(0.0), self.transform.reward(1.0)

    @property
    def unit(self) -> float:
        """The unit of all responses."""
        return self.first.unit

    @property
    def promise(self) -> str:
        """The privacy guarantee in one sentence: for the only epsilon, or for the one that the owner picks."""
        if len(self) == 1:
            return str(self.curators[0].guarantee)
        listed = ", ".join(f"{epsilon:g}" for epsilon in self.epsilons)
        return (
            f"For {self.transform.promise}, every response is at most e^epsilon times as likely under one as under "
            f"the other, with the epsilon that the owner of the device picks: {listed}."
        )

    def level(self, epsilon: float | None) -> int | None:
        """Return the level of an epsilon, None when it is not on the menu; on a menu of one, None is level 0."""
        if epsilon is None:
            return 0 if len(self) == 1 else None
        return next((level for level, curator in enumerate(self.curators) if curator.epsilon == epsilon), None)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON-able data: a curator whose epsilon is a list if there is a choice."""
        data = self.curators[0].to_json()
        return data if len(self) == 1 else {**data, "epsilon": list(self.epsilons)}

    @classmethod
    def of(cls, curator: object) -> "Menu":
        """Take a menu, its JSON, or a curator in any form, which is a menu of one."""
        if isinstance(curator, Menu):
            return curator
        return cls.from_json(curator) if isinstance(curator, Mapping) else cls((CuratorSpec.of(curator),))

    @classmethod
    def from_json(cls, data: object) -> "Menu":
        """Read a curator whose epsilon is a number, or a list of them."""
        listed = data.get("epsilon") if isinstance(data, Mapping) else None
        if not isinstance(listed, list | tuple):
            return cls((CuratorSpec.from_json(data),))
        if len(listed) > MAX_MENU_EPSILONS:
            raise SpecError(f"a menu has from 1 to {MAX_MENU_EPSILONS} epsilons, got {len(listed)}")
        return cls(tuple(CuratorSpec.from_json({**data, "epsilon": epsilon}) for epsilon in listed))  # type: ignore[dict-item]
