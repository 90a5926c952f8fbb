"""The provenance of a page: when, by which version and by which command it was made, and of what."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import UTC, datetime
from hashlib import sha256

import ldpbandits

DIGITS = 9
"""Significant digits of the numbers in a digest: machines may differ in the last ones."""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class Provenance:
    """The command, the date and the version behind a page."""

    command: str | None = None
    """The command line; None if it was made from Python."""
    date: str = field(default_factory=_now)
    version: str = ldpbandits.__version__

    @classmethod
    def of(cls, words: Sequence[str]) -> "Provenance":
        """Return the provenance of a page that these words of the command line ask for, now."""
        return cls(shlex.join(["ldpbandits", *words]))

    def rows(self, **more: str) -> list[tuple[str, str]]:
        """Return the rows of a table: date, version, command, and more by name."""
        told = {"date": self.date, "version": f"ldpbandits {self.version}", "command": self.command or "from Python"}
        return list((told | more).items())


def digest(data: object) -> str:
    """Return the SHA-256 of JSON-able data, dates and dataclasses, the same on every machine.

    >>> digest({"b": 0.1 + 0.2, "a": [1]}) == digest({"a": [1], "b": 0.3})
    True
    """
    text = json.dumps(_canonical(data), sort_keys=True, separators=(",", ":"))
    return f"SHA-256 {sha256(text.encode()).hexdigest()}"


def _canonical(data: object) -> object:
    """Return data as plain JSON, with numbers as text."""
    match data:
        case float():
            return f"{data:.{DIGITS}g}"
        case None | bool() | int() | str():
            return data
        case Mapping():
            return {str(name): _canonical(value) for name, value in data.items()}
        case Sequence():
            return [_canonical(value) for value in data]
        case _ if is_dataclass(data) and not isinstance(data, type):
            return {"kind": type(data).__name__, **{k: _canonical(v) for k, v in asdict(data).items()}}
    return str(data)
