"""Many short runs: what the first call of a user tells, and whether users share their noise.

Each run is a user of its own, made from scratch, and gets a few rewards: first one that a coin chooses, then the same
one many times over, by which runs are compared, then some more that coins choose. In every sixth run coins choose them
all, so that no place is left out. Other runs get a single reward: what such a run says, and how it ends, it says of
that one. Standard error belongs to what a run says, and so does the status with which a program ends. Some programs are
run as in a container, where each process has the number 1: a seed made of that number is one for all users there.

FIRST CALLS. Stakes are put on everything that the first call says, and the others by their place, and by what is said
next: a reward that changes what comes after it, such as one that uses up a budget (betting.py). And on how runs end.

SHARED NOISE. Two runs that gave the same responses to the rewards that are the same for all may have the same noise: a
seed left in, a seed of few bits, the clock. If so, the coins of one betray those of the other. Where both responses to
a coin are the same, guess the same coin, else the other one. Runs come in an order, and a run is guessed from the one
before it that is like it; which runs are alike, and which responses, depends on responses only. So each guess is right
with probability e^epsilon / (1 + e^epsilon) at most, given all coins of the runs before, whatever the law of the
responses, be they numbered, dated or remembered: betting.py applies. One run may be a few responses behind the other.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import ceil, exp
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from ldpbandits.audit.betting import Again, Bet, Cells, Event, judge_bets
from ldpbandits.audit.blackbox.neighbours import BINS, coarse
from ldpbandits.audit.blackbox.stderr_leak import bets_with
from ldpbandits.audit.evidence import Evidence
from ldpbandits.audit.guess import count_cells
from ldpbandits.audit.result import Finding
from ldpbandits.audit.sample import Sample
from ldpbandits.audit.target import RunOnce, RunOutput
from ldpbandits.audit.texts import Texts, numbers

USERS = 1_200
"""Among a thousand a seed of 16 bits comes again about seven times, and one of 8 bits all the time."""
OPEN = 6
"""One in this number of runs has all its rewards chosen by coins."""
CONTAINED = 5
"""One in this number of runs is in a container, so that a seed made of the process id repeats."""
SINGLE = 6
"""There is one run with a single reward per this number of runs."""
FEW_USERS = 100
"""Number of users of a curator whose code is known."""
ALIKE = 24
"""Responses by which runs are compared. By chance two runs of fair bits are alike once in 2^24 times."""
MOST_ALIKE = 256
BEHIND = 4
"""By how many responses one run may be behind another."""
COINS = 15
"""Calls at the end of a run whose rewards coins choose."""
TIME_PART = 0.8
"""Share of the remaining time."""
FEWEST_USERS = 100
"""With fewer not even a first call that is always bare, or a seed of 8 bits, is found for certain."""
LEAST_USERS = 16
"""Users that are asked whatever the time; a program that takes long to start has no more."""
LEAST_SECONDS = 0.2
"""For a run that begins when the time is up: some of them are asked at once."""
MOST_CODES = 63
"""Texts that are told apart at each place."""
NOTHING = b"\x00"
"""Stands for the response of a run that gave none."""
BESIDE = 1 << 11
"""Bytes of standard error that are compared."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The rewards of a run: one by a coin, then the lowest reward `same` times, then `coins` by coins."""

    same: int
    coins: int

    @classmethod
    def of(cls, epsilon: float, calls_per_run: int | None) -> "Layout":
        """Return the layout for this epsilon: at large ones bits hardly vary, and more of them are compared."""
        same = min(MOST_ALIKE, ceil(ALIKE * max(1.0, exp(epsilon - 2)))) + BEHIND
        if calls_per_run is None:
            return cls(same, COINS)
        coins = max(0, min(COINS, calls_per_run - 1 - same))
        return cls(max(0, min(same, calls_per_run - 1 - coins)), coins)


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

    def at(self, run: int, call: int) -> bytes:
        """Return what a run said at one of its calls."""
        texts = self.heard[run].texts
        return texts[call] if call < len(texts) else NOTHING

    def place(self, coin: int) -> int:
        """Return at which call of a run a coin was used: the first, and those at the end."""
        return 0 if coin == 0 else self.layout.same + coin

    def tossed(self, run: int) -> list[int]:
        """Return the calls of a run whose rewards coins chose."""
        calls = range(self.chosen.shape[1])
        return [call for call in calls if call == 0 or call > self.layout.same or is_open(run)]

    def lines(self, run: int) -> list[bytes]:
        """Return what was written to standard error, line by line."""
        return self.heard[run].beside.split(b"\n")


def is_open(run: int) -> bool:
    """Tell whether coins choose all rewards of a run."""
    return run % OPEN == OPEN - 1


def users_of(evidence: Evidence) -> Users | None:
    """Return the users that the checks of one audit share."""
    if "users" not in evidence.shared:
        evidence.shared["users"] = draw_users(evidence, FEW_USERS if evidence.is_known else USERS)
    users: Users | None = evidence.shared["users"]
    return users


