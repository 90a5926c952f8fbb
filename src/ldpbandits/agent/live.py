"""An agent for a crowd: thousands of pulls are out at once, and arms come and go.

A pull is *out* from the moment its arm is handed to a device until its response is counted or its time is up. An agent
that ignores the pulls that are out gives the same arm to everybody until the first responses arrive. Here they count as
if their responses were in, but only for the width of the interval: N + out instead of N, and t likewise. Nothing is
assumed about what they will say.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ldpbandits.agent.kernels import select, ucb_index
from ldpbandits.agent.rules import UCB
from ldpbandits.errors import ArmError
from ldpbandits.types import Arm

UNKNOWN = 0.5
"""The mean of an arm whose pulls are all still out: the middle of what responses can average to."""


@dataclass(slots=True)
class LiveArm:
    """What is known of an arm: the number and the sum of its responses, and how many pulls are out."""

    pulls: int = 0
    total: float = 0.0
    out: int = 0
    retired: bool = False


class LiveAgent:
    """Hand out arms, without waiting for the responses of those already out."""

    def __init__(self, rule: UCB, arms: Iterable[LiveArm]) -> None:
        """Start from these tallies, arm 0 first."""
        self.rule = rule
        self.arms = list(arms)
        self.t = sum(arm.pulls + arm.out for arm in self.arms)
        self._arrange()

    def issue(self) -> Arm:
        """Return the arm to pull next, which is out from now on."""
        if not self._shown:
            raise ArmError("every arm is retired")
        parameters, floor = self.rule.parameters, self.rule.floor
        chosen = select(ucb_index, parameters, floor, self._counts, self._pulls, self._totals, self.t, self._indexes)
        arm = self._shown[chosen]
        self.arms[arm].out += 1
        self._counts[chosen] += 1
        self.t += 1
        return arm

    def take_back(self, arm: Arm) -> None:
        """One pull of this arm is no longer out: answered, or its time is up."""
        self.arms[arm].out -= 1
        self.t -= 1
        self._refresh(arm)

    def count(self, arm: Arm, pulls: int, total: float) -> None:
        """Take over the tally of an arm as it is on record."""
        known = self.arms[arm]
        self.t += pulls - known.pulls
        known.pulls, known.total = pulls, total
        self._refresh(arm)

    def add_arm(self) -> Arm:
        """Add an arm that nobody has pulled; it gets the next number."""
        self.arms.append(LiveArm())
        self._arrange()
        return Arm(len(self.arms) - 1)

    def retire(self, arm: Arm) -> None:
        """Hand this arm out no more; its number is not used again."""
        self.arms[arm].retired = True
        self._arrange()

    def _arrange(self) -> None:
        """Lay the arms that are handed out side by side, as the kernels take them."""
        self._shown = [Arm(number) for number, arm in enumerate(self.arms) if not arm.retired]
        self._place = {arm: place for place, arm in enumerate(self._shown)}
        self._counts, self._pulls = [0] * len(self._shown), [0] * len(self._shown)
        self._totals, self._indexes = [0.0] * len(self._shown), [0.0] * len(self._shown)
        for arm in self._shown:
            self._refresh(arm)

    def _refresh(self, arm: Arm) -> None:
        place = self._place.get(arm)
        if place is not None:
            known = self.arms[arm]
            self._counts[place] = known.pulls + known.out
            self._pulls[place] = known.pulls or 1
            self._totals[place] = known.total if known.pulls else UNKNOWN
