"""Everything that travels over HTTP, as types: they validate what comes in, and the OpenAPI page is made from them.

No message has a field for a reward that somebody got. The default reward of an experiment is the experimenter's own
number, the same for everybody, and travels from the server to the devices.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ldpbandits.server.limits import LARGEST, LONGEST_LIFETIME, MOST_ARMS
from ldpbandits.server.settings import Ending, Ramp, Responses, Settings, Share
from ldpbandits.server.store import Status

NAME_PATTERN = r"^[a-z0-9][a-z0-9-]{0,63}(?!\n)$"
"""In Python, and only there, $ alone would let a line break pass at the end."""

Name = Annotated[
    str, Meta(pattern=NAME_PATTERN, description="lower-case letters, digits and hyphens", examples=["headline"])
]
ArmName = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f]{1,100}(?!\n)$", examples=["green"])]
LONGEST_STICKY = 366 * 24 * 3600
Number = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
Count = Annotated[int, Meta(ge=0)]
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
    arms: Annotated[list[ArmName], Meta(min_length=1, max_length=MOST_ARMS, extra_json_schema={"uniqueItems": True})]
    curator: CuratorJson
    rule: RuleJson | Literal["paper"] | None = None
    ticket_lifetime: Annotated[
        float, Meta(ge=1, le=LONGEST_LIFETIME, multiple_of=1, description="seconds that a device has to answer")
    ] = 3600
    """In JSON 60.0 is a whole number too."""
    default_reward: Annotated[
        Number | None, Meta(description="what a device privatises when no reward comes in time; null: 0, or low")
    ] = None
    report_after: Annotated[
        Annotated[float, Meta(ge=0, le=LONGEST_LIFETIME)] | None,
        Meta(description="seconds from the arm to the response; null: 300; 0: at once"),
    ] = None
    sticky: Annotated[
        float, Meta(ge=0, le=LONGEST_STICKY, description="seconds for which a device keeps showing its arm")
    ] = 0
    minimum_share: Annotated[Share | None, Meta(description="of the traffic, for each arm")] = None
    warm_up: Annotated[Responses | None, Meta(description="equal traffic until each arm has so many responses")] = None
    ramp: Annotated[Ramp | None, Meta(description="what an arm that is added later gets at most, until when")] = None
    stop_when_separated: Annotated[
        Ending | None, Meta(description="pause, or ship the best arm, once it is known to be the best")
    ] = None


class NewArm(Struct, frozen=True, forbid_unknown_fields=True):
    """An arm to add."""

    name: ArmName


class ShippedArm(Struct, frozen=True, forbid_unknown_fields=True):
    """The arm that everybody is to get, by its number or its name."""

    arm: int | str


class NewKey(Struct, frozen=True, forbid_unknown_fields=True):
    """For how many seconds old keys still hold; null: 0, or for the signing secret the longest ticket lifetime."""

    grace: Annotated[float, Meta(ge=0, le=LONGEST_LIFETIME, multiple_of=1)] | None = None


class Key(Struct, frozen=True):
    """A new key, shown this once; null for the secret that signs tickets, which is never shown."""

    role: Literal["admin", "viewer", "client", "signing"]
    key: str | None


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """A body that says nothing; it may be left out."""


class Decision(Struct, frozen=True):
    """The arm to show, and the ticket to send back with the response, `report_after` seconds later.

    Of a shipped experiment no response is asked: there is an arm, and all else is null.
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

    ticket: Annotated[str, Meta(max_length=1000)]
    response: float
    epsilon: Annotated[
        float | None, Meta(description="by which it was drawn; needed where the curator leaves a choice")
    ] = None


class Counted(Struct, frozen=True):
    """The response is on disk: now, or already from an earlier try."""

    status: Literal["counted", "duplicate"]


class Problem(Struct, frozen=True):
    """Why a request was refused: a code for programs, a sentence for people."""

    code: str
    message: str


class ArmReport(Struct, frozen=True):
    """What is known of an arm. Decisions are answered (pulls), pending, or missing."""

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


class Best(Struct, frozen=True):
    """The arm of largest mean so far; it is separated when its interval lies above those of all arms in use."""

    arm: Count
    name: str
    separated: bool


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


class EpsilonTally(Struct, frozen=True):
    """The number of responses that were drawn by this epsilon, and their exact sum: total * unit."""

    epsilon: float
    pulls: Count
    total: int


class TallyRow(Struct, frozen=True):
    """The number of responses of an arm, and their exact sum: total * unit."""

    arm: Count
    name: str
    retired: bool
    pulls: Count
    total: int
    by_epsilon: list[EpsilonTally]


class Tallies(Struct, frozen=True):
    """All that the agent learns from."""

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
    """The server is up, and its database answers."""

    status: Literal["ok"] = "ok"
