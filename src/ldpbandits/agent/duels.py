"""Duels: a fair coin chooses between the leading arm and a challenger; and the responses, counted by pair of arms.

Arms that are pulled at different times cannot be compared while the level of all arms moves. Two arms between which a
fair coin chose can: see `inference/differences.py`. A pull therefore has a *rival*. Under `Design.DUELS` it is the
other arm of the coin; under `Design.EQUAL`, where every arm in use is equally likely, it is the newest arm of that
moment: a coin was fair between any two arms up to that number.

The challenger of the leader b is the arm j of least G(b, j) + log n(j|b), after arms that have no duel with b yet;
n(j|b) is the number of pulls of j against b, and G(b, j) the likelihood ratio statistic of their duels by its normal
approximation: half the square of gain over standard error, 0 where b is behind. A choice does not affect validity.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import log
from typing import NamedTuple

from ldpbandits.agent.inference.differences import CELL, Pair, Scale
from ldpbandits.agent.tally import ArmTally
from ldpbandits.types import Arm

NO_DUEL = -1.0
"""The gap of two arms that have no duel yet."""

UNKNOWN_DUEL = NO_DUEL, 0.0


class Design(Enum):
    """How a rule randomises, which says what its responses can prove."""

    ADAPTIVE = "adaptive"
    """By the responses so far: arms are comparable if their means stay what they are."""
    EQUAL = "equal"
    """Every arm in use is equally likely, whatever the responses."""
    DUELS = "duels"
    """A fair coin between two arms, which the responses so far have picked."""


class Choice(NamedTuple):
    """An arm to pull, and its rival; None where no fair coin has chosen."""

    arm: Arm
    rival: Arm | None = None


@dataclass(frozen=True, slots=True)
class UnitScale:
    """Maps the sum of an arm's responses, or of a rule's readings of them, to a sum of numbers in [0, 1]."""

    scale: Scale
    """The mean of such a number is low + slope mu for values of mean mu; low and slope of each level in a row."""
    shift: float = 0.0
    width: float = 1.0

    def total(self, pulls: float, counted: float) -> float:
        """Return the sum of the numbers in [0, 1] behind this sum of `pulls` responses or readings."""
        return (counted + self.shift * pulls) / self.width


def duel_gap(cells: Sequence[float], scale: Sequence[float]) -> float:
    """Return G(b, a): half the square of the gain of b over its standard error; 0 where b is behind.

    `cells` are as in `inference/differences.py`; -1 where an arm has no response.
    """
    gain_b, gain_a, weight_b, weight_a, noise_b, noise_a = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for level in range(len(cells) // CELL):
        low, slope = scale[2 * level], scale[2 * level + 1]
        pulls_b, ones_b = cells[CELL * level], cells[CELL * level + 1]
        pulls_a, ones_a = cells[CELL * level + 2], cells[CELL * level + 3]
        mean = (ones_b + ones_a + 1) / (pulls_b + pulls_a + 2)
        variance = slope * slope * mean * (1 - mean)
        gain_b += slope * (ones_b - low * pulls_b)
        gain_a += slope * (ones_a - low * pulls_a)
        weight_b += slope * slope * pulls_b
        weight_a += slope * slope * pulls_a
        noise_b += variance * pulls_b
        noise_a += variance * pulls_a
    if weight_b == 0 or weight_a == 0:
        return NO_DUEL
    gain = gain_b / weight_b - gain_a / weight_a
    if gain <= 0:
        return 0.0
    return gain * gain / (2 * (noise_b / (weight_b * weight_b) + noise_a / (weight_a * weight_a)))


def pick_challenger(leader: int, gaps: Sequence[float], pulls: Sequence[float], counts: Sequence[float]) -> int:
    """Return the place of the arm that the leader duels with next.

    `gaps` are G(leader, j), `pulls` the pulls of j against the leader, answered or out, and `counts` all pulls of j:
    of arms without a duel, the least pulled comes first.
    """
    best, least, is_new = -1, 0.0, False
    for place in range(len(gaps)):
        if place != leader:
            lacks_duel = gaps[place] < 0
            score = counts[place] if lacks_duel else gaps[place] + log(max(pulls[place], 1.0))
            if best < 0 or (lacks_duel and not is_new) or (lacks_duel == is_new and score < least):
                best, least, is_new = place, score, lacks_duel
    return best


class DuelTally:
    """The responses of each arm by its rival, as the rule counts them, and the gaps between arms."""

    def __init__(self, design: Design, unit: UnitScale) -> None:
        """Count for this design; `unit` says how sums become sums of numbers in [0, 1]."""
        self.design, self.unit = design, unit
        self.levels = len(unit.scale) // 2
        self.cells: dict[tuple[int, int], list[float]] = {}
        """The number and the sum of the responses of (arm, rival), for each level in a row."""
        self._duels: dict[int, dict[int, tuple[float, float]]] = {}
        """For each arm b, by its rival a: G(b, a), and the number of responses of a against b."""

    def add(self, choice: Choice, pulls: float, counted: float, level: int = 0) -> None:
        """Count `pulls` more responses of this sum; those without a rival prove nothing, and are left out."""
        arm, rival = choice
        if rival is None:
            return
        cells = self.cells.setdefault((arm, rival), [0.0] * (2 * self.levels))
        cells[2 * level] += pulls
        cells[2 * level + 1] += counted
        if self.design is Design.DUELS:
            for b, a in ((arm, rival), (rival, arm)):
                pair = self._pair_cells(b, a)
                self._duels.setdefault(b, {})[a] = duel_gap(pair, self.unit.scale), sum(pair[2::CELL])

    def pair(self, b: int, a: int, missing: tuple[float, float] = (0.0, 0.0)) -> Pair | None:
        """Return the responses between which a fair coin chose b or a; None where there are none."""
        cells = self._pair_cells(b, a)
        return Pair(cells, self.unit.scale, True, missing) if any(cells) else None  # noqa: FBT003 - a fair coin

    def _pair_cells(self, b: int, a: int) -> tuple[float, ...]:
        of_b, of_a = ([0.0, 0.0] * self.levels for _ in range(2))
        for (arm, _), cells in self._compared(b, a):
            into = of_b if arm == b else of_a
            for level in range(self.levels):
                pulls = cells[2 * level]
                into[2 * level] += pulls
                into[2 * level + 1] += self.unit.total(pulls, cells[2 * level + 1])
        halves = zip(of_b[::2], of_b[1::2], of_a[::2], of_a[1::2], strict=True)
        return tuple(number for level in halves for number in level)

    def _compared(self, b: int, a: int) -> list[tuple[tuple[int, int], list[float]]]:
        """Return the cells of two arms that a fair coin chose between."""
        if self.design is Design.DUELS:
            keys = [(b, a), (a, b)]
        else:
            newest = max((rival for _, rival in self.cells), default=-1)
            keys = [(arm, rival) for arm in (b, a) for rival in range(max(b, a), newest + 1)]
        return [(key, self.cells[key]) for key in keys if key in self.cells]

    def to_json(self) -> list[list[float]]:
        """Return a list of arm, rival, and the number and the sum of the responses at each level."""
        return [[arm, rival, *cells] for (arm, rival), cells in self.cells.items()]

    def challenger(self, leader: int, arms: Sequence[Arm], tallies: Sequence[ArmTally]) -> Arm:
        """Return the arm that the leader, at this place of `arms`, duels with next.

        Pending pulls of an arm count as if against the leader.
        """
        known = self._duels.get(arms[leader], {})
        gaps, answered = zip(*(known.get(arm, UNKNOWN_DUEL) for arm in arms), strict=True)
        pulls = [pulls + tally.out for pulls, tally in zip(answered, tallies, strict=True)]
        return arms[pick_challenger(leader, gaps, pulls, [tally.n for tally in tallies])]
