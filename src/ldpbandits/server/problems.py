"""A request that is refused: status for HTTP, a code for programs, a sentence for people."""


class Refusal(Exception):  # noqa: N818 - an answer, not a fault of the server
    """The server refuses, and says why."""

    def __init__(self, status: int, code: str, message: str) -> None:
        """Say what, and why."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
