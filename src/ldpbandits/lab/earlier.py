"""Panels that a folder holds from an earlier run: they stay when others are added.

A table has one horizon, one number of trials and one seed. Where those of the folder are others, panels that are not
asked for now would be lost, and the run is refused.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ldpbandits.errors import ParameterError
from ldpbandits.lab.paper import PANELS, Panel


@dataclass(frozen=True)
class Settings:
    """What all curves of a folder have in common."""

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


def with_earlier(panels: Sequence[Panel], out: Path, settings: Settings) -> tuple[Panel, ...]:
    """Return these panels and those that the folder holds already, in the paper's order."""
    earlier, held = _read(out / "summary.json") or (settings, frozenset())
    asked = {panel.id for panel in panels}
    if earlier != settings and held - asked:
        others = sorted(held - asked)
        named, them = (f"panel {others[0]}", "it") if len(others) == 1 else (f"panels {', '.join(others)}", "them")
        here, now = earlier.differences(settings)
        raise ParameterError(
            f"{out} holds {named} with {here}, not {now}: "
            f"give another --out, or ask for {named} too, to play {them} anew"
        )
    return tuple(panel for panel in PANELS if panel.id in asked | held)


def _read(path: Path) -> tuple[Settings, frozenset[str]] | None:
    """Return the settings and the panels of a summary, or None if there is none."""
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
        settings = Settings(*(int(summary[name]) for name in ("horizon", "trials", "seed")))
        held = frozenset(panel["panel"] for panel in summary["panels"])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ParameterError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise _unknown(path) from None
    if not held <= {panel.id for panel in PANELS}:
        raise _unknown(path)
    return settings, held


def _unknown(path: Path) -> ParameterError:
    return ParameterError(f"{path} is not a summary of panels that we know: give another --out")
