"""The front door: limits on the resources that an unauthenticated client may use.

Every field is a limit of one process, and becomes an option, an environment variable and a key of the configuration
file of the same name; its help text is in its metadata. Limits by address would not work: behind a proxy all requests
come from one, and the server must not know addresses. All limits are therefore on connections and keys, and above the
cap on connections the one that has kept the server waiting longest is closed.
"""

from dataclasses import dataclass, field, fields
from typing import Any

from ldpbandits.checks import brief, is_number, is_whole
from ldpbandits.errors import ParameterError

LARGEST_LIMIT_S = 86_400.0
LARGEST_COUNT = 100_000
"""The largest limits: larger values are mistakes, or numbers that the system does not accept."""


def _limit(default: float, least: float, most: float, text: str) -> Any:  # noqa: ANN401 - as dataclasses.field itself
    return field(default=default, metadata={"help": text, "least": least, "most": most})


@dataclass(frozen=True, kw_only=True)
class FrontDoor:
    """The limits, all with defaults that suit a public server; `metadata["help"]` of each field explains it."""

    connections: int = _limit(
        2000,
        1,
        LARGEST_COUNT,
        "connections open at once, per process; beyond that the one that has waited longest is closed",
    )
    header_bytes: int = _limit(16 * 1024, 1024, LARGEST_COUNT, "largest request line with all its headers, in bytes")
    head_seconds: float = _limit(
        10.0, 0.01, LARGEST_LIMIT_S, "longest time from connecting, or from the first byte, to the last header"
    )
    body_seconds: float = _limit(
        30.0, 0.01, LARGEST_LIMIT_S, "longest time from the last header to the last byte of the body"
    )
    idle_seconds: float = _limit(
        75.0,
        0.01,
        LARGEST_LIMIT_S,
        "how long a connection is kept for the next request; longer than the proxy in front keeps its own",
    )
    stall_seconds: float = _limit(
        30.0, 0.01, LARGEST_LIMIT_S, "how long a client may go without reading any of its reply"
    )
    stop_seconds: int = _limit(
        10, 0, LARGEST_LIMIT_S, "how long requests that are being answered may still take when the server stops"
    )
    admin_rate: float = _limit(
        100.0, 0.0, LARGEST_COUNT, "requests per second by one admin or editor key, per process; 0 is no limit"
    )
    viewer_rate: float = _limit(
        100.0, 0.0, LARGEST_COUNT, "requests per second by one viewer key, per process; 0 is no limit"
    )
    client_rate: float = _limit(
        1000.0,
        0.0,
        LARGEST_COUNT,
        "decisions per second by one client key, which all devices share, per process; 0 is no limit",
    )
    offer_max_age: int = _limit(
        60, 0, LARGEST_LIMIT_S, "seconds for which caches and devices may keep the offer of an experiment"
    )
    rate_burst: float = _limit(10.0, 1.0, LARGEST_LIMIT_S, "seconds of its rate that a key may use at once")

    def __post_init__(self) -> None:
        """Refuse a limit that is no number or out of its range."""
        for limit in fields(self):
            value, least, most = getattr(self, limit.name), limit.metadata["least"], limit.metadata["most"]
            if not is_number(value) or not least <= value <= most or (limit.type is int and not is_whole(value)):
                kind = "a whole number" if limit.type is int else "a number"
                raise ParameterError(f"{limit.name} must be {kind} from {least:g} to {most:g}, got {brief(value)}")


DEFAULT = FrontDoor()
