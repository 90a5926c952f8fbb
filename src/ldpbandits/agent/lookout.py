"""Which arm to pull, without looking at every arm: the choice of `kernels.select`, for less work.

While the tally of an arm does not change, only a clock moves its index: t, or the largest mean. A rule that declares
which one (`moves`) gets a lookout; one that declares nothing is asked about every arm.

**Arms of equal tallies share an index.** They are one group, of which the lowest-numbered arm counts. Among thousands
of arms with a few responses each there are few groups, and ties are within them. Arms without a response share the mean
of all responses; their groups differ in N alone, so there are few too, and they are looked at in every decision.

**A bound for each other group.** The lookout keeps index(clock ahead) + margin, a number that the group's index does
not pass until the clock does. The index rises with the clock, and the margin is more than rounding can take away.

**The choice is that of the full scan.** A decision renews the bounds that the clock has passed. Then it computes the
indexes themselves, by the rule's own kernel on the very numbers that the full scan has, in groups of ever smaller
bounds, until no bound left is at least the largest index found. A group that was not looked at has an index <= its
bound < that index: none of its arms is the choice of the full scan, nor tied with it. Of the groups that were looked
at, the largest index wins, and of several the lowest-numbered arm. Arms that starve come first, as in the full scan.

**How far ahead.** A clock far ahead makes a bound that lasts and is loose; a loose bound costs a look in each decision.
So a group that was looked at in vain halves the distance to what would have been enough; one whose bound was passed
goes twice as far the next time.
"""

from bisect import bisect_left, insort
from enum import Enum
from itertools import repeat
from math import inf, isfinite, log
from typing import Protocol, TypeAlias

from ldpbandits.agent.kernels import ArmView, Index, Parameters, Random
from ldpbandits.agent.tally import Row, Tally
from ldpbandits.agent.tournament import Tournament

MANY, FEW = 24, 6
"""From so many arms on, a lookout is faster than a look at every arm: where an index is cheap, and where it is not."""


class Moves(Enum):
    """How the index of an arm moves while the arm's own tally does not change. It draws nothing."""

    WITH_T = "t"
    """It never falls as t rises, and does not depend on the largest mean."""
    AGAINST_BEST = "best"
    """It never rises as the largest mean rises, and does not depend on t."""


class Played(Protocol):
    """What a decision is made by: the kernel of a rule, and its numbers. A rule is one, and so is `fit.Fitted`."""

    @property
    def index(self) -> Index:
        """As in `Rule`."""

    @property
    def parameters(self) -> Parameters:
        """As in `Rule`."""

    @property
    def floor(self) -> float:
        """As in `Rule`."""


MARGIN = 1e-9
"""More than an index is rounded by, beside |index| + |mean|: the kernels' own error is below 1e-11."""

FAR = {Moves.WITH_T: 0.5, Moves.AGAINST_BEST: 0.25}
"""How far ahead a bound looks at most: in parts of t, or of the way from the largest mean down to the arm's own."""

Key: TypeAlias = tuple[float, int, int, Row]
"""What the arms of a group have in common: mean, pulls, N and cells; an arm without pulls has no mean of its own: 0."""


