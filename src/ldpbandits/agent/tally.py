"""The statistics of an agent: for each arm the number and the sum of its responses, and its pending pulls."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple, TypeAlias

from ldpbandits.agent.levels import Levels
from ldpbandits.checks import brief
from ldpbandits.errors import ArmError
from ldpbandits.types import Arm

Row: TypeAlias = tuple[float, ...]
"""The pulls and the total of each cell in a row, as kernels take them; empty where there are no cells."""

UNKNOWN = 0.5
"""The mean of every arm while there is no response at all; the same for all, so it does not affect the choice."""


class LevelTally(NamedTuple):
    """The number and the sum of the responses of one level."""

    pulls: int = 0
    total: float = 0.0


@dataclass(slots=True)
class ArmTally:
    """The number and the sum of an arm's responses, its pending pulls, and whether it was retired."""

    pulls: int = 0
    total: float = 0.0
    out: int = 0
    retired: bool = False
    read: float | None = None
    """The sum of the rule's readings of the responses; None where it counts responses themselves."""
    cells: list[LevelTally] = field(default_factory=list)
    """Its responses by level of the menu; empty where the menu has one level."""

    @property
    def counted(self) -> float:
        """The sum that the rule sees: of readings, or of responses."""
        return self.total if self.read is None else self.read

    @property
    def n(self) -> int:
        """The number of the arm's pulls, answered or out."""
        return self.pulls + self.out


