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
from ldpbandits.agent.duels import Choice, Design, DuelTally
from ldpbandits.agent.inference.differences import Pair
from ldpbandits.agent.inference.estimates import Estimate, estimate_arm, share
from ldpbandits.agent.inference.expected_allocation import ExpectedAllocation, is_foreseeable
from ldpbandits.agent.inference.forecast import Growth, Prospect, more_by_rule, more_until_verdict
from ldpbandits.agent.inference.separation import ALPHA, leading
from ldpbandits.agent.inference.verdicts import Comparison, Criteria, Verdict, compare, judge
from ldpbandits.agent.kernels import Random, select
from ldpbandits.agent.rules import Rule, name_of, rule_from_json, rule_to_json
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
        design, unit = self.bound_rule.design, self.bound_rule.unit
        self.duels = None if design is Design.ADAPTIVE or unit is None else DuelTally(design, unit)
        """The responses by pair of arms, under a rule with a fair coin."""
        self._random = SystemRandom() if random is None else random
        self._choice: BoundedArgmax | None = None

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

    def choose(self, among: Sequence[Arm] | None = None) -> Choice:
        """Return the arm to pull next with its rival, which `update` takes back; the agent does not change.

        `among` are the arms to choose from; the rule then chooses as if the others were retired.
        """
        if self.duels is None:
            return Choice(self._select(among))
        tally = self.tally
        arms = tally.in_use if among is None else [tally.in_use[place] for place in tally.places(among)]
        if len(arms) == 1:
            return Choice(arms[0])
        if self.duels.design is Design.EQUAL:
            # The coin is fair between any two arms before the first arm in use that could not be drawn.
            first_left_out = min(set(tally.in_use) - set(arms), default=len(tally.arms)) if among else len(tally.arms)
            rival = Arm(first_left_out - 1) if first_left_out else None
            return Choice(arms[int(self._random.random() * len(arms))], rival)
        tally.spread_mean()
        means = tally.means if among is None else [tally.means[place] for place in tally.places(among)]
        leader = means.index(max(means))
        rival = self.duels.challenger(leader, arms, [tally.arms[arm] for arm in arms])
        pair = (arms[leader], rival)
        return Choice(*(pair if self._random.random() < 0.5 else pair[::-1]))  # noqa: PLR2004 - a fair coin

    def select(self, among: Sequence[Arm] | None = None) -> Arm:
        """Return the arm to pull next, of all or `among` these; the agent does not change."""
        return self.choose(among).arm

    def _select(self, among: Sequence[Arm] | None) -> Arm:
        """Return the arm of largest index; the bounds of `BoundedArgmax` are for all arms in use, not for some."""
        tally, rule = self.tally, self.bound_rule
        arms = tally.in_use if among is None else among
        places = None if among is None else tally.places(among)
        if places is not None and len(places) == 1:
            return arms[0]
        choice = self._bounded_choice() if places is None and len(arms) >= rule.many else None
        if choice is not None:
            return arms[choice.select()]
        tally.spread_mean()
        rows: Any = (tally.means, tally.pulls, tally.counts, tally.cells, tally.indexes)
        if places is not None:
            rows = ([row[place] for place in places] for row in rows)
        means, pulls, counts, cells, indexes = rows
        if rule.sharing is not None:  # the index gets a number that follows from the counts of all arms
            cells = rule.sharing(counts, [0.0] * len(counts))
        place = select(
            rule.index, rule.parameters, rule.floor, means, pulls, counts, cells, tally.t, self._random, indexes
        )
        return arms[place]

    def _bounded_choice(self) -> BoundedArgmax | None:
        """Return the `BoundedArgmax` for the present rows of the tally; None where the rule declares no moves."""
        found = self._choice
        moves = self.bound_rule.moves
        if moves is not None and (found is None or found.touched is not self.tally.touched):
            found = self._choice = BoundedArgmax(self.bound_rule, moves, self.tally, self._random)
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
            raise ArmError(f"arm {brief(arm)} has no pending pull")
        self.tally.take_back(number)

    def update(
        self,
        arm: Arm | str,
        response: Response,
        *,
        epsilon: float | None = None,
        rival: Arm | str | None = None,
    ) -> None:
        """Count one response of this arm, given by its number or name. If a pull of the arm is out, it is that one.

        With a menu of several epsilons, say by which of them the response was drawn. Under duels and equal shares, give
        the `rival` of the choice: a response without one proves nothing about other arms.
        """
        number = self._number(arm)
        against = None if rival is None else self._number(rival)
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
        self.count(Choice(number, against), 1, float(response), self.bound_rule.read(response), level)

    def count(self, choice: Choice, pulls: int, total: float, read: float | None = None, level: int = 0) -> None:
        """Count `pulls` more responses of a choice: their sum, and the sum of the rule's readings of them."""
        self.tally.add(choice.arm, pulls, total, read, level)
        if self.duels is not None:
            self.duels.add(choice, pulls, total if read is None else read, level)

    def pair(self, b: int, a: int, missing: tuple[float, float] = (0.0, 0.0)) -> Pair | None:
        """Return the responses by which two arms are compared; None where there are none, or the rule allows none."""
        if self.duels is not None:
            return self.duels.pair(b, a, missing)
        unit, arms = self.bound_rule.unit, (self.tally.arms[b], self.tally.arms[a])
        if unit is None or not all(arm.pulls for arm in arms):
            return None
        levels = [arm.cells or [LevelTally(arm.pulls, arm.counted)] for arm in arms]
        sums = ((cell.pulls, unit.total(*cell)) for level in zip(*levels, strict=True) for cell in level)
        return Pair(tuple(number for cell in sums for number in cell), unit.scale, False, missing)  # noqa: FBT003 - no coin

    def verdict(self, criteria: Criteria | None = None) -> Verdict:
        """Return whether the best arm is known; you may ask after every response.

        By default arms stay in the count when they are retired: they have had their part of alpha. Where arms are added
        later, give criteria that say so: `Criteria(arms=2, may_add_arms=True)` with the number at the start.

        >>> from ldpbandits.agent.rules import Duels
        >>> agent = Agent.for_curator({"mechanism": "bernoulli", "epsilon": 1}, arms=2, rule=Duels())
        >>> agent.count(Choice(Arm(0), Arm(1)), 10_000, 4_540)
        >>> agent.count(Choice(Arm(1), Arm(0)), 10_000, 5_000)
        >>> found = agent.verdict()
        >>> found.kind, found.leader, found.drift_proof
        ('better', 1, True)
        """
        if self.bound_rule.unit is None:
            told = "have no test of a difference; rules with a coin or clipped readings have, such as duels-laplace"
            raise ParameterError(f"the responses that the rule {name_of(self.rule)} counts {told}")
        in_use = [number for number, arm in enumerate(self.tally.arms) if not arm.retired]
        return judge(in_use, self.pair, self._criteria(criteria))

    def comparisons(self, criteria: Criteria | None = None) -> list[Comparison]:
        """Return the leader beside each other arm: the difference of the means, the relative lift, and their intervals.

        They are in the units of the rewards, and hold together, at all times, with the promise of the verdict.

        >>> from ldpbandits.agent.rules import Duels
        >>> agent = Agent.for_curator({"mechanism": "bernoulli", "epsilon": 1}, arms=2, rule=Duels())
        >>> agent.count(Choice(Arm(0), Arm(1)), 10_000, 4_540)
        >>> agent.count(Choice(Arm(1), Arm(0)), 10_000, 5_000)
        >>> [found] = agent.comparisons()
        >>> round(found.difference, 3), round(found.low, 3), round(found.high, 3), round(found.lift, 2)
        (0.1, 0.049, 0.15, 0.25)
        """
        criteria = self._criteria(criteria)
        found, ends = self.verdict(criteria), (0.0, 1.0) if self.menu is None else self.menu.reward_ends
        leader = found.leader or 0
        pairs = [(arm, self.pair(leader, arm)) for arm, _ in found.rivals]
        return [compare(leader, arm, pair, criteria, ends) for arm, pair in pairs if pair is not None]

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

    def _criteria(self, asked: Criteria | None) -> Criteria:
        """Return the criteria, by default for all arms; refuse those of fewer arms or other looks."""
        arms, answered = len(self.tally.arms), self.tally.responses
        if asked is None:
            return Criteria(arms=arms)
        if asked.arms < arms and not asked.may_add_arms:
            raise ParameterError(
                f"criteria without may_add_arms need arms >= {arms}, retired ones too, got {asked.arms}"
            )
        if asked.one_look not in {None, answered}:
            raise ParameterError(f"one_look is at {asked.one_look} responses, once; there are {answered}")
        return asked

    def more_responses(self, *, alpha: float = ALPHA) -> int | None:
        """Return about how many more responses it takes until the verdict, as the rule sends its pulls.

        0: the best arm is known now. None: the forecast exceeds 10^9 responses, an arm has no response yet, or the rule
        does not declare how its index moves. The forecast assumes that means stay as they are. Where the responses that
        a rule counts have no verdict, it is of intervals that are disjoint.

        >>> agent = Agent.for_curator({"mechanism": "bernoulli", "epsilon": 2}, arms=2)
        >>> agent.tally.add(0, 1000, 270)
        >>> agent.tally.add(1, 9000, 2700)
        >>> agent.more_responses()
        302364
        """
        if self.menu is None:
            raise ParameterError("a forecast needs a curator: make the agent with Agent.for_curator(curator, arms)")
        alpha = check_probability("alpha", alpha)
        arms = [(number, arm) for number, arm in enumerate(self.tally.arms) if not arm.retired]
        if not all(arm.pulls for _, arm in arms):
            return None
        if self.bound_rule.unit is not None:
            return self._more_until_verdict(Criteria(arms=len(self.tally.arms), alpha=alpha))
        means = [estimate_arm(arm, self.menu, alpha=share(alpha, number)).mean for number, arm in arms]
        best = leading(means)
        prospects = [Prospect(arm, share(alpha, number), arm.pulls, 0, 0, 0.0) for number, arm in arms]
        others = [prospect for place, prospect in enumerate(prospects) if place != best]
        return more_by_rule(prospects[best or 0], others, self.menu, self.bound_rule) if others else None

    def _more_until_verdict(self, criteria: Criteria) -> int | None:
        found = self.verdict(criteria)
        if found.is_decided or found.leader is None:
            return 0 if found.is_decided else None
        others = [arm for arm, _ in found.rivals]
        pairs = [pair for arm in others if (pair := self.pair(found.leader, arm)) is not None]
        is_foreseen = self.duels is not None or is_foreseeable(self.bound_rule)
        if not is_foreseen or not others or len(pairs) < len(others):
            return None
        return more_until_verdict(pairs, criteria, found.needed, self._growth([found.leader, *others]))

    def _growth(self, arms: Sequence[int]) -> Growth:
        """Return how the responses of the first of these arms and of each other one grow, by the rule."""
        tallies, answered = [self.tally.arms[arm] for arm in arms], self.tally.responses
        if self.duels is not None:  # each pair keeps its share
            return lambda more: [(1 + more / answered, 1 + more / answered)] * (len(arms) - 1)
        allocation = ExpectedAllocation.of(self.bound_rule, tallies)

        def growth(more: float) -> list[tuple[float, float]]:
            shares = zip(allocation.shares(more), tallies, strict=True)
            leader, *others = [1 + more * share / tally.pulls for share, tally in shares]
            return [(leader, other) for other in others]

        return growth

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
        if self.duels is not None:
            more["duels"] = self.duels.to_json()
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
        required, optional = (
            {"rule", "t", "pulls", "totals"},
            {"cells", "curator", "duels", "names", "out", "read", "retired"},
        )
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
            raise SnapshotError("a snapshot has the key cells if its curator is a menu, and only then")
        if ("read" in snapshot) != (agent.bound_rule.reading is not None):
            raise SnapshotError("a snapshot has the key read if its rule has a reading, and only then")
        if agent.bound_rule.levels is not None:
            _read_cells(snapshot.get("cells"), tallies, agent.bound_rule.levels.count)
        agent.tally = Tally(tallies, agent.bound_rule.levels)
        if agent.duels is not None:
            _read_duels(snapshot.get("duels", []), agent.duels, tallies)
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


def _read_duels(snapshot: object, duels: DuelTally, arms: list[ArmTally]) -> None:
    """Count the responses by pair of arms, after a check that no arm has more of them than pulls."""
    width = 2 + 2 * duels.levels
    for row in snapshot if isinstance(snapshot, list) else [None]:
        numbers = row if isinstance(row, list) and len(row) == width and all(map(is_number, row)) else ()
        if not numbers or not all(is_whole(arm) and 0 <= arm < len(arms) for arm in numbers[:2]):
            raise SnapshotError(f"duels list an arm, its rival, and {width - 2} sums, got {brief(row)}")
        for level in range(duels.levels):
            pulls, counted = numbers[2 + 2 * level : 4 + 2 * level]
            duels.add(Choice(Arm(numbers[0]), Arm(numbers[1])), pulls, counted, level)
    for number, arm in enumerate(arms):
        if sum(sum(cells[::2]) for (each, _), cells in duels.cells.items() if each == number) > arm.pulls:
            raise SnapshotError(f"arm {number} has more responses in duels than pulls")
