"""The agent: a rule and a tally. It says which arm to pull next, and learns from responses; it never sees a reward.

A pull is *out* from the moment its arm is handed to a device until its response is counted or its time is up. With
thousands out at once, an agent that ignored them would give the same arm to everybody until the first responses
arrive. So an agent that serves a crowd calls `issue` instead of `select`, and rules may count what is out.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from random import SystemRandom
from typing import Any

from ldpbandits.agent.estimates import Estimate, estimate, share
from ldpbandits.agent.kernels import Random, select
from ldpbandits.agent.lookout import Lookout, MovingRule
from ldpbandits.agent.rules import Rule, check_fit, check_rule, paper_rule, rule_from_json, rule_to_json
from ldpbandits.agent.sieve import DrawingRule, Sieve
from ldpbandits.agent.tally import ArmTally, Tally
from ldpbandits.checks import brief, check_count, check_probability, is_number, is_whole
from ldpbandits.errors import ArmError, ParameterError, ResponseError, SnapshotError
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.types import Arm, Response

MANY = 24
"""From so many arms on, a lookout is faster than a look at every arm."""


class Agent:
    """Say which arm to pull next, learn from the response, and again.

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
        """Start with so many arms, or with arms of these names; they are numbered from 0, and none is pulled yet.

        With a curator, or its spec, responses that it cannot have given are refused. `random` is for rules that draw.
        """
        self.rule = check_rule(rule)
        self._index, self._parameters, self._floor = rule.index, rule.parameters, rule.floor
        self.names = _names(arms)
        self.curator = None if curator is None else CuratorSpec.of(curator)
        if self.curator is not None:
            check_fit(rule, self.curator.mechanism)
        self.tally = Tally(ArmTally() for _ in self.names)
        self._random = SystemRandom() if random is None else random
        self._quick = rule if isinstance(rule, MovingRule | DrawingRule) else None
        self._lookout: Lookout | Sieve | None = None

    @classmethod
    def for_curator(cls, curator: object, arms: int | Sequence[str], *, rule: Rule | None = None) -> "Agent":
        """Make the agent that fits a curator (or its spec): with the paper's rule for it, unless another is named."""
        spec = CuratorSpec.of(curator)
        return cls(paper_rule(spec.mechanism) if rule is None else rule, arms, curator=spec)

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

    def select(self) -> Arm:
        """Return the arm to pull next; asking changes nothing."""
        tally = self.tally
        arms = tally.in_use
        if self._quick is not None and len(arms) >= MANY:
            return arms[self._look_out(self._quick).select()]
        tally.spread_mean()
        place = select(
            self._index,
            self._parameters,
            self._floor,
            tally.means,
            tally.pulls,
            tally.counts,
            tally.t,
            self._random,
            tally.indexes,
        )
        return arms[place]

    def _look_out(self, rule: MovingRule | DrawingRule) -> Lookout | Sieve:
        """Return the lookout or the sieve for the tally as it is laid out now."""
        found = self._lookout
        if found is None or found.touched is not self.tally.touched:
            if isinstance(rule, MovingRule):
                found = Lookout(rule, self.tally, self._random)
            else:
                found = Sieve(rule, self.tally, self._random)
            self._lookout = found
        return found

    def issue(self) -> Arm:
        """Return the arm to pull next. It is out until `update` counts its response, or `take_back` gives it up."""
        arm = self.select()
        self.tally.hand_out(arm)
        return arm

    def take_back(self, arm: Arm | str) -> None:
        """One pull of this arm is no longer out: its time is up, and its response will not come."""
        number = self._number(arm)
        if not self.tally.arms[number].out:
            raise ArmError(f"no pull of arm {brief(arm)} is out")
        self.tally.take_back(number)

    def update(self, arm: Arm | str, response: Response) -> None:
        """Count one response of this arm, given by its number or name. If a pull of the arm is out, it is that one."""
        number = self._number(arm)
        if not is_number(response):
            raise ResponseError(f"a response must be a finite number, got {brief(response)}")
        if self.curator is not None and self.curator.in_units(response) is None:
            asked = f"the {self.curator.mechanism.kind} mechanism with epsilon = {self.curator.epsilon:g}"
            raise ResponseError(f"{brief(response)} is not a possible response of {asked}")
        total = self.tally.arms[number].total + float(response)
        if not isfinite(total):
            raise ResponseError(
                f"the total of arm {number} would no longer be finite with a response of {brief(response)}"
            )
        if self.tally.arms[number].out:
            self.tally.take_back(number)
        self.tally.add(number, 1, float(response))

    def estimates(self, *, alpha: float = 0.05, sub_gaussian: float | None = None) -> dict[str, Estimate]:
        """Return what may be concluded of each arm, by its name; all intervals hold together, at all times.

        With probability 1 - alpha no interval ever misses its mean, also when arms are added on the way.
        """
        if self.curator is None:
            raise ParameterError("estimates need a curator: make the agent with Agent.for_curator(curator, arms)")
        alpha = check_probability("alpha", alpha)
        return {
            name: estimate(arm.pulls, arm.total, self.curator, alpha=share(alpha, number), sub_gaussian=sub_gaussian)
            for number, (name, arm) in enumerate(zip(self.names, self.tally.arms, strict=True))
        }

    def add_arm(self, name: str | None = None) -> Arm:
        """Add an arm that nobody has pulled; it gets the next number."""
        names = _names([*self.names, str(len(self.names)) if name is None else name])
        arm = self.tally.add_arm()
        self.names = names
        return arm

    def retire(self, arm: Arm | str) -> None:
        """Hand this arm out no more; its number is not used again, and its late responses still count."""
        self.tally.retire(self._number(arm))

    def to_json(self) -> dict[str, Any]:
        """Return everything the agent knows as plain JSON-able data; `from_json` takes it back without loss."""
        arms = self.tally.arms
        return {
            "rule": rule_to_json(self.rule),
            "curator": None if self.curator is None else self.curator.to_json(),
            "t": self.t,
            "names": list(self.names),
            "pulls": [arm.pulls for arm in arms],
            "totals": [arm.total for arm in arms],
            "out": [arm.out for arm in arms],
            "retired": [arm.retired for arm in arms],
        }

    @classmethod
    def from_json(cls, snapshot: object, *, may_import: bool = False) -> "Agent":
        """Make the agent that a snapshot describes, or say why the snapshot does not add up.

        `may_import` is as in `rule_from_json`: for snapshots of your own that hold a rule of your own.
        """
        required, optional = {"rule", "t", "pulls", "totals"}, {"curator", "names", "out", "retired"}
        if not isinstance(snapshot, Mapping) or not required <= snapshot.keys() <= required | optional:
            told = f"{', '.join(sorted(required))}, and {', '.join(sorted(optional))} if there are any"
            raise SnapshotError(f"a snapshot is an object with the keys {told}")
        pulls, totals = snapshot["pulls"], snapshot["totals"]
        arms = len(pulls) if isinstance(pulls, list) else 0
        names = snapshot.get("names", list(map(str, range(arms))))
        out, retired = snapshot.get("out", [0] * arms), snapshot.get("retired", [False] * arms)
        columns = (pulls, totals, out, retired)
        if not arms or not all(isinstance(column, list) and len(column) == arms for column in (names, *columns)):
            raise SnapshotError("a snapshot's pulls, totals, out, retired and names are lists with one entry an arm")
        tallies = [_arm_from_json(number, *row) for number, row in enumerate(zip(*columns, strict=True))]
        t = sum(arm.n for arm in tallies)
        if not is_number(snapshot["t"]) or snapshot["t"] != t:
            raise SnapshotError(f"t must be the sum of the pulls, {t}, got {brief(snapshot['t'])}")
        rule = rule_from_json(snapshot["rule"], may_import=may_import)
        asked = snapshot.get("curator")
        agent = cls(rule, names, curator=None if asked is None else CuratorSpec.from_json(asked))
        agent.tally = Tally(tallies)
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
        """Show the rule and the tally."""
        return f"Agent({self.rule}, pulls={list(self.pulls)})"


def _names(arms: int | Iterable[str]) -> tuple[str, ...]:
    """Return the names of the arms; those that have none are named by their numbers."""
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
    if not is_number(total):
        raise SnapshotError(f"the total of arm {number} must be a finite number, got {brief(total)}")
    if pulls == 0 and total != 0:
        raise SnapshotError(f"arm {number} has no pulls, but a total of {brief(total)}")
    if not isinstance(retired, bool):
        raise SnapshotError(f"arm {number} is retired or not: true or false, got {brief(retired)}")
    return ArmTally(int(pulls), float(total), int(out), retired)  # type: ignore[call-overload]
