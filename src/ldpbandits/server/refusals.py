"""What the server refuses: a status for HTTP, a code for programs, a sentence for people."""

from ldpbandits.server.store import Outcome
from ldpbandits.spec.protocol import Code


class Refusal(Exception):  # noqa: N818 - an answer, not a fault of the server
    """Raised wherever a request is refused, and sent to whoever asked."""

    def __init__(self, status: int, code: str, message: str) -> None:
        """Take the three things that are said of a refusal."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message

    @classmethod
    def unavailable(cls) -> "Refusal":
        """Return what is said when the store cannot do it at the moment."""
        return cls(503, Code.RETRY, "nothing was written; send the same again")


REFUSED = {
    Outcome.CHANGED: (409, "another response to this ticket has been counted"),
    Outcome.EXPIRED: (410, "the ticket has expired"),
    Outcome.CLOSED: (410, "the experiment is closed"),
    Outcome.IMPOSSIBLE: (422, "not a possible response of this curator, or not by an epsilon that it offers"),
}
"""What a device is told of a response that does not count; the code is the outcome's own word."""
