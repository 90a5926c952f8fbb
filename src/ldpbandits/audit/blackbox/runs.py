"""Many short runs: what a run tells of its rewards, call by call and as a whole, and whether users share noise.

Each run is a user of its own, made from scratch, and gets some rewards: first one that a coin chooses, then the same
one many times over, then some more that coins choose. In every fourth run coins choose them all, so that no place is
left out. Other runs get a single reward, one after the other. Standard error belongs to what a run says, and so does
the status with which a program ends, and a response that is missing. Some programs are run as in a container, where
each process has the number 1: a seed made of that number is one for all users there. Six groups of bets, each with an
equal part of the stake (betting.py), guess coins from all that was said by all runs:

    places          each call by its place, and what is said next
    first calls     all that the first call says; standard error; how a run ends
    single rewards  all that a run with a single reward says
    whole runs      the mean, the spread and the number of different responses to the reward that is the same for all:
                    the first reward may colour a run, by an encoder or a range that is fitted to it, or by a mean
    the next run    what the next run with a single reward says: a reward may be left in a file
    shared noise    two runs that gave the same responses to rewards that are the same for all may have the same noise:
                    a seed left in, a seed of few bits, the clock. If so, the coins of one betray those of the other.
                    Where both responses to a coin are the same, guess the same coin, else the other one

The level is kept since whatever is guessed from is a function of what was said, in whichever run, and of coins that
are not guessed later (guess.py). A run that shares noise is guessed from the one before it that is like it, which may
be a few responses behind; which runs are alike depends on responses only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, exp
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.betting import Again, Bet, Cells, bets_on_likeness, judge_bets
from ldpbandits.audit.blackbox.fork import BEHIND
from ldpbandits.audit.blackbox.neighbours import BINS, coarse
from ldpbandits.audit.blackbox.side_channels import MIN_RUN_S
from ldpbandits.audit.blackbox.single import bets_on
from ldpbandits.audit.evidence import Evidence
from ldpbandits.audit.guess import count_cells
from ldpbandits.audit.result import Finding
from ldpbandits.audit.sample import Sample, sample_of
from ldpbandits.audit.target import RunOnce, RunOutput
from ldpbandits.audit.texts import MOST_CODES, Texts

USERS = 540
"""Among the 405 that are compared a seed of 14 bits comes again about five times, and one of 16 bits once."""
OPEN, CONTAINED, SINGLE = 4, 5, 6
"""Every fourth run has all its rewards chosen by coins, every fifth is in a container, every sixth has one more with a
single reward."""
FEWEST_USERS = 100
"""With fewer not even a first call that is always bare, or a seed of 8 bits, is found for certain."""
ALIKE, MOST_ALIKE = 24, 256
"""Responses by which runs are compared: at large epsilon more. Two runs of fair bits are alike once in 2^24 times."""
COLOURED = 256
"""More responses to the same reward: they show a mean over ten rewards, of which one differs."""
COINS = 64
"""Calls at the end of a run whose rewards coins choose: one run that is like another is enough for a verdict."""
TIME_PART = 0.8
"""Share of the remaining time."""
LEAST_USERS = 16
"""Users that are asked whatever the time; a program that takes long to start has no more."""
PARTS = 8
"""Parts into which runs are sorted by a statistic."""
NOTHING = b"\x00"
"""Stands for the response of a run that gave none."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The rewards of a run: a coin, `same` times the lowest, `coins` by coins, the lowest again, a coin."""

    same: int
    coins: int
    again: int
    """How often the lowest reward comes again."""
    last: int
    """1, or 0 where a run has no room for a last coin."""

    @classmethod
    def of(cls, epsilon: float, calls_per_run: int | None) -> "Layout":
        """Return the layout for this epsilon: at large ones bits hardly vary, and more of them are compared."""
        same = min(MOST_ALIKE, ceil(ALIKE * max(1.0, exp(epsilon - 2)))) + BEHIND
        room = (same + COINS + COLOURED + 1 if calls_per_run is None else calls_per_run - 1) - 1
        coins = max(0, min(COINS, room - same))
        same = max(0, min(same, room))
        return cls(same, coins, max(0, min(COLOURED, room - same - coins)), int(room >= 0))

    @property
    def calls(self) -> int:
        """How many calls a run has."""
        return 1 + self.same + self.coins + self.again + self.last

    def is_tossed(self, call: int) -> bool:
        """Tell whether a coin chooses the reward of this call in all runs."""
        return call == 0 or self.same < call <= self.same + self.coins or call == self.calls - 1


