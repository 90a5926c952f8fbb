"""Everything that travels over HTTP, as types: they validate what comes in, and the OpenAPI page is made from them.

No message has a field for a reward that somebody got. The default reward of an experiment is the experimenter's own
number, the same for everybody, and travels from the server to the devices.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct

from ldpbandits.server.api.validation import HIDDEN, WORDS
from ldpbandits.server.experiments.limits import LARGEST, LARGEST_BATCH, LONGEST_LIFETIME_S, MOST_ARMS
from ldpbandits.server.experiments.settings import (
    MOST_RESPONSES,
    RESPONSES_PER_HOUR,
    STOP_AFTER_S,
    Ending,
    Ramp,
    Responses,
    Settings,
    Share,
)
from ldpbandits.server.store import Status
from ldpbandits.spec.allowance import LONGEST_ALLOWANCE

NAME_PATTERN = r"^[a-z0-9][a-z0-9-]{0,63}(?!\n)$"
"""In Python, and only there, $ alone would let a line break pass at the end."""

ARM_NAME_PATTERN = r"^[^\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]{1,100}(?!\n)$"
"""Devices refuse names with characters that cannot be seen but change how others are shown."""

_UNSEEN = (
    r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2064\u206a-\u206f"
    r"\u2800\u3164\ufeff\uffa0\ufff9-\ufffb"
)
_JOINERS = r"\u200c\u200d\ufe00-\ufe0f"
NEW_ARM_NAME_PATTERN = ARM_NAME_PATTERN.replace("]{1,100}", f"{_UNSEEN}]{{1,100}}").replace(
    "^", rf"^(?=.*[^\s{_JOINERS}])", 1
)
"""New names have no character that nobody sees either, but for the joiners of some scripts and of emoji, and spaces, of
which no name has nothing else. Names that were given before are still read."""

_NAME = "at most 64 lower-case letters, digits and hyphens, starting with a letter or digit"
_ARM_NAME = "1 to 100 characters, none of which is a line break or another control character"
Name = Annotated[str, Meta(pattern=NAME_PATTERN, description=_NAME, examples=["headline"], extra={WORDS: _NAME})]
ArmName = Annotated[
    str, Meta(pattern=ARM_NAME_PATTERN, description=_ARM_NAME, examples=["green"], extra={WORDS: _ARM_NAME})
]
_NEW_ARM_NAME = "1 to 100 characters, each of which can be seen; arms do not look alike"
NewArmName = Annotated[
    str, Meta(pattern=NEW_ARM_NAME_PATTERN, description=_NEW_ARM_NAME, examples=["green"], extra={WORDS: _NEW_ARM_NAME})
]
LONGEST_STICKY_S = 366 * 24 * 3600
Number = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
Count = Annotated[int, Meta(ge=0)]
WholeNumber = int | Annotated[float, Meta(multiple_of=1)]
"""In JSON 60.0 is a whole number too; an int loses no digit."""
WholeCount = Count | Annotated[float, Meta(ge=0, multiple_of=1)]
CuratorJson = Annotated[dict[str, Any], Meta(extra_json_schema={"$ref": "#/components/schemas/Curator"})]
"""A curator as `Menu.to_json` writes it. Which there are is known to the registries alone."""
RuleJson = Annotated[dict[str, Any], Meta(extra_json_schema={"$ref": "#/components/schemas/Rule"})]
"""A rule as `rule_to_json` writes it."""


class NewExperiment(Struct, frozen=True, forbid_unknown_fields=True):
    """An experiment to create.

    Without a rule it gets the default for its curator, as docs/rules.md has it: kl-ucb++ for bits. "paper" names the
    paper's: LDP-UCB-B for bernoulli, LDP-UCB-L for laplace.
    """

    name: Name
    arms: Annotated[
        list[NewArmName],
        Meta(min_length=1, max_length=MOST_ARMS, examples=[["blue", "red"]], extra_json_schema={"uniqueItems": True}),
    ]
    curator: CuratorJson
    rule: RuleJson | Literal["paper"] | None = None
    ticket_lifetime: Annotated[
        float, Meta(ge=1, le=LONGEST_LIFETIME_S, multiple_of=1, description="seconds that a device has to answer")
    ] = 3600
    """In JSON 60.0 is a whole number too."""
    default_reward: Annotated[
        Number | None, Meta(description="what a device privatises when no reward comes in time; null: 0, or low")
    ] = None
    report_after: Annotated[
        Annotated[float, Meta(ge=0, le=LONGEST_LIFETIME_S)] | None,
        Meta(description="seconds from the arm to the response; null: 300; 0: at once"),
    ] = None
    sticky: Annotated[
        float, Meta(ge=0, le=LONGEST_STICKY_S, description="seconds for which a device keeps showing its arm")
    ] = 0
    minimum_share: Annotated[Share | None, Meta(description="of the traffic, for each arm")] = None
    warm_up: Annotated[Responses | None, Meta(description="equal traffic for this many responses of each arm")] = None
    ramp: Annotated[Ramp | None, Meta(description="what an arm that is added later gets at most, until when")] = None
    stop_when_separated: Annotated[
        Ending | None, Meta(description="pause, or ship the best arm, once it is known to be the best")
    ] = None
    stop_after: Annotated[
        float,
        Meta(ge=0, le=LONGEST_STICKY_S, description="seconds from creation before which it never stops by itself"),
    ] = STOP_AFTER_S
    responses_per_hour: Annotated[
        float,
        Meta(
            ge=0,
            le=MOST_RESPONSES,
            multiple_of=1,
            description="counted at most; above it the experiment pauses itself; 0: no limit",
        ),
    ] = RESPONSES_PER_HOUR
    allowance_required: Annotated[
        bool, Meta(description="a decision needs an allowance that the site's own backend has signed")
    ] = False
    warm_start: Annotated[
        "WarmStart | None", Meta(description="what another experiment of this curator has exported as its tallies")
    ] = None


class KnownEpsilon(Struct, frozen=True, forbid_unknown_fields=True):
    """As `EpsilonTally`."""

    epsilon: float
    pulls: WholeCount
    total: WholeNumber


class KnownArm(Struct, frozen=True, forbid_unknown_fields=True):
    """As `TallyRow`; of an arm's number, and whether it was retired, nothing is taken over."""

    name: ArmName
    pulls: WholeCount
    total: WholeNumber
    by_epsilon: list[KnownEpsilon] = []
    """It may be left out where the curator has one epsilon."""
    read: WholeNumber | None = None
    arm: WholeCount | None = None
    retired: bool = False


