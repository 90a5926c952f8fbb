"""Trials of a case: when the best arm is first separated, and what was pulled until then.

Tallies are inspected on a grid of times, each 2 % later than the one before, so a trial ends up to 2 % late. Between
two inspections a rule leaps where it can. In equal shares all sums are drawn at once.
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

from ldpbandits.agent.rules import reading_of, rule_to_json
from ldpbandits.lab.engine.leap import compile_leaps, leap_obstacle
from ldpbandits.lab.engine.separation import first_separated, judge
from ldpbandits.lab.engine.step import compile_steps
from ldpbandits.lab.experiments import digest
from ldpbandits.lab.planning.case import Allocation, Case
from ldpbandits.lab.planning.question import MAX_RESPONSES
from ldpbandits.lab.rewards import Bernoulli, Empirical
from ldpbandits.spec.mechanisms import is_bits

Floats: TypeAlias = NDArray[np.float64]
Whole: TypeAlias = NDArray[np.int64]
Progress: TypeAlias = Callable[[float], None]
"""Called with the part that is done, from 0 to 1."""

INSPECTION_STEP = 1.02
"""Each inspection is later than the one before by this factor."""

FIRST_INSPECTION_DIVISOR = {"rule": 32, "equal": 8}
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
    """The responses until the best arm was separated; infinite: not by the last inspection."""
    arm: Whole
    """The arm that was separated, or -1."""
    last: int
    """The responses at the last inspection."""
    then: Floats
    """The pulls of each arm at that moment, or at the last inspection."""
    with_users: Floats | None
    """The pulls of each arm when all users have answered."""

    def quantile(self, share: float) -> float:
        """Return the responses until this share of the trials is separated; infinite: not by the last inspection."""
        return float(np.quantile(self.first, share, method="inverted_cdf"))

    def power(self, responses: float) -> float:
        """Return the share of trials that is separated by this number of responses."""
        return float(np.mean(self.first <= responses))


def last_inspection(case: Case, allocation: Allocation, expected: float) -> int:
    """Return the number of responses up to which trials are played."""
    if allocation == "equal":
        return int(min(MAX_RESPONSES, LAST_INSPECTION_FACTOR * expected))
    horizon = case.question.horizon or (LEAP_HORIZON if leaps(case) else STEP_HORIZON)
    return int(min(horizon, LAST_INSPECTION_FACTOR * expected))


def leaps(case: Case) -> bool:
    """Tell whether the rule can leap, with sums of the responses themselves, by which arms are judged."""
    return reading_of(case.rule) is None and leap_obstacle(case.algorithm, case.laws) is None


@dataclass(frozen=True)
class InspectionTimes:
    """How many trials are played, and after how many responses they are inspected for a separated arm."""

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


def play(
    case: Case,
    allocation: Allocation,
    times: InspectionTimes,
    jobs: int | None = None,
    progress: Progress = lambda _: None,
) -> Outcome:
    """Play trials on threads; the same case and seed give the same numbers on any number of them."""
    inspected_at = times.grid(least=2.0 * case.question.arms)
    trial = _equal_trial(case, inspected_at, times) if allocation == "equal" else _rule_trial(case, inspected_at, times)
    entropy = (case.question.seed, _identity(case, allocation))
    stopped = Event()

    def run(number: int) -> _Trial:
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy, spawn_key=(number,))))
        return trial(rng, stopped.is_set)

    found: list[_Trial | None] = [None] * times.trials
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        futures = {pool.submit(run, number): number for number in range(times.trials)}
        try:
            for done, future in enumerate(as_completed(futures), 1):
                found[futures[future]] = future.result()
                progress(done / times.trials)
        except BaseException:  # Ctrl-C above all
            stopped.set()
            for future in futures:
                future.cancel()
            raise
    first, arm, then, with_users = zip(*(each for each in found if each is not None), strict=True)
    at_users = None if times.users is None else np.array(with_users)
    return Outcome(np.array(first), np.array(arm), int(inspected_at[-1]), np.array(then), at_users)


_Trial: TypeAlias = tuple[float, int, Floats, Floats]
_Play: TypeAlias = Callable[[np.random.Generator, Callable[[], bool]], _Trial]


def _identity(case: Case, allocation: Allocation) -> int:
    """Return what names the random streams of a case: all that is drawn, and nothing else."""
    rule = rule_to_json(case.rule) if allocation == "rule" else None
    return digest([allocation, rule, case.curator.to_json(), list(case.values), [_law(law) for law in case.laws]])


def _law(law: Any) -> list[Any]:  # noqa: ANN401 - of the two kinds that there are
    return [*law.values, *law.counts] if isinstance(law, Empirical) else [law.mean]


def _equal_trial(case: Case, inspected_at: Whole, times: InspectionTimes) -> _Play:
    arms = case.question.arms
    each = -(-inspected_at // arms)
    new = np.diff(each, prepend=0)
    pulls = np.repeat(each[:, None].astype(float), arms, axis=1)
    missing, judged = np.rint(pulls * case.missing_each), judge(case.curator)

    def trial(rng: np.random.Generator, _: Callable[[], bool]) -> _Trial:
        totals = np.cumsum(_sums(rng, case, new), axis=0, dtype=float)
        moment, arm = first_separated(judged, pulls, totals, missing, case.alphas)
        at_users = np.full(arms, (times.users or 0) / arms)
        if moment < 0:
            return inf, -1, pulls[-1], at_users
        return float(inspected_at[moment]), arm, pulls[moment], at_users

    return trial


def _sums(rng: np.random.Generator, case: Case, new: Whole) -> NDArray[Any]:
    """Draw the sum of the new responses of each arm, for each inspection."""
    mechanism = case.curator.mechanism
    if is_bits(mechanism) and not case.sees_rewards:
        chances = [mechanism.response_mean(value) for value in case.values]
        return np.stack([rng.binomial(new, chance) for chance in chances], axis=1)
    columns = []
    for law in case.laws:
        if isinstance(law, Bernoulli):
            values = rng.binomial(new, law.p).astype(float)
        elif isinstance(law, Empirical):
            shares = np.array(law.counts, dtype=float)
            values = rng.multinomial(new, shares / shares.sum()) @ np.array(law.values)
        else:
            raise NotImplementedError(type(law))
        if not case.sees_rewards:
            noise = rng.standard_gamma(new.astype(float)) - rng.standard_gamma(new.astype(float))
            values = values + noise / mechanism.epsilon
        columns.append(values)
    return np.stack(columns, axis=1)


def _rule_trial(case: Case, inspected_at: Whole, times: InspectionTimes) -> _Play:
    arms, judged = case.question.arms, judge(case.curator)
    advance = (compile_leaps if leaps(case) else compile_steps)(case.algorithm, case.laws)
    reads = reading_of(case.rule) is not None
    users = min(times.users or 0, int(inspected_at[-1]))

    def trial(rng: np.random.Generator, is_stopped: Callable[[], bool]) -> _Trial:
        pulls, totals = np.zeros(arms), np.zeros(2 * arms if reads else arms)
        responses = totals[arms:] if reads else totals
        first, arm, then, at_users, t = inf, -1, pulls, pulls, 0
        for moment in inspected_at.tolist():
            advance(rng, pulls, totals, t, moment)
            t = moment
            if arm < 0:
                missing = np.rint(pulls * case.missing_each)
                _, arm = first_separated(judged, pulls[None], responses[None], missing[None], case.alphas)
                if arm >= 0:
                    first, then = float(t), pulls.copy()
            if t == users:
                at_users = pulls.copy()
            if (arm >= 0 and t >= users) or is_stopped():
                break
        return first, arm, then.copy(), at_users.copy()

    return trial
