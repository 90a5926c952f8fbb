"""Messages of the HTTP interface as types: msgspec validates requests by them, and the OpenAPI document lists them.

Replies to experimenters are in `ldpbandits.spec.messages`, which `ldpbandits.admin` imports too.

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
    STICKY_S,
    STOP_AFTER_S,
    Goal,
    MissingMode,
    NewEnding,
    NewExpectation,
    NewRamp,
    Responses,
    Retain,
    Share,
)
from ldpbandits.spec.allowance import MAX_ALLOWANCE_CHARACTERS

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
Positive = Annotated[float, Meta(gt=0, le=LARGEST)]
Count = Annotated[int, Meta(ge=0)]
WholeNumber = int | Annotated[float, Meta(multiple_of=1)]
"""In JSON 60.0 is a whole number too; an int loses no digit."""
WholeCount = Count | Annotated[float, Meta(ge=0, multiple_of=1)]
CuratorJson = Annotated[dict[str, Any], Meta(extra_json_schema={"$ref": "#/components/schemas/Curator"})]
"""A curator as `Menu.to_json` writes it. Which there are is known to the registries alone."""
RuleJson = Annotated[dict[str, Any], Meta(extra_json_schema={"$ref": "#/components/schemas/Rule"})]
"""A rule as `rule_to_json` writes it."""


_UNSAFE = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_LINE = "at most 200 characters in one line"
_TEXT = "at most 5000 characters, none of which is a control character"
_LINK = "an address that begins with http:// or https://, at most 2000 characters, or empty"
_DAY = "a day such as 2026-12-24, or empty"
Line = Annotated[str, Meta(pattern=rf"^[^\t\n{_UNSAFE}]{{0,200}}(?!\n)$", description=_LINE, extra={WORDS: _LINE})]
Text = Annotated[str, Meta(pattern=rf"^[^{_UNSAFE}]{{0,5000}}(?!\n)$", description=_TEXT, extra={WORDS: _TEXT})]
Link = Annotated[str, Meta(pattern=r"^(https?://[!-~]{1,2000})?(?!\n)$", description=_LINK, extra={WORDS: _LINK})]
Day = Annotated[str, Meta(pattern=r"^(\d{4}-\d{2}-\d{2})?(?!\n)$", description=_DAY, extra={WORDS: _DAY})]


class NewMetadata(Struct, frozen=True, forbid_unknown_fields=True):
    """A description of an experiment by people, for people. A field that is null stays as it is; "" empties it."""

    title: Line | None = None
    description: Text | None = None
    hypothesis: Text | None = None
    owner: Line | None = None
    link: Link | None = None
    planned_end: Day | None = None


class NewExperiment(Struct, frozen=True, forbid_unknown_fields=True):
    """An experiment to create.

    Its goal is to decide which arm is best with the fewest answers, by duels, and then to pause; or to earn as much as
    possible while it runs, by the default rule for its curator, as docs/rules.md has it: kl-ucb++ for bits. Where a
    rule is named, the goal follows from it. "paper" names the paper's: LDP-UCB-B for bernoulli, LDP-UCB-L for laplace.
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
        Number | None, Meta(description="the reward that a device privatises when none comes in time; null: 0, or low")
    ] = None
    report_after: Annotated[
        Annotated[float, Meta(ge=0, le=LONGEST_LIFETIME_S)] | None,
        Meta(description="seconds from the arm to the response; null: 25; 0: at once"),
    ] = None
    sticky: Annotated[
        float, Meta(ge=0, le=LONGEST_STICKY_S, description="seconds for which a device keeps showing its arm")
    ] = STICKY_S
    minimum_share: Annotated[Share | None, Meta(description="least share of the traffic for each arm")] = None
    warm_up: Annotated[Responses | None, Meta(description="equal traffic for this many responses of each arm")] = None
    ramp: Annotated[NewRamp | None, Meta(description="largest share of the traffic for arms that are added")] = None
    goal: Annotated[
        Goal | None, Meta(description="decide which arm is best, then stop; or earn while it runs; null: by the rule")
    ] = None
    stop_when_decided: Annotated[
        NewEnding | None, Meta(description="pause, or ship the best arm, at the verdict; null: pause if it decides")
    ] = None
    stop_when_separated: Annotated[NewEnding | None, Meta(description="the old name of stop_when_decided")] = None
    expect: Annotated[
        NewExpectation | None, Meta(description="the planned gain, in units of the reward: the verdict comes sooner")
    ] = None
    forged: Annotated[
        float, Meta(ge=0, le=0.5, description="share of forged answers to each arm that the verdict must survive")
    ] = 0
    worth: Annotated[
        Positive | None, Meta(description="smallest gain over the control that matters: none of it is a verdict too")
    ] = None
    harm: Annotated[
        Positive | None,
        Meta(description="loss against the control that is a verdict: it pauses, where it stops when decided"),
    ] = None
    control: Annotated[int | str, Meta(description="the present arm, by number or name")] = 0
    may_add_arms: Annotated[
        bool | None, Meta(description="arms may be added later, which takes more responses; null: if it earns")
    ] = None
    accept_drift_risk: Annotated[
        bool, Meta(description="stop also on verdicts that hold only if the means stayed what they were")
    ] = False
    missing: Annotated[
        MissingMode, Meta(description="a verdict rests on those who answered, or counts the others at worst")
    ] = "answered"
    one_look: Annotated[
        Responses | None, Meta(description="judged once, at this many responses; nobody sees any result before")
    ] = None
    retain: Annotated[
        Retain, Meta(description="keep single responses, or drop them at ship or close; exact tallies stay")
    ] = "responses"
    about_page: Annotated[
        bool, Meta(description="show a public page, /about/NAME, on what the experiment asks of a device")
    ] = False
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
            description="most responses counted in an hour; above it the experiment pauses itself; 0: no limit",
        ),
    ] = RESPONSES_PER_HOUR
    allowance_required: Annotated[
        bool, Meta(description="a decision needs an allowance that the site's own backend has signed")
    ] = False
    warm_start: Annotated[
        "WarmStart | None", Meta(description="the exported tallies of another experiment with this curator")
    ] = None
    metadata: NewMetadata | None = None
    """The title, the owner and the like, which may be changed later."""


