"""Settings of an experiment apart from its curator and rule: when devices report, and the guardrails of its traffic.

The report publishes all of them. They are fixed when the experiment is created, and stored as JSON.
"""

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from ldpbandits.errors import DatabaseError, ParameterError

REPORT_AFTER_S = 25
"""Default of `report_after`: browsers let the service worker of a page that is left live for about 30 s."""

LATEST_REPORT_SHARE = 0.9
"""The share of a ticket's lifetime within which a device reports: the rest is for retries."""

MOST_RESPONSES = 1_000_000_000

RESPONSES_PER_HOUR = 10_000
"""Default of `responses_per_hour`: that of a site with some thousand visitors an hour."""

STOP_AFTER_S = 86_400
"""Default of `stop_after`: in a day, honest answers outnumber a burst of lies."""

STICKY_S = 7 * 86_400
"""Default of `sticky`: a visitor who comes again within a week sees the same arm, and spends nothing again."""

Share: TypeAlias = Annotated[float, Meta(gt=0, le=1)]
Responses: TypeAlias = Annotated[float, Meta(ge=1, le=MOST_RESPONSES, multiple_of=1)]
Ending: TypeAlias = Literal["pause", "ship"]
NewEnding: TypeAlias = Literal["pause", "ship", "never"]
Goal: TypeAlias = Literal["decide", "earn"]
MissingMode: TypeAlias = Literal["answered", "worst"]
Retain: TypeAlias = Literal["responses", "tallies"]

OLD_NAMES = {"stop_when_separated": "stop_when_decided"}
"""Names of settings in earlier versions, and what they are called now."""


class NewRamp(Struct, frozen=True, forbid_unknown_fields=True):
    """Arms that are added later get at most this share of the traffic until each has this many responses."""

    share: Share
    responses: Responses


class NewExpectation(Struct, frozen=True, forbid_unknown_fields=True):
    """The plan of an experiment, in the units of the rewards: the mean of the present arm, and the gain over it."""

    baseline: float
    gain: Annotated[float, Meta(gt=0)]


class Settings(Struct, frozen=True, omit_defaults=True):
    """When devices report, for how long they keep an arm, the guardrails of the traffic, and when it is decided.

    Defaults are those of experiments that were stored before a setting existed.

    - `report_after`: seconds from the moment an arm is accepted to the moment its response is sent, the same whatever
      the reward; 0 sends it at once, and then its time reveals the reward.
    - `sticky`: seconds for which a device keeps showing the same arm.
    - `minimum_share`: the least share of the traffic that each arm gets.
    - `warm_up`: equal traffic until each of the first arms has this many responses.
    - `ramp`: for arms that are added later.
    - `stop_when_decided`: pause the experiment, or ship its best arm, once there is a verdict.
    - `stop_after`: seconds from creation before which it never stops by itself.
    - `responses_per_hour`: the most responses that are counted; above it the experiment pauses itself. None: no limit.
    - `allowance_required`: a decision needs an allowance that the site's own backend has signed.
    - `first_arms`: the number of arms with which the experiment was created.
    - `warm_pulls`: the number of responses of each arm's warm start.
    - `goal`: decide which arm is best, or earn as much as possible meanwhile.
    - `expect`: the gain that it was planned for, which is then found sooner.
    - `forged`: the share of each arm's answers that may be forged: a verdict waits until it stands in spite of them.
    - `worth`: the smallest gain over the control that matters. `harm`: the loss that is not accepted.
    - `control`: the number of the arm with which `worth` and `harm` compare.
    - `may_add_arms`: arms may be added later; a part of the error is kept for them.
    - `accept_drift_risk`: stop on verdicts that hold only if the means stayed what they were.
    - `missing`: a verdict rests on those who answered, or holds whatever the others would have said.
    - `one_look`: the number of responses at which it is judged, once; before, nobody sees any result.
    - `retain`: keep single responses, or drop them when the experiment is shipped or closed; tallies stay.
    - `about_page`: anybody may read the page `/about/NAME` on what the experiment asks of a device.
    """

    report_after: float
    sticky: float = 0
    minimum_share: float | None = None
    warm_up: int | None = None
    ramp: NewRamp | None = None
    stop_when_decided: Ending | None = None
    stop_after: float = 0
    responses_per_hour: int | None = None
    allowance_required: bool = False
    first_arms: int = 0
    warm_pulls: tuple[int, ...] = ()
    goal: Goal = "earn"
    expect: NewExpectation | None = None
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

    def warm(self, arm: int) -> int:
        """Return the number of responses of this arm's warm start."""
        return self.warm_pulls[arm] if arm < len(self.warm_pulls) else 0

    def to_json(self) -> str:
        """Serialise the settings for the store."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> "Settings":
        """Parse the settings of a store.

        An experiment that was told to stop by an earlier version still does, whatever its rule.
        """
        try:
            told = msgspec.json.decode(text, type=dict[str, Any])
            if told.keys() & OLD_NAMES.keys():
                told = {"accept_drift_risk": True} | {OLD_NAMES.get(key, key): value for key, value in told.items()}
            return msgspec.convert(told, cls)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise DatabaseError(f"the settings of an experiment cannot be read: {error}") from None


def report_delay(asked: float | None, ticket_lifetime: int) -> float:
    """Return the seconds after which devices report; a tenth of the ticket's lifetime must be left for retries."""
    latest = LATEST_REPORT_SHARE * ticket_lifetime
    if asked is None:
        return min(REPORT_AFTER_S, latest)
    if asked > latest:
        why = f"nine tenths of ticket_lifetime = {ticket_lifetime}"
        raise ParameterError(f"report_after must be at most {latest:g}, {why}, got {asked:g}")
    return asked
