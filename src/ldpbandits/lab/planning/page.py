"""A plan as one self-contained page: the verdicts, the pictures, the tables, and how to read them."""

from collections.abc import Sequence
from html import escape

import ldpbandits
from ldpbandits.lab.planning import tables
from ldpbandits.lab.planning.answer import Plan
from ldpbandits.lab.planning.figures import draw_power, draw_responses
from ldpbandits.output.page import Cell, document, picture, table

READING = """\
The best arm counts as separated when its interval lies above those of all other arms in the server's report. These
intervals hold at all times at once: looking every day, and stopping when it is so, costs nothing but the responses. All
arms have the baseline's mean but for the last one, which is better by the lift. Trials are played as they would be
live, one response after the other, and looked at after every 2 % more of them. What is feasible lies above a line: dots
are what trials have shown for the power that is asked for, strokes go from 10 % to 90 % of the trials; between the dots
the line follows the forecast."""


def page(plan: Plan) -> str:
    """Return the page as HTML."""
    reading = f'<h2>How to read it</h2><p class="note">{READING}</p>'
    shown = [_head(plan), _pictures(plan), *map(_table, tables.all_tables(plan)), reading]
    return document("ldpbandits: plan", "\n".join(shown))


def _head(plan: Plan) -> str:
    verdicts = "".join(
        f'<p class="verdict {_look(plan, epsilon)}">{escape(sentence)}</p>'
        for epsilon, sentence in zip(plan.question.epsilons, plan.verdicts, strict=True)
    )
    more = "" if plan.reverse is None else f'<p class="verdict">{escape(plan.reverse)}</p>'
    told = " ".join([f"{tables.heading(plan)}.", *tables.remarks(plan)])
    played = f"Seed {plan.question.seed}, {plan.seconds:.1f} s, by ldpbandits {ldpbandits.__version__}."
    return f"<h1>What will epsilon cost?</h1><p>{escape(told)} {escape(played)}</p>{verdicts}{more}"


def _look(plan: Plan, epsilon: float) -> str:
    """Return the look of a verdict: feasible, by either allocation, or not."""
    rows = (plan.row(epsilon), plan.row(epsilon, "equal"))
    if plan.question.users is None:
        is_feasible = any(row.needed is not None for row in rows)
    else:
        is_feasible = any(row.with_users and row.with_users.power >= plan.question.power for row in rows)
    return "consistent" if is_feasible else "violated"


def _pictures(plan: Plan) -> str:
    if not any(row.trials for row in plan.rows):
        return ""
    one = picture(draw_responses(plan), "Responses needed against epsilon, with the region that is feasible")
    other = picture(draw_power(plan), "Power against responses, for each epsilon")
    return f"<h2>How many responses</h2>{one}<h2>How likely by then</h2>{other}"


def _table(made: tables.Table) -> str:
    def cells(row: Sequence[str]) -> list[str | Cell]:
        return [Cell(text, "left") if made.head[place] == "pulls by" else text for place, text in enumerate(row)]

    body = table([cells(row) for row in made.rows], cells(made.head), look="close")
    return f'<h2>{escape(made.title)}</h2>{body}<p class="note">{escape(made.note)}</p>'
