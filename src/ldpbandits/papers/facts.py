"""Facts about an experiment, in words: what the papers say of it."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from json import dumps
from typing import Literal, TypeAlias

from ldpbandits.output.numbers import percent, plural, span
from ldpbandits.output.page import table
from ldpbandits.spec.mechanisms import is_bits
from ldpbandits.spec.menu import Menu
from ldpbandits.spec.messages import Report, Settings
from ldpbandits.spec.odds import posterior

Device: TypeAlias = Literal["web", "app"]

PRIORS = (0.01, 0.04, 0.10, 0.50)
"""Prior beliefs about a person: the columns of the table of odds."""
BUDGETS = (1.0, 2.0, 3.0, 5.0, 10.0)
"""The epsilons in all of the rows of that table, beside those of the experiment."""
DAY_S = 86_400

TIMING = {
    "web": (
        "This moment is fixed before there is a reward. The SDK's service worker keeps to it when the page is left.",
        (
            "nothing with the SDK's service worker; without it, the page's choice (onLeave) tells when somebody left "
            "or came back"
        ),
    ),
    "app": (
        "This moment is fixed before there is a reward, so it tells nothing, unless the app is left before.",
        (
            "nothing while the app runs; an app that is left sends then, which tells when its user left, unless it is "
            "closed with keep=True"
        ),
    ),
    "at once": (
        "Its time tells that there was a reward, and when.",
        "that a reward came, and when, for certain: report_after is 0, and the odds above do not hold",
    ),
}
"""The leak by the time of a response, by device, as a step of the processing and as a risk."""

ON_DEVICE = {
    "web": {
        "ledger": "IndexedDB “ldpbandits” of the site",
        "erasure": "forget(), or the browser's “clear site data”",
        "objection": "optOut(), in all tabs; Global Privacy Control is a refusal by default",
        "consent": "with consent: “required” the SDK stores nothing and asks nothing before optIn()",
        "integrity": "The code of the site can be compared with the published integrity hash of the SDK.",
    },
    "app": {
        "ledger": "ledger.db and ledger.db.high-water in the user's data folder, or where the app keeps them",
        "erasure": "the app or the user deletes the ledger",
        "objection": "a setting of the app, after which it asks for no variant",
        "consent": "an app that makes its client once the user agrees stores nothing before",
        "integrity": "The code of the device half needs no other package, and can be read.",
    },
}
"""Facts that differ between a web page and an app."""

HEADINGS = (
    ("CNIL: overview of the processing, controller, processors", "1, 2, 3"),
    ("CNIL: data, processes and supporting assets", "4, 5, 6"),
    ("CNIL: purposes, lawfulness, minimisation, quality, storage durations", "3, 5, 7, 8"),
    ("CNIL: information, consent, access, rectification, erasure, restriction, objection", "7, 9"),
    ("CNIL: processors and transfers", "2, 10"),
    ("CNIL: existing or planned controls", "11"),
    ("CNIL: illegitimate access, unwanted modification, disappearance of data", "12, 13"),
    ("CNIL: validation, action plan, opinions of the officer and of the people", "14, 15"),
    ("ICO 1: the need for an assessment", "1"),
    ("ICO 2: nature, scope, context and purposes of the processing", "3, 4, 5, 6"),
    ("ICO 3: consultation", "14"),
    ("ICO 4: necessity and proportionality", "7, 8, 9, 10"),
    ("ICO 5: risks", "12"),
    ("ICO 6: measures that reduce risk", "11, 15"),
    ("ICO 7: sign-off and outcomes", "15"),
)
"""The headings of the authorities' templates, and the sections of the assessment that answer them."""


@dataclass(frozen=True)
class Circumstances:
    """Facts that a server does not know: who runs an experiment, and the limits of the devices."""

    device: Device = "web"
    controller: str | None = None
    contact: str | None = None
    budget: float | None = None
    """The budget that owners' limits set, in epsilon per window."""
    window_days: float = 30


def _given(text: str | None, what: str) -> str:
    """Return a text that was given, or else mark its place: only the controller can fill it in."""
    return f"<mark>[{escape(what)}]</mark>" if text is None else escape(text)


