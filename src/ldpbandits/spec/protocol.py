"""The constants of the live protocol: paths and codes of replies. Device and server both import them, so they agree.

1. A device asks `DECISIONS` of an experiment and gets an arm, a ticket and the curator to respond with.
2. It sends the ticket with one private response to `RESPONSES`, and retries until it gets an answer.
3. The answer is a status (counted now, or before), or a refusal with a code.
"""

from enum import StrEnum
from urllib.parse import quote

EXPERIMENT = "/v1/experiments/{name}"
DECISIONS = EXPERIMENT + "/decisions"
RESPONSES = "/v1/responses"
BATCH = "/batch"
"""Suffix of both paths: up to 100 decisions or responses in one request."""


def decisions_path(experiment: str) -> str:
    """Return the path of the decisions of this experiment."""
    return DECISIONS.format(name=quote(experiment, safe=""))


class Acknowledged(StrEnum):
    """The status that a server returns for a response that is on its disk."""

    COUNTED = "counted"
    DUPLICATE = "duplicate"


class Code(StrEnum):
    """The reason why a server refuses a request; a sentence for people accompanies it."""

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
"""Codes that no retry of a response will change. A device retries after all others, which may come from a proxy."""
