"""The live protocol's words: paths, and the codes of answers. Device and server read them here, so they agree.

1. A device asks `DECISIONS` of an experiment and gets an arm, a ticket and the curator that is asked for.
2. It sends the ticket with one private response to `RESPONSES`, as often as it takes to hear an answer.
3. The answer is a status (counted now, or before), or a refusal with a code.
"""

from enum import StrEnum
from urllib.parse import quote

EXPERIMENT = "/v1/experiments/{name}"
DECISIONS = EXPERIMENT + "/decisions"
RESPONSES = "/v1/responses"
BATCH = "/batch"
"""After either of these: up to 100 at once."""


def decisions_path(experiment: str) -> str:
    """Return where the arms of this experiment are asked for."""
    return DECISIONS.format(name=quote(experiment, safe=""))


class Acknowledged(StrEnum):
    """What a server says of a response that is on its disk."""

    COUNTED = "counted"
    DUPLICATE = "duplicate"


class Code(StrEnum):
    """Why a server refuses; each stands beside a sentence for people."""

    MALFORMED = "malformed"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    FORGED = "forged"
    NOT_ALLOWED = "not_allowed"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    CHANGED = "changed"
    EXISTS = "exists"
    FULL = "full"
    LAST = "last"
    ENVIRONMENT = "environment"
    RETIRED = "retired"
    SHIPPED = "shipped"
    PAUSED = "paused"
    CLOSED = "closed"
    EXPIRED = "expired"
    TOO_LARGE = "too_large"
    IMPOSSIBLE = "impossible"
    INVALID = "invalid"
    INTERNAL = "internal"
    RETRY = "retry"
    REFUSED = "refused"


FINAL = frozenset({Code.FORGED, Code.CHANGED, Code.EXPIRED, Code.CLOSED, Code.IMPOSSIBLE, Code.MALFORMED})
"""What a server may say to a response that no retry will change. Anything else may be a proxy's word: it is retried."""