class WarmStart(Struct, frozen=True, forbid_unknown_fields=True):
    """As `Tallies`. The rule is needed where it reads responses in a way of its own; the name is not."""

    curator: CuratorJson
    arms: Annotated[list[KnownArm], Meta(max_length=MOST_ARMS)]
    rule: RuleJson | None = None
    unit: float | None = None
    name: str | None = None


class NewArm(Struct, frozen=True, forbid_unknown_fields=True):
    """An arm to add."""

    name: NewArmName


class ShippedArm(Struct, frozen=True, forbid_unknown_fields=True):
    """The arm that everybody should get, by its number or its name."""

    arm: int | str


class NewKey(Struct, frozen=True, forbid_unknown_fields=True):
    """For how many seconds old keys stay valid; null: 0, or for the signing secret the longest ticket lifetime."""

    grace: Annotated[float, Meta(ge=0, le=LONGEST_LIFETIME_S, multiple_of=1)] | None = None


class Key(Struct, frozen=True):
    """A new key, shown this once; null for the secret that signs tickets, which is never shown."""

    role: Literal["admin", "viewer", "client", "allowance", "signing"]
    key: str | None


class ConsoleLink(Struct, frozen=True):
    """A link that opens the console once, within a few minutes; relative to the server's URL."""

    path: str


class DecisionRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A device's request for an arm; without an allowance the body may be left out."""

    allowance: Annotated[
        Annotated[str, Meta(max_length=LONGEST_ALLOWANCE, extra={HIDDEN: True})] | None,
        Meta(description="signed by the site's backend, where the experiment needs one"),
    ] = None


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """A body that says nothing; it may be left out."""


class Decision(Struct, frozen=True):
    """The arm to show, and the ticket to send back with the response, `report_after` seconds later.

    A shipped experiment asks for no response: there is an arm, and all else is null.
    """

    arm: Count
    name: str
    ticket: str | None = None
    curator: CuratorJson | None = None
    default: float | None = None
    report_after: float | None = None
    sticky: float = 0
    expires_at: int | None = None
    expires_in: int | None = None


class ResponseMessage(Struct, frozen=True, forbid_unknown_fields=True):
    """A private response and the ticket of its pull."""

    ticket: Annotated[str, Meta(max_length=1000, extra={HIDDEN: True})]
    response: Annotated[float, Meta(extra={HIDDEN: True})]
    epsilon: Annotated[
        float | None, Meta(description="by which it was drawn; needed where the curator leaves a choice")
    ] = None


class Counted(Struct, frozen=True):
    """The response is on disk: now, or already from an earlier try."""

    status: Literal["counted", "duplicate"]


