"""Reports as text, for terminals of any width: a table with bars, and each arm's mean as a dot in its interval.

arm      share of traffic    responses  missing  mean      interval
0 blue   ████         24 %         301      2 %  0.31  0.22 to 0.40
1 green  ███████████  76 %         955      1 %  0.58  0.53 to 0.63

0.22                               0.63
0 blue   ├───────●───────┤
1 green                             ├────●─────┤
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from math import log10
from textwrap import fill
from time import time

from ldpbandits.admin.messages import Report
from ldpbandits.net import without_controls
from ldpbandits.output.columns import GAP, columns, cut, pad, whisker, width_of
from ldpbandits.output.numbers import percent, plural, span
from ldpbandits.spec.messages import ArmReport, Change, KeyReport, Summary, Verdict, criteria_words, forecast_day

LEAST_WIDTH = 60
LONGEST_BAR = 24
LONGEST_CHART = 72
LARGEST = 1e7
"""From here on numbers are written by their first digits."""


def summaries(experiments: Sequence[Summary], width: int) -> str:
    """Return a table of experiments, a line each."""
    header = ("name", "status", "arms", "responses", "created")
    rows = [
        (one.name, one.status, f"{one.arms}", f"{one.responses:,}", f"{datetime.fromtimestamp(one.created_at, UTC):%F}")
        for one in experiments
    ]
    return "\n".join(columns(header, rows, "<<>>>", max(width, LEAST_WIDTH))) if rows else "no experiments"


def changes(lines: Sequence[Change], width: int) -> str:
    """Return a table of changes, a line each."""
    header = ("when (UTC)", "who", "change", "experiment", "detail")
    rows = [
        (
            f"{datetime.fromtimestamp(one.at, UTC):%F %T}",
            *(without_controls(text) for text in (one.who, one.what, one.experiment or "", one.detail)),
        )
        for one in lines
    ]
    return "\n".join(columns(header, rows, "<<<<<", max(width, LEAST_WIDTH))) if rows else "no changes"


def keys(found: Sequence[KeyReport], width: int) -> str:
    """Return a table of keys, a line each."""
    header = ("name", "role", "last used", "experiments")
    rows = [(one.name, one.role, one.last_used or "", ", ".join(one.experiments)) for one in found]
    return "\n".join(columns(header, rows, "<<<<", max(width, LEAST_WIDTH)))


def report(shown: Report, width: int) -> str:
    """Return all about an experiment."""
    width = max(width, LEAST_WIDTH)
    drawn = [*_table(shown, width), "", *_chart(shown, width)]
    title = [shown.metadata.title] if shown.metadata.title else []
    lead = [_heading(shown), *title, *([] if shown.verdict is None else [_lead(shown, shown.verdict)])]
    sentences = [*_verdict(shown), *_remarks(shown), _settings(shown), *_metadata(shown)]
    told = [*(_wrapped(each, width) for each in lead), "", *drawn, "", *_comparisons(shown, width)]
    return "\n".join([*told, *(_wrapped(each, width) for each in sentences)])


def _metadata(shown: Report) -> list[str]:
    """Return the owner and the like; and the days of start and end, once there is an end."""
    said = shown.metadata
    facts = {"Owner": said.owner, "Link": said.link, "Hypothesis": said.hypothesis, "Description": said.description}
    days = []
    if shown.stopped_at is not None:
        days.append(f"stopped on {datetime.fromtimestamp(shown.stopped_at, UTC):%F}")
    expected = forecast_day(shown, time())
    if expected is not None:
        days.append(f"decided about {expected} at this traffic")
    if said.planned_end:
        days.append(f"planned to end on {said.planned_end}")
    if days:
        days.insert(0, f"Started on {datetime.fromtimestamp(shown.created_at, UTC):%F}")
    told = [f"{name}: {text}" for name, text in facts.items() if text]
    return [*([f"{', '.join(days)}."] if days else []), *told]


def _lead(shown: Report, verdict: Verdict) -> str:
    """Return the verdict in words, and while there is none, how many more responses it takes."""
    more = f" Forecast: {shown.forecast.sentence}." if verdict.kind == "undecided" and shown.responses else ""
    return verdict.sentence + more


def _heading(shown: Report) -> str:
    epsilon = shown.curator.get("epsilon")
    menu = " or ".join(f"{each:g}" for each in (epsilon if isinstance(epsilon, list) else [epsilon or 0.0]))
    status = shown.status if shown.shipped is None else f"shipped to {shown.arm(shown.shipped).name}"
    count = plural(shown.responses, "response")
    return f"{shown.name}: {status}; {count} at epsilon = {menu}, by {shown.rule.get('kind')}"


def _table(shown: Report, width: int) -> list[str]:
    header = ("responses", "missing", "mean", "interval")
    names, write = _names(shown.arms, width), _writer(shown.arms)
    rest = [
        (
            f"{arm.pulls:,}",
            "" if arm.missing_share is None else percent(arm.missing_share),
            "" if arm.mean is None else write(arm.mean),
            f"{write(arm.low)} to {write(arm.high)}",
        )
        for arm in shown.arms
    ]
    taken = sum(len(GAP) + max(map(len, column)) for column in zip(header, *rest, strict=True))
    room = width - max(map(width_of, names)) - len(GAP) - taken
    size = min(max(room, len(" 100 %")), LONGEST_BAR)
    shares = [_bar(arm.share, size) for arm in shown.arms]
    rows = [(name, share, *cells) for name, share, cells in zip(names, shares, rest, strict=True)]
    traffic = next(title for title in ("share of traffic", "share") if len(title) <= max(size, len("share")))
    return columns(("arm", traffic, *header), rows, "<<>>>>", width)


def _chart(shown: Report, width: int) -> list[str]:
    """Draw all intervals on one scale; what those who have not answered could change is dotted."""
    names, scale, write = _names(shown.arms, width), _scale(shown.arms), _writer(shown.arms)
    margin = max(map(width_of, names))
    size = min(width - margin - len(GAP), LONGEST_CHART)
    least, most = map(write, scale)
    lines = [pad("", margin) + GAP + least + most.rjust(size - len(least))]
    for name, arm in zip(names, shown.arms, strict=True):
        ends = [(arm.worst_low, arm.worst_high, "┄"), (arm.low, arm.high, "─")]
        lines.append(pad(name, margin) + GAP + whisker(size, ends, arm.mean, scale))
    return lines


def _verdict(shown: Report) -> list[str]:
    """Say which arm is best, and whether that is known."""
    if shown.verdict is not None:
        first = []  # it leads
    elif shown.best is None:  # a server of an earlier version
        first = ["No responses yet."]
    elif shown.best.separated:
        first = [f"The best arm is known: {shown.forecast.sentence}."]
    else:
        first = [f"Best so far: {shown.best.name}; {shown.forecast.sentence}."]
    confidence = f"{percent(shown.confidence)} confidence"
    hold = f"all intervals hold together, always, at {confidence}"
    if shown.settings.one_look is not None:
        hold = f"intervals of arms hold together, always, at {confidence}, those of differences for the one look"
    return [*first, f"Estimates are of {shown.measure}; {hold}."]


def _comparisons(shown: Report, width: int) -> list[str]:
    """Return a table of the leader against each other arm in use."""
    if shown.verdict is None or not shown.comparisons:
        return []
    write = _writer(shown.arms)
    rows = [
        (
            cut(without_controls(f"{each.arm} {each.name}"), width // 4),
            write(each.difference),
            f"{write(each.low)} to {write(each.high)}",
            "" if each.lift is None else f"{100 * each.lift:.1f} %",
            f"{each.evidence:.3g}",
        )
        for each in shown.comparisons
    ]
    leader = cut(without_controls(f"{shown.verdict.leader} against"), width // 4)
    return [*columns((leader, "difference", "interval", "lift", "evidence"), rows, "<>>>>", width), ""]


def _remarks(shown: Report) -> list[str]:
    """Say what an experimenter should know of, where there is any of it."""
    remarks = [f"Warning: {sentence}." for sentence in shown.warnings]
    if warm := sum(arm.warm_pulls for arm in shown.arms):
        remarks.append(f"{warm:,} of the responses came from another experiment (warm start).")
    reasons = ("expired", "impossible", "changed", "closed", "forged")
    counts = [f"{count:,} {reason}" for reason in reasons if (count := getattr(shown.rejected, reason))]
    counts = [*counts[:-1], f"{counts[-1]} (in all experiments)"] if shown.rejected.forged else counts
    return [*remarks, *([f"Responses that were not counted: {', '.join(counts)}."] if counts else [])]


def _settings(shown: Report) -> str:
    settings = shown.settings
    said = [f"devices report {f'after {span(settings.report_after)}' if settings.report_after else 'at once'}"]
    if settings.sticky:
        said.append(f"they keep an arm for {span(settings.sticky)}")
    if settings.minimum_share is not None:
        said.append(f"each arm gets at least {percent(settings.minimum_share)}")
    if settings.warm_up is not None:
        said.append(f"equal traffic up to {settings.warm_up:,} responses per arm")
    if settings.ramp is not None:
        most = f"at most {percent(settings.ramp.share)}"
        said.append(f"a new arm gets {most} up to {settings.ramp.responses:,.0f} responses")
    if settings.stop_when_decided is not None:
        ending = {"pause": "it pauses", "ship": "it ships"}[settings.stop_when_decided]
        said.append(f"once it is decided, {ending}")
        if settings.stop_after:
            said[-1] += f", {span(settings.stop_after)} after its creation at the earliest"
    if settings.one_look is not None:
        said.append(f"it is judged once, at {settings.one_look:,} responses, and shows no result before")
    said += [words for _, words in criteria_words(settings, shown.arms[settings.control].name)]
    if settings.responses_per_hour is not None:
        said.append(f"it counts at most {settings.responses_per_hour:,} responses an hour")
    if settings.allowance_required:
        said.append("decisions need an allowance")
    return f"Settings: {'; '.join(said)}."


def _wrapped(sentence: str, width: int) -> str:
    """Return a sentence in lines; what others have written in it does nothing to a terminal."""
    return fill(without_controls(sentence), width)


def _bar(share: float | None, size: int) -> str:
    """Draw a share as a bar, and write it behind."""
    if share is None:
        return ""
    longest = size - len(" 100 %")
    return f"{'█' * round(longest * share):<{longest}} {percent(share):>5}"


def _names(arms: Sequence[ArmReport], width: int) -> list[str]:
    """Return number and name of each arm, cut off where they would take more than a quarter of the line."""
    names = (f"{arm.arm} {arm.name}{' (retired)' if arm.retired else ''}" for arm in arms)
    return [cut(without_controls(name), width // 4) for name in names]


def _scale(arms: Sequence[ArmReport]) -> tuple[float, float]:
    """Return the least and the most of all intervals; a debiased mean may lie outside of them, and is then shown so."""
    return min(min(arm.low, arm.worst_low) for arm in arms), max(max(arm.high, arm.worst_high) for arm in arms)


def _writer(arms: Sequence[ArmReport]) -> Callable[[float], str]:
    """Return how to write means and edges: with as many digits as tell them apart."""
    least, most = _scale(arms)
    if max(abs(least), abs(most)) >= LARGEST:
        return lambda number: f"{number:.6g}"
    digits = min(max(2 - round(log10((most - least) or 1)), 0), 9)
    return lambda number: f"{number:.{digits}f}"
