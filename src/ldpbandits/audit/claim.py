"""What is claimed, and how hard the audit looks: checked once, then passed to every layer."""

from collections.abc import Sequence
from dataclasses import dataclass

from ldpbandits.audit.shares import SHARES, Share
from ldpbandits.checks import check_count, check_epsilon, check_probability, is_number
from ldpbandits.errors import ParameterError

LEAST_SAMPLES = 1_000


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
        """Check what was given."""
        listed = tuple(dict.fromkeys(rewards))
        if len(listed) < 2 or not all(map(is_number, listed)):  # noqa: PLR2004 - a pair to tell apart
            raise ParameterError(f"rewards must be at least two different finite numbers, got {len(listed)}")
        return cls(
            check_epsilon(epsilon),
            tuple(map(float, listed)),
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
        """How many responses the empirical layers draw in all."""
        return self.samples * len(self.rewards)

    def alpha(self, share: Share) -> float:
        """Return the chance of error that a test may use up."""
        return SHARES[share] * (1 - self.confidence)
