"""The outcome of an audit, as data: one verdict, the lower bound reached, and every layer by name.

A check returns a `Finding`. With the name of its check a finding is a `Layer`. All layers make an `Audit`.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import exp, inf, isfinite
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
    channel: str = "responses"
    """Where it looks: a leak in one channel is named once."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check, without its name, which is in the table of checks."""

    verdict: LayerVerdict
    detail: str
    epsilon_lower: float = 0.0
    guesses: int = 0
    """Number of guesses that were tested, for a check that guesses."""

    def layer(self, name: str, channel: str) -> Layer:
        """Return the finding under the name of its check, and of the channel that it looks at."""
        return Layer(name, self.verdict, self.detail, self.epsilon_lower, self.guesses, channel)


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
class Record:
    """When, of what and how an audit was made: what a reader needs to make it again."""

    rewards: tuple[float, ...] = ()
    seed: int | None = None
    command: str | None = None
    """The command line of the audit; None if it was called from Python."""
    digest: str | None = None
    """SHA-256 of the files that the audited command names; None if there are none."""
    version: str = ""
    date: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain data."""
        names = ("date", "version", "command", "digest", "seed")
        return {**{name: getattr(self, name) for name in names}, "rewards": list(self.rewards)}


def in_words(epsilon: float) -> str:
    """Say what an epsilon means: the largest factor between two rewards, and how often a guess is right."""
    if epsilon > 50:  # noqa: PLR2004 - e^50 is a number that nobody reads
        return "a response may give the reward away for certain"
    factor = f"{exp(epsilon):,.2f}" if epsilon < 7 else f"{exp(epsilon):,.0f}"  # noqa: PLR2004 - about a thousand
    right = 100 / (1 + exp(-epsilon))
    return f"a response makes one reward up to {factor} times as likely as another, and guesses right {right:.4g} %"


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
    """Up to which epsilon a leak that a single response shows on its own would have passed: see `run.py`."""
    record: Record = field(default_factory=Record, repr=False, compare=False)

    @property
    def has_power(self) -> bool:
        """Whether single responses of twice the epsilon that is claimed would have been caught."""
        return bool(self.violated) or self.epsilon_could_be <= POWER * self.epsilon_claimed

    @property
    def violated(self) -> tuple[Layer, ...]:
        """The layers that speak against the claim, the strongest first."""
        found = (layer for layer in self.layers if layer.verdict == "violated")
        return tuple(sorted(found, key=lambda layer: -layer.epsilon_lower))

    @property
    def same_leak(self) -> dict[str, str]:
        """The layers that see what a stronger one of the same channel sees too, and the name of that one.

        Most leaks show in many ways. The strongest is the one to repair first; a new audit tells whether others remain.
        """
        first = {layer.channel: layer.name for layer in reversed(self.violated)}
        return {layer.name: first[layer.channel] for layer in self.violated if layer.name != first[layer.channel]}

    @property
    def shown_verdicts(self) -> dict[str, str]:
        """The verdict of each layer by name, or that it shows the same leak as another."""
        return {layer.name: layer.verdict for layer in self.layers} | dict.fromkeys(self.same_leak, "same leak")

    @property
    def leaks(self) -> tuple[Layer, ...]:
        """One layer for each leak, the strongest first."""
        return tuple(layer for layer in self.violated if layer.name not in self.same_leak)

    @property
    def headline(self) -> str:
        """The claim and the finding, in odds and in words."""
        claimed = f"Claimed: epsilon = {self.epsilon_claimed:g}, so that {in_words(self.epsilon_claimed)} of the time."
        if not self.violated:
            found = f"no evidence against it; the best guesses reached epsilon = {self.epsilon_lower:.4g}."
            return f"{claimed} Found: {found if self.verdict == 'consistent' else f'not finished; so far, {found}'}"
        found = "; ".join(f"{layer.name.split(': ')[-1]} ({layer.detail})" for layer in self.leaks)
        if self.epsilon_lower <= self.epsilon_claimed:
            return f"{claimed} Found: the claim does not hold, by {found}."
        sure = f"at {100 * self.confidence:.10g} %"
        words = in_words(self.epsilon_lower)
        return f"{claimed} Found: epsilon is at least {self.epsilon_lower:.4g} {sure}: {words}. By {found}."

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
        return f"VIOLATED: {', '.join(layer.name for layer in self.leaks)}"

    def to_json(self) -> dict[str, Any]:
        """Return the audit as plain JSON-able data; what is infinite is null."""
        return {
            "verdict": self.verdict,
            "headline": self.headline,
            "what": self.what,
            "epsilon_claimed": self.epsilon_claimed,
            "epsilon_lower": self.epsilon_lower if isfinite(self.epsilon_lower) else None,
            "epsilon_could_be": self.epsilon_could_be if isfinite(self.epsilon_could_be) else None,
            "epsilon_could_be_of": COULD_BE_OF,
            "not_finished": [layer.name for layer in self.unfinished],
            "confidence": self.confidence,
            "samples": self.samples,
            "seconds": self.seconds,
            "leaks": [layer.name for layer in self.leaks],
            "layers": [self._layer_to_json(layer) for layer in self.layers],
            **self.record.to_json(),
        }

    def _layer_to_json(self, layer: Layer) -> dict[str, Any]:
        bound = layer.epsilon_lower if isfinite(layer.epsilon_lower) else None
        same = self.same_leak.get(layer.name)
        named = {"name": layer.name, "verdict": layer.verdict, "detail": layer.detail}
        return {**named, "epsilon_lower": bound, "same_leak_as": same}

    def __str__(self) -> str:
        width, shown = max(len(layer.name) for layer in self.layers), self.shown_verdicts
        mark = {"consistent": "ok", "violated": "VIOLATED", "reported": "note", "not applicable": "-"}
        mark |= {"not finished": "NOT DONE", "same leak": "same leak"}
        lines = [f"{layer.name:{width}}  {mark[shown[layer.name]]:9}  {layer.detail}" for layer in self.layers]
        head = f"{self.what}: {self.sentence}"
        drawn = f"{self.samples:,} responses to each reward, {self.seconds:.1f} s"
        return "\n".join([head, self.headline, drawn, "", *lines])
