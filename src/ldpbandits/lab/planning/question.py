"""The question of a plan: what is to be found, how sure, and by how many users.

Past rewards, one column of a table, may stand in the place of the baseline. Their range is public, since devices are
told of it: so it is declared, never read off the data. Rewards beyond it count as its ends, as they do on a device.
"""

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from datetime import UTC, date, datetime
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from ldpbandits.agent.bound_rule import PAPER
from ldpbandits.agent.inference.separation import ALPHA
from ldpbandits.agent.rules import RULES, Rule, check_rule, default_rule, paper_rule, rule_from_json
from ldpbandits.checks import brief, check_count, check_epsilon, check_probability, is_number
from ldpbandits.errors import ParameterError
from ldpbandits.lab.rewards import reward_number
from ldpbandits.spec.curator import CuratorSpec
from ldpbandits.spec.transforms import Range

CURATORS = ("ctb", "ctl")
EPSILONS = (0.5, 1.0, 2.0, 4.0)
MAX_RESPONSES = 10**12
"""No plan is for more users, nor played further."""

MIN_TRIALS, MAX_TRIALS = 10, 100_000
MAX_ARMS = 1000
COUNTS = {
    "horizon": (1000, MAX_RESPONSES),
    "users": (1, MAX_RESPONSES),
    "per_day": (1, MAX_RESPONSES),
    "trials": (MIN_TRIALS, MAX_TRIALS),
    "jobs": (1, MAX_RESPONSES),
}
"""The least and the largest of each number that may be left out."""

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


Progress: TypeAlias = Callable[[float], None]
"""Called with the part that is done, from 0 to 1."""


