"""Replies of a server to experimenters, field by field: the server encodes them as JSON, `ldpbandits.admin` reads them.

A field with a default may be left out of the JSON. A text for people, such as `sentence`, may change between versions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Literal, TypeAlias

Status: TypeAlias = Literal["running", "paused", "shipped", "closed"]
Ending: TypeAlias = Literal["pause", "ship"]
Goal: TypeAlias = Literal["decide", "earn"]
MissingMode: TypeAlias = Literal["answered", "worst"]
Retain: TypeAlias = Literal["responses", "tallies"]
VerdictKind: TypeAlias = Literal["better", "no-gain", "harm", "undecided"]

LONGEST_FORECAST_S = 10 * 366 * 86_400
"""Ten years: nobody waits for a later day."""


@dataclass(frozen=True, slots=True)
class ArmReport:
    """The estimates and counts of an arm. Each decision is answered, pending, missing, forgiven or unaccepted.

    `pulls` counts the responses, `warm_pulls` those of them from the warm start. `accepted` counts the pulls that a
    device has shown: they are answered, still open or missing, and only they can be missing. A ticket that expired
    before any device accepted it is `unaccepted`, and touches no estimate. `forgiven` are missing answers that an
    experimenter has taken off the counts. `missing_share` is the share of the missing among those answered or missing.
    The interval from `low` to `high` assumes that those who answered are like everybody; the one from `worst_low` to
    `worst_high` holds whatever the others would have said.
    """

    arm: int
    name: str
    retired: bool
    pulls: int
    pending: int
    missing: int
    decisions: int
    share: float | None
    mean: float | None
    low: float
    high: float
    fits: bool
    warm_pulls: int
    missing_share: float | None
    worst_low: float
    worst_high: float
    accepted: int = 0
    unaccepted: int = 0
    forgiven: int = 0


@dataclass(frozen=True, slots=True)
class Best:
    """The arm that leads so far; it is separated when the verdict is that it is better than every other arm in use."""

    arm: int
    name: str
    separated: bool


@dataclass(frozen=True, slots=True)
class Forecast:
    """Whether the best arm is known, and if not, the approximate number of further responses that takes.

    `more_responses` is null when the data do not support a forecast, or when it exceeds a billion.
    """

    separated: bool
    more_responses: int | None
    sentence: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """Responses that were not counted, by reason.

    Forged tickets belong to no experiment, so `forged` counts those of the whole server. A duplicate was counted once,
    when it first arrived.
    """

    forged: int
    expired: int
    impossible: int
    changed: int
    closed: int
    duplicate: int


@dataclass(frozen=True, slots=True)
class Ramp:
    """The largest share of the traffic of an arm that is added later, until it has this number of responses."""

    share: float
    responses: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """The known facts about the best arm. A wrong verdict *ever* has probability at most 1 - `confidence`.

    The leader is better once its `evidence` against every other arm in use has reached `needed`. `drift_proof` says
    that this holds although the level of all arms moves; else it holds if the means stayed what they were. `forged` is
    the largest share of forged answers to each arm at which it stands. `responses` is the number at which a verdict was
    reached, which is kept; null while there is none. `sentence` says all of it. With one look, the evidence is 1 / p.
    """

    kind: VerdictKind
    leader: str | None
    evidence: float
    needed: float
    drift_proof: bool
    forged: float
    responses: int | None
    sentence: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """The leader against another arm in use, in the units of the rewards; all intervals hold together, at all times.

    A lift is the gain relative to the mean of the other arm; null where that mean may be 0 or less, or the edge is
    infinite.
    """

    arm: int
    name: str
    difference: float
    low: float
    high: float
    lift: float | None
    lift_low: float | None
    lift_high: float | None
    evidence: float


@dataclass(frozen=True, slots=True)
class Expectation:
    """The mean of the present arm, and the gain over it, for which an experiment was planned."""

    baseline: float
    gain: float


@dataclass(frozen=True, slots=True)
class Settings:
    """The times of a device's report and of its sticky arm, the guardrails of the traffic, and when it is decided."""

    report_after: float
    sticky: float = 0
    minimum_share: float | None = None
    warm_up: int | None = None
    ramp: Ramp | None = None
    stop_when_decided: Ending | None = None
    stop_after: float = 0
    responses_per_hour: int | None = None
    allowance_required: bool = False
    first_arms: int = 0
    warm_pulls: Sequence[int] = ()
    goal: Goal = "earn"
    expect: Expectation | None = None
    forged: float = 0
    worth: float | None = None
    harm: float | None = None
    control: int = 0
    may_add_arms: bool = True
    accept_drift_risk: bool = False
    missing: MissingMode = "worst"
    one_look: int | None = None
    retain: Retain = "responses"
    about_page: bool = False


def criteria_words(settings: Settings, control: str) -> list[tuple[str, str]]:
    """Say by what else than the best arm an experiment is decided, with a title each; `control` is the present arm.

    >>> criteria_words(Settings(300, harm=0.02), "A")
    [('Harm', 'an arm that is worse than A by more than 0.02 is a verdict')]
    """
    told = []
    if settings.expect is not None:
        plan = settings.expect
        told.append(("Plan", f"it is planned for a gain of {plan.gain:g} over {plan.baseline:g}"))
    if settings.forged:
        told.append(
            ("Forged answers", f"a verdict stands even if {100 * settings.forged:g} % of each arm's are forged")
        )
    if settings.worth is not None:
        told.append(("Gain that matters", f"that no arm is better than {control} by {settings.worth:g} is a verdict"))
    if settings.harm is not None:
        told.append(("Harm", f"an arm that is worse than {control} by more than {settings.harm:g} is a verdict"))
    return told