class Tally:
    """The tallies of all arms, and rows (one list per statistic) of the arms in use, which the kernels take.

    An arm whose pulls are all pending has no mean of its own. It gets the mean of all responses: no response is made
    up for it, and it looks neither better nor worse than the others. `silent` has these arms. `touched` has the places
    in the rows that changed since a reader last cleared it; a new layout of the rows has a new set.
    """

    def __init__(self, arms: Iterable[ArmTally], levels: Levels | None = None) -> None:
        """Start from these tallies, arm 0 first. With the levels of a menu, responses are counted by level."""
        self.arms = list(arms)
        self._levels = levels
        if levels is not None:
            for arm in self.arms:
                arm.cells = arm.cells or [LevelTally()] * levels.count
        self._arrange()

    @property
    def in_use(self) -> list[Arm]:
        """The numbers of the arms in the rows: those that are not retired; there must be one."""
        if not self._in_use:
            raise ArmError("every arm is retired")
        return self._in_use

    def places(self, arms: Sequence[Arm]) -> list[int]:
        """Return the places of these arms in the rows; there must be one, and each must be in use."""
        places = [self._place.get(arm) for arm in arms]
        found = [place for place in places if place is not None]
        if not found or len(found) < len(places):
            raise ArmError(f"arms to choose among must be of {brief(self.in_use)}, got {brief(list(arms))}")
        return found

    def add(self, arm: Arm, pulls: int, total: float, read: float | None = None, level: int = 0) -> None:
        """Count `pulls` more responses of this arm and level: their sum, and the sum of the rule's readings of them."""
        arm_tally = self.arms[arm]
        known = arm_tally if self._levels is None else arm_tally.cells[level]
        read = None if read is None else (arm_tally.read or 0.0) + read
        self.replace(arm, known.pulls + pulls, known.total + total, read, level)

    def replace(self, arm: Arm, pulls: int, total: float, read: float | None = None, level: int = 0) -> None:
        """Set the number and the sums of an arm's responses; with a menu, of those of this level."""
        known = self.arms[arm]
        if self._levels is not None:
            cell, of_all = known.cells[level], self._cells_in_all[level]
            known.cells[level] = LevelTally(pulls, total)
            self._cells_in_all[level] = LevelTally(of_all.pulls + pulls - cell.pulls, of_all.total + total - cell.total)
            pulls, total = sum(each.pulls for each in known.cells), sum(each.total for each in known.cells)
        self.t += pulls - known.pulls
        self._pulls_in_all += pulls - known.pulls
        before = known.counted
        known.pulls, known.total, known.read = pulls, total, read
        self._total_in_all += known.counted - before
        if pulls:
            self.silent.discard(arm)
        elif arm in self._place:
            self.silent.add(arm)
        self._refresh(arm)

    def hand_out(self, arm: Arm) -> None:
        """Count one more pull of this arm as out."""
        self._change_out(arm, 1)

    def take_back(self, arm: Arm) -> None:
        """Count one pull of this arm as no longer out: it was answered, or it expired."""
        self._change_out(arm, -1)

    def set_out(self, arm: Arm, out: int) -> None:
        """Set the number of pending pulls of this arm."""
        if out != self.arms[arm].out:
            self._change_out(arm, out - self.arms[arm].out)

    def _change_out(self, arm: Arm, change: int) -> None:
        self.arms[arm].out += change
        self.t += change
        place = self._place.get(arm)
        if place is not None:
            self.counts[place] += change
            self.touched.add(place)

    def add_arm(self) -> Arm:
        """Add an arm that nobody has pulled; it gets the next number."""
        self.arms.append(ArmTally(cells=[] if self._levels is None else [LevelTally()] * self._levels.count))
        self._arrange()
        return Arm(len(self.arms) - 1)

    def retire(self, arm: Arm) -> None:
        """Stop handing out this arm; its number is not used again."""
        self.arms[arm].retired = True
        self._arrange()

    def _arrange(self) -> None:
        """Lay out the rows of the arms in use, as the kernels take them, and sum up all arms."""
        self.t = sum(arm.n for arm in self.arms)
        self._pulls_in_all = sum(arm.pulls for arm in self.arms)
        self._total_in_all = sum(arm.counted for arm in self.arms)
        self._cells_in_all = [
            LevelTally(sum(cell.pulls for cell in column), sum(cell.total for cell in column))
            for column in zip(*(arm.cells for arm in self.arms), strict=True)
        ]
        self._in_use = [Arm(number) for number, arm in enumerate(self.arms) if not arm.retired]
        self._place = {arm: place for place, arm in enumerate(self._in_use)}
        self.means, self.indexes = [0.0] * len(self._in_use), [0.0] * len(self._in_use)
        self.pulls, self.counts = [0] * len(self._in_use), [0] * len(self._in_use)
        self.cells: list[Row] = [()] * len(self._in_use)
        self.silent = {arm for arm in self._in_use if not self.arms[arm].pulls}
        self.touched: set[int] = set()
        for arm in self._in_use:
            self._refresh(arm)

    def _refresh(self, arm: Arm) -> None:
        place = self._place.get(arm)
        if place is None:
            return
        known = self.arms[arm]
        self.pulls[place], self.counts[place] = known.pulls, known.n
        self.touched.add(place)
        if known.pulls and self._levels is None:
            self.means[place] = known.counted / known.pulls
        elif known.pulls and self._levels is not None:
            self.cells[place] = cells = _row(known.cells)
            self.means[place] = self._levels.mean(cells)

    @property
    def responses(self) -> int:
        """The number of responses of all arms, retired ones included."""
        return self._pulls_in_all

    @property
    def cells_of_all(self) -> Row:
        """The cells of all arms together, which stand for those of each arm that has no response yet."""
        return _row(self._cells_in_all)

    @property
    def mean_of_all(self) -> float:
        """The mean of all responses, which stands for that of each arm that has none yet."""
        if not self._pulls_in_all:
            return UNKNOWN
        return self._total_in_all / self._pulls_in_all if self._levels is None else self._levels.mean(self.cells_of_all)

    def spread_mean(self) -> None:
        """Write the mean of all responses, and their cells, into the rows of the arms that have none yet."""
        if self.silent:
            mean, cells = self.mean_of_all, self.cells_of_all
            for arm in self.silent:
                place = self._place[arm]
                self.means[place], self.cells[place] = mean, cells


def _row(cells: Iterable[LevelTally]) -> Row:
    """Flatten cells to their pulls and totals."""
    return tuple(chain.from_iterable(cells))
