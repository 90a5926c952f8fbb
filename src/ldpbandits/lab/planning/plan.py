"""A plan: its answer in a sentence, a row for each epsilon and allocation, and tables that show them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from math import ceil, inf, tanh
from typing import TYPE_CHECKING, Any

from ldpbandits.lab.planning.case import FAIR, Allocation
from ldpbandits.lab.planning.question import Question
from ldpbandits.lab.planning.trials import Outcome
from ldpbandits.output.frames import frame
from ldpbandits.output.numbers import about, percent
from ldpbandits.spec.curator import Guarantee
from ldpbandits.spec.transforms import Range

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUANTILES = (0.1, 0.5, 0.9)
ONE_LOOK = "one look"
"""The row of a test that is made once, at the end, of responses in equal shares."""

MAX_DAYS = 36_500
"""Dates beyond a century are not written."""

ALPHABET = 26
CLEARLY = 0.9
"""Equal shares are preferred to duels where they need less than this part of the responses."""


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
    """The share of trials that are decided by then."""
    standing: Standing | None
    """None where nothing was played."""
    smallest_lift: float | None
    """The smallest lift that is found with the power that is asked for; None: none up to 1,000 % is."""


@dataclass(frozen=True)
class Row:
    """The numbers that trials of one case have shown. Without an epsilon there is no privacy.

    Where nothing was played the verdict is never reached, however many respond.
    """

    epsilon: float | None
    allocation: Allocation
    rule: str
    """The name of the rule that allocates the pulls."""
    trials: int = 0
    last: int = 0
    """The responses up to which they were played: a number of responses that is None is larger."""
    closed_form: int | None = None
    """The forecast of the responses until the verdict, without trials."""
    textbook: int | None = None
    """In equal shares: the responses that a test of two arms takes, made once, at the end."""
    quantiles: tuple[int | None, ...] = (None,) * len(QUANTILES)
    """The responses by which 10 %, 50 % and 90 % of the trials are decided."""
    needed: int | None = None
    """The same for as many of the trials as the power that is asked for."""
    wrong: float | None = None
    """The share of trials in which another arm than the best was declared."""
    standing: Standing | None = None
    """The state at the verdict; a trial without one counts with its last state."""
    with_users: WithUsers | None = None
    outcome: Outcome | None = field(default=None, repr=False, compare=False)
    """The trials behind the numbers of this row."""

    @property
    def is_cut(self) -> bool:
        """Tell whether some trials were played no further before the verdict."""
        return self.outcome is not None and self.outcome.power(self.last) < 1

    def to_json(self) -> dict[str, Any]:
        """Return a row of `ldpbandits plan --json`."""
        users = self.with_users
        return {
            "epsilon": self.epsilon,
            "allocation": self.allocation,
            "rule": self.rule,
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
    >>> made.row(4.0, "equal").textbook
    86
    """

    question: Question
    rows: tuple[Row, ...]
    smallest_epsilon: dict[Allocation, float | None] | None
    """With users, the smallest epsilon that is feasible, by allocation; None in it: none is."""
    seconds: float

    def row(self, epsilon: float | None, allocation: Allocation = "duels") -> Row:
        """Return the row of an epsilon; without one, that of no privacy."""
        return next(row for row in self.rows if (row.epsilon, row.allocation) == (epsilon, allocation))

    def rows_of(self, epsilon: float | None) -> tuple[Row, ...]:
        """Return the rows of an epsilon; without one, those of no privacy."""
        return tuple(row for row in self.rows if row.epsilon == epsilon)

    def best(self, epsilon: float | None) -> Row:
        """Return the row of duels; that of equal shares where these need clearly fewer responses."""
        duels, equal = (self.row(epsilon, each) for each in FAIR)
        return equal if (equal.needed or inf) < CLEARLY * (duels.needed or inf) else duels

    @property
    def answer(self) -> str:
        """Yes or no, in one sentence."""
        return answer_without_users(self) if self.question.users is None else answer_with_users(self)

    @property
    def verdicts(self) -> tuple[str, ...]:
        """A sentence for each epsilon."""
        return tuple(verdict(self.question, self.rows_of(epsilon)) for epsilon in self.question.epsilons)

    @property
    def reverse(self) -> str | None:
        """The other way round, with users: which epsilon they are enough for."""
        least = self.smallest_epsilon
        names = {row.allocation: row.rule for row in self.rows}
        return None if least is None else reverse(self.question, least, names)

    def is_enough(self, epsilon: float | None) -> bool:
        """Tell whether the lift is found at this epsilon, by a fair allocation: by the users, or by any number."""
        asked, row = self.question, self.best(epsilon)
        if asked.users is None:
            return row.needed is not None
        return row.needed is not None and row.needed <= (asked.responses or 0)

    @property
    def command(self) -> str | None:
        """The command that creates the experiment at the smallest epsilon that is enough; None where none is."""
        epsilon = next(filter(self.is_enough, self.question.epsilons), None)
        return None if epsilon is None else create_command(self.question, self.best(epsilon))

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
            "range": [asked.range.low, asked.range.high],
            "arms": asked.arms,
            "curator": asked.curator,
            "users": asked.users,
            "missing": asked.missing,
            "worst": asked.worst,
            "power": asked.power,
            "confidence": asked.confidence,
            "seed": asked.seed,
            "seconds": self.seconds,
            "rows": [row.to_json() for row in self.rows],
            "answer": self.answer,
            "command": self.command,
            "per_day": asked.per_day,
            "verdicts": dict(zip(map(str, asked.epsilons), self.verdicts, strict=True)),
            "smallest_epsilon": None if least is None else {str(name): epsilon for name, epsilon in least.items()},
            "reverse": self.reverse,
            "odds": [
                {"epsilon": each.epsilon, "likelier_by": each.factor, "right_at_most": each.right_at_most}
                for each in self.odds
            ],
        }

    def to_frame(self) -> Any:  # noqa: ANN401 - of pandas, which need not be there
        """Return a table as a pandas DataFrame: a row for each epsilon and allocation, and for the test with one look.

        An epsilon of NaN is no privacy.
        """
        rows: list[dict[str, Any]] = []
        for row in self.rows:
            reached = {f"{100 * share:.0f}%": at for share, at in zip(QUANTILES, row.quantiles, strict=True)}
            made = {"epsilon": row.epsilon, "rule": row.rule, **reached, "power": row.needed}
            then = {} if row.standing is None else asdict(row.standing)
            rows.append(made | {"forecast": row.closed_form, "wrong": row.wrong, "trials": row.trials} | then)
            if row.textbook is not None:
                rows.append({"epsilon": row.epsilon, "rule": ONE_LOOK, "power": row.textbook})
        names = dict.fromkeys(name for row in rows for name in row)
        return frame({name: [row.get(name) for row in rows] for name in names})

    def plot(self) -> "Figure":
        """Draw the responses needed against epsilon; return matplotlib's Figure, which notebooks show."""
        from ldpbandits.lab.planning.page import draw_responses  # noqa: PLC0415 - matplotlib, only for those who draw

        return draw_responses(self)

    def _repr_html_(self) -> str:
        """Return the answer, the picture and the tables, as notebooks show them."""
        from ldpbandits.lab.planning.page import fragment  # noqa: PLC0415 - as above

        return fragment(self)

    def __repr__(self) -> str:
        asked = self.question
        return f"<Plan of {asked.arms} arms, {asked.baseline:g} against {asked.best:g}: {self.answer}>"


