"""Reward laws as data: the laws of the rewards of simulated arms.

Each knows its mean exactly, its range, and how likely a reward is above any theta.

On the command line an arm is written as its law, with a count before it for several alike: `5*beta(4,1)`. Data of your
own are a law too, one an arm: `empirical(past.csv)` reads a table with the columns arm and reward, and
`empirical(past.csv, arm=variant, reward=clicked)` one with columns of other names.
"""

import csv
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from importlib import import_module
from itertools import count
from math import erfc, fsum, inf, nan, sqrt
from pathlib import Path
from typing import Any, ClassVar, TypeAlias
from urllib.parse import quote, unquote

from ldpbandits.checks import brief, is_number
from ldpbandits.errors import ArmError
from ldpbandits.extras import needs

LARGEST = 1e100
"""Rewards beyond it would overflow when they are summed or squared."""

SMALLEST_SHAPE = 0.01
MOST_ARMS = 100_000
_SIZE = f"of size <= {LARGEST:g}"
UNIT = (0.0, 1.0)
"""The range of a law, the smallest interval that holds all rewards, where all of them are in [0, 1]."""
COLUMNS = "arm", "reward"
"""The columns of a table of data, unless others are named."""

PLAIN = "/\\:,;+=&$!' ()[]{}~"
"""The characters that are not quoted in the name of a file or arm; # and @ and % are."""


def _fits(value: object) -> bool:
    return is_number(value) and abs(value) <= LARGEST


@dataclass(frozen=True, slots=True)
class Bernoulli:
    """1 with probability p, else 0."""

    p: float

    range: ClassVar = UNIT

    def __post_init__(self) -> None:
        _require(is_number(self.p) and 0 <= self.p <= 1, "bernoulli(p) needs p in [0, 1]", self.p)

    @property
    def mean(self) -> float:
        """The mean reward, which is p."""
        return self.p

    def above(self, theta: float) -> float:
        """Return the probability P(reward > theta)."""
        return _share_above(theta, (0.0, 1.0), (1 - self.p, self.p))


@dataclass(frozen=True, slots=True)
class Beta:
    """The Beta law on [0, 1] with density proportional to x^(a - 1) (1 - x)^(b - 1)."""

    a: float
    b: float

    range: ClassVar = UNIT

    def __post_init__(self) -> None:
        """Check that both shapes are positive, and not so small that samplers get lost between 0 and 1."""
        rule = f"beta(a, b) needs a > 0 and b > 0, from {SMALLEST_SHAPE:g} to {LARGEST:g}"
        _require(all(_fits(x) and x >= SMALLEST_SHAPE for x in (self.a, self.b)), rule, self.a, self.b)

    @property
    def mean(self) -> float:
        """The mean reward, a / (a + b)."""
        return float(Fraction(self.a) / (Fraction(self.a) + Fraction(self.b)))

    def above(self, theta: float) -> float:
        """P(reward > theta): 1 - I(theta; a, b), with I the regularised incomplete beta function."""
        with needs("lab", who="the chance of a beta law above a threshold"):  # the only law that needs more than Python
            special = import_module("scipy.special")
        return float(special.betaincc(self.a, self.b, min(max(theta, 0.0), 1.0)))


