"""The outcome of an audit, as data: one verdict, the lower bound reached, and every layer by name.

A check returns a `Finding`. With the name of its check a finding is a `Layer`. All layers make an `Audit`.
"""

from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Verdict: TypeAlias = Literal["consistent", "violated", "incomplete"]
LayerVerdict: TypeAlias = Literal["consistent", "violated", "reported", "not applicable", "not finished"]
"""`reported` layers inform and never decide. `not applicable` ones have nothing to look at in this suspect.

`not finished` ones apply, and did not run or saw too little: the time was up, or the suspect failed.
"""

Reals: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]
"""Number of responses to each of two rewards in each cell; the shape is (2, cells)."""
POWER = 2.0
"""An audit has power if it would catch a curator of this many times the epsilon that is claimed."""
COULD_BE_OF = "a leak that a single response shows on its own"
"""The only leaks that `epsilon_could_be` is about: noise that is used twice may leak more, and so may text or time."""
LOWEST_BIT = "position of the lowest bit of the response"


@dataclass(frozen=True, slots=True)
class Layer:
    """One check of an audit: its name, its verdict, and the reason."""

    name: str
    verdict: LayerVerdict
    detail: str
    epsilon_lower: float = 0.0
    """Lower bound of epsilon from this layer alone; 0 when it has none."""
    guesses: int = 0
    """Number of guesses that were tested, for a check that guesses."""

    def to_json(self) -> dict[str, str]:
        """Return the layer as plain data."""
        return {"name": self.name, "verdict": self.verdict, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check, without its name, which is in the table of checks."""

    verdict: LayerVerdict
    detail: str
    epsilon_lower: float = 0.0
    guesses: int = 0
    """Number of guesses that were tested, for a check that guesses."""

    def layer(self, name: str) -> Layer:
        """Return the finding under the name of its check."""
        return Layer(name, self.verdict, self.detail, self.epsilon_lower, self.guesses)


@dataclass(frozen=True, slots=True)
class Profile:
    """The privacy loss over responses, for a picture: how often each of two rewards led into each cell."""

    rewards: tuple[float, float]
    at: Reals
    """The middle of each bin, or the value."""
    counts: Counts
    are_values: bool
    """Each cell is a single value; otherwise it is a bin."""
    over: str = "response"
    """The quantity that the cells divide."""


def middles(cuts: Reals) -> Reals:
    """Return the middles of the bins between equidistant cuts, and of the two beyond, drawn as wide."""
    width = cuts[1] - cuts[0]
    return np.append(cuts - width / 2, cuts[-1] + width / 2)


@dataclass(frozen=True, slots=True)
class Audit:
    """The outcome for one curator and one claim.

    If the curator keeps its claim, it is called violated with probability at most 1 - confidence; and with probability
    at least `confidence` its true epsilon is no less than `epsilon_lower`. `consistent` is no proof: only the layer
    `exact` proves. `incomplete` says that nothing was found, and that some layers did not finish.
    """

    what: str
    epsilon_claimed: float
    confidence: float
    samples: int
    """Responses to each reward, on average: each call gets a reward chosen at random."""
    seconds: float
    layers: tuple[Layer, ...]
    profiles: tuple[Profile, ...] = field(default=(), repr=False, compare=False)
    """The privacy loss over responses, and over their low-order bits if they have any, to be drawn."""
    epsilon_could_be: float = inf
    """Up to which epsilon a leak that a single response shows on its own would have passed: see `power.py`."""

    @property
    def has_power(self) -> bool:
        """Whether single responses of twice the epsilon that is claimed would have been caught."""
        return bool(self.violated) or self.epsilon_could_be <= POWER * self.epsilon_claimed

    @property
    def violated(self) -> tuple[Layer, ...]:
        """The layers that speak against the claim."""
        return tuple(layer for layer in self.layers if layer.verdict == "violated")

    @property
    def verdict(self) -> Verdict:
        """`violated` if any layer says so, else `incomplete` if any did not finish, else `consistent`."""
        return "violated" if self.violated else "incomplete" if self.unfinished else "consistent"

    @property
    def unfinished(self) -> tuple[Layer, ...]:
        """The layers that apply and did not finish."""
        return tuple(layer for layer in self.layers if layer.verdict == "not finished")

    @property
    def epsilon_lower(self) -> float:
        """The largest of the layers' lower bounds, which hold together."""
        return max((layer.epsilon_lower for layer in self.layers), default=0.0)

    @property
    def sentence(self) -> str:
        """The verdict in one sentence, with its bounds."""
        bound = f"{self.epsilon_lower:.4g} at {100 * self.confidence:.10g} %"
        if not self.violated:
            text = f"consistent with epsilon = {self.epsilon_claimed:g} (lower bound reached: {bound})"
            if self.unfinished:
                names = ", ".join(layer.name for layer in self.unfinished)
                text = f"incomplete: {names} did not finish; what did is {text}"
            most = f"{self.epsilon_could_be:.4g}" if isfinite(self.epsilon_could_be) else "infinity"
            return text if self.has_power else f"{text}; no power: single responses of epsilon {most} would have passed"
        if self.epsilon_lower > self.epsilon_claimed:
            return f"VIOLATED: at least {bound}"
        return f"VIOLATED: {', '.join(layer.name for layer in self.violated)}"

    def to_json(self) -> dict[str, Any]:
        """Return the audit as plain JSON-able data; what is infinite is null."""
        return {
            "verdict": self.verdict,
            "epsilon_claimed": self.epsilon_claimed,
            "epsilon_lower": self.epsilon_lower if isfinite(self.epsilon_lower) else None,
            "epsilon_could_be": self.epsilon_could_be if isfinite(self.epsilon_could_be) else None,
            "epsilon_could_be_of": COULD_BE_OF,
            "not_finished": [layer.name for layer in self.unfinished],
            "confidence": self.confidence,
            "samples": self.samples,
            "seconds": self.seconds,
            "layers": [layer.to_json() for layer in self.layers],
        }

    def __str__(self) -> str:
        """Say it for people: the verdict first, then every layer."""
        width = max(len(layer.name) for layer in self.layers)
        mark = {"consistent": "ok", "violated": "VIOLATED", "reported": "note", "not applicable": "-"}
        mark["not finished"] = "NOT DONE"
        lines = [f"{layer.name:{width}}  {mark[layer.verdict]:8}  {layer.detail}" for layer in self.layers]
        head = f"{self.what}: {self.sentence}"
        return "\n".join([head, f"{self.samples:,} responses to each reward, {self.seconds:.1f} s", "", *lines])
