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

    @property
    def n(self) -> int:
        """How often the arm was handed out: its pulls, and those that are out."""
        return self.pulls + self.out


class Tally:
    """The tallies of all arms, and beside them, for the kernels, rows of those that are not retired.

    An arm whose pulls are all still out has no mean of its own. It gets that of all responses: nothing is made up for
    it, and it looks neither better nor worse than its fellows. `silent` has these arms. `touched` has the places of
    the rows that changed since somebody last cleared it; it is another set when the rows are laid out anew.
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

    def add(self, arm: Arm, pulls: int, total: float) -> None:
        """Count further responses of this arm, and their sum."""
        known = self.arms[arm]
        self.replace(arm, known.pulls + pulls, known.total + total)

    def replace(self, arm: Arm, pulls: int, total: float) -> None:
        """Take over the number and the sum of an arm's responses."""
        known = self.arms[arm]
        self.t += pulls - known.pulls
        self._pulls_in_all += pulls - known.pulls
        self._total_in_all += total - known.total
        known.pulls, known.total = pulls, total
        if pulls:
            self.silent.discard(arm)
        elif arm in self._place:
            self.silent.add(arm)
        self._refresh(arm)

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
            self.touched.add(place)

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
        self._total_in_all = sum(arm.total for arm in self.arms)
        self._in_use = [Arm(number) for number, arm in enumerate(self.arms) if not arm.retired]
        self._place = {arm: place for place, arm in enumerate(self._in_use)}
        self.means, self.indexes = [0.0] * len(self._in_use), [0.0] * len(self._in_use)
        self.pulls, self.counts = [0] * len(self._in_use), [0] * len(self._in_use)
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
        if known.pulls:
            self.means[place] = known.total / known.pulls

    @property
    def mean_of_all(self) -> float:
        """The mean of all responses, which stands for that of each arm that has none yet."""
        return self._total_in_all / self._pulls_in_all if self._pulls_in_all else UNKNOWN

    def spread_mean(self) -> None:
        """Write the mean of all responses into the rows of the arms that have none yet."""
        mean = self.mean_of_all
        for arm in self.silent:
            self.means[self._place[arm]] = mean