class Batch(Struct, frozen=True, forbid_unknown_fields=True):
    """How many decisions are asked for."""

    count: Annotated[float, Meta(ge=1, le=LARGEST_BATCH, multiple_of=1)]


class ResponseBatch(Struct, frozen=True, forbid_unknown_fields=True):
    """Responses, each as it would be sent alone; they are read one by one, so a wrong one does not spoil others."""

    responses: Annotated[
        list[Annotated[Raw, Meta(extra_json_schema={"anyOf": [{"$ref": "#/components/schemas/ResponseMessage"}, {}]})]],
        Meta(min_length=1, max_length=LARGEST_BATCH),
    ]


class BatchResult(Struct, frozen=True):
    """The outcome of a response in a batch; if it was refused, the code and the sentence of a single refusal."""

    status: Literal["counted", "duplicate", "refused"]
    code: str | None = None
    message: str | None = None


class Problem(Struct, frozen=True):
    """Why a request was refused: a code for programs, a sentence for people."""

    code: str
    message: str


class ArmReport(Struct, frozen=True):
    """The estimates and counts of an arm. Decisions are answered, pending, or missing.

    `pulls` are its responses, `warm_pulls` those of them that were brought along. `missing_share` is of the decisions
    that are settled, answered or missing. The interval from `low` to `high` takes those who answered for everybody; the
    one from `worst_low` to `worst_high` holds whatever the others, missing or pending, would have said.
    """

    arm: Count
    name: str
    retired: bool
    pulls: Count
    pending: Count
    missing: Count
    decisions: Count
    share: float | None
    mean: float | None
    low: float
    high: float
    fits: bool
    warm_pulls: Count
    missing_share: float | None
    worst_low: float
    worst_high: float


class Best(Struct, frozen=True):
    """The arm of largest mean so far.

    It is separated when there are other arms in use, and its worst_low lies above the worst_high of them all.
    """

    arm: Count
    name: str
    separated: bool


class Forecast(Struct, frozen=True):
    """Whether the best arm is separated, and if not, about how many more responses to all arms that takes.

    `more_responses` is null when there is too little to say, or it would be more than a billion.
    """

    separated: bool
    more_responses: Count | None
    sentence: str


class Rejected(Struct, frozen=True):
    """Responses that were not counted, by reason.

    Forged tickets belong to no experiment: all that came are shown. A duplicate was counted, once, at its first coming.
    """

    forged: Count
    expired: Count
    impossible: Count
    changed: Count
    closed: Count
    duplicate: Count


class Report(Struct, frozen=True):
    """An experiment. All intervals together cover the means at all times with the stated confidence."""

    name: str
    status: Status
    shipped: Count | None
    created_at: int
    curator: CuratorJson
    guarantee: str
    rule: RuleJson
    ticket_lifetime: int
    default_reward: float
    settings: Settings
    estimates: str
    confidence: float
    responses: Count
    best: Best | None
    arms: list[ArmReport]
    rejected: Rejected
    forecast: Forecast
    warnings: list[str]


class ArmHistory(Struct, frozen=True):
    """The estimates of an arm at each moment: its responses, their debiased mean, and its interval."""

    arm: Count
    name: str
    pulls: list[Count]
    mean: list[float | None]
    low: list[float]
    high: list[float]


class History(Struct, frozen=True):
    """The estimates by number of responses to all arms; the last moment is now. Times are not stored, on purpose."""

    name: str
    responses: list[Count]
    arms: list[ArmHistory]


class EpsilonTally(Struct, frozen=True):
    """The number of responses that were drawn by this epsilon, and their exact sum: total * unit."""

    epsilon: float
    pulls: Count
    total: int


class TallyRow(Struct, frozen=True):
    """The number of responses of an arm, and their exact sum: total * unit.

    `read` is, in units of 2^-20, the sum of what the rule reads of them; null where it reads them as they are.
    """

    arm: Count
    name: str
    retired: bool
    pulls: Count
    total: int
    by_epsilon: list[EpsilonTally]
    read: int | None = None


class Tallies(Struct, frozen=True):
    """All that the agent learns from; another experiment may start from it."""

    name: str
    curator: CuratorJson
    rule: RuleJson
    unit: float
    arms: list[TallyRow]


class Summary(Struct, frozen=True):
    """An experiment in a list."""

    name: str
    status: Status
    created_at: int
    arms: Count
    responses: Count


class Health(Struct, frozen=True):
    """The server is alive, or ready: the path says which was asked."""

    status: Literal["ok"] = "ok"
