"""A crowd whose members pick their own epsilon from a menu: which share of it picks which.

0.2:0.2,1:0.5,4:0.3         a fifth picks 0.2, half picks 1, the rest 4
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum
from typing import Any

from ldpbandits.checks import brief, is_number
from ldpbandits.errors import ParameterError
from ldpbandits.spec.menu import Menu
from ldpbandits.spec.registry import check_keys
from ldpbandits.spec.transforms import Transform

ROUNDING = 1e-9


@dataclass(frozen=True)
class Mix:
    """A menu, and how likely each of its epsilons is picked, whatever the reward will be.

    >>> Mix.parse("0.2:0.2,1:0.5,4:0.3").shares
    (0.2, 0.5, 0.3)
    """

    menu: Menu
    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.menu) == 1:
            raise ParameterError("a mix has two epsilons or more: for one, say epsilon")
        if len(self.shares) != len(self.menu):
            raise ParameterError(f"a mix needs a share for each of {len(self.menu)} epsilons, got {len(self.shares)}")
        if not all(is_number(share) and share > 0 for share in self.shares):
            raise ParameterError(f"the shares of a mix must be > 0, got {brief(list(self.shares))}")
        if abs(fsum(self.shares) - 1) > ROUNDING:
            raise ParameterError(f"the shares of a mix must add up to 1, got {fsum(self.shares):g}")

    @property
    def transform(self) -> Transform:
        """The transform before every mechanism."""
        return self.menu.transform

    @property
    def text(self) -> str:
        """The mix as it is written on the command line."""
        return ",".join(
            f"{epsilon:g}:{share:g}" for epsilon, share in zip(self.menu.epsilons, self.shares, strict=True)
        )

    @classmethod
    def parse(cls, text: str) -> "Mix":
        """Read epsilons and their shares; the mechanism is CTB, for rewards in [0, 1]."""
        try:
            pairs = sorted(tuple(map(float, part.split(":", 1))) for part in text.split(","))
            epsilons, shares = (list(column) for column in zip(*pairs, strict=True))
        except ValueError:
            raise ParameterError(
                f"a mix is written as epsilon:share,epsilon:share, such as 0.2:0.2,1:0.5,4:0.3, got {brief(text)}"
            ) from None
        return cls(Menu.from_json({"mechanism": "bernoulli", "epsilon": epsilons}), tuple(shares))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of the menu, with the shares."""
        return {**self.menu.to_json(), "shares": list(self.shares)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Mix":
        """Read a mix from the JSON that `to_json` writes."""
        check_keys("a mix", data, {"mechanism", "epsilon", "shares"}, {"mechanism", "epsilon", "shares", "transform"})
        shares = data["shares"]
        if not isinstance(shares, list):
            raise ParameterError(f"the shares of a mix are a list, got {brief(shares)}")
        menu = Menu.from_json({key: value for key, value in data.items() if key != "shares"})
        return cls(menu, tuple(shares))