@dataclass(frozen=True)
class Question:
    """The parameters of a plan. All arms have the baseline's mean but for the last, which is better by the lift.

    It is the last because there it is hardest: the first arms have the largest shares of alpha.

    >>> round(Question(baseline=0.05, lift=0.1, seed=0).best, 3)
    0.055
    """

    baseline: float | None = None
    """The mean reward of all arms but the best."""
    lift: float = 0.0
    """The relative gain of the best arm over the baseline: 0.1 for 10 %."""
    _: KW_ONLY
    seed: int = 0
    """The same seed gives the same numbers."""
    epsilon: float | Sequence[float] = EPSILONS
    arms: int = 2
    users: int | None = None
    power: float = 0.8
    """The probability that the verdict is reached in the end."""
    confidence: float = 1 - ALPHA
    """The probability that no interval ever misses its mean."""
    rule: object = None
    """A rule, its kind or its JSON; `paper` for the paper's; None for the default of a live experiment."""
    missing: float = 0.0
    """The share of users whose answer never comes."""
    worst: bool = False
    """Whether the verdict must hold whatever they would have said, as with `missing = worst` on a server."""
    curator: str = "ctb"
    """`ctb` or `ctl`."""
    data: object = None
    """Past rewards in the place of a baseline: a file, a DataFrame, a Series, an array, or a dict of columns."""
    column: str = "reward"
    """The column of the data that has the rewards; a column `arm` may stand beside it."""
    per_day: int | None = None
    """Users a day, from which the days of the experiment follow."""
    begin: date | str | None = None
    """The first day of the experiment; None: today."""
    low: float | None = None
    """The low end of the range of rewards that devices are told; None: 0."""
    high: float | None = None
    """Its high end; None: 1."""
    declared: Range | tuple[float, float] | None = field(default=None, repr=False)
    """The range in the former spelling."""
    trials: int | None = None
    """Trials of the rule; None: as many as take a few seconds. Equal shares are played 400 times, or more."""
    horizon: int | None = None
    """The responses up to which a rule is played; None: 1e8 where it leaps, else 2e6."""
    jobs: int | None = field(default=None, compare=False, repr=False)
    """Threads; None: one per core. The numbers do not depend on it."""
    progress: Progress = field(default=lambda _: None, compare=False, repr=False)

    def __post_init__(self) -> None:
        checked: dict[str, object] = {
            "arms": _count("arms", self.arms, 2, MAX_ARMS),
            "power": check_probability("power", self.power),
            "confidence": check_probability("confidence", self.confidence),
            "seed": check_count("seed", self.seed, least=0),
            "epsilon": self.epsilons,
            "declared": self.range,
            "low": self.range.low,
            "high": self.range.high,
            "data": self.past,
        }
        if self.users is not None and is_number(self.users) and self.users < self.arms:
            raise ParameterError(f"users must be at least the number of arms, {self.arms}, got {self.users:g}")
        for name, (least, most) in COUNTS.items():
            if getattr(self, name) is not None:
                checked[name] = _count(name, getattr(self, name), least, most)
        if self.begin is not None:
            checked["begin"] = self.first_day
        if not is_number(self.missing) or not 0 <= self.missing < 1:
            raise ParameterError(f"missing must be a share of the answers, >= 0 and < 1, got {brief(self.missing)}")
        if not isinstance(self.worst, bool):
            raise ParameterError(f"worst must be true or false, got {brief(self.worst)}")
        if self.curator not in CURATORS:
            raise ParameterError(f"curator must be one of {', '.join(CURATORS)}, got {brief(self.curator)}")
        checked["baseline"], checked["lift"] = self._check_means()
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @cached_property
    def epsilons(self) -> tuple[float, ...]:
        """The epsilons, the smallest first, each once."""
        asked: object = self.epsilon
        listed = asked if isinstance(asked, Iterable) and not isinstance(asked, str) else [asked]
        found = tuple(sorted({check_epsilon(epsilon) for epsilon in listed}))
        if not found:
            raise ParameterError("epsilon: a plan needs one or more")
        return found

    @cached_property
    def range(self) -> Range:
        """The declared range of the rewards."""
        ends = Range(0.0 if self.low is None else self.low, 1.0 if self.high is None else self.high)
        if self.declared is None:
            return ends
        former = self.declared if isinstance(self.declared, Range) else Range(*self.declared)
        if (self.low, self.high) != (None, None) and former != ends:  # they agree where a question was copied
            raise ParameterError("declared is the former spelling of low and high: give these")
        return former

    @cached_property
    def past(self) -> Past | None:
        """The past rewards, of which the baseline is the mean."""
        if self.data is None or isinstance(self.data, Past):
            return self.data
        if isinstance(self.data, str | Path):
            return read_past(str(self.data), self.range, self.column)
        return take_past(self.data, self.range, self.column)

    @property
    def first_day(self) -> date:
        """The first day of the experiment."""
        if self.begin is None or isinstance(self.begin, date):
            return self.begin or datetime.now(tz=UTC).date()
        try:
            return date.fromisoformat(self.begin)
        except (TypeError, ValueError):
            raise ParameterError(f"begin must be a day such as 2026-01-31, got {brief(self.begin)}") from None

    def _check_means(self) -> tuple[float, float]:
        low, high = self.range.low, self.range.high
        if not is_number(self.lift) or self.lift <= 0:
            told = "lift must be > 0, the relative gain to be found, such as 0.1 for 10 %"
            raise ParameterError(f"{told}, got {brief(self.lift)}")
        baseline = self.baseline if self.past is None else low + (high - low) * self.past.mean
        if baseline is None or self.baseline not in {None, baseline}:  # both agree where a question was copied
            given = "one of them" if baseline is None else "one of them only"
            raise ParameterError(f"a plan needs baseline, the mean reward now, or data, past rewards: give {given}")
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
        return self.range.high / (self.baseline or 1.0) - 1

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

    def _read_rule(self, asked: Mapping[str, Any], curator: CuratorSpec) -> Rule:
        """Read a rule; one that has the epsilon of the responses, or their number, gets them."""
        kind = asked.get("kind")
        names = {field.name for field in fields(RULES.find(kind))} if kind in RULES.kinds else set()  # type: ignore[arg-type]
        known = {"epsilon": curator.epsilon, "horizon": self.responses}
        more = {name: value for name, value in known.items() if name in names and value is not None}
        return rule_from_json({**more, **asked}, may_import=True)