@dataclass(frozen=True)
class Users:
    """The output of many runs."""

    layout: Layout
    chosen: NDArray[np.int64]
    """Number of the reward of each call, in the shape (runs, calls)."""
    heard: list[RunOutput]
    coins: NDArray[np.int64]
    """Number of the reward of each run with a single reward."""
    single: list[RunOutput]
    """The output of the runs with a single reward."""
    wanted: int
    """Number of runs that were planned."""

    @cached_property
    def sample(self) -> Sample:
        """The responses of all runs, one after the other; one that a run does not give is told from all texts."""
        calls = self.layout.calls
        texts = [text for each in self.heard for text in [*each.texts[:calls], *[NOTHING] * (calls - len(each.texts))]]
        return sample_of((0.0, 1.0), self.chosen.ravel(), texts)

    @property
    def codes(self) -> NDArray[np.int64]:
        """A number for each response, in the shape (runs, calls); equal ones have equal numbers."""
        return self.sample.said.codes.reshape(self.chosen.shape)

    def tossed(self, run: int) -> list[int]:
        """Return the calls of a run whose rewards coins chose."""
        calls = range(self.chosen.shape[1])
        return [call for call in calls if self.layout.is_tossed(call) or (is_open(run) and call <= self.layout.same)]

    @property
    def words(self) -> list[bytes]:
        """All that the runs with a single reward said, and how they ended."""
        return [b"\n".join([*each.texts, each.beside, str(each.code).encode()]) for each in self.single]

    def lines(self, run: int) -> list[bytes]:
        """Return what was written to standard error, line by line."""
        return self.heard[run].beside.split(b"\n")


def is_open(run: int) -> bool:
    """Tell whether coins choose all rewards of a run."""
    return run % OPEN == OPEN - 1


