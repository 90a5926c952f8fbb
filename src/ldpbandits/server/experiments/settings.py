"""Settings of an experiment apart from its curator and rule: when devices report, and the guardrails of its traffic.

The report publishes all of them. They are fixed when the experiment is created, and stored as JSON.
"""

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from ldpbandits.errors import DatabaseError, ParameterError

REPORT_AFTER_S = 300
"""Default of `report_after`: users leave most pages sooner."""

LATEST_REPORT_SHARE = 0.9
"""The share of a ticket's lifetime within which a device reports: the rest is for retries."""

MOST_RESPONSES = 1_000_000_000

RESPONSES_PER_HOUR = 10_000
"""Default of `responses_per_hour`: that of a site with some thousand visitors an hour."""

STOP_AFTER_S = 86_400
"""Default of `stop_after`: in a day, honest answers outnumber a burst of lies."""

Share: TypeAlias = Annotated[float, Meta(gt=0, le=1)]
Responses: TypeAlias = Annotated[float, Meta(ge=1, le=MOST_RESPONSES, multiple_of=1)]
Ending: TypeAlias = Literal["pause", "ship"]


class Ramp(Struct, frozen=True, forbid_unknown_fields=True):
    """Arms that are added later get at most this share of the traffic until each has this many responses."""

    share: Share
    responses: Responses


class Settings(Struct, frozen=True, omit_defaults=True):
    """When devices report, for how long they keep an arm, and the guardrails of the traffic.

    - `report_after`: seconds from the moment an arm is accepted to the moment its response is sent, the same whatever
      the reward; 0 sends it at once, and then its time tells of the reward.
    - `sticky`: seconds for which a device keeps showing the same arm.
    - `minimum_share`: the least share of the traffic that each arm gets.
    - `warm_up`: equal traffic until each of the first arms has this many responses.
    - `ramp`: for arms that are added later.
    - `stop_when_separated`: pause the experiment, or ship its best arm, once that is known to be the best.
    - `stop_after`: seconds from creation before which it never stops by itself.
    - `responses_per_hour`: the most responses that are counted; above it the experiment pauses itself. None: no limit.
    - `allowance_required`: a decision needs an allowance that the site's own backend has signed.
    - `first_arms`: the number of arms with which the experiment was created.
    - `warm_pulls`: the number of responses of each arm's warm start.
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

    def warm(self, arm: int) -> int:
        """Return the number of responses of this arm's warm start."""
        return self.warm_pulls[arm] if arm < len(self.warm_pulls) else 0

    def to_json(self) -> str:
        """Serialise the settings for the store."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> "Settings":
        """Parse the settings of a store."""
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError as error:
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