def draw_users(evidence: Evidence, count: int) -> Users | None:
    """Ask many users; None if none can be made."""
    make, claim = evidence.target.another_user, evidence.claim
    if make is None:
        return None
    evidence.check_time()
    layout, until = Layout.of(claim.epsilon, claim.calls_per_run), monotonic() + evidence.seconds(TIME_PART)
    chosen = evidence.rng(3).integers(2, size=(count, 1 + layout.same + layout.coins))
    chosen[[not is_open(run) for run in range(count)], 1 : 1 + layout.same] = 0
    coins = evidence.rng(7).integers(2, size=0 if evidence.is_known else count // SINGLE)
    heard, single = list[RunOutput](), list[RunOutput]()
    contained = _contained(evidence)

    def ask(sides: NDArray[np.int64], is_contained: bool) -> RunOutput:  # noqa: FBT001 - one of the columns that are mapped
        rewards = [(claim.low, claim.high)[each] for each in sides.tolist()]
        run_once = contained if is_contained and contained is not None else make()
        at_last = until if heard else evidence.until  # the first ones may take all the time that there is
        return run_once(rewards, max(LEAST_SECONDS, at_last - monotonic()))

    with ThreadPoolExecutor(evidence.target.workers) as pool:
        while len(heard) < count and (monotonic() < until or len(heard) < LEAST_USERS):
            whole = chosen[len(heard) : len(heard) + LEAST_USERS]
            alone = coins[len(single) : (len(heard) + len(whole)) // SINGLE, None]
            every = [*whole, *alone]
            inside = [run % CONTAINED == 0 for run in range(len(every))]
            told = list(pool.map(ask, every, inside) if evidence.target.workers > 1 else map(ask, every, inside))
            heard, single = heard + told[: len(whole)], single + told[len(whole) :]
            if not any(each.texts for each in heard):
                return None
    return Users(layout, chosen[: len(heard)], heard, coins[: len(single)], single, count)


def _contained(evidence: Evidence) -> RunOnce | None:
    """Return how a user in a container is asked; None if there are none, or the program does not run in one."""
    run_once = evidence.target.contained
    if run_once is None:
        return None
    return run_once if run_once([evidence.claim.low], max(1.0, evidence.seconds(0.1))).texts else None


def _no_users(evidence: Evidence) -> Finding:
    """Say why there are no users."""
    if evidence.target.another_user is None:
        return Finding("not applicable", "give another_user, a function that makes the curator of another user")
    return Finding("not finished", "no run gave a response in the time that was left (--time allows more)")


def _enough(users: Users, finding: Finding) -> Finding:
    """Return a finding, which is not finished where the time was up after a few runs and nothing was found."""
    if finding.verdict == "violated" or len(users.heard) >= min(FEWEST_USERS, users.wanted):
        return finding
    told = f"{len(users.heard):,} of {users.wanted:,} runs in the time given (--time allows more)"
    return Finding("not finished", told, finding.epsilon_lower)


def first_calls(evidence: Evidence, alpha: float) -> Finding:
    """Stake on what is said at the first call, at each place, and to standard error."""
    users = users_of(evidence)
    if users is None:
        return _no_users(evidence)
    rewards, runs = (evidence.claim.low, evidence.claim.high), range(len(users.heard))
    first = [users.at(run, 0) for run in runs]
    bets = list(bets_with(rewards, users.chosen[:, 0], first, "first call"))
    if any(heard.beside.strip() for heard in users.heard):
        aside = [users.heard[run].beside[:BESIDE] for run in runs]
        bets += bets_with(rewards, users.chosen[:, 0], aside, "standard error of a run")
        calls = users.chosen.shape[1]
        lined = [run for run in runs if len(users.heard[run].beside.strip().split(b"\n")) == calls]
        tossed = [(run, call) for run in lined for call in users.tossed(run)]
        if tossed:
            lines = [users.lines(run)[call] for run, call in tossed]
            bets += bets_with(rewards, users.chosen[tuple(np.transpose(tossed))], lines, "standard error of a call")
    finding = judge_bets([*bets, *_by_place(users), *_by_ending(users, rewards)], evidence.claim.epsilon, alpha)
    told = f"{len(runs) + len(users.single):,} runs: {finding.detail}"
    return _enough(users, Finding(finding.verdict, told, finding.epsilon_lower))


def _by_ending(users: Users, rewards: tuple[float, float]) -> Iterator[Bet]:
    """Stake on all that a run with a single reward says, and on the status with which a run ends.

    What is said after all responses counts with it, and so does a response that is missing.
    """
    texts = [b"\n".join([*each.texts, each.beside[:BESIDE], str(each.code).encode()]) for each in users.single]
    if (
        len({each.beside for each in users.single}) > 1
        or len({(each.code, each.is_whole) for each in users.single}) > 1
    ):
        yield from bets_with(rewards, users.coins, texts, "a run with a single reward")
    if len({(each.beside, each.code) for each in users.heard}) > 1 and users.layout.coins:
        yield _by_last(users)
    ends = Texts.of([str(each.code).encode() for each in users.heard])
    if len(ends) and (ends.codes != ends.codes[0]).any():
        calls = users.chosen.shape[1]
        tossed = np.array([(run, call) for run in range(len(ends)) for call in users.tossed(run)])
        at = np.minimum(ends.codes, MOST_CODES)[tossed[:, 0]]
        coins = users.chosen[tuple(tossed.T)]
        yield Cells("how a run ended", count_cells(at, coins, (0, 1), MOST_CODES + 1))
        yield Cells(
            "how a run ended, and place",
            count_cells(at * calls + tossed[:, 1], coins, (0, 1), (MOST_CODES + 1) * calls),
        )


def _by_last(users: Users) -> Bet:
    """Stake on the last reward of a run by how it ends and how many before it were the higher one: sums, means.

    Two runs that have both in common are to have the last reward in common: that of the later one is guessed.
    """
    ends = Texts.of([each.beside[-BESIDE:] + str(each.code).encode() for each in users.heard])
    keys = ends.codes * users.chosen.shape[1] + users.chosen[:, :-1].sum(axis=1)
    _, alike = np.unique(keys, return_inverse=True)
    return Again.of("how a run ended, and its rewards but the last", alike, users.chosen[:, -1])


def _by_place(users: Users) -> Iterator[Bet]:
    """Stake on what is said at each place of a run, and on what is said next."""
    runs, calls = users.chosen.shape
    texts = [users.at(run, call) for run in range(runs) for call in range(calls)]
    said = Texts.of(texts)
    tossed = np.array([run * calls + call for run in range(runs) for call in users.tossed(run)])
    coins = users.chosen.ravel()[tossed]
    cells = np.minimum(said.codes, MOST_CODES)
    kinds = coarse(Sample((0.0, 1.0), users.chosen.ravel(), numbers(texts), said))
    place, later = tossed % calls, np.minimum(tossed + 1, runs * calls - 1)
    for name, at in (("text", cells), ("size", kinds)):
        yield Cells(
            f"{name} and place", count_cells(at[tossed] * calls + place, coins, (0, 1), (MOST_CODES + 1) * calls)
        )
    following = np.where(place + 1 < calls, kinds[later], BINS)
    yield Cells("a response and the next", count_cells(kinds[tossed] * (BINS + 1) + following, coins, (0, 1), 256))


def shared_noise(evidence: Evidence, alpha: float) -> Finding:
    """Stake on coins of a run from those of a run that is like it."""
    users = users_of(evidence)
    if users is None:
        return _no_users(evidence)
    if not users.layout.coins or users.layout.same <= BEHIND:
        return Finding("not applicable", "runs are too short to be compared: --calls-per-run allows more")
    alike = list(_alike(users))
    behind = sorted({lag for _, _, lag in alike}, key=abs)
    tallies = {(lag, same): [0, 0] for lag in behind for same in (True, False)}
    for run, other, lag in alike:
        for is_same, is_right in _guesses(users, run, other, lag):
            tallies[lag, is_same][is_right] += 1
    if not tallies:
        return _enough(users, Finding("consistent", f"no two of {len(users.heard):,} runs are alike"))
    bets = [
        Event(f"{'the same' if same else 'another'} response as a run like it{_behind(lag)}", right, wrong)
        for (lag, same), (wrong, right) in tallies.items()
    ]
    finding = judge_bets(bets, evidence.claim.epsilon, alpha)
    told = f"{len(alike):,} of {len(users.heard):,} runs are like one before: {finding.detail}"
    return _enough(users, Finding(finding.verdict, told, finding.epsilon_lower))


def _behind(lag: int) -> str:
    return f", {abs(lag)} responses apart" if lag else ""


def _alike(users: Users) -> Iterator[tuple[int, int, int]]:
    """Yield a run, the last one before it that is like it, and by how many responses that is behind.

    By the responses to rewards that are the same in all runs, and by nothing else.
    """
    length = users.layout.same - BEHIND
    last: dict[tuple[int, bytes], int] = {}
    for run in range(len(users.heard)):
        if is_open(run):
            continue
        windows = [b"\n".join(users.at(run, 1 + shift + call) for call in range(length)) for shift in range(BEHIND + 1)]
        found = [
            (other, shift if ours == 0 else -ours)
            for ours in range(BEHIND + 1)
            for shift in (range(BEHIND + 1) if ours == 0 else (0,))
            if (other := last.get((shift, windows[ours]))) is not None
        ]
        if found and NOTHING not in windows[0].split(b"\n"):
            other, lag = min(found, key=lambda each: abs(each[1]))
            yield run, other, lag
        for shift, window in enumerate(windows):
            last[shift, window] = run


def _guesses(users: Users, run: int, other: int, lag: int) -> Iterator[tuple[bool, bool]]:
    """Yield for each coin of a run whether both responses are the same, and whether the guess is right."""
    coins = users.layout.coins
    for coin in range(1, coins + 1):
        theirs = coin + lag
        if not 1 <= theirs <= coins:
            continue
        said = users.at(run, users.place(coin)), users.at(other, users.place(theirs))
        coins_at = users.chosen[run, users.place(coin)], users.chosen[other, users.place(theirs)]
        is_same, coins_are_same = said[0] == said[1], coins_at[0] == coins_at[1]
        yield is_same, bool(is_same == coins_are_same)