@dataclass(frozen=True, slots=True)
class Metadata:
    """A description of an experiment by people, for people: no device receives it. It may change; "" is nothing.

    `planned_end` is a day, such as "2026-12-24"; the server does not act on it.
    """

    title: str = ""
    description: str = ""
    hypothesis: str = ""
    owner: str = ""
    link: str = ""
    planned_end: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """An experiment. All intervals together cover the means at all times with the stated confidence."""

    name: str
    status: Status
    shipped: int | None
    created_at: int
    curator: dict[str, Any]
    guarantee: str
    rule: dict[str, Any]
    ticket_lifetime: int
    default_reward: float
    settings: Settings
    estimates: str
    confidence: float
    responses: int
    best: Best | None
    arms: Sequence[ArmReport]
    rejected: Rejected
    forecast: Forecast
    warnings: Sequence[str]
    verdict: Verdict | None = None
    comparisons: Sequence[Comparison] = ()
    metadata: Metadata = Metadata()
    stopped_at: int | None = None
    """When it stopped assigning arms by its rule: at a pause, a ship or a close; null while it runs, or unknown."""


def forecast_day(report: Report, now: float) -> date | None:
    """Return the day by which a running experiment would be decided, at the average traffic since its start.

    None where there is no forecast, or the day is more than ten years away.
    """
    more, counted = report.forecast.more_responses, report.responses - sum(report.settings.warm_pulls)
    if report.status != "running" or not more or counted <= 0 or now <= report.created_at:
        return None
    seconds = more * (now - report.created_at) / counted
    return None if seconds > LONGEST_FORECAST_S else datetime.fromtimestamp(now + seconds, UTC).date()


@dataclass(frozen=True, slots=True)
class Summary:
    """An experiment in a list."""

    name: str
    status: Status
    created_at: int
    arms: int
    responses: int
    title: str = ""


KeyRole: TypeAlias = Literal["admin", "editor", "viewer", "client", "allowance"]


@dataclass(frozen=True, slots=True)
class KeyReport:
    """A key of a person or a machine, or one that everybody with a role shares; never the key itself.

    `experiments` are those that an editor may change. `last_used` is a day, such as "2026-11-19", or null: not since
    days of use are kept. `is_fixed`: the key is set in the server's environment.
    """

    name: str
    role: KeyRole
    experiments: Sequence[str] = ()
    added_at: int | None = None
    last_used: str | None = None
    is_fixed: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """A line of the change log: when who changed what. It never has a response, a key or a secret.

    `at` is in seconds, `who` the name of a key, or "server". `experiment` is a name, which the line outlives; null for
    a change of keys. A later line has a larger number; numbers have gaps.
    """

    at: int
    who: str
    what: str
    experiment: str | None = None
    detail: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class EpsilonTally:
    """The number of responses that were drawn with this epsilon, and their exact sum: total * unit."""

    epsilon: float
    pulls: int
    total: int


@dataclass(frozen=True, slots=True)
class DuelTally:
    """The responses of an arm that a fair coin chose against this rival: a part of those in the row of the arm."""

    rival: int
    by_epsilon: Sequence[EpsilonTally]
    read: int | None = None


@dataclass(frozen=True, slots=True)
class TallyRow:
    """The number of responses of an arm, and their exact sum: total * unit.

    `read` is, in units of 2^-20, the sum of the responses as the rule reads them; null where it reads them unchanged.
    `duels` has those that a fair coin chose, by rival. A warm start does not take them over: it informs the choice of
    arms, and proves nothing.
    """

    arm: int
    name: str
    retired: bool
    pulls: int
    total: int
    by_epsilon: Sequence[EpsilonTally]
    read: int | None = None
    duels: Sequence[DuelTally] = ()


@dataclass(frozen=True, slots=True)
class Tallies:
    """Everything that the agent learns from. Another experiment can start from it: `warm_start`."""

    name: str
    curator: dict[str, Any]
    rule: dict[str, Any]
    unit: float
    arms: Sequence[TallyRow]


@dataclass(frozen=True, slots=True)
class ArmHistory:
    """The estimates of an arm at each moment: its number of responses, their debiased mean, and its interval."""

    arm: int
    name: str
    pulls: Sequence[int]
    mean: Sequence[float | None]
    low: Sequence[float]
    high: Sequence[float]


@dataclass(frozen=True, slots=True)
class History:
    """The estimates by number of responses to all arms; the last moment is now. Times are not stored, on purpose.

    `evidence` is for the present leader, the least against any other arm in use; from `needed` on it decides. There is
    none where the past has no such test: under `missing` = "worst", with one look, and with more than 16 arms.
    """

    name: str
    responses: Sequence[int]
    arms: Sequence[ArmHistory]
    leader: int | None = None
    evidence: Sequence[float] = ()
    needed: float | None = None