def answer_with_users(plan: Plan) -> str:
    """Say whether the users are enough, and from which epsilon on."""
    asked = plan.question
    who, lift = f"with {asked.users:,} users", f"a lift of {percent(asked.lift)}"
    found = {"yes": [], "no": []}  # type: dict[str, list[str]]
    for epsilon in asked.epsilons:
        found["yes" if plan.is_enough(epsilon) else "no"].append(f"{epsilon:g}")
    begin = "Yes" if not found["no"] else "No" if not found["yes"] else ""
    begin = begin or f"Yes at epsilon {_listed(found['yes'])}, no at {_listed(found['no'])}"
    least = min((plan.smallest_epsilon or {}).get(each) or inf for each in FAIR)
    if least < inf and (found["yes"] or plan.is_enough(None)):  # the search forecasts, and the trials know better
        return f"{begin}: {who} you would see {lift} at epsilon {least:.2g} or more."
    if not found["no"]:
        return f"{begin}: {who} you would see {lift}."
    smallest = plan.best(None).with_users
    seen = None if smallest is None else smallest.smallest_lift
    more = "" if seen is None else f"; without privacy you would see one of {percent(seen)} or more"
    return f"{begin}: {who} you would not see {lift} at any epsilon{more}."


def answer_without_users(plan: Plan) -> str:
    """Say how many responses are enough."""
    asked, lift = plan.question, f"a lift of {percent(plan.question.lift)}"
    rows = [plan.best(epsilon) for epsilon in asked.epsilons]
    reached = [row for row in rows if row.needed is not None]
    if not reached:
        why = verdict(asked, plan.rows_of(rows[-1].epsilon))
        return f"No: {lift} is {why}."
    first, *others = (f"{about(row.needed or 0)}{{}} at epsilon {row.epsilon:g}" for row in reached)
    none = plan.best(None).needed
    told = [first.format(" responses"), *(other.format("") for other in others)]
    told += [] if none is None else [f"{about(none)} without privacy"]
    begin = "Yes" if len(reached) == len(rows) else f"Yes at epsilon {_listed([f'{row.epsilon:g}' for row in reached])}"
    return f"{begin}: by {reached[0].rule} you would see {lift} with {', '.join(told)}."


