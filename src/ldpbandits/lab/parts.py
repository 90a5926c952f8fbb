"""The two parts of `reproduce`, and the panels that a folder holds from an earlier run, which stay.

Each part has one horizon, one number of trials and one seed. Where those of the folder are others, panels that are not
asked for now would be lost, and the run is refused. A part of which nothing is asked stays as the folder has it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from ldpbandits.errors import ParameterError
from ldpbandits.lab import beyond, paper


class Named(Protocol):
    """A panel has an id."""

    @property
    def id(self) -> str:
        """By which it is asked for."""


P = TypeVar("P", bound=Named)


@dataclass(frozen=True)
class Settings:
    """What all curves of a part have in common. Panels beyond the paper have a horizon of their own, up to this one."""

    horizon: int
    trials: int
    seed: int

    def differences(self, other: "Settings") -> tuple[str, str]:
        """Return in words what is not the same: here, and there."""
        pairs = zip(self.in_words(), other.in_words(), strict=True)
        here, there = zip(*(pair for pair in pairs if pair[0] != pair[1]), strict=True)
        return " and ".join(here), " and ".join(there)

    def in_words(self) -> tuple[str, str, str]:
        """Return each setting as a reader would say it."""
        return f"T = {self.horizon:,}", f"{self.trials:,} trials", f"seed {self.seed}"

    def to_json(self) -> dict[str, int]:
        """Return them as a summary has them."""
        return asdict(self)


@dataclass(frozen=True)
class Part(Generic[P]):
    """All panels of a part, the horizon that they usually have, and where a summary has them."""

    panels: tuple[P, ...]
    usual_horizon: int
    key: str | None
    """None: at the top of the summary."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Of all its panels."""
        return tuple(panel.id for panel in self.panels)

    def record(self, summary: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return what a summary says of this part; None if it says nothing."""
        return summary if self.key is None else summary.get(self.key)


PAPER = Part(paper.PANELS, paper.HORIZON, None)
BEYOND = Part(beyond.PANELS, 10**9, "beyond")
PARTS: dict[str, tuple[Part[Any], ...]] = {"paper": (PAPER,), "beyond": (BEYOND,), "all": (PAPER, BEYOND)}
"""By the names of the command line."""


@dataclass(frozen=True)
class Chosen(Generic[P]):
    """Panels of a part, in its order, with their settings."""

    panels: tuple[P, ...]
    settings: Settings


def asked_for(ids: Sequence[str], parts: Sequence[Part[Any]]) -> frozenset[str]:
    """Return the ids of the panels that are asked for: all of these parts for none."""
    known = tuple(one for part in parts for one in part.ids)
    for one in ids:
        if one not in known:
            raise ParameterError(f"panel must be one of {', '.join(known)}, got {one!r}")
    return frozenset(ids or known)


def with_earlier(part: Part[P], ids: frozenset[str], out: Path, settings: Settings) -> Chosen[P]:
    """Return the panels of a part that are among the ids, and those that the folder holds already."""
    asked = ids.intersection(part.ids)
    earlier, held = _read(out / "summary.json", part) or (settings, frozenset())
    if not asked:
        settings = earlier
    if earlier != settings and held - asked:
        others = sorted(held - asked)
        named, them = (f"panel {others[0]}", "it") if len(others) == 1 else (f"panels {', '.join(others)}", "them")
        here, now = earlier.differences(settings)
        raise ParameterError(
            f"{out} holds {named} with {here}, not {now}: "
            f"give another --out, or ask for {named} too, to play {them} anew"
        )
    return Chosen(tuple(panel for panel in part.panels if panel.id in asked | held), settings)


def _read(path: Path, part: Part[Any]) -> tuple[Settings, frozenset[str]] | None:
    """Return the settings and the panels of a part in a summary, or None if there is none."""
    try:
        record = part.record(json.loads(path.read_text(encoding="utf-8")))
        if record is None:
            return None
        settings = Settings(*(int(record[name]) for name in ("horizon", "trials", "seed")))
        held = frozenset(panel["panel"] for panel in record["panels"])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ParameterError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _unknown(path) from None
    if not held <= set(part.ids):
        raise _unknown(path)
    return settings, held


def _unknown(path: Path) -> ParameterError:
    return ParameterError(f"{path} is not a summary of panels that we know: give another --out")
