"""A plan in a sentence: feasible with how many responses, and if not with those that there are, what would be."""

from math import tanh

from ldpbandits.lab.planning.case import Allocation
from ldpbandits.lab.planning.question import Question
from ldpbandits.lab.planning.rows import Row


def verdict(question: Question, rule: Row, equal: Row) -> str:
    """Say for one epsilon whether the lift can be found, by the rule and in equal shares."""
    at = f"at epsilon {rule.epsilon:g}"
    if not equal.trials:
        return f"not feasible {at}, however many respond: {_why_never(question, equal)}"
    if equal.needed is None:
        needed = f"not feasible {at}: in equal shares {_late(equal)}"
    elif rule.needed is None:
        needed = f"feasible with {about(equal.needed)} responses {at} in equal shares; by {rule.rule} {_late(rule)}"
    else:
        alike = f"with {about(equal.needed)} in equal shares"
        needed = f"feasible with {about(rule.needed)} responses {at} by {rule.rule}, {alike}"
    return needed if question.users is None else f"{needed}; {_with_users(question, rule, equal)}"


def _with_users(question: Question, rule: Row, equal: Row) -> str:
    users = f"{question.users:,}"
    by_rule, alike = (row.with_users is not None and row.with_users.power >= question.power for row in (rule, equal))
    if by_rule and alike:
        return f"so with {users}, too: the smallest lift you would see is {_lifts(rule, equal)}"
    if by_rule or alike:
        row = rule if by_rule else equal
        only = f"by {rule.rule}" if by_rule else "in equal shares"
        return f"with {users} {only} only: the smallest lift you would see is {_lift(row)} there"
    return f"not with {users}: the smallest lift you would see is {_lifts(rule, equal)}"


def _lifts(rule: Row, equal: Row) -> str:
    return f"{_lift(equal)} in equal shares, {_lift(rule)} by {rule.rule}"


def _lift(row: Row) -> str:
    lift = None if row.with_users is None else row.with_users.smallest_lift
    return "none at all" if lift is None else percent(lift)


def _late(row: Row) -> str:
    """Say that it takes longer than was played, and about how long by the forecast."""
    told = "" if row.closed_form is None else f", about {about(row.closed_form)} by the forecast"
    return f"it takes more than {row.last:,}{told}"


def _why_never(question: Question, row: Row) -> str:
    """Say how many answers may be missing: as many as leave a gap if all of one arm's were 0 and all of another's 1."""
    gap = (question.best - question.of(0.0)) / (question.declared.high - question.declared.low)
    seen = gap * tanh((row.epsilon or 0) / 2) if question.curator == "ctb" else gap
    return (
        f"with {100 * question.missing:.4g} % of the answers missing, those might change the order; "
        f"at most {percent(seen / (1 + seen))} may be missing"
    )


def reverse(question: Question, smallest: dict[Allocation, float | None], rule: str) -> str:
    """Say the other way round which epsilon the users are enough for."""
    told = {allocation: _epsilon(epsilon) for allocation, epsilon in smallest.items()}
    if smallest["rule"] is None and smallest["equal"] is None:
        return f"with {question.users:,} users no epsilon is feasible"
    return (
        f"with {question.users:,} users the smallest feasible epsilon is {told['equal']} in equal shares, "
        f"{told['rule']} by {rule}"
    )


def _epsilon(epsilon: float | None) -> str:
    return "none at all" if epsilon is None else f"{epsilon:.2g}"


def about(number: float) -> str:
    """Write a number with two digits that count, rounded up: what is needed is not to be missed.

    >>> about(401_000), about(87), about(1_234)
    ('410,000', '87', '1,300')
    """
    whole = -int(-number // 1)
    unit = 10 ** max(len(str(whole)) - 2, 0)
    return f"{-(-whole // unit) * unit:,}"


def percent(part: float) -> str:
    """Write a share in percent, with two digits that count.

    >>> percent(0.1), percent(0.0234), percent(1.5), percent(0.0)
    ('10 %', '2.3 %', '150 %', '0 %')
    """
    return f"{float(f'{100 * part:.2g}'):g} %"
