"""Trials of a case: when the verdict is first reached, and what was pulled until then.

Tallies are inspected on a grid of times, each 1 % later than the one before, so a trial ends up to 1 % late. Between
two inspections a rule leaps where it can. In equal shares, and in the duels of two arms, all sums are drawn at once.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from math import inf
from threading import Event
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ldpbandits.agent.rules import EqualShares, rule_to_json
from ldpbandits.lab.engine.duels import state_size
from ldpbandits.lab.engine.leap import compile_leaps, leap_obstacle
from ldpbandits.lab.engine.separation import separated
from ldpbandits.lab.engine.step import compile_steps
from ldpbandits.lab.engine.verdicts import first_verdict, play_until_verdict, verdict_test, winner
from ldpbandits.lab.experiments import digest
from ldpbandits.lab.planning.case import Allocation, Case
from ldpbandits.lab.planning.question import MAX_RESPONSES, Progress
from ldpbandits.lab.rewards import Bernoulli, Empirical
from ldpbandits.spec.mechanisms import is_bits

Floats: TypeAlias = NDArray[np.float64]
Whole: TypeAlias = NDArray[np.int64]
INSPECTION_STEP = 1.01
"""Each inspection is later than the one before by this factor."""

FIRST_INSPECTION_DIVISOR = 32
"""The first inspection is at the expected number of responses, divided by this."""

LAST_INSPECTION_FACTOR = 64
"""The last inspection is at the expected number of responses times this, or at the horizon."""

LEAP_HORIZON, STEP_HORIZON = 10**8, 2 * 10**6
"""How far a rule is played by default, in responses: one that leaps, and one that is played round by round.

An experiment that needs more than 1e8 responses needs another plan."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The results of the trials of a case; one row per trial."""

    first: Floats
    """The responses until the verdict; infinite: not by the last inspection."""
    arm: Whole
    """The arm that was declared the best, or -1."""
    last: int
    """The responses at the last inspection."""
    then: Floats
    """The pulls of each arm at that moment, or at the last inspection."""
    with_users: Floats | None
    """The pulls of each arm when all users have answered."""

    def quantile(self, share: float) -> float:
        """Return the responses until this share of the trials is decided; infinite: not by the last inspection."""
        return float(np.quantile(self.first, share, method="inverted_cdf"))

    def power(self, responses: float) -> float:
        """Return the share of trials that is decided by this number of responses."""
        return float(np.mean(self.first <= responses))


def last_inspection(case: Case, allocation: Allocation, expected: float) -> int:
    """Return the number of responses up to which trials are played."""
    if is_in_blocks(case, allocation):
        return int(min(MAX_RESPONSES, LAST_INSPECTION_FACTOR * expected))
    horizon = case.question.horizon or (LEAP_HORIZON if leaps(case, allocation) else STEP_HORIZON)
    return int(min(horizon, LAST_INSPECTION_FACTOR * expected))


def is_in_blocks(case: Case, allocation: Allocation) -> bool:
    """Tell whether all sums of a trial are drawn at once: nothing depends on responses, and their sums are known."""
    is_fixed = allocation == "equal" or (allocation == "duels" and case.question.arms == len(("leader", "challenger")))
    return is_fixed and (case.sees_rewards or is_bits(case.curator.mechanism))


def leaps(case: Case, allocation: Allocation) -> bool:
    """Tell whether the rule can leap, with sums of the responses themselves, by which arms are judged."""
    is_read = case.rule_of(allocation).reading is not None
    return not is_read and leap_obstacle(case.algorithm(allocation), case.laws) is None


@dataclass(frozen=True)
class InspectionTimes:
    """How many trials are played, and after how many responses they are inspected for a verdict."""

    trials: int
    first: float
    last: int
    users: int | None = None
    """The responses of all users; trials go on until then."""
    step: float = INSPECTION_STEP

    def grid(self, least: float) -> Whole:
        """Return all times, in responses: from the first to the last, none before the least, and at all users."""
        begin, end = max(self.first, least), self.last
        count = int(np.ceil(np.log(max(end / begin, 1.0)) / np.log(self.step)))
        grid = np.rint(begin * self.step ** np.arange(count + 1))
        more = [end] if self.users is None else [end, min(self.users, end)]
        return np.unique(np.append(grid[grid < end], more)).astype(np.int64)


