"""A plan as tables of text, which the command line and the page show alike."""

from collections.abc import Sequence
from dataclasses import dataclass

from ldpbandits.lab.planning.plan import QUANTILES, Plan, Row, Standing, percent
from ldpbandits.spec.transforms import Range


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
    return f"{shown}; {asked.arms} arms, {asked.curator}, confidence {100 * asked.confidence:.6g} %{missing}"


def remarks(plan: Plan) -> list[str]:
    """Say what is to be known of data."""
    past, declared = plan.question.past, plan.question.declared
    if past is None and declared == Range():
        return []
    if past is None:
        ends = f"{declared.low:g} or {declared.high:g}"
        return [f"Rewards are taken to be {ends}: of others, past ones (--data) tell what they take without privacy."]
    told = (
        [f"Rewards beyond the range count as its ends: {past.clipped:,} of {past.rewards:,}."] if past.clipped else []
    )
    if plan.question.curator == "ctb":
        told.append("Of past rewards only the mean matters to CTB, which makes the same bits of all laws of one mean.")
    if not set(past.values) <= {0.0, 1.0}:
        told.append(
            "Without privacy the rewards themselves are played. Intervals take them to vary as far as the range lets "
            "them; the z-test knows how much they vary, and tells what privacy costs."
        )
    return told


def all_tables(plan: Plan) -> list[Table]:
    """Return them in the order in which they are shown."""
    users = with_users(plan)
    return [separation(plan), costs(plan), *([] if users is None else [users]), odds(plan)]


def separation(plan: Plan) -> Table:
    """Return after how many responses the best arm is separated."""
    shares = [f"{100 * share:.0f} %" for share in QUANTILES]
    head = ["epsilon", "pulls by", *shares, f"power {plan.question.power:g}", "forecast", "z-test", "trials"]
    rows = [
        [
            *_begin(row),
            *(_responses(at, row) for at in (*row.quantiles, row.needed)),
            *("" if number is None else f"{number:,}" for number in (row.closed_form, row.textbook)),
            f"{row.trials:,}",
        ]
        for row in plan.rows
    ]
    note = (
        "10 %, 50 %, 90 %: in this share of the trials the best arm is separated by then; power "
        f"{plan.question.power:g}: in {100 * plan.question.power:g} % of them. The forecast needs no trials and is for "
        "50 %. The z-test is that of textbooks, for two arms and one look. Epsilon none is no privacy."
    )
    if any(None in (*row.quantiles, row.needed) and row.trials for row in plan.rows):
        note += " With a + it is more: trials were played no further."
    return Table("Responses until the best arm is separated", head, rows, note)


def costs(plan: Plan) -> Table:
    """Return what it costs until then."""
    head = ["epsilon", "pulls by", "regret", "saw the best", "half-width"]
    rows = [[*_begin(row), *_standing(row.standing, "+" if row.is_cut else "")] for row in plan.rows]
    note = (
        "On average over the trials: the regret, in rewards; the share of users who saw the best arm; and half the "
        "width of the interval of an arm at the baseline."
    )
    return Table("What it costs until then", head, rows, note)


def with_users(plan: Plan) -> Table | None:
    """Return how things stand when all users have answered."""
    if plan.question.users is None:
        return None
    head = ["epsilon", "pulls by", "separated", "regret", "saw the best", "half-width", "smallest lift"]
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
    head = ["epsilon", "likelier by at most a factor of", "right at most"]
    return Table("What an attacker could be right about", head, rows, note)


def _begin(row: Row) -> tuple[str, str]:
    return ("none" if row.epsilon is None else f"{row.epsilon:g}"), row.rule


def _responses(at: int | None, row: Row) -> str:
    if not row.trials:
        return "never"
    return f"{row.last:,}+" if at is None else f"{at:,}"


def _standing(standing: Standing | None, mark: str = "") -> tuple[str, str, str]:
    if standing is None:
        return "", "", ""
    return f"{standing.regret:,.0f}{mark}", f"{100 * standing.best_share:.1f} %", f"{standing.half_width:.2g}"
