"""Responses that were asked for one by one, each to a reward that a coin of ours chose.

The first million or two are kept as they were said. Later ones are kept as numbers, in a file that nobody else sees and
that goes away by itself, so that any number of them fits into memory.

Every call has a role that was drawn at random. The coins of some calls are disclosed: rules for guessing are ranked and
cut on them. The coins of the others are tested. Roles do not depend on the place of a call, so that whatever has a
period is in all of them alike.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from tempfile import TemporaryFile
from time import monotonic
from typing import IO, Any, TypeAlias
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.result import Reals
from ldpbandits.audit.target import MISSING, WHOLE_BATCH, Died, Late, Target, Unanswered
from ldpbandits.audit.texts import Texts, hash_texts, numbers, texts_of

KEPT = 1 << 21
"""Calls whose responses are kept as they were said."""
KEPT_BYTES = 1 << 28
"""Bytes of responses that are kept as they were said."""
RANK, CUT, TEST = 0, 1, 2
ROLES = 3
DISCLOSED = 0.2
"""The part of the calls on which rules are ranked, and as many on which they are cut."""
CHUNK_CALLS = 1 << 18
MOST_DEATHS, LEAST_DEATHS, CALLS_A_LIFE = 100, 4, 20
"""How often a program that ends too early is started again: less often if it answers fewer calls each time. Forty
missing responses to one reward are enough for a verdict."""
JUDGING_S, CLOSELY_S, CLOSELY, LEAST_JUDGING_S = 2e-5, 2e-4, 1 << 17, 1.0
"""Seconds that it takes to judge a response that is kept, and more for the first of them, which are looked at closely.

