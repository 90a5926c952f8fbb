"""Texts of pages: numbers, spans of time, and sentences, each made in one place."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import nlargest
from math import exp
from typing import Any, Literal

from ldpbandits.agent.rules import RULES
from ldpbandits.server.api.messages import ArmReport, Report
from ldpbandits.server.experiments.settings import Settings
from ldpbandits.spec.mechanisms import Mechanism, is_bits
from ldpbandits.spec.menu import Menu

UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
MANY = 1000.0

MOST_SHOWN = 256
"""Arms on a page. More are no help to anybody, and no browser likes them."""

NONE = "\N{EN DASH}"

REJECTIONS = {
    "duplicate": "sent again by a device that had not heard the answer; counted once, when it first came",
    "expired": "came after its ticket had expired",
    "closed": "came after the experiment was closed",
    "changed": "not the value that was already counted for this ticket",
    "impossible": "a value that this curator never gives",
    "forged": "a ticket that this server did not sign; all experiments together",
}
"""Why responses were not counted, in the order of harmlessness."""


def count(number: int) -> str:
    """Write a count: 16,000."""
    return f"{number:,}"


def percent(share: float | None) -> str:
    """Write a share: 7 %, and more exactly where it is small; nothing when it is not known."""
    if share is None:
        return NONE
    digits = 0 if share == 0 or share >= 0.1 else 1  # noqa: PLR2004 - a tenth
    return f"{100 * share:.{digits}f} %"


def span(seconds: float) -> str:
    """Write a span of time in its largest unit of which it has whole ones, or else in seconds: 90 seconds, 2 hours."""
    size, unit = next(((size, unit) for size, unit in UNITS if seconds >= size and seconds % size == 0), UNITS[-1])
    number = seconds / size
    return f"{number:g} {unit}" if number == 1 else f"{number:g} {unit}s"


def times(factor: float) -> str:
    """Write how many times: two digits that matter, and no more than a thousand of them in words."""
    if factor >= MANY:
        return f"{factor:,.0f}" if factor < MANY**3 else f"{factor:.1e}"
    return f"{factor:.0f}" if factor >= 100 else f"{factor:.2g}"  # noqa: PLR2004 - from there on all digits matter


def day(moment: int) -> str:
    """Write the day of a moment."""
    return f"{datetime.fromtimestamp(moment, UTC):%-d %B %Y}"


def moment(seconds: int) -> str:
    """Write a moment to the minute."""
    return f"{datetime.fromtimestamp(seconds, UTC):%-d %B %Y, %H:%M} UTC"


def sure(chance: float) -> str:
    """Write how sure one is: never quite, of anything."""
    if chance > 0.999:  # noqa: PLR2004 - as written
        return "more than 99.9 %"
    return f"{100 * chance:.1f} %" if chance > 0.99 else f"{100 * chance:.0f} %"  # noqa: PLR2004 - as many digits as tell


def plural(number: int, noun: str) -> str:
    """Write `1 arm`, `2 arms`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


FILTERS: dict[str, Callable[..., Any]] = {
    function.__name__: function for function in (count, percent, span, times, day, moment, sure, plural)
}


@dataclass(frozen=True)
class Odds:
    """The meaning of an epsilon, as odds."""

    epsilon: float
    odds: float
    """e^epsilon: the largest factor by which a response changes the odds of any guess."""
    surer: float
    """The largest posterior probability of a guess with prior one half."""
    flipped: float | None
    """The chance that a bit is the opposite of the reward; None when responses are not bits."""
    cost: float | None
    """The factor of responses that tell as much as bits without privacy; None when responses are not bits."""


def odds_of(mechanism: Mechanism) -> Odds:
    """Say what the epsilon of a mechanism means. The way back from responses stretches by 1 / tanh(epsilon / 2)."""
    odds = exp(mechanism.epsilon)
    flipped = cost = None
    if is_bits(mechanism):
        flipped = mechanism.response_mean(0.0)
        cost = (mechanism.debiased_mean(1.0) - mechanism.debiased_mean(0.0)) ** 2
    return Odds(mechanism.epsilon, odds, odds / (1 + odds), flipped, cost)


@dataclass(frozen=True)
class Verdict:
    """The present conclusion in one sentence."""

    kind: Literal["nothing", "open", "separated", "shipped"]
    sentence: str
    reason: str
    """The report's reason: its confidence, or about how many more responses separation takes."""


def shown(report: Report) -> list[ArmReport]:
    """Return the arms that a page has rows for: all, or of very many those with the most responses, and the best."""
    if len(report.arms) <= MOST_SHOWN:
        return report.arms
    chosen = {arm.arm for arm in nlargest(MOST_SHOWN, report.arms, key=lambda arm: (not arm.retired, arm.pulls))}
    best = None if report.best is None else report.best.arm
    chosen |= {arm for arm in (report.shipped, best) if arm is not None}
    return [arm for arm in report.arms if arm.arm in chosen]


def verdict(report: Report) -> Verdict:
    """Say which arm is best, and how sure that is."""
    in_use = [arm for arm in report.arms if not arm.retired]
    best, reason = report.best, report.forecast.sentence
    if best is None or not reason.startswith(best.name):  # a name stays as it is written
        reason = reason[:1].upper() + reason[1:]
    reason += "."
    if report.shipped is not None:
        return Verdict("shipped", f"Everybody gets {report.arms[report.shipped].name}.", reason)
    if best is None:
        return Verdict("nothing", "No response has come yet.", reason)
    if len(in_use) == 1:
        return Verdict("nothing", f"There is nothing to compare {best.name} with: it is the only arm in use.", reason)
    if best.separated:
        return Verdict("separated", f"{best.name} is the best arm.", reason)
    return Verdict("open", f"{best.name} is ahead, but not known to be the best arm yet.", reason)


def rule_words(report: Report) -> str:
    """Say what the rule of an experiment does, by its own words."""
    kind = next((kind for kind in RULES if kind.kind == report.rule["kind"]), None)
    return "" if kind is None else (kind.__doc__ or "").partition("\n")[0]


def guardrails(settings: Settings) -> list[tuple[str, str]]:
    """Say which guardrails an experiment has, and what each does."""
    said = []
    if settings.warm_up is not None:
        said.append(("Warm-up", f"equal traffic until each arm has {plural(settings.warm_up, 'response')}"))
    if settings.minimum_share is not None:
        said.append(("Minimum share", f"each arm gets at least {percent(settings.minimum_share)} of the traffic"))
    if settings.ramp is not None:
        until = plural(int(settings.ramp.responses), "response")
        said.append(("Ramp", f"an arm that is added gets at most {percent(settings.ramp.share)} until it has {until}"))
    if settings.stop_when_separated is not None:
        ends = {"pause": "it is paused", "ship": "the best arm is shipped"}[settings.stop_when_separated]
        said.append(("Stop when separated", f"{ends} automatically once the best arm is known"))
        if settings.stop_after:
            said.append(("Stops", f"{span(settings.stop_after)} after its creation at the earliest"))
    if settings.responses_per_hour is not None:
        most = plural(settings.responses_per_hour, "response")
        said.append(("Cap", f"above {most} an hour it pauses itself"))
    if settings.allowance_required:
        said.append(("Allowance", "a decision needs one that the site has signed"))
    return said


def asked(menu: Menu) -> str:
    """Say what devices are asked to spend on a response."""
    *others, last = [f"{epsilon:g}" for epsilon in menu.epsilons]
    return f"{', '.join(others)} or {last}" if others else last
