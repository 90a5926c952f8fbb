"""What a server tells an experimenter, field by field as it says it.

Each class is the twin of one in `ldpbandits.server.api.messages`. These need nothing but Python, and draw themselves.
"""

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ldpbandits.errors import ArmError
from ldpbandits.extras import needs
from ldpbandits.output.frames import frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Status: TypeAlias = Literal["running", "paused", "shipped", "closed"]
Ending: TypeAlias = Literal["pause", "ship"]


@dataclass(frozen=True, slots=True)
class ArmReport:
    """What is known of an arm. Decisions are answered, pending, or missing.

    `pulls` are its responses, `warm_pulls` those of them that were brought along. `missing_share` is of the decisions
    that are settled, answered or missing. The interval from `low` to `high` takes those who answered for everybody; the
    one from `worst_low` to `worst_high` holds whatever the others, missing or pending, would have said.
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


@dataclass(frozen=True, slots=True)
class Best:
    """The arm of largest mean so far; it is separated when its worst_low lies above the worst_high of all others."""

    arm: int
    name: str
    separated: bool


@dataclass(frozen=True, slots=True)
class Forecast:
    """Whether the best arm is separated, and if not, about how many more responses that takes; in a sentence, too."""

    separated: bool
    more_responses: int | None
    sentence: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """Responses that were not counted, by reason. A duplicate was counted, once, at its first coming."""

    forged: int
    expired: int
    impossible: int
    changed: int
    closed: int
    duplicate: int


@dataclass(frozen=True, slots=True)
class Ramp:
    """Arms that are added later get at most this share of the traffic until each has this many responses."""

    share: float
    responses: float


@dataclass(frozen=True, slots=True)
class Settings:
    """When devices report, for how long they keep an arm, and the guardrails of the traffic.

    A server leaves out what is not set.
    """

    report_after: float
    sticky: float = 0
    minimum_share: float | None = None
    warm_up: int | None = None
    ramp: Ramp | None = None
    stop_when_separated: Ending | None = None
    stop_after: float = 0
    responses_per_hour: int | None = None
    allowance_required: bool = False
    first_arms: int = 0
    warm_pulls: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """An experiment. All intervals together cover the means at all times with the stated confidence.

    `print` shows it as a table.
    """

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
    arms: tuple[ArmReport, ...]
    rejected: Rejected
    forecast: Forecast
    warnings: tuple[str, ...]

    @property
    def measure(self) -> str:
        """What means and intervals are of, in words: a mean, or a chance."""
        if self.estimates.startswith("P("):
            return self.estimates
        return "the mean reward" if self.estimates == "reward" else f"the mean of {self.estimates}"

    def arm(self, arm: int | str) -> ArmReport:
        """Return an arm by its number or its name."""
        for each in self.arms:
            if arm == (each.name if isinstance(arm, str) else each.arm):
                return each
        listed = ", ".join(f"{each.arm} ({each.name})" for each in self.arms[:20])
        raise ArmError(f"the experiment {self.name} has no arm {arm!r}; it has {listed}")

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON-able data."""
        return asdict(self)

    def to_frame(self) -> Any:  # noqa: ANN401 - of pandas, which need not be there
        """Return a pandas DataFrame with a row for each arm."""
        names = [each.name for each in fields(ArmReport)]
        return frame({name: [getattr(arm, name) for arm in self.arms] for name in names})

    def plot(self) -> "Figure":
        """Draw each arm's mean as a dot in its interval; return matplotlib's Figure, which notebooks show."""
        with needs("lab", who="plot"):
            from ldpbandits.admin.figures import draw_report  # noqa: PLC0415 - matplotlib, only for those who draw

        return draw_report(self)

    def __str__(self) -> str:
        """Show it as a table of 80 columns."""
        from ldpbandits.admin.text import report  # noqa: PLC0415 - it knows these classes

        return report(self, 80)

    def __repr__(self) -> str:
        """Show which it is, and how far it has come."""
        return f"<Report {self.name}: {self.status}, {len(self.arms)} arms, {self.responses:,} responses>"


@dataclass(frozen=True, slots=True)
class Summary:
    """An experiment in a list."""

    name: str
    status: Status
    created_at: int
    arms: int
    responses: int


@dataclass(frozen=True, slots=True)
class EpsilonTally:
    """The number of responses that were drawn by this epsilon, and their exact sum: total * unit."""

    epsilon: float
    pulls: int
    total: int


@dataclass(frozen=True, slots=True)
class TallyRow:
    """The number of responses of an arm, and their exact sum: total * unit.

    `read` is, in units of 2^-20, the sum of what the rule reads of them; None where it reads them as they are.
    """

    arm: int
    name: str
    retired: bool
    pulls: int
    total: int
    by_epsilon: tuple[EpsilonTally, ...]
    read: int | None = None


@dataclass(frozen=True, slots=True)
class Tallies:
    """All that the agent learns from. Another experiment can start from it: `warm_start`."""

    name: str
    curator: dict[str, Any]
    rule: dict[str, Any]
    unit: float
    arms: tuple[TallyRow, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON-able data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ArmHistory:
    """An arm after so many responses in all: its pulls, its mean and its interval."""

    arm: int
    name: str
    pulls: tuple[int, ...]
    mean: tuple[float | None, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True, slots=True, repr=False)
class History:
    """Estimates over responses, the last of which are those of now. Times are not kept, on purpose."""

    name: str
    responses: tuple[int, ...]
    arms: tuple[ArmHistory, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON-able data."""
        return asdict(self)

    def to_frame(self) -> Any:  # noqa: ANN401 - of pandas, which need not be there
        """Return a tidy pandas DataFrame: a row for each moment and arm."""
        rows = [(at, number, arm) for at, number in enumerate(self.responses) for arm in self.arms]
        whole = {
            "responses": [number for _, number, _ in rows],
            "arm": [arm.arm for _, _, arm in rows],
            "name": [arm.name for _, _, arm in rows],
        }
        return frame(whole | {name: [getattr(arm, name)[at] for at, _, arm in rows] for name in _SERIES})

    def plot(self) -> "Figure":
        """Draw each arm's mean and interval over responses; return matplotlib's Figure, which notebooks show."""
        with needs("lab", who="plot"):
            from ldpbandits.admin.figures import draw_history  # noqa: PLC0415 - matplotlib, only for those who draw

        return draw_history(self)

    def __repr__(self) -> str:
        """Show which it is."""
        return f"<History {self.name}: {len(self.arms)} arms at {len(self.responses)} moments>"


_SERIES = ("pulls", "mean", "low", "high")