def facts_of(report: Report, about: Circumstances, command: str, version: str, now: float) -> dict[str, str]:
    """Return the facts as pieces of HTML, by the names that the papers use."""
    menu, settings = Menu.from_json(report.curator), report.settings
    epsilon, spread = menu.epsilons[-1], span(about.window_days * DAY_S)
    names = [f"“{arm.name}”" for arm in report.arms if not arm.retired]
    budget = None if about.budget is None else f"epsilon {about.budget:g} in {spread}"
    plain = {
        "name": report.name,
        "date": day(now),
        "created": day(report.created_at),
        "version": version,
        "command": command,
        "audit_command": audit_command(menu),
        "arms": ", ".join(names),
        "arm_count": f"{len(names)}",
        "measure": _measure(report),
        "responses": plural(report.responses, "response"),
        "guarantee": report.guarantee.removesuffix("."),
        "default": f"{report.default_reward:g}",
        "mechanism": _mechanism(menu),
        "mechanism_short": "one random bit" if is_bits(menu.first) else "one number with random noise",
        "crowd": crowd(menu),
        "moment": _moment(settings),
        "timing": _timing(settings, about.device)[0],
        "timing_risk": _timing(settings, about.device)[1],
        "stopping": _stopping(settings),
        "limits": _limits(settings),
        "how_often": f"at most once in {span(settings.sticky)}" if settings.sticky else "each time it asks again",
        "remembers": f"your version for {span(settings.sticky)}, and" if settings.sticky else "",
        "window": spread,
        "surer": percent(posterior(0.5, epsilon)),
        "budget_sentence": "" if budget is None else f", and spends {budget} at most",
        "budget_clause": "" if budget is None else f": {budget}",
        **ON_DEVICE[about.device],
    }
    marked = {
        "controller": _given(about.controller, "name and address of the controller"),
        "contact": _given(about.contact, "contact"),
        "planned_end": _given(report.metadata.planned_end or None, "date"),
        "inventory": _inventory(report, about),
        "storage": _storage(report, about),
        "odds": _odds(menu.epsilons, about.budget),
        "headings": table(HEADINGS, ("heading", "sections"), look="prose"),
    }
    return {name: escape(text) for name, text in plain.items()} | marked


def day(moment: float) -> str:
    """Write the day of a moment."""
    return f"{datetime.fromtimestamp(moment, UTC):%-d %B %Y}"


def audit_command(menu: Menu) -> str:
    """Return the command that audits the very curator of an experiment; of a menu, that of the largest epsilon."""
    curator = dumps(menu.curators[-1].to_json())
    return shlex.join(
        ["ldpbandits", "audit", "--curator", curator, "--epsilon", f"{menu.epsilons[-1]:g}", "--out", "audit.html"]
    )


def _measure(report: Report) -> str:
    if report.estimates == "reward":
        return "the highest mean reward"
    return (
        f"the highest {report.estimates}"
        if report.estimates.startswith("P(")
        else f"the highest mean of {report.estimates}"
    )


def ones_of_a_hundred(menu: Menu) -> tuple[int, int] | None:
    """Return how many of a hundred people send a 1 with the lowest and with the highest reward; None without bits."""
    if not is_bits(menu.first):
        return None
    flipped = menu.curators[-1].mechanism.response_mean(0.0)
    return round(100 * flipped), round(100 * (1 - flipped))


def crowd(menu: Menu) -> str:
    """Say what an answer tells, as a hundred people."""
    ones = ones_of_a_hundred(menu)
    if ones is None:
        return f"your value with random noise about {1 / menu.epsilons[-1]:.2g} times as large as its whole range"
    return f"of 100 people who did, {ones[1]} send yes; of 100 who did not, {ones[0]} send yes too"


def _mechanism(menu: Menu) -> str:
    ones, chosen = ones_of_a_hundred(menu), f"epsilon {', '.join(f'{each:g}' for each in menu.epsilons)}"
    if len(menu) > 1:
        chosen += ", of which the owner of each device picks one"
    if ones is None:
        return f"the reward, taken to [0, 1], plus Laplace noise of scale {1 / menu.epsilons[-1]:.2g} ({chosen})"
    return f"one bit; of 100 people with the highest reward {ones[1]} send a 1, with the lowest {ones[0]} do ({chosen})"


def _moment(settings: Settings) -> str:
    if not settings.report_after:
        return "when the reward comes"
    return f"{span(settings.report_after)} after the variant was accepted, reward or not"


def _timing(settings: Settings, device: Device) -> tuple[str, str]:
    """Return what the time of a response gives away, as a step of the processing and as a risk."""
    return TIMING[device if settings.report_after else "at once"]


def _stopping(settings: Settings) -> str:
    if settings.one_look is not None:
        return f"the experiment is judged once, after {plural(settings.one_look, 'response')}"
    if settings.stop_when_decided is None:
        return "a person ends the experiment; no end is set"
    ending = {"pause": "pauses", "ship": "ships the better variant and asks for nothing more"}[
        settings.stop_when_decided
    ]
    return f"the experiment {ending} as soon as its test has decided"