def draw_users(evidence: Evidence, count: int) -> Users | None:
    """Ask many users; None if none can be made."""
    make, claim = evidence.target.another_user, evidence.claim
    if make is None:
        return None
    evidence.check_time()
    layout, until = Layout.of(claim.epsilon, claim.calls_per_run), monotonic() + evidence.seconds(TIME_PART)
    chosen = evidence.rng(3).integers(2, size=(count, layout.calls))
    chosen[[not is_open(run) for run in range(count)], 1 : 1 + layout.same] = 0
    chosen[:, 1 + layout.same + layout.coins :][:, : layout.again] = 0
    coins = evidence.rng(7).integers(2, size=0 if evidence.is_known else count // SINGLE)
    heard, single = list[RunOutput](), list[RunOutput]()
    contained = _contained(evidence)

    def ask(sides: NDArray[np.int64], run: int) -> RunOutput:
        rewards = [(claim.low, claim.high)[each] for each in sides.tolist()]
        run_once = contained if run % CONTAINED == 0 and contained is not None else make()
        at_last = until if heard else evidence.until  # the first ones may take all the time that there is
        return run_once(rewards, max(MIN_RUN_S, at_last - monotonic()))

    while len(heard) < count and (monotonic() < until or len(heard) < LEAST_USERS):
        some = range(len(heard), min(len(heard) + LEAST_USERS, count))
        heard += evidence.target.run_many(lambda run: ask(chosen[run], run), some)
        if not any(each.texts for each in heard):
            return None
    while len(single) < len(coins) and (monotonic() < until or len(single) < LEAST_USERS // SINGLE):
        single.append(ask(coins[len(single) :][:1], len(single)))
    return Users(layout, chosen[: len(heard)], heard, coins[: len(single)], single, count)


def _contained(evidence: Evidence) -> RunOnce | None:
    """Return how a user in a container is asked; None if there are none, or the program does not run in one."""
    run_once = evidence.target.contained
    if run_once is None:
        return None
    return run_once if run_once([evidence.claim.low], max(1.0, evidence.seconds(0.1))).texts else None


def _enough(users: Users, finding: Finding) -> Finding:
    """Return a finding, which is not finished where the time was up after a few runs and nothing was found."""
    if finding.verdict == "violated" or len(users.heard) >= min(FEWEST_USERS, users.wanted):
        return finding
    told = f"{len(users.heard):,} of {users.wanted:,} runs in the time given (--time allows more)"
    return Finding("not finished", told, finding.epsilon_lower)


def short_runs(evidence: Evidence, alpha: float) -> Finding:
    """Bet on what runs tell, one by one and together."""
    if evidence.target.another_user is None:
        return Finding("not applicable", "give another_user, a function that makes the curator of another user")
    users = draw_users(evidence, FEWEST_USERS if evidence.is_known else USERS)
    if users is None:
        return Finding("not finished", "no run gave a response in the time that was left (--time allows more)")
    rewards = evidence.claim.low, evidence.claim.high
    groups = [
        list(_by_place(users)),
        [*_by_first(users, rewards), *_by_ending(users)],
        list(_by_single(users, rewards)),
        list(_by_whole(users)),
        list(_by_next(users, rewards)),
        list(_by_likeness(users)),
    ]
    finding = judge_bets(groups, evidence.claim.epsilon, alpha)
    told = f"{len(users.heard) + len(users.single):,} runs: {finding.detail}"
    return _enough(users, Finding(finding.verdict, told, finding.epsilon_lower))


def _by_first(users: Users, rewards: tuple[float, float]) -> Iterator[Bet]:
    """Bet on the first response of a run, on its standard error, and on that of a call, where each has a line."""
    runs, calls = users.chosen.shape
    first = users.chosen[:, 0]
    yield from bets_on(sample_of(rewards, first, [users.sample.said[run * calls] for run in range(runs)]), "first call")
    if not any(heard.beside.strip() for heard in users.heard):
        return
    yield from bets_on(sample_of(rewards, first, [heard.beside for heard in users.heard]), "standard error of a run")
    lined = [run for run in range(runs) if len(users.heard[run].beside.strip().split(b"\n")) == calls]
    tossed = [(run, call) for run in lined for call in users.tossed(run)]
    if tossed:
        lines = [users.lines(run)[call] for run, call in tossed]
        said = sample_of(rewards, users.chosen[tuple(np.transpose(tossed))], lines)
        yield from bets_on(said, "standard error of a call")


def _by_ending(users: Users) -> Iterator[Bet]:
    """Bet on the status with which a run ends; on how it ends together with the rewards that it had."""
    if len({(each.beside, each.code) for each in users.heard}) > 1 and users.layout.last:
        yield _by_last(users)
    ends = Texts.of([str(each.code).encode() for each in users.heard])
    if len(ends) and (ends.codes != ends.codes[0]).any():
        calls = users.chosen.shape[1]
        tossed = np.array([(run, call) for run in range(len(ends)) for call in users.tossed(run)])
        at = ends.few_codes[tossed[:, 0]]
        coins = users.chosen[tuple(tossed.T)]
        yield Cells("how a run ended", count_cells(at, coins, (0, 1), MOST_CODES + 1))
        counts = count_cells(at * calls + tossed[:, 1], coins, (0, 1), (MOST_CODES + 1) * calls)
        yield Cells("how a run ended, and place", counts)


def _by_last(users: Users) -> Bet:
    """Bet on the last reward of a run by how it ends and how many before it were the higher one: sums, means.

    Two runs that have both in common are to have the last reward in common: that of the later one is guessed.
    """
    ends = Texts.of([each.beside + str(each.code).encode() for each in users.heard])
    keys = ends.codes * users.chosen.shape[1] + users.chosen[:, :-1].sum(axis=1)
    _, alike = np.unique(keys, return_inverse=True)
    return Again.of("how a run ended, and its rewards but the last", alike, users.chosen[:, -1])


def _by_single(users: Users, rewards: tuple[float, float]) -> Iterator[Bet]:
    """Bet on all that a run with a single reward says."""
    if users.single:
        texts = [b"\n".join(each.texts) for each in users.single]
        yield from bets_on(sample_of(rewards, users.coins, texts), "the response of a run with a single reward")
        yield from bets_on(sample_of(rewards, users.coins, users.words), "a run with a single reward")


def _by_next(users: Users, rewards: tuple[float, float]) -> Iterator[Bet]:
    """Bet on all that the run after says."""
    if len(users.single) > 1:
        yield from bets_on(sample_of(rewards, users.coins[:-1], users.words[1:]), "the run after one with a reward")


def _by_whole(users: Users) -> Iterator[Bet]:
    """Bet on the first reward of a run by statistics over its responses to the reward that is the same for all."""
    closed = [run for run in range(len(users.heard)) if not is_open(run)]
    whole = [call for call in range(users.layout.calls) if not users.layout.is_tossed(call)]
    for same in (whole[: users.layout.same], whole):
        if closed and same:
            yield from _by_block(users, closed, same)


def _by_block(users: Users, closed: Sequence[int], same: Sequence[int]) -> Iterator[Bet]:
    """Bet by statistics over some calls of all closed runs."""
    values = np.nan_to_num(users.sample.responses).reshape(users.chosen.shape)[np.ix_(closed, same)]
    codes = users.codes[np.ix_(closed, same)]
    _, ranks = np.unique(values, return_inverse=True)  # a few responses may be far from all others
    ranks = ranks.reshape(values.shape)
    statistics = {
        "the mean rank": ranks.mean(axis=1),
        "the spread of ranks": ranks.std(axis=1),
        "the largest": values.max(axis=1),
        "the smallest": values.min(axis=1),
        "how often the commonest text occurs": (codes == 0).sum(axis=1),
        "how many texts there are": np.array([len(set(row)) for row in codes.tolist()]),
    }
    for name, of_runs in statistics.items():
        cuts = np.unique(np.quantile(of_runs, np.arange(1, PARTS) / PARTS, method="inverted_cdf"))
        counts = count_cells(np.searchsorted(cuts, of_runs), users.chosen[closed, 0], (0, 1), PARTS)
        yield Cells(f"{name} of {len(same)} responses of a run", counts)


def _by_place(users: Users) -> Iterator[Bet]:
    """Bet on what is said at each place of a run, and on what is said next."""
    runs, calls = users.chosen.shape
    tossed = np.array([run * calls + call for run in range(runs) for call in users.tossed(run)])
    coins, kinds = users.chosen.ravel()[tossed], coarse(users.sample)
    place, later = tossed % calls, np.minimum(tossed + 1, runs * calls - 1)
    for name, at in (("text", users.sample.said.few_codes), ("size", kinds)):
        counts = count_cells(at[tossed] * calls + place, coins, (0, 1), (MOST_CODES + 1) * calls)
        yield Cells(f"{name} and place", counts)
    following = np.where(place + 1 < calls, kinds[later], BINS)
    yield Cells("a response and the next", count_cells(kinds[tossed] * (BINS + 1) + following, coins, (0, 1), 256))


def _by_likeness(users: Users) -> Iterator[Bet]:
    """Bet on coins of a run from those of a run that is like it: the same coin where the response is the same."""
    met: dict[int, list[NDArray[np.bool_]]] = {}
    first, end = 1 + users.layout.same, 1 + users.layout.same + users.layout.coins
    for run, other, lag in _alike(users):
        ours = np.arange(max(first, first - lag), min(end, end - lag))
        same = [each[run, ours] == each[other, ours + lag] for each in (users.codes, users.chosen)]
        met.setdefault(lag, []).append(np.stack(same))
    for lag, each in sorted(met.items()):
        yield from bets_on_likeness("a run and one like it", *np.concatenate(each, axis=1), lag=lag)


def _alike(users: Users) -> Iterator[tuple[int, int, int]]:
    """Yield a run, the last one before it that is like it, and by how many responses that is behind.

    By the responses to rewards that are the same in all runs, and by nothing else.
    """
    length, last = users.layout.same - BEHIND, dict[tuple[int, bytes], int]()
    for run in range(len(users.heard) if length > 0 and users.layout.coins else 0):
        if is_open(run) or len(users.heard[run].texts) <= length:
            continue
        windows = [users.codes[run, 1 + shift : 1 + shift + length].tobytes() for shift in range(BEHIND + 1)]
        shifts = [(0, shift) for shift in range(BEHIND + 1)] + [(ours, 0) for ours in range(1, BEHIND + 1)]
        found = [
            (last[theirs, windows[ours]], theirs - ours) for ours, theirs in shifts if (theirs, windows[ours]) in last
        ]
        if found:
            other, lag = min(found, key=lambda each: abs(each[1]))
            yield run, other, lag
        for shift, window in enumerate(windows):
            last[shift, window] = run
