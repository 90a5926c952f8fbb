"""The other way round: the smallest lift, or the smallest epsilon, that so many responses are enough for.

The forecast says where to look; trials say where it is. What is found is enough by the trials, and is within 3 % of
what is not, as far as so many trials tell.
"""

from collections.abc import Callable
from math import sqrt

from ldpbandits.checks import LARGEST_EPSILON, SMALLEST_EPSILON
from ldpbandits.lab.planning.case import Allocation, Case
from ldpbandits.lab.planning.question import Question
from ldpbandits.lab.planning.trials import Looks, play

AROUND = 1.25
"""How far from the forecast to look first, and how far to go at a time."""

HALVINGS = 4
MOST_STEPS = 8
"""Of AROUND, in either direction."""

TRIALS = {"rule": 80, "equal": 200}
"""Trials of each value that is tried: of the share that is separated the standard error is 0.045, and 0.028."""

MOST_LIFT = 10.0
"""Nobody needs statistics to see a larger one."""

EARLIEST, STEP = 16, 1.1
"""The first look is at this part of the responses, each later one so much later: few are separated between two looks
and no longer at the end."""


def smallest_lift(question: Question, epsilon: float | None, allocation: Allocation, jobs: int | None) -> float | None:
    """Return the smallest lift that the users are enough for; None if none is, up to 1,000 %."""
    most = min(question.largest_lift, MOST_LIFT)
    return _smallest(
        question,
        lambda lift: Case(question, epsilon, lift),
        allocation,
        (most / 1e4, most),
        jobs,
    )


def smallest_epsilon(question: Question, allocation: Allocation, jobs: int | None) -> float | None:
    """Return the smallest epsilon at which the lift is found by these users; None if there is none."""
    return _smallest(
        question,
        lambda epsilon: Case(question, epsilon, question.lift),
        allocation,
        (SMALLEST_EPSILON, LARGEST_EPSILON),
        jobs,
    )


def _smallest(
    question: Question,
    case_of: Callable[[float], Case],
    allocation: Allocation,
    within: tuple[float, float],
    jobs: int | None,
) -> float | None:
    responses = question.responses or 0

    def should_be_enough(x: float) -> bool:
        return case_of(x).closed_form(allocation, beyond=responses) is not None

    def is_enough(x: float) -> bool:
        looks = Looks(TRIALS[allocation], responses / EARLIEST, responses, step=STEP)
        return play(case_of(x), allocation, looks, jobs).power(responses) >= question.power

    guess = _forecast(should_be_enough, within)
    return None if guess is None else _by_trials(is_enough, guess, within)


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
        for _ in range(MOST_STEPS):
            below = max(above / AROUND, least)
            if below == above or not is_enough(below):
                break
            above = below
    else:
        for _ in range(MOST_STEPS):
            above = min(below * AROUND, most)
            if is_enough(above):
                break
            if above == most:
                return None
            below = above
    for _ in range(HALVINGS if below < above else 0):
        middle = sqrt(below * above)
        below, above = (below, middle) if is_enough(middle) else (middle, above)
    return above
