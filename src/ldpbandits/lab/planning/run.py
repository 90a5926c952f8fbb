"""Answer a question: forecasts, trials, and the searches the other way round."""

import time
from collections.abc import Sequence
from dataclasses import replace
from math import inf, isfinite, sqrt

import numpy as np

from ldpbandits.agent.bound_rule import bind_rule
from ldpbandits.agent.separation import ALPHA
from ldpbandits.checks import check_count
from ldpbandits.lab.planning.answer import Plan
from ldpbandits.lab.planning.case import ALLOCATIONS, Allocation, Case
from ldpbandits.lab.planning.question import Question, question
from ldpbandits.lab.planning.rows import QUANTILES, Row, Standing, WithUsers
from ldpbandits.lab.planning.search import smallest_epsilon, smallest_lift
from ldpbandits.lab.planning.trials import EARLY, Floats, Looks, Progress, last_look, leaps, play

EQUAL_TRIALS = 400
FEWEST, MOST = 25, 1000
LEAPS, ROUNDS = 25_000, 4 * 10**7
"""What a few seconds are enough for with two arms: trials times the cube root of the responses that each takes, which
the time of leaps goes with; and rounds that are played one by one, in all. With more arms it takes longer."""

HOPELESS = 4
"""Where it should take so many times as long as is played, the fewest trials show what there is to see."""


def plan(  # noqa: PLR0913 - a question has many parts
    baseline: float | None = None,
    lift: float = 0.0,
    *,
    seed: int,
    arms: int = 2,
    epsilon: float | Sequence[float] = (0.5, 1.0, 2.0, 4.0),
    users: int | None = None,
    power: float = 0.8,
    confidence: float = 1 - ALPHA,
    rule: object = None,
    missing: float = 0.0,
    curator: str = "ctb",
    data: str | None = None,
    declared: tuple[float, float] = (0.0, 1.0),
    trials: int | None = None,
    horizon: int | None = None,
    jobs: int | None = None,
    progress: Progress = lambda _: None,
) -> Plan:
    """Say how many responses it takes, at each epsilon, until the best of some arms is separated.

    All arms have the baseline's mean reward, except one that is better by the lift: 0.1 for 10 %. `data` names a file
    of past rewards in the place of a baseline, in the range that is `declared`. The same seed gives the same numbers.
    `progress` is called with the part that is done, from 0 to 1.

    >>> plan(baseline=0.3, lift=1.0, epsilon=4, trials=10, seed=1).verdicts
    ('feasible with 47,000 responses at epsilon 4 by kl-ucb++, with 540 in equal shares',)
    """
    asked = question(
        baseline=baseline,
        lift=lift,
        arms=arms,
        epsilons=epsilon,
        users=users,
        power=power,
        confidence=confidence,
        rule=rule,
        missing=missing,
        curator=curator,
        data=data,
        declared=declared,
        trials=trials,
        seed=seed,
        horizon=horizon,
    )
    return answer(asked, jobs=None if jobs is None else check_count("jobs", jobs), progress=progress)


def answer(asked: Question, *, jobs: int | None = None, progress: Progress = lambda _: None) -> Plan:
    """Answer a question."""
    start = time.perf_counter()
    cases = [Case(asked, epsilon, asked.lift) for epsilon in (*asked.epsilons, None)]
    for case in cases:
        bind_rule(case.rule, case.menu)  # a rule that does not fit is refused before anything is played
    parts = [(case, allocation) for case in cases for allocation in ALLOCATIONS]
    steps = _Steps(progress, len(parts) if asked.users is None else 2 * len(parts) + len(ALLOCATIONS))
    rows = [_row(case, allocation, jobs, steps.next()) for case, allocation in parts]
    least = None
    if asked.users is not None:
        for number, (case, allocation) in enumerate(parts):
            steps.next()
            rows[number] = _add_users(rows[number], case, smallest_lift(asked, case.epsilon, allocation, jobs))
        least = {}
        for allocation in ALLOCATIONS:
            steps.next()
            least[allocation] = smallest_epsilon(asked, allocation, jobs)
    progress(1.0)
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


def _row(case: Case, allocation: Allocation, jobs: int | None, progress: Progress) -> Row:
    asked, name = case.question, case.rule_name if allocation == "rule" else "equal shares"
    alike = case.closed_form("equal")
    if alike is None:  # never, however many respond
        return Row(case.epsilon, allocation, name)
    expected = alike if allocation == "equal" else case.closed_form(allocation)
    # Of a rule that nothing is known of it is known that it is later than equal shares.
    last = max(last_look(case, allocation, _rounded(expected or inf)), asked.responses or 0)
    first = _rounded(expected or alike) / EARLY[allocation]
    looks = Looks(_trials(case, allocation, expected, last), first, last, asked.responses)
    outcome = play(case, allocation, looks, jobs, progress)
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
    """Return how many trials to play: as many as are asked for, or as take a few seconds. Equal shares cost little."""
    asked = case.question
    if allocation == "equal":
        return max(EQUAL_TRIALS, asked.trials or 0)
    if asked.trials is not None:
        return asked.trials
    if expected is None or expected > HOPELESS * last:
        return FEWEST
    arms, each = sqrt(asked.arms / 2), _rounded(min(expected, last))
    affordable = LEAPS / each ** (1 / 3) if leaps(case) else ROUNDS / each
    return int(min(max(affordable / arms, FEWEST), MOST))


def _rounded(responses: float) -> float:
    """Round to one digit that counts: when trials are looked at must not hang on the last digits of a forecast."""
    return float(f"{responses:.0e}")


def _known(responses: float) -> int | None:
    return int(responses) if isfinite(responses) else None
