"""The exception tree. Each message names the broken rule, and the value unless that value is a reward.

LDPBanditsError
├── ParameterError   an argument breaks its rule                                (also a ValueError)
│   ├── SpecError        a curator or rule spec is unknown or out of range
│   ├── ArmError         no such arm, or an arm that cannot be read
│   └── SnapshotError    a snapshot that contradicts itself
├── RewardError      a reward the curator cannot take; never shows the reward   (also a ValueError)
├── ResponseError    a response the agent cannot count                          (also a ValueError)
├── LimitError       an agent asks for more privacy than the device's owner allows
├── TicketError      a pull that cannot be observed: unknown, or already answered
├── LedgerError      a device's ledger that cannot be read or written
├── ServerError      an agent server that refuses, or cannot be reached
├── DatabaseError    an agent server's database that cannot be used
├── OutputError      results that cannot be written                             (also an OSError)
└── MissingExtra     a part that needs an extra which is not installed          (also an ImportError)
"""


class LDPBanditsError(Exception):
    """The base class of all errors of this library."""


class ParameterError(LDPBanditsError, ValueError):
    """An argument, a number or a name, breaks its rule."""


class SpecError(ParameterError):
    """A curator or rule spec is unknown or out of range."""


class ArmError(ParameterError):
    """There is no such arm, or its description cannot be read."""


class SnapshotError(ParameterError):
    """A snapshot of an agent contradicts itself."""


class RewardError(LDPBanditsError, ValueError):
    """The curator cannot take this reward. The message gives the rule and never the reward."""


class ResponseError(LDPBanditsError, ValueError):
    """The agent cannot count this response."""


class LimitError(LDPBanditsError):
    """An agent asks for more than the owner of the device allows. The device drew and sent no response."""


class TicketError(LDPBanditsError):
    """The device has no such pull, or the pull has had its one response."""


class LedgerError(LDPBanditsError):
    """The ledger cannot be read or written. Without it a device draws and sends no response."""


class ServerError(LDPBanditsError):
    """An agent server refuses a request (`status` and `code` say why), or cannot be reached (`status` is 0)."""

    def __init__(self, message: str, *, status: int = 0, code: str = "unreachable") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class DatabaseError(LDPBanditsError):
    """The database is not ours, is newer than this version, is in use, or cannot be opened."""


class OutputError(LDPBanditsError, OSError):
    """Results cannot be written; `is_full` tells a full disk from a place that cannot be written to."""

    def __init__(self, message: str, *, is_full: bool = False) -> None:
        super().__init__(message)
        self.is_full = is_full


class MissingExtra(LDPBanditsError, ImportError):  # noqa: N818 - a public name
    """A feature needs an extra that is not installed."""
