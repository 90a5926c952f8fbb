"""The agent: a rule, and for each arm how many responses it has seen and their sum. Nothing else is kept."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from ldpbandits.agent.kernels import select, ucb_index
from ldpbandits.agent.rules import UCB
from ldpbandits.checks import check_count, is_number, is_whole, shown
from ldpbandits.errors import ArmError, ResponseError, SnapshotError, SpecError
from ldpbandits.types import Arm, Response


class Agent:
    """Say which arm to pull next, learn from the response, and again.

    A call that is refused leaves the agent as it was.
    """

    def __init__(self, rule: UCB, arms: int) -> None:
        """Start with `arms` arms, numbered from 0, none of them pulled."""
        if not isinstance(rule, UCB):
            raise SpecError(f"a rule must be a UCB(width, floor), got {shown(rule)}")
        self.rule = rule
        self._pulls = [0] * check_count("arms", arms)
        self._totals = [0.0] * len(self._pulls)

    @property
    def pulls(self) -> tuple[int, ...]:
        """The number of responses of each arm."""
        return tuple(self._pulls)

    @property
    def totals(self) -> tuple[float, ...]:
        """The sum of the responses of each arm."""
        return tuple(self._totals)

    @property
    def t(self) -> int:
        """The number of responses so far."""
        return sum(self._pulls)

    def select(self) -> Arm:
        """Return the arm to pull next; asking changes nothing."""
        room = [0.0] * len(self._pulls)
        rule, pulls = self.rule, self._pulls
        return Arm(select(ucb_index, rule.parameters, rule.floor, pulls, pulls, self._totals, self.t, room))

    def update(self, arm: Arm, response: Response) -> None:
        """Count one response of this arm."""
        if not is_whole(arm) or not 0 <= arm < len(self._pulls):
            raise ArmError(f"arm must be a whole number from 0 to {len(self._pulls) - 1}, got {shown(arm)}")
        if not is_number(response):
            raise ResponseError(f"a response must be a finite number, got {shown(response)}")
        total = self._totals[arm] + float(response)
        if not isfinite(total):
            raise ResponseError(
                f"the total of arm {arm} would no longer be finite with a response of {shown(response)}"
            )
        self._pulls[arm] += 1
        self._totals[arm] = total

    def snapshot(self) -> dict[str, Any]:
        """Return everything the agent knows as plain JSON-able data; `restore` takes it back without loss."""
        return {"rule": self.rule.to_json(), "t": self.t, "pulls": list(self._pulls), "totals": list(self._totals)}

    @classmethod
    def restore(cls, snapshot: object) -> "Agent":
        """Make the agent that a snapshot describes, or say why the snapshot does not add up."""
        keys = {"rule", "t", "pulls", "totals"}
        if not isinstance(snapshot, Mapping) or snapshot.keys() != keys:
            raise SnapshotError(f"a snapshot is an object with the keys {', '.join(sorted(keys))}")
        pulls, totals = snapshot["pulls"], snapshot["totals"]
        if not isinstance(pulls, list) or not isinstance(totals, list) or not 0 < len(pulls) == len(totals):
            raise SnapshotError("a snapshot's pulls and totals are lists with one entry an arm")
        for arm, (count, total) in enumerate(zip(pulls, totals, strict=True)):
            if not is_whole(count) or count < 0:
                raise SnapshotError(f"the pulls of arm {arm} must be a whole number >= 0, got {shown(count)}")
            if not is_number(total):
                raise SnapshotError(f"the total of arm {arm} must be a finite number, got {shown(total)}")
            if count == 0 and total != 0:
                raise SnapshotError(f"arm {arm} has no pulls, but a total of {shown(total)}")
        if not is_number(snapshot["t"]) or snapshot["t"] != sum(pulls):
            raise SnapshotError(f"t must be the sum of the pulls, {sum(pulls)}, got {shown(snapshot['t'])}")
        agent = cls(UCB.from_json(snapshot["rule"]), len(pulls))
        agent._pulls = [int(count) for count in pulls]
        agent._totals = [float(total) for total in totals]
        return agent

    def __repr__(self) -> str:
        """Show the rule and the tally."""
        return f"Agent({self.rule}, pulls={self._pulls})"