def play(case: Case, allocation: Allocation, times: InspectionTimes, progress: Progress = lambda _: None) -> Outcome:
    """Play trials on threads; the same case and seed give the same numbers on any number of them."""
    inspected_at = times.grid(least=2.0 * case.question.arms)
    if is_in_blocks(case, allocation):
        trial, streams = _block_trial(case, inspected_at, times), _identity(case, "equal")
    else:
        trial, streams = _rule_trial(case, allocation, inspected_at, times), _identity(case, allocation)
    stopped = Event()

    def run(number: int) -> _Trial | None:
        entropy = np.random.SeedSequence((case.question.seed, streams), spawn_key=(number,))
        return None if stopped.is_set() else trial(np.random.Generator(np.random.PCG64(entropy)))

    found: list[_Trial | None] = [None] * times.trials
    with ThreadPoolExecutor(case.question.jobs or os.cpu_count() or 1) as pool:
        futures = {pool.submit(run, number): number for number in range(times.trials)}
        try:
            for done, future in enumerate(as_completed(futures), 1):
                found[futures[future]] = future.result()
                progress(done / times.trials)
        except BaseException:  # Ctrl-C above all: no trial is begun any more
            stopped.set()
            for future in futures:
                future.cancel()
            raise
    first, arm, then, with_users = zip(*(each for each in found if each is not None), strict=True)
    at_users = None if times.users is None else np.array(with_users)
    return Outcome(np.array(first), np.array(arm), int(inspected_at[-1]), np.array(then), at_users)


_Trial: TypeAlias = tuple[float, int, Floats, Floats]
_Play: TypeAlias = Callable[[np.random.Generator], _Trial]


def _identity(case: Case, allocation: Allocation) -> int:
    """Return what names the random streams of a case: all that is drawn, and nothing else."""
    rule = rule_to_json(case.rule) if allocation == "rule" else None
    return digest([allocation, rule, case.curator.to_json(), list(case.values), [_law(law) for law in case.laws]])


def _law(law: Bernoulli | Empirical) -> list[float]:
    return [*law.values, *law.counts] if isinstance(law, Empirical) else [law.mean]


def _block_trial(case: Case, inspected_at: Whole, times: InspectionTimes) -> _Play:
    """Play in equal shares, or duels of two arms, which have the same law and the same test."""
    arms, new = case.question.arms, np.diff(inspected_at, prepend=0)
    test, even = verdict_test(EqualShares(), case.menu, case.criteria, case.worst_each), np.full(arms, 1 / arms)
    at_users = np.full(arms, (times.users or 0) / arms)

    def trial(rng: np.random.Generator) -> _Trial:
        counts = rng.multinomial(new, even)
        pulls = np.cumsum(counts, axis=0, dtype=float)
        moment, arm = first_verdict(test, pulls, np.cumsum(_sums(rng, case, counts), axis=0, dtype=float))
        if moment < 0:
            return inf, -1, pulls[-1], at_users
        return float(inspected_at[moment]), arm, pulls[moment], at_users

    return trial


def _sums(rng: np.random.Generator, case: Case, counts: Whole) -> NDArray[Any]:
    """Draw the sum of the new responses of each arm, for each inspection."""
    if not case.sees_rewards:
        chances = [case.curator.mechanism.response_mean(value) for value in case.values]
        return rng.binomial(counts, chances)
    columns = []
    for arm, law in enumerate(case.laws):
        if isinstance(law, Bernoulli):
            columns.append(rng.binomial(counts[:, arm], law.p).astype(float))
        else:
            shares = np.array(law.counts, dtype=float)
            columns.append(rng.multinomial(counts[:, arm], shares / shares.sum()) @ np.array(law.values))
    return np.stack(columns, axis=1)


def _rule_trial(case: Case, allocation: Allocation, inspected_at: Whole, times: InspectionTimes) -> _Play:
    rule, played, arms = case.rule_of(allocation), case.algorithm(allocation), case.question.arms
    advance = (compile_leaps if leaps(case, allocation) else compile_steps)(played, case.laws)
    tested = case.verdict_test(allocation)
    judge, test = (separated, case.interval_test) if tested is None else (winner, tested)
    # An adaptive rule that reads responses in its own way keeps sums of the responses behind its own.
    size = 2 * arms if tested is None and rule.reading is not None else state_size(rule.design, arms)
    users = min(times.users or 0, int(inspected_at[-1]))
    before, after = inspected_at[inspected_at <= users], inspected_at[inspected_at > users]

    def trial(rng: np.random.Generator) -> _Trial:
        pulls, totals = np.zeros(arms), np.zeros(size)
        moment, arm = play_until_verdict(judge, test, advance, rng, before, pulls, totals) if users else (-1, -1)
        if arm >= 0:
            first, then = int(before[moment]), pulls.copy()
            advance(rng, pulls, totals, first, users)
            return float(first), arm, then, pulls
        at_users = pulls.copy()
        if not len(after):
            return inf, -1, pulls, at_users
        moment, arm = play_until_verdict(judge, test, advance, rng, after, pulls, totals, users)
        return (float(after[moment]) if arm >= 0 else inf), arm, pulls, at_users

    return trial
