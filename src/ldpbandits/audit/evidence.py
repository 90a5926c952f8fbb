"""What a check gets to see: the claim, the suspect, and the responses that were drawn for all checks together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import inf
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.result import Reals
from ldpbandits.audit.subject import Subject
from ldpbandits.checks import check_count, check_epsilon, check_probability, is_number
from ldpbandits.errors import ParameterError
from ldpbandits.spec.curator import CuratorSpec

LEAST_SAMPLES = 1_000

ResponseTable: TypeAlias = Mapping[float, Mapping[Any, Fraction]]
"""For each reward, the exact probability of each response."""
Progress: TypeAlias = Callable[[int], None]
"""Called now and then with how many responses have been drawn."""
LARGEST = 1e100
"""No curator that the audit knows responds with as much; squares of less do not overflow."""


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


@dataclass(frozen=True, slots=True)
class Moments:
    """How many responses there are to a reward, their sum and their sum of squares.

    Both sums are of responses minus `origin`, which is near the mean: squares of large responses would leave no digits
    for the noise.
    """

    value: float
    """The reward as the mechanism takes it: in [0, 1], or on the real line."""
    count: int
    total: float
    squares: float
    origin: float = 0.0

    @property
    def mean(self) -> float:
        """The mean response."""
        return self.origin + self.total / self.count

    @property
    def variance(self) -> float:
        """The variance of the responses about their mean."""
        return self.squares / self.count - (self.total / self.count) ** 2


@dataclass(frozen=True, slots=True)
class Sample:
    """Responses, and which reward each of them is to; every reward was chosen at random, independently."""

    rewards: tuple[float, ...]
    chosen: NDArray[np.int64]
    """For each response, the number of its reward."""
    responses: Reals

    def part(self, which: int, of: int) -> "Sample":
        """Return every `of`-th response, from number `which` on."""
        return Sample(self.rewards, self.chosen[which::of], self.responses[which::of])

    def before(self) -> "Sample":
        """Return the responses with the reward of the call before each."""
        return Sample(self.rewards, self.chosen[:-1], self.responses[1:])

    def moments(self, number: int, value: float, origin: float) -> Moments:
        """Sum up the responses to one of the rewards; the sums are infinite if some response is, or is no number."""
        off = self.responses[self.chosen == number] - origin
        finite = bool((np.abs(off) < LARGEST).all())  # false for what is not a number, too
        total, squares = (float(off.sum()), float((off * off).sum())) if finite else (inf, inf)
        return Moments(value, len(off), total, squares, origin)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """All pairs of rewards, by number."""
        return list(combinations(range(len(self.rewards)), 2))

    @property
    def are_bits(self) -> bool:
        """Tell whether there are but two responses: then they have no low bits to speak of."""
        return len(np.unique(self.responses)) <= 2  # noqa: PLR2004 - as it says


def draw_sample(subject: Subject, claim: Claim, progress: Progress) -> Sample:
    """Ask for samples * len(rewards) responses, each to a reward chosen at random."""
    chosen = np.random.default_rng(claim.seed).integers(len(claim.rewards), size=claim.calls)
    rewards, responses = np.asarray(claim.rewards)[chosen], np.empty(len(chosen))
    for start in range(0, len(chosen), subject.batch):
        batch = rewards[start : start + subject.batch].tolist()
        responses[start : start + len(batch)] = subject.ask(batch)
        progress(start + len(batch))
    return Sample(claim.rewards, chosen, responses)


@dataclass(frozen=True)
class Evidence:
    """A suspect and a claim. Responses are drawn when a check first asks for them."""

    subject: Subject
    claim: Claim
    law: ResponseTable | None = None
    """The probability of each response, if somebody gave it."""
    progress: Progress = lambda _count: None

    @property
    def spec(self) -> CuratorSpec | None:
        """The curator that the suspect claims to be, if it claims to be one."""
        return self.subject.spec

    @cached_property
    def sample(self) -> Sample:
        """Responses that were asked for one by one."""
        return draw_sample(self.subject, self.claim, self.progress)
