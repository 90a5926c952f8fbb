"""One exception tree. Each message names the rule that was broken, and the value unless that value is a reward.

LDPBanditsError
├── ParameterError   a number or name given by the caller is outside its rule   (also a ValueError)
│   ├── SpecError        a curator or rule spec is unknown or out of range
│   ├── ArmError         no such arm, or an arm that cannot be read
│   └── SnapshotError    a snapshot that does not add up
├── RewardError      a reward the curator cannot take; never shows the reward   (also a ValueError)
├── ResponseError    a response the agent cannot count                          (also a ValueError)
├── OutputError      results that cannot be written                             (also an OSError)
└── MissingExtra     a part that needs an extra which is not installed          (also an ImportError)
"""


class LDPBanditsError(Exception):
    """Anything this library refuses to do."""


class ParameterError(LDPBanditsError, ValueError):
    """A number or name given by the caller is outside its rule."""


class SpecError(ParameterError):
    """A curator or rule spec is unknown or out of range."""


class ArmError(ParameterError):
    """There is no such arm, or its description cannot be read."""


class SnapshotError(ParameterError):
    """A snapshot does not add up."""


class RewardError(LDPBanditsError, ValueError):
    """The curator cannot take this reward. The message gives the rule and never the reward."""


class ResponseError(LDPBanditsError, ValueError):
    """The agent cannot count this response."""


class OutputError(LDPBanditsError, OSError):
    """Results cannot be written; `is_full` tells a full disk from a place where nothing can be written."""

    def __init__(self, message: str, *, is_full: bool = False) -> None:
        """Say what cannot be written, and why."""
        super().__init__(message)
        self.is_full = is_full


class MissingExtra(LDPBanditsError, ImportError):  # noqa: N818 - reads as what it is: an extra that is missing
    """What was asked for needs an extra that is not installed."""
