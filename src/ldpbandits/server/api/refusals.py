"""Refusals of requests: a status for HTTP, a code for programs, a sentence for people."""

from math import ceil

from ldpbandits.server.store import Outcome
from ldpbandits.spec.protocol import Code


class Refusal(Exception):  # noqa: N818 - an answer, not a fault of the server
    """Raised wherever a request is refused, and sent as its reply."""

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None) -> None:
        """Set status, code and sentence, and the seconds after which a retry may succeed, if any."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after = retry_after

    @classmethod
    def unavailable(cls) -> "Refusal":
        """Return the refusal for a store that is unavailable."""
        return cls(503, Code.RETRY, "the database cannot be written now; retry: a response counts once", retry_after=1)

    @classmethod
    def too_fast(cls, seconds: float) -> "Refusal":
        """Return the refusal for a key above its rate limit."""
        told = f"the rate limit of this key is exceeded: available again after {ceil(seconds)} s"
        return cls(429, Code.RETRY, told, retry_after=ceil(seconds))


REFUSED = {
    Outcome.CHANGED: (409, "another response to this ticket has been counted"),
    Outcome.EXPIRED: (410, "the ticket has expired"),
    Outcome.CLOSED: (410, "the experiment is closed"),
    Outcome.IMPOSSIBLE: (422, "not a possible response of this curator, or not by an epsilon that it offers"),
}
"""The refusals of responses that do not count; the code is the outcome's own word."""
