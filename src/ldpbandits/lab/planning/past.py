"""Rewards of the past as the baseline of a plan: one column of a table.

The range of the rewards is public, since devices are told of it: so it is declared, never read off the data. Rewards
beyond it count as its ends, as they do on a device.
"""

import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from ldpbandits.checks import brief, is_number
from ldpbandits.errors import ParameterError
from ldpbandits.spec.transforms import Range

MOST_VALUES = 64
"""Rewards are grouped to so many values, each the mean of its group: what is left out is not seen through noise."""


@dataclass(frozen=True, slots=True)
class Past:
    """The values behind past rewards, in [0, 1], rising, and how often each occurred."""

    file: str
    values: tuple[float, ...]
    counts: tuple[int, ...]
    clipped: int
    """How many rewards lay beyond the range."""

    @property
    def rewards(self) -> int:
        """How many rewards there are."""
        return sum(self.counts)

    @property
    def mean(self) -> float:
        """The mean of the values."""
        total = sum(Fraction(value) * count for value, count in zip(self.values, self.counts, strict=True))
        return float(total / self.rewards)


def read_past(place: str, declared: Range) -> Past:
    """Read the rewards of one arm from FILE.csv, or of the arm ARM from FILE.csv#ARM."""
    path, arm = Path(place), ""
    if "#" in place and not path.exists():
        name, _, arm = place.rpartition("#")
        path = Path(name)
    found, clipped = Counter[float](), 0
    try:
        for line, reward in _rewards(path, arm):
            inside = min(max(reward, declared.low), declared.high)
            if inside != reward and declared == Range():
                told = "is not in [0, 1]: declare with --range LOW,HIGH what devices will be told"
                raise ParameterError(f"{path}, line {line}: the reward {told}")
            clipped += inside != reward
            found[(inside - declared.low) / (declared.high - declared.low)] += 1
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ParameterError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not found:
        raise ParameterError(f"{path} has no rewards")
    return _grouped(path.name, found, clipped)


def _rewards(path: Path, arm: str) -> Iterator[tuple[int, float]]:
    """Yield the number of each line and the reward in it; errors name the line, never the reward."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file)
        head = next(rows, [])
        column = _column(path, head)
        named = head.index("arm") if "arm" in head else None
        if arm and named is None:
            raise ParameterError(f"{path} has no column arm: {brief(arm)} cannot be found in it")
        seen = ""
        lines = rows if "reward" in head else _again(head, rows)
        for row in lines:
            if not row:
                continue
            if len(row) <= max(column, named or 0):
                raise ParameterError(f"{path}, line {rows.line_num}: too few columns")
            if named is not None and arm and row[named] != arm:
                continue
            if named is not None and not arm and seen not in {"", row[named]}:
                told = f"name the one that is used now, such as {path}#{seen}"
                raise ParameterError(f"{path}, line {rows.line_num}: there is more than one arm; {told}")
            seen = seen if named is None else row[named]
            try:
                reward = float(row[column])
            except ValueError:
                reward = float("nan")
            if not is_number(reward):
                raise ParameterError(f"{path}, line {rows.line_num}: needs a reward that is a number")
            yield rows.line_num, reward


def _column(path: Path, head: list[str]) -> int:
    """Return where the rewards stand: under `reward`, or in a table of one column of numbers."""
    if "reward" in head:
        return head.index("reward")
    try:
        (only,) = head
        float(only)
    except ValueError:
        raise ParameterError(f"{path} needs a first line with the column reward, or one column of numbers") from None
    return 0


def _again(first: list[str], rows: Iterator[list[str]]) -> Iterator[list[str]]:
    yield first
    yield from rows


def _grouped(file: str, found: Counter[float], clipped: int) -> Past:
    """Keep the values if they are few, else the means of groups of neighbours."""
    ordered = sorted(found)
    size = -(-len(ordered) // MOST_VALUES)
    values, counts = [], []
    for begin in range(0, len(ordered), size):
        group = ordered[begin : begin + size]
        count = sum(found[value] for value in group)
        values.append(float(sum(Fraction(value) * found[value] for value in group) / count))
        counts.append(count)
    return Past(file, tuple(values), tuple(counts), clipped)