def verdict(question: Question, rows: Sequence[Row]) -> str:
    """Say for one epsilon whether the lift can be found, by each allocation."""
    at, equal = f"at epsilon {rows[0].epsilon:g}", next(row for row in rows if row.allocation == "equal")
    if not equal.trials:
        return f"not feasible {at}, however many respond: {_why_never(question, equal)}"
    reached = [row for row in rows if row.needed is not None]
    late = [f"by {row.rule} {_late(row)}" for row in rows if row.needed is None]
    if not reached:
        needed = f"not feasible {at}: {'; '.join(late)}"
    else:
        told = [f"{about(row.needed or 0)} responses {at} by {row.rule}" for row in reached[:1]]
        told += [f"{about(row.needed or 0)} by {row.rule}" for row in reached[1:]]
        needed = "; ".join([f"feasible with {', '.join(told)}", *late])
    return needed if question.users is None else f"{needed}; {_with_users(question, rows)}"


def _with_users(question: Question, rows: Sequence[Row]) -> str:
    users = f"{question.users:,} users"
    enough = [row.rule for row in rows if row.with_users is not None and row.with_users.power >= question.power]
    only = "" if not enough or len(enough) == len(rows) else f" by {_listed(enough)} only"
    told = ", ".join(f"{_lift(row)} by {row.rule}" for row in rows)
    return f"{'enough' if enough else 'not'} with {users}{only}: the smallest lift you would see is {told}"


def create_command(question: Question, row: Row) -> str:
    """Return the command that creates the experiment of this row."""
    names = [chr(ord("A") + arm) if arm < ALPHABET else f"arm-{arm}" for arm in range(question.arms)]
    words = ["ldpbandits experiments create my-experiment", *(f"--arm {name}" for name in names)]
    words.append(f"--epsilon {row.epsilon:g}")
    if question.range != Range():
        words.append(f"--low {question.range.low:g} --high {question.range.high:g}")
    if question.curator == "ctb":
        words.append(f"--rule {row.allocation}")
    else:
        words.append(
            f"""--mechanism laplace --rule '{{"kind": "{row.allocation}-laplace", "epsilon": {row.epsilon:g}}}'"""
        )
    if question.worst:
        words.append("--missing worst")
    return " ".join(words)