@dataclass(frozen=True, slots=True)
class Uniform:
    """Any number in [low, high], all equally likely."""

    low: float
    high: float

    def __post_init__(self) -> None:
        ordered = _fits(self.low) and _fits(self.high) and self.low < self.high
        _require(ordered, f"uniform(low, high) needs low < high, {_SIZE}", self.low, self.high)

    @property
    def mean(self) -> float:
        """The mean reward, in the middle."""
        return _average((self.low, self.high))

    @property
    def range(self) -> tuple[float, float]:
        """The smallest interval that holds all rewards."""
        return (self.low, self.high)

    def above(self, theta: float) -> float:
        """Return the probability P(reward > theta)."""
        return (self.high - min(max(theta, self.low), self.high)) / (self.high - self.low)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the values, all equally likely."""

    values: tuple[float, ...]

    def __post_init__(self) -> None:
        listed = len(self.values) > 0 and all(map(_fits, self.values))
        _require(listed, f"choice(v1, v2, ...) needs one value or more, {_SIZE}", *self.values)

    @property
    def mean(self) -> float:
        """The mean reward, the average of the values."""
        return _average(self.values)

    @property
    def range(self) -> tuple[float, float]:
        """The smallest interval that holds all rewards."""
        return (min(self.values), max(self.values))

    def above(self, theta: float) -> float:
        """Return the probability P(reward > theta)."""
        return _share_above(theta, self.values, (1,) * len(self.values))


@dataclass(frozen=True, slots=True)
class Gaussian:
    """The normal law with this mean and standard deviation."""

    mean: float
    sd: float = 1.0

    range: ClassVar = (-inf, inf)

    def __post_init__(self) -> None:
        valid = _fits(self.mean) and _fits(self.sd) and self.sd > 0
        _require(valid, f"gaussian(mean, sd) needs a mean and an sd > 0, {_SIZE}", self.mean, self.sd)

    def above(self, theta: float) -> float:
        """Return the probability P(reward > theta)."""
        return erfc((theta - self.mean) / self.sd / sqrt(2)) / 2


@dataclass(frozen=True, slots=True)
class Empirical:
    """One of the rewards that an arm had in the past, each as likely as it was frequent.

    `digest` names the data themselves: what was computed from them is not mistaken for that of another file.
    """

    file: str
    arm: str
    values: tuple[float, ...]
    counts: tuple[int, ...]
    digest: str
    columns: tuple[str, str] = COLUMNS
    """The columns of the arms and of the rewards in the file."""

    @property
    def mean(self) -> float:
        """The mean of the rewards in the file."""
        total = sum(Fraction(value) * count for value, count in zip(self.values, self.counts, strict=True))
        return float(total / sum(self.counts))

    @property
    def range(self) -> tuple[float, float]:
        """The smallest interval that holds all rewards."""
        return (self.values[0], self.values[-1])

    def above(self, theta: float) -> float:
        """Return the probability P(reward > theta)."""
        return _share_above(theta, self.values, self.counts)


@dataclass(frozen=True, slots=True)
class Drift:
    """1 with a probability that moves with the round t, else 0: level + amplitude sin(2 pi t / period).

    Arms of the same amplitude and period rise and fall together, as by day and night. Their order stays what it is, but
    arms that are pulled at different times cannot be compared.
    """

    level: float
    amplitude: float
    period: float

    range: ClassVar = UNIT

    def __post_init__(self) -> None:
        numbers = self.level, self.amplitude, self.period
        valid = all(map(_fits, numbers)) and abs(self.amplitude) <= min(self.level, 1 - self.level) and self.period > 0
        rule = "drift(level, amplitude, period) needs level +- amplitude in [0, 1] and a period > 0 in rounds"
        _require(valid, rule, *numbers)

    @property
    def mean(self) -> float:
        """The mean reward over whole periods, which is the level."""
        return self.level

    def above(self, theta: float) -> float:
        """Return the probability P(reward > theta) over whole periods."""
        return _share_above(theta, (0.0, 1.0), (1 - self.level, self.level))


Law: TypeAlias = Bernoulli | Beta | Uniform | Choice | Gaussian | Drift | Empirical
FORMULAS: dict[str, type[Bernoulli | Beta | Uniform | Choice | Gaussian | Drift]] = {
    kind.__name__.lower(): kind for kind in (Bernoulli, Beta, Uniform, Choice, Gaussian, Drift)
}
"""The laws that are written as a name and numbers."""


def gaps(arms: Iterable[Law]) -> list[float]:
    """Delta_a = the best mean - the mean of a, for each arm."""
    means = [arm.mean for arm in arms]
    return [max(means) - mean for mean in means]


def read_arms(arms: object, columns: tuple[str, str] = COLUMNS) -> tuple[Law, ...]:
    """Take arms as laws, as text, as data, or mixed: `["bernoulli(0.9)", "5*beta(4,1)", Gaussian(0.5), rewards]`.

    Data are a DataFrame or a dict with these columns of arms and of rewards, or else with one column of rewards for
    each arm; a Series or an array is one arm.
    """
    if isinstance(arms, str | Law):
        arms = [arms]
    if _column_names(arms) or hasattr(arms, "shape"):
        return _arms_of_data(arms, columns)
    if not isinstance(arms, Iterable):
        raise ArmError(f"arms are a list of laws, such as ['bernoulli(0.9)', '5*beta(4,1)'], got {brief(arms)}")
    laws: list[Law] = []
    for arm in arms:
        if isinstance(arm, str):
            laws += parse_arms(arm)
        elif isinstance(arm, Law):
            laws.append(arm)
        elif hasattr(arm, "shape") or (isinstance(arm, list | tuple) and arm):
            laws += _grouped((str(len(laws)), number, reward) for number, reward in enumerate(arm, 1))
        else:
            raise ArmError(f"an arm is a law, or written as one, such as 'bernoulli(0.9)', got {brief(arm)}")
    return tuple(laws)


def parse_arms(text: str, folder: Path | None = None) -> list[Law]:
    """Read `law(number, ...)` or `count*law(number, ...)`; raise ArmError with the rule for what cannot be read.

    >>> parse_arms("2*bernoulli(0.5)")
    [Bernoulli(p=0.5), Bernoulli(p=0.5)]
    """
    if data := re.fullmatch(r"\s*empirical\((.*)\)\s*", text, flags=re.DOTALL):
        return list(_empirical(data[1].strip(), folder or Path()))
    parts = re.fullmatch(r"\s*(?:(\d{1,20})\s*\*)?\s*(\w+)\s*\(([^()]*)\)\s*", text, flags=re.ASCII)
    if parts is None:
        raise ArmError(f"an arm is written law(numbers) or count*law(numbers), such as 5*beta(4,1), got {brief(text)}")
    copies, name, arguments = int(parts[1] or 1), parts[2], parts[3]
    if name == "empirical":
        raise ArmError("empirical(FILE.csv) has the arms of its table, and takes no count before it")
    if name not in FORMULAS:
        raise ArmError(f"an arm's law must be one of {', '.join([*FORMULAS, 'empirical'])}, got {brief(name)}")
    if not 1 <= copies <= MOST_ARMS:
        raise ArmError(f"the count before * must be from 1 to {MOST_ARMS}, got {copies}")
    try:
        numbers = [float(number) for number in arguments.split(",")] if arguments.strip() else []
    except ValueError:
        raise ArmError(f"the arguments of {name} must be numbers, got {brief(arguments)}") from None
    law = FORMULAS[name]
    try:
        arm = Choice(tuple(numbers)) if law is Choice else law(*numbers)  # type: ignore[arg-type]
    except TypeError:
        raise ArmError(f"{name} takes {', '.join(law.__slots__)}, got {len(numbers)} numbers") from None
    return [arm] * copies


def arm_text(arm: Law, folder: Path | None = None) -> str:
    """Write an arm as the command line reads it; a file of data by its place seen from a folder, or in full."""
    if isinstance(arm, Empirical):
        file = arm.file if folder is None else os.path.relpath(arm.file, folder)
        pairs = zip(COLUMNS, arm.columns, strict=True)
        named = "".join(f", {usual}={quote(name, safe='')}" for usual, name in pairs if name != usual)
        return f"empirical({quote(file, safe=PLAIN)}#{quote(arm.arm, safe=PLAIN)}@{arm.digest}{named})"
    numbers = arm.values if isinstance(arm, Choice) else tuple(getattr(arm, name) for name in arm.__slots__)
    return f"{type(arm).__name__.lower()}({','.join(repr(number).removesuffix('.0') for number in numbers)})"


def arm_name(arm: Law, number: int) -> str:
    """Return the name of an arm of data; any other arm goes by its number."""
    return arm.arm if isinstance(arm, Empirical) else str(number)


def identity(arm: Law) -> str:
    """Return the identity of an arm, in which data do not depend on the place of their file."""
    return f"{arm.arm}@{arm.digest}" if isinstance(arm, Empirical) else arm_text(arm)


def _empirical(place: str, folder: Path) -> Iterable[Empirical]:
    """Read `FILE` or `FILE#ARM`, the arms of a table or one of them; or what `arm_text` writes, `FILE#ARM@DIGEST`.

    Behind it the columns of other names: `, arm=NAME, reward=NAME`.
    """
    columns, named = COLUMNS, re.fullmatch(r"(.*?)(?:,\s*arm=([^,=]+))?(?:,\s*reward=([^,=]+))?", place, re.DOTALL)
    if named is not None and not (folder / place).exists():
        place, columns = named[1], (unquote(named[2] or COLUMNS[0]), unquote(named[3] or COLUMNS[1]))
    file, wanted, digest = place, "", ""
    if written := re.fullmatch(r"([^#]*)#([^#]*)@([0-9a-f]{16})", place):
        file, wanted, digest = unquote(written[1]), unquote(written[2]), written[3]
    elif "#" in place and not (folder / place).exists():
        file, _, wanted = place.rpartition("#")
    path = folder / file
    laws = _grouped(_read_table(path, columns), path, columns)
    found = [law for law in laws if wanted in ("", law.arm)]
    if not found:
        raise ArmError(f"{file} has no arm {brief(wanted)}; it has {', '.join(brief(law.arm) for law in laws)}")
    if digest and found[0].digest != digest:
        raise ArmError(f"the rewards of arm {brief(wanted)} in {file} are no longer those that were played")
    return found


def _read_table(path: Path, columns: tuple[str, str]) -> Iterator[tuple[str, int, object]]:
    """Yield the arm, the number of the line and the reward of each row."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            if not set(columns) <= set(rows.fieldnames or ()):
                raise ArmError(f"{path} needs a first line with the columns {' and '.join(columns)}")
            for row in rows:
                yield row[columns[0]], rows.line_num, row[columns[1]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ArmError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _column_names(data: object) -> list[Any]:
    """Return the names of the columns of a DataFrame or a dict; none for anything else."""
    names = list(data) if isinstance(data, Mapping) else getattr(data, "columns", ())
    return list(names)


def _arms_of_data(data: Any, columns: tuple[str, str]) -> tuple[Empirical, ...]:  # noqa: ANN401 - of pandas or numpy
    """Return the arms of a table, or of an array of one arm."""
    names = _column_names(data)
    if set(columns) <= set(names):
        rows = zip(map(str, data[columns[0]]), count(1), data[columns[1]], strict=False)
        return _grouped(rows)
    if columns != COLUMNS:
        raise ArmError(
            f"data has no columns {' and '.join(map(brief, columns))}; it has {', '.join(map(brief, names))}"
        )
    if not names and len(data.shape) != 1:
        raise ArmError(
            "an array is the rewards of one arm; give a list of arrays, or a table with a column for each arm"
        )
    tables = {str(name): data[name] for name in names} or {"0": data}
    return _grouped((name, row, reward) for name, rewards in tables.items() for row, reward in enumerate(rewards, 1))


def _grouped(
    rows: Iterable[tuple[str, int, object]], path: Path | None = None, columns: tuple[str, str] = COLUMNS
) -> tuple[Empirical, ...]:
    """Return the law of each arm, in the order in which the arms occur first, from arms, lines and rewards."""
    found: dict[str, Counter[float]] = {}
    for arm, line, given in rows:
        reward = reward_number(given)
        # The number of the line is enough to find it: a reward is shown to nobody.
        if not _fits(reward) or not arm:
            where = f"{path}, line" if path else "data, row"
            told = f"needs an arm and a reward that is a number, true or false, {_SIZE}"
            raise ArmError(f"{where} {line}: {told}")
        found.setdefault(arm, Counter())[reward] += 1
    if not found:
        raise ArmError(f"{path or 'data'} has no rewards")
    return tuple(
        _law_of(arm, counts, "data" if path is None else str(path.resolve()), columns) for arm, counts in found.items()
    )


def _law_of(arm: str, counts: Counter[float], file: str, columns: tuple[str, str]) -> Empirical:
    values = tuple(sorted(counts))
    content = "\n".join(f"{value!r} {counts[value]}" for value in values)
    digest = sha256(content.encode()).hexdigest()[:16]
    return Empirical(file, arm, values, tuple(counts[value] for value in values), digest, columns)


def reward_number(reward: object) -> float:
    """Return a reward as a number; true and false are 1 and 0, and NaN stands for what is no number.

    >>> [reward_number(given) for given in ("0.5", "True", False)]
    [0.5, 1.0, 0.0]
    """
    if isinstance(reward, str):
        reward = {"true": 1.0, "false": 0.0}.get(reward.strip().lower(), reward)
    try:
        return float(reward)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return nan


def _share_above(theta: float, values: Iterable[float], weights: tuple[float, ...]) -> float:
    return fsum(weight for value, weight in zip(values, weights, strict=True) if value > theta) / fsum(weights)


def _average(values: tuple[float, ...]) -> float:
    return float(sum(map(Fraction, values)) / len(values))


def _require(holds: bool, rule: str, *values: object) -> None:  # noqa: FBT001 - the condition is the subject
    if not holds:
        raise ArmError(f"{rule}, got {', '.join(map(brief, values)) or 'nothing'}")
