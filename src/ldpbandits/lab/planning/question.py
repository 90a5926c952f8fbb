"""The question of a plan: what is to be found, how sure, and by how many users.

Past rewards, one column of a table, may stand in the place of the baseline. Their range is public, since devices are
told of it: so it is declared, never read off the data. Rewards beyond it count as its ends, as they do on a device.
"""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

from ldpbandits.agent.bound_rule import PAPER
from ldpbandits.agent.rules import RULES, Rule, check_rule, default_rule, paper_rule, rule_from_json
from ldpbandits.agent.separation import ALPHA
from ldpbandits.checks import brief, check_count, check_epsilon, check_probability, is_number
from ldpbandits.errors import ParameterError
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.transforms import Range

CURATORS = ("ctb", "ctl")
EPSILONS = (0.5, 1.0, 2.0, 4.0)
MAX_RESPONSES = 10**12
"""No plan is for more users, nor played further."""

MIN_TRIALS, MAX_TRIALS = 10, 100_000
MAX_ARMS = 1000
MAX_VALUES = 64
"""Past rewards are grouped to at most MAX_VALUES values, each the mean of its group: noise hides the difference."""


@dataclass(frozen=True, slots=True)
class Past:
    """The values behind past rewards, in [0, 1], rising, and how often each occurred."""

    file: str
    values: tuple[float, ...]
    counts: tuple[int, ...]
    clipped: int
    """The number of rewards beyond the range."""

    @property
    def rewards(self) -> int:
        """The number of past rewards."""
        return sum(self.counts)

    @property
    def mean(self) -> float:
        """The mean of the values."""
        total = sum(Fraction(value) * count for value, count in zip(self.values, self.counts, strict=True))
        return float(total / self.rewards)


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
    """The relative gain of the best arm over the baseline."""
    arms: int = 2
    epsilons: tuple[float, ...] = EPSILONS
    users: int | None = None
    power: float = 0.8
    """The probability that the best arm is separated in the end."""
    confidence: float = 1 - ALPHA
    """The probability that no interval ever misses its mean."""
    rule: object = None
    """A rule, its kind or its JSON; `paper` for the paper's; None for the default of a live experiment."""
    missing: float = 0.0
    """The share of users whose answer never comes."""
    curator: str = "ctb"
    declared: Range = Range()  # noqa: RUF009 - frozen
    past: Past | None = None
    """Past rewards, which the baseline is the mean of."""
    trials: int | None = None
    """Trials of the rule; None: as many as take a few seconds. Equal shares are played 400 times, or more."""
    seed: int = 0
    horizon: int | None = None
    """The responses up to which a rule is played; None: 1e8 where it leaps, else 2e6."""

    def __post_init__(self) -> None:
        """Check everything before anything is played."""
        checked: dict[str, object] = {
            "arms": _count("arms", self.arms, 2, MAX_ARMS),
            "epsilons": _epsilons(self.epsilons),
            "power": check_probability("power", self.power),
            "confidence": check_probability("confidence", self.confidence),
            "seed": check_count("seed", self.seed, least=0),
        }
        if self.horizon is not None:
            checked["horizon"] = _count("horizon", self.horizon, 1000, MAX_RESPONSES)
        if self.users is not None:
            if is_number(self.users) and self.users < self.arms:
                raise ParameterError(f"users must be at least the number of arms, {self.arms}, got {self.users:g}")
            checked["users"] = _count("users", self.users, 1, MAX_RESPONSES)
        if self.trials is not None:
            checked["trials"] = _count("trials", self.trials, MIN_TRIALS, MAX_TRIALS)
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
        """The number of responses that the users give."""
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


def question(
    *,
    data: str | None = None,
    declared: tuple[float, float] | Range = (0.0, 1.0),
    **settings: Any,  # noqa: ANN401 - the fields of Question
) -> Question:
    """Make a question from its fields; past rewards are read from the file `data`."""
    within = declared if isinstance(declared, Range) else Range(*declared)
    return Question(declared=within, past=None if data is None else read_past(data, within), **settings)


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
    size = -(-len(ordered) // MAX_VALUES)
    values, counts = [], []
    for begin in range(0, len(ordered), size):
        group = ordered[begin : begin + size]
        count = sum(found[value] for value in group)
        values.append(float(sum(Fraction(value) * found[value] for value in group) / count))
        counts.append(count)
    return Past(file, tuple(values), tuple(counts), clipped)