def _listed(words: Sequence[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _lift(row: Row) -> str:
    lift = None if row.with_users is None else row.with_users.smallest_lift
    return "none at all" if lift is None else percent(lift)


def _late(row: Row) -> str:
    """Say that it takes longer than was played, and about how long by the forecast."""
    if not row.trials:
        return "it is not known"
    told = "" if row.closed_form is None else f", about {about(row.closed_form)} by the forecast"
    return f"it takes more than {row.last:,}{told}"


def _why_never(question: Question, row: Row) -> str:
    """Say how many answers may be missing: as many as leave a gap if all of one arm's were 0 and all of another's 1."""
    gap = (question.best - question.of(0.0)) / (question.range.high - question.range.low)
    seen = gap * tanh((row.epsilon or 0) / 2) if question.curator == "ctb" else gap
    return (
        f"with {100 * question.missing:.4g} % of the answers missing, those might change the order; "
        f"at most {percent(seen / (1 + seen))} may be missing"
    )


def reverse(question: Question, smallest: Mapping[Allocation, float | None], names: Mapping[Allocation, str]) -> str:
    """Say the other way round which epsilon the users are enough for."""
    if not any(smallest.values()):
        return f"with {question.users:,} users no epsilon is feasible"
    told = ", ".join(f"{_epsilon(epsilon)} by {names[allocation]}" for allocation, epsilon in smallest.items())
    return f"with {question.users:,} users the smallest feasible epsilon is {told}"


def _epsilon(epsilon: float | None) -> str:
    return "none at all" if epsilon is None else f"{epsilon:.2g}"


@dataclass(frozen=True)
class Table:
    """A title, a head, rows, and what is to be said below."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def heading(plan: Plan) -> str:
    """Return the question in one line: means, lift, arms, curator, confidence."""
    asked = plan.question
    whose = "" if asked.past is None else f" (the mean of {asked.past.rewards:,} rewards in {asked.past.file})"
    shown = f"{asked.baseline:.4g}{whose} against {asked.best:.4g}, a lift of {100 * asked.lift:.4g} %"
    missing = f", {100 * asked.missing:.4g} % of the answers missing" if asked.missing else ""
    missing += " and counted at worst" if asked.missing and asked.worst else ""
    return f"{shown}; {asked.arms} arms, {asked.curator}, confidence {100 * asked.confidence:.6g} %{missing}"


def remarks(plan: Plan) -> list[str]:
    """Say what is to be known of data."""
    past, declared = plan.question.past, plan.question.range
    if past is None and declared == Range():
        return []
    if past is None:
        ends = f"{declared.low:g} or {declared.high:g}"
        return [
            f"The plan takes rewards to be {ends}; for others, past rewards (--data) show their cost without privacy."
        ]
    told = (
        [f"Rewards beyond the range count as its ends: {past.clipped:,} of {past.rewards:,}."] if past.clipped else []
    )
    if plan.question.curator == "ctb":
        told.append("CTB uses only the mean of past rewards: it makes the same bits of all laws of one mean.")
    if not set(past.values) <= {0.0, 1.0}:
        told.append(
            "Without privacy the plan plays the rewards themselves. Intervals allow for the largest variance in the "
            "range; the z-test uses the variance of the rewards, and shows the cost of privacy."
        )
    return told


def all_tables(plan: Plan) -> list[Table]:
    """Return them in the order in which they are shown."""
    more = (days(plan), with_users(plan))
    return [responses(plan), *(table for table in more if table is not None), costs(plan), odds(plan)]


def responses(plan: Plan) -> Table:
    """Return after how many responses the verdict is reached, and after how many without privacy."""
    shares = [f"{100 * share:.0f} %" for share in QUANTILES]
    head = ["epsilon", "rule", *shares, f"power {plan.question.power:g}", "no privacy", "forecast", "trials"]
    rows = []
    for row in plan.rows:
        if row.epsilon is None:
            continue
        none = plan.row(None, row.allocation)
        reached = [_responses(at, row) for at in (*row.quantiles, row.needed)]
        rows.append([*_begin(row), *reached, _responses(none.needed, none), _count(row.closed_form), f"{row.trials:,}"])
        is_last = row is plan.rows_of(row.epsilon)[-1]
        look = plan.row(row.epsilon, "equal").textbook
        if is_last and look is not None:
            looks = [_count(look), _count(plan.row(None, "equal").textbook)]
            rows.append([_begin(row)[0], ONE_LOOK, *[""] * len(shares), *looks, "", ""])
    note = (
        "10 %, 50 %, 90 %: in this share of the trials the verdict is reached by then; power "
        f"{plan.question.power:g}: in {100 * plan.question.power:g} % of them, and beside it the same without privacy. "
        "The forecast needs no trials, and is near their mean. Duels and equal shares hold although all levels move. "
        "One look is the z-test of textbooks, for two arms, made once, at a number of responses that was fixed before."
    )
    if any(None in (*row.quantiles, row.needed) and row.trials for row in plan.rows):
        note += " With a + it is more: trials were played no further."
    return Table("Responses until the verdict", head, rows, note)


def days(plan: Plan) -> Table | None:
    """Return how many days that takes; None where no number of users a day is given, or nothing is feasible."""
    asked = plan.question
    if asked.per_day is None:
        return None
    head, rows = ["epsilon", "rule", "users", "days", "last day"], []
    for row in plan.rows:
        if row.needed is not None:
            users = ceil(row.needed / (1 - asked.missing))
            count = ceil(users / asked.per_day)
            on = asked.first_day + timedelta(days=count - 1) if count <= MAX_DAYS else None
            rows.append([*_begin(row), f"{users:,}", f"{count:,}", "" if on is None else on.isoformat()])
    if not rows:
        return None
    note = f"With power {asked.power:g}, if the first of {asked.per_day:,} users a day come on {asked.first_day}."
    return Table(f"Days, with {asked.per_day:,} users a day", head, rows, note)


def costs(plan: Plan) -> Table:
    """Return what it costs until then."""
    head = ["epsilon", "rule", "regret", "best-arm share", "half-width"]
    rows = [[*_begin(row), *_standing(row.standing, "+" if row.is_cut else "")] for row in plan.rows]
    note = (
        "On average over the trials: the regret, in rewards; the share of users who saw the best arm; and half the "
        "width of the interval of an arm at the baseline."
    )
    return Table("Cost until the verdict", head, rows, note)


def with_users(plan: Plan) -> Table | None:
    """Return how things stand when all users have answered."""
    if plan.question.users is None:
        return None
    head = ["epsilon", "rule", "power", "regret", "best-arm share", "half-width", "smallest lift"]
    rows = []
    for row in plan.rows:
        users = row.with_users
        if users is not None:
            lift = "none" if users.smallest_lift is None else percent(users.smallest_lift)
            rows.append([*_begin(row), percent(users.power), *_standing(users.standing), lift])
    responses = plan.question.responses
    answered = "" if responses == plan.question.users else f", {responses:,} of whom answer"
    note = f"The smallest lift is the one that is found with power {plan.question.power:g}; none: none up to 1,000 %."
    return Table(f"With {plan.question.users:,} users{answered}", head, rows, note)


def odds(plan: Plan) -> Table:
    """Return what somebody who sees a response may be right about."""
    rows = [[f"{each.epsilon:g}", f"{each.factor:.2f}", f"{100 * each.right_at_most:.1f} %"] for each in plan.odds]
    note = (
        "Somebody who thinks that two rewards are equally likely, and then sees the response, is right about it with "
        "at most this probability (docs/privacy.md)."
    )
    head = ["epsilon", "largest factor of the odds", "largest share of right guesses"]
    return Table("Privacy of one response", head, rows, note)


def _begin(row: Row) -> tuple[str, str]:
    return ("none" if row.epsilon is None else f"{row.epsilon:g}"), row.rule


def _responses(at: int | None, row: Row) -> str:
    if not row.trials:
        return "never"
    return f"{row.last:,}+" if at is None else f"{at:,}"


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _standing(standing: Standing | None, mark: str = "") -> tuple[str, str, str]:
    if standing is None:
        return "", "", ""
    return f"{standing.regret:,.0f}{mark}", f"{100 * standing.best_share:.1f} %", f"{standing.half_width:.2g}"
