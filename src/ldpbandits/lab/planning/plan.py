"""A plan: a row for each epsilon and allocation, a verdict for each epsilon, and the odds of an attacker."""

from dataclasses import asdict, dataclass, field
from math import tanh
from typing import Any

from ldpbandits.lab.planning.case import Allocation
from ldpbandits.lab.planning.question import Question
from ldpbandits.lab.planning.trials import Outcome
from ldpbandits.spec.curator import Guarantee

QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Standing:
    """The state of an experiment at one time, on average over the trials."""

    regret: float
    """The regret until then, in rewards."""
    best_share: float
    """The share of the users who saw the best arm until then."""
    half_width: float
    """Half the width of the interval of an arm at the baseline, in rewards."""


@dataclass(frozen=True)
class WithUsers:
    """The state of an experiment after the responses of all users."""

    power: float
    """The share of trials in which the best arm is separated by then."""
    standing: Standing | None
    """None where nothing was played."""
    smallest_lift: float | None
    """The smallest lift that is found with the power that is asked for; None: none up to 1,000 % is."""


@dataclass(frozen=True)
class Row:
    """The numbers that trials of one case have shown. Without an epsilon there is no privacy.

    Where nothing was played the best arm is never separated, however many respond.
    """

    epsilon: float | None
    allocation: Allocation
    rule: str
    """The name of the rule that allocates the pulls, or `equal shares`."""
    trials: int = 0
    last: int = 0
    """The responses up to which they were played: a number of responses that is None is larger."""
    closed_form: int | None = None
    """The forecast of the responses until the best arm is separated, without trials."""
    textbook: int | None = None
    """In equal shares: the responses that a test of two arms takes, made once, at the end."""
    quantiles: tuple[int | None, ...] = (None,) * len(QUANTILES)
    """The responses by which the best arm is separated in 10 %, 50 % and 90 % of the trials."""
    needed: int | None = None
    """The same for as many of the trials as the power that is asked for."""
    wrong: float | None = None
    """The share of trials in which another arm than the best was separated."""
    standing: Standing | None = None
    """The state at separation; a trial without separation counts with its last state."""
    with_users: WithUsers | None = None
    outcome: Outcome | None = field(default=None, repr=False, compare=False)
    """The trials behind the numbers of this row."""

    @property
    def is_cut(self) -> bool:
        """Tell whether some trials were played no further before the best arm was separated."""
        return self.outcome is not None and self.outcome.power(self.last) < 1

    def to_json(self) -> dict[str, Any]:
        """Return a row of `ldpbandits plan --json`."""
        users = self.with_users
        return {
            "epsilon": self.epsilon,
            "allocation": self.allocation,
            "rule": self.rule if self.allocation == "rule" else None,
            "trials": self.trials,
            "played_to": self.last,
            "responses": {
                **{f"{100 * share:.0f}%": at for share, at in zip(QUANTILES, self.quantiles, strict=True)},
                "power": self.needed,
                "closed_form": self.closed_form,
                "textbook": self.textbook,
            },
            "wrong": self.wrong,
            "is_cut": self.is_cut,
            "then": None if self.standing is None else asdict(self.standing),
            "with_users": None if users is None else asdict(users),
        }


@dataclass(frozen=True, repr=False)
class Plan:
    """The cost of each epsilon, in responses and regret.

    >>> from ldpbandits.lab import plan
    >>> made = plan(baseline=0.3, lift=1.0, epsilon=4, trials=10, seed=1)
    >>> made.row(4.0, "equal").needed, made.row(4.0, "equal").textbook
    (538, 86)
    """

    question: Question
    rows: tuple[Row, ...]
    smallest_epsilon: dict[Allocation, float | None] | None
    """With users, the smallest epsilon that is feasible, by allocation; None in it: none is."""
    seconds: float

    def row(self, epsilon: float | None, allocation: Allocation = "rule") -> Row:
        """Return the row of an epsilon; without one, that of no privacy."""
        return next(row for row in self.rows if (row.epsilon, row.allocation) == (epsilon, allocation))

    @property
    def verdicts(self) -> tuple[str, ...]:
        """A sentence for each epsilon."""
        epsilons = self.question.epsilons
        return tuple(verdict(self.question, self.row(each), self.row(each, "equal")) for each in epsilons)

    @property
    def reverse(self) -> str | None:
        """The other way round, with users: which epsilon they are enough for."""
        rule = self.row(self.question.epsilons[0]).rule
        return None if self.smallest_epsilon is None else reverse(self.question, self.smallest_epsilon, rule)

    @property
    def odds(self) -> tuple[Guarantee, ...]:
        """The promise at each epsilon: how much likelier a response may be, and how often a guess is right."""
        return tuple(Guarantee(epsilon, 1.0, "any two rewards") for epsilon in self.question.epsilons)

    def to_json(self) -> dict[str, Any]:
        """Return what `ldpbandits plan --json` prints."""
        asked, least = self.question, self.smallest_epsilon
        return {
            "baseline": asked.baseline,
            "lift": asked.lift,
            "best": asked.best,
            "range": [asked.declared.low, asked.declared.high],
            "arms": asked.arms,
            "curator": asked.curator,
            "users": asked.users,
            "missing": asked.missing,
            "power": asked.power,
            "confidence": asked.confidence,
            "seed": asked.seed,
            "seconds": self.seconds,
            "rows": [row.to_json() for row in self.rows],
            "verdicts": dict(zip(map(str, asked.epsilons), self.verdicts, strict=True)),
            "smallest_epsilon": None if least is None else {str(name): epsilon for name, epsilon in least.items()},
            "reverse": self.reverse,
            "odds": [
                {"epsilon": each.epsilon, "likelier_by": each.factor, "right_at_most": each.right_at_most}
                for each in self.odds
            ],
        }

    def __repr__(self) -> str:
        """Show the question and the verdicts."""
        asked = self.question
        told = "; ".join(self.verdicts)
        return f"<Plan of {asked.arms} arms, {asked.baseline:g} against {asked.best:g}: {told}>"


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
    """Write a number with two significant digits, rounded up, because it is a number that must be reached.

    >>> about(401_000), about(87), about(1_234)
    ('410,000', '87', '1,300')
    """
    whole = -int(-number // 1)
    unit = 10 ** max(len(str(whole)) - 2, 0)
    return f"{-(-whole // unit) * unit:,}"


def percent(part: float) -> str:
    """Write a share in percent, with two significant digits.

    >>> percent(0.1), percent(0.0234), percent(1.5), percent(0.0)
    ('10 %', '2.3 %', '150 %', '0 %')
    """
    return f"{float(f'{100 * part:.2g}'):g} %"