class KnownEpsilon(Struct, frozen=True, forbid_unknown_fields=True):
    """The totals of an arm for one epsilon, as in `EpsilonTally`."""

    epsilon: float
    pulls: WholeCount
    total: WholeNumber


class KnownArm(Struct, frozen=True, forbid_unknown_fields=True):
    """As `TallyRow`; an arm's number, its duels, and whether it was retired, are not taken over."""

    name: ArmName
    pulls: WholeCount
    total: WholeNumber
    by_epsilon: list[KnownEpsilon] = []
    """It may be left out where the curator has one epsilon."""
    read: WholeNumber | None = None
    arm: WholeCount | None = None
    retired: bool = False
    duels: list[dict[str, Any]] = []


class WarmStart(Struct, frozen=True, forbid_unknown_fields=True):
    """As `Tallies`. The rule is needed where it reads responses in a way of its own; the name is not."""

    curator: CuratorJson
    arms: Annotated[list[KnownArm], Meta(max_length=MOST_ARMS)]
    rule: RuleJson | None = None
    unit: float | None = None
    name: str | None = None


class NewArm(Struct, frozen=True, forbid_unknown_fields=True):
    """An arm that is to be added."""

    name: NewArmName


class ShippedArm(Struct, frozen=True, forbid_unknown_fields=True):
    """The arm that everybody should get, by its number or its name."""

    arm: int | str


class NewKey(Struct, frozen=True, forbid_unknown_fields=True):
    """For how many seconds old keys stay valid; null: 0, or for the signing secret the longest ticket lifetime."""

    grace: Annotated[float, Meta(ge=0, le=LONGEST_LIFETIME_S, multiple_of=1)] | None = None


class Key(Struct, frozen=True):
    """A new key, shown this once; null for the secret that signs tickets, which is never shown."""

    role: Literal["admin", "editor", "viewer", "client", "allowance", "signing"]
    key: str | None
    name: str | None = None
    """The person or machine that has it; null for a key that everybody with its role shares."""


class ConsoleLink(Struct, frozen=True):
    """A link that opens the console once, within a few minutes; relative to the server's URL."""

    path: str


class DecisionRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A device's request for an arm; without an allowance the body may be left out."""

    allowance: Annotated[
        Annotated[str, Meta(max_length=MAX_ALLOWANCE_CHARACTERS, extra={HIDDEN: True})] | None,
        Meta(description="signed by the site's backend, where the experiment needs one"),
    ] = None


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """A body that says nothing; it may be left out."""


class NamedArm(Struct, frozen=True):
    """An arm, by its number and its name."""

    arm: Count
    name: str


class OfferMessage(Struct, frozen=True):
    """The terms of an experiment, which a device reads before it asks for an arm; `version` is a digest of the others.

    A reward may come until `report_after` seconds after the arm: that is the window, and then the response leaves. A
    device shows its arm again for `sticky` seconds, unless the offer ships another arm or lists it as retired.
    `shipped` is the arm that everybody gets, or null. A device may keep the offer for `max_age` seconds.
    """

    experiment: str
    version: str
    status: Literal["running", "paused", "shipped", "closed"]
    curator: CuratorJson
    default: float
    report_after: float
    sticky: float
    ticket_lifetime: int
    allowance_required: bool
    shipped: NamedArm | None
    retired: list[Count]
    max_age: Count


class Decision(Struct, frozen=True):
    """The arm to show, and the ticket to send back with the response, `report_after` seconds later.

    A shipped experiment asks for no response: there is an arm, and all else is null. `offer` is the version of the
    offer under which the arm was chosen.
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
    offer: str | None = None


class AcceptanceMessage(Struct, frozen=True, forbid_unknown_fields=True):
    """The ticket of a pull that a device has accepted: its arm is shown, and its response will come."""

    ticket: Annotated[str, Meta(max_length=1000, extra={HIDDEN: True})]


class Accepted(Struct, frozen=True):
    """The acceptance is on disk: now, or already from an earlier try, or with the response to the pull."""

    status: Literal["accepted", "duplicate"]


class AcceptanceBatch(Struct, frozen=True, forbid_unknown_fields=True):
    """The tickets of accepted pulls; one that is refused does not spoil others."""

    tickets: Annotated[
        list[Annotated[str, Meta(max_length=1000, extra={HIDDEN: True})]], Meta(min_length=1, max_length=LARGEST_BATCH)
    ]


class ResponseMessage(Struct, frozen=True, forbid_unknown_fields=True):
    """A private response and the ticket of its pull."""

    ticket: Annotated[str, Meta(max_length=1000, extra={HIDDEN: True})]
    response: Annotated[float, Meta(extra={HIDDEN: True})]
    epsilon: Annotated[
        float | None, Meta(description="the epsilon of the response; needed where the curator is a menu")
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
    """The outcome of one item of a batch; if it was refused, the code and the sentence of a single refusal."""

    status: Literal["accepted", "counted", "duplicate", "refused"]
    code: str | None = None
    message: str | None = None


class Problem(Struct, frozen=True):
    """Why a request was refused: a code for programs, a sentence for people."""

    code: str
    message: str


class Health(Struct, frozen=True):
    """The server is alive, or ready: the path says which was asked."""

    status: Literal["ok"] = "ok"