def _limits(settings: Settings) -> str:
    limits = []
    if settings.responses_per_hour is not None:
        limits.append(f"It pauses itself above {plural(settings.responses_per_hour, 'response')} an hour.")
    if settings.allowance_required:
        limits.append("A decision needs an allowance that the site's own backend has signed.")
    return " ".join(limits) or "No limit on the traffic is set."


def _inventory(report: Report, about: Circumstances) -> str:
    """Return the table of all data: what it is, where, for how long, and what deletes it."""
    spread, settings, here = span(about.window_days * DAY_S), report.settings, ON_DEVICE[about.device]
    ledger = f"the device: {here['ledger']}"
    unanswered = span(report.ticket_lifetime)
    is_dropped = settings.retain == "tallies"
    rows: list[Sequence[str]] = [
        ("the reward", "the device, in memory", "until the response is drawn", "at once, by itself"),
        (
            "what was spent: epsilon and time of each answer",
            ledger,
            spread,
            here["erasure"],
        ),
        (
            "the response, before it is sent",
            ledger,
            f"until it arrives, at most {unanswered}",
            "by itself",
        ),
    ]
    if settings.sticky:
        rows.append(("the variant shown", ledger, span(settings.sticky), here["erasure"]))
    if about.device == "web":
        rows.append(
            (
                "the visitor's choice to take part or not",
                ledger,
                "until it is changed",
                "clear site data",
            )
        )
    rows += [
        (
            "response: variant, value, epsilon if there is a choice",
            "the server's database",
            "until the experiment is shipped or closed" if is_dropped else "until the experiment is deleted",
            "by itself" if is_dropped else "ldpbandits experiments delete",
        ),
        (
            "two hashes of a used ticket",
            "the server's database",
            f"until the full hour after its expiry ({unanswered} from the decision)",
            "by itself",
        ),
        (
            "totals and counts for each variant",
            "the server's database",
            "until the experiment is deleted",
            "ldpbandits experiments delete",
        ),
        (
            "log of changes: the names of keys of the controller's staff, what each changed, and when",
            "the server's database",
            "as long as the database, also after the experiment is deleted",
            "with the database",
        ),
        (
            "addresses and times of requests",
            "logs of the proxy, the CDN and the host; the server itself logs none",
            "[days]",
            "[rotation of the logs]",
        ),
        ("all of the server's data, as of a day", "backups", "[days]", "[deletion of old backups]"),
    ]
    return _marked(table(rows, ("data", "place", "lifetime", "deletion"), look="prose"))


def _storage(report: Report, about: Circumstances) -> str:
    """Return the table of what is stored on a device."""
    spread, kept = span(about.window_days * DAY_S), ON_DEVICE[about.device]["ledger"]
    rows: list[Sequence[str]] = [
        (kept, "epsilon and time of each answer", "keeps the owner's budget", spread),
        (
            kept,
            "open pulls: variant, ticket, random response, moment",
            "answers once, at its moment",
            span(report.ticket_lifetime),
        ),
    ]
    if report.settings.sticky:
        rows.append((kept, "the variant shown", "shows the same variant again", span(report.settings.sticky)))
    if about.device == "web":
        rows += [
            (kept, "the choice to take part or not", "honours it in all tabs", "until it is changed"),
            (
                "service worker, if the site registers it",
                "one script of the SDK",
                "sends the response at its moment",
                "until the site or the visitor removes it",
            ),
        ]
    return table(rows, ("place", "content", "purpose", "lifetime"), look="prose")


def _odds(epsilons: Sequence[float], budget: float | None) -> str:
    """Return the table of residual odds: the epsilon of all that a device sent, by what was believed before."""
    rows = sorted({*epsilons, *([budget] if budget is not None else BUDGETS)})
    lines = [
        (f"{each:g}{_whose(each, epsilons, budget)}", *(percent(posterior(prior, each)) for prior in PRIORS))
        for each in rows
    ]
    return table(lines, ("epsilon in all", *(percent(prior) for prior in PRIORS)))


def _whose(epsilon: float, epsilons: Sequence[float], budget: float | None) -> str:
    if epsilon == budget:
        return " (the budget)"
    return " (one answer)" if epsilon in epsilons else ""


def _marked(rows: str) -> str:
    """Mark the blanks of a table, in square brackets."""
    return rows.replace("<td>[", "<td><mark>[").replace("]</td>", "]</mark></td>")