Twice as much as was measured for JSON, which takes longest (benchmarks/audit_time.py).
"""
RECORD = np.dtype([("chosen", np.uint8), ("response", np.float64)])
Chosen: TypeAlias = NDArray[np.int64]


@dataclass(slots=True)
class Moments:
    """How many responses there are to a reward, their sum and their sum of squares, so that any number can be added.

    Both sums are of responses minus `origin`, which is near the mean: squares of large responses would leave no digits
    for the noise.
    """

    value: float
    """The reward as the mechanism takes it: in [0, 1], or on the real line."""
    origin: float
    """In units, as responses are."""
    unit: float = 1.0
    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, responses: Reals | NDArray[np.int64]) -> None:
        """Add responses; the sums are not finite if one of these is not."""
        with np.errstate(over="ignore", invalid="ignore"):
            off = (responses - self.origin) * self.unit
            self.count += len(off)
            self.total += float(off.sum())
            # Not a dot product: on a busy machine the threads of that would wait for each other.
            self.squares += float(np.square(off, out=off).sum())

    @property
    def offset(self) -> float:
        """How far the origin is from the value."""
        return self.origin * self.unit - self.value

    @property
    def mean(self) -> float:
        """The mean of all responses."""
        return self.value + self.offset + self.total / self.count

    @property
    def variance(self) -> float:
        """The variance of the responses about their mean."""
        return self.squares / self.count - (self.total / self.count) ** 2


@dataclass(frozen=True)
class Sample:
    """Responses, and which reward each of them is to; every reward was chosen at random, independently."""

    rewards: tuple[float, ...]
    chosen: Chosen
    """For each response, the number of its reward."""
    responses: Reals
    """As numbers; NaN for those that are none."""
    texts: Texts | None = None
    """As they were said; None if only numbers are known."""
    starts: Chosen = field(default_factory=lambda: np.zeros(1, np.int64))
    """Number of the first call of each run."""
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    """Draws the roles, independently of anything that the target knows."""
    later: IO[bytes] | None = None
    """More of them, as numbers: all to be tested on."""
    trouble: str | None = None
    """Why there are fewer than were asked for, if somebody is to blame."""

    @cached_property
    def roles(self) -> NDArray[np.uint8]:
        """Whether each coin is disclosed, to rank or to cut rules, or tested."""
        draw = self.rng.random(len(self.chosen))
        return np.where(draw < DISCLOSED, RANK, np.where(draw < 2 * DISCLOSED, CUT, TEST)).astype(np.uint8)

    @cached_property
    def kinds(self) -> Chosen:
        """Role and reward of each call, as one number."""
        return self.roles.astype(np.int64) * len(self.rewards) + self.chosen

    @cached_property
    def said(self) -> Texts:
        """The responses as they were said."""
        return texts_of(self.responses.tolist()) if self.texts is None else self.texts

    @cached_property
    def place(self) -> Chosen:
        """The number of each call in its run."""
        return np.arange(len(self.chosen)) - np.repeat(self.starts, np.diff(np.append(self.starts, len(self.chosen))))

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """All pairs of rewards, by number."""
        return list(combinations(range(len(self.rewards)), 2))

    @cached_property
    def are_bits(self) -> bool:
        """Tell whether there are but two responses: then there is nothing in them to take apart."""
        return len(np.unique(self.said.hashes)) <= 2  # noqa: PLR2004 - as it says

    def chunks(self) -> Iterator[tuple[Chosen, Reals]]:
        """Yield the later responses, some at a time, and which rewards they are to."""
        if self.later is None:
            return
        self.later.seek(0)
        while len(part := np.frombuffer(self.later.read(CHUNK_CALLS * RECORD.itemsize), RECORD)):
            yield part["chosen"].astype(np.int64), part["response"].astype(np.float64)

    def everything(self) -> Iterator[tuple[Chosen, Reals]]:
        """Yield all responses, some at a time."""
        yield self.chosen, self.responses
        yield from self.chunks()

    def first(self, count: int) -> "Sample":
        """Return the first calls only, with the roles that they have."""
        if count >= len(self.chosen) and self.later is None:
            return self
        said = self.said
        texts = Texts(said.data[: said.ends[count - 1]], said.ends[:count], said.hashes[:count])
        starts = self.starts[self.starts < count]
        part = Sample(self.rewards, self.chosen[:count], self.responses[:count], texts, starts)
        part.__dict__["roles"] = self.roles[:count]
        return part

    def some(self, calls: Chosen, roles: NDArray[np.integer[Any]]) -> "Sample":
        """Return some of the calls, as numbers, and with these roles."""
        part = Sample(self.rewards, self.chosen[calls], self.responses[calls])
        part.__dict__["roles"] = roles
        return part

    @cached_property
    def missing(self) -> int:
        """How many responses never came, of those that are kept."""
        return int(np.count_nonzero(self.said.hashes == hash_texts([MISSING])[0]))

    @property
    def calls(self) -> int:
        """How many responses there are in all."""
        return len(self.chosen) + (0 if self.later is None else self.later.seek(0, 2) // RECORD.itemsize)


def sample_of(
    rewards: Sequence[float], chosen: Chosen, texts: Sequence[bytes], rng: np.random.Generator | None = None
) -> Sample:
    """Return the sample of these texts, each to the reward that was chosen for it."""
    return Sample(tuple(rewards), chosen, numbers(texts), Texts.of(texts), rng=rng or np.random.default_rng())


@dataclass(slots=True)
class _Tape:
    """The coins and responses received so far."""

    chosen: list[Chosen] = field(default_factory=list)
    responses: list[Reals] = field(default_factory=list)
    texts: list[Texts] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    kept: int = 0
    kept_bytes: int = 0
    count: int = 0
    later: IO[bytes] | None = None

    def add(self, chosen: Chosen, texts: list[bytes]) -> None:
        """Keep responses, or write them to the file if there are many already."""
        values = numbers(texts)
        self.count += len(texts)
        if self.later is None and self.kept < KEPT and self.kept_bytes < KEPT_BYTES:
            packed = Texts.of(texts)
            self.chosen.append(chosen)
            self.responses.append(values)
            self.texts.append(packed)
            self.kept += len(texts)
            self.kept_bytes += len(packed.data)
            return
        if self.later is None:
            self.later = TemporaryFile()  # noqa: SIM115 - it goes away with the sample
        record = np.empty(len(texts), RECORD)
        record["chosen"], record["response"] = chosen, values
        self.later.write(record.tobytes())


def judging_seconds(kept: int) -> float:
    """Return the seconds that it takes to judge `kept` responses."""
    return LEAST_JUDGING_S + CLOSELY_S * min(kept, CLOSELY) + JUDGING_S * kept


def draw_sample(  # noqa: PLR0913, PLR0917 - what to ask, how often, and for how long
    target: Target,
    rewards: Sequence[float],
    calls: int,
    rng: np.random.Generator,
    seconds: float,
    progress: Callable[[int], None] = lambda _count: None,
    calls_per_run: int | None = None,
    *,
    leave: Callable[[int], float] = lambda _kept: 0.0,
) -> Sample:
    """Ask for `calls` responses, each to a reward chosen at random, in runs of `calls_per_run` at the most.

    If the time is up, or the target fails, the sample holds what was received; it raises if that is nothing. A program
    that dies is started again, and the response that it owes is a missing one. `leave` returns the seconds that judging
    the kept responses takes; these are left over.
    """
    tape, until, deaths = _Tape(), monotonic() + seconds, 0
    failure: Unanswered | None = None
    values = np.asarray(rewards, np.float64)
    while tape.count < calls and failure is None and (left := until - monotonic()) > leave(tape.kept):
        size = calls - tape.count if calls_per_run is None else min(calls_per_run, calls - tape.count)
        if tape.later is None:
            tape.starts.append(tape.count)
        before = tape.count
        try:
            _draw_run(target, values, size, rng, left, progress, tape, leave)
        except Died as error:
            deaths += 1
            failure = error if deaths > min(MOST_DEATHS, LEAST_DEATHS + tape.count // CALLS_A_LIFE) else None
        except Unanswered as error:
            if not before or tape.count > before or monotonic() < until:  # a run that began too late is not to blame
                failure = error
        if tape.count == before and failure is None:
            break
    if not tape.count:
        raise failure or Late("no response in the time that was left (--time allows more)")
    chosen = np.concatenate(tape.chosen) if tape.chosen else np.zeros(0, np.int64)
    responses = np.concatenate(tape.responses) if tape.responses else np.zeros(0)
    starts = np.array([start for start in tape.starts if start < len(chosen)] or [0], np.int64)
    trouble = None if failure is None else str(failure)
    sample = Sample(tuple(rewards), chosen, responses, Texts.join(tape.texts), starts, rng, tape.later, trouble)
    if tape.later is not None:
        finalize(sample, tape.later.close)
    return sample


def _draw_run(  # noqa: PLR0913, PLR0917 - as above
    target: Target,
    values: Reals,
    size: int,
    rng: np.random.Generator,
    seconds: float,
    progress: Callable[[int], None],
    tape: _Tape,
    leave: Callable[[int], float],
) -> None:
    """Ask within one run. Coins are tossed as rewards are sent, and wait for their responses."""
    waiting: deque[NDArray[np.uint8]] = deque()
    places = values.tolist()

    def coins() -> Iterator[list[float]]:
        for start in range(0, size, WHOLE_BATCH):
            part = rng.integers(len(places), size=min(WHOLE_BATCH, size - start), dtype=np.uint8)
            waiting.append(part)
            yield [places[each] for each in part.tolist()]

    until, rest = monotonic() + seconds, np.zeros(0, np.uint8)
    try:
        for texts in target.ask_many(coins(), seconds):
            while len(rest) < len(texts):
                rest = np.concatenate([rest, waiting.popleft()])
            tape.add(rest[: len(texts)].astype(np.int64), texts)
            rest = rest[len(texts) :]
            progress(tape.count)
            if monotonic() + leave(tape.kept) >= until:
                return
    except Died:
        tape.add(np.concatenate([rest, *waiting])[:1].astype(np.int64), [MISSING])
        raise
