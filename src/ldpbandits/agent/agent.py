"""The agent: a rule and a tally. It chooses the arm to pull next, and learns from responses; it never sees a reward.

A pull is *out* from the moment its arm is handed to a device until its response is counted or its time is up. With
thousands out at once, an agent that ignored them would give the same arm to everybody until the first responses
arrive. An agent that serves many devices therefore calls `issue` instead of `select`, and rules may count open pulls.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from random import SystemRandom
from typing import Any, Literal

from ldpbandits.agent.bound_rule import bind_rule, rule_for
from ldpbandits.agent.bounded_argmax import BoundedArgmax
from ldpbandits.agent.estimates import Estimate, estimate_arm, share
from ldpbandits.agent.forecast import Prospect, more_by_rule
from ldpbandits.agent.kernels import Random, select
from ldpbandits.agent.rules import Rule, rule_from_json, rule_to_json
from ldpbandits.agent.separation import ALPHA, leading
from ldpbandits.agent.sieve import Sieve
from ldpbandits.agent.tally import ArmTally, LevelTally, Tally
from ldpbandits.checks import brief, check_count, check_probability, is_number, is_whole
from ldpbandits.errors import ArmError, ParameterError, ResponseError, SnapshotError
from ldpbandits.spec.menu import Menu
from ldpbandits.types import Arm, Response


class Agent:
    """A bandit agent: `select` or `issue` chooses an arm, `update` learns from its response.

    A call that is refused leaves the agent as it was.

    >>> from ldpbandits import BernoulliCurator
    >>> curator = BernoulliCurator(epsilon=1.0)
    >>> agent = Agent.for_curator(curator, arms=["blue", "red"])
    >>> arm = agent.select()
    >>> agent.names[arm]
    'blue'
    >>> agent.update(arm, curator.respond(reward=1.0))
    >>> agent.pulls
    (1, 0)
    """

    def __init__(
        self,
        rule: Rule,
        arms: int | Sequence[str],
        *,
        curator: object = None,
        random: Random | None = None,
    ) -> None:
        """Start with `arms` arms, or with arms of these names; they are numbered from 0, and none is pulled yet.

        With a curator, its spec, or a menu of them, the agent refuses responses that it cannot have given. `random` is
        for rules that draw.
        """
        self.menu = None if curator is None else Menu.of(curator)
        self.rule, self.bound_rule = rule, bind_rule(rule, self.menu)
        self.names = _names(arms)
        self.tally = Tally((ArmTally() for _ in self.names), self.bound_rule.levels)
        self._random = SystemRandom() if random is None else random
        self._choice: BoundedArgmax | Sieve | None = None

    @classmethod
    def for_curator(
        cls, curator: object, arms: int | Sequence[str], *, rule: Rule | Literal["paper"] | None = None
    ) -> "Agent":
        """Make the agent that fits a curator, its spec or a menu: with `default_rule` for it, unless another is named.

        `rule="paper"` names the paper's.
        """
        menu = Menu.of(curator)
        return cls(rule_for(menu, rule), arms, curator=menu)

    @property
    def pulls(self) -> tuple[int, ...]:
        """The number of responses of each arm."""
        return tuple(arm.pulls for arm in self.tally.arms)

    @property
    def totals(self) -> tuple[float, ...]:
        """The sum of the responses of each arm."""
        return tuple(arm.total for arm in self.tally.arms)

    @property
    def t(self) -> int:
        """The number of pulls so far, answered or out."""
        return self.tally.t

    def select(self, among: Sequence[Arm] | None = None) -> Arm:
        """Return the arm to pull next; the agent does not change.

        `among` are the arms to choose from; the rule then chooses as if the others were retired.
        """
        if among is not None:
            return self._select_among(among)
        tally = self.tally
        arms = tally.in_use
        choice = self._bounded_choice() if len(arms) >= self.bound_rule.many else None
        if choice is not None:
            return arms[choice.select()]
        tally.spread_mean()
        place = select(
            self.bound_rule.index,
            self.bound_rule.parameters,
            self.bound_rule.floor,
            tally.means,
            tally.pulls,
            tally.counts,
            tally.cells,
            tally.t,
            self._random,
            tally.indexes,
        )
        return arms[place]

    def _select_among(self, among: Sequence[Arm]) -> Arm:
        """Scan these arms in full: the bounds of `BoundedArgmax` and `Sieve` are for all arms in use."""
        tally, rule = self.tally, self.bound_rule
        places = tally.places(among)
        if len(places) == 1:
            return among[0]
        tally.spread_mean()
        chosen = select(
            rule.index,
            rule.parameters,
            rule.floor,
            [tally.means[place] for place in places],
            [tally.pulls[place] for place in places],
            [tally.counts[place] for place in places],
            [tally.cells[place] for place in places],
            tally.t,
            self._random,
            [0.0] * len(places),
        )
        return among[chosen]

    def _bounded_choice(self) -> BoundedArgmax | Sieve | None:
        """Return the `BoundedArgmax` or `Sieve` for the present rows of the tally; None if there is neither."""
        found = self._choice
        if found is None or found.touched is not self.tally.touched:
            if self.bound_rule.moves is not None:
                found = BoundedArgmax(self.bound_rule, self.bound_rule.moves, self.tally, self._random)
            elif self.bound_rule.log_density is not None:
                found = Sieve(self.bound_rule, self.bound_rule.log_density, self.tally, self._random)
            self._choice = found
        return found

    def issue(self, among: Sequence[Arm] | None = None) -> Arm:
        """Return the arm to pull next, of all or `among` these.

        It is out until `update` counts its response, or `take_back` gives it up.
        """
        arm = self.select(among)
        self.tally.hand_out(arm)
        return arm

    def take_back(self, arm: Arm | str) -> None:
        """Count one pull of this arm as no longer out: it expired, and its response will not come."""
        number = self._number(arm)
        if not self.tally.arms[number].out:
            raise ArmError(f"no pull of arm {brief(arm)} is out")
        self.tally.take_back(number)

    def update(self, arm: Arm | str, response: Response, *, epsilon: float | None = None) -> None:
        """Count one response of this arm, given by its number or name. If a pull of the arm is out, it is that one.

        With a menu of several epsilons, say by which of them the response was drawn.
        """
        number = self._number(arm)
        if not is_number(response):
            raise ResponseError(f"a response must be a finite number, got {brief(response)}")
        if self.menu is None and epsilon is not None:
            raise ResponseError("epsilon is for an agent with a curator: Agent.for_curator(curator, arms)")
        level = 0 if self.menu is None else self._level(self.menu, response, epsilon)
        total = self.tally.arms[number].total + float(response)
        if not isfinite(total):
            raise ResponseError(
                f"the total of arm {number} would no longer be finite with a response of {brief(response)}"
            )
        if self.tally.arms[number].out:
            self.tally.take_back(number)
        self.tally.add(number, 1, float(response), self.bound_rule.read(response), level)

    @staticmethod
    def _level(menu: Menu, response: Response, epsilon: float | None) -> int:
        """Return the level of the menu at which a response was drawn; raise ResponseError if it cannot have been."""
        level = menu.level(epsilon)
        if level is None:
            listed = ", ".join(f"{each:g}" for each in menu.epsilons)
            raise ResponseError(f"epsilon must be one of the menu's, {listed}, got {brief(epsilon)}")
        curator = menu.curators[level]
        if curator.in_units(response) is None:
            asked = f"the {curator.mechanism.kind} mechanism with epsilon = {curator.epsilon:g}"
            raise ResponseError(f"{brief(response)} is not a possible response of {asked}")
        return level

    def estimates(self, *, alpha: float = 0.05, sub_gaussian: float | None = None) -> dict[str, Estimate]:
        """Return the estimate of each arm, by its name; all intervals hold together, at all times.

        With probability 1 - alpha no interval ever misses its mean, even when arms are added later.
        """
        if self.menu is None:
            raise ParameterError("estimates need a curator: make the agent with Agent.for_curator(curator, arms)")
        alpha = check_probability("alpha", alpha)
        return {
            name: estimate_arm(arm, self.menu, alpha=share(alpha, number), sub_gaussian=sub_gaussian)
            for number, (name, arm) in enumerate(zip(self.names, self.tally.arms, strict=True))
        }

    def more_responses(self, *, alpha: float = ALPHA) -> int | None:
        """Return about how many more responses it takes until the best arm is separated, as the rule sends its pulls.

        0: it is separated now. None: the forecast exceeds 10^9 responses, an arm has no response yet, or the rule does
        not declare how its index moves. The forecast assumes that means stay as they are.

        >>> agent = Agent.for_curator({"mechanism": "bernoulli", "epsilon": 2}, arms=2)
        >>> agent.tally.add(0, 1000, 240)
        >>> agent.tally.add(1, 9000, 2700)
        >>> agent.more_responses()
        62293
        """
        if self.menu is None:
            raise ParameterError("a forecast needs a curator: make the agent with Agent.for_curator(curator, arms)")
        alpha = check_probability("alpha", alpha)
        arms = [(number, arm) for number, arm in enumerate(self.tally.arms) if not arm.retired]
        if not all(arm.pulls for _, arm in arms):
            return None
        means = [estimate_arm(arm, self.menu, alpha=share(alpha, number)).mean for number, arm in arms]
        best = leading(means)
        prospects = [Prospect(arm, share(alpha, number), arm.pulls, 0, 0, 0.0) for number, arm in arms]
        others = [prospect for place, prospect in enumerate(prospects) if place != best]
        return more_by_rule(prospects[best or 0], others, self.menu, self.bound_rule) if others else None

    def add_arm(self, name: str | None = None) -> Arm:
        """Add an arm that nobody has pulled; it gets the next number."""
        names = _names([*self.names, str(len(self.names)) if name is None else name])
        arm = self.tally.add_arm()
        self.names = names
        return arm

    def retire(self, arm: Arm | str) -> None:
        """Stop handing out this arm; its number is not used again, and its late responses still count."""
        self.tally.retire(self._number(arm))

    def to_json(self) -> dict[str, Any]:
        """Return the state of the agent as JSON-able data; `from_json` restores it without loss."""
        arms = self.tally.arms
        more: dict[str, Any] = {}
        if self.bound_rule.reading is not None:
            more["read"] = [arm.read or 0.0 for arm in arms]
        if self.bound_rule.levels is not None:
            more["cells"] = [[list(cell) for cell in arm.cells] for arm in arms]
        return {
            "rule": rule_to_json(self.rule),
            "curator": None if self.menu is None else self.menu.to_json(),
            "t": self.t,
            "names": list(self.names),
            "pulls": [arm.pulls for arm in arms],
            "totals": [arm.total for arm in arms],
            "out": [arm.out for arm in arms],
            "retired": [arm.retired for arm in arms],
            **more,
        }

    @classmethod
    def from_json(cls, snapshot: object, *, may_import: bool = False) -> "Agent":
        """Restore the agent of a snapshot; raise SnapshotError if the snapshot is inconsistent.

        `may_import` is as in `rule_from_json`: only for trusted snapshots that hold a custom rule.
        """
        required, optional = {"rule", "t", "pulls", "totals"}, {"cells", "curator", "names", "out", "read", "retired"}
        if not isinstance(snapshot, Mapping) or not required <= snapshot.keys() <= required | optional:
            told = f"{', '.join(sorted(required))}, and {', '.join(sorted(optional))} if there are any"
            raise SnapshotError(f"a snapshot is an object with the keys {told}")
        pulls, totals = snapshot["pulls"], snapshot["totals"]
        arms = len(pulls) if isinstance(pulls, list) else 0
        names = snapshot.get("names", list(map(str, range(arms))))
        out, retired = snapshot.get("out", [0] * arms), snapshot.get("retired", [False] * arms)
        read = snapshot.get("read", [None] * arms)
        columns = (pulls, totals, out, retired)
        if not arms or not all(isinstance(column, list) and len(column) == arms for column in (names, read, *columns)):
            listed = "pulls, totals, out, retired, read and names"
            raise SnapshotError(f"a snapshot's {listed} are lists with one entry per arm")
        tallies = [_arm_from_json(number, *row) for number, row in enumerate(zip(*columns, strict=True))]
        for number, (arm, total) in enumerate(zip(tallies, read, strict=True)):
            if "read" in snapshot:
                arm.read = _total_from_json(number, "total of readings", arm.pulls, total)
        t = sum(arm.n for arm in tallies)
        if not is_number(snapshot["t"]) or snapshot["t"] != t:
            raise SnapshotError(f"t must be the sum of the pulls, {t}, got {brief(snapshot['t'])}")
        rule = rule_from_json(snapshot["rule"], may_import=may_import)
        asked = snapshot.get("curator")
        agent = cls(rule, names, curator=None if asked is None else Menu.from_json(asked))
        if "cells" in snapshot and agent.bound_rule.levels is None:
            raise SnapshotError("a snapshot has the key cells just where its curator leaves a choice of epsilons")
        if ("read" in snapshot) != (agent.bound_rule.reading is not None):
            raise SnapshotError("a snapshot has the key read just where its rule reads responses in a way of its own")
        if agent.bound_rule.levels is not None:
            _read_cells(snapshot.get("cells"), tallies, agent.bound_rule.levels.count)
        agent.tally = Tally(tallies, agent.bound_rule.levels)
        return agent

    def _number(self, arm: Arm | str) -> Arm:
        """Return the number of an arm given by name or number."""
        if isinstance(arm, str):
            if arm not in self.names:
                raise ArmError(f"arm must be one of {', '.join(map(brief, self.names))}, got {brief(arm)}")
            return Arm(self.names.index(arm))
        if not is_whole(arm) or not 0 <= arm < len(self.names):
            raise ArmError(f"arm must be a whole number from 0 to {len(self.names) - 1}, got {brief(arm)}")
        return Arm(arm)

    def __repr__(self) -> str:
        """Return the rule and the pulls as text."""
        return f"Agent({self.rule}, pulls={list(self.pulls)})"


def _names(arms: int | Iterable[str]) -> tuple[str, ...]:
    """Return the names of the arms; a number of arms gives them their numbers as names."""
    if isinstance(arms, str) or not isinstance(arms, Iterable):
        return tuple(map(str, range(check_count("arms", arms))))
    names = tuple(arms)
    if not names or not all(isinstance(name, str) for name in names):
        raise ParameterError(f"arms are a number, or a list of names, got {brief(arms)}")
    if len(set(names)) < len(names):
        raise ParameterError(f"the names of arms must differ, got {brief(list(names))}")
    return names


def _arm_from_json(number: int, pulls: object, total: object, out: object, retired: object) -> ArmTally:
    for what, count in (("pulls", pulls), ("pulls out", out)):
        if not is_whole(count) or count < 0:
            raise SnapshotError(f"the {what} of arm {number} must be a whole number >= 0, got {brief(count)}")
    known = _total_from_json(number, "total", pulls, total)
    if not isinstance(retired, bool):
        raise SnapshotError(f"arm {number} is retired or not: true or false, got {brief(retired)}")
    return ArmTally(int(pulls), known, int(out), retired)  # type: ignore[call-overload]


def _total_from_json(number: int, what: str, pulls: object, total: object) -> float:
    if not is_number(total):
        raise SnapshotError(f"the {what} of arm {number} must be a finite number, got {brief(total)}")
    if pulls == 0 and total != 0:
        raise SnapshotError(f"arm {number} has no pulls, but a {what} of {brief(total)}")
    return float(total)


def _read_cells(snapshot: object, arms: list[ArmTally], count: int) -> None:
    """Set the cells of each arm, after a check that they add up to its pulls and total."""
    listed = snapshot if isinstance(snapshot, list) and len(snapshot) == len(arms) else None
    if listed is None or not all(isinstance(cells, list) and len(cells) == count for cells in listed):
        raise SnapshotError(f"with this rule and curator, a snapshot has cells: for each arm {count} pairs of numbers")
    for number, (arm, cells) in enumerate(zip(arms, listed, strict=True)):
        if not all(isinstance(cell, list) and len(cell) == len(LevelTally._fields) for cell in cells):
            raise SnapshotError(f"a cell of arm {number} must be its pulls and their total, got {brief(cells)}")
        read = [_arm_from_json(number, pulls, total, out=0, retired=False) for pulls, total in cells]
        arm.cells = [LevelTally(cell.pulls, cell.total) for cell in read]
        if any(not 0 <= cell.total <= cell.pulls for cell in read):
            raise SnapshotError(f"a total of bits of arm {number} must be from 0 to their number, got {brief(cells)}")
        if sum(cell.pulls for cell in read) != arm.pulls or sum(cell.total for cell in read) != arm.total:
            raise SnapshotError(f"the cells of arm {number} must add up to its pulls and total")
