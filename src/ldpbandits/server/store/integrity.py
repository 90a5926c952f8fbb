"""Do the books agree? Each tally against its responses, each nonce against its response, each row against what can be.

A store reads all that it holds, as of one moment, as `Dump`; what they do not agree in is said in lines, a line for
each damaged row. Nothing is changed. Responses are read once, in any order, and only their sums are kept, and a bit for
each number.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ldpbandits.errors import DatabaseError
from ldpbandits.server.experiments.live import READING_UNIT, played_by
from ldpbandits.server.experiments.settings import Settings
from ldpbandits.server.store import CellTotal, StoredExperiment

MOST_LINES = 1000
"""A database that is damaged throughout is described by so many lines."""

MOST_KNOWN = 100_000
_BITS = 1 << 30
_Cell: TypeAlias = tuple[int, int, int]
_Sums: TypeAlias = defaultdict[_Cell, list[int]]


@dataclass(frozen=True)
class Dump:
    """All that a store holds, as of one moment."""

    experiments: Sequence[StoredExperiment]
    tallies: Iterable[CellTotal]
    responses: Iterable[tuple[Any, Any, Any, Any, Any]]
    """Experiment, number, arm, value and cell of each: whole numbers, unless they are damaged."""
    nonces: Iterable[tuple[Any, Any, Any]]
    """Expiry and nonce of each ticket that was used, and the number of its response."""
    nonces_besides: int = 0
    """Those that tell no number of a response, and that the store has compared by itself."""
    faults: list[str] = field(default_factory=list)
    """What the store itself finds wrong. It may grow while the rest is read."""


@dataclass
class Findings:
    """What there is, and what is wrong with it."""

    experiments: int = 0
    responses: int = 0
    nonces: int = 0
    damage: list[str] = field(default_factory=list)
    unsaid: int = 0
    """Damaged rows beyond those that have a line."""

    def say(self, line: str) -> None:
        """Keep a line, unless there are too many."""
        if len(self.damage) < MOST_LINES:
            self.damage.append(line)
        else:
            self.unsaid += 1


def verify(books: Dump) -> Findings:
    """Read the books, and say what does not agree."""
    findings, numbers = Findings(len(books.experiments), nonces=books.nonces_besides), _Numbers()
    known = {each.number: _Known(each, findings) for each in books.experiments}
    sums: _Sums = defaultdict(lambda: [0, 0, 0])
    for row in books.responses:
        findings.responses += 1
        wrong = _add(row, known, numbers, sums)
        if wrong is not None:
            findings.say(f"response {row[1]} of experiment {row[0]}: {wrong}")
    _compare_tallies(books.tallies, sums, known, findings)
    for expires_at, nonce, number in books.nonces:
        findings.nonces += 1
        if not (type(expires_at) is type(number) is int and isinstance(nonce, bytes) and numbers.take(number)):
            told = f"the nonce {_shown(nonce)} of a ticket that expires at {expires_at}"
            findings.say(f"{told}: there is no response {number}, or another nonce has it")
    for line in books.faults:
        findings.say(line)
    return findings


def _add(
    row: tuple[Any, Any, Any, Any, Any], known: "dict[int, _Known]", numbers: "_Numbers", sums: _Sums
) -> str | None:
    """Add a response to the sums of its cell; return what is wrong with it, if anything."""
    experiment, number, arm, value, cell = row
    if not type(experiment) is type(number) is type(arm) is type(value) is type(cell) is int:
        return "it is not made of whole numbers"
    is_new, of = numbers.add(number), known.get(experiment)
    if of is None:
        return "there is no such experiment"
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


def _compare_tallies(tallies: Iterable[CellTotal], sums: _Sums, known: "dict[int, _Known]", findings: Findings) -> None:
    """Say which tallies are not the sums of their responses, and which of these have no tally.

    What an experiment has brought along from elsewhere is in its tallies and has no responses. How many there were is
    kept for each arm; their sums are not known.
    """
    brought: dict[tuple[int, int], int] = defaultdict(int)
    for experiment, arm, cell, *kept in tallies:
        counted = sums.pop((experiment, arm, cell), [0, 0, 0])
        of = known.get(experiment)
        name = f"the tally of cell {cell} of arm {arm} of experiment {experiment}"
        if of is None or not 0 <= arm < of.arms:
            findings.say(f"{name}: there is no such arm")
        elif of.warm(arm) and kept[0] >= counted[0]:
            brought[experiment, arm] += kept[0] - counted[0]
        else:
            words = ("pulls", "total", "readings") if of.is_readable else ("pulls", "total")
            pairs = zip(words, kept, counted, strict=False)
            wrong = [f"{word} {has}, not {should}" for word, has, should in pairs if has != should]
            if wrong:
                findings.say(f"{name}: it is not the sum of its responses: {'; '.join(wrong)}")
    for (experiment, arm, cell), (count, _, _) in sums.items():
        findings.say(f"cell {cell} of arm {arm} of experiment {experiment}: it has {count} responses and no tally")
    for number, of in known.items():
        for arm in range(of.arms):
            if brought[number, arm] != of.warm(arm):
                told = f"arm {arm} of experiment {number}: {brought[number, arm]} of its pulls have no response"
                findings.say(f"{told}, and it has brought along {of.warm(arm)}")


class _Known:
    """What is known of an experiment: its arms, and what a response of it can be and is read as."""

    def __init__(self, stored: StoredExperiment, findings: Findings) -> None:
        self.arms = len(stored.arms)
        self.is_readable = True
        """Its curator and its rule are known here."""
        self._judged: dict[tuple[int, int], tuple[bool, int]] = {}
        self._settings: Settings | None = None
        try:
            self._settings = Settings.from_json(stored.definition.settings)
            self._menu, _, self._bound_rule = played_by(stored.definition)
        except DatabaseError as error:
            self.is_readable = False
            findings.say(f"experiment {stored.number}: {error}")

    def warm(self, arm: int) -> int:
        """Return how many responses an arm has brought along."""
        return 0 if self._settings is None else self._settings.warm(arm)

    def judge(self, value: int, cell: int) -> tuple[bool, int]:
        """Tell whether a value in units is possible in a cell, and what the rule reads of it, in units too."""
        if not self.is_readable:
            return True, 0
        judged = self._judged.get((value, cell))
        if judged is None:
            if len(self._judged) >= MOST_KNOWN:
                self._judged.clear()
            judged = self._judged[value, cell] = self._look(value, cell)
        return judged

    def _look(self, value: int, cell: int) -> tuple[bool, int]:
        if not 0 <= cell < len(self._menu):
            return False, 0
        response = value * self._menu.unit
        read = self._bound_rule.read(response)
        is_possible = self._menu.curators[cell].in_units(response) == value
        return is_possible, 0 if read is None else round(read / READING_UNIT)


class _Numbers:
    """A set of numbers, at a bit each for all but huge ones."""

    def __init__(self) -> None:
        self._bits = bytearray()
        self._huge: set[int] = set()

    def add(self, number: int) -> bool:
        """Add a number; tell whether it was new."""
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

    def take(self, number: int) -> bool:
        """Remove a number; tell whether it was there."""
        place, bit = number >> 3, 1 << (number & 7)
        if not 0 <= number < _BITS or place >= len(self._bits):
            was_there = number in self._huge
            self._huge.discard(number)
            return was_there
        was_there = bool(self._bits[place] & bit)
        self._bits[place] &= ~bit
        return was_there


def _shown(nonce: object) -> str:
    return nonce.hex() if isinstance(nonce, bytes) else "that is no bytes"