class Lookout:
    """The bounds of all groups of one tally, for one rule. There are at most as many groups as arms."""

    def __init__(self, rule: Played, moves: Moves, tally: Tally, random: Random) -> None:
        """Start with every arm of the tally; the first decision computes every bound."""
        self._index, self._parameters, self._floor, self._random = rule.index, rule.parameters, rule.floor, random
        self._moves, self._farthest = moves, FAR[moves]
        self._tally, self.touched = tally, tally.touched
        self._arms = arms = len(tally.counts)
        self._hunger = Tournament(-n for n in tally.counts)
        self._means, self._bounds, self._ends = (Tournament(repeat(-inf, arms)) for _ in range(3))
        self._far = [self._farthest] * arms
        self._group = [-1] * arms
        self._groups: dict[Key, int] = {}
        self._keys: list[Key] = [(0.0, 0, 0, ())] * arms
        self._members: list[list[int]] = [[] for _ in range(self._bounds.size)]
        self._free = list(range(arms - 1, -1, -1))
        self._t, self._best, self._clock = 0, 0.0, 0.0
        self.touched.clear()
        self.touched.update(place for place, n in enumerate(tally.counts) if n)

    def select(self) -> int:
        """Return the place of the arm that `kernels.select` returns."""
        fresh = self._regroup()
        self._read_clock()
        for group in fresh:
            self._renew(group, self._far[group])
        ends = self._ends
        while -ends.scores[1] < self._clock:
            group = ends.first()
            self._renew(group, min(2 * self._far[group], self._farthest))
        if -self._hunger.scores[1] <= self._floor * log(self._t + 1.0):
            return self._hunger.first()
        return self._look()

    def _regroup(self) -> list[int]:
        """Put each arm that changed where it belongs; return the groups that are new."""
        tally, left = self._tally, list[int]()
        for place in self.touched:
            self._hunger.set(place, -tally.counts[place])
            group = self._group[place]
            if group >= 0:
                members = self._members[group]
                del members[bisect_left(members, place)]
                if not members:
                    del self._groups[self._keys[group]]
                    left.append(group)
        fresh = []
        for place in self.touched:
            pulls, n = tally.pulls[place], tally.counts[place]
            if not n:  # it starves: no rule is asked about it
                self._group[place] = -1
                continue
            key = (tally.means[place], pulls, n, tally.cells[place]) if pulls else (0.0, 0, n, ())
            group = self._groups.get(key, -1)
            if group < 0:
                group = left.pop() if left else self._free.pop()
                self._groups[key], self._keys[group] = group, key
                self._means.set(group, key[0] if pulls else -inf)
                self._far[group] = self._farthest * (0.5 + 0.5 * group / self._arms)  # not all end at one time
                fresh.append(group)
            insort(self._members[group], place)
            self._group[place] = group
        for group in left:
            self._means.set(group, -inf)
            self._keep(group, -inf, inf)
        self._free += left
        self.touched.clear()
        return fresh

    def _read_clock(self) -> None:
        tally = self._tally
        self._t, self._best = tally.t, self._means.scores[1]
        if tally.silent:
            self._best = max(self._best, tally.mean_of_all)
        match self._moves:
            case Moves.WITH_T:
                self._clock = float(self._t)
            case Moves.AGAINST_BEST:
                self._clock = -self._best

    def _renew(self, group: int, far: float) -> None:
        """Bound the index of a group as far ahead as that."""
        mean, pulls, n, cells = self._keys[group]
        if not pulls:  # its mean moves with every response: it is looked at each time
            self._keep(group, inf, inf)
            return
        self._far[group] = far
        match self._moves:
            case Moves.WITH_T:
                end = self._t + max(1.0, far * self._t)
                view = ArmView(mean, pulls, n - pulls, n, end, self._best, self._arms, cells)
            case Moves.AGAINST_BEST:
                lower = max(self._best - far * (self._best - mean), mean)
                end = -lower if lower > mean else inf  # the largest mean is never below this one
                view = ArmView(mean, pulls, n - pulls, n, self._t, lower, self._arms, cells)
        ahead = self._index(view, self._random, self._parameters)
        self._keep(group, ahead + MARGIN * (abs(ahead) + abs(mean)) if isfinite(ahead) else ahead, end)

    def _keep(self, group: int, bound: float, end: float) -> None:
        self._bounds.set(group, bound)
        self._ends.set(group, -end)

    def _look(self) -> int:
        """Return the first arm of largest index."""
        bounds, size = self._bounds.scores, self._bounds.size
        chosen, most, looked = -1, -inf, list[tuple[int, float]]()
        matches = [1]
        while matches:
            node = matches.pop()
            if bounds[node] < most:
                continue
            if node < size:
                node *= 2
                matches += (node, node + 1) if bounds[node] < bounds[node + 1] else (node + 1, node)
                continue
            group = node - size
            members = self._members[group]
            if not members:
                continue
            mean, pulls, n, cells = self._keys[group]
            if not pulls:
                mean, cells = self._tally.mean_of_all, self._tally.cells_of_all
            view = ArmView(mean, pulls, n - pulls, n, self._t, self._best, self._arms, cells)
            value = self._index(view, self._random, self._parameters)
            looked.append((group, value))
            if value > most or chosen < 0 or (value == most and members[0] < chosen):
                chosen, most = members[0], value
        if len(looked) > 1:
            self._tighten(looked, most)
        return chosen

    def _tighten(self, looked: list[tuple[int, float]], most: float) -> None:
        """Bring the bounds of the groups that were looked at in vain below what won, where there is room."""
        for group, value in looked:
            bound = self._bounds.scores[self._bounds.size + group]
            if value < most < bound < inf:
                enough = (most - value) / (bound - value) if isfinite(value) else 1.0
                far = self._far[group] * 0.5 * enough
                if self._moves is Moves.AGAINST_BEST or far * self._t >= 1:
                    self._renew(group, far)
