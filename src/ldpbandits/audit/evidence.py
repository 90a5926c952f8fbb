"""The evidence of an audit: the claim, the target, and the responses that were drawn for all checks together."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from secrets import randbits
from time import monotonic
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ldpbandits.audit.sample import Sample, draw_sample, judging_seconds
from ldpbandits.audit.target import FOREVER_S, Died, Late, Target, Unanswered
from ldpbandits.checks import brief, check_count, check_epsilon, check_probability, is_number
from ldpbandits.errors import ParameterError
from ldpbandits.spec.curator import CuratorSpec

LEAST_SAMPLES = 1_000
FEWEST_CALLS = 100
"""A target that answered fewer calls is not judged."""
MOST_ATTEMPTS = 20
"""Attempts to get a first response of a function: some of its responses may be missing."""
MAIN = "main sample"

Part = TypeVar("Part")
ResponseTable: TypeAlias = Mapping[float, Mapping[Any, Fraction]]
"""For each reward, the exact probability of each response."""
Progress: TypeAlias = Callable[[int], None]
"""Called now and then with how many responses have been drawn."""
Guesser: TypeAlias = Callable[[str], float | None]
"""From a response, as it was said, to the reward that it is to; None if it does not tell."""
MOST_SAMPLES = 10**10
"""Responses to each reward. At a million a second these are some hours."""
LEAST_CONFIDENCE, MOST_CONFIDENCE = 0.5, 1 - 1e-12
"""Below, an audit accuses at random; above, doubles do not tell the confidence from 1."""


def check_samples(samples: object) -> int:
    """Check that the number of samples is in range."""
    count = check_count("samples", samples, least=LEAST_SAMPLES)
    if count > MOST_SAMPLES:
        raise ParameterError(f"samples must be at most {MOST_SAMPLES:.0e}, got {brief(samples)}")
    return count


def check_confidence(confidence: object) -> float:
    """Check that an audit of this confidence says anything, and that doubles can hold it."""
    value = check_probability("confidence", confidence)
    if not LEAST_CONFIDENCE <= value <= MOST_CONFIDENCE:
        limits = f"at least {LEAST_CONFIDENCE:g}, and at most 1 - 1e-12"
        raise ParameterError(f"confidence must be {limits}, got {brief(confidence)}")
    return value


@dataclass(frozen=True, slots=True)
class Claim:
    """No response is more than e^epsilon times likelier under one of these rewards than under another."""

    epsilon: float
    rewards: tuple[float, ...]
    samples: int
    """Responses to each reward, on average."""
    confidence: float
    seed: int | None
    calls_per_run: int | None = None
    """How many rewards a run of a program gets; None if one run gets them all."""

    @classmethod
    def of(  # noqa: PLR0913, PLR0917 - all that a claim is
        cls,
        epsilon: object,
        rewards: Sequence[float],
        samples: object,
        confidence: object,
        seed: object = None,
        calls_per_run: object = None,
    ) -> "Claim":
        """Check each part, and drop rewards that are listed twice."""
        distinct = tuple(dict.fromkeys(rewards))
        for reward in distinct:
            if not is_number(reward):
                raise ParameterError(f"rewards must be finite numbers, got {brief(reward)}")
        if len(distinct) < 2:  # noqa: PLR2004 - a pair to tell apart
            raise ParameterError(f"rewards must be at least two different numbers, got {len(distinct)}")
        return cls(
            check_epsilon(epsilon),
            tuple(map(float, distinct)),
            check_samples(samples),
            check_confidence(confidence),
            None if seed is None else check_count("seed", seed, least=0),
            None if calls_per_run is None else check_count("calls per run", calls_per_run),
        )

    @property
    def low(self) -> float:
        """The lowest reward of the claim."""
        return min(self.rewards)

    @property
    def high(self) -> float:
        """The highest reward of the claim."""
        return max(self.rewards)

    @property
    def calls(self) -> int:
        """How many responses are asked for in all."""
        return self.samples * len(self.rewards)

    def alpha(self, share: float) -> float:
        """Return the chance of a false alarm of a check that has this share of it."""
        return share * (1 - self.confidence)


@dataclass(frozen=True)
class Evidence:
    """A suspect and a claim. Responses are drawn when a check first asks for them."""

    target: Target
    claim: Claim
    law: ResponseTable | None = None
    """The probability of each response, if somebody gave it."""
    progress: Progress = lambda _count: None
    until: float = field(default_factory=lambda: monotonic() + FOREVER_S)
    """When the audit must be over, by the clock of this machine."""
    interior: bool = False
    """Whether rewards between those of the claim are asked for too."""
    guesser: Guesser | None = None
    entropy: int = field(default_factory=lambda: randbits(128))
    """Where coins come from that have no seed: nobody but this audit knows it."""

    shared: dict[str, Any] = field(default_factory=dict)
    """Results that several checks use, by name."""

    @property
    def is_known(self) -> bool:
        """Whether the code of the suspect is known, so that responses are not all that there is to see."""
        return False

    @property
    def spec(self) -> CuratorSpec | None:
        """The curator that the suspect claims to be, if it claims to be one."""
        return self.target.spec

    def rng(self, purpose: int) -> np.random.Generator:
        """Return the coins for one purpose: secret, or of the seed of the claim."""
        seed = self.entropy if self.claim.seed is None else self.claim.seed
        return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose,)))

    def seconds(self, part: float) -> float:
        """Return this part of the time that is left, for something that may take long."""
        return max(0.0, part * (self.until - monotonic()))

    def seconds_to_respond(self) -> float:
        """Ask a reward or two; return how long a suspect takes from its start to the response. It raises if none comes.

        A target that cannot be judged at all fails here, at once.
        """
        return self.once("seconds to respond", self._respond_once)

    def _respond_once(self) -> float:
        begun, rewards = monotonic(), self.claim.rewards[: self.claim.calls_per_run]
        for attempts_left in reversed(range(1 if self.target.respond is None else MOST_ATTEMPTS)):
            try:
                self.target.ask(rewards, self.seconds(1.0))
                break
            except Died as error:
                if not error.answered:
                    raise
            except Unanswered:
                if not attempts_left:
                    raise
        return monotonic() - begun

    def once(self, name: str, make: Callable[[], Part]) -> Part:
        """Return what several checks of one audit share: it is made at first use; if that is late, it stays late."""
        if name not in self.shared:
            try:
                self.shared[name] = make()
            except Late as error:
                self.shared[name] = error
        if isinstance(self.shared[name], Late):
            raise self.shared[name]
        made: Part = self.shared[name]
        return made

    def check_time(self) -> None:
        """Raise if the time is up: what would take long must not begin."""
        if self.until <= monotonic():
            raise Late("the time was up (--time allows more)")

    def in_time(self, parts: Iterable[Part]) -> Iterator[Part]:
        """Yield the parts of a long work one by one, as long as there is time."""
        for part in parts:
            self.check_time()
            yield part

    @property
    def sample(self) -> Sample:
        """The main sample, for a check that is about to judge it."""
        self.check_time()
        drawn = self.drawn
        if drawn.calls < FEWEST_CALLS and drawn.trouble is not None:
            raise Unanswered(drawn.trouble)
        if drawn.calls < FEWEST_CALLS:
            raise Late(f"{drawn.calls:,} responses in the time given (--time allows more)")
        return drawn

    @property
    def drawn(self) -> Sample:
        """The main sample, drawn at first use."""
        return self.once(MAIN, self.draw)

    def draw(self) -> Sample:
        """Ask for the responses of the main sample, one by one."""
        claim, rng = self.claim, self.rng(0)
        return draw_sample(
            self.target,
            claim.rewards,
            claim.calls,
            rng,
            self.seconds(1.0),
            self.progress,
            claim.calls_per_run,
            leave=judging_seconds,
        )
