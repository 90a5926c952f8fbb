"""The two parts of `reproduce`, and the panels that a folder holds from an earlier run, which stay.

Each part has one horizon, one number of trials and one seed. Where those of the folder are others, the run would lose
the panels that it does not ask for, so it is refused. A part without any panel asked for stays as the folder has it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ldpbandits.errors import ParameterError
from ldpbandits.lab.panels import beyond, paper
from ldpbandits.lab.panels.panel import Panel


@dataclass(frozen=True)
class Settings:
    """The numbers that all curves of a part share. Panels beyond the paper have horizons of their own, up to this."""

    horizon: int
    trials: int
    seed: int

    def differences(self, other: "Settings") -> tuple[str, str]:
        """Return in words the settings that differ: those of self, and those of the other."""
        pairs = zip(self.in_words(), other.in_words(), strict=True)
        here, there = zip(*(pair for pair in pairs if pair[0] != pair[1]), strict=True)
        return " and ".join(here), " and ".join(there)

    def in_words(self) -> tuple[str, str, str]:
        """Return each setting as a reader would say it."""
        return f"T = {self.horizon:,}", f"{self.trials:,} trials", f"seed {self.seed}"

    def to_json(self) -> dict[str, int]:
        """Return the settings as a summary has them."""
        return asdict(self)


@dataclass(frozen=True)
class Part:
    """All panels of a part, their usual horizon, and their place in a summary."""

    panels: tuple[Panel, ...]
    usual_horizon: int
    key: str | None
    """The key in the summary; None: the part is at its top."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all its panels."""
        return tuple(panel.id for panel in self.panels)

    def record(self, summary: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the record of this part in a summary; None if there is none."""
        return summary if self.key is None else summary.get(self.key)


PAPER = Part(paper.PANELS, paper.HORIZON, None)
BEYOND = Part(beyond.PANELS, beyond.HORIZON, "beyond")
PARTS: dict[str, tuple[Part, ...]] = {"paper": (PAPER,), "beyond": (BEYOND,), "all": (PAPER, BEYOND)}
"""The parts by their names on the command line."""


@dataclass(frozen=True)
class Selection:
    """Panels of one part, in its order, with their settings."""

    panels: tuple[Panel, ...]
    settings: Settings


def select_ids(ids: Sequence[str], parts: Sequence[Part]) -> frozenset[str]:
    """Return these ids of panels after checking them; without any, the ids of all panels of the parts."""
    known = tuple(one for part in parts for one in part.ids)
    for one in ids:
        if one not in known:
            raise ParameterError(f"panel must be one of {', '.join(known)}, got {one!r}")
    return frozenset(ids or known)


def resume(part: Part, ids: frozenset[str], out: Path, settings: Settings) -> Selection:
    """Select the panels of a part that are among the ids, and those that the folder holds from an earlier run."""
    asked = ids.intersection(part.ids)
    earlier, held = _read_summary(out / "summary.json", part) or (settings, frozenset())
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
    return Selection(tuple(panel for panel in part.panels if panel.id in asked | held), settings)


def _read_summary(path: Path, part: Part) -> tuple[Settings, frozenset[str]] | None:
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
        raise _unknown_summary(path) from None
    if not held <= set(part.ids):
        raise _unknown_summary(path)
    return settings, held


def _unknown_summary(path: Path) -> ParameterError:
    return ParameterError(f"{path} is not a summary of panels that we know: give another --out")
