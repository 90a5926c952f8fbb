"""The search for a threshold on a live server: each step is an experiment of its own, `NAME-calibration-1`, `-2`, ...

All of them have the arms of the experiment proper, and CTB behind the threshold of their step; arms are assigned in
turn. A step is closed once its tally decides it, and only then is its tally read for good: a closed experiment counts
nothing more. The search is therefore a function of the server's stored data. The process that runs it may be killed at
any time and start again: it goes through the closed steps as before, and takes up the one that is open. Each response
is counted once, as ever. A response that is pending when its step is closed is refused, though its user has spent
epsilon.

It sees tallies only.
"""

from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from itertools import count
from typing import TypeVar

from ldpbandits.admin.admin import Admin
from ldpbandits.admin.messages import Report
from ldpbandits.agent.bisection import Bisection
from ldpbandits.agent.rules import UCB
from ldpbandits.errors import ParameterError, ServerError
from ldpbandits.net import UNREACHABLE
from ldpbandits.spec.protocol import Code

IN_TURN = UCB(width=1e6)
"""An interval as wide as a server takes it: the arm with the fewest pulls always leads."""

Answer = TypeVar("Answer")


def search_live(  # noqa: PLR0913 - whom to ask what, and how to pass the time
    admin: Admin,
    name: str,
    arms: Sequence[str],
    search: Bisection,
    *,
    wait: Callable[[], None],
    tell: Callable[[str, Bisection], None] = lambda _step, _search: None,
    report_after: float | None = None,
) -> Bisection:
    """Bring a search from its start to its end by the users of a server; `wait` is called between two looks.

    `tell` is called at each step that is open, with the name that devices have to ask for. They report after
    `report_after` seconds; None is the server's default.
    """
    for number in count(1):
        if search.done:
            break
        step = f"{name}-calibration-{number}"
        create = partial(
            admin.create, step, arms, curator=search.curator, rule=IN_TURN, report_after=report_after, sticky=0
        )
        _unless(Code.EXISTS, create, wait)
        _check(_patiently(partial(admin.show, step), wait), arms, search)
        is_told = False
        while _patiently(partial(admin.show, step), wait).status != "closed":
            if not is_told:
                tell(step, search)
                is_told = True
            after = search.count(*_tally(admin, step, wait))
            if after.done or after.step > search.step:
                _unless(Code.CLOSED, partial(admin.close, step), wait)
            else:
                wait()
        search = search.count(*_tally(admin, step, wait))
    return search


def _check(step: Report, arms: Sequence[str], search: Bisection) -> None:
    """Refuse a step that was left by another search."""
    if step.curator != search.curator.to_json() or [arm.name for arm in step.arms] != list(arms):
        raise ParameterError(f"the server has a {step.name} of another calibration: choose another name")


def _tally(admin: Admin, step: str, wait: Callable[[], None]) -> tuple[int, int]:
    """Return how many responses there are, and how many of them are ones."""
    rows = _patiently(partial(admin.tallies, step), wait).arms
    return sum(row.pulls for row in rows), sum(row.total for row in rows)


def _unless(code: Code, change: Callable[[], object], wait: Callable[[], None]) -> None:
    """Ask for a change, unless the server says that it is done: an answer may have been lost."""
    try:
        _patiently(change, wait)
    except ServerError as error:
        if error.code != code:
            raise


def _patiently(ask: Callable[[], Answer], wait: Callable[[], None]) -> Answer:
    """Ask again while the server is away: it may be started again."""
    while True:
        try:
            return ask()
        except ServerError as error:
            if error.code != UNREACHABLE and error.status != HTTPStatus.SERVICE_UNAVAILABLE:
                raise
        wait()
