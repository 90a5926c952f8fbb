"""What an agent keeps: for each arm the number and the sum of its responses, and how many of its pulls are out."""

from collections.abc import Iterable
from dataclasses import dataclass

from ldpbandits.errors import ArmError
from ldpbandits.types import Arm

UNKNOWN = 0.5
"""The mean of every arm as long as there is no response at all; all have the same, so it decides nothing."""


@dataclass(slots=True)
class ArmTally:
    """The number and the sum of an arm's responses, its pulls that are out, and whether it is still handed out."""

    pulls: int = 0
    total: float = 0.0
    out: int = 0
    retired: bool = False
    read: float | None = None
    """The sum of what the rule reads of the responses; None where it reads them as they are."""

    @property
    def counted(self) -> float:
        """The sum that the rule sees."""
        return self.total if self.read is None else self.read

    @property
    def n(self) -> int:
        """How often the arm was handed out: its pulls, and those that are out."""
        return self.pulls + self.out


class Tally:
    """The tallies of all arms, and beside them, for the kernels, rows of those that are not retired.

    An arm whose pulls are all still out has no mean of its own. It gets that of all responses: nothing is made up for
    it, and it looks neither better nor worse than its fellows.
    """

    def __init__(self, arms: Iterable[ArmTally]) -> None:
        """Start from these tallies, arm 0 first."""
        self.arms = list(arms)
        self._arrange()

    @property
    def in_use(self) -> list[Arm]:
        """The arms of the rows, by their numbers: those that are not retired, of which there must be one."""
        if not self._in_use:
            raise ArmError("every arm is retired")
        return self._in_use

    def add(self, arm: Arm, pulls: int, total: float, read: float | None = None) -> None:
        """Count further responses of this arm, their sum, and the sum of what the rule reads of them if it does."""
        known = self.arms[arm]
        self.replace(
            arm, known.pulls + pulls, known.total + total, None if read is None else (known.read or 0.0) + read
        )

    def replace(self, arm: Arm, pulls: int, total: float, read: float | None = None) -> None:
        """Take over the number and the sums of an arm's responses."""
        known = self.arms[arm]
        self.t += pulls - known.pulls
        self._pulls_in_all += pulls - known.pulls
        before = known.counted
        known.pulls, known.total, known.read = pulls, total, read
        self._total_in_all += known.counted - before
        if pulls and arm in self._silent:
            self._silent.remove(arm)
        for changed in (arm, *self._silent):
            self._refresh(changed)

    def hand_out(self, arm: Arm) -> None:
        """One more pull of this arm is out."""
        self._change_out(arm, 1)

    def take_back(self, arm: Arm) -> None:
        """One pull of this arm is no longer out: answered, or its time is up."""
        self._change_out(arm, -1)

    def _change_out(self, arm: Arm, change: int) -> None:
        self.arms[arm].out += change
        self.t += change
        place = self._place.get(arm)
        if place is not None:
            self.counts[place] += change

    def add_arm(self) -> Arm:
        """Add an arm that nobody has pulled; it gets the next number."""
        self.arms.append(ArmTally())
        self._arrange()
        return Arm(len(self.arms) - 1)

    def retire(self, arm: Arm) -> None:
        """Hand this arm out no more; its number is not used again."""
        self.arms[arm].retired = True
        self._arrange()

    def _arrange(self) -> None:
        """Lay the arms that are handed out side by side, as the kernels take them."""
        self.t = sum(arm.n for arm in self.arms)
        self._pulls_in_all = sum(arm.pulls for arm in self.arms)
        self._total_in_all = sum(arm.counted for arm in self.arms)
        self._in_use = [Arm(number) for number, arm in enumerate(self.arms) if not arm.retired]
        self._place = {arm: place for place, arm in enumerate(self._in_use)}
        self.means, self.indexes = [0.0] * len(self._in_use), [0.0] * len(self._in_use)
        self.pulls, self.counts = [0] * len(self._in_use), [0] * len(self._in_use)
        self._silent = [arm for arm in self._in_use if not self.arms[arm].pulls]
        for arm in self._in_use:
            self._refresh(arm)

    def _refresh(self, arm: Arm) -> None:
        place = self._place.get(arm)
        if place is None:
            return
        known = self.arms[arm]
        self.pulls[place], self.counts[place] = known.pulls, known.n
        if known.pulls:
            self.means[place] = known.counted / known.pulls
        else:
            self.means[place] = self._total_in_all / self._pulls_in_all if self._pulls_in_all else UNKNOWN
