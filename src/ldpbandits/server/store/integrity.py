"""The integrity check: each tally against its responses, nonces against both, each row against its limits.

A store reads one snapshot of its whole content as a `Dump`; `verify` describes each damaged row in a line. It changes
nothing. It reads responses once, in any order, and holds only their sums and a bit for each number.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from ldpbandits.agent.duels import Design
from ldpbandits.errors import DatabaseError
from ldpbandits.server.experiments.cells import split_cell
from ldpbandits.server.experiments.definition import played_by
from ldpbandits.server.experiments.settings import Settings
from ldpbandits.server.experiments.stored_agent import READING_UNIT
from ldpbandits.server.store import ACCEPTANCES, CellTotal, StoredExperiment, dropped_cell

MOST_LINES = 1000
"""Lines that describe damage; further damaged rows are only counted."""

MOST_KNOWN = 100_000
_BITS = 1 << 30
_Cell: TypeAlias = tuple[int, int, int]
_Sums: TypeAlias = defaultdict[_Cell, list[int]]


class NonceCount(NamedTuple):
    """The used tickets of an experiment that have not been deleted: accepted ones without a response, and answered."""

    experiment: int
    waiting: int
    answered: int


@dataclass(frozen=True)
class Dump:
    """A snapshot of the whole content of a store."""

    experiments: Sequence[StoredExperiment]
    tallies: Iterable[CellTotal]
    responses: Iterable[tuple[Any, Any, Any, Any, Any]]
    """Experiment, number, arm, value and cell of each: integers, unless they are damaged."""
    nonces: Sequence[NonceCount]
    """The numbers of nonces of each experiment."""
    faults: list[str] = field(default_factory=list)
    """Damage that the store itself has found. The list may grow while the rest is read."""


@dataclass
class Findings:
    """The result of an integrity check: how much was read, and a line for each damaged row."""

    experiments: int = 0
    responses: int = 0
    nonces: int = 0
    damage: list[str] = field(default_factory=list)
    unsaid: int = 0
    """The number of damaged rows beyond `MOST_LINES`."""

    def report(self, line: str) -> None:
        """Add a line, or count it once there are `MOST_LINES`."""
        if len(self.damage) < MOST_LINES:
            self.damage.append(line)
        else:
            self.unsaid += 1


def verify(dump: Dump) -> Findings:
    """Read the dump and describe every inconsistency."""
    findings, numbers = Findings(len(dump.experiments)), _Numbers()
    known = {each.number: _ExperimentCheck(each, findings) for each in dump.experiments}
    sums: _Sums = defaultdict(lambda: [0, 0, 0])
    responses: Counter[int] = Counter()
    for row in dump.responses:
        findings.responses += 1
        wrong = _add(row, known, numbers, sums)
        responses[row[0]] += 1
        if wrong is not None:
            findings.report(f"response {row[1]} of experiment {row[0]}: {wrong}")
    tallies = [*dump.tallies]
    dropped = _add_dropped([each for each in tallies if each.cell < ACCEPTANCES], sums, responses)
    tallies = [each for each in tallies if each.cell >= ACCEPTANCES]
    waiting = _compare_tallies(tallies, sums, dropped, known, findings)
    for count in dump.nonces:
        findings.nonces += count.waiting + count.answered
        name = f"experiment {count.experiment}"
        if count.answered > responses[count.experiment]:
            told = f"{count.answered} tickets were answered, and it has {responses[count.experiment]} responses"
            findings.report(f"{name}: {told}")
        if count.waiting > waiting[count.experiment]:
            told = (
                f"{count.waiting} accepted tickets wait for a response, and by its tallies {waiting[count.experiment]}"
            )
            findings.report(f"{name}: {told}")
    for line in dump.faults:
        findings.report(line)
    return findings


def _add(
    row: tuple[Any, Any, Any, Any, Any], known: "dict[int, _ExperimentCheck]", numbers: "_Numbers", sums: _Sums
) -> str | None:
    """Add a response to the sums of its cell; return a description of its damage, if any."""
    experiment, number, arm, value, cell = row
    if not type(experiment) is type(number) is type(arm) is type(value) is type(cell) is int:
        return "a column is not an integer"
    is_new, of = numbers.add(number), known.get(experiment)
    if of is None:
        return "its experiment does not exist"
    is_possible, read = of.judge(value, cell)
    summed = sums[experiment, arm, cell]
    summed[0] += 1
    summed[1] += value
    summed[2] += read
    if not is_new:
        return "another response has this number"
    if not 0 <= arm < of.arms:
        return f"the experiment has no arm {arm}"
    return None if is_possible else "it is not a possible response of the experiment's curator"


def _add_dropped(tallies: Iterable[CellTotal], sums: _Sums, responses: Counter[int]) -> set[_Cell]:
    """Add the sums of dropped responses to those of the others; return their cells. Readings were not kept."""
    dropped = set()
    for experiment, arm, cell, pulls, total, _ in tallies:
        place = experiment, arm, dropped_cell(cell)
        dropped.add(place)
        sums[place][0] += pulls
        sums[place][1] += total
        responses[experiment] += pulls
    return dropped


def _compare_tallies(
    tallies: Iterable[CellTotal],
    sums: _Sums,
    dropped: Collection[_Cell],
    known: "dict[int, _ExperimentCheck]",
    findings: Findings,
) -> Counter[int]:
    """Report tallies that are not the sums of their responses, and cells with responses but no tally.

    The tallies of a warm start have no responses. Their count is stored for each arm, their sums are not known. Return
    the number of accepted pulls without a response, by experiment: they have no rows but their nonces.
    """
    waiting: Counter[int] = Counter()
    brought: dict[tuple[int, int], int] = defaultdict(int)
    for experiment, arm, cell, *kept in tallies:
        counted = sums.pop((experiment, arm, cell), [0, 0, 0])
        of = known.get(experiment)
        name = f"the tally of cell {cell} of arm {arm} of experiment {experiment}"
        if of is None or not 0 <= arm < of.arms:
            findings.report(f"{name}: its arm does not exist")
        elif cell == ACCEPTANCES:
            waiting[experiment] += kept[1]
            _check_acceptances(name, kept, findings)
        elif of.warm(arm) and kept[0] >= counted[0]:
            brought[experiment, arm] += kept[0] - counted[0]
        else:
            has_readings = of.is_readable and (experiment, arm, cell) not in dropped
            words = ("pulls", "total", "readings") if has_readings else ("pulls", "total")
            pairs = zip(words, kept, counted, strict=False)
            wrong = [f"{word} {has}, not {should}" for word, has, should in pairs if has != should]
            if wrong:
                findings.report(f"{name}: it is not the sum of its responses: {'; '.join(wrong)}")
    for (experiment, arm, cell), (count, _, _) in sums.items():
        findings.report(f"cell {cell} of arm {arm} of experiment {experiment}: it has {count} responses and no tally")
    for number, of in known.items():
        for arm in range(of.arms):
            if brought[number, arm] != of.warm(arm):
                place = f"arm {arm} of experiment {number}: {brought[number, arm]} of its pulls have no response"
                findings.report(f"{place}, and its warm start had {of.warm(arm)} pulls")
    return waiting


def _check_acceptances(name: str, kept: Sequence[int], findings: Findings) -> None:
    changes, waiting, read = kept
    if not 0 <= waiting <= changes or read or (changes - waiting) % 2:
        findings.report(f"{name}: {waiting} accepted pulls wait for a response after {changes} changes")


class _ExperimentCheck:
    """Checks responses against their experiment: its arms, its possible values and their readings."""

    def __init__(self, stored: StoredExperiment, findings: Findings) -> None:
        self.arms = len(stored.arms)
        self.is_readable = True
        """Whether this version knows its curator and its rule."""
        self._judged: dict[tuple[int, int], tuple[bool, int]] = {}
        self._settings: Settings | None = None
        try:
            self._settings = Settings.from_json(stored.definition.settings)
            self._menu, _, self._bound_rule = played_by(stored.definition)
        except DatabaseError as error:
            self.is_readable = False
            findings.report(f"experiment {stored.number}: {error}")

    def warm(self, arm: int) -> int:
        """Return the number of responses of an arm's warm start."""
        return 0 if self._settings is None else self._settings.warm(arm)

    def judge(self, value: int, cell: int) -> tuple[bool, int]:
        """Tell whether a value in units is possible in a cell, and return the rule's reading of it, in units."""
        if not self.is_readable:
            return True, 0
        judged = self._judged.get((value, cell))
        if judged is None:
            if len(self._judged) >= MOST_KNOWN:
                self._judged.clear()
            judged = self._judged[value, cell] = self._check_value(value, cell)
        return judged

    def _check_value(self, value: int, cell: int) -> tuple[bool, int]:
        level, rival = split_cell(cell, len(self._menu))
        if cell < 0 or (rival is not None and (self._bound_rule.design is Design.ADAPTIVE or rival >= self.arms)):
            return False, 0
        response = value * self._menu.unit
        read = self._bound_rule.read(response)
        is_possible = self._menu.curators[level].in_units(response) == value
        return is_possible, 0 if read is None else round(read / READING_UNIT)


class _Numbers:
    """A set of integers as a bitmap; integers of 2**30 and more are in a `set`."""

    def __init__(self) -> None:
        self._bits = bytearray()
        self._huge: set[int] = set()

    def add(self, number: int) -> bool:
        """Add a number; return whether it was new."""
        if not 0 <= number < _BITS:
            is_new = number not in self._huge
            self._huge.add(number)
            return is_new
        place, bit = number >> 3, 1 << (number & 7)
        if place >= len(self._bits):
            self._bits.extend(bytes(max(place + 1 - len(self._bits), len(self._bits))))
        is_new = not self._bits[place] & bit
        self._bits[place] |= bit
        return is_new