def _count(name: str, value: object, least: int, most: int) -> int:
    count = check_count(name, value, least=least)
    if count > most:
        raise ParameterError(f"{name} must be at most {most:,}, got {brief(value)}")
    return count


def read_past(place: str, declared: Range, column: str = "reward") -> Past:
    """Read the rewards of one arm from FILE.csv, or of the arm ARM from FILE.csv#ARM."""
    path, arm = Path(place), ""
    if "#" in place and not path.exists():
        name, _, arm = place.rpartition("#")
        path = Path(name)
    try:
        return _past(path.name, str(path), _rewards(path, arm, column), declared)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ParameterError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def take_past(data: object, declared: Range, column: str = "reward") -> Past:
    """Take past rewards from a DataFrame, a Series, an array, a list, or a dict of columns.

    >>> take_past({"reward": [True, False, True, True]}, Range()).mean
    0.75
    """
    names = getattr(data, "columns", None)
    if names is not None or isinstance(data, Mapping):
        names = list(data) if isinstance(data, Mapping) else list(names)  # type: ignore[arg-type]
        if column not in names and len(names) != 1:
            raise ParameterError(f"data has no column {brief(column)}; name one of its columns as column")
        rewards = data[column if column in names else names[0]]  # type: ignore[index]
        if "arm" in names and len(set(data["arm"])) > 1:  # type: ignore[index]
            raise ParameterError("data has more than one arm; give the rewards of the one that is used now")
    else:
        rewards = data
    if not isinstance(rewards, Iterable) or len(getattr(rewards, "shape", (0,))) > 1:
        raise ParameterError("data is a file, a DataFrame, a Series, an array, a list, or a dict of columns")
    return _past("the data", "data", enumerate((reward_number(reward) for reward in rewards), 1), declared)


def _past(name: str, place: str, rewards: Iterable[tuple[int, float]], declared: Range) -> Past:
    found, clipped = Counter[float](), 0
    for line, reward in rewards:
        if not is_number(reward):
            raise ParameterError(f"{place}, line {line}: needs a reward that is a number, true or false")
        inside = min(max(reward, declared.low), declared.high)
        if inside != reward and declared == Range():
            told = "is not in [0, 1]: declare with --low and --high what devices will be told"
            raise ParameterError(f"{place}, line {line}: the reward {told}")
        clipped += inside != reward
        found[(inside - declared.low) / (declared.high - declared.low)] += 1
    if not found:
        raise ParameterError(f"{place} has no rewards")
    return _grouped(name, found, clipped)


def _rewards(path: Path, arm: str, column: str) -> Iterator[tuple[int, float]]:
    """Yield the number of each line and the reward in it; errors name the line, never the reward."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file)
        head = next(rows, [])
        place = _column(path, head, column)
        named = head.index("arm") if "arm" in head else None
        if arm and named is None:
            raise ParameterError(f"{path} has no column arm: {brief(arm)} cannot be found in it")
        seen = ""
        lines = rows if column in head else _again(head, rows)
        for row in lines:
            if not row:
                continue
            if len(row) <= max(place, named or 0):
                raise ParameterError(f"{path}, line {rows.line_num}: too few columns")
            if named is not None and arm and row[named] != arm:
                continue
            if named is not None and not arm and seen not in {"", row[named]}:
                told = f"name the one that is used now, such as {path}#{seen}"
                raise ParameterError(f"{path}, line {rows.line_num}: there is more than one arm; {told}")
            seen = seen if named is None else row[named]
            yield rows.line_num, reward_number(row[place])


def _column(path: Path, head: list[str], column: str) -> int:
    """Return where the rewards stand: under their name, or in a table of one column of numbers."""
    if column in head:
        return head.index(column)
    try:
        (only,) = head
        float(only)
    except ValueError:
        named = f"needs a first line with the column {column}, or one column of numbers"
        raise ParameterError(f"{path} {named}") from None
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
