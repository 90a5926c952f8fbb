"""The constants of the live protocol: paths and codes of replies. Device and server both import them, so they agree.

1. A device reads the `OFFER` of an experiment: what it will be asked for. It goes on only within its owner's limits.
2. It asks `DECISIONS` and gets an arm, a ticket and the curator to respond with.
3. It sends the ticket to `ACCEPTANCES` as soon as it has accepted the pull: only accepted pulls can be missing.
4. It sends the ticket with one private response to `RESPONSES`.
5. It retries both until it gets an answer: a status (new, or known from an earlier try), or a refusal with a code.
"""

from enum import StrEnum
from urllib.parse import quote

EXPERIMENT = "/v1/experiments/{name}"
OFFER = EXPERIMENT + "/offer"
DECISIONS = EXPERIMENT + "/decisions"
ACCEPTANCES = "/v1/acceptances"
RESPONSES = "/v1/responses"
BATCH = "/batch"
"""Suffix of the last three paths: up to 100 of the kind in one request."""


def offer_path(experiment: str) -> str:
    """Return the path of the offer of this experiment."""
    return OFFER.format(name=quote(experiment, safe=""))


def decisions_path(experiment: str) -> str:
    """Return the path of the decisions of this experiment."""
    return DECISIONS.format(name=quote(experiment, safe=""))


NO_SUCH_PATH = "not found: see "
"""How the sentence of a server begins that does not know a path: an older one has no offers."""


class Acknowledged(StrEnum):
    """The status that a server returns for an acceptance or a response that is on its disk."""

    ACCEPTED = "accepted"
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
    HIDDEN = "hidden"
    DROPPED = "dropped"
    EXPIRED = "expired"
    TOO_LARGE = "too_large"
    IMPOSSIBLE = "impossible"
    INVALID = "invalid"
    INTERNAL = "internal"
    RETRY = "retry"
    REFUSED = "refused"


FINAL = frozenset({Code.FORGED, Code.CHANGED, Code.EXPIRED, Code.CLOSED, Code.IMPOSSIBLE, Code.MALFORMED})
"""Codes that no retry of a response will change. A device retries after all others, which may come from a proxy."""
