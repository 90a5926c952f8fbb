"""What is claimed of a curator, and how hard the audit looks. Checked once, then passed to every check."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from ldpbandits.checks import check_count, check_epsilon, check_probability, is_number
from ldpbandits.errors import ParameterError

LEAST_SAMPLES = 1_000

Law: TypeAlias = Mapping[float, Mapping[Any, Fraction]]
"""For each reward, the exact probability of each response."""


@dataclass(frozen=True, slots=True)
class Claim:
    """No response is more than e^epsilon times likelier under one of these rewards than under another."""

    epsilon: float
    rewards: tuple[float, ...]
    samples: int
    """Responses to each reward, on average."""
    confidence: float
    seed: int | None

    @classmethod
    def of(
        cls, epsilon: object, rewards: Sequence[float], samples: object, confidence: object, seed: object = None
    ) -> "Claim":
        """Check each part, and drop rewards that are listed twice."""
        distinct = tuple(dict.fromkeys(rewards))
        if len(distinct) < 2 or not all(map(is_number, distinct)):  # noqa: PLR2004 - a pair to tell apart
            raise ParameterError(f"rewards must be at least two different finite numbers, got {len(distinct)}")
        return cls(
            check_epsilon(epsilon),
            tuple(map(float, distinct)),
            check_count("samples", samples, least=LEAST_SAMPLES),
            check_probability("confidence", confidence),
            None if seed is None else check_count("seed", seed, least=0),
        )

    @property
    def low(self) -> float:
        """The lowest reward."""
        return min(self.rewards)

    @property
    def high(self) -> float:
        """The highest reward."""
        return max(self.rewards)

    @property
    def calls(self) -> int:
        """How many responses are asked for in all."""
        return self.samples * len(self.rewards)

    def alpha(self, share: float) -> float:
        """Return the chance of a false alarm of a check that has this share of it."""
        return share * (1 - self.confidence)
