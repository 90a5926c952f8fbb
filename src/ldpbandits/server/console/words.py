"""Texts of pages: numbers, spans of time, and sentences, each made in one place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import nlargest
from math import exp
from time import time
from typing import Any, Literal

from ldpbandits.agent.bound_rule import bind_rule
from ldpbandits.agent.inference.forecast import responses_until_verdict
from ldpbandits.agent.inference.verdicts import Criteria
from ldpbandits.agent.levels import Levels
from ldpbandits.agent.rules import RULES
from ldpbandits.checks import LARGEST_EPSILON
from ldpbandits.output.numbers import about, percent, plural, span
from ldpbandits.server.experiments.limits import deciding_rule
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.mechanisms import Bernoulli, Mechanism, is_bits
from ldpbandits.spec.menu import Menu
from ldpbandits.spec.messages import ArmReport, Report, Settings, forecast_day
from ldpbandits.spec.odds import posterior

MANY = 1000.0

EXAMPLE = 0.04, 0.01
"""The mean value and the gain of the example in the form: a rate of clicks, for instance."""

MOST_SHOWN = 256
"""Arms on a page. More are no help to anybody, and no browser likes them."""

REJECTIONS = {
    "duplicate": "retry of a response that was already counted; it counts once",
    "expired": "arrived after the ticket had expired",
    "closed": "arrived after the experiment was closed",
    "changed": "another value than the one already counted for this ticket",
    "impossible": "not a possible value of this curator",
    "forged": "a ticket that this server did not sign; all experiments together",
}
"""Why responses were not counted, in the order of harmlessness."""


LARGEST_EVIDENCE = 1_000_000
"""Evidence from which on words give no more digits."""


def count(number: int) -> str:
    """Write a count with its commas: 16,000."""
    return f"{number:,}"


def times(factor: float) -> str:
    """Write how many times: two digits that matter, and no more than a thousand of them in words."""
    if factor >= MANY:
        return f"{factor:,.0f}" if factor < MANY**3 else f"{factor:.1e}"
    return f"{factor:.0f}" if factor >= 100 else f"{factor:.2g}"  # noqa: PLR2004 - from there on all digits matter


def day(moment: int) -> str:
    """Write the day of a moment."""
    return f"{datetime.fromtimestamp(moment, UTC):%-d %B %Y}"


def expected_day(report: Report) -> str | None:
    """Write the day by which a running experiment would be decided; None where nothing tells it."""
    expected = forecast_day(report, time())
    return None if expected is None else f"{expected:%-d %B %Y}"


def moment(seconds: int) -> str:
    """Write a moment to the minute."""
    return f"{datetime.fromtimestamp(seconds, UTC):%-d %B %Y, %H:%M} UTC"


def signed_percent(share: float) -> str:
    """Write a relative change.

    >>> signed_percent(0.12), signed_percent(-0.05)
    ('12 %', '-5 %')
    """
    return percent(share) if share >= 0 else f"-{percent(-share)}"


def evidence(number: float) -> str:
    """Write evidence by its first digits.

    >>> evidence(0.24), evidence(740.3), evidence(1e9)
    ('0.24', '740', 'more than 1,000,000')
    """
    if number >= LARGEST_EVIDENCE:
        return f"more than {LARGEST_EVIDENCE:,}"
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"  # noqa: PLR2004 - two digits


FILTERS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (count, about, percent, signed_percent, evidence, span, times, day, expected_day, moment, plural)
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


def odds_of(mechanism: Mechanism) -> Odds:
    """Say what the epsilon of a mechanism means."""
    flipped = mechanism.response_mean(0.0) if is_bits(mechanism) else None
    return Odds(mechanism.epsilon, exp(mechanism.epsilon), posterior(0.5, mechanism.epsilon), flipped)


@dataclass(frozen=True)
class Effort:
    """About how many responses duels take to find a gain, as `ldpbandits plan` forecasts it."""

    present: str
    better: str
    is_example: bool
    responses: int | None
    """None: more than a billion."""
    times: float | None
    """The same as a multiple of the responses that it takes without privacy."""


def effort_of(curator: CuratorSpec, arms: int, plan: tuple[float, float] | None) -> Effort | None:
    """Return the effort for a plan: the mean reward of the present arm and the gain over it; None if it is impossible.

    Without a plan an example stands for it. Without privacy means bits at the largest epsilon, as for `plan`.
    """
    menu, criteria = Menu.of(curator), Criteria(max(arms, 2))
    (low, high), rule = menu.reward_ends, deciding_rule(menu)
    unit = None if rule is None else bind_rule(rule, menu).unit
    baseline, gain = plan or (low + (high - low) * EXAMPLE[0], (high - low) * EXAMPLE[1])
    values = (baseline - low) / (high - low), (baseline + gain - low) / (high - low)
    if unit is None or not 0 <= values[0] < values[1] <= 1:
        return None
    needed = responses_until_verdict(unit.scale, values, criteria)
    bare = responses_until_verdict(
        Levels.of(Menu.of(CuratorSpec(Bernoulli(LARGEST_EPSILON)))).numbers, values, criteria
    )
    names = [percent(mean) if (low, high) == (0.0, 1.0) else f"{mean:g}" for mean in (baseline, baseline + gain)]
    return Effort(names[0], names[1], plan is None, needed, needed / bare if needed and bare else None)


@dataclass(frozen=True)
class Verdict:
    """The present conclusion in one sentence."""

    kind: Literal["nothing", "open", "separated", "shipped"]
    sentence: str
    reason: str
    """Whether the experiment was stopped by it, or about how many more responses a verdict takes."""


def shown(report: Report) -> Sequence[ArmReport]:
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
    if best is None and report.settings.one_look is not None and report.verdict is not None:
        return Verdict("nothing", report.verdict.sentence, reason)
    if best is None:
        return Verdict("nothing", "There are no responses yet.", reason)
    if len(in_use) == 1:
        return Verdict("nothing", f"There is nothing to compare {best.name} with: it is the only arm in use.", reason)
    found = report.verdict
    if found is None:
        return Verdict("open", f"{best.name} is ahead.", reason)
    lead, word, rest = found.sentence.rpartition(" Evidence ")
    after = reason if found.kind == "undecided" else _stopping(report)
    kind: Literal["open", "separated"] = "open" if found.kind == "undecided" else "separated"
    return Verdict(kind, lead, f"Evidence {rest} {after}".strip()) if word else Verdict(kind, found.sentence, after)


def _stopping(report: Report) -> str:
    """Return the part of the forecast after the verdict: whether the experiment was stopped by it, or will be."""
    _, _, rest = report.forecast.sentence.rpartition("; ")
    return f"{rest[:1].upper()}{rest[1:]}." if "stop_when_decided" in rest else ""


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
    if settings.stop_when_decided is not None:
        ends = {"pause": "it is paused", "ship": "the best arm is shipped"}[settings.stop_when_decided]
        said.append(("Stop when decided", f"{ends} automatically once there is a verdict"))
        if settings.stop_after:
            said.append(("Earliest stop", f"{span(settings.stop_after)} after its creation"))
    if settings.one_look is not None:
        said.append(("One look", f"one test, at {plural(settings.one_look, 'response')}; nobody sees a result before"))
    if settings.responses_per_hour is not None:
        most = plural(settings.responses_per_hour, "response")
        said.append(("Cap", f"above {most} an hour the experiment pauses itself"))
    if settings.retain == "tallies":
        said.append(("Retention", "single responses are dropped at ship or close; tallies stay"))
    if settings.allowance_required:
        said.append(("Allowance", "a decision needs a signature of the site's backend"))
    return said


def asked(menu: Menu) -> str:
    """Say what devices are asked to spend on a response."""
    *others, last = [f"{epsilon:g}" for epsilon in menu.epsilons]
    return f"{', '.join(others)} or {last}" if others else last
