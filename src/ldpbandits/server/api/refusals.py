"""What the server refuses: a status for HTTP, a code for programs, a sentence for people."""

from math import ceil

from ldpbandits.server.store import Outcome
from ldpbandits.spec.protocol import Code


class Refusal(Exception):  # noqa: N818 - an answer, not a fault of the server
    """Raised wherever a request is refused, and sent to whoever asked."""

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None) -> None:
        """Take the three things that are said of a refusal, and in how many seconds to try again, if that may help."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after = retry_after

    @classmethod
    def unavailable(cls) -> "Refusal":
        """Return what is said when the store cannot do it at the moment."""
        return cls(
            503, Code.RETRY, "the database cannot be written now; send the same again: it counts once", retry_after=1
        )

    @classmethod
    def too_fast(cls, seconds: float) -> "Refusal":
        """Return what is said to a key that asks more often than it may."""
        return cls(429, Code.RETRY, "this key asks too often; send the same again later", retry_after=ceil(seconds))


REFUSED = {
    Outcome.CHANGED: (409, "another response to this ticket has been counted"),
    Outcome.EXPIRED: (410, "the ticket has expired"),
    Outcome.CLOSED: (410, "the experiment is closed"),
    Outcome.IMPOSSIBLE: (422, "not a possible response of this curator, or not by an epsilon that it offers"),
}
"""What a device is told of a response that does not count; the code is the outcome's own word."""
