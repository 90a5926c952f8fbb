"""The planner: answers a question by forecasts and trials, and searches the smallest lift and epsilon for its users.

A search starts at the forecast and ends by trials: the value that it finds is enough by the trials, and within 3 % of
one that is not, as far as SEARCH_TRIALS trials tell.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import update_wrapper
from inspect import signature
from math import inf, isfinite, sqrt
from typing import ParamSpec

import numpy as np

from ldpbandits.agent.bound_rule import bind_rule
from ldpbandits.checks import LARGEST_EPSILON, SMALLEST_EPSILON
from ldpbandits.lab.planning.case import Allocation, Case, allocations
from ldpbandits.lab.planning.plan import QUANTILES, Plan, Row, Standing, WithUsers
from ldpbandits.lab.planning.question import Progress, Question
from ldpbandits.lab.planning.trials import (
    FIRST_INSPECTION_DIVISOR,
    Floats,
    InspectionTimes,
    is_in_blocks,
    last_inspection,
    leaps,
    play,
)

EQUAL_TRIALS = 400
"""Trials that are drawn in blocks, at least."""

MIN_RULE_TRIALS, MAX_RULE_TRIALS = 25, 1000
"""Trials of a rule, where the question does not say how many."""

LEAP_BUDGET, ROUND_BUDGET = 25_000, 4 * 10**7
"""The work of a few seconds with two arms: trials times the cube root of the responses of each, to which the time of
leaps is proportional; and the total of rounds that are played one by one. More arms take longer."""

HOPELESS_FACTOR = 4
"""Where the forecast exceeds the horizon by this factor, the smallest number of trials shows all there is to see."""

SEARCH_FACTOR = 1.25
"""A search by trials steps away from the forecast by this factor."""

MAX_SEARCH_STEPS = 8
BISECTION_STEPS = 4

SEARCH_TRIALS, SEARCH_BLOCK_TRIALS = 80, 200
"""Trials of each value of a search, of a rule and in blocks: the standard error of their power is 0.045, and 0.028."""

SEARCH_ROUND_BUDGET, MIN_SEARCH_TRIALS = 10**7, 20
"""The rounds that the trials of one value may take where each round is played, and the fewest trials that tell."""

MAX_LIFT = 10.0
"""The largest lift of a search: a larger one shows without statistics."""

SEARCH_INSPECTION_DIVISOR, SEARCH_INSPECTION_STEP = 16, 1.1
"""A search first inspects its trials at the responses divided by the one, then at times that grow by the other: few
verdicts are reached between two inspections and no longer at the end."""


P = ParamSpec("P")


def _asks(make: Callable[P, Question]) -> Callable[[Callable[[Question], Plan]], Callable[P, Plan]]:
    """Give a function of a question the parameters of the question, so that they are listed in one place."""

    def decorate(function: Callable[[Question], Plan]) -> Callable[P, Plan]:
        def call(*args: P.args, **kwargs: P.kwargs) -> Plan:
            return function(make(*args, **kwargs))

        update_wrapper(call, function, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
        call.__signature__ = signature(make).replace(return_annotation=Plan)  # type: ignore[attr-defined]
        return call

    return decorate


@_asks(Question)
def plan(asked: Question) -> Plan:
    """Say how many responses it takes, at each epsilon, until the verdict: which of some arms is the best.

    All arms have the baseline's mean reward, except one that is better by the lift: 0.1 for 10 %. The parameters are
    the fields of `Question`, where each is described. The same seed gives the same numbers. `progress` is called with
    the part that is done, from 0 to 1.

    >>> plan(baseline=0.3, lift=1.0, epsilon=4, trials=10, seed=1).answer
    'Yes: by duels you would see a lift of 100 % with 250 responses at epsilon 4, 240 without privacy.'
    """
    return answer(asked)


def answer(asked: Question) -> Plan:
    """Answer a question by forecasts, trials and, with users, searches; rules that do not fit are refused first."""
    start = time.perf_counter()
    cases = [Case(asked, epsilon, asked.lift) for epsilon in (*asked.epsilons, None)]
    for case in cases:
        bind_rule(case.rule, case.menu)  # a rule that does not fit is refused before anything is played
    compared = allocations(asked)
    parts = [(case, allocation) for case in cases for allocation in compared]
    steps = _Steps(asked.progress, len(parts) if asked.users is None else 2 * len(parts) + len(compared))
    rows = [_row(case, allocation, steps.next()) for case, allocation in parts]
    least = None
    if asked.users is not None:
        for number, (case, allocation) in enumerate(parts):
            steps.next()
            rows[number] = _add_users(rows[number], case, smallest_lift(asked, case.epsilon, allocation))
        least = {}
        for allocation in compared:
            steps.next()
            least[allocation] = smallest_epsilon(asked, allocation)
    asked.progress(1.0)
    return Plan(asked, tuple(rows), least, time.perf_counter() - start)


class _Steps:
    """Counts the steps of an answer, and tells how much of all is done."""

    def __init__(self, progress: Progress, count: int) -> None:
        self._progress, self._count, self._begun = progress, count, 0

    def next(self) -> Progress:
        """Begin a step; return the function to call with how much of it is done."""
        done, self._begun = self._begun, self._begun + 1

        def tell(part: float) -> None:
            self._progress((done + part) / self._count)

        tell(0.0)
        return tell


def _row(case: Case, allocation: Allocation, progress: Progress) -> Row:
    asked, name = case.question, case.name_of(allocation)
    alike = case.closed_form("equal")
    if alike is None:  # never, however many respond
        return Row(case.epsilon, allocation, name)
    expected = case.closed_form(allocation)
    # A rule without a forecast reaches the verdict later than equal shares do.
    last = max(last_inspection(case, allocation, _rounded(expected or inf)), asked.responses or 0)
    first = _rounded(expected or alike) / FIRST_INSPECTION_DIVISOR
    times = InspectionTimes(_trials(case, allocation, expected, last), first, last, asked.responses)
    outcome = play(case, allocation, times, progress)
    return Row(
        case.epsilon,
        allocation,
        name,
        trials=len(outcome.first),
        last=outcome.last,
        closed_form=expected,
        textbook=case.textbook() if allocation == "equal" else None,
        quantiles=tuple(_known(outcome.quantile(share)) for share in QUANTILES),
        needed=_known(outcome.quantile(asked.power)),
        wrong=float(np.mean((outcome.arm >= 0) & (outcome.arm < asked.arms - 1))),
        standing=_standing(case, outcome.then),
        outcome=outcome,
    )


def _add_users(row: Row, case: Case, lift: float | None) -> Row:
    """Add how things stand when all users have answered, and the smallest lift that they would show."""
    outcome, responses = row.outcome, case.question.responses or 0
    if outcome is None or outcome.with_users is None:
        return replace(row, with_users=WithUsers(0.0, None, lift))
    return replace(row, with_users=WithUsers(outcome.power(responses), _standing(case, outcome.with_users), lift))


def _standing(case: Case, pulls: Floats) -> Standing:
    """Return what the pulls of all trials amount to; those whose answer is missing saw an arm as well."""
    shown = pulls * (1 + case.missing_each)
    return Standing(
        regret=float((shown @ case.gaps).mean()),
        best_share=float((pulls[:, -1] / pulls.sum(axis=1)).mean()),
        half_width=case.half_width(float(pulls[:, 0].mean())),
    )


def _trials(case: Case, allocation: Allocation, expected: int | None, last: int) -> int:
    """Return how many trials to play: as many as are asked for, or as take a few seconds. Blocks cost little."""
    asked = case.question
    if is_in_blocks(case, allocation):
        return max(EQUAL_TRIALS, asked.trials or 0)
    if asked.trials is not None:
        return asked.trials
    if expected is None or expected > HOPELESS_FACTOR * last:
        return MIN_RULE_TRIALS
    arms, each = sqrt(asked.arms / 2), _rounded(min(expected, last))
    affordable = LEAP_BUDGET / each ** (1 / 3) if leaps(case, allocation) else ROUND_BUDGET / each
    return int(min(max(affordable / arms, MIN_RULE_TRIALS), MAX_RULE_TRIALS))


def _rounded(responses: float) -> float:
    """Round to one digit that counts: inspection times must not depend on the last digits of a forecast."""
    return float(f"{responses:.0e}")


def _known(responses: float) -> int | None:
    return int(responses) if isfinite(responses) else None


def smallest_lift(question: Question, epsilon: float | None, allocation: Allocation) -> float | None:
    """Return the smallest lift that the users are enough for; None if none is, up to 1,000 %."""
    most = min(question.largest_lift, MAX_LIFT)
    return _smallest(question, lambda lift: Case(question, epsilon, lift), allocation, (most / 1e4, most))


def smallest_epsilon(question: Question, allocation: Allocation) -> float | None:
    """Return the smallest epsilon at which the lift is found by these users; None if there is none."""
    within = SMALLEST_EPSILON, LARGEST_EPSILON
    return _smallest(question, lambda epsilon: Case(question, epsilon, question.lift), allocation, within)


def _smallest(
    question: Question, case_of: Callable[[float], Case], allocation: Allocation, within: tuple[float, float]
) -> float | None:
    responses = question.responses or 0
    first, step = responses / SEARCH_INSPECTION_DIVISOR, SEARCH_INSPECTION_STEP
    trials = _search_trials(case_of(within[1]), allocation, responses)
    times = InspectionTimes(trials, first, responses, step=step)

    def should_be_enough(x: float) -> bool:
        return case_of(x).closed_form(allocation, beyond=responses) is not None

    def is_enough(x: float) -> bool:
        return play(case_of(x), allocation, times).power(responses) >= question.power

    guess = _forecast(should_be_enough, within)
    return guess if guess is None or not trials else _by_trials(is_enough, guess, within)


def _search_trials(case: Case, allocation: Allocation, responses: int) -> int:
    """Return the trials of each value of a search; 0 where rounds would take too long, and the forecast has to do."""
    if is_in_blocks(case, allocation):
        return SEARCH_BLOCK_TRIALS
    if leaps(case, allocation):
        return SEARCH_TRIALS
    affordable = int(min(SEARCH_ROUND_BUDGET / max(responses, 1), SEARCH_TRIALS))
    return affordable if affordable >= MIN_SEARCH_TRIALS else 0


def _forecast(is_enough: Callable[[float], bool], within: tuple[float, float]) -> float | None:
    """Find the smallest value that should be enough: by doubling, then by halves.

    From below, because at the far end it may be too much: an arm that always pays ends all pulls of the others.
    """
    least, most = within
    above = least
    while not is_enough(above):
        if above >= most:
            return None
        least, above = above, min(2 * above, most)
    while above > least * 1.01:
        middle = sqrt(least * above)
        least, above = (least, middle) if is_enough(middle) else (middle, above)
    return above


def _by_trials(is_enough: Callable[[float], bool], guess: float, within: tuple[float, float]) -> float | None:
    """Find the smallest value that is enough near a guess: in steps as long as it goes, then by halves."""
    least, most = within
    below, above = guess, guess
    if is_enough(guess):
        for _ in range(MAX_SEARCH_STEPS):
            below = max(above / SEARCH_FACTOR, least)
            if below == above or not is_enough(below):
                break
            above = below
    else:
        for _ in range(MAX_SEARCH_STEPS):
            above = min(below * SEARCH_FACTOR, most)
            if is_enough(above):
                break
            if above == most:
                return None
            below = above
    for _ in range(BISECTION_STEPS if below < above else 0):
        middle = sqrt(below * above)
        below, above = (below, middle) if is_enough(middle) else (middle, above)
    return above
