"""The question of a plan: what is to be found, how sure, and by how many users."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from ldpbandits.agent.bound_rule import PAPER
from ldpbandits.agent.rules import RULES, Rule, check_rule, default_rule, paper_rule, rule_from_json
from ldpbandits.agent.separation import ALPHA
from ldpbandits.checks import brief, check_count, check_epsilon, check_probability, is_number
from ldpbandits.errors import ParameterError
from ldpbandits.lab.planning.past import Past, read_past
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.transforms import Range

CURATORS = ("ctb", "ctl")
FARTHEST = 10**12
FEWEST_TRIALS, MOST_TRIALS = 10, 100_000
MOST_ARMS = 1000


@dataclass(frozen=True, kw_only=True)
class Question:
    """All arms have the baseline's mean but for the last, which is better by the lift.

    It is the last because there it is hardest: the first arms have the largest shares of alpha.

    >>> round(Question(baseline=0.05, lift=0.1).best, 3)
    0.055
    """

    baseline: float | None = None
    """The mean reward of all arms but the best."""
    lift: float
    """By which part of it the best arm is better."""
    arms: int = 2
    epsilons: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0)
    users: int | None = None
    power: float = 0.8
    """How likely it should be that the best arm is separated in the end."""
    confidence: float = 1 - ALPHA
    """How likely it should be that no interval ever misses its mean."""
    rule: object = None
    """A rule, its kind or its JSON; `paper` for the paper's; None for the default of a live experiment."""
    missing: float = 0.0
    """The share of users whose answer never comes."""
    curator: str = "ctb"
    declared: Range = Range()  # noqa: RUF009 - frozen
    past: Past | None = None
    """Past rewards, which the baseline is the mean of."""
    trials: int | None = None
    """Of the rule; None: as many as take a few seconds. In equal shares there are 400, or as many."""
    seed: int = 0
    horizon: int | None = None
    """How far a rule is played; None: to 1e8 responses where it leaps, else to 2e6."""

    def __post_init__(self) -> None:
        """Check everything before anything is played."""
        checked: dict[str, object] = {
            "arms": _count("arms", self.arms, 2, MOST_ARMS),
            "epsilons": _epsilons(self.epsilons),
            "power": check_probability("power", self.power),
            "confidence": check_probability("confidence", self.confidence),
            "seed": check_count("seed", self.seed, least=0),
        }
        if self.horizon is not None:
            checked["horizon"] = _count("horizon", self.horizon, 1000, FARTHEST)
        if self.users is not None:
            if is_number(self.users) and self.users < self.arms:
                raise ParameterError(f"users must be at least the number of arms, {self.arms}, got {self.users:g}")
            checked["users"] = _count("users", self.users, 1, FARTHEST)
        if self.trials is not None:
            checked["trials"] = _count("trials", self.trials, FEWEST_TRIALS, MOST_TRIALS)
        if not is_number(self.missing) or not 0 <= self.missing < 1:
            raise ParameterError(f"missing must be a share of the answers, >= 0 and < 1, got {brief(self.missing)}")
        if self.curator not in CURATORS:
            raise ParameterError(f"curator must be one of {', '.join(CURATORS)}, got {brief(self.curator)}")
        checked["baseline"], checked["lift"] = self._check_means()
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def _check_means(self) -> tuple[float, float]:
        low, high = self.declared.low, self.declared.high
        if not is_number(self.lift) or self.lift <= 0:
            told = "lift must be > 0, the relative gain to be found, such as 0.1 for 10 %"
            raise ParameterError(f"{told}, got {brief(self.lift)}")
        if (self.baseline is None) == (self.past is None):
            given = "one of them" if self.baseline is None else "one of them only"
            raise ParameterError(f"a plan needs baseline, the mean reward now, or data, past rewards: give {given}")
        baseline = self.baseline if self.past is None else low + (high - low) * self.past.mean
        within = f"strictly between {max(low, 0):g} and {high:g}"
        if not is_number(baseline) or not max(low, 0.0) < baseline < high:
            whose = "baseline must lie" if self.past is None else "the mean of the past rewards must lie"
            raise ParameterError(f"{whose} {within}, got {brief(baseline)}")
        best = baseline * (1 + self.lift)
        if best > high:
            told = f"a baseline of {baseline:g} with a lift of {self.lift:g} is {best:g}"
            raise ParameterError(f"{told}; no mean reward is above {high:g}")
        return float(baseline), float(self.lift)

    @property
    def best(self) -> float:
        """The mean reward of the best arm."""
        return self.of(self.lift)

    def of(self, lift: float) -> float:
        """Return the mean reward that is better than the baseline by this lift."""
        assert self.baseline is not None  # noqa: S101 - after the check it is there
        return self.baseline * (1 + lift)

    @property
    def largest_lift(self) -> float:
        """The lift to the end of the range."""
        return self.declared.high / (self.baseline or 1.0) - 1

    @property
    def alpha(self) -> float:
        """The probability that any interval ever misses its mean; by default the server's, to the last digit."""
        return ALPHA if self.confidence == 1 - ALPHA else 1 - self.confidence

    @property
    def responses(self) -> int | None:
        """How many responses the users give."""
        return None if self.users is None else int(self.users * (1 - self.missing))

    def rule_for(self, curator: CuratorSpec) -> Rule:
        """Return the rule that is asked for, on the responses of this curator."""
        match self.rule:
            case None:
                return default_rule(curator)
            case str() as kind if kind == PAPER:
                return paper_rule(curator.mechanism)
            case str() as kind:
                return self._read_rule({"kind": kind}, curator)
            case Mapping():
                return self._read_rule(self.rule, curator)
            case _:
                return check_rule(self.rule)

    @staticmethod
    def _read_rule(asked: Mapping[str, Any], curator: CuratorSpec) -> Rule:
        """Read a rule; one that has the epsilon of the responses gets it."""
        kind = asked.get("kind")
        needs_epsilon = kind in RULES.kinds and "epsilon" in {field.name for field in fields(RULES.find(kind))}  # type: ignore[arg-type]
        more = {"epsilon": curator.epsilon} if needs_epsilon else {}
        return rule_from_json({**more, **asked}, may_import=True)


def _count(name: str, value: object, least: int, most: int) -> int:
    count = check_count(name, value, least=least)
    if count > most:
        raise ParameterError(f"{name} must be at most {most:,}, got {brief(value)}")
    return count


def _epsilons(asked: object) -> tuple[float, ...]:
    """Return the epsilons, the smallest first, each once."""
    listed = asked if isinstance(asked, Iterable) and not isinstance(asked, str) else [asked]
    found = tuple(sorted({check_epsilon(epsilon) for epsilon in listed}))
    if not found:
        raise ParameterError("epsilon: a plan needs one or more")
    return found


def question(*, data: str | None = None, declared: tuple[float, float] | Range = (0.0, 1.0), **asked: Any) -> Question:  # noqa: ANN401 - what Question takes
    """Make a question; past rewards are read from a file."""
    within = declared if isinstance(declared, Range) else Range(*declared)
    return Question(declared=within, past=None if data is None else read_past(data, within), **asked)
